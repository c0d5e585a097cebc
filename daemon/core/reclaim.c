/*
 * reclaim.c -- holds that Redis may not have any more.
 *
 * Redis has lost data (RECLAIM): every claim that is held asks for its holds anew, as they are, with its old token. In
 * the grace period Redis grants nothing else, so no other owner can have been granted the name meanwhile. If another
 * owner holds it all the same, the hold is lost; so is a hold that could not be reclaimed before its deadline. When no
 * claim is left to verify, RECLAIMED is sent. When a clock has jumped (SUSPECT), or another daemon has broken the name,
 * every claim asks whether Redis still has it.
 *
 * Until Redis has answered, nothing is served for the claim: new requests wait. Requests from before, and a multilock
 * that waited for another name, are answered all the same: when they were granted, Redis had the claim.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"
#include "daemon/core/window.h"

void
reclaim_verify_now(struct core *c, struct claim *cl)
{
    if (claim_busy(cl) || cl->retry_us > c->now_us) {
        return;
    }
    if (uncertain_to_verify(cl) & VERIFY_LOST) {
        if (window_may_send(c, cl, WINDOW_RECLAIM)) {
            op_reclaim_holds(c, cl, (uncertain_to_verify(cl) & VERIFY_HOLDS) == 0);
        }
    } else if (!cl->renewal_sent) {
        op_renew_in_turn(c, cl);
    }
}

/* HELD: to be verified from now on. Redis is asked in turn (window.c), or when the operation under way is answered. */
static void
verify(struct core *c, struct claim *cl, unsigned why)
{
    uncertain_set_verify(c, cl, why);
    window_leave(c, cl); /* if it waited there for a renewal: another operation may come first now */
    cl->retry_us = 0;
    if (!claim_busy(cl) && !claim_renewal_pending(cl)) {
        window_join(c, cl, why & VERIFY_LOST ? WINDOW_RECLAIM : WINDOW_RENEW);
    }
    claim_arm(c, cl);
}

/*
 * Redis may have lost data: holds are reclaimed. Of a claim that is being given back nothing is reclaimed: if Redis
 * does not have it any more, its release counts as done.
 */
static void
reclaim(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD) {
        verify(c, cl, (cl->holds > 0 ? VERIFY_HOLDS : 0) | (cl->shared > 0 ? VERIFY_SHARED : 0));
    } else if (CLAIM_LEAVING & (1u << cl->state)) {
        uncertain_add_release(cl); /* another owner may have the same expiry */
    }
}

/*
 * Redis may not have the hold any more: nothing is served for its owner before Redis confirms it. The answer to a
 * renewal in flight is no confirmation: the renewal may have run before the hold was lost.
 */
static void
suspect(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD) {
        verify(c, cl, uncertain_to_verify(cl) | VERIFY_EXISTS | (cl->renewal_sent ? VERIFY_AGAIN : 0));
    }
}

void
reclaim_review(struct core *c, struct claim *cl)
{
    unsigned why = cl->lock->review_why;

    if (cl->review_n == cl->lock->reviews_n) {
        return;
    }
    cl->review_n = cl->lock->reviews_n;
    if (why & REVIEW_LOST) {
        reclaim(c, cl);
    }
    if (why & REVIEW_SUSPECT) {
        suspect(c, cl);
    }
}

/* A claim that is to be verified asks now, without the rest of its pause. */
void
reclaim_redis_grants(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD) {
        cl->retry_us = uncertain_to_verify(cl) != 0 ? 0 : cl->retry_us;
        claim_arm(c, cl);
    }
}

/*
 * Redis can be reached: a release is tried again, a claim is verified, and a renewal due within a second is sent, now.
 */
void
reclaim_redis_reached(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_RELEASING) {
        if (cl->op == 0 && cl->retry_us != 0) {
            op_release(c, cl, claim_op_request(cl));
        }
        return;
    }
    if (cl->state != CLAIM_HELD && cl->state != CLAIM_QUEUED && cl->state != CLAIM_TRYING) {
        return;
    }
    if (uncertain_to_verify(cl) != 0) {
        cl->retry_us = 0;
        claim_arm(c, cl);
    }
    if (cl->renew_us > c->now_us && cl->renew_us <= after_us(c->now_us, US_PER_S)) {
        cl->renew_us = c->now_us;
        claim_arm(c, cl);
    }
}
