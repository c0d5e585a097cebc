/*
 * deferred.c -- the event that ends deferred items as DOWN and deferred questions as unanswered.
 */
#include "daemon/backend/deferred.h"

#include <event2/event.h>
#include <stdlib.h>

#include "daemon/base/clock.h"

static void
done_down(struct deferred *d, uint64_t claim, uint64_t op)
{
    const struct core_done done = {
        .claim = claim, .op = op, .outcome = CORE_DOWN, .sent_us = clock_now_us(), .pttl_us = -1};

    d->events->done(d->events->ctx, &done);
}

static void
on_down(evutil_socket_t fd, short what, void *ctx)
{
    struct deferred *d = ctx;

    (void)fd;
    (void)what;
    while (!list_empty(&d->items)) {
        struct item *it = container_of(d->items.next, struct item, node);
        uint64_t claim = it->op.claim, op = it->op.op;

        item_free(d->env->freelist, it);
        done_down(d, claim, op);
    }
    while (!list_empty(&d->questions)) {
        struct inspect *q = container_of(d->questions.next, struct inspect, node);

        list_remove(&q->node);
        inspect_unanswered(q);
    }
}

/* Puts an item or a question on the list; the event empties it. */
static void
defer(struct deferred *d, struct list *list, struct list *node)
{
    list_remove(node);
    list_push_back(list, node);
    event_active(d->ev, EV_TIMEOUT, 0);
}

void
deferred_item(struct deferred *d, struct item *it)
{
    defer(d, &d->items, &it->node);
}

void
deferred_inspect(struct deferred *d, struct inspect *q)
{
    defer(d, &d->questions, &q->node);
}

bool
deferred_idle(const struct deferred *d)
{
    return list_empty(&d->items) && list_empty(&d->questions);
}

void
deferred_init(struct deferred *d, const struct backend_env *env, const struct shard_events *events)
{
    *d = (struct deferred){.env = env, .events = events};
    list_init(&d->items);
    list_init(&d->questions);
    d->ev = event_new(env->base, -1, 0, on_down, d);
}

void
deferred_fini(struct deferred *d)
{
    while (!list_empty(&d->items)) {
        item_free(d->env->freelist, container_of(d->items.next, struct item, node));
    }
    while (!list_empty(&d->questions)) {
        struct inspect *q = container_of(d->questions.next, struct inspect, node);

        list_remove(&q->node);
        free(q);
    }
    if (d->ev != NULL) {
        event_free(d->ev);
    }
}
