/*
 * pool.h -- buffers, rings (of reply slots) and marks (of an outbox): idle records give them back, busy ones take them.
 * So an idle record has none, and a busy loop allocates none. The pool is bounded: it frees what does not fit.
 *
 * (glibc's malloc keeps seven blocks of a size at hand; a turn may need as many as it has sessions.)
 */
#ifndef RLOCKD_BASE_POOL_H
#define RLOCKD_BASE_POOL_H

#include "daemon/base/buf.h"

enum {
    POOL_BUFS = 512,
    POOL_BUF_BYTES = 1024, /* larger ones are freed */
    POOL_RINGS = 128,
    POOL_MARKS = 512,
};

/* Zeroed: empty. */
struct pool {
    struct buf buf[POOL_BUFS];
    unsigned bufs_n;
    void *ring[POOL_RINGS]; /* all of one size, which the callers know */
    unsigned rings_n;
    void *marks[POOL_MARKS]; /* all of one size, which the callers know */
    unsigned marks_n;
};

/* Gives memory to a buf that has none. If the pool is empty, the buf will allocate. */
void pool_lend(struct pool *p, struct buf *b);

/* Takes the memory of a buf, which is empty and not failed after that. */
void pool_take_back(struct pool *p, struct buf *b);

/* Returns a ring, or NULL; takes a ring back. */
void *pool_lend_ring(struct pool *p);
void pool_take_back_ring(struct pool *p, void *ring);

/* Likewise for the marks of an outbox. */
void *pool_lend_marks(struct pool *p);
void pool_take_back_marks(struct pool *p, void *marks);

void pool_fini(struct pool *p);

#endif
