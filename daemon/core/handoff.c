/*
 * handoff.c -- a lock passes to the next waiter here while Redis keeps it for this daemon (lock cohorting).
 *
 * In Redis the id of a claim and claim.redis_owner name the holder. At an UNLOCK with a waiter here, Redis is not
 * asked: the two owners exchange their claims. The new holder gets the claim that is in Redis, with the rest of its
 * lease and the next token. The former holder gets the other claim, of which Redis has nothing, and a fresh
 * redis_owner, because the old one now stands for another owner.
 *
 * So nothing is sent to Redis, no record is made, and nothing can fail half-way. For Redis, for renewals and for
 * reclaims, the same claim is still held.
 */
#include "daemon/core/locks.h"

#include <assert.h>

#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/news.h"
#include "daemon/core/owner.h"
#include "daemon/core/queues.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"

/*
 * H1  A claim is handed over only while no operation is in flight, and none may still run that takes or shortens
 *     something. A renewal may be in flight if the watchdog renews the next owner's lease, too, and an unanswered
 *     re-entry may still run: both only prolong the lease.
 * H2  The new holder receives no deadline after the one that Redis has confirmed.
 * H3  Tokens rise: Redis has reserved as many as a cohort may use (claim.reserve), and gives them to no other claim.
 *     Where there are permits, the reserve of the newest grant is used, and only while all permits are held here and
 *     none of their leases has ended: then none was free since, so Redis has granted none. This holds for the limit
 *     that Redis was asked under; another limit ends the reserve (lock_end_reserve()).
 * H4  Remote waiters get their turn: after handoff.max grants in a row, or handoff.time since Redis last reported none
 *     (waiter_polls.c; else since the first grant), the lock goes back to Redis, which reports whether there are any
 *     (attempt_after_release()).
 * H5  A claim that fewer replicas have acknowledged than the rule of the name wants now (the rule was raised, or the
 *     claim was reclaimed or restored) goes back to Redis: the attempt of the next owner asks the replicas as well. A
 *     hand-off need not ask them: they have the daemon's claim, which stays as it is.
 *
 * If the rule of a name has `linger`, a lock without waiters is not given back either. Its claim is CACHED for a while,
 * and the next LOCK here reuses the claim as if it had been handed over, unless a waiter poll finds remote waiters.
 */

enum { SCAN_MAX = 64 }; /* requests of an owner that are searched; with more of them the lock goes back to Redis */

/* The number of requests in their owner's order that are about the claim; -1: there are too many to look at. */
static int
count_in_order(const struct claim *cl)
{
    struct list *pos, *nxt;
    int n = 0, looked = 0;

    list_for_each_safe(pos, nxt, &cl->owner->fifo)
    {
        if (++looked > SCAN_MAX) {
            return -1;
        }
        n += container_of(pos, struct request, fifo_node)->claim == cl;
    }
    return n;
}

/* The number of requests on the claim, waiting or being served, that run out of order. */
static int
count_out_of_order(const struct claim *cl)
{
    struct list *pos, *nxt;
    int n = 0;

    list_for_each_safe(pos, nxt, &cl->requests)
    {
        n += !list_linked(&container_of(pos, struct request, claim_node)->fifo_node);
    }
    return n;
}

/*
 * Whether exchange() can rebind all requests that refer to the claim: those in their owner's order, and those on the
 * claim. A granted member of a multilock, for example, is on neither list.
 */
static bool
is_movable(const struct claim *cl)
{
    int n = count_in_order(cl);

    return n >= 0 && (uint32_t)(n + count_out_of_order(cl)) == cl->refs;
}

/* No command that was sent for the claim can still take something from it, or shorten its lease: H1. */
static bool
is_settled(const struct core *c, const struct claim *cl)
{
    return cl->op == 0 && uncertain_allows(c, cl, MAY_HAND_OVER);
}

/*
 * H3. All permits are held here, and none is to be verified. A permit that is HELD may have a lease that has just
 * ended, because a step ends leases one by one.
 */
static bool
permits_are_here(const struct core *c, const struct lock *l)
{
    struct list *pos, *nxt;

    if (l->held_n != l->limit) {
        return false;
    }
    list_for_each_safe(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (uncertain_to_verify(cl) != 0 || cl->review_n != l->reviews_n || c->now_us >= cl->hold.deadline_us) {
            return false;
        }
    }
    return true;
}

/* H3: the claim whose reserve has the next token; NULL: only Redis knows the next token. */
static struct claim *
claim_with_reserve(const struct core *c, struct claim *cl)
{
    if (!lock_has_limit(cl->lock)) {
        return cl;
    }
    return permits_are_here(c, cl->lock) ? lock_newest_holder(cl->lock) : NULL;
}

/* H3, H4, H5 */
static bool
in_cohort(const struct core *c, struct claim *cl)
{
    const struct claim *source = claim_with_reserve(c, cl);
    bool acknowledged = cl->replicas >= cl->lock->replicas;

    return acknowledged && source != NULL && source->reserve > 0 && !lock_cohort_is_over(c, cl->lock);
}

/*
 * H3: takes the next token, and the reserve behind it. The former claim keeps its reserve, which is never used: when
 * the newest permit is given back not all permits are here, and when all are here again there is a newer one.
 */
static void
take_token(struct core *c, struct claim *cl)
{
    const struct claim *source = claim_with_reserve(c, cl);

    assert(source != NULL && source->reserve > 0); /* in_cohort() */
    claim_set_token(c, cl, source->token + 1);
    cl->reserve = source->reserve - 1u;
    c->token_max = cl->token > c->token_max ? cl->token : c->token_max;
}

/* HELD, and r (NULL: the end of its owner) gives the last hold back: whether the lock may stay with this daemon. */
static bool
may_stay(const struct core *c, struct claim *cl, const struct request *r)
{
    const struct lock *l = cl->lock;
    bool no_other_request = list_empty(&cl->requests) || (r != NULL && cl->requests.next == cl->requests.prev);

    /* not for a silent UNLOCK of a multilock: the next owner may be a multilock that fails in turn, and so on */
    return lock_may_hand_off(l) && claim_holds(cl) == 1 && no_other_request && !(r != NULL && r->silent) &&
           !cl->jeopardy && l->queue->break_op == 0 && !claim_is_broken(cl) && l->queue->trying_n == 0 &&
           is_settled(c, cl) && is_movable(cl) && in_cohort(c, cl);
}

/* The lease that the request asks for. */
static int64_t
wanted_us(const struct request *r)
{
    return r->lease_us != 0 ? r->lease_us : r->spec_lease_us;
}

/*
 * True when the rest of the lease is enough for the next owner: for half of its lease if the watchdog renews that, else
 * for all of it.
 */
static bool
lasts_for(const struct core *c, const struct claim *cl, const struct request *r)
{
    bool whole = core_deadline_us(c->now_us, wanted_us(r)) <= cl->hold.deadline_us && !cl->renewal_sent;

    return r->lease_us != 0 ? whole : cl->hold.deadline_us - c->now_us >= wanted_us(r) / 2;
}

/* The claim whose turn it is, if it can take over the record of `cl` as it is; else NULL. */
static struct claim *
heir_of(const struct core *c, const struct claim *cl)
{
    struct claim *next = lock_next_claim(cl->lock);
    const struct request *first;

    if (next == NULL || next->owner == cl->owner) { /* the owner wants another permit, and gives this one back */
        return NULL;
    }
    assert(next->state == CLAIM_QUEUED && next->op == 0);
    first = container_of(next->requests.next, struct request, claim_node);
    /* Other readers may have been granted later tokens since: only Redis knows the next one. */
    if (first->shared || cl->shared > 0 || !lasts_for(c, cl, first)) {
        return NULL;
    }
    return !uncertain_may_be_in_redis(next) && is_movable(next) ? next : NULL;
}

/* Requests of the owner about `from` are about `to` from now on. */
static void
rebind(struct claim *from, struct claim *to)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &from->owner->fifo)
    {
        struct request *r = container_of(pos, struct request, fifo_node);

        if (r->claim == from) {
            r->claim = to;
        }
    }
}

/* Requests that wait in `from` wait in `to`, in the same order. */
static void
rebind_waiting(struct claim *from, struct claim *to)
{
    while (!list_empty(&from->requests)) {
        struct request *r = container_of(from->requests.next, struct request, claim_node);

        list_remove(&r->claim_node);
        list_push_back(&to->requests, &r->claim_node);
        r->claim = to;
    }
}

static void
swap_owners(struct claim *a, struct claim *b)
{
    struct owner *o = a->owner;
    uint32_t refs = a->refs;

    list_remove(&a->owner_node);
    list_remove(&b->owner_node);
    list_push_back(&b->owner->claims, &a->owner_node);
    list_push_back(&o->claims, &b->owner_node);
    a->owner = b->owner;
    b->owner = o;
    a->refs = b->refs;
    b->refs = refs;
}

/*
 * Exchanges the owners of two claims: the record of `held`, and with it what Redis has, goes to the owner of `next`,
 * with the requests of `next`; and the other way round.
 */
static void
exchange(struct core *c, struct claim *held, struct claim *next)
{
    struct owner *former = held->owner;
    bool named = former->name != NULL || next->owner->name != NULL;

    assert(list_empty(&held->requests));
    if (named) {
        checkpoint_drop(c, held); /* its texts never change: serve_claim(), which comes next, stores it anew */
    }
    rebind(held, next);
    rebind(next, held);
    rebind_waiting(next, held);
    swap_owners(held, next);
    permit_set_swapped(held, next);
    if (former->redis_owner == held->redis_owner) {
        former->redis_owner = ++c->serial;
    }
    next->redis_owner = former->redis_owner;
    held->since_us = next->since_us;
    claim_move(c, next, CLAIM_IDLE);
    claim_arm(c, next);
    dirty_mark_owner(c, former);
}

/* Reports that the owner has given the claim back: publishes RELEASED, and answers r, if there is one. */
static void
report_given_back(struct core *c, struct claim *cl, struct request *r)
{
    news_publish(c, cl, CORE_NEWS_RELEASED, NULL);
    if (r != NULL) {
        request_finish(c, r, CORE_LEFT, permit_set_held_beside(c, cl));
    }
}

/* Grants the claim to the request that waits in it now, with the next token. */
static void
pass_on(struct core *c, struct claim *cl)
{
    const struct request *first = container_of(cl->requests.next, struct request, claim_node);

    take_token(c, cl);
    cl->lease_us = wanted_us(first);
    if (first->lease_us != 0) {
        cl->hold.deadline_us = core_deadline_us(c->now_us, cl->lease_us);
    }
    grant_claim(c, cl, c->now_us, c->now_us);
}

/*
 * The last hold of the claim goes to the next in the queue; r, if there is one, is answered. False: nothing was done,
 * the hold has to be released in Redis.
 */
bool
handoff_to_next(struct core *c, struct claim *cl, struct request *r)
{
    bool wanted = lock_next_claim(cl->lock) != NULL && !c->draining;
    struct claim *next = wanted && may_stay(c, cl, r) ? heir_of(c, cl) : NULL;

    if (next == NULL) {
        return false;
    }
    c->metrics->handoffs++;
    report_given_back(c, cl, r);
    exchange(c, cl, next);
    waiter_poll_join(c, cl->lock);
    pass_on(c, cl);
    return true;
}

/* ---- caching ---- */

/*
 * The last hold of the claim is given back, and no request here waits: keeps the claim CACHED. False: nothing was done.
 */
bool
handoff_cache(struct core *c, struct claim *cl, struct request *r)
{
    struct lock *l = cl->lock;
    bool lasts = cl->hold.deadline_us - c->now_us > l->linger_us && !cl->renewal_sent;
    bool may_cache = lock_may_cache(l) && cl->shared == 0 && !l->remote_waiters && !c->draining;

    if (!may_cache || !lasts || lock_next_claim(l) != NULL || !may_stay(c, cl, r)) {
        return false;
    }
    queue_open(c, l);
    c->metrics->lingers++;
    report_given_back(c, cl, r);
    cl->end_published = true; /* the later release in Redis is not published */
    cl->cached.linger_until_us = after_us(c->now_us, l->linger_us);
    claim_move(c, cl, CLAIM_CACHED);
    claim_arm(c, cl);
    waiter_poll_join(c, l);
    return true;
}

static void
held_again(struct core *c, struct claim *cl)
{
    cl->end_published = false;
    claim_move(c, cl, CLAIM_HELD);
}

/* CACHED, and its last owner asks for it again. False: it is given back. */
bool
handoff_reuse(struct core *c, struct claim *cl, struct request *r)
{
    if (in_cohort(c, cl) && !r->shared && !c->draining && lasts_for(c, cl, r)) {
        list_push_back(&cl->requests, &r->claim_node);
        cl->since_us = c->now_us;
        held_again(c, cl);
        pass_on(c, cl);
        return true;
    }
    op_release(c, cl, NULL);
    return false;
}

/* CACHED, and requests wait. NULL: they wait until the lock is released in Redis. */
struct claim *
handoff_from_cache(struct core *c, struct lock *l)
{
    struct claim *cl = lock_cached_claim(l), *next = in_cohort(c, cl) && is_movable(cl) ? heir_of(c, cl) : NULL;

    if (next == NULL) {
        op_release(c, cl, NULL);
        return NULL;
    }
    held_again(c, cl);
    exchange(c, cl, next);
    pass_on(c, cl);
    return cl;
}
