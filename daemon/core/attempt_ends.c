/*
 * attempt_ends.c -- what the outcome of an attempt, or of a release, means for other waiters; see attempts.c.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/broadcast.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/queue.h"
#include "daemon/core/queues.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/* An attempt was granted: former failures count no more. */
void
attempt_succeeded(struct lock *l)
{
    l->queue->failed = false;
    l->queue->retry_us = l->queue->yield_until_us;
}

/* The answer to requests that cannot wait, after an attempt that Redis could not decide. */
static enum core_answer
failure_of(enum core_outcome outcome)
{
    return outcome == CORE_FULL           ? CORE_REDIS_FULL
           : outcome == CORE_SHORTFALL ? CORE_NO_REPLICAS
                                          : CORE_UNAVAILABLE;
}

/* The attempt brought no grant in time: sets when to try again, and answers requests that cannot wait. */
void
attempt_failed(struct core *c, struct lock *l, const struct core_done *d)
{
    struct queue *q = l->queue;
    bool pause_is_set = q->failed && q->last_failure != CORE_NOT_GRANTED;
    int64_t retry_us;

    l->cohort_passes = 0;
    if (d->outcome == CORE_TAKEN || d->outcome == CORE_FOREIGN) {
        int64_t poll_us = d->pttl_us < 0 || d->pttl_us > c->conf.max_poll_us ? c->conf.max_poll_us : d->pttl_us;

        c->metrics->attempts_taken++;
        q->redis_holders_n = (uint32_t)d->holders;
        q->last_failure = CORE_NOT_GRANTED;
        q->failed_n = 0;
        q->taken_until_us = d->pttl_us < 0 ? CORE_FOREVER : after_us(c->now_us, d->pttl_us);
        /* Redis drops a key when its millisecond is over. */
        retry_us = q->hinted ? q->yield_until_us : after_us(c->now_us, poll_us + US_PER_MS);
    } else {
        q->last_failure = failure_of(d->outcome);
        q->failed_n += !pause_is_set && q->failed_n < BACKOFF_TIMES;
        retry_us = pause_is_set ? q->retry_us : after_us(c->now_us, backoff_us(q->failed_n));
    }
    q->retry_us = q->failed ? earlier(q->retry_us, retry_us) : retry_us;
    q->failed = true;
    if (d->outcome == CORE_DOWN || d->outcome == CORE_GRACE) {
        timing_out_settle(c, l, SETTLE_WAITED, q->last_failure);
    } else {
        timing_out_settle(c, l, SETTLE_ALL, q->last_failure);
    }
    /* The other daemon may only be caching the lock: ask for it. */
    if (d->outcome == CORE_TAKEN && lock_may_cache(l) && q->waiting_n > 0) {
        broadcast_lock(c, BROADCAST_WANTED, l, 0);
    }
    dirty_mark_lock(c, l);
}

/* Other owners here still hold the lock: then Redis reports no number of subscribers. */
static bool
is_still_held_here(const struct lock *l)
{
    return policy(l)->only_last_reports && l->held_n + l->releasing_n > 1;
}

/*
 * The lock was released. If there are remote subscribers, and the cohort here is over or the lock was released for
 * them, they try first: the next attempt of this daemon would nearly always win. An attempt that was sent behind this
 * release is under way already: the cohort goes on, within its bounds (H4 of handoff.c).
 */
void
attempt_after_release(struct core *c, struct lock *l, const struct core_done *d)
{
    struct queue *q = l->queue;
    bool redis_orders = policy(l)->tickets; /* the queue in Redis decides who is next */
    bool remote = d->remote_subscribers > (q->watch == WATCH_ON) && !redis_orders;
    bool released_for_remote = l->remote_waiters;

    dirty_mark_lock(c, l);
    if (lock_has_queue(l)) {
        q->retry_us = q->yield_until_us; /* the answer to an earlier release may have begun the turn of others */
    }
    if (d->outcome != CORE_OK || is_still_held_here(l)) { /* no number of subscribers was reported */
        return;
    }
    if (remote && q->trying_n > 0 && !lock_has_limit(l)) { /* the attempt may be for another permit */
        return;
    }
    l->remote_waiters = false;
    if (!remote) {
        l->cohort_passes = 0;
        l->cohort_since_us = d->sent_us;
    } else if (released_for_remote || lock_cohort_is_over(c, l)) {
        c->metrics->handoff_yields++;
        c->metrics->handoff_late += c->now_us - l->cohort_since_us > c->conf.handoff_time_us + YIELD_US;
        l->cohort_passes = 0;
        queue_open(c, l); /* also without waiters here: a LOCK that arrives soon would be faster than remote waiters */
        l->queue->yield_until_us = l->queue->retry_us = after_us(c->now_us, YIELD_US);
    }
}
