/*
 * longs.h -- the memory of long answers of all sessions together: those being made, and those that wait to be read.
 *
 * The bound is LONGS_TIMES answers of the greatest length. Beyond it, the session that has left one unread for longest
 * is closed, like one that does not read its output; and if that is not enough, answers being made are refused.
 */
#ifndef RLOCKD_SERVE_LONGS_H
#define RLOCKD_SERVE_LONGS_H

#include "daemon/serve/session.h"

enum { LONGS_TIMES = 16 };

/* So many bytes more, or fewer, are in the making. */
void longs_make(struct engine *e, size_t was, size_t now);

/* A long reply of the session waits to be read, behind earlier output. The session may be the one that is closed. */
void longs_wait(struct session *s, size_t bytes);

/* So much of it is about to be read; all has been, or the session has ended. */
void longs_leave(struct session *s, size_t bytes);
void longs_over(struct session *s);

/* The bound is passed, and no session has a reply that waits unread: closes sessions with long replies, first. */
bool longs_crowded(struct engine *e);

#endif
