/*
 * sessions.h -- sessions: how they are found, and woken.
 */
#ifndef RLOCKD_SERVE_SESSIONS_H
#define RLOCKD_SERVE_SESSIONS_H

#include <stdint.h>

struct engine;
struct session;

/* The session with this id; NULL: it has ended. */
struct session *session_find(struct engine *e, uint64_t id);

/* The session that came next after this id, 0 = the first; NULL: none did. Ids rise. */
struct session *session_after(struct engine *e, uint64_t id);
uint64_t session_newest(const struct engine *e); /* the newest id; 0 = there is no session */

/* Gives the session its turns of input and of output soon. */
void session_wake(struct session *s);

/* Lets the session write soon, behind sessions with a reply to write. */
void session_wake_to_write(struct session *s);

/* The process of the session has ended: its peer is lost, see session_lose_peer(). */
void session_orphan(struct session *s);

/* The peer cannot receive any more. Some of its requests are still executed: an UNLOCK may be among them. */
void session_lose_peer(struct session *s);

#endif
