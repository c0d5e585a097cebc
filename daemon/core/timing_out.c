/*
 * timing_out.c -- LOCKs that do not wait, or whose time to wait has ended.
 *
 * A LOCK whose time is over is answered at once, unless only an operation in flight stands between it and a better
 * answer: then it is on the queue's list `timing_out` until the outcome is known, or Redis has had its time.
 *
 * S1  An outcome is for the requests that are on the list when it comes; if there are more than JOB_RECORDS, a job
 *     answers the rest. Outcomes are numbered, and a request has the number of the last outcome before it joined the
 *     list: so the requests that an outcome has still to answer are in front.
 * S2  A request that is still to be answered when the next outcome comes gets that one: it is newer. If by then its own
 *     attempt is under way, or there is room for it, it waits on.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/queue.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

static bool
wanted_to_wait(const struct request *r)
{
    return r->due_us > r->arrived_us;
}

/* True when a request wants to wait for the lock, and not only for the operation under way. */
static bool
is_waited_in(const struct claim *cl)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &cl->requests)
    {
        if (!container_of(pos, struct request, claim_node)->timing_out) {
            return true;
        }
    }
    return false;
}

/*
 * Whether more than an operation in flight stands between a LOCK that does not want to wait and its grant. Behind
 * more than NOWAIT_BEHIND_MAX claims (16 times as many where several owners may hold the lock) the answer is yes: to
 * examine each would cost the square of their number. If no other request wants to wait, the other claims in the queue
 * are positions that are kept without a request, and are not in the way.
 */
static bool
is_busy_for(const struct core *c, const struct request *r)
{
    const struct claim *cl = r->claim;
    const struct lock *l = cl->lock;
    uint32_t most = lock_holders_max(l), room = most > l->held_n ? most - l->held_n : 1;
    int in_front = 0, behind_max = lock_allows_several(l) ? 16 * NOWAIT_BEHIND_MAX : NOWAIT_BEHIND_MAX;

    if (cl->state == CLAIM_TRYING) {
        return false;
    }
    if (lock_is_full(l, r->shared)) {
        return true;
    }
    /* A link that is just coming back may be up in time for a NOWAIT; a request that has waited is answered. */
    if (l->queue->retry_us > c->now_us && (l->queue->last_failure == CORE_NOT_GRANTED || wanted_to_wait(r))) {
        return true;
    }
    if (l->queue->blocking_n == r->blocking) { /* no request wants to wait, except perhaps r */
        return false;
    }
    for (struct list *pos = l->queue->claims.next; pos != &cl->node; pos = pos->next) { /* cl is on the list */
        const struct claim *other = container_of(pos, struct claim, node);

        if (++in_front > behind_max) {
            return true;
        }
        if (is_waited_in(other) && !(r->shared && claim_wants_shared(other)) && --room == 0) {
            return true;
        }
    }
    return false;
}

/*
 * How long Redis may take for one operation before a LOCK that must not wait is answered UNAVAILABLE. Replicas that
 * have to acknowledge a grant need time of their own (backend/replicas.h). And the first use of one of many domains
 * takes some round trips more.
 */
static int64_t
outcome_limit_us(const struct core *c, const struct lock *l)
{
    return l->replicas > 0 || c->domains_n > 1 ? c->conf.op_timeout_us : c->conf.op_timeout_us / 4;
}

/* The claim's own attempt is under way: another outcome will come. */
static bool
has_own_attempt(const struct request *r)
{
    return r->claim->state == CLAIM_TRYING;
}

/* An outcome has come since the request joined the list. */
static bool
has_newer_outcome(const struct request *r)
{
    return list_linked(&r->timing_out_node) && r->outcome_n != r->claim->lock->queue->settle.outcome_n;
}

/* The last outcome answers the request. */
static bool
is_settled(const struct request *r)
{
    const struct lock *l = r->claim->lock;

    switch (l->queue->settle.how) {
    case SETTLE_FULL: /* unless there is room for it yet */
        return lock_is_full(l, r->shared) && !has_own_attempt(r);
    case SETTLE_WAITED: /* requests that did not want to wait have a time of their own: outcome_limit_us() */
        return wanted_to_wait(r) && !has_own_attempt(r);
    case SETTLE_ALL:
        break;
    }
    return !has_own_attempt(r);
}

static void
await_outcome(struct request *r)
{
    struct queue *q = r->claim->lock->queue;

    r->outcome_n = q->settle.outcome_n;
    list_remove(&r->timing_out_node);
    list_push_back(&q->timing_out, &r->timing_out_node);
}

/*
 * The time to wait is over, or there was none: the request is answered; or, if only an operation in flight stands
 * between it and a better answer, it is timing out from now on.
 */
void
timing_out_begin(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    struct lock *l = cl->lock;
    bool queued = cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING;
    int64_t until_us = after_us(cl->state == CLAIM_TRYING ? cl->queued.tried_us : c->now_us, outcome_limit_us(c, l));

    if (r->timing_out && has_newer_outcome(r) && is_settled(r)) {
        request_finish(c, r, l->queue->settle.answer, 0);
    } else if (r->timing_out || (!queued && cl->retry_us > c->now_us)) {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    } else if (queued && is_busy_for(c, r)) {
        request_finish(c, r, l->queue->last_failure, 0);
    } else if (until_us <= c->now_us) {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    } else {
        r->timing_out = true;
        timer_set(&c->timers, &r->timer, until_us);
        if (queued) {
            await_outcome(r);
        }
    }
}

bool
timing_out_settle_next(struct core *c, struct queue *q)
{
    struct request *r = container_of(q->timing_out.next, struct request, timing_out_node);

    if (list_empty(&q->timing_out) || !has_newer_outcome(r)) {
        job_end(&q->settle.job);
        return false;
    }
    if (is_settled(r)) {
        request_finish(c, r, q->settle.answer, 0);
    } else {
        await_outcome(r);
    }
    return true;
}

void
timing_out_settle(struct core *c, struct lock *l, enum settle_how how, enum core_answer answer)
{
    struct queue *q = l->queue;
    uint32_t n = 0, most = job_records_max(c);
    bool more = true;

    if (list_empty(&q->timing_out)) {
        return;
    }
    q->settle.how = how;
    q->settle.answer = answer;
    q->settle.outcome_n++;
    for (; more && n < most; n++) {
        more = timing_out_settle_next(c, q);
    }
    budget_spend(&c->budget.records, n);
    if (more) {
        job_begin(c, &q->settle.job);
    }
}
