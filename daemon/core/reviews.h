/*
 * reviews.h -- every lock of a domain is reviewed: Redis may have lost it, grants again, or can be reached again;
 * private to daemon/core.
 */
#ifndef RLOCKD_CORE_REVIEWS_H
#define RLOCKD_CORE_REVIEWS_H

#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

/* reviews.c */
void lock_suspect(struct core *c, struct lock *l);    /* Redis may not have the lock any more */
void lock_redis_grants(struct core *c, struct lock *l); /* Redis grants again, or has other data: waiters try now */
void lock_join_review(struct core *c, struct lock *l); /* of lock_catch_up(): a review has not reached the lock yet */
void lock_redis_reached(struct core *c, struct lock *l); /* Redis can be reached: sends what was put off */

static inline void
lock_catch_up(struct core *c, struct lock *l)
{
    if (l->review != lock_domain(c, l)->review.number) {
        lock_join_review(c, l);
    }
}

#endif
