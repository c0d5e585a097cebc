/*
 * pool.c -- three stacks: memory that came back last is likely in the processor's cache, and is given first.
 */
#include "daemon/base/pool.h"

#include <stdlib.h>

void
pool_lend(struct pool *p, struct buf *b)
{
    if (b->p == NULL && p->bufs_n > 0) {
        const struct buf *from = &p->buf[--p->bufs_n];

        b->p = from->p;
        b->room = from->room;
    }
}

void
pool_take_back(struct pool *p, struct buf *b)
{
    buf_clear(b, p->bufs_n < POOL_BUFS ? POOL_BUF_BYTES : 0);
    if (b->p != NULL) {
        p->buf[p->bufs_n++] = (struct buf){.p = b->p, .room = b->room};
        *b = (struct buf){.max = b->max};
    }
}

void *
pool_lend_ring(struct pool *p)
{
    return p->rings_n > 0 ? p->ring[--p->rings_n] : NULL;
}

void
pool_take_back_ring(struct pool *p, void *ring)
{
    if (p->rings_n < POOL_RINGS) {
        p->ring[p->rings_n++] = ring;
    } else {
        free(ring);
    }
}

void *
pool_lend_marks(struct pool *p)
{
    return p->marks_n > 0 ? p->marks[--p->marks_n] : NULL;
}

void
pool_take_back_marks(struct pool *p, void *marks)
{
    if (p->marks_n < POOL_MARKS) {
        p->marks[p->marks_n++] = marks;
    } else {
        free(marks);
    }
}

void
pool_fini(struct pool *p)
{
    while (p->marks_n > 0) {
        free(p->marks[--p->marks_n]);
    }
    while (p->bufs_n > 0) {
        buf_fini(&p->buf[--p->bufs_n]);
    }
    while (p->rings_n > 0) {
        free(p->ring[--p->rings_n]);
    }
}
