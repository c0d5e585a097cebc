/*
 * locks.c -- names: their queues, watches and hints.
 *
 * Owns the lock records once lock_index.c has made them, and their queues: whose turn it is, the watch on the channel
 * of the name. What an owner has of a lock is a claim (claims.c); breaks.c has BREAK, and attempts.c says when Redis is
 * asked for a name, and for how many claims at a time.
 *
 * While the name is taken elsewhere, the lock has a watch on its channel and a timer at its PTTL; both only cause
 * another attempt.
 */
#include "daemon/core/locks.h"

#include <assert.h>

#include "daemon/core/act.h"
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/cursors.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/news.h"
#include "daemon/core/queue.h"
#include "daemon/core/queues.h"
#include "daemon/core/request.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

void
lock_free(struct core *c, struct lock *l)
{
    struct list *lists[] = {&l->queue->claims, &l->holders, &l->rest};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        while (!list_empty(lists[i])) {
            struct claim *cl = container_of(lists[i]->next, struct claim, node);

            while (!list_empty(&cl->requests)) { /* silent ones: what a multilock was giving back when the core ends */
                request_drop(c, container_of(cl->requests.next, struct request, claim_node));
            }
            claim_free(c, cl);
        }
    }
    rounds_end(c, l);
    walks_leave(c, l);
    cursors_leave(c, l);
    queue_close(c, l);
    lock_delete(c, l);
}

/* Takes over the rules that the request has brought. */
static void
take_rules(struct lock *l, const struct core_spec *spec)
{
    uint32_t limit = spec->limit < 1 ? 1 : spec->limit;
    struct queue *q = l->queue;

    if (limit != l->limit && lock_has_limit(l)) { /* a permit that Redis refused before may be granted now */
        lock_end_reserve(l);
        if (limit > l->limit) { /* the last refusal counts no more */
            q->hinted = q->trying_n > 0;
            q->retry_us = q->last_failure == CORE_NOT_GRANTED ? q->yield_until_us : q->retry_us;
        }
    }
    l->limit = limit;
    l->linger_us = clamp_us(spec->linger_us, LINGER_MAX_US);
    if (l->claims_n == 0) { /* else the graces only grow: its claims rely on the present ones */
        l->owner_grace_us = l->queue_grace_us = 0;
    }
    l->owner_grace_us = (uint32_t)later(l->owner_grace_us, clamp_us(spec->owner_grace_us, GRACE_MAX_US));
    l->queue_grace_us = (uint32_t)later(l->queue_grace_us, clamp_us(spec->queue_grace_us, GRACE_MAX_US));
    l->replicas = (uint8_t)(spec->replicas < CORE_REPLICAS_MAX ? spec->replicas : CORE_REPLICAS_MAX);
    l->foreign_wait = spec->foreign_wait;
    l->tracking = spec->tracking;
    l->wakes = spec->wakes;
}

/*
 * True when the rules have changed the kind of the name since the record was made. The record keeps its former kind
 * until it is free, and new requests use the lock with that kind. This is safe: an owner that expects to be alone is
 * alone in every kind except those with permits, for which see request_lock().
 */
static bool
has_former_kind(const struct lock *l, const struct core_request *rq)
{
    bool by_rule = rq->spec.kind == rq->spec.rule_kind && l->rule_kind != rq->spec.rule_kind;

    return by_rule && (!rq->shared || policy(l)->holders == HOLDERS_SHARED);
}

bool
lock_is_vacant(const struct lock *l)
{
    return l->claims_n == 0 && l->queue->break_op == 0 && !l->dirty;
}

static bool
is_as_asked(const struct lock *l, const struct core_spec *spec)
{
    return l->kind == spec->kind && l->value == spec->value && slice_eq(lock_key(l), spec->key);
}

/* The record that keeps rq from its key; a record whose name is free is freed first. NULL: there is none. */
static struct lock *
find_conflict(struct core *c, const struct core_request *rq)
{
    struct lock *l = lock_conflict(c, rq);

    while (l != NULL && lock_is_vacant(l)) {
        lock_free(c, l);
        l = lock_conflict(c, rq);
    }
    return l;
}

/*
 * Finds or makes the record of a name. WRONG_KIND: a LOCK wants another kind than the one in use (a BREAK takes any
 * kind). KEY_IN_USE: another name has the same key, or shares auxiliary keys; one key is one lock.
 */
enum core_answer
lock_get(struct core *c, const struct core_request *rq, bool any_kind, struct lock **out)
{
    uint64_t number;
    struct lock *l = lock_find_and_hash(c, rq->name, &number);

    if (l != NULL && lock_is_vacant(l) && !is_as_asked(l, &rq->spec)) {
        lock_free(c, l);
        l = NULL;
    }
    if (l == NULL) {
        if (find_conflict(c, rq) != NULL) {
            return CORE_KEY_IN_USE;
        }
        l = lock_new(c, rq->name, number, &rq->spec);
        dirty_mark_lock(c, l); /* freed at the end of the step if nothing comes of it */
    } else if (!any_kind && l->kind != rq->spec.kind && !has_former_kind(l, rq)) {
        return CORE_WRONG_KIND;
    }
    queue_open(c, l);
    if (!any_kind && l->kind == rq->spec.kind) { /* rules for another kind do not fit the record */
        take_rules(l, &rq->spec);
    }
    if (any_kind || l->kind == rq->spec.kind) {
        l->declared = rq->spec.declared && l->kind == rq->spec.kind;
    }
    *out = l;
    return CORE_GRANTED;
}

/*
 * The claim that Redis's queue calls next: the first one that has a ticket or a request. It may have a ticket without a
 * request.
 */
static struct claim *
first_called(const struct lock *l)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (cl->has_ticket || !list_empty(&cl->requests)) {
            return cl;
        }
    }
    return NULL;
}

static void
watch_send(struct core *c, const struct lock *l, enum core_action_type type)
{
    struct core_action a = {.type = type};

    a.op = (struct core_op){.queue = lock_queue_id(l),
                            .key = lock_key(l),
                            .kind = l->kind,
                            .value = l->value,
                            .owner = l->queue->watch_owner,
                            .tracking = l->tracking};
    core_act(c, &a);
}

/*
 * Subscribes, or unsubscribes. If each owner in the queue has a channel of its own (called_apart), the watch is on that
 * of the first. When the rules change `tracking`, the watch is sent anew: tracking that the rule does not ask for would
 * take the echo of each renewal for a release; see renew_soon().
 */
static void
watch_set(struct core *c, struct lock *l, bool on, const struct claim *first)
{
    uint64_t owner = on && first != NULL ? first->redis_owner : 0;
    struct queue *q = l->queue;

    if (on == (q->watch != WATCH_OFF) && (!on || (owner == q->watch_owner && q->watch_tracking == l->tracking))) {
        return;
    }
    if (q->watch != WATCH_OFF) {
        watch_send(c, l, CORE_UNWATCH);
    }
    q->watch = on ? WATCH_ASKED : WATCH_OFF;
    q->watch_owner = owner;
    q->watch_tracking = l->tracking;
    if (on) {
        watch_send(c, l, CORE_WATCH);
    }
}

static void
idle_free(struct core *c, struct lock *l)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->rest)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (cl->state != CLAIM_IDLE || cl->refs > 0) { /* there may be many other claims behind the free ones */
            return;
        }
        claim_free(c, cl);
    }
}

/* Begins the next attempt, and sets the watch. */
static void
queue_advance(struct core *c, struct lock *l)
{
    struct claim *next = c->draining ? NULL : lock_next_claim(l);
    struct queue *q = l->queue;

    if (next == NULL) {
        q->retry_us = q->yield_until_us; /* the waiters that paused have gone: the next LOCK asks at once */
    }
    attempts_advance(c, l, next);
    if (list_empty(&q->claims)) {
        watch_set(c, l, false, NULL);
        q->taken_until_us = 0;
    } else if (q->taken_until_us != 0 || q->watch != WATCH_OFF) {
        watch_set(c, l, true, policy(l)->called_apart ? first_called(l) : NULL);
    }
}

/* All claims that are left are held, no LOCK waits, and neither a BREAK nor the waiter poll needs the queue. */
static bool
is_at_rest(const struct lock *l)
{
    const struct queue *q = l->queue;

    return q->waiting_n == 0 && q->break_op == 0 && l->claims_n == l->held_n && !list_linked(&q->waiter_poll_node) &&
           !job_is_pending(&q->break_job);
}

/*
 * True when no claim is left, but other daemons have their turn: the record stays, so that a LOCK that comes meanwhile
 * leaves the lock to them.
 */
static bool
yields(struct core *c, struct lock *l)
{
    struct queue *q = l->queue;

    if (l->claims_n > 0 || q->yield_until_us <= c->now_us || c->draining) {
        return false;
    }
    timer_set(&c->timers, &q->timer, q->yield_until_us);
    return true;
}

/* Advances a lock that has changed: advances its queue, or frees the queue or the lock if they are not needed. */
static void
advance(struct core *c, struct lock *l)
{
    lock_catch_up(c, l);
    if (l->dirty) { /* lock_catch_up() has changed the lock, so it is in core.dirty_locks again */
        return;
    }
    idle_free(c, l);
    if (lock_has_queue(l)) {
        queue_advance(c, l);
    }
    if (l->claims_n == 0 && l->queue->break_op == 0) {
        assert(!l->dirty);
        if (!yields(c, l)) {
            lock_free(c, l);
        }
    } else if (is_at_rest(l)) {
        queue_close(c, l);
    }
}

void
lock_advance(struct core *c)
{
    struct lock *l = c->dirty_locks.first;

    c->dirty_locks.first = l->dirty_next;
    c->dirty_locks.end = l->dirty_next != NULL ? c->dirty_locks.end : &c->dirty_locks.first;
    l->dirty_next = NULL;
    l->dirty = false;
    advance(c, l);
}

/* Ends the turn of a position that is kept without requests, so that others do not wait for it. */
static void
end_empty_turn(struct core *c, struct lock *l)
{
    struct claim *cl = first_called(l);

    if (cl != NULL && l->held_n == 0 && cl->state == CLAIM_QUEUED && list_empty(&cl->requests)) {
        claim_clear_kept_until(cl);
        position_give_up(c, cl);
    }
}

/*
 * A hint reports the release of a lock that is held here. Its cause may be a forced unlock (Redisson's forceUnlock):
 * the renewal finds out. The cause may also be the echo of this daemon's own release, or a release in another database,
 * so not every hint is worth a renewal. With tracking even the renewal causes a hint: so hints cause no renewal then.
 */
static void
renew_soon(struct core *c, struct claim *cl)
{
    int64_t confirmed_us = cl->hold.deadline_us - core_deadline_us(0, cl->lease_us);

    if (cl->watchdog && !cl->lock->tracking) {
        cl->renew_us = earlier(cl->renew_us, confirmed_us + c->conf.handoff_time_us + YIELD_US);
        claim_arm(c, cl);
    }
}

/*
 * The name has changed in Redis: waiters ask again, at once; while remote waiters have their turn, at the end of the
 * turn (yield_until_us): a hint within that turn may be the echo of the release with which it began. An attempt that is
 * under way may have run before the change, so the hint is noted for it.
 */
void
lock_hint(struct core *c, struct lock *l, bool confirmed)
{
    struct queue *q = l->queue;

    if (confirmed) {
        q->watch = q->watch == WATCH_ASKED ? WATCH_ON : q->watch;
    } else {
        c->metrics->hints++;
    }
    if (!confirmed && c->now_us >= q->yield_until_us) {
        end_empty_turn(c, l);
        if (q->watch != WATCH_OFF && lock_has_one_token(c, l)) {
            renew_soon(c, claim_first(&l->holders, CLAIM_IN(HELD)));
        }
    }
    q->hinted = q->trying_n > 0;
    q->retry_us = q->yield_until_us;
    dirty_mark_lock(c, l);
}

void
lock_publish_wanted(struct core *c, const struct lock *l, bool shared)
{
    struct list *pos, *nxt;
    int sent_n = 0;

    if (!lock_is_full(l, shared)) {
        return;
    }
    list_for_each_safe(pos, nxt, &l->holders)
    {
        if (++sent_n > ATTEMPTS_MAX) { /* of very many readers only the first: writers may come again and again */
            return;
        }
        news_publish(c, container_of(pos, struct claim, node), CORE_NEWS_WANTED, NULL);
    }
}

/* No new grants: waiters are sent away, and no claim stays CACHED. */
void
lock_drain(struct core *c, struct lock *l)
{
    op_release_cached(c, l);
    round_run(c, l, ROUND_DRAIN);
}
