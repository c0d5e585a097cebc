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
 * I2  HELD implies now < deadline when a step ends.
 * I3  No claim is forgotten: QUEUED has a request or a place timer; TRYING has an operation in flight; HELD has its
 *     deadline armed; LINGERING has its end armed; FREEING has an operation in flight or a retry armed; SWEEP has its
     timer armed.
 * I4  A lock somebody waits for has an attempt in flight, a retry armed, or is held or being freed here.
 * I5  Of a name one attempt is in flight, or several for holds that can be beside each other (attempts.c); and none
 *     while those who hold it or are freeing it here are in the way; but for the one that takes a place in Redis's
 *     queue (kinds with places).
 * I6  Ids are never used twice; an outcome whose operation is not the claim's current one is dropped.
 * I7  Every request ends in exactly one reply, unless its session has gone: then in none.
 * I8  An acquire without an answer, or a place in Redis's queue, is asked for again by the same owner, or released; its
 *     owner is never taken to hold.
 * I9  Requests of one owner run one after the other, in order of arrival.
 * I10 When a step ends no work is left over: lock_work and owner_work are empty.
 * I11 Who has a place in Redis's queue stands before those that have none, in the order in which they took them; so the
 *     first one here is the first of ours there.
 * I12 Doubt is for claims that are HELD, and each has an operation in flight or its timer armed.
 * I13 What is kept of a claim for the process after us is what it is now, and there before Redis can be asked for it.
 * I14 A renewal waits for its turn only while renew_window() of them are in flight.
 * I15 A lock has a queue of its own while somebody may wait, or is asked about elsewhere (probe.c), and no longer;
 *     core.nobody, which all others have, stays as it was made.
 * I16 Of a lock at most one claim lingers, and lock.lingers says so. An operation that was not taken has ended as DOWN.
 */
#include "daemon/core/core.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/core/state.h"

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
    map_init(&c->claims);
    map_init(&c->by_name);
    map_init(&c->queues);
    queue_init(&c->nobody);
    list_init(&c->locks);
    list_init(&c->renewals);
    c->lock_work.end = &c->lock_work.first;
    list_init(&c->owner_work);
    list_init(&c->probe.todo);
    list_init(&c->probe.seen);
    if (!timer_init(c, &c->probe.timer, TIMER_PROBE)) {
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
    struct peer *p, *next_p;
    struct list *pos, *nxt;

    if (c == NULL) {
        return;
    }
    c->sink.act = NULL;
    list_each(pos, nxt, &c->locks)
    {
        container_of(pos, struct lock, all)->woken = true; /* none goes to work any more */
    }
    HASH_ITER(hh, c->peers, p, next_p)
    {
        while (!list_empty(&p->requests)) {
            struct request *r = container_of(p->requests.next, struct request, peer_node);

            if (r->bundle != NULL) {
                bundle_leave(c, r);
            } else {
                request_drop(c, r);
            }
        }
    }
    while (!list_empty(&c->locks)) {
        lock_free(c, container_of(c->locks.next, struct lock, all));
    }
    HASH_ITER(hh, c->peers, p, next_p)
    {
        peer_gone(c, p);
    }
    while (!list_empty(&c->owner_work)) {
        owner_work(c, container_of(c->owner_work.next, struct owner, work));
    }
    timer_fini(c, &c->probe.timer);
    heap_fini(&c->timers);
    map_fini(&c->claims);
    map_fini(&c->by_name);
    map_fini(&c->queues);
    spares_clear(&c->spares);
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
        heap_remove(&c->timers, &t->node);
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
    case TIMER_PROBE:
        probe_timer(c);
        break;
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

static bool
may_renew(const struct core *c)
{
    return c->renewing_n < renew_window(c) && !list_empty(&c->renewals);
}

/* Renewals that had to wait: as many as there is room for now have their timers due once more. */
static void
renew_in_turn(struct core *c)
{
    for (uint32_t n = c->renewing_n; n < renew_window(c) && !list_empty(&c->renewals); n++) {
        struct claim *cl = container_of(c->renewals.next, struct claim, renew_node);

        claim_renew_waits_not(cl);
        claim_arm(c, cl);
    }
}

static void
fire_due(struct core *c)
{
    struct heap_node *n;
    int renewed = 0;

    renew_in_turn(c);
    while ((n = heap_min(&c->timers)) != NULL) {
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
        timer_fire(c, t);
    }
}

/* What events and timers left behind; each round may leave more, for other records. */
static void
work_off(struct core *c)
{
    for (;;) {
        if (!list_empty(&c->owner_work)) {
            struct owner *o = container_of(c->owner_work.next, struct owner, work);

            list_remove(&o->work);
            owner_work(c, o);
        } else if (c->lock_work.first != NULL) {
            lock_work(c);
        } else {
            return;
        }
    }
}

/* Everything that is due, and what comes of it. Ends: nothing arms itself for a time that has passed for ever. */
static void
catch_up(struct core *c)
{
    do {
        fire_due(c);
        work_off(c);
    } while (core_next_us(c) <= c->now_us || may_renew(c));
}

static void
drain(struct core *c)
{
    struct list *pos, *nxt;

    c->draining = true;
    list_each(pos, nxt, &c->locks)
    {
        lock_refuse(c, container_of(pos, struct lock, all), CORE_DRAINING);
        lock_linger_ends(c, container_of(pos, struct lock, all));
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
        claim_done(c, container_of(found, struct claim, by_id), d);
        return;
    }
    q = queue_find(c, d->claim);
    if (q != NULL && q->break_op == d->op) {
        lock_break_done(c, q->lock, d);
    }
}

static void
dispatch(struct core *c, const struct core_event *ev)
{
    struct peer *p;
    struct queue *q;

    switch (ev->type) {
    case CORE_LOCK:
    case CORE_UNLOCK:
    case CORE_RENEW:
    case CORE_BREAK:
        request_arrive(c, ev);
        break;
    case CORE_EOF:
    case CORE_GONE:
        p = peer_find(c, ev->session);
        if (p != NULL && ev->type == CORE_EOF) {
            peer_eof(c, p);
        } else if (p != NULL) {
            peer_gone(c, p);
        }
        break;
    case CORE_HINT:
    case CORE_WATCHING:
        q = queue_find(c, ev->lock);
        if (q != NULL) {
            lock_hint(c, q->lock, ev->type == CORE_WATCHING);
        }
        break;
    case CORE_DEAF:
        q = queue_find(c, ev->lock);
        if (q != NULL) {
            q->watch = q->watch == WATCH_ON ? WATCH_ASKED : q->watch;
        }
        break;
    case CORE_DONE:
        done(c, &ev->done);
        break;
    case CORE_MLOCK:
    case CORE_MUNLOCK:
    case CORE_MRENEW:
        bundle_arrive(c, ev);
        break;
    case CORE_PROBED:
        probe_done(c, &ev->probed);
        break;
    case CORE_HEARD:
        tell_heard(c, ev->heard);
        break;
    case CORE_ADOPT:
        adopt(c, ev->adopt);
        break;
    case CORE_REACHED:
        adopt_reached(c);
        break;
    case CORE_RECLAIM:
        reclaim_begin(c, ev->epoch);
        break;
    case CORE_GRACE_OVER:
        reclaim_wake(c);
        break;
    case CORE_SUSPECT:
        reclaim_confirm(c);
        break;
    case CORE_TIME:
        break;
    case CORE_DRAIN:
        drain(c);
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
    work_off(c);
    catch_up(c); /* an outcome may have come when its lease was over */
    reclaim_end(c);
    c->stepping = false;
}

void
core_sent(struct core *c)
{
    c->turn++;
}

int64_t
core_next_us(const struct core *c)
{
    return heap_min_at(&c->timers);
}
