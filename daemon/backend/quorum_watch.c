/*
 * quorum_watch.c -- watches, waiter polls and LOCKINFO over all nodes.
 *
 * QW1 A watch is confirmed when q nodes have it: any release by a majority meets one of these.
 * QW2 A hint is posted when q nodes have sent it, or a moment after the first one: an attempt at the first hint would
 *     find the release still in flight to other nodes, and split the votes.
 * QW3 No hint is posted while other owners are known to have so many nodes that no attempt can get a majority. Then a
 *     released key was the minority of another waiter; an attempt would get a minority, too, and its release would wake
 *     the next waiter.
 */
#include "daemon/backend/quorum_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/quorum_private.h"
#include "daemon/backend/broadcasts.h"
#include "daemon/backend/quorum_ops.h"
#include "daemon/base/buf.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

enum { HINT_US = 2000, HINT_SPREAD_US = 2000, AGAIN_US = 500 * 1000 };

/* ---- watches ---- */

static struct quorum_watch *
watch_of(const struct quorum *qu, uint64_t queue)
{
    struct map_node *n = map_find(&qu->watches, queue);

    return n == NULL ? NULL : container_of(n, struct quorum_watch, by_queue);
}

static void
watch_free(struct quorum *qu, struct quorum_watch *w)
{
    timer_fini(&qu->timers, &w->timer);
    map_remove(&qu->watches, &w->by_queue);
    free(w);
}

void
quorum_watch_op(struct quorum *qu, const struct core_op *op, bool on)
{
    struct quorum_watch *w = watch_of(qu, op->queue);

    if (w != NULL) { /* a former watch of the queue ends */
        watch_free(qu, w);
    }
    if (on) {
        w = mem_zalloc(sizeof(*w) + qu->nodes_n * sizeof(w->node[0]));
        w->queue = op->queue;
        timer_init(&w->timer, TIMER_WATCH);
        map_add(&qu->watches, &w->by_queue, op->queue);
    }
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_perform(qu->node[i].shard, op, on ? CORE_WATCH : CORE_UNWATCH);
    }
}

static unsigned
bits(uint32_t mask)
{
    unsigned n = 0;

    for (; mask != 0; mask &= mask - 1) {
        n++;
    }
    return n;
}

static void
post(const struct quorum *qu, const struct quorum_watch *w, enum core_event_type type)
{
    quorum_post(qu, &(struct core_event){.type = type, .queue = w->queue});
}

static void
hint_soon(struct quorum *qu, struct quorum_watch *w)
{
    timer_set(&qu->timers, &w->timer, clock_now_us() + HINT_US + quorum_random(qu, HINT_SPREAD_US));
    quorum_wake(qu);
}

/*
 * QW4 Where QW3 does not apply, a failed attempt is repeated AGAIN_US later without a hint: nothing hints that a node
 *     which could not vote does so again, or that a key was released while its node was not subscribed. Until then
 *     hints count only while the nodes that are neither taken nor unable are a majority.
 *
 * If a hint is to be posted already, its timer stays; if that hint does not count, quorum_watch_due() sets the timer to
 * again_us.
 */
static void
ask_again_in(struct quorum *qu, struct quorum_watch *w, int64_t us)
{
    w->again_us = clock_now_us() + us;
    if (w->hinted == 0) {
        timer_set(&qu->timers, &w->timer, w->again_us);
        quorum_wake(qu);
    }
}

static void
subscribed(struct quorum *qu, struct quorum_watch *w, unsigned node, bool is_subscribed)
{
    uint32_t bit = 1u << node;
    bool majority;

    w->unable &= ~bit;
    w->subscribed = is_subscribed ? w->subscribed | bit : w->subscribed & ~bit;
    w->node[node].since_us = clock_now_us();
    if (w->taken & bit) { /* a release may go unnoticed there; many watches do not ask again all at once */
        w->taken &= ~bit;
        ask_again_in(qu, w, quorum_random(qu, AGAIN_US));
    }
    majority = bits(w->subscribed) >= qu->majority;
    if (majority != w->reported) {
        w->reported = majority;
        post(qu, w, majority ? CORE_SUBSCRIBED : CORE_UNSUBSCRIBED); /* may free the watch */
    }
}

/* Whether the nodes that are not in the mask are a majority. */
static bool
others_are_majority(const struct quorum *qu, uint32_t nodes)
{
    return qu->nodes_n - bits(nodes) >= qu->majority;
}

void
quorum_watch_due(struct quorum *qu, struct quorum_watch *w)
{
    int64_t now_us = clock_now_us();

    timer_set(&qu->timers, &w->timer, INT64_MAX);
    w->hinted = 0;
    if (!others_are_majority(qu, w->taken)) { /* QW3 */
        return;
    }
    if (!others_are_majority(qu, w->taken | w->unable) && now_us < w->again_us) { /* QW4 */
        timer_set(&qu->timers, &w->timer, w->again_us);
        return;
    }
    post(qu, w, CORE_HINT);
}

static void
hinted(struct quorum *qu, struct quorum_watch *w, unsigned node)
{
    bool first = w->hinted == 0;

    if (w->hinted & (1u << node)) { /* the hint of another release than the earlier hints */
        w->hinted = 0;
        first = true;
    }
    w->hinted |= 1u << node;
    w->taken &= ~(1u << node);
    w->unable &= ~(1u << node);
    w->node[node].hint_us = clock_now_us();
    if (bits(w->hinted) >= qu->majority) {
        quorum_watch_due(qu, w);
    } else if (first) {
        hint_soon(qu, w);
    }
}

/*
 * QW4. Notes which nodes refused. A refusal of a node that has hinted since the attempt left is outdated: a hint is
 * posted soon. A node that was not subscribed yet when the attempt left may have no hint to send any more, so it does
 * not count as taken.
 */
void
quorum_watch_refused(struct quorum *qu, const struct quorum_op *o)
{
    struct quorum_watch *w = watch_of(qu, o->op.queue);
    bool outdated = false, any_taken = false;

    if (w == NULL) {
        return;
    }
    w->taken = w->unable = 0;
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct tally_node *b = &o->tally.node[i];
        bool is_taken = b->outcome == CORE_TAKEN || b->outcome == CORE_FOREIGN;
        bool was_subscribed = (w->subscribed & (1u << i)) != 0 && w->node[i].since_us < o->asked_us;

        if (b->state != TALLY_NODE_FAILED || b->outcome == CORE_UNKNOWN) {
            continue;
        }
        any_taken = any_taken || is_taken;
        if (w->node[i].hint_us >= o->asked_us) {
            outdated = true;
        } else if (!is_taken) {
            w->unable |= 1u << i;
        } else if (was_subscribed) {
            w->taken |= 1u << i;
        }
    }
    w->again_us = clock_now_us() + AGAIN_US;
    if (any_taken && others_are_majority(qu, w->taken)) { /* else the core asks again, or a node will hint */
        ask_again_in(qu, w, AGAIN_US);
    }
    if (outdated) {
        hint_soon(qu, w);
    }
}

/* An attempt has succeeded: it is not repeated. */
void
quorum_watch_granted(struct quorum *qu, const struct quorum_op *o)
{
    struct quorum_watch *w = watch_of(qu, o->op.queue);

    if (w != NULL && w->hinted == 0) {
        timer_set(&qu->timers, &w->timer, INT64_MAX);
    }
}

void
quorum_watches_free(struct quorum *qu)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &qu->watches)
    {
        watch_free(qu, container_of(n, struct quorum_watch, by_queue));
    }
    map_fini(&qu->watches);
    map_for_each_safe(n, nxt, &qu->inspections)
    {
        map_remove(&qu->inspections, n);
        free(n);
    }
    map_fini(&qu->inspections);
}

/* ---- waiter polls ---- */

void
quorum_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    struct quorum *qu = (struct quorum *)(void *)b;

    qu->polled = (struct core_waiters_polled){.op = p->op, .subscribers = qu->polled_max, .n = p->n};
    qu->polled_n = 0;
    memset(qu->polled_max, 0, sizeof(qu->polled_max));
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_waiter_poll(qu->node[i].shard, p);
    }
}

static void
polled(struct quorum *qu, const struct core_waiters_polled *of_node)
{
    struct core_event ev = {.type = CORE_WAITERS_POLLED};

    if (of_node->op != qu->polled.op || of_node->n != qu->polled.n) {
        return;
    }
    for (size_t i = 0; i < of_node->n; i++) {
        int64_t n = of_node->subscribers[i];

        qu->polled_max[i] = n > qu->polled_max[i] ? n : qu->polled_max[i];
    }
    if (++qu->polled_n == qu->majority) {
        ev.polled = qu->polled;
        quorum_post(qu, &ev);
    }
}

void
quorum_core_event(void *ctx, const struct core_event *ev)
{
    const struct quorum_node *node = ctx;
    struct quorum *qu = node->of;
    struct core_event to_core = *ev;
    struct quorum_watch *w;
    struct slice uuid;

    switch (ev->type) {
    case CORE_RECEIVED:
        to_core.received = quorum_broadcast_text(qu, ev->received, &uuid);
        if (to_core.received.n > 0 && !quorum_servers_received(qu, uuid, to_core.received)) {
            quorum_post(qu, &to_core);
        }
        break;
    case CORE_WAITERS_POLLED:
        polled(qu, &ev->polled);
        break;
    case CORE_HINT:
    case CORE_SUBSCRIBED:
    case CORE_UNSUBSCRIBED:
        w = watch_of(qu, ev->queue);
        if (w == NULL) {
            break;
        }
        if (ev->type == CORE_HINT) {
            hinted(qu, w, node->index);
        } else {
            subscribed(qu, w, node->index, ev->type == CORE_SUBSCRIBED);
        }
        break;
    default: /* shards bring nothing else */
        break;
    }
}

/* ---- LOCKINFO ---- */

/* A question to all nodes. */
struct quorum_inspection {
    struct map_node by_id; /* first: freed as such */
    unsigned answers_n;
    struct inspected_key view[TALLY_NODES_MAX];
};

void
quorum_inspect(struct backend *b, uint64_t id, struct slice key)
{
    struct quorum *qu = (struct quorum *)(void *)b;
    struct quorum_inspection *q = mem_zalloc(sizeof(*q));

    map_add(&qu->inspections, &q->by_id, id);
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_inspect(qu->node[i].shard, id, key);
    }
}

static bool
is_same(const struct inspected_key *a, const struct inspected_key *b)
{
    return a->ok == b->ok && a->exists == b->exists && strcmp(a->type, b->type) == 0 &&
           strcmp(a->owner, b->owner) == 0 && strcmp(a->digest, b->digest) == 0;
}

/* The answer that q nodes agree on; if there is none, the owner is "split". */
static struct inspected_key
agreed(const struct quorum *qu, const struct quorum_inspection *q)
{
    struct inspected_key split = {.pttl_ms = -1};
    unsigned ok = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct inspected_key *s = &q->view[i];
        unsigned same = 0;

        for (unsigned k = 0; k < qu->nodes_n && s->ok; k++) {
            same += is_same(s, &q->view[k]);
        }
        if (same >= qu->majority) {
            return *s;
        }
        ok += s->ok;
        if (s->ok && s->exists) {
            split.exists = true;
            snprintf(split.type, sizeof(split.type), "%s", s->type);
        }
    }
    split.ok = ok >= qu->majority;
    snprintf(split.owner, sizeof(split.owner), "split");
    return split;
}

void
quorum_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    const struct quorum_node *node = ctx;
    struct quorum *qu = node->of;
    struct map_node *n = map_find(&qu->inspections, id);
    struct quorum_inspection *q;
    struct inspected_key all;

    if (n == NULL) {
        return;
    }
    q = container_of(n, struct quorum_inspection, by_id);
    q->view[node->index] = *found;
    if (++q->answers_n < qu->nodes_n) {
        return;
    }
    all = agreed(qu, q);
    map_remove(&qu->inspections, n);
    free(q);
    quorum_post_inspected(qu, id, &all);
}
