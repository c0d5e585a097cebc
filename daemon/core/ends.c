/*
 * ends.c -- how a hold ends by a loss, and what becomes of a claim of which Redis has nothing any more.
 *
 * A claim of which a straggler may still run in Redis stays until no straggler can (STRAGGLING); one that was lost
 * stays until its loss has been reported to its owner (LOST).
 */
#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/news.h"
#include "daemon/core/owner.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"

/* HELD, but the lease has ended, or the name was broken: ends the hold. */
void
end_lapsed(struct core *c, struct claim *cl)
{
    bool broken = claim_is_broken(cl);

    end_by_loss(c, cl, broken ? "broken" : cl->watchdog ? "not renewed in time" : CORE_LEASE_OVER,
                broken && !cl->lock->queue->broken_remains);
}

/*
 * The request whose answer reports the loss to the owner: the first, but never a `fresh` LOCK, which asks for a new
 * grant only. Requests of one owner about one name run one after the other, so at most one is a `fresh` LOCK.
 */
static struct request *
loss_request(const struct claim *cl)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &cl->requests)
    {
        struct request *r = container_of(pos, struct request, claim_node);

        if (!r->fresh) {
            return r;
        }
    }
    return NULL;
}

/*
 * Silent requests end with the hold that they give back. True: the owner has received answers about other holds, so
 * the loss is still to be reported.
 */
static bool
drop_silent(struct core *c, struct claim *cl)
{
    struct list *pos, *nxt;
    bool others = false;

    list_for_each_safe(pos, nxt, &cl->requests)
    {
        struct request *r = container_of(pos, struct request, claim_node);

        if (r->silent) {
            others |= r->other_holds;
            request_finish(c, r, CORE_WAS_LOST, 0);
        }
    }
    return others;
}

/*
 * The claim is lost, which is to be reported to its owner. gone_in_redis: Redis does not have it any more, so nothing
 * has to be given back.
 */
void
end_by_loss(struct core *c, struct claim *cl, const char *reason, bool gone_in_redis)
{
    bool owner_knows = list_empty(&cl->requests); /* an answer has reported a hold to it, and no answer is pending */
    struct request *r;

    assert(cl->state == CLAIM_HELD);
    if (!cl->owner->ending) { /* else the owner's job was about to give the claim back */
        c->metrics->lost++;
        news_publish(c, cl, CORE_NEWS_LOST, reason);
        cl->end_published = true;
    }
    op_abandon(c, cl);
    owner_knows = drop_silent(c, cl) || owner_knows;
    cl->lost = owner_knows && list_empty(&cl->requests) && !cl->owner->ending;
    r = loss_request(cl);
    if (r != NULL) {
        request_finish(c, r, CORE_WAS_LOST, 0);
    }
    if (gone_in_redis && uncertain_allows(c, cl, MAY_ASSUME_GONE)) {
        end_gone_in_redis(c, cl, cl->owner->ending);
    } else {
        op_release(c, cl, NULL);
    }
}

void
end_loss_expired(struct core *c, struct claim *cl)
{
    claim_set_token(c, cl, 0);
    claim_move(c, cl, CLAIM_IDLE);
    claim_arm(c, cl);
}

/*
 * Unreported losses of leases that requests had set are limited. When one owner has too many, its oldest expires; when
 * all owners together have, the oldest of each owner in turn. The loss of a lease that the watchdog renewed is reported
 * however late.
 */
void
end_loss_unreported(struct core *c, struct claim *cl)
{
    claim_move(c, cl, CLAIM_LOST);
    cl->retry_us = after_us(c->now_us, later(UNREPORTED_LOSS_US, cl->lease_us));
    while (cl->owner->lost_n > UNREPORTED_OWNER_MAX || c->lost_n > UNREPORTED_MAX) {
        struct owner *o = container_of(c->owners_with_losses.next, struct owner, losses_node);

        o = cl->owner->lost_n > UNREPORTED_OWNER_MAX ? cl->owner : o;
        list_remove(&o->losses_node);
        list_push_back(&c->owners_with_losses, &o->losses_node);
        end_loss_expired(c, container_of(o->lost.next, struct claim, lost_node));
    }
}

/*
 * Chooses the next state: STRAGGLING while an attempt may still run; else LOST until the loss is reported; else QUEUED
 * if a position is kept; else IDLE.
 */
static void
move_when_gone(struct core *c, struct claim *cl)
{
    cl->lost = cl->lost && !cl->owner->ending; /* the owner's job may still be due */
    claim_set_token(c, cl, cl->lost ? cl->token : 0);
    if (cl->state == CLAIM_RELEASING && !uncertain_allows(c, cl, MAY_ASSUME_GONE)) {
        claim_move(c, cl, CLAIM_STRAGGLING);
    } else if (cl->lost) {
        end_loss_unreported(c, cl);
    } else if (cl->state == CLAIM_RELEASING && claim_kept_until_us(cl) > c->now_us) {
        claim_move(c, cl, CLAIM_QUEUED);
        if (policy(cl->lock)->tickets) {
            claim_put_last(c, cl);
        }
    } else {
        claim_move(c, cl, CLAIM_IDLE);
    }
}

/*
 * Redis has nothing of the claim any more. Its requests run again, in its new state. news: the claim was held until
 * now, and RELEASED is published.
 */
void
end_gone_in_redis(struct core *c, struct claim *cl, bool news)
{
    if (news && cl->token != 0 && !cl->end_published) {
        news_publish(c, cl, CORE_NEWS_RELEASED, NULL);
    }
    cl->op = 0;
    cl->op_for_request = false;
    claim_end_renewal(c, cl); /* the answer to the renewal does not concern a later hold */
    uncertain_set_in_redis(cl, false);
    cl->has_ticket = false;
    cl->holds = cl->shared = 0;
    cl->expiry_ms = 0;
    cl->retry_us = 0;
    cl->failed_n = 0;
    move_when_gone(c, cl);
    if (cl->state != CLAIM_STRAGGLING) {
        cl->lost = cl->end_published = false;
        if (!uncertain_allows(c, cl, MAY_REUSE_REDIS_OWNER)) {
            /* The owner gets the fresh redis_owner, too, because the claim may be freed before the next hold. */
            cl->redis_owner = cl->owner->redis_owner = ++c->serial;
        }
        uncertain_hold_is_gone(cl);
    }
    while (!list_empty(&cl->requests)) {
        struct list *n = cl->requests.next;

        list_remove(n);
        list_push_back(&c->to_rerun, n);
    }
    claim_arm(c, cl);
}

void
end_clear_loss(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_LOST) {
        claim_set_token(c, cl, 0);
        claim_move(c, cl, CLAIM_IDLE);
    } else if (cl->lost) {
        cl->lost = false;
        claim_set_token(c, cl, 0);
        checkpoint_store(c, cl);
    }
}

/*
 * The loss has been reported to the owner. The report of one lost permit stands for all that the owner lost of the
 * lock.
 */
void
end_loss_reported(struct core *c, struct claim *cl)
{
    const struct permit_set *set = permit_set_find(c, cl->lock, cl->owner);
    struct list *pos, *nxt;

    if (set == NULL) {
        end_clear_loss(c, cl);
        return;
    }
    list_for_each_safe(pos, nxt, &set->others)
    {
        end_clear_loss(c, permit_claim(container_of(pos, struct permit, node)));
    }
}

void
end_known_to_owner(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD && !claim_is_held(cl, c->now_us)) { /* its timer is still due */
        end_lapsed(c, cl);
    }
    if (cl->lost || cl->state == CLAIM_LOST) {
        end_loss_reported(c, cl);
        dirty_mark_lock(c, cl->lock);
    }
}
