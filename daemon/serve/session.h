/*
 * session.h -- one connection: bytes, requests in order, replies in order.
 *
 * Replies leave in slot order, and not one byte leaves unasked: pushes go only to sessions that subscribed or monitor,
 * and they too wait behind a half-written reply, never inside one.
 *
 * A session is found by id across every asynchronous gap; closing is final, sends the core SESSION_GONE, and the memory
 * goes at the end of the turn.
 */
#ifndef RLOCKD_SERVE_SESSION_H
#define RLOCKD_SERVE_SESSION_H

#include <stdbool.h>

#include "proto/errors.h"

struct engine;
struct session;

/* Sends the error to a client that gets no session. */
void session_refuse(int fd, enum error_code code);

/* Takes the accepted fd (owned from now on). NULL when a limit or the kernel refuses it; the fd is closed then. */
struct session *session_open(struct engine *e, int fd, bool is_unix, const char *addr);

/*
 * Called by a turn: reads a bounded number of bytes if there are any, and runs a bounded number of requests. False:
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
