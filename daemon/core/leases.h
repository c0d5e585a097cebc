/*
 * leases.h -- what a claim asks Redis for, and the position that it keeps in the queue; private to daemon/core.
 */
#ifndef RLOCKD_CORE_LEASES_H
#define RLOCKD_CORE_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/core.h"

struct claim;
struct core;
struct lock;
struct request;

/* operations.c */
void op_acquire(struct core *c, struct claim *cl); /* QUEUED, with a request: asks Redis for the lock */
void op_renew(struct core *c, struct claim *cl); /* renews the lease; when QUEUED, the ticket */
void op_renew_in_turn(struct core *c, struct claim *cl); /* renews as soon as the window has room */
void op_release(struct core *c, struct claim *cl, struct request *r); /* r: the UNLOCK that asks for it, or NULL */
void op_abandon(struct core *c, struct claim *cl); /* ignores the outcome of the operation in flight */
void op_reclaim_holds(struct core *c, struct claim *cl, bool shared); /* reclaims holds that Redis may have lost */
/* a request waits: releases that wait for their turn in a window leave now, if they are among the first claims */
void op_send_releases(struct core *c, struct lock *l);
void op_begin(struct core *c, struct claim *cl, enum core_action_type verb, uint32_t holds, bool shared,
              int64_t lease_us, struct request *r); /* for a claim TRYING, HELD or RELEASING */
void op_release_cached(struct core *c, struct lock *l);

/* reclaim.c */
void reclaim_redis_grants(struct core *c, struct claim *cl);
void reclaim_review(struct core *c, struct claim *cl); /* reviews the claim for the reasons in lock.review_why */
/* asks Redis about what is to be verified, if no operation is in flight */
void reclaim_verify_now(struct core *c, struct claim *cl);
void reclaim_redis_reached(struct core *c, struct claim *cl);

/* positions.c */
void position_abandoned(struct core *c, struct claim *cl, bool for_good); /* for good: it is not kept */
void position_give_up(struct core *c, struct claim *cl);
bool position_may_be_kept(const struct core *c, const struct lock *l);
/* gives up a position that is kept without requests */
void position_drop_kept(struct core *c, struct claim *cl);

#endif
