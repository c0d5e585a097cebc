/*
 * ends.c -- how a claim ends: nobody waits for it any more, it is lost, Redis has nothing of it, its owner has gone.
 *
 * Of what may yet run in Redis the claim stays until that can not be any more (SWEEP); of what its owner does not know
 * yet, until it does (LOST).
 */
#include <assert.h>

#include "daemon/core/state.h"

/*
 * Nobody asks for it any more. A named owner keeps its place for a while; what else Redis may have of it goes at once.
 */
void
claim_deserted(struct core *c, struct claim *cl)
{
    const struct owner *o = cl->owner;
    bool keep = o->name != NULL && (!c->draining || c->conf.keeps) && cl->lock->place_grace_us > 0;
    int64_t grace_us = c->draining ? DRAIN_MAX_US : cl->lock->place_grace_us; /* it is for the process after us */

    assert(!o->ending); /* it has no requests then */
    cl->place_until_us = keep ? after_us(c->now_us, grace_us) : 0;
    if (cl->state == CLAIM_QUEUED) {
        claim_desert(c, cl);
    }
    claim_arm(c, cl);
    lock_wake(c, cl->lock);
}

/* QUEUED without requests: what becomes of it now. */
void
claim_desert(struct core *c, struct claim *cl)
{
    bool keep = cl->place_until_us > c->now_us;
    bool attempted = claim_is_late(c, cl, LATE_ACQUIRE); /* it may be ours, and not a place only */

    if (cl->unsure && !(keep && cl->placed && !attempted)) {
        claim_release(c, cl, NULL);
    } else if (!keep) {
        claim_move(c, cl, CLAIM_IDLE);
    }
}

/* Its owner must stop believing in it. in_redis: Redis no longer has it, so there is nothing to give back. */
void
claim_lose(struct core *c, struct claim *cl, const char *reason, bool in_redis)
{
    assert(cl->state == CLAIM_HELD && !cl->owner->ending); /* what an owner that ends holds is given back at once */
    c->metrics->lost++;
    lock_news(c, cl, CORE_NEWS_LOST, reason);
    cl->news_lost = true;
    claim_forget_op(c, cl);
    cl->lost = list_empty(&cl->requests);
    if (!list_empty(&cl->requests)) {
        request_finish(c, container_of(cl->requests.next, struct request, claim_node), CORE_WAS_LOST, 0);
    }
    if (in_redis && !claim_is_late(c, cl, LATE_ACQUIRE)) {
        claim_freed(c, cl, false);
    } else {
        claim_release(c, cl, NULL);
    }
}

/* An attempt that may yet run counts for more than a loss that is to be told; and that for more than a place. */
static void
move_freed(struct core *c, struct claim *cl)
{
    assert(!cl->lost || !cl->owner->ending);
    cl->token = cl->lost ? cl->token : 0;
    if (cl->state == CLAIM_FREEING && claim_is_late(c, cl, LATE_ACQUIRE)) {
        claim_move(c, cl, CLAIM_SWEEP);
    } else if (cl->lost) {
        claim_move(c, cl, CLAIM_LOST);
    } else if (cl->state == CLAIM_FREEING && cl->place_until_us > c->now_us) {
        claim_move(c, cl, CLAIM_QUEUED);
        if (lock_is(cl->lock, KIND_F_PLACED)) {
            claim_put_last(c, cl);
        }
    } else {
        claim_move(c, cl, CLAIM_IDLE);
    }
}

/*
 * Redis has nothing of it any more. What was asked about it meanwhile is asked
 * again in the new state; `news`: it was held until now and was given back.
 */
void
claim_freed(struct core *c, struct claim *cl, bool news)
{
    struct list rest;

    if (news && cl->token != 0 && !cl->news_lost) {
        lock_news(c, cl, CORE_NEWS_RELEASED, NULL);
    }
    cl->op = 0;
    cl->op_asked = false;
    claim_renew_over(c, cl); /* what it finds is no news of a later hold */
    cl->unsure = cl->placed = false;
    cl->holds = cl->shared = 0;
    cl->stamp = 0;
    cl->retry_us = 0;
    cl->failed_n = 0;
    move_freed(c, cl);
    if (cl->state != CLAIM_SWEEP) {
        cl->lost = cl->news_lost = false;
        if (cl->doubtful || claim_is_late(c, cl, LATE_RENEW)) {
            /* Of the owner: the claim's record may go before the next hold. */
            cl->number = cl->owner->number = ++c->serial;
        }
        cl->doubtful = false;
        cl->late &= ~(unsigned)LATE_RENEW;
    }
    list_init(&rest);
    while (!list_empty(&cl->requests)) {
        struct list *n = cl->requests.next;

        list_remove(n);
        list_push_back(&rest, n);
    }
    claim_arm(c, cl);
    while (!list_empty(&rest)) {
        struct request *r = container_of(rest.next, struct request, claim_node);

        list_remove(&r->claim_node);
        request_run(c, r);
    }
}

/* Its owner knows now. Of several permits that it lost it is told once; and told once is told. */
void
claim_told_lost(struct core *c, struct claim *cl)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &cl->owner->claims)
    {
        struct claim *other = container_of(pos, struct claim, owner_node);

        if (other->lock != cl->lock) {
            continue;
        }
        if (other->state == CLAIM_LOST) {
            other->token = 0;
            claim_move(c, other, CLAIM_IDLE);
        } else if (other->lost) {
            other->lost = false;
            other->token = 0;
            claim_keep(c, other);
        }
    }
}

void
claim_owner_ends(struct core *c, struct claim *cl)
{
    cl->lost = false;
    if (cl->state != CLAIM_HELD) {
        cl->place_until_us = 0;
    } else if (claim_hand_over(c, cl, NULL) || claim_linger(c, cl, NULL)) {
        return;
    }
    if (cl->state == CLAIM_HELD || (cl->state == CLAIM_QUEUED && cl->unsure)) {
        claim_release(c, cl, NULL);
    } else if (cl->state == CLAIM_QUEUED || cl->state == CLAIM_LOST) {
        cl->token = 0;
        claim_move(c, cl, CLAIM_IDLE);
    }
    claim_arm(c, cl);
}
