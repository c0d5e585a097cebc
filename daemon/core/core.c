/*
 * core.c -- one step: what is due, then the event, then the work that both left behind.
 *
 * Owns the step and its clock. What locks, claims, owners and requests do with an event is in their own files; core.c
 * only brings them the event, and work.c the time.
 */
#include "daemon/core/core.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/broadcast.h"
#include "daemon/core/claim.h"
#include "daemon/core/domain.h"
#include "daemon/core/ends.h"
#include "daemon/core/graph.h"
#include "daemon/core/jobs.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/locks.h"
#include "daemon/core/owner.h"
#include "daemon/core/owners.h"
#include "daemon/core/queue.h"
#include "daemon/core/queues.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/window.h"
#include "daemon/core/work.h"

/*
 * The invariants of the whole core. tests/unit/core_check.c asserts them, as far as the records show them after a
 * step: so not I6, I7, I8 and I19.
 *
 * I1  A name has one holder; or, of a kind with shared holds, one exclusive holder or any number of shared ones; or, of
 *     a kind with permits, as many as the limit was when they were granted. Each holder is a claim.
 * I2  HELD implies now < deadline when a step ends; or its timer is due and waits for its slice (I17): until then no
 *     reply reports it as held.
 * I3  No claim is forgotten: QUEUED has a request or a timer for its position; TRYING has an operation in flight; HELD
 *     has its deadline armed; CACHED has its end armed; RELEASING has a release or a renewal in flight, waits in a
 *     window, or has a retry armed; STRAGGLING has its timer armed.
 * I4  A lock with requests in its queue has an attempt in flight, a retry armed, or is held or being released here; or
 *     a drain is about to send them away.
 * I5  A name has one attempt in flight, or several for holds that can be beside each other (attempts.c); none while
 *     holders or releases here are in the way, except the attempt that takes a ticket.
 * I6  Ids are never used twice; an outcome whose operation is not the claim's current one is dropped.
 * I7  Every request of a session ends in exactly one reply (those of a multilock in one together), unless the session
 *     has gone: then in none.
 * I8  A claim whose acquire went unanswered, or that has a ticket, asks again by the same redis_owner, or is released;
 *     until an answer comes, its owner does not hold the lock.
 * I9  Requests of one owner begin in order of arrival, except those that run at once (requests.c); order.c decides
 *     which of them run side by side.
 * I10 When a step ends dirty_locks, dirty_owners, dirty_domains, dirty_multilocks and to_rerun are empty. Work that is
 *     left is in core.jobs, in a window, or in the heap of timers, and core_next_us() returns its time.
 * I11 Claims with a ticket are in the queue before those without, in the order in which they took their tickets; so the
 *     first one here is the first one of this daemon in Redis's queue.
 * I12 Only claims that are HELD have something to verify (uncertain.verify), and each of these has an operation in
 *     flight or its timer armed.
 * I13 The checkpoint of a claim (checkpoints.c) equals the claim, and was stored before Redis can be asked for it. (Of
 *     an owner that has ended it equals the claim once the owner's job has reached that.)
 * I14 Each window (window.c) has at most window_size() operations in flight, not counting the renewals with which the
 *     lease of an MLOCK begins (lease_begins()); a claim waits for its turn only while the window is full, or until its
 *     slice comes (I17).
 * I15 A lock with requests that wait has a queue of its own. It keeps that while a request waits, a claim on it is not
 *     HELD, a BREAK has work left, Redis is asked for remote waiters (waiter_polls.c), or it has no claim and remote
 *     waiters have their turn (queue.yield_until_us); no longer. All other locks have core.empty_queue, which stays as
 *     it was made.
 * I16 Of a lock at most one claim is CACHED: lock.has_cached is set while there is one.
 * I17 Without a bound (core_conf.slice 0) a step leaves nothing: no job, and no timer that is due. With one, an event
 *     sees the records it is about as if there were no jobs: claim_catch_up(), lock_catch_up(). An owner that has ended
 *     takes no request and is granted nothing; a claim that the owner's job has not reached yet keeps its state, and
 *     an event about that claim does the work of the job first.
 * I18 One key in Redis is one lock: no two records have the same key, or share auxiliary keys. A lock that is held
 *     keeps the kind and the key under which it was taken, whatever the rules are meanwhile.
 * I19 A search for deadlocks that goes on over several steps has a slice in each CORE_TIME; until it is done
 *     core_next_us() returns the present time.
 */

static void
budget_begin(struct core *c)
{
    c->budget = (struct slice_budget){c->conf.slice, c->conf.slice, c->conf.slice};
}

struct core *
core_new(const struct core_conf *conf, const struct hash_key *key, struct metrics *metrics, struct core_sink sink)
{
    struct core *c = mem_zalloc(sizeof(*c));

    c->conf = *conf;
    c->key = *key;
    c->metrics = metrics;
    c->sink = sink;
    heap_init(&c->timers);
    queue_init(&c->empty_queue);
    for (int i = 0; i < WINDOWS; i++) {
        heap_init(&c->window[i].waiting);
    }
    c->dirty_locks.end = &c->dirty_locks.first;
    list_init(&c->dirty_owners);
    list_init(&c->dirty_domains);
    list_init(&c->dirty_multilocks);
    list_init(&c->to_rerun);
    list_init(&c->owners_with_losses);
    list_init(&c->jobs);
    list_init(&c->rounds);
    domains_init(c, conf->domains != 0 ? conf->domains : 1);
    budget_begin(c);
    deadlock_init(&c->search);
    list_init(&c->waiter_poll.todo);
    list_init(&c->waiter_poll.seen);
    timer_init(&c->waiter_poll.timer, TIMER_WAITER_POLL);
    return c;
}

/* Frees all records, and sends nothing: the process is ending. */
void
core_free(struct core **cp)
{
    struct core *c = *cp;
    struct map_node *n, *next;

    if (c == NULL) {
        return;
    }
    c->sink.act = NULL;
    for (struct lock *l = domains_next_lock(c, NULL); l != NULL; l = domains_next_lock(c, l)) {
        l->dirty = true; /* no lock joins core.dirty_locks any more */
    }
    map_for_each_safe(n, next, &c->sessions)
    {
        struct core_session *s = container_of(n, struct core_session, by_id);

        while (!list_empty(&s->requests)) {
            struct request *r = container_of(s->requests.next, struct request, session_node);

            if (r->multilock != NULL) {
                multilock_leave(c, r);
            } else {
                request_drop(c, r);
            }
        }
    }
    for (uint32_t i = 0; i < c->domains_n; i++) {
        while (!list_empty(&c->domain[i].locks)) {
            lock_free(c, container_of(c->domain[i].locks.next, struct lock, all));
        }
    }
    map_for_each_safe(n, next, &c->sessions)
    {
        core_session_gone(c, container_of(n, struct core_session, by_id));
    }
    c->conf.slice = 0;
    work_jobs(c);
    while (!list_empty(&c->dirty_owners)) {
        owner_advance(c, container_of(c->dirty_owners.next, struct owner, dirty_node));
    }
    timer_fini(&c->timers, &c->waiter_poll.timer);
    windows_fini(c);
    heap_fini(&c->timers);
    map_fini(&c->sessions);
    map_fini(&c->owners);
    map_fini(&c->users);
    map_fini(&c->session_owners);
    map_fini(&c->trail_waits);
    map_fini(&c->claims);
    map_fini(&c->tokens);
    map_fini(&c->permit_sets);
    map_fini(&c->by_name);
    map_fini(&c->bookmarks);
    map_fini(&c->by_key);
    map_fini(&c->queues);
    graph_clear(&c->graph[GRAPH_EVENT]);
    graph_clear(&c->graph[GRAPH_JOB]);
    freelist_clear(&c->freelist);
    domains_fini(c);
    free(c);
    *cp = NULL;
}

void
core_configure(struct core *c, const struct core_conf *conf)
{
    c->conf = *conf;
}

static void
operation_done(struct core *c, const struct core_done *d)
{
    struct map_node *found = map_find(&c->claims, d->claim);
    struct queue *q;

    if (d->token > c->token_max) {
        c->token_max = d->token;
    }
    if (found != NULL) {
        claim_catch_up(c, container_of(found, struct claim, by_id));
        requests_rerun(c);
        outcome_arrives(c, container_of(found, struct claim, by_id), d);
        return;
    }
    q = queue_find(c, d->claim);
    if (q != NULL && q->break_op == d->op) {
        break_done(c, q->lock, d);
    }
}

static void
session_event(struct core *c, const struct core_event *ev)
{
    struct core_session *s = core_session_find(c, ev->type == CORE_CROWDED ? ev->oldest.session : ev->session);

    if (s == NULL) {
        return;
    }
    if (ev->type == CORE_CROWDED) {
        core_session_crowded(c, s, ev->oldest.id);
    } else if (ev->type == CORE_EOF) {
        core_session_eof(c, s);
    } else if (ev->type == CORE_UNREACHABLE) {
        core_session_unreachable(c, s);
    } else {
        core_session_gone(c, s);
    }
}

/* An event of the channel of a name. */
static void
watch_event(struct core *c, const struct core_event *ev)
{
    struct queue *q = queue_find(c, ev->queue);

    if (q == NULL) {
        return; /* the last waiter has gone */
    }
    if (ev->type == CORE_UNSUBSCRIBED) {
        q->watch = q->watch == WATCH_ON ? WATCH_ASKED : q->watch;
    } else {
        lock_hint(c, q->lock, ev->type == CORE_SUBSCRIBED);
    }
}

/*
 * The lock that a broadcast names; NULL: there is none here, or this daemon has sent the broadcast. Leaves in `text`
 * what follows.
 */
static struct lock *
received_lock(const struct core *c, struct slice *text)
{
    struct slice daemon, name, key;

    if (!broadcast_take_word(text, &daemon) || !broadcast_take_word(text, &name) ||
        !broadcast_take_word(text, &key)) {
        return NULL;
    }
    /* this daemon may know the key by another name */
    return slice_eq(daemon, broadcast_self(c)) ? NULL : lock_find_by_key(c, key);
}

static void
broadcast_received(struct core *c, struct slice what)
{
    struct slice text;
    uint64_t token = 0;
    struct lock *l;

    if (what.n == 0) {
        return;
    }
    text = (struct slice){what.p + 1, what.n - 1};
    switch ((unsigned char)what.p[0]) {
    case BROADCAST_TRAIL:
    case BROADCAST_VERDICT:
        trail_received(c, (enum broadcast_type)what.p[0], text);
        break;
    case BROADCAST_BROKEN:
        l = received_lock(c, &text);
        if (l != NULL) {
            break_suspect(c, l, broadcast_take_number(&text, &token) ? token : 0); /* older daemons send none */
        }
        break;
    case BROADCAST_WANTED:
        l = received_lock(c, &text);
        if (l != NULL) {
            waiter_poll_found(c, l);
        }
        break;
    default:
        break;
    }
}

static void
drain_begin(struct core *c)
{
    c->draining = true;
    for (uint32_t i = 0; i < c->domains_n; i++) {
        walk_begin(c, &c->domain[i], WALK_DRAIN);
    }
}

/* Handles an event of one domain. */
static void
domain_event(struct core *c, const struct core_event *ev)
{
    struct domain *d = &c->domain[ev->domain];

    assert(ev->domain < c->domains_n);
    if (ev->type == CORE_RECLAIM) {
        epochs_reclaim(c, d, ev->epoch);
    } else if (ev->type == CORE_SUSPECT) {
        epochs_suspect(c, d);
    } else {
        walk_begin(c, d, ev->type == CORE_REACHED ? WALK_REACHED : WALK_GRANTING);
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
        request_arrive(c, ev);
        break;
    case CORE_CANCEL:
        cancel_arrives(c, &ev->request);
        break;
    case CORE_USE:
        owner_used(c, &ev->request);
        break;
    case CORE_CROWDED:
    case CORE_EOF:
    case CORE_UNREACHABLE:
    case CORE_SESSION_GONE:
        session_event(c, ev);
        break;
    case CORE_HINT:
    case CORE_SUBSCRIBED:
    case CORE_UNSUBSCRIBED:
        watch_event(c, ev);
        break;
    case CORE_DONE:
        operation_done(c, &ev->done);
        break;
    case CORE_LOSS_REPORTED:
        delivery_loss_reported(c, &ev->grant);
        break;
    case CORE_UNDELIVERED:
        delivery_failed(c, &ev->grant);
        break;
    case CORE_MLOCK:
    case CORE_MUNLOCK:
    case CORE_MRENEW:
        multilock_arrive(c, ev);
        break;
    case CORE_WAITERS_POLLED:
        waiter_poll_done(c, &ev->polled);
        break;
    case CORE_RECEIVED:
        broadcast_received(c, ev->received);
        break;
    case CORE_RESTORE:
        restore(c, ev->restore);
        break;
    case CORE_REACHED:
    case CORE_RECLAIM:
    case CORE_GRACE_OVER:
    case CORE_SUSPECT:
        domain_event(c, ev);
        break;
    case CORE_CLOCK_BACK:
        uncertain_move_guards(c, ev->back_us);
        break;
    case CORE_TIME:
        deadlock_advance(c);
        break;
    case CORE_DRAIN:
        drain_begin(c);
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
    /* Leases that have ended come before anything new, however long the process slept; beyond the slice see I17. */
    work_catch_up(c);
    dispatch(c, ev);
    work_requests(c);
    if (jobs_may_run(c)) {
        work_jobs(c);
    }
    work_dirty(c);
    work_catch_up(c); /* an outcome may have come when its lease was over */
    epochs_report(c);
    c->stepping = false;
}

void
core_end_turn(struct core *c)
{
    c->turn++;
    budget_begin(c);
}

/* The next slice of the search for deadlocks; CORE_FOREVER: there is nothing to search for. */
static int64_t
search_next_us(const struct core *c)
{
    const struct search *s = &c->search;

    if (s->phase != SEARCH_NONE || !list_empty(&s->old_waits)) {
        return c->now_us;
    }
    return list_empty(&s->waits) ? CORE_FOREVER : later(s->rest_until_us, c->now_us);
}

int64_t
core_next_us(const struct core *c)
{
    int64_t at_us = !list_empty(&c->jobs) || windows_may_send(c) ? c->now_us : heap_min_at(&c->timers);

    return earlier(at_us, search_next_us(c));
}
