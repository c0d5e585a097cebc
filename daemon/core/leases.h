/*
 * leases.h -- what a claim asks Redis for, what the answers mean, and how it ends; private to daemon/core.
 */
#ifndef RLOCKD_CORE_LEASES_H
#define RLOCKD_CORE_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/claim.h"
#include "daemon/core/core.h"

struct core;
struct lock;
struct request;

/* operations.c */
bool claim_busy(const struct claim *cl);                 /* no operation may be sent for it now */
void claim_try(struct core *c, struct claim *cl);        /* asks Redis for it; QUEUED, somebody waits */
void claim_serve(struct core *c, struct claim *cl);      /* goes on with what its owner asks; HELD */
void claim_renew(struct core *c, struct claim *cl);      /* of the lease; of the place, when QUEUED */
void claim_renew_in_turn(struct core *c, struct claim *cl); /* the same, when there is room in the window */
void claim_renew_over(struct core *c, struct claim *cl); /* it was answered, or what it finds is no news any more */
void claim_release(struct core *c, struct claim *cl, struct request *r);
void claim_put_off(const struct core *c, struct claim *cl); /* an operation failed: again later, and later each time */
void claim_forget_op(struct core *c, struct claim *cl);
void claim_reassert(struct core *c, struct claim *cl, bool shared); /* holds that Redis may have lost */
int64_t claim_left_us(const struct core *c, const struct claim *cl); /* the lease to ask Redis for to keep it as long */

/* outcomes.c */
void claim_done(struct core *c, struct claim *cl, const struct core_done *d);
void claim_grant(struct core *c, struct claim *cl, int64_t since_us); /* HELD now: its requests are answered */
void claim_lasts(struct claim *cl, int64_t from_us, int64_t lease_us); /* in Redis, perhaps; never less than before */
/* LATE_*, one more */
void claim_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t until_us);
void guards_move(struct core *c, int64_t back_us); /* Redis's clock was set back by so much */

/* ends.c */
void claim_deserted(struct core *c, struct claim *cl, bool for_good); /* for good: no ticket is kept */
void claim_desert(struct core *c, struct claim *cl);
/* nobody asks for it: a ticket that is kept is not any more */
void claim_leaves_queue(struct core *c, struct claim *cl);
void claim_lose(struct core *c, struct claim *cl, const char *reason, bool in_redis);
void claim_over(struct core *c, struct claim *cl);     /* its lease has ended, or it was broken */
void claim_freed(struct core *c, struct claim *cl, bool news);
void claim_lost(struct core *c, struct claim *cl);     /* its owner does not know yet */
void claim_lost_over(struct core *c, struct claim *cl); /* ... and will not: nobody asked for so long */
void claim_told_lost(struct core *c, struct claim *cl);
void claim_told_over(struct core *c, struct claim *cl); /* ... if it is not held any more, or was lost */
void claim_forget_loss(struct core *c, struct claim *cl); /* of that one; its owner is not to be told, or knows */
void claim_untold(struct core *c, const struct core_grant *g, bool told); /* lost; told: its owner knows */
void claim_owner_ends(struct core *c, struct claim *cl);

/* reclaim.c */
void reclaim_begin(struct core *c, uint64_t epoch);   /* Redis may have lost all that is held */
void reclaim_confirm(struct core *c);                 /* a clock has jumped: is all that is held still there? */
void lock_granting(struct core *c, struct lock *l);   /* Redis grants again, or has other data: who waits tries now */
void claim_granting(struct core *c, struct claim *cl);
void claim_review(struct core *c, struct claim *cl);  /* for the reasons of its lock's review, once */
void reclaim_end(struct core *c);                     /* of a step in an epoch: says so when all is asserted */
void claim_verify(struct core *c, struct claim *cl, unsigned verify);
void lock_join_review(struct core *c, struct lock *l); /* lock_meet(), where a review has not been yet */
void lock_suspect(struct core *c, struct lock *l);    /* Redis may not have it any more */
void claim_settle(struct core *c, struct claim *cl);  /* asks Redis about a doubt, if nothing else is under way */

#endif
