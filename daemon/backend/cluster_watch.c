/*
 * cluster_watch.c -- each watch is subscribed at the master of its slot, and moves with the slot.
 *
 * The core gets UNSUBSCRIBED when a watch leaves a shard, and SUBSCRIBED when the next shard has confirmed it: then the
 * waiter tries.
 *
 * CW1  The core may end and begin watches inside of each event. So no event is posted while the map of watches is
 *      walked: due watches are gathered on a list, and a watch that ends leaves that list.
 */
#include <stdlib.h>

#include "daemon/backend/cluster_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define RESUBSCRIBE_US US_PER_S /* between two tries of watches that a node refuses although it owns their slot */

struct cluster_watch {
    struct map_node by_lock;
    struct list due; /* on a list of due watches (CW1) */
    struct core_op op; /* op.key points behind the record */
    uint16_t slot;
    struct cluster_master *at; /* the master where it is subscribed; NULL: none */
};

static struct cluster_watch *
find(const struct cluster *c, uint64_t lock)
{
    struct map_node *n = map_find(&c->watches, lock);

    return n != NULL ? container_of(n, struct cluster_watch, by_lock) : NULL;
}

static void
leave(struct cluster_watch *w)
{
    if (w->at != NULL) {
        shard_perform(w->at->shard, &w->op, CORE_UNWATCH);
        w->at = NULL;
    }
}

static void
join(struct cluster *c, struct cluster_watch *w)
{
    w->at = c->master_of[w->slot];
    if (w->at != NULL) {
        shard_perform(w->at->shard, &w->op, CORE_WATCH);
    }
}

static void
forget(struct cluster *c, struct cluster_watch *w)
{
    map_remove(&c->watches, &w->by_lock);
    list_remove(&w->due);
    free(w);
}

void
cluster_watch(struct cluster *c, const struct core_op *op, enum core_action_type verb)
{
    struct cluster_watch *w = find(c, op->lock);

    if (w != NULL) {
        leave(w);
        forget(c, w);
    }
    if (verb == CORE_WATCH) {
        w = mem_zalloc(sizeof(*w) + op->key.n);
        list_init(&w->due);
        w->op = *op;
        memcpy(w + 1, op->key.p, op->key.n);
        w->op.key.p = (char *)(w + 1);
        w->slot = slot_of(op->key);
        map_add(&c->watches, &w->by_lock, op->lock);
        join(c, w);
    }
}

/* Puts the watches for which is_due() is true on the list. */
static void
gather(struct cluster *c, struct list *due, bool (*is_due)(const struct cluster *c, const struct cluster_watch *w))
{
    struct map_node *n, *next;

    list_init(due);
    map_for_each_safe(n, next, &c->watches)
    {
        struct cluster_watch *w = container_of(n, struct cluster_watch, by_lock);

        if (is_due(c, w)) {
            list_push_back(due, &w->due);
        }
    }
}

/* A node refuses watches in slots that no node serves, and each refusal wakes the timer: this bounds the tries. */
static bool
may_resubscribe(const struct cluster *c)
{
    return clock_now_us() >= c->resubscribed_us + RESUBSCRIBE_US;
}

static bool
is_elsewhere(const struct cluster *c, const struct cluster_watch *w)
{
    return w->at != c->master_of[w->slot] || (may_resubscribe(c) && slot_set_has(&c->resubscribe, w->slot));
}

static bool
is_in_open_slot(const struct cluster *c, const struct cluster_watch *w)
{
    return cluster_rules_is_open(&c->rules, w->slot);
}

void
cluster_watches_follow(struct cluster *c)
{
    struct list due;

    gather(c, &due, is_elsewhere);
    if (may_resubscribe(c)) {
        memset(&c->resubscribe, 0, sizeof(c->resubscribe));
        c->resubscribed_us = c->resubscribes ? clock_now_us() : c->resubscribed_us;
        c->resubscribes = false;
    }
    while (!list_empty(&due)) {
        struct cluster_watch *w = container_of(due.next, struct cluster_watch, due);
        uint64_t lock = w->op.lock;

        list_remove(&w->due);
        leave(w);
        cluster_post(c, &(struct core_event){.type = CORE_UNSUBSCRIBED, .lock = lock});
        w = find(c, lock);
        if (w != NULL && w->at == NULL) { /* the core has not ended it */
            join(c, w);
        }
    }
}

bool
cluster_watches_poll(struct cluster *c)
{
    struct list due;
    bool any;

    gather(c, &due, is_in_open_slot);
    any = !list_empty(&due);
    while (!list_empty(&due)) {
        struct cluster_watch *w = container_of(due.next, struct cluster_watch, due);

        list_remove(&w->due);
        cluster_post(c, &(struct core_event){.type = CORE_HINT, .lock = w->op.lock});
    }
    return any;
}

void
cluster_watches_forget(struct cluster *c)
{
    struct map_node *n, *next;

    map_for_each_safe(n, next, &c->watches)
    {
        forget(c, container_of(n, struct cluster_watch, by_lock));
    }
    map_fini(&c->watches);
}
