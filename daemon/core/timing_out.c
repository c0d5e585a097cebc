/*
 * timing_out.c -- LOCKs that do not want to wait, or no longer.
 *
 * A LOCK whose time is over is answered at once, unless only an operation in flight stands between it and a better
 * answer: then it is on the queue's list `hurried` until the outcome is known, or Redis has had its time.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/locks.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

static bool
wanted_to_wait(const struct request *r)
{
    return r->due_us > r->arrived_us;
}

/* Somebody wants to wait there, and not only for what is under way. */
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
 * Whether a LOCK that does not want to wait has anything but an operation in
 * flight between itself and an answer. Behind many others it has, without looking
 * at each: else a crowd of them would cost the square of its size. Where nobody wants
 * to wait, those others are tickets kept for nobody, and none of them is in its way.
 */
static bool
is_busy_for(const struct core *c, const struct request *r)
{
    const struct claim *cl = r->claim;
    const struct lock *l = cl->lock;
    uint32_t room = lock_is(l, KIND_F_PERMITS) && l->limit > l->held_n ? l->limit - l->held_n : 1;
    int before = 0, crowd = lock_is(l, KIND_F_PERMITS | KIND_F_SHARED) ? 16 * CROWD : CROWD;

    if (cl->state == CLAIM_TRYING) {
        return false;
    }
    if (lock_is_full(l, r->shared)) {
        return true;
    }
    /* A link that is just coming back may be up in time for who did not want to wait; who waited has waited enough. */
    if (l->queue->retry_us > c->now_us && (l->queue->last_failure == CORE_NOT_GRANTED || wanted_to_wait(r))) {
        return true;
    }
    if (l->queue->blocked_n == r->blocked) { /* it alone, at most */
        return false;
    }
    for (struct list *pos = l->queue->claims.next; pos != &cl->node; pos = pos->next) { /* it is in there */
        const struct claim *other = container_of(pos, struct claim, node);

        if (++before > crowd) {
            return true;
        }
        if (is_waited_in(other) && !(r->shared && claim_wants_shared(other)) && --room == 0) {
            return true;
        }
    }
    return false;
}

/* Redis may take so long for one operation before a LOCK that must not wait is told that it is unavailable. */
static int64_t
patience_us(const struct core *c)
{
    return c->conf.op_timeout_us / 4;
}

/*
 * Its time to wait is over (or was none). When only an operation in flight
 * stands between it and an answer, the answer is awaited a little longer.
 */
void
request_time_out(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    struct lock *l = cl->lock;
    bool queued = cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING;
    int64_t until_us = after_us(cl->state == CLAIM_TRYING ? cl->tried_us : c->now_us, patience_us(c));

    if (r->timing_out || (!queued && cl->retry_us > c->now_us)) {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    } else if (queued && is_busy_for(c, r)) {
        request_finish(c, r, l->queue->last_failure, 0);
    } else if (until_us <= c->now_us) {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    } else {
        r->timing_out = true;
        timer_set(c, &r->timer, until_us);
        if (queued) {
            list_push_back(&l->queue->timing_out, &r->timing_out_node);
        }
    }
}

/* Another outcome is on its way to it, which is its own. */
static bool
is_asked_for(const struct request *r)
{
    return r->claim->state == CLAIM_TRYING;
}

/* An outcome is known, and it is not theirs. */
void
lock_settle_timing_out(struct core *c, struct lock *l, enum core_answer answer)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->queue->timing_out)
    {
        struct request *r = container_of(pos, struct request, timing_out_node);

        if (!is_asked_for(r)) {
            request_finish(c, r, answer, 0);
        }
    }
}

/* One was granted it: the others are told no, unless there is room for them yet. */
void
lock_settle_full(struct core *c, struct lock *l)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->queue->timing_out)
    {
        struct request *r = container_of(pos, struct request, timing_out_node);

        if (lock_is_full(l, r->shared) && !is_asked_for(r)) {
            request_finish(c, r, CORE_NOT_GRANTED, 0);
        }
    }
}

/* The attempt has not run. Those who did not want to wait have their patience, see is_busy_for(). */
void
lock_settle_impatient(struct core *c, struct lock *l)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->queue->timing_out)
    {
        struct request *r = container_of(pos, struct request, timing_out_node);

        if (wanted_to_wait(r) && !is_asked_for(r)) {
            request_finish(c, r, l->queue->last_failure, 0);
        }
    }
}
