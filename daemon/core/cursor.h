/*
 * cursor.h -- the record of a reader of all locks, or of all waiters: view.h.
 */
#ifndef RLOCKD_CORE_CURSOR_H
#define RLOCKD_CORE_CURSOR_H

#include <stdint.h>

#include "daemon/base/list.h"

#define CORE_CURSOR_OVER UINT64_MAX

/*
 * Reads all locks, or all waiters, in pieces: every name that exists at the start and is not freed meanwhile; later
 * names may be missing. The memory of a cursor is the reader's, and must not move before the cursor is at its end.
 */
struct core_cursor {
    struct list node;      /* core.cursors; linked = there is more */
    struct list *next, *last; /* lock.all of the next lock, and of the last lock of its domain */
    uint64_t waiter;       /* core_cursor_waiters(): the next on the queue; 0 = the first; or CORE_CURSOR_OVER */
    uint32_t position;     /* of the waiter before that one */
};

#endif
