/*
 * longs.h -- the memory of long answers of all sessions together: those being made, and those that wait to be read.
 *
 * The bound is LONGS_TIMES answers of the greatest length. Beyond it, the session that has left a long answer unread
 * for longest is closed, like one that does not read its output; if that is not enough, answers being made are refused.
 */
#ifndef RLOCKD_SERVE_LONGS_H
#define RLOCKD_SERVE_LONGS_H

#include "daemon/serve/session_record.h"

enum { LONGS_TIMES = 16 };

/* An answer in the making has changed from `was` to `now` bytes. */
void longs_recount(struct engine *e, size_t was, size_t now);

/* A long reply of the session waits to be read, behind earlier output. The session may be the one that is closed. */
void longs_wait(struct session *s, size_t bytes);

/* So many bytes of a long reply are about to leave. longs_over(): all have left, or the session has ended. */
void longs_leave(struct session *s, size_t bytes);
void longs_over(struct session *s);

/*
 * Closes sessions with an unread long reply, the oldest first, until the bound holds. True: it does not hold even
 * without any such session.
 */
bool longs_crowded(struct engine *e);

#endif
