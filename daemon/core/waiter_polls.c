/*
 * waiter_polls.c -- asks Redis for remote waiters of locks that stay here while Redis keeps them for this daemon.
 *
 * Remote waiters subscribe to the lock's channel. A daemon whose rule for the name allows linger broadcasts that it
 * waits (attempt_failed()); but broadcasts get lost, and Redisson, or a daemon with another rule, sends none. So
 * Redis is asked for the number of subscribers: by one WAITER_POLL at a time, for all locks that are CACHED or in a
 * cohort. If other daemons subscribe, a CACHED claim is given back at once, and a held one is not cached again. If
 * there are none, the time of the cohort begins anew: a later remote waiter waits no longer than without polls.
 */
#include "daemon/core/locks.h"

#include <assert.h>

#include "daemon/core/act.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/queue.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/*
 * P1  The queue of a lock that becomes CACHED, or is handed over, joins waiter_poll.todo. It stays there, or on
 *     waiter_poll.seen, until a poll finds the lock neither CACHED nor in a cohort, or the queue is freed. While there
 *     is a queue on one of these lists, the timer is armed.
 * P2  Two polls are WAITER_POLL_GAP_US apart at least, and one at a time is in flight. Soon after a poll, another one
 *     leaves only for locks that were not asked about in this pass, or after WAITER_POLL_STAYS hand-offs.
 * P3  An answer counts from when its poll was sent, never later; an unanswered one changes nothing.
 */

enum {
    WAITER_POLL_GAP_US = 1000,
    WAITER_POLL_PAUSE_US = 8 * 1000, /* the longest pause; less where handoff.time is short, so that a cohort can go
                                       on */
    WAITER_POLL_STAYS = 32,        /* hand-offs since the last poll, locks that became CACHED counted, too */
    LOCKS_MAX = 4 * CORE_WAITER_POLL_MAX, /* locks of each list that are looked at for one poll */
};

/* How often a lock has stayed here: handed over, or cached. */
static uint64_t
count_stays(const struct core *c)
{
    return c->metrics->handoffs + c->metrics->lingers;
}

static int64_t
pause_us(const struct core *c)
{
    bool soon = !list_empty(&c->waiter_poll.todo) || count_stays(c) - c->waiter_poll.stays_n >= WAITER_POLL_STAYS;
    int64_t longest_us = earlier(WAITER_POLL_PAUSE_US, c->conf.handoff_time_us / 4 * 3);

    return soon ? WAITER_POLL_GAP_US : later(WAITER_POLL_GAP_US, longest_us);
}

void
waiter_poll_join(struct core *c, struct lock *l)
{
    struct waiter_poll *p = &c->waiter_poll;
    bool armed = p->timer.node.pos != 0;

    assert(lock_has_queue(l));
    if (list_linked(&l->queue->waiter_poll_node)) {
        return;
    }
    list_push_back(&p->todo, &l->queue->waiter_poll_node);
    if (p->op == 0) { /* not at once: many locks are given back sooner, and others join the poll */
        timer_set(&c->timers, &p->timer, earlier(armed ? heap_at(&c->timers, &p->timer.node) : CORE_FOREVER,
                                        after_us(c->now_us, WAITER_POLL_GAP_US)));
    }
}

static struct claim *
claim_that_stays(const struct lock *l)
{
    return l->has_cached ? lock_cached_claim(l) : lock_newest_holder(l);
}

/* CACHED, or in a cohort, which a long hold ends. Permits are in a cohort only while all are held here. */
static bool
stays_here(const struct core *c, const struct lock *l)
{
    if (l->has_cached) {
        return true;
    }
    return l->held_n == lock_holders_max(l) && l->cohort_passes > 1 &&
           c->now_us - claim_that_stays(l)->since_us < c->conf.handoff_time_us;
}

/*
 * Whether the poll asks about the lock. If it cannot be cached, only when half of the cohort's time is over: a cohort
 * that handoff.max ends sooner needs no more time.
 */
static bool
is_asked_about(const struct core *c, const struct lock *l)
{
    return lock_may_cache(l) || c->now_us - l->cohort_since_us >= c->conf.handoff_time_us / 2;
}

static bool
is_idle(const struct waiter_poll *p)
{
    return list_empty(&p->todo) && list_empty(&p->seen);
}

/*
 * Chooses locks from the list, as many as the poll has room for. Locks that were looked at go to `looked`, unless they
 * stay here no more.
 */
static void
choose_from(struct core *c, struct list *from, struct list *looked, struct core_waiter_poll_name *name)
{
    struct waiter_poll *p = &c->waiter_poll;

    for (unsigned i = 0; i < LOCKS_MAX && p->n < CORE_WAITER_POLL_MAX && !list_empty(from); i++) {
        struct lock *l = container_of(from->next, struct queue, waiter_poll_node)->lock;

        list_remove(&l->queue->waiter_poll_node);
        if (!stays_here(c, l)) {
            dirty_mark_lock(c, l); /* the lock may need no queue any more */
            continue;
        }
        list_push_back(looked, &l->queue->waiter_poll_node);
        if (is_asked_about(c, l)) {
            name[p->n] = (struct core_waiter_poll_name){lock_key(l), l->kind};
            p->claim[p->n++] = claim_id(claim_that_stays(l));
            l->subscribed_at_poll = l->queue->watch == WATCH_ON;
            l->wanted_since_poll = false;
        }
    }
}

/* Chooses the locks that are left of this pass, and if there is room, others; when none is left, a new pass begins. */
static void
choose(struct core *c, struct core_waiter_poll_name *name)
{
    struct waiter_poll *p = &c->waiter_poll;
    struct list looked;

    if (list_empty(&p->todo)) {
        list_move_all(&p->todo, &p->seen);
    }
    list_init(&looked);
    p->n = 0;
    choose_from(c, &p->todo, &looked, name);
    choose_from(c, &p->seen, &looked, name);
    list_move_all(&p->seen, &looked);
}

static void
ask(struct core *c)
{
    struct core_waiter_poll_name name[CORE_WAITER_POLL_MAX];
    struct core_action a = {.type = CORE_WAITER_POLL};
    struct waiter_poll *p = &c->waiter_poll;

    choose(c, name);
    if (p->n == 0) {
        timer_set(&c->timers, &p->timer, is_idle(p) ? CORE_FOREVER : after_us(c->now_us, WAITER_POLL_GAP_US));
        return;
    }
    p->op = ++c->serial;
    p->sent_us = c->now_us;
    p->stays_n = count_stays(c);
    a.waiter_poll = (struct core_waiter_poll){.op = p->op, .name = name, .n = p->n};
    timer_set(&c->timers, &p->timer, after_us(c->now_us, c->conf.op_timeout_us));
    core_act(c, &a);
}

void
waiter_poll_timer(struct core *c)
{
    struct waiter_poll *p = &c->waiter_poll;

    p->op = 0; /* a poll that was in flight is unanswered */
    if (c->now_us - p->sent_us >= pause_us(c)) {
        ask(c);
    } else {
        timer_set(&c->timers, &p->timer, p->sent_us + pause_us(c));
    }
}

void
waiter_poll_found(struct core *c, struct lock *l)
{
    l->remote_waiters = l->has_cached || l->held_n + l->releasing_n > 0;
    l->wanted_since_poll = true;
    if (l->has_cached) {
        c->metrics->linger_yields++;
        op_release_cached(c, l);
    }
    op_send_releases(c, l);
}

/* Takes the number of subscribers of the lock's channel, the daemon's own among them. */
static void
take_count(struct core *c, struct lock *l, int64_t subscribers)
{
    bool counted = l->subscribed_at_poll && l->queue->watch == WATCH_ON; /* this daemon is one of the subscribers */

    l->remote_waiters = false;
    if (subscribers > counted || l->wanted_since_poll) {
        waiter_poll_found(c, l);
    } else if (!l->tracking) { /* with `tracking`, clients that poll wait without subscribing: the cohort must end */
        l->cohort_since_us = later(l->cohort_since_us, c->waiter_poll.sent_us);
        if (l->has_cached) {
            claim_arm(c, lock_cached_claim(l));
        }
    }
}

void
waiter_poll_done(struct core *c, const struct core_waiters_polled *d)
{
    struct waiter_poll *p = &c->waiter_poll;

    if (d->op != p->op || d->op == 0) {
        return; /* too late */
    }
    assert(d->n == p->n);
    p->op = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct map_node *found = map_find(&c->claims, p->claim[i]);

        if (found != NULL) { /* the claim may have another owner by now, but its lock has been here all the time */
            take_count(c, container_of(found, struct claim, by_id)->lock, d->subscribers[i]);
        }
    }
    timer_set(&c->timers, &p->timer, is_idle(p) ? CORE_FOREVER : later(c->now_us, p->sent_us + WAITER_POLL_GAP_US));
}
