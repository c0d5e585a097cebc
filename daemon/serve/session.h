/*
 * session.h -- one connection: bytes, requests in order, replies in order.
 *
 * Replies leave in slot order, and not one byte leaves unasked: pushes go only to sessions that subscribed or monitor,
 * and they too wait behind a half-written reply, never inside one.
 *
 * A session is found by id across every asynchronous gap; closing is final, tells the core GONE, and the memory goes at
 * the end of the turn.
 */
#ifndef RLOCKD_SERVE_SESSION_H
#define RLOCKD_SERVE_SESSION_H

#include "daemon/serve/session_record.h"

/* ---- sessions.c ---- */

/* The session with this id; NULL: it has ended. */
struct session *session_find(struct engine *e, uint64_t id);

/* The session that came next after this id, 0 = the first; NULL: none did. Ids rise. */
struct session *session_after(struct engine *e, uint64_t id);
uint64_t session_newest(const struct engine *e); /* the newest id; 0 = there is no session */

/* Gives the session its turns soon: to hand something in, and to write. */
void session_wake(struct session *s);

/* Lets the session write soon, behind sessions with a reply to write. */
void session_wake_to_write(struct session *s);

/* The process of the session has ended: its requests are executed, replies are dropped, and the session ends. */
void session_orphan(struct session *s);

/* The peer cannot receive any more. Some of its requests are still executed: an UNLOCK may be among them. */
void session_lose_peer(struct session *s);

/* ---- session_end.c ---- */

/*
 * Ends the session now: the core gets GONE, unwritten output gets one last send(), memory goes at the end of the turn.
 */
void session_close(struct session *s, enum close_reason reason);

/* Stops reading, writes what is left, then closes. */
void session_quit(struct session *s);

/* ---- session.c and others ---- */

/* Takes the accepted fd (owned from now on). NULL when a limit or the kernel refuses it; the fd is closed then. */
struct session *session_open(struct engine *e, int fd, bool is_unix, const char *addr);

/*
 * Where to write the reply of slot `id`, and how; call session_replied() when all of it is written. NULL: the session
 * has gone.
 */
struct outbox *session_reply(struct session *s, uint64_t id, enum reply_form *form);
void session_replied(struct session *s, uint64_t id);

/*
 * Appends `more` behind what was written of the oldest slot's reply; takes `more`, and copies no byte. NULL: nothing.
 */
void session_append(struct session *s, struct pieces *more);

/*
 * Answers slot `id` with the whole reply, which is taken. Unknown ids (of a closed session) are ignored. `more`, of the
 * oldest slot only, follows the reply; NULL: nothing.
 */
void session_answer(struct engine *e, uint64_t session, uint64_t id, struct outbox *reply, struct pieces *more);

/*
 * A push for a subscriber or monitor: whole frames only. It relies on `g`; NULL: on nothing. losses: metrics.lost then.
 */
void session_push(struct session *s, struct slice bytes, const struct core_grant *g, uint64_t losses);

/*
 * From engine_turn_end: reads a bounded number of bytes if there are any, and runs a bounded number of requests. False:
 * there was nothing to do.
 */
bool session_input(struct session *s);

/* After all input of the turn: runs deferred commands whose turn has come, then writes once. True: more to do. */
bool session_turn(struct session *s);

/* Closes a session whose deadline (engine.due) has passed. */
void session_overdue(struct session *s);

/* Frees a closed session; from the end of the turn. */
void session_free(struct session *s);

#endif
