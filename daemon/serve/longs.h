/*
 * longs.h -- what long answers take of memory, of all sessions together: those in the making, and those that wait to be
 * read.
 *
 * All may have as much as LONGS_TIMES answers that are as long as one may be. Where there is more, who has had one
 * unread for longest is closed, as one who does not read its output; and where that is not enough, what is in the
 * making is refused.
 */
#ifndef RLOCKD_SERVE_LONGS_H
#define RLOCKD_SERVE_LONGS_H

#include "daemon/serve/session.h"

enum { LONGS_TIMES = 16 };

/* So many bytes more, or fewer, are in the making. */
void longs_make(struct engine *e, size_t was, size_t now);

/* A long answer of the session waits to be read, behind what it has already. It may be the one that is closed. */
void longs_wait(struct session *s, size_t bytes);

/* So much of it is about to be read; all has been, or the session has ended. */
void longs_leave(struct session *s, size_t bytes);
void longs_over(struct session *s);

/* There is more than there may be, and nobody has one that waits: closes those who have, first. */
bool longs_crowded(struct engine *e);

#endif
