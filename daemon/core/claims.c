/*
 * claims.c -- one owner's interest in one lock, from the first request to the last release.
 *
 * Owns the records, the moves between states (claim_next), and what the timer is set to. turns.c says what happens when
 * the timer is due, operations.c what a claim asks Redis for, outcomes.c what the answers mean, and ends.c how a claim
 * ends.
 */
#include "daemon/core/claims.h"

#include <assert.h>

#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/core.h"
#include "daemon/core/cursors.h"
#include "daemon/core/dirty.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"
#include "daemon/core/window.h"

/*
 * The next states of each state, and why the claim moves there:
 *
 *   IDLE        QUEUED: a LOCK waits
 *   QUEUED      TRYING: asks Redis in its turn (attempts.c); without requests RELEASING or IDLE: Redis may have
 *               something of it, or not; RELEASING also if Redis may have the sort of hold that its first request does
 *               not want; IDLE also by a hand-off, as the record of the former holder (handoff.c)
 *   TRYING      HELD: OK; QUEUED: TAKEN, UNKNOWN ...; RELEASING: OK, and no request wants it, or too few replicas
 *   HELD        CACHED: given back, but not released in Redis; RELEASING: UNLOCK, owner gone, deadline; gone in Redis:
 *               LOST, or IDLE if no loss is to be reported any more
 *   CACHED      HELD: by the next LOCK here; RELEASING: no LOCK in time, or remote waiters
 *   RELEASING   Redis has nothing of it: STRAGGLING: a straggler may still run; LOST: a loss is still to be reported;
 *               QUEUED: its position is kept; else IDLE
 *   STRAGGLING  QUEUED: a LOCK waits; RELEASING: no straggler can run any more, but one may have taken the lock
 *   LOST        IDLE: the loss was reported, or has expired
 */
static const unsigned claim_next[CLAIM_STATES] = {
    [CLAIM_IDLE] = CLAIM_IN(QUEUED),
    [CLAIM_QUEUED] = CLAIM_IN(TRYING) | CLAIM_IN(RELEASING) | CLAIM_IN(IDLE),
    [CLAIM_TRYING] = CLAIM_IN(QUEUED) | CLAIM_IN(HELD) | CLAIM_IN(RELEASING),
    [CLAIM_CACHED] = CLAIM_IN(HELD) | CLAIM_IN(RELEASING),
    [CLAIM_HELD] = CLAIM_IN(CACHED) | CLAIM_IN(RELEASING) | CLAIM_IN(LOST) | CLAIM_IN(IDLE),
    [CLAIM_RELEASING] = CLAIM_IN(IDLE) | CLAIM_IN(STRAGGLING) | CLAIM_IN(LOST) | CLAIM_IN(QUEUED),
    [CLAIM_STRAGGLING] = CLAIM_IN(QUEUED) | CLAIM_IN(RELEASING),
    [CLAIM_LOST] = CLAIM_IN(IDLE),
};

static struct claim *
claim_alloc(struct core *c, const struct lock *l)
{
    size_t prefix = claim_prefix_bytes(l);
    char *p = freelist_take(&c->freelist, prefix + sizeof(struct claim));

    return (struct claim *)(void *)(p + prefix);
}

static void
claim_give(struct core *c, struct claim *cl)
{
    size_t prefix = claim_prefix_bytes(cl->lock);

    freelist_give(&c->freelist, (char *)cl - prefix, prefix + sizeof(*cl));
}

struct claim *
claim_new(struct core *c, struct lock *l, struct owner *o)
{
    struct claim *cl = claim_alloc(c, l);

    *cl = (struct claim){
        .lock = l, .owner = o, .redis_owner = o->redis_owner, .state = CLAIM_IDLE, .review_n = l->reviews_n};
    timer_init(&cl->timer, TIMER_CLAIM);
    claim_index(c, cl);
    list_init(&cl->node);
    list_init(&cl->requests);
    list_push_front(&l->rest, &cl->node);
    list_push_back(&o->claims, &cl->owner_node);
    l->claims_n++;
    o->claims_n++;
    user_count_claim(o, 1);
    (void)owner_raise_grace(o, l, 0);
    return cl;
}

static void
count_lost(struct core *c, struct claim *cl, int by)
{
    struct owner *o = cl->owner;

    o->lost_n += (uint32_t)by;
    c->lost_n += (uint32_t)by;
    if (by > 0) {
        list_push_back(&o->lost, &cl->lost_node);
    } else {
        list_remove(&cl->lost_node);
    }
    if (o->lost_n == 0) {
        list_remove(&o->losses_node);
    } else if (!list_linked(&o->losses_node)) {
        list_push_back(&c->owners_with_losses, &o->losses_node);
    }
}

/*
 * Claims that are TRYING, HELD or RELEASING are counted by their lock; the last two by the core, too. One claim of a
 * lock may be CACHED; owner.cached_n of its last owner counts it, because it is no lock of that owner any more. Losses
 * of leases that a request had set are counted, and listed, because end_loss_unreported() bounds their number.
 */
static void
count(struct core *c, struct claim *cl, int by)
{
    uint32_t n = (uint32_t)by;

    if (cl->state == CLAIM_HELD) {
        cl->lock->held_n += n;
        c->held_n += (uint64_t)(int64_t)by;
    } else if (cl->state == CLAIM_TRYING) {
        cl->lock->queue->trying_n += n;
    } else if (cl->state == CLAIM_RELEASING) {
        cl->lock->releasing_n += n;
        c->releasing_n += (uint64_t)(int64_t)by;
    } else if (cl->state == CLAIM_CACHED) {
        assert(cl->lock->has_cached == (by < 0));
        cl->lock->has_cached = by > 0;
        cl->owner->cached_n += n;
    } else if (cl->state == CLAIM_LOST && !cl->watchdog) {
        count_lost(c, cl, by);
    }
}

/* Counts the claim, or no longer counts it, as one whose position is kept without a request. */
static void
count_kept(struct core *c, struct claim *cl)
{
    bool kept = (CLAIM_IN_QUEUE & (1u << cl->state)) && list_empty(&cl->requests) && cl->queued.kept_until_us != 0;

    if (kept != cl->counted_kept) {
        cl->counted_kept = kept;
        cl->lock->queue->kept_n += kept ? 1u : -1u;
        c->kept_n += kept ? 1u : -1u;
    }
}

/* The claim leaves the list that it is on. */
static void
leave_rounds(struct core *c, const struct claim *cl)
{
    if (cl->lock->has_round) {
        rounds_leave(c, cl);
    }
}

void
claim_free(struct core *c, struct claim *cl)
{
    assert(list_empty(&cl->requests) && cl->refs == 0);
    checkpoint_drop(c, cl);
    count(c, cl, -1);
    cursors_pass(c, cl);
    claim_unindex(c, cl);
    leave_rounds(c, cl);
    list_remove(&cl->node);
    list_remove(&cl->owner_node);
    claim_end_renewal(c, cl);
    cl->lock->claims_n--;
    user_count_claim(cl->owner, -1);
    cl->owner->owner_grace_us = --cl->owner->claims_n > 0 ? cl->owner->owner_grace_us : 0;
    dirty_mark_owner(c, cl->owner);
    timer_fini(&c->timers, &cl->timer);
    claim_give(c, cl);
}

/* IDLE and without requests: idle_free() frees such claims, and looks for them at the front of lock.rest. */
static bool
is_free(const struct claim *cl)
{
    return cl->state == CLAIM_IDLE && cl->refs == 0;
}

/* Adds `by` to the number of requests that name the claim. */
void
claim_refer(struct core *c, struct claim *cl, int by)
{
    bool was_free = is_free(cl);

    cl->refs += (uint32_t)by;
    if (is_free(cl) != was_free) {
        leave_rounds(c, cl);
        list_remove(&cl->node);
        if (was_free) {
            list_push_back(&cl->lock->rest, &cl->node);
        } else {
            list_push_front(&cl->lock->rest, &cl->node);
        }
    }
}

static struct list *
list_of(struct claim *cl)
{
    switch (cl->state) {
    case CLAIM_QUEUED:
    case CLAIM_TRYING:
        return &cl->lock->queue->claims;
    case CLAIM_HELD:
        return &cl->lock->holders;
    case CLAIM_IDLE:
    case CLAIM_CACHED:
    case CLAIM_RELEASING:
    case CLAIM_STRAGGLING:
    case CLAIM_LOST:
    case CLAIM_STATES:
        break;
    }
    return &cl->lock->rest;
}

/* The only place that changes a claim's state; keeps the queue in the order of positions, and free claims in front. */
void
claim_move(struct core *c, struct claim *cl, enum claim_state to)
{
    struct list *from = list_of(cl), *to_list, *pos;
    bool was_held;

    assert(cl->state < CLAIM_STATES && claim_next[cl->state] & (1u << to));
    if (uncertain_to_verify(cl) != 0) {
        uncertain_set_verify(c, cl, 0);
    }
    window_leave(c, cl); /* it waited there in its former state; before count(), which may use lost_node */
    count(c, cl, -1);
    if (cl->shortfall) {
        cl->shortfall = false;
        cl->lock->queue->shortfalls_n--;
    }
    if (to == CLAIM_RELEASING && cl->state != CLAIM_STRAGGLING) {
        cl->was_queued = (CLAIM_IN_QUEUE & (1u << cl->state)) != 0;
    } else if (cl->state == CLAIM_LOST) {
        cl->retry_us = 0;
    }
    was_held = cl->state == CLAIM_HELD;
    cl->state = to;
    permit_set_moved(cl, was_held);
    count(c, cl, 1);
    count_kept(c, cl);
    if (to == CLAIM_IDLE) {
        checkpoint_drop(c, cl);
    }
    to_list = list_of(cl);
    dirty_mark_lock(c, cl->lock);
    if (to_list == from && to != CLAIM_IDLE) {
        return;
    }
    leave_rounds(c, cl);
    cursors_pass(c, cl);
    list_remove(&cl->node);
    pos = is_free(cl) ? to_list->next : to_list;
    if (to == CLAIM_QUEUED) {
        while (pos->prev != to_list &&
               container_of(pos->prev, struct claim, node)->queued.position > cl->queued.position) {
            pos = pos->prev;
        }
    }
    list_insert_before(pos, &cl->node);
}

/*
 * The claim will take a new ticket, behind all others; so it goes last here, too: otherwise the queues here and in
 * Redis would wait for each other.
 */
void
claim_put_last(struct core *c, struct claim *cl)
{
    struct lock *l = cl->lock;

    assert(cl->state == CLAIM_QUEUED && policy(l)->tickets);
    cl->queued.position = ++c->serial;
    leave_rounds(c, cl);
    cursors_pass(c, cl);
    list_remove(&cl->node);
    list_push_back(&l->queue->claims, &cl->node);
    l->queue->ticketless = true;
    dirty_mark_lock(c, l);
}

/* The claim has the last ticket now: here, it goes before the claims that have none. */
void
claim_put_by_ticket(struct core *c, struct claim *cl)
{
    while (cl->node.prev != &cl->lock->queue->claims) {
        struct claim *before = container_of(cl->node.prev, struct claim, node);
        uint64_t position = before->queued.position;

        if (before->has_ticket) {
            return;
        }
        rounds_swap(c, cl, before);
        list_remove(&cl->node);
        list_insert_before(&before->node, &cl->node);
        before->queued.position = cl->queued.position;
        cl->queued.position = position;
    }
}

/* HELD: while something is to be verified neither the watchdog nor a request is served, so their times do not count. */
static int64_t
held_next_us(const struct core *c, const struct claim *cl)
{
    int64_t at_us = cl->hold.deadline_us;

    if (cl->watchdog && !cl->jeopardy) {
        at_us = earlier(at_us, cl->hold.jeopardy_us);
    }
    if (claim_busy(cl)) {
        return at_us;
    }
    if (uncertain_to_verify(cl) != 0) {
        return claim_renewal_pending(cl) ? at_us : earlier(at_us, later(cl->retry_us, c->now_us));
    }
    if (cl->watchdog && !claim_renewal_pending(cl)) {
        at_us = earlier(at_us, cl->renew_us);
    }
    if (cl->retry_us != 0 && !list_empty(&cl->requests)) {
        at_us = earlier(at_us, cl->retry_us);
    }
    return at_us;
}

/* Arms the timer for what comes next in this state. */
void
claim_arm(struct core *c, struct claim *cl)
{
    int64_t at_us = CORE_FOREVER;

    count_kept(c, cl);
    switch (cl->state) {
    case CLAIM_QUEUED:
    case CLAIM_TRYING:
        if (list_empty(&cl->requests) && claim_kept_until_us(cl) > c->now_us) {
            at_us = claim_kept_until_us(cl);
        }
        if (cl->has_ticket && !claim_renewal_pending(cl) && cl->state == CLAIM_QUEUED) { /* an attempt renews it too */
            at_us = earlier(at_us, cl->renew_us);
        }
        break;
    case CLAIM_HELD:
        window_reorder(c, cl);
        permit_set_deadline(cl);
        at_us = held_next_us(c, cl);
        break;
    case CLAIM_CACHED:
        at_us = earlier(cl->cached.linger_until_us, after_us(cl->lock->cohort_since_us, c->conf.handoff_time_us));
        break;
    case CLAIM_RELEASING:
        at_us = cl->op == 0 && cl->retry_us != 0 ? cl->retry_us : CORE_FOREVER;
        break;
    case CLAIM_STRAGGLING:
        at_us = uncertain_stragglers_end_us(c, cl);
        break;
    case CLAIM_LOST:
        at_us = cl->watchdog ? CORE_FOREVER : cl->retry_us;
        break;
    case CLAIM_IDLE:
    case CLAIM_STATES:
        break;
    }
    timer_set(&c->timers, &cl->timer, at_us);
    if (c->conf.stores_checkpoints) {
        checkpoint_store(c, cl); /* nearly every change of a claim ends here */
    }
}

bool
claim_renew_is_next(const struct claim *cl, int64_t at_us)
{
    bool renews = (cl->state == CLAIM_HELD && cl->watchdog && uncertain_to_verify(cl) == 0) ||
                  (cl->state == CLAIM_QUEUED && cl->has_ticket);

    return renews && !claim_renewal_pending(cl) && at_us == cl->renew_us;
}

/*
 * Queues the claim for the request: in front of all claims that came after the request began to wait (it may have
 * waited for its owner's last hold to be given back). With tickets a claim goes last, as in Redis's queue.
 */
void
claim_enqueue(struct core *c, struct claim *cl, const struct request *r)
{
    cl->queued.position = policy(cl->lock)->tickets ? ++c->serial : r->serial;
    cl->queued.ticket_life_us = 0;
    cl->queued.kept_until_us = 0;
    cl->since_us = c->now_us;
    cl->end_published = false;
    uncertain_set_in_redis(cl, !uncertain_allows(c, cl, MAY_ASSUME_GONE)); /* from STRAGGLING */
    claim_move(c, cl, CLAIM_QUEUED);
    claim_arm(c, cl);
}

/* An expiry that is the only proof of ownership must not move under another operation. */
bool
claim_busy(const struct claim *cl)
{
    return cl->op != 0 || (cl->renewal_sent && policy(cl->lock)->expiry_proves);
}

void
claim_end_renewal(struct core *c, struct claim *cl)
{
    window_leave(c, cl);
    c->window[WINDOW_RENEW].n -= cl->renewal_sent;
    cl->renewal_sent = false;
}

bool
claim_wants_shared(const struct claim *cl)
{
    return container_of(cl->requests.next, struct request, claim_node)->shared;
}
