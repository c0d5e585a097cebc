/*
 * pool.h -- memory that records give back when they are idle and take again when they are not, so that an idle one
 * holds none and a busy loop allocates none. Bounded: what does not fit is freed.
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

/* All zero: empty. */
struct pool {
    struct buf buf[POOL_BUFS];
    unsigned bufs_n;
    void *ring[POOL_RINGS]; /* all of one size, which is its users' */
    unsigned rings_n;
    void *marks[POOL_MARKS]; /* the same */
    unsigned marks_n;
};

/* Gives memory to a buf that has none; where the pool has none either, the buf will find its own. */
void pool_lend(struct pool *p, struct buf *b);

/* Takes its memory: the buf is empty then, and not failed. */
void pool_take_back(struct pool *p, struct buf *b);

/* A ring, or NULL; takes one back. */
void *pool_ring(struct pool *p);
void pool_take_ring(struct pool *p, void *ring);

/* The same for the marks of an outbox. */
void *pool_marks(struct pool *p);
void pool_take_marks(struct pool *p, void *marks);

void pool_fini(struct pool *p);

#endif
