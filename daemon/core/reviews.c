/*
 * reviews.c -- every lock of a domain is reviewed: because Redis may have lost its data, grants again, or is reachable
 * again. What a review does with a claim is in reclaim.c.
 */
#include "daemon/core/reviews.h"

#include "daemon/core/bounds.h"
#include "daemon/core/dirty.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

void
lock_suspect(struct core *c, struct lock *l)
{
    lock_release_cached(c, l);
    lock_review(c, l, REVIEW_JUMPED);
}

static void
try_now(struct core *c, struct lock *l)
{
    if (!list_empty(&l->queue->claims)) {
        l->queue->hinted = l->queue->trying_n > 0;
        l->queue->retry_us = l->queue->yield_until_us;
        l->queue->failed_n = 0;
        lock_wake(c, l);
    }
}

/* Redis grants again: claims in doubt and waiters ask now. */
void
lock_redis_grants(struct core *c, struct lock *l)
{
    lock_round(c, l, ROUND_WAKE);
    try_now(c, l);
}

/* Lets the pending review of the domain come to this lock now; of very many claims each follows in a round. */
void
lock_join_review(struct core *c, struct lock *l)
{
    const struct review *rv = &lock_domain(c, l)->review;

    l->review = rv->number & ((1u << REVIEW_BITS) - 1);
    lock_release_cached(c, l);
    lock_review(c, l, (rv->lost ? REVIEW_LOST : 0) | (rv->jumped ? REVIEW_JUMPED : 0));
    if (rv->lost) {
        try_now(c, l);
    }
}

void
lock_redis_reached(struct core *c, struct lock *l)
{
    lock_round(c, l, ROUND_REACHED);
}
