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
void claim_try(struct core *c, struct claim *cl);        /* QUEUED, with a request: asks Redis for the lock */
void claim_renew(struct core *c, struct claim *cl);      /* renews the lease; when QUEUED, the ticket */
void claim_renew_in_turn(struct core *c, struct claim *cl); /* renews as soon as the window has room */
void claim_release(struct core *c, struct claim *cl, struct request *r);
void claim_forget_op(struct core *c, struct claim *cl);
void claim_reclaim(struct core *c, struct claim *cl, bool shared); /* reclaims holds that Redis may have lost */
/* for a waiter: a release that waits for its turn leaves now */
void lock_send_releases(struct core *c, struct lock *l);
void claim_begin_op(struct core *c, struct claim *cl, enum core_action_type verb, uint32_t holds, bool shared,
                    int64_t lease_us, struct request *r); /* for a claim HELD or RELEASING */
void lock_release_cached(struct core *c, struct lock *l);

/* outcomes.c */
void claim_done(struct core *c, struct claim *cl, const struct core_done *d);

/* ends.c */
void claim_lose(struct core *c, struct claim *cl, const char *reason, bool gone_in_redis);
void claim_lapsed(struct core *c, struct claim *cl);   /* the lease has ended, or the name was broken: ends the hold */
void claim_freed(struct core *c, struct claim *cl, bool news);
void claim_keep_loss(struct core *c, struct claim *cl); /* LOST, until the loss is reported */
void claim_loss_expired(struct core *c, struct claim *cl); /* forgets the loss, because its owner has not asked for so
                                                              long */
void claim_loss_reported(struct core *c, struct claim *cl);
void claim_report_end(struct core *c, struct claim *cl); /* the owner has been told that the hold has ended */
void claim_forget_loss(struct core *c, struct claim *cl); /* forgets the loss of this claim: its owner knows, or is not
                                                             to be told */

/* reclaim.c */
void claim_redis_grants(struct core *c, struct claim *cl);
void claim_review(struct core *c, struct claim *cl);  /* reviews the claim for the reasons in lock.review_why */
void claim_verify_now(struct core *c, struct claim *cl); /* asks Redis about what is to be verified, if no operation is
                                                            in flight */
void claim_redis_reached(struct core *c, struct claim *cl);

/* positions.c */
void claim_abandoned(struct core *c, struct claim *cl, bool for_good); /* for good: no ticket is kept */
void claim_give_up_position(struct core *c, struct claim *cl);
/* gives up a position that is kept without requests */
void claim_drop_kept_position(struct core *c, struct claim *cl);

/* grants.c */
/* HELD now: the first of its requests is answered; claim_serve() goes on with the others */
void claim_grant(struct core *c, struct claim *cl, int64_t tried_us, int64_t sent_us);
void claim_plan_renewal(const struct core *c, struct claim *cl, int64_t sent_us);

#endif
