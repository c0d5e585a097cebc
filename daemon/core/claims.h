/*
 * claims.h -- the records of claims: how they are made, move, are armed, kept and freed; private to daemon/core.
 *
 * State is location: a claim's state names the list of its lock that it is on, and claim_move() alone changes both.
 */
#ifndef RLOCKD_CORE_CLAIMS_H
#define RLOCKD_CORE_CLAIMS_H

#include "daemon/core/claim.h"
#include "daemon/core/lock.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/* claims.c */
void claim_refer(struct core *c, struct claim *cl, int by); /* by: the change of claim.refs */
struct claim *claim_new(struct core *c, struct lock *l, struct owner *o);
void claim_move(struct core *c, struct claim *cl, enum claim_state to);
void claim_arm(struct core *c, struct claim *cl);
void claim_enqueue(struct core *c, struct claim *cl, const struct request *r);
void claim_put_last(struct core *c, struct claim *cl);
void claim_put_by_ticket(struct core *c, struct claim *cl);
void claim_free(struct core *c, struct claim *cl);
bool claim_renew_is_next(const struct claim *cl, int64_t at_us); /* the timer is armed to at_us for the renewal */
bool claim_busy(const struct claim *cl);                 /* no operation may be sent for the claim now */
void claim_end_renewal(struct core *c, struct claim *cl); /* the renewal was answered, or its answer counts no more */
bool claim_wants_shared(const struct claim *cl); /* the first LOCK that waits in it is SHARED */

/* checkpoints.c */
void checkpoint_store(struct core *c, struct claim *cl);  /* stores its checkpoint anew if the claim has changed */
void checkpoint_grace_raised(struct core *c, struct claim *cl); /* its owner has a longer grace from now on */
void checkpoint_drop(struct core *c, struct claim *cl); /* drops its checkpoint */
void checkpoint_check(const struct core *c, const struct claim *cl); /* asserts that its checkpoint equals the claim */

/*
 * The request for which the claim's operation was sent, or is to be sent again; NULL: there is none, or it has ended.
 */
static inline struct request *
claim_op_request(const struct claim *cl)
{
    return cl->op_for_request ? container_of(cl->requests.next, struct request, claim_node) : NULL;
}

/* An operation failed: again later, and later each time. */
static inline void
claim_back_off(const struct core *c, struct claim *cl)
{
    cl->failed_n += cl->failed_n < BACKOFF_TIMES;
    cl->retry_us = after_us(c->now_us, backoff_us(cl->failed_n));
}

#endif
