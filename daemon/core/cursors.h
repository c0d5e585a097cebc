/*
 * cursors.h -- where cursors go on in their next slice; private to daemon/core.
 */
#ifndef RLOCKD_CORE_CURSORS_H
#define RLOCKD_CORE_CURSORS_H

#include "daemon/core/cursor.h"

struct claim;
struct core;
struct lock;

void cursor_begin(struct core *c, struct core_cursor *w);
void cursor_end(struct core *c, struct core_cursor *w); /* harmless if it has ended */
/* The next lock of the cursor, and the next claim in its queue. NULL: there is none; of the lock: it is over. */
struct lock *cursor_resume(struct core *c, struct core_cursor *w, struct claim **waiter);
/* The lock behind `l`, with the first claim in its queue. */
struct lock *cursor_next(struct core *c, struct core_cursor *w, const struct lock *l, struct claim **waiter);
/* The slice ends: the cursor goes on with `l` (NULL: it is over), and with this claim in its queue. */
void cursor_suspend(struct core *c, struct core_cursor *w, struct lock *l, struct claim *waiter);

/* Bookmarks move; each of these takes the same time however many cursors there are. */
void cursors_join(struct core *c, struct lock *l);        /* a new last lock; its domain has a bookmark at the end */
void cursors_leave(struct core *c, struct lock *l);       /* the lock is about to be freed */
void cursors_pass(struct core *c, struct claim *cl);      /* the claim is about to leave its position in the queue */

#endif
