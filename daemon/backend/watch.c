/*
 * watch.c -- asks Redis for the sources of watches: SUBSCRIBE for a channel, a tracked read for a key.
 *
 * WA1 A part is active when all commands about its source are answered, the last one with success, and no link was
 *     lost since (of a channel: the subscriber link): then no change of the source is missed.
 * WA2 The HINT for a key is posted after the key was read again, so the attempt that the HINT causes, on any link,
 *     finds the alarm armed.
 * WA3 No event is posted from inside watches_add() and watches_remove().
 */
#include "daemon/backend/watch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/script_variants.h"
#include "daemon/backend/slot.h"
#include "daemon/backend/watch_tables.h"
#include "daemon/backend/text.h"
#include "daemon/backend/track.h"
#include "daemon/base/memory.h"

struct watches {
    const struct backend_env *env;
    const struct link_address *address;
    struct redis_link *sub;
    const struct shard_events *events;
    struct track *track;
    struct watch_tables tables; /* its ctx is this record */
    bool logged; /* a refused channel is in the log */
};

/* ---- channels ---- */

/* Another node has the slot of the channel: the topology moves its watches there. */
static void
report_slot_left(const struct watches *w, struct slice channel)
{
    w->events->life(w->events->ctx, SHARD_SLOT_LEFT, slot_of(channel));
}

/* A refusal concerns one channel. After a transient error, or no answer, the link reconnects and subscribes to all. */
static void
on_subscribed(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct source *src = arg;
    struct watches *w = src->tables->ctx;
    bool refused = result == LINK_ANSWERED && r->type == REPLY_ERROR;
    char text[TEXT_ERROR_ROOM];

    (void)sent_us;
    src->unanswered--;
    if (refused && call_is_redirected(r->text)) {
        report_slot_left(w, source_name(src));
        (void)source_free_unused(src);
        return;
    }
    if (result != LINK_ANSWERED) {
        link_fail(w->sub, "no answer");
    } else if (refused && text_error_is_transient(r->text)) {
        link_fail_refused(w->sub, r->text);
    } else if (refused && !w->logged) {
        w->logged = true;
        log_event(w->env->log, LOG_WARN, "redis", "not subscribed", "address", LOG_S(w->address->shown), "channel",
                  LOG_B(source_name(src)), "error", LOG_S(text_error(text, r->text, w->address)), NULL);
    }
    if (source_free_unused(src) || src->unanswered > 0 || !link_up(w->sub)) {
        return; /* no watch wants it any more, or the last answer is still to come */
    }
    if (refused) {
        source_refuse(src);
    } else {
        source_activate(src);
    }
    watch_tables_post(&w->tables);
}

static void
send_channel(struct source *src, bool on)
{
    struct watches *w = src->tables->ctx;
    struct slice word[2] = {on ? SLICE_LIT("SSUBSCRIBE") : SLICE_LIT("SUNSUBSCRIBE"), source_name(src)};

    if (!link_up(w->sub)) {
        return; /* watches_link() subscribes when the link is up */
    }
    if (!script_variants_sharded(w->events->variants)) {
        word[0] = on ? SLICE_LIT("SUBSCRIBE") : SLICE_LIT("UNSUBSCRIBE");
    }
    (void)link_send(w->sub, 2, word, on ? on_subscribed : NULL, src);
    src->unanswered += on;
}

/* ---- keys ---- */

static void read_key(struct source *src);

static void
on_read_key(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct source *src = arg;
    struct watches *w = src->tables->ctx;
    enum track_answer answer = track_answer(w->track, result, r);
    bool changed_again = src->changed_again, changed = src->changed;

    (void)sent_us;
    src->unanswered--;
    src->changed_again = src->changed = false;
    if (source_free_unused(src)) {
        return;
    }
    if (answer == TRACK_REFUSED) {
        source_refuse(src);
    } else if (answer == TRACK_FAILED) {
        source_suspend(src);
    } else {
        if (changed) {
            source_hint(src);
        }
        if (changed_again) {
            src->changed = true;
            read_key(src);
        } else {
            source_activate(src);
        }
    }
    watch_tables_post(&w->tables);
}

/* Reads the key, unless a read is in flight, which serves all watches. */
static void
read_key(struct source *src)
{
    struct track *t = ((struct watches *)src->tables->ctx)->track;

    if (src->unanswered > 0) {
        return;
    }
    if (track_arm(t, source_name(src), on_read_key, src)) {
        src->unanswered++;
        return;
    }
    src->changed = false;
    if (track_refused(t)) {
        source_refuse(src);
    } else {
        source_suspend(src);
    }
}

static void
key_changed(struct source *src)
{
    if (src->unanswered > 0) {
        src->changed_again = true;
        return;
    }
    src->changed = true;
    read_key(src);
}

/* The keys in `names` have changed; nil: all keys. RESP2 omits the database, so the key may be of another one. */
static void
keys_changed(struct watches *w, const struct reply *names)
{
    struct map_node *n, *next;
    struct source *src;

    if (names->type == REPLY_ARRAY) {
        for (size_t i = 0; i < names->count; i++) {
            src = names->item[i]->type == REPLY_TEXT ? source_find(&w->tables, SOURCE_KEY, names->item[i]->text) : NULL;
            if (src != NULL) {
                key_changed(src);
            }
        }
    } else if (names->type == REPLY_NULL) {
        map_for_each_safe(n, next, &w->tables.source[SOURCE_KEY])
        {
            key_changed(container_of(n, struct source, by_name));
        }
    }
}

/* Tracking was set up, or another try is due: reads the keys that wait. */
static void
on_ready(void *ctx)
{
    struct watches *w = ctx;
    struct map_node *n, *next;

    map_for_each_safe(n, next, &w->tables.source[SOURCE_KEY])
    {
        struct source *src = container_of(n, struct source, by_name);

        if (source_waits(src)) {
            read_key(src);
        }
    }
    watch_tables_post(&w->tables);
}

static void
on_refused(void *ctx)
{
    struct watches *w = ctx;
    struct map_node *n, *next;

    map_for_each_safe(n, next, &w->tables.source[SOURCE_KEY])
    {
        source_refuse(container_of(n, struct source, by_name));
    }
    watch_tables_post(&w->tables);
}

/* ---- watches ---- */

static void
drop(struct watches *w, struct watch *wa)
{
    for (int i = 0; i < PARTS_MAX; i++) {
        struct source *src = watch_leave(wa, i);

        if (src != NULL && src->type == SOURCE_CHANNEL && list_empty(&src->parts)) {
            send_channel(src, false);
        }
        if (src != NULL) {
            (void)source_free_unused(src);
        }
    }
    watch_free(&w->tables, wa);
}

/* The head of a queue in Redis is woken on a channel of its own, "<the key's channel>:<owner>". */
static void
join(struct watches *w, struct watch *wa, const struct core_op *op)
{
    struct buf name;

    buf_init(&name, 0);
    call_channel(op->kind, op->key, &name);
    watch_join(&w->tables, wa, PART_CHANNEL, SOURCE_CHANNEL, buf_slice(&name));
    if ((kind_rows[op->kind].flags & KIND_F_TICKETS) != 0 && op->owner != 0) {
        buf_printf(&name, ":%s:%" PRIu64, w->env->uuid, op->owner);
        watch_join(&w->tables, wa, PART_OWN_CHANNEL, SOURCE_CHANNEL, buf_slice(&name));
    }
    buf_fini(&name);
    if (op->tracking) {
        watch_join(&w->tables, wa, PART_KEY, SOURCE_KEY, op->key);
    }
}

void
watches_add(struct watches *w, const struct core_op *op)
{
    struct watch *wa;

    watches_remove(w, op->queue);
    wa = watch_new(&w->tables, op->queue);
    join(w, wa, op);
    for (int i = 0; i < PARTS_MAX; i++) { /* subscribes to known channels, too: the new part waits for the answer */
        struct source *src = wa->part[i].source;

        if (src != NULL && src->type == SOURCE_CHANNEL) {
            send_channel(src, true);
        } else if (src != NULL) {
            read_key(src);
        }
    }
}

void
watches_remove(struct watches *w, uint64_t queue)
{
    struct watch *wa = watch_find(&w->tables, queue);

    if (wa != NULL) {
        drop(w, wa);
    }
}

/* ---- links ---- */

void
watches_greet(struct watches *w)
{
    track_greet(w->track);
}

static void
suspend_all(struct watches *w, enum source_type type)
{
    struct map_node *n, *next;

    map_for_each_safe(n, next, &w->tables.source[type])
    {
        source_suspend(container_of(n, struct source, by_name));
    }
}

void
watches_link(struct watches *w, const struct redis_link *l, bool up)
{
    struct map_node *n, *next;

    if (!up) {
        track_lost(w->track);
        suspend_all(w, SOURCE_KEY);
        if (l == w->sub) {
            suspend_all(w, SOURCE_CHANNEL);
        }
        watch_tables_post(&w->tables);
        return;
    }
    if (l == w->sub) {
        map_for_each_safe(n, next, &w->tables.source[SOURCE_CHANNEL])
        {
            send_channel(container_of(n, struct source, by_name), true);
        }
    }
    if (w->tables.source[SOURCE_KEY].count > 0) {
        track_begin(w->track);
    }
}

void
watches_message(struct watches *w, struct slice channel, const struct reply *what)
{
    struct source *src;

    if (slice_eq(channel, SLICE_LIT(TRACK_CHANNEL))) {
        keys_changed(w, what);
    } else {
        src = source_find(&w->tables, SOURCE_CHANNEL, channel);
        if (src != NULL && what->type == REPLY_INT) {
            source_suspend(src);
            report_slot_left(w, channel);
        } else if (src != NULL) {
            source_hint(src);
        }
    }
    watch_tables_post(&w->tables);
}

size_t
watches_count(const struct watches *w)
{
    return w->tables.source[SOURCE_CHANNEL].count;
}

/* ---- begin and end ---- */

struct watches *
watches_new(const struct backend_env *env, const struct shard_events *events, const struct link_address *address,
            struct redis_link *sub, struct redis_link *reader)
{
    struct watches *w = mem_zalloc(sizeof(*w));

    w->env = env;
    w->address = address;
    w->sub = sub;
    w->events = events;
    watch_tables_init(&w->tables, env, events, w);
    w->track = track_new(env, address, sub, reader, (struct track_callbacks){on_ready, on_refused, w});
    return w;
}

void
watches_free(struct watches **wp)
{
    struct watches *w = *wp;
    struct map_node *n, *next;

    if (w == NULL) {
        return;
    }
    map_for_each_safe(n, next, &w->tables.watch)
    {
        struct watch *wa = container_of(n, struct watch, by_queue);

        for (int i = 0; i < PARTS_MAX; i++) {
            (void)watch_leave(wa, i);
        }
        watch_free(&w->tables, wa);
    }
    for (int type = 0; type < SOURCES; type++) {
        map_for_each_safe(n, next, &w->tables.source[type])
        {
            struct source *src = container_of(n, struct source, by_name);

            src->unanswered = 0; /* the links are closed: no answer will come */
            (void)source_free_unused(src);
        }
    }
    watch_tables_fini(&w->tables);
    track_free(&w->track);
    free(w);
    *wp = NULL;
}
