/*
 * down.c -- two lists and one event.
 */
#include "daemon/backend/down.h"

#include <event2/event.h>
#include <stdlib.h>

#include "daemon/base/clock.h"

static void
post_down(struct down *d, uint64_t claim, uint64_t op)
{
    struct core_event ev = {.type = CORE_DONE};

    ev.done = (struct core_done){
        .claim = claim, .op = op, .outcome = CORE_DOWN, .sent_us = clock_now_us(), .pttl_us = -1};
    d->env->post(d->env->ctx, &ev);
}

static void
on_down(evutil_socket_t fd, short what, void *ctx)
{
    struct down *d = ctx;

    (void)fd;
    (void)what;
    while (!list_empty(&d->items)) {
        struct item *it = container_of(d->items.next, struct item, node);
        uint64_t claim = it->op.claim, op = it->op.op;

        item_free(d->env->spares, it);
        post_down(d, claim, op);
    }
    while (!list_empty(&d->blind)) {
        struct inspect *q = container_of(d->blind.next, struct inspect, node);

        list_remove(&q->node);
        inspect_unseen(q);
    }
}

/* Puts the node of one of them on the list of those who will be told. */
static void
tell_down(struct down *d, struct list *list, struct list *node)
{
    list_remove(node);
    list_push_back(list, node);
    event_active(d->ev, EV_TIMEOUT, 0);
}

void
down_item(struct down *d, struct item *it)
{
    tell_down(d, &d->items, &it->node);
}

void
down_look(struct down *d, struct inspect *q)
{
    tell_down(d, &d->blind, &q->node);
}

bool
down_idle(const struct down *d)
{
    return list_empty(&d->items) && list_empty(&d->blind);
}

bool
down_init(struct down *d, const struct backend_env *env)
{
    *d = (struct down){.env = env};
    list_init(&d->items);
    list_init(&d->blind);
    d->ev = event_new(env->base, -1, 0, on_down, d);
    return d->ev != NULL;
}

void
down_fini(struct down *d)
{
    while (!list_empty(&d->items)) {
        item_free(d->env->spares, container_of(d->items.next, struct item, node));
    }
    while (!list_empty(&d->blind)) {
        struct inspect *q = container_of(d->blind.next, struct inspect, node);

        list_remove(&q->node);
        free(q);
    }
    if (d->ev != NULL) {
        event_free(d->ev);
    }
}
