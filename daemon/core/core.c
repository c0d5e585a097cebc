/*
 * core.c -- one step: what is due, then the event, then the work that both left behind.
 *
 * Owns the step, the timers and the clock of the step. What locks, claims,
 * owners and requests do with an event stands in their own files; this one
 * only brings them the event and the time.
 *
 * The invariants of the whole core; core_check() (check.c) asserts each:
 *
 * I1  Who holds a name: one claim; or, of a kind with shared holds, one exclusive claim or any number that are shared;
 *     or, of a kind with permits, as many as the limit was when they were granted.
 * I2  HELD implies now < deadline when a step ends; or its timer is due and waits for its slice (I17): nobody is told
 *     then that it is held.
 * I3  No claim is forgotten: QUEUED has a request or a place timer; TRYING has an operation in flight; HELD has its
 *     deadline armed; CACHED has its end armed; RELEASING has an operation in flight or a retry armed; QUARANTINE has
 *     its
     timer armed.
 * I4  A lock somebody waits for has an attempt in flight, a retry armed, or is held or being freed here.
 * I5  Of a name one attempt is in flight, or several for holds that can be beside each other (attempts.c); and none
 *     while those who hold it or are freeing it here are in the way; but for the one that takes a place in Redis's
 *     queue (kinds with places).
 * I6  Ids are never used twice; an outcome whose operation is not the claim's current one is dropped.
 * I7  Every request ends in exactly one reply, unless its session has gone: then in none.
 * I8  An acquire without an answer, or a place in Redis's queue, is asked for again by the same owner, or released; its
 *     owner is never taken to hold.
 * I9  Requests of one owner begin in order of arrival; which of them run side by side, order.c says.
 * I10 When a step ends dirty_locks and dirty_owners are empty. What is left over stands in core.jobs, or is due in the
 *     heap, and core_next_us() says so.
 * I11 Who has a place in Redis's queue stands before those that have none, in the order in which they took them; so the
 *     first one here is the first of ours there.
 * I12 Doubt is for claims that are HELD, and each has an operation in flight or its timer armed.
 * I13 What is kept of a claim for the process after us is what it is now, and there before Redis can be asked for it.
 * I14 Of each sort of window.c no more than window_size() are in flight, and a claim waits for its turn only while as
 *     many are.
 * I15 A lock has a queue of its own while somebody may wait, or is asked about elsewhere (waiter_polls.c), and no
 *     longer; core.nobody, which all others have, stays as it was made.
 * I16 Of a lock at most one claim lingers, and lock.lingers says so. An operation that was not taken has ended as DOWN.
 * I17 Without a bound (core_conf.slice 0) a step leaves nothing: no job, and no timer that is due. With one, an event
 *     sees the records it is about as if there were none: claim_meet(), lock_meet(). An owner that has ended takes no
 *     request, and is granted nothing; what it holds meanwhile its job gives back.
 * I18 One key in Redis is one lock: no two records have the same key, or share those that stand beside it. What is held
 *     stays of the kind, and under the key, that it was taken by, whatever the rules say meanwhile.
 * I19 A search for deadlocks that goes on over several steps has a slice in each CORE_TIME; until it is done
 *     core_next_us() says that the next one is due now.
 */
#include "daemon/core/core.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/core/bounds.h"
#include "daemon/core/broadcast.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/deadlock.h"
#include "daemon/core/graph.h"
#include "daemon/core/jobs.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/locks.h"
#include "daemon/core/owner.h"
#include "daemon/core/owners.h"
#include "daemon/core/queue.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/restore.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/waiter_polls.h"
#include "daemon/core/window.h"

int64_t
core_deadline_us(int64_t sent_us, int64_t lease_us)
{
    return after_us(sent_us, lease_us - lease_us / 100 - 2 * US_PER_MS);
}

/* The other way round. */
int64_t
core_lease_us(int64_t left_us)
{
    int64_t us = left_us + 2 * US_PER_MS;

    return us + us / 99;
}

int64_t
after_us(int64_t now_us, int64_t delay_us)
{
    return delay_us >= CORE_FOREVER - now_us ? CORE_FOREVER : now_us + delay_us;
}

int64_t
backoff_us(unsigned failed_n)
{
    return failed_n < BACKOFF_TIMES ? BACKOFF_MIN_US << (failed_n - 1) : BACKOFF_MAX_US;
}

static void
slice_begin(struct core *c)
{
    c->left = (struct slice_left){c->conf.slice, c->conf.slice, c->conf.slice};
}

struct core *
core_new(const struct core_conf *conf, const struct hash_key *key, struct metrics *metrics, struct core_sink sink)
{
    struct core *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->conf = *conf;
    c->key = *key;
    c->metrics = metrics;
    c->sink = sink;
    heap_init(&c->timers);
    map_init(&c->session_owners);
    map_init(&c->told_waits);
    map_init(&c->claims);
    map_init(&c->tokens);
    map_init(&c->shares);
    map_init(&c->by_name);
    map_init(&c->by_key);
    map_init(&c->queues);
    queue_init(&c->empty_queue);
    list_init(&c->locks);
    list_init(&c->looks);
    for (int i = 0; i < WINDOWS; i++) {
        heap_init(&c->window[i].waiting);
    }
    c->dirty_locks.end = &c->dirty_locks.first;
    list_init(&c->dirty_owners);
    list_init(&c->losers);
    list_init(&c->jobs);
    list_init(&c->rounds);
    for (int i = 0; i < WALKS; i++) {
        job_init(&c->walk[i].job, JOB_WALK);
    }
    slice_begin(c);
    search_init(&c->search);
    list_init(&c->waiter_poll.todo);
    list_init(&c->waiter_poll.seen);
    if (!timer_init(c, &c->waiter_poll.timer, TIMER_WAITER_POLL)) {
        heap_fini(&c->timers);
        free(c);
        return NULL;
    }
    return c;
}

/* Takes everything apart without a word to anybody: the process is ending. */
void
core_free(struct core **cp)
{
    struct core *c = *cp;
    struct core_session *p, *next_p;
    struct list *pos, *nxt;

    if (c == NULL) {
        return;
    }
    c->sink.act = NULL;
    list_for_each_safe(pos, nxt, &c->locks)
    {
        container_of(pos, struct lock, all)->dirty = true; /* none goes to work any more */
    }
    HASH_ITER(hh, c->sessions, p, next_p)
    {
        while (!list_empty(&p->requests)) {
            struct request *r = container_of(p->requests.next, struct request, session_node);

            if (r->multilock != NULL) {
                multilock_leave(c, r);
            } else {
                request_drop(c, r);
            }
        }
    }
    while (!list_empty(&c->locks)) {
        lock_free(c, container_of(c->locks.next, struct lock, all));
    }
    HASH_ITER(hh, c->sessions, p, next_p)
    {
        core_session_gone(c, p);
    }
    c->conf.slice = 0;
    jobs_run(c);
    while (!list_empty(&c->dirty_owners)) {
        owner_advance(c, container_of(c->dirty_owners.next, struct owner, work));
    }
    timer_fini(c, &c->waiter_poll.timer);
    windows_fini(c);
    heap_fini(&c->timers);
    map_fini(&c->session_owners);
    map_fini(&c->told_waits);
    map_fini(&c->claims);
    map_fini(&c->tokens);
    map_fini(&c->shares);
    map_fini(&c->by_name);
    map_fini(&c->by_key);
    map_fini(&c->queues);
    graph_clear(&c->graph[GRAPH_EVENT]);
    graph_clear(&c->graph[GRAPH_JOB]);
    freelist_clear(&c->freelist);
    free(c);
    *cp = NULL;
}

void
core_configure(struct core *c, const struct core_conf *conf)
{
    c->conf = *conf;
}

void
core_act(struct core *c, const struct core_action *a)
{
    if (c->sink.act != NULL) {
        c->sink.act(c->sink.ctx, a);
    }
}

bool
timer_init(struct core *c, struct timer *t, enum timer_kind kind)
{
    t->node.what = kind;
    t->node.pos = 0;
    if (!heap_reserve(&c->timers, c->timers_n + 1)) {
        return false;
    }
    c->timers_n++;
    return true;
}

void
timer_fini(struct core *c, struct timer *t)
{
    heap_remove(&c->timers, &t->node);
    assert(c->timers_n > 0);
    c->timers_n--;
}

void
timer_set(struct core *c, struct timer *t, int64_t at_us)
{
    if (at_us == CORE_FOREVER) {
        if (t->node.pos != 0) {
            heap_remove(&c->timers, &t->node);
        }
    } else if (t->node.pos == 0 || heap_at(&c->timers, &t->node) != at_us) {
        heap_set(&c->timers, &t->node, at_us);
    }
}

/* A claim arms itself anew, whatever it does: to move a timer costs less than to take it out and put it in again. */
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
        queue_timer(c, container_of(t, struct queue, timer));
        break;
    case TIMER_OWNER:
        owner_timer(c, container_of(t, struct owner, timer));
        break;
    case TIMER_WAITER_POLL:
        waiter_poll_timer(c);
        break;
    }
}

/* It is due, and a slice has not come to it yet. */
static bool
is_due(const struct core *c, const struct timer *t)
{
    return t->node.pos != 0 && heap_at(&c->timers, &t->node) <= c->now_us;
}

void
claim_meet(struct core *c, struct claim *cl)
{
    lock_meet(c, cl->lock);
    claim_review(c, cl);
    if (job_stands(&cl->owner->job)) {
        claim_owner_ends(c, cl);
    }
    if (cl->state == CLAIM_HELD && claim_is_broken(cl)) {
        claim_over(c, cl);
    } else if (is_due(c, &cl->timer)) {
        claim_timer(c, cl);
    }
}

/*
 * A renewal a little early costs nothing, and lets renewals that are due close together leave in one batch. No more
 * than one: of very many a whole slack at a time would keep everybody else waiting, here and in Redis.
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

/* The oldest first, as many as this turn's slice has. */
static void
fire_due(struct core *c)
{
    struct heap_node *n;
    int renewed = 0;

    windows_go_on(c);
    while ((n = heap_min(&c->timers)) != NULL && slice_has(c, c->left.timers)) {
        struct timer *t = container_of(n, struct timer, node);
        int64_t at_us = heap_min_at(&c->timers), early_us = at_us - c->now_us, slack_us;

        if (early_us > 0 && (renewed == 0 || renewed >= RENEW_TOGETHER)) {
            return;
        }
        slack_us = renew_slack_us(t, at_us);
        if (early_us > slack_us) {
            return;
        }
        renewed += slack_us > 0;
        slice_spend(&c->left.timers, 1);
        timer_fire(c, t);
    }
}

/* What events and timers left behind; each round may leave more, for other records. */
static void
work_off(struct core *c)
{
    for (;;) {
        if (!list_empty(&c->dirty_owners)) {
            struct owner *o = container_of(c->dirty_owners.next, struct owner, work);

            list_remove(&o->work);
            owner_advance(c, o);
        } else if (c->dirty_locks.first != NULL) {
            lock_advance(c);
        } else {
            return;
        }
    }
}

/* A timer is due, or what waited has room by now, and something is left of the slice. */
static bool
may_fire(const struct core *c)
{
    return (heap_min_at(&c->timers) <= c->now_us && slice_has(c, c->left.timers)) ||
           (windows_open(c) && slice_has(c, c->left.turns));
}

/*
 * What is due, and what comes of it, as far as the slice goes. Ends: nothing arms itself for a time that has passed for
 * ever.
 */
static void
catch_up(struct core *c)
{
    while (may_fire(c) || jobs_may_run(c)) {
        fire_due(c);
        jobs_run(c);
        work_off(c);
    }
}

static void
done(struct core *c, const struct core_done *d)
{
    struct map_node *found = map_find(&c->claims, d->claim);
    struct queue *q;

    if (d->token > c->token_max) {
        c->token_max = d->token;
    }
    if (found != NULL) {
        claim_meet(c, container_of(found, struct claim, by_id));
        claim_done(c, container_of(found, struct claim, by_id), d);
        return;
    }
    q = queue_find(c, d->claim);
    if (q != NULL && q->break_op == d->op) {
        lock_break_done(c, q->lock, d);
    }
}

static void
session_event(struct core *c, const struct core_event *ev)
{
    struct core_session *p = core_session_find(c, ev->type == CORE_CROWDED ? ev->oldest.session : ev->session);

    if (p == NULL) {
        return;
    }
    if (ev->type == CORE_CROWDED) {
        core_session_crowded(c, p, ev->oldest.id);
    } else if (ev->type == CORE_EOF) {
        core_session_eof(c, p);
    } else {
        core_session_gone(c, p);
    }
}

/* Of the channel of a name. */
static void
watch_event(struct core *c, const struct core_event *ev)
{
    struct queue *q = queue_find(c, ev->lock);

    if (q == NULL) {
        return; /* nobody waits any more */
    }
    if (ev->type == CORE_UNSUBSCRIBED) {
        q->watch = q->watch == WATCH_ON ? WATCH_ASKED : q->watch;
    } else {
        lock_hint(c, q->lock, ev->type == CORE_SUBSCRIBED);
    }
}

static void
dispatch(struct core *c, const struct core_event *ev)
{
    switch (ev->type) {
    case CORE_LOCK:
    case CORE_UNLOCK:
    case CORE_RENEW:
    case CORE_BREAK:
    case CORE_CANCEL:
        request_arrive(c, ev);
        break;
    case CORE_CROWDED:
    case CORE_EOF:
    case CORE_GONE:
        session_event(c, ev);
        break;
    case CORE_HINT:
    case CORE_SUBSCRIBED:
    case CORE_UNSUBSCRIBED:
        watch_event(c, ev);
        break;
    case CORE_DONE:
        done(c, &ev->done);
        break;
    case CORE_TOLD_LOST:
    case CORE_UNTOLD:
        claim_untold(c, &ev->grant, ev->type == CORE_TOLD_LOST);
        break;
    case CORE_MLOCK:
    case CORE_MUNLOCK:
    case CORE_MRENEW:
        multilock_arrive(c, ev);
        break;
    case CORE_PROBED:
        waiter_poll_done(c, &ev->polled);
        break;
    case CORE_RECEIVED:
        broadcast_received(c, ev->heard);
        break;
    case CORE_RESTORE:
        restore(c, ev->restore);
        break;
    case CORE_REACHED:
        walk_begin(c, WALK_REACHED);
        break;
    case CORE_RECLAIM:
        reclaim_begin(c, ev->epoch);
        break;
    case CORE_GRACE_OVER:
        walk_begin(c, WALK_WAKE);
        break;
    case CORE_SUSPECT:
        reclaim_confirm(c);
        break;
    case CORE_CLOCK_BACK:
        guards_move(c, ev->back_us);
        break;
    case CORE_TIME:
        deadlock_work(c);
        break;
    case CORE_DRAIN:
        c->draining = true;
        walk_begin(c, WALK_DRAIN);
        break;
    }
}

void
core_step(struct core *c, int64_t now_us, const struct core_event *ev)
{
    assert(!c->stepping);
    c->stepping = true;
    if (now_us > c->now_us) {
        c->now_us = now_us; /* the clock never steps back; if it seems to, time stands still */
    }
    /* What is over is over before anything new is looked at, however long we slept. */
    catch_up(c);
    dispatch(c, ev);
    if (jobs_may_run(c)) {
        jobs_run(c);
    }
    work_off(c);
    catch_up(c); /* an outcome may have come when its lease was over */
    if (c->epoch != 0) {
        reclaim_end(c);
    }
    c->stepping = false;
}

void
core_sent(struct core *c)
{
    c->turn++;
    slice_begin(c);
}

int64_t
core_next_us(const struct core *c)
{
    int64_t at_us = !list_empty(&c->jobs) || windows_open(c) ? c->now_us : heap_min_at(&c->timers);

    return earlier(at_us, deadlock_next_us(c));
}
