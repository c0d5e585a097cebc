/*
 * reviews.h -- the review of one lock, because Redis may not have it any more; and what is done with the lock when
 * Redis grants again, or can be reached again. Private to daemon/core.
 */
#ifndef RLOCKD_CORE_REVIEWS_H
#define RLOCKD_CORE_REVIEWS_H

#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

/* reviews.c */
void review_suspect(struct core *c, struct lock *l);    /* it may have been broken: begins a review of it alone */
void review_redis_grants(struct core *c, struct lock *l); /* Redis grants again: waiters try now */
void review_join(struct core *c, struct lock *l); /* for lock_catch_up(): a review has not reached the lock yet */
void review_redis_reached(struct core *c, struct lock *l); /* Redis can be reached: sends what was put off */

static inline void
lock_catch_up(struct core *c, struct lock *l)
{
    if (l->domain_review != lock_domain(c, l)->review.number) {
        review_join(c, l);
    }
}

#endif
