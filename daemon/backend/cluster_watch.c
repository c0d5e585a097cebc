/*
 * cluster_watch.c -- each watch is subscribed at the master of its slot, and moves with the slot.
 *
 * The core gets UNSUBSCRIBED when a watch leaves a shard, and SUBSCRIBED when the next shard has confirmed it: then the
 * waiter tries. In an open slot no waiter has to be woken, since nothing is granted there; when the slot closes, a
 * generation begins there: then, and when the generation is over, the core makes all waiters of the slot try.
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
    struct map_node by_queue;
    struct list due; /* on a list of due watches (CW1) */
    struct core_op op; /* op.key points behind the record */
    uint16_t slot;
    struct cluster_master *at; /* the master where it is subscribed; NULL: none */
};

static struct cluster_watch *
find(const struct cluster *c, uint64_t queue)
{
    struct map_node *n = map_find(&c->watches, queue);

    return n != NULL ? container_of(n, struct cluster_watch, by_queue) : NULL;
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
    map_remove(&c->watches, &w->by_queue);
    list_remove(&w->due);
    free(w);
}

void
cluster_watch(struct cluster *c, const struct core_op *op, enum core_action_type verb)
{
    struct cluster_watch *w = find(c, op->queue);

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
        map_add(&c->watches, &w->by_queue, op->queue);
        join(c, w);
    }
}

/* A node refuses watches in slots that no node serves, and each refusal wakes the timer: this bounds the tries. */
static bool
may_resubscribe(const struct cluster *c)
{
    return clock_now_us() >= c->resubscribed_us + RESUBSCRIBE_US;
}

/* Lists the watches that are not at the present master of their slot, and if `again` those of cluster.resubscribe. */
static void
gather(struct cluster *c, struct list *due, bool again)
{
    struct map_node *n, *next;

    list_init(due);
    map_for_each_safe(n, next, &c->watches)
    {
        struct cluster_watch *w = container_of(n, struct cluster_watch, by_queue);

        if (w->at != c->master_of[w->slot] || (again && slot_set_has(&c->resubscribe, w->slot))) {
            list_push_back(due, &w->due);
        }
    }
}

void
cluster_watches_follow(struct cluster *c)
{
    bool again = c->resubscribes && may_resubscribe(c);
    struct list due;

    gather(c, &due, again);
    if (again) {
        memset(&c->resubscribe, 0, sizeof(c->resubscribe));
        c->resubscribed_us = clock_now_us();
        c->resubscribes = false;
    }
    while (!list_empty(&due)) {
        struct cluster_watch *w = container_of(due.next, struct cluster_watch, due);
        uint64_t queue = w->op.queue;

        list_remove(&w->due);
        leave(w);
        cluster_post(c, &(struct core_event){.type = CORE_UNSUBSCRIBED, .queue = queue});
        w = find(c, queue);
        if (w != NULL && w->at == NULL) { /* the core has not ended it */
            join(c, w);
        }
    }
}

void
cluster_watches_forget(struct cluster *c)
{
    struct map_node *n, *next;

    map_for_each_safe(n, next, &c->watches)
    {
        forget(c, container_of(n, struct cluster_watch, by_queue));
    }
    map_fini(&c->watches);
}
