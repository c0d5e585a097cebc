/*
 * cursor.h -- the record of a reader of all locks, or of all waiters: view.h.
 */
#ifndef RLOCKD_CORE_CURSOR_H
#define RLOCKD_CORE_CURSOR_H

#include <stdint.h>

struct bookmark;

/*
 * Reads all locks, or all waiters, in pieces: every name that exists at the start and is not freed meanwhile; later
 * names may be missing. The memory of a cursor is the reader's; one that is all zero is at its end.
 */
struct core_cursor {
    struct bookmark *next;   /* at the next lock; NULL: the cursor is at its end */
    struct bookmark *last;   /* behind the last lock that its domain had when the cursor came there */
    struct bookmark *waiter; /* core_cursor_waiters(): at the next claim in the queue; NULL: at the first */
    uint32_t moves;          /* bookmark.moves of `next` at the end of the last slice */
    uint32_t position;       /* of the waiter before `waiter` */
    uint32_t domain;         /* that the next lock is in */
};

#endif
