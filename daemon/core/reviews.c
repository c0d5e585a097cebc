/*
 * reviews.c -- the review of one lock: Redis may have lost it, a clock has jumped, or it may have been broken. And what
 * is done with the lock when Redis grants again, or can be reached again. What follows for each claim is in reclaim.c.
 */
#include "daemon/core/locks.h"

#include "daemon/core/bounds.h"
#include "daemon/core/dirty.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

void
review_suspect(struct core *c, struct lock *l)
{
    op_release_cached(c, l);
    round_review(c, l, REVIEW_SUSPECT);
}

static void
try_now(struct core *c, struct lock *l)
{
    if (!list_empty(&l->queue->claims)) {
        l->queue->hinted = l->queue->trying_n > 0;
        l->queue->retry_us = l->queue->yield_until_us;
        l->queue->failed_n = 0;
        dirty_mark_lock(c, l);
    }
}

/* Redis grants again: claims that are to be verified, and waiters, ask now. */
void
review_redis_grants(struct core *c, struct lock *l)
{
    round_run(c, l, ROUND_GRANTING);
    try_now(c, l);
}

/* The pending review of the domain reviews this lock now; very many claims follow in a round. */
void
review_join(struct core *c, struct lock *l)
{
    const struct review *rv = &lock_domain(c, l)->review;

    l->domain_review = rv->number & ((1u << DOMAIN_REVIEW_BITS) - 1);
    op_release_cached(c, l);
    round_review(c, l, (rv->lost ? REVIEW_LOST : 0) | (rv->jumped ? REVIEW_SUSPECT : 0));
    if (rv->lost) {
        try_now(c, l);
    }
}

void
review_redis_reached(struct core *c, struct lock *l)
{
    round_run(c, l, ROUND_REACHED);
}
