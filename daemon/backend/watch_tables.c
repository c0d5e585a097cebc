/*
 * watch_tables.c -- which watches have parts in which sources.
 *
 * WT1 A source is in its table iff it has a part, or a SUBSCRIBE or read of it is in flight.
 * WT2 SUBSCRIBED is due when the last waiting part of a watch stops waiting, and a part is active: this happens after
 *     every reconnect, too. UNSUBSCRIBED is due if the part of the channel is not active at that time, and when that
 *     part ceases to be active.
 * WT3 An event is marked as due on its watch, and posted later, when no caller walks a table.
 */
#include "daemon/backend/watch_tables.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/base/memory.h"

void
watch_tables_init(struct watch_tables *t, const struct backend_env *env, const struct shard_events *events, void *ctx)
{
    *t = (struct watch_tables){.env = env, .events = events, .ctx = ctx};
    list_init(&t->due);
}

void
watch_tables_fini(struct watch_tables *t)
{
    map_fini(&t->watch);
    for (int type = 0; type < SOURCES; type++) {
        map_fini(&t->source[type]);
    }
}

/* ---- sources ---- */

struct source *
source_find(const struct watch_tables *t, enum source_type type, struct slice name)
{
    struct map_node *n = map_find(&t->source[type], hash_bytes(&t->env->secret, name.p, name.n));

    while (n != NULL && !slice_eq(source_name(container_of(n, struct source, by_name)), name)) {
        n = map_next(n);
    }
    return n != NULL ? container_of(n, struct source, by_name) : NULL;
}

static struct source *
source_new(struct watch_tables *t, enum source_type type, struct slice name)
{
    struct source *src = mem_zalloc(sizeof(*src) + name.n);

    map_add(&t->source[type], &src->by_name, hash_bytes(&t->env->secret, name.p, name.n));
    src->tables = t;
    src->type = type;
    list_init(&src->parts);
    memcpy(src->name, name.p, name.n);
    src->name_n = name.n;
    return src;
}

bool
source_free_unused(struct source *src)
{
    if (!list_empty(&src->parts) || src->unanswered > 0) {
        return false;
    }
    map_remove(&src->tables->source[src->type], &src->by_name);
    free(src);
    return true;
}

/* ---- events to be posted ---- */

static void
make_due(struct watch_tables *t, struct watch *wa)
{
    list_remove(&wa->due);
    list_push_back(&t->due, &wa->due);
}

static void
note_hint(struct watch_tables *t, struct watch *wa)
{
    wa->hint_due = true;
    make_due(t, wa);
}

/* A part of the watch has stopped waiting (WT2). */
static void
note_subscribed(struct watch_tables *t, struct watch *wa)
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
        make_due(t, wa);
    }
}

static void
note_unsubscribed(struct watch_tables *t, struct watch *wa)
{
    wa->unsubscribed_due = true;
    make_due(t, wa);
}

void
watch_tables_post(struct watch_tables *t)
{
    while (!list_empty(&t->due)) {
        struct watch *wa = container_of(t->due.next, struct watch, due);
        struct core_event ev = {.queue = wa->queue};

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
        t->events->event(t->events->ctx, &ev);   /* may free the watch */
    }
}

void
source_hint(struct source *src)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &src->parts)
    {
        note_hint(src->tables, container_of(pos, struct watch_part, node)->watch);
    }
}

/* Moves the parts in state `from` to state `to`, and marks the events that become due (WT2). */
static void
move_parts(struct source *src, enum part_state from, enum part_state to)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &src->parts)
    {
        struct watch_part *p = container_of(pos, struct watch_part, node);

        if (p->state == from) {
            p->state = to;
            if (from == PART_ACTIVE && p == &p->watch->part[PART_CHANNEL]) {
                note_unsubscribed(src->tables, p->watch);
            }
            if (to != PART_WAITING) {
                note_subscribed(src->tables, p->watch);
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
    /* Active parts wait first, so UNSUBSCRIBED becomes due for that of a channel; then all parts are refused. */
    move_parts(src, PART_ACTIVE, PART_WAITING);
    move_parts(src, PART_WAITING, PART_REFUSED);
}

bool
source_waits(const struct source *src)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &src->parts)
    {
        if (container_of(pos, struct watch_part, node)->state == PART_WAITING) {
            return true;
        }
    }
    return false;
}

/* ---- watches ---- */

struct watch *
watch_find(const struct watch_tables *t, uint64_t queue)
{
    struct map_node *n = map_find(&t->watch, queue);

    return n != NULL ? container_of(n, struct watch, by_queue) : NULL;
}

struct watch *
watch_new(struct watch_tables *t, uint64_t queue)
{
    struct watch *wa = mem_zalloc(sizeof(*wa));

    map_add(&t->watch, &wa->by_queue, queue);
    wa->queue = queue;
    list_init(&wa->due);
    return wa;
}

void
watch_join(struct watch_tables *t, struct watch *wa, int i, enum source_type type, struct slice name)
{
    struct source *src = source_find(t, type, name);

    src = src != NULL ? src : source_new(t, type, name);
    wa->part[i] = (struct watch_part){.watch = wa, .source = src, .state = PART_WAITING};
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
watch_free(struct watch_tables *t, struct watch *wa)
{
    list_remove(&wa->due);
    map_remove(&t->watch, &wa->by_queue);
    free(wa);
}
