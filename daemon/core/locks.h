/*
 * locks.h -- the floor "locks" of core.h: what happens to a name and its claims; private to daemon/core.
 */
#ifndef RLOCKD_CORE_LOCKS_H
#define RLOCKD_CORE_LOCKS_H

#include <stdbool.h>

#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

struct claim;
struct request;

/* locks.c */
enum core_answer lock_get(struct core *c, const struct core_request *rq, bool any_kind, struct lock **out);
/*
 * Between two steps: the name is free. Its record stays only so that remote waiters have their turn, and refuses no
 * request.
 */
bool lock_is_vacant(const struct lock *l);
void lock_advance(struct core *c); /* advances the first dirty lock; may free it */
void lock_hint(struct core *c, struct lock *l, bool confirmed); /* HINT; confirmed: SUBSCRIBED */
void lock_publish_wanted(struct core *c, const struct lock *l, bool shared); /* publishes WANTED to holders */
void lock_drain(struct core *c, struct lock *l);
void lock_free(struct core *c, struct lock *l);

/* breaks.c */
void break_begin(struct core *c, struct request *r);
void break_done(struct core *c, struct lock *l, const struct core_done *d);
/* The name was broken, or may have been, here or elsewhere. token: that of the BREAK; 0 = not known. */
void break_suspect(struct core *c, struct lock *l, uint64_t token);
bool break_next(struct core *c, struct lock *l); /* the name was broken: its next former holder loses the lock;
                                                    false: none is left */

/* attempts.c */
void attempts_advance(struct core *c, struct lock *l, struct claim *next);

/* outcomes.c */
void outcome_arrives(struct core *c, struct claim *cl, const struct core_done *d);

/* serving.c */
void serve_claim(struct core *c, struct claim *cl); /* HELD: serves the next requests of its owner */

/* turns.c */
void claim_timer(struct core *c, struct claim *cl);
/*
 * An event is about this claim: what is due for it, and what a job has still to do with it, comes first, as if there
 * were no slices. The claim is not freed.
 */
void claim_catch_up(struct core *c, struct claim *cl);
void windows_advance(struct core *c); /* lets waiting claims send, as many as there is room for */

/* reviews.c */
void review_suspect(struct core *c, struct lock *l); /* it may have been broken: begins a review of it alone */
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

/* round_work.c */
/* does the work of one claim; false: none was left, and rd is freed */
bool round_next(struct core *c, struct round *rd);
void round_run(struct core *c, struct lock *l, enum round_kind kind); /* at once, or as a job */
void round_review(struct core *c, struct lock *l, unsigned why);                  /* ROUND_REVIEW, for REVIEW_* */

/* waiter_polls.c */
void waiter_poll_join(struct core *c, struct lock *l); /* the lock stays here: Redis is asked for remote waiters */
void waiter_poll_timer(struct core *c);
void waiter_poll_done(struct core *c, const struct core_waiters_polled *d);
void waiter_poll_found(struct core *c, struct lock *l); /* a remote waiter is known */

/* handoff.c */
/* Hands the lock to the next waiter. False: nothing was done. */
bool handoff_to_next(struct core *c, struct claim *cl, struct request *r);
/* Caches the lock for the next request. False: nothing was done. */
bool handoff_cache(struct core *c, struct claim *cl, struct request *r);
/* CACHED, and r is of its last owner: grants the claim to r. False: it is being released. */
bool handoff_reuse(struct core *c, struct claim *cl, struct request *r);
/* CACHED: grants the claim to the next waiter, and returns it. NULL: it is being released. */
struct claim *handoff_from_cache(struct core *c, struct lock *l);

#endif
