/*
 * user.h -- the user of a connection, for the limits per user: a Unix uid, an IPv4 address, or a /64 of IPv6 (one host
 * has 2^64 addresses).
 */
#ifndef RLOCKD_SERVE_USER_H
#define RLOCKD_SERVE_USER_H

#include <stdint.h>

struct session;

/* The keyed hash of the session's user, once the peer is known; never 0. */
uint64_t user_key(const struct session *s);

#endif
