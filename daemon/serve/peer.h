/*
 * peer.h -- the other end of a session's socket, and whether it is still there.
 */
#ifndef RLOCKD_SERVE_PEER_H
#define RLOCKD_SERVE_PEER_H

#include "daemon/serve/session_record.h"

/*
 * The keyed hash of the session's user, for the limits per user: a Unix uid, an IPv4 address, or a /64 of IPv6 (one
 * host has 2^64 addresses). Once the peer is known; never 0.
 */
uint64_t user_key(const struct session *s);

/* Fills session.peer (and pid, uid, gid of a Unix peer); has the kernel watch a TCP peer. */
void peer_identify(struct session *s);

/*
 * From now on, while dead_process is on, the session ends when the process that connected ends, even if a child of that
 * process keeps the socket.
 */
void peer_watch(struct session *s);

/*
 * dead_peer and dead_process may have changed: both apply to existing sessions as well, dead_process also to those
 * whose process has ended meanwhile. peer_turn() gives dead_peer to some sockets in each turn.
 */
void peer_reload(struct engine *e);
bool peer_turn(struct engine *e); /* true: some are left for the next turn */

/* The process that connected is watched, and has no other session here. */
bool peer_is_only_session(const struct session *s);

/* The session has ended. */
void peer_leave(struct session *s);

#endif
