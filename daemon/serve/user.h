/*
 * user.h -- whose a connection is: of a Unix uid, or of an address.
 *
 * A host has 2^64 addresses of IPv6, so there the upper half counts.
 */
#ifndef RLOCKD_SERVE_USER_H
#define RLOCKD_SERVE_USER_H

#include <stdint.h>

struct session;

/* The keyed hash of who is at the other end, once the peer is known; never 0. */
uint64_t user_key(const struct session *s);

#endif
