/*
 * operations.c -- what a claim asks Redis for: acquire, renew, release.
 *
 * One operation at a time (claim.op), and beside it one renewal (claim.renew). Each has a serial, so that the answer to
 * an operation that was overtaken is dropped. The meaning of the answers is in outcomes.c.
 */
#include <assert.h>

#include "daemon/core/act.h"
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"
#include "daemon/core/window.h"

/*
 * Whether an attempt asks for a ticket. Only for requests that wait: the ticket of any other request would be in their
 * way. A claim with a ticket never asks for another: if Redis has lost the ticket, the answer must show that, because a
 * new one is behind all others.
 */
static bool
wants_ticket(const struct core *c, const struct claim *cl)
{
    struct list *pos, *nxt;

    if (cl->has_ticket) {
        return false;
    }
    list_for_each_safe(pos, nxt, &cl->requests)
    {
        if (container_of(pos, struct request, claim_node)->due_us > c->now_us) {
            return policy(cl->lock)->tickets;
        }
    }
    return false;
}

/* The fields that every operation of a claim has; `op` is its serial. */
static struct core_op
op_of(const struct core *c, const struct claim *cl, uint64_t op)
{
    const struct lock *l = cl->lock;

    return (struct core_op){.op = op,
                            .queue = lock_queue_id(l),
                            .claim = claim_id(cl),
                            .key = lock_key(l),
                            .kind = l->kind,
                            .value = l->value,
                            .owner = cl->redis_owner,
                            .limit = l->limit,
                            .declared = l->declared,
                            .wakes = l->wakes,
                            .token_floor = c->token_max,
                            .expiry_ms = cl->expiry_ms};
}

/*
 * The reserve to ask for, if hand-offs are possible; of permits, only with the attempt for the last one.
 */
static uint32_t
reserve_of(const struct core *c, const struct lock *l)
{
    uint32_t most = c->conf.handoff_max < RESERVE_MAX ? c->conf.handoff_max : RESERVE_MAX;

    if (l->held_n + l->queue->trying_n < lock_holders_max(l)) {
        return 0;
    }
    return (l->contended || lock_may_cache(l)) && lock_may_hand_off(l) ? most : 0;
}

/*
 * Sends the claim's operation, with the properties in claim.op_*. holds: the count that it sets; r: the request that it
 * is done for, or NULL.
 */
static void
send_op(struct core *c, struct claim *cl, uint32_t holds, int64_t lease_us, const struct request *r)
{
    struct core_action a; /* only the member of the union that `type` names is set */
    bool everything = cl->op_verb == CORE_RELEASE && cl->state == CLAIM_RELEASING;

    assert(r == NULL || cl->requests.next == &r->claim_node);
    cl->op = ++c->serial;
    cl->op_for_request = r != NULL;
    uncertain_operation_leaves(cl);
    cl->retry_us = 0;
    a.type = cl->op_verb;
    a.op = op_of(c, cl, cl->op);
    a.op.holds = holds;
    a.op.shared = cl->op_shared;
    a.op.other_sort = everything ? 0 : cl->op_shared ? cl->holds : cl->shared;
    a.op.lease_us = lease_us;
    a.op.replicas = cl->state == CLAIM_TRYING ? cl->lock->replicas : 0;
    a.op.reclaim = cl->op_reclaim;
    a.op.token = cl->op_reclaim ? cl->token : 0;
    a.op.reentry = cl->state == CLAIM_HELD && !cl->op_reclaim;
    a.op.exact = cl->op_verb == CORE_EXTEND;
    a.op.reserve = cl->op_verb == CORE_ACQUIRE && !cl->op_shared ? reserve_of(c, cl->lock) : 0;
    if (cl->state == CLAIM_TRYING) {
        cl->reserve = a.op.reserve;
        cl->lock->has_reserve |= cl->reserve > 0;
    } else if (cl->state == CLAIM_HELD) {
        cl->hold.op_lease_us = lease_us;
        if (cl->op_reclaim && cl->reserve > a.op.reserve) { /* what Redis had set aside is lost, too */
            cl->reserve = a.op.reserve;
        }
    }
    a.op.ticket = cl->op_ticket = cl->op_verb == CORE_ACQUIRE && wants_ticket(c, cl);
    checkpoint_store(c, cl); /* before it can leave */
    core_act(c, &a);
    claim_arm(c, cl);
}

/* Begins an operation for the claim's owner; r is the request that it is done for, or NULL. */
void
op_begin(struct core *c, struct claim *cl, enum core_action_type verb, uint32_t holds, bool shared,
         int64_t lease_us, struct request *r)
{
    cl->op_verb = verb;
    cl->op_reclaim = false;
    cl->op_shared = shared;
    send_op(c, cl, holds, lease_us, r);
}

/*
 * The lease to ask for. A lease that a request has set ends at its deadline, however often it is sent to Redis.
 */
static int64_t
lease_to_ask_us(const struct core *c, const struct claim *cl)
{
    return cl->watchdog ? cl->lease_us : core_lease_us(cl->hold.deadline_us - c->now_us);
}

void
op_reclaim_holds(struct core *c, struct claim *cl, bool shared)
{
    /* At least what is left of the deadline, which was reported to its owner. */
    int64_t lease_us = later(lease_to_ask_us(c, cl), core_lease_us(cl->hold.deadline_us - c->now_us));

    cl->op_verb = CORE_ACQUIRE;
    cl->op_reclaim = true;
    c->window[WINDOW_RECLAIM].n++;
    cl->op_shared = shared;
    send_op(c, cl, shared ? cl->shared : cl->holds, lease_us, NULL);
}

/* Sends the renewal, which runs beside an operation: of the lease by the watchdog, or of the ticket. */
void
op_renew(struct core *c, struct claim *cl)
{
    struct core_action a = {.type = CORE_EXTEND};

    assert(!cl->renewal_sent);
    window_leave(c, cl);
    cl->renewal_sent = true;
    c->window[WINDOW_RENEW].n++;
    cl->renew.op = ++c->serial;
    uncertain_renewal_leaves(cl);
    a.op = op_of(c, cl, cl->renew.op);
    a.op.holds = cl->holds;
    a.op.ticket = cl->state == CLAIM_QUEUED;
    a.op.reentry = !a.op.ticket;
    a.op.lease_us = cl->renew.lease_us = a.op.ticket ? cl->queued.ticket_life_us : lease_to_ask_us(c, cl);
    core_act(c, &a);
}

void
op_renew_in_turn(struct core *c, struct claim *cl)
{
    if (window_may_send(c, cl, WINDOW_RENEW)) {
        op_renew(c, cl);
    }
}

/* A claim at the head of the queue asks Redis for the lock, see attempts.c. */
void
op_acquire(struct core *c, struct claim *cl)
{
    const struct request *r = container_of(cl->requests.next, struct request, claim_node);

    assert(cl->op == 0);
    c->metrics->attempts++;
    cl->queued.tried_us = c->now_us;
    cl->lease_us = r->lease_us != 0 ? r->lease_us : r->spec_lease_us;
    cl->queued.ticket_life_us = clamp_us(r->spec_lease_us, TICKET_MAX_US);
    claim_move(c, cl, CLAIM_TRYING);
    op_begin(c, cl, CORE_ACQUIRE, 1, r->shared, cl->lease_us, NULL);
}

/*
 * The operation in flight is overtaken: its outcome is ignored. But it may still extend the claim in Redis, or acquire
 * it anew; and an operation that shortens the expiry, or takes holds away, must not meet a later hold.
 */
void
op_abandon(struct core *c, struct claim *cl)
{
    bool takes = cl->op_verb == CORE_EXTEND || cl->op_verb == CORE_RELEASE;

    assert(cl->op == 0 || cl->state == CLAIM_HELD);
    if (cl->op != 0) {
        uncertain_raise_expiry_max(cl, uncertain_latest_guard_us(c), cl->hold.op_lease_us);
    }
    if (cl->renewal_sent) { /* its answer is ignored, but it may still extend the lease */
        uncertain_raise_expiry_max(cl, uncertain_latest_guard_us(c), cl->renew.lease_us);
    }
    if (cl->op != 0 && cl->op_reclaim) { /* the reclaim may run after the release */
        uncertain_add_straggler(c, cl, STRAGGLER_ACQUIRE, uncertain_latest_guard_us(c));
        c->window[WINDOW_RECLAIM].n--;
    }
    uncertain_hold_ends(c, cl, cl->op != 0 && takes);
    cl->op = 0;
    cl->op_for_request = false;
}

/*
 * The earliest time for a release of a kind whose expiry proves ownership. The next owner must not have the same
 * expiry: hence the gap. And a release that may have run is not sent again before that expiry is over: by chance a
 * later owner, with a lease of another length, might have the same expiry.
 */
static int64_t
release_from_us(const struct claim *cl)
{
    return uncertain_release_may_have_run(cl) && cl->expiry_ms != 0 ? uncertain_expiry_max_us(cl)
                                                                    : cl->expiry_learned_us + EXPIRY_GAP_US;
}

/*
 * Releases the claim in Redis; r: the UNLOCK that asks for that, or NULL. Any other operation in flight is overtaken:
 * its outcome is ignored.
 */
void
op_release(struct core *c, struct claim *cl, struct request *r)
{
    enum window_sort sort = window_release_sort(cl, r);

    op_abandon(c, cl);
    cl->op_for_request = r != NULL;
    cl->retry_us = 0;
    if (cl->state != CLAIM_RELEASING) {
        claim_move(c, cl, CLAIM_RELEASING);
        cl->failed_n = 0;
    }
    if (claim_busy(cl)) {
        claim_arm(c, cl);
        return; /* the renewal is answered first, then renew_done() releases the claim */
    }
    if (policy(cl->lock)->expiry_proves && c->now_us < release_from_us(cl)) {
        cl->retry_us = release_from_us(cl);
        claim_arm(c, cl);
        return;
    }
    if (!window_may_send(c, cl, sort)) {
        claim_arm(c, cl);
        return;
    }
    c->window[sort].n++;
    cl->op_background = sort == WINDOW_BACKGROUND;
    cl->lock->releases_sent_n++;
    op_begin(c, cl, CORE_RELEASE, 0, false, cl->lease_us, r);
    dirty_mark_lock(c, cl->lock); /* the next attempt may be sent behind this release (A6) */
}

/* The claim's release, if it waits in a window (either one), is sent: a request waits for the lock. */
static void
send_awaited_release(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_RELEASING && cl->awaits_window) {
        window_leave(c, cl);
        op_release(c, cl, claim_op_request(cl));
    }
}

/*
 * Looks at the last few claims, which have come last, and at the first few: very many that are LOST, or IDLE because
 * their requests wait for others of their owners, may be in front of a release, or behind it. Any permit that comes
 * back serves the waiter. A release in the midst of very many other claims keeps its turn in the window.
 */
void
op_send_releases(struct core *c, struct lock *l)
{
    struct list *last = l->rest.prev, *first = l->rest.next;

    if (l->releasing_n == l->releases_sent_n || !window_has_room(c, WINDOW_UNLOCK)) {
        return;
    }
    for (int i = 0; i < ATTEMPTS_MAX && last != &l->rest; i++, last = last->prev) {
        send_awaited_release(c, container_of(last, struct claim, node));
    }
    for (int i = 0; i < ATTEMPTS_MAX && first != &l->rest; i++, first = first->next) {
        send_awaited_release(c, container_of(first, struct claim, node));
    }
}

void
op_release_cached(struct core *c, struct lock *l)
{
    if (l->has_cached) {
        op_release(c, lock_cached_claim(l), NULL);
    }
}
