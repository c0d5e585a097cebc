/*
 * listen.c -- which watches have parts in which sources.
 *
 * LI1 A source is in its table iff it has a part or an unanswered command.
 * LI2 SUBSCRIBED is due when the last waiting part of a watch stops waiting, and a part is active: this happens after
 *     every reconnect, too. UNSUBSCRIBED is due if the part of the channel is not active at that time, and when that
 *     part ceases to be active.
 * LI3 An event is marked as due on its watch, and posted later, when no caller walks a table.
 */
#include "daemon/backend/listen.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/base/memory.h"

void
listen_init(struct listen *in, const struct backend_env *env, const struct shard_events *events, void *owner)
{
    *in = (struct listen){.env = env, .events = events, .owner = owner};
    list_init(&in->due);
}

void
listen_fini(struct listen *in)
{
    map_fini(&in->watch);
    for (int type = 0; type < SOURCES; type++) {
        map_fini(&in->source[type]);
    }
}

/* ---- sources ---- */

struct source *
source_find(const struct listen *in, enum source_type type, struct slice name)
{
    struct map_node *n = map_find(&in->source[type], hash_bytes(&in->env->secret, name.p, name.n));

    while (n != NULL && !slice_eq(source_name(container_of(n, struct source, by_name)), name)) {
        n = map_next(n);
    }
    return n != NULL ? container_of(n, struct source, by_name) : NULL;
}

static struct source *
source_new(struct listen *in, enum source_type type, struct slice name)
{
    struct source *src = mem_zalloc(sizeof(*src) + name.n);

    map_add(&in->source[type], &src->by_name, hash_bytes(&in->env->secret, name.p, name.n));
    src->in = in;
    src->type = type;
    list_init(&src->parts);
    memcpy(src->name, name.p, name.n);
    src->name_n = name.n;
    return src;
}

bool
source_free(struct source *src)
{
    if (!list_empty(&src->parts) || src->unanswered > 0) {
        return false;
    }
    map_remove(&src->in->source[src->type], &src->by_name);
    free(src);
    return true;
}

/* ---- events to be posted ---- */

static void
make_due(struct listen *in, struct watch *wa)
{
    list_remove(&wa->due);
    list_push_back(&in->due, &wa->due);
}

static void
note_hint(struct listen *in, struct watch *wa)
{
    wa->hint_due = true;
    make_due(in, wa);
}

/* A part of the watch has stopped waiting (LI2). */
static void
note_subscribed(struct listen *in, struct watch *wa)
{
    bool active = false;

    for (int i = 0; i < PARTS_MAX; i++) {
        if (wa->part[i].source != NULL && wa->part[i].state == PART_WAITING) {
            return;
        }
        active = active || wa->part[i].state == PART_ACTIVE;
    }
    if (active) {
        wa->subscribed_due = true;
        wa->unsubscribed_due = wa->part[PART_CHANNEL].state != PART_ACTIVE;
        make_due(in, wa);
    }
}

static void
note_unsubscribed(struct listen *in, struct watch *wa)
{
    wa->unsubscribed_due = true;
    make_due(in, wa);
}

void
listen_post(struct listen *in)
{
    while (!list_empty(&in->due)) {
        struct watch *wa = container_of(in->due.next, struct watch, due);
        struct core_event ev = {.lock = wa->lock};

        if (wa->subscribed_due) {
            wa->subscribed_due = false;
            ev.type = CORE_SUBSCRIBED;
        } else if (wa->unsubscribed_due) {
            wa->unsubscribed_due = false;
            ev.type = CORE_UNSUBSCRIBED;
        } else {
            wa->hint_due = false;
            ev.type = CORE_HINT;
        }
        if (!wa->subscribed_due && !wa->unsubscribed_due && !wa->hint_due) {
            list_remove(&wa->due);
        }
        in->events->event(in->events->ctx, &ev); /* may free the watch */
    }
}

void
source_hint(struct source *src)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &src->parts)
    {
        note_hint(src->in, container_of(pos, struct part, node)->watch);
    }
}

/* Moves the parts in state `from` to state `to`, and marks the events that become due (LI2). */
static void
move_parts(struct source *src, enum part_state from, enum part_state to)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &src->parts)
    {
        struct part *p = container_of(pos, struct part, node);

        if (p->state == from) {
            p->state = to;
            if (from == PART_ACTIVE && p == &p->watch->part[PART_CHANNEL]) {
                note_unsubscribed(src->in, p->watch);
            }
            if (to != PART_WAITING) {
                note_subscribed(src->in, p->watch);
            }
        }
    }
}

void
source_activate(struct source *src)
{
    move_parts(src, PART_WAITING, PART_ACTIVE);
}

void
source_suspend(struct source *src)
{
    move_parts(src, PART_ACTIVE, PART_WAITING);
    move_parts(src, PART_REFUSED, PART_WAITING);
}

void
source_refuse(struct source *src)
{
    move_parts(src, PART_ACTIVE, PART_WAITING);
    move_parts(src, PART_WAITING, PART_REFUSED);
}

bool
source_waits(const struct source *src)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &src->parts)
    {
        if (container_of(pos, struct part, node)->state == PART_WAITING) {
            return true;
        }
    }
    return false;
}

/* ---- watches ---- */

struct watch *
watch_find(const struct listen *in, uint64_t lock)
{
    struct map_node *n = map_find(&in->watch, lock);

    return n != NULL ? container_of(n, struct watch, by_lock) : NULL;
}

struct watch *
watch_new(struct listen *in, uint64_t lock)
{
    struct watch *wa = mem_zalloc(sizeof(*wa));

    map_add(&in->watch, &wa->by_lock, lock);
    wa->lock = lock;
    list_init(&wa->due);
    return wa;
}

void
watch_join(struct listen *in, struct watch *wa, int i, enum source_type type, struct slice name)
{
    struct source *src = source_find(in, type, name);

    src = src != NULL ? src : source_new(in, type, name);
    wa->part[i] = (struct part){.watch = wa, .source = src, .state = PART_WAITING};
    list_push_back(&src->parts, &wa->part[i].node);
}

struct source *
watch_leave(struct watch *wa, int i)
{
    struct source *src = wa->part[i].source;

    if (src != NULL) {
        list_remove(&wa->part[i].node);
        wa->part[i].source = NULL;
    }
    return src;
}

void
watch_free(struct listen *in, struct watch *wa)
{
    list_remove(&wa->due);
    map_remove(&in->watch, &wa->by_lock);
    free(wa);
}
