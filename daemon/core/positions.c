/*
 * positions.c -- claims without requests: the position is kept for a while, all else that Redis may have is given back.
 */
#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/dirty.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"

/*
 * Whether one more position may be kept without a request: POSITIONS_KEPT_MAX of one name, of all names as many as may
 * wait. In a drain all are kept: of these the next process keeps the first ones.
 */
bool
position_may_be_kept(const struct core *c, const struct lock *l)
{
    return c->draining || (l->queue->kept_n < POSITIONS_KEPT_MAX && c->kept_n < c->conf.waiters_max);
}

/*
 * The last request of the claim has gone. A named owner keeps its position for a while; all else that Redis may have of
 * the claim goes at once.
 */
void
position_abandoned(struct core *c, struct claim *cl, bool for_good)
{
    const struct owner *o = cl->owner;
    bool keep = !for_good && o->name != NULL && (!c->draining || c->conf.stores_checkpoints) &&
                cl->lock->queue_grace_us > 0 && position_may_be_kept(c, cl->lock);
    int64_t kept_us = c->draining ? DRAIN_MAX_US : cl->lock->queue_grace_us; /* in a drain: for the next process */

    assert(!o->ending); /* an ending owner has no requests */
    cl->queued.kept_until_us = keep ? after_us(c->now_us, kept_us) : 0;
    if (cl->state == CLAIM_QUEUED) {
        position_give_up(c, cl);
    }
    claim_arm(c, cl);
    dirty_mark_lock(c, cl->lock);
}

/* QUEUED without requests: gives the position up, unless the claim keeps it. */
void
position_give_up(struct core *c, struct claim *cl)
{
    bool keep = claim_kept_until_us(cl) > c->now_us;
    bool attempted = !uncertain_allows(c, cl, MAY_ASSUME_GONE); /* an attempt may have been granted */

    if (uncertain_may_be_in_redis(cl) && !(keep && cl->has_ticket && !attempted)) {
        op_release(c, cl, NULL);
    } else if (!keep) {
        claim_move(c, cl, CLAIM_IDLE);
    }
}

void
position_drop_kept(struct core *c, struct claim *cl)
{
    bool waits = cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING;
    bool kept = waits && list_empty(&cl->requests) && claim_kept_until_us(cl) != 0;

    claim_clear_kept_until(cl); /* RELEASING, STRAGGLING: else the claim would go back to the queue */
    if (kept && cl->state == CLAIM_QUEUED) {
        position_give_up(c, cl);
    }
    if (kept) {
        claim_arm(c, cl);
        dirty_mark_lock(c, cl->lock);
    }
}
