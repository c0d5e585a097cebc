/*
 * work.c -- the work of a step: timers that are due, jobs in slices, and dirty records.
 *
 * The files below mark records, arm timers and begin jobs, and need not know what does the work.
 */
#include "daemon/core/work.h"

#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/lock.h"
#include "daemon/core/locks.h"
#include "daemon/core/owner.h"
#include "daemon/core/queue.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/window.h"

static void (*const walk_does[WALKS])(struct core *c, struct lock *l) = {
    [WALK_REVIEW] = lock_catch_up,
    [WALK_GRANTING] = review_redis_grants,
    [WALK_REACHED] = review_redis_reached,
    [WALK_DRAIN] = lock_drain,
};

/*
 * Does the next lock of the walk; *n counts its claims as records, unless a round does them later. False: that was the
 * last lock.
 */
static bool
walk_next(struct core *c, struct walk *w, uint32_t *n)
{
    struct lock *l = container_of(w->next, struct lock, all);
    bool more = w->next != w->last;

    w->next = w->next->next;
    if (!more) {
        walk_end(c, lock_domain(c, l), w);
    }
    *n += round_is_needed(c, l) ? 0 : l->claims_n;
    walk_does[w->kind](c, l); /* frees no lock: that is for the end of the step */
    return more;
}

/* Runs requests whose claim is gone in Redis, and ends multilocks that are complete or have failed. */
void
work_requests(struct core *c)
{
    while (!list_empty(&c->dirty_multilocks) || !list_empty(&c->to_rerun)) {
        multilocks_advance(c);
        requests_rerun(c);
    }
}

/* Does the next record of the job. False: no record is left now, and the job has ended itself. */
static bool
job_next(struct core *c, struct job *j, uint32_t *n)
{
    ++*n;
    switch (j->kind) {
    case JOB_OWNER:
        return owner_release_next(c, container_of(j, struct owner, job));
    case JOB_SESSION:
        return core_session_leave_owner(c, container_of(j, struct core_session, job));
    case JOB_BREAK:
        return break_next(c, container_of(j, struct queue, break_job)->lock);
    case JOB_SETTLE:
        return timing_out_settle_next(c, container_of(j, struct queue, settle.job));
    case JOB_WALK:
        return walk_next(c, container_of(j, struct walk, job), n);
    case JOB_ROUND:
        return round_next(c, container_of(j, struct round, job));
    }
    assert(false);
    return false;
}

void
work_finish_walk(struct core *c, struct walk *w)
{
    uint32_t n = 0;

    while (job_is_pending(&w->job)) {
        (void)walk_next(c, w, &n);
    }
}

void
work_jobs(struct core *c)
{
    while (jobs_may_run(c)) {
        struct job *j = container_of(c->jobs.next, struct job, node);
        uint32_t n = 0, most = c->conf.slice != 0 && c->budget.records < JOB_RECORDS ? c->budget.records : JOB_RECORDS;
        bool more;

        list_remove(&j->node);
        list_push_back(&c->jobs, &j->node); /* J3 */
        do {
            more = job_next(c, j, &n);
            work_requests(c);
        } while (more && n < most);
        budget_spend(&c->budget.records, n);
    }
}

/* Every claim re-arms its timer, so the timer stays in the heap: moving it costs less than removing and adding it. */
static void
timer_fire(struct core *c, struct timer *t)
{
    if (t->node.what != TIMER_CLAIM) {
        heap_remove(&c->timers, &t->node);
    }
    switch ((enum timer_kind)t->node.what) {
    case TIMER_REQUEST:
        request_timer(c, container_of(t, struct request, timer));
        break;
    case TIMER_CLAIM:
        claim_timer(c, container_of(t, struct claim, timer));
        break;
    case TIMER_QUEUE:
        dirty_mark_lock(c, container_of(t, struct queue, timer)->lock);
        break;
    case TIMER_OWNER:
        owner_timer(c, container_of(t, struct owner, timer));
        break;
    case TIMER_WAITER_POLL:
        waiter_poll_timer(c);
        break;
    }
    work_requests(c);
}

/*
 * A renewal a little early costs nothing, and lets renewals that are due close together leave in one batch. One batch
 * and no more: very many renewals, sent at once, would delay everything else, here and in Redis.
 */
static int64_t
renew_slack_us(struct timer *t, int64_t at_us)
{
    struct claim *cl;
    int64_t slack_us;

    if (t->node.what != TIMER_CLAIM) {
        return 0;
    }
    cl = container_of(t, struct claim, timer);
    slack_us = claim_renew_is_next(cl, at_us) ? cl->lease_us / 60 : 0;
    return slack_us < 250 * US_PER_MS ? slack_us : 250 * US_PER_MS;
}

/* Fires due timers, the oldest first, as many as this turn's slice has. */
static void
fire_due(struct core *c)
{
    struct heap_node *n;
    int renewed = 0;

    windows_advance(c);
    work_requests(c);
    while ((n = heap_min(&c->timers)) != NULL && budget_has(c, c->budget.timers)) {
        struct timer *t = container_of(n, struct timer, node);
        int64_t at_us = heap_min_at(&c->timers), early_us = at_us - c->now_us, slack_us;

        if (early_us > 0 && (renewed == 0 || renewed >= RENEW_EARLY_MAX)) {
            return;
        }
        slack_us = renew_slack_us(t, at_us);
        if (early_us > slack_us) {
            return;
        }
        renewed += slack_us > 0;
        budget_spend(&c->budget.timers, 1);
        timer_fire(c, t);
    }
}

/* Does the work that events and timers left; advancing one record may mark others dirty. */
void
work_dirty(struct core *c)
{
    for (;;) {
        work_requests(c);
        if (!list_empty(&c->dirty_owners)) {
            struct owner *o = container_of(c->dirty_owners.next, struct owner, dirty_node);

            list_remove(&o->dirty_node);
            owner_advance(c, o);
        } else if (c->dirty_locks.first != NULL) {
            lock_advance(c);
        } else {
            return;
        }
    }
}

/* A timer is due, or a window has room for a waiting claim, and something is left of the slice. */
static bool
may_fire(const struct core *c)
{
    return (heap_min_at(&c->timers) <= c->now_us && budget_has(c, c->budget.timers)) ||
           (windows_may_send(c) && budget_has(c, c->budget.from_windows));
}

/*
 * Does what is due, and the work that it leaves, as far as the slice goes. The loop ends, because no timer is armed
 * again and again for a time that has passed.
 */
void
work_catch_up(struct core *c)
{
    while (may_fire(c) || jobs_may_run(c)) {
        fire_due(c);
        work_jobs(c);
        work_dirty(c);
    }
}
