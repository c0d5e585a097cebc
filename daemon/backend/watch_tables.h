/*
 * watch_tables.h -- watches and their sources (channels, keys): a watch has one part in each of its sources.
 *
 * Tables and states without Redis: watch.c asks Redis, and reports its answers here.
 */
#ifndef RLOCKD_BACKEND_WATCH_TABLES_H
#define RLOCKD_BACKEND_WATCH_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/shard.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"

/* All watches of a channel share one subscription. A key is tracked (track.h). */
enum source_type { SOURCE_CHANNEL, SOURCE_KEY, SOURCES };

/* WAITING: Redis has not answered; ACTIVE: no change of the source is missed; REFUSED: Redis reports no changes. */
enum part_state { PART_WAITING, PART_ACTIVE, PART_REFUSED };

enum { PART_CHANNEL, PART_OWN_CHANNEL, PART_KEY, PARTS_MAX }; /* OWN_CHANNEL: that of the waiting owner */

struct watch_part {
    struct list node; /* source.parts */
    struct watch *watch;
    struct source *source; /* NULL: the watch has no such part */
    enum part_state state;
};

struct watch {
    uint64_t queue;
    struct watch_part part[PARTS_MAX];
    struct list due; /* watch_tables.due, while an event is due */
    bool subscribed_due, unsubscribed_due, hint_due;
    struct map_node by_queue; /* watch_tables.watch */
};

struct source {
    struct watch_tables *tables;
    enum source_type type;
    struct list parts;
    size_t unanswered;  /* SUBSCRIBEs of the channel, or reads of the key, in flight */
    bool changed;       /* a key: the read in flight was sent because the key had changed */
    bool changed_again; /* a key: it has changed while a read was in flight */
    struct map_node by_name; /* watch_tables.source; a keyed hash */
    size_t name_n;
    char name[];
};

struct watch_tables {
    const struct backend_env *env; /* borrowed */
    const struct shard_events *events; /* borrowed */
    struct map source[SOURCES];
    struct map watch;
    struct list due;
    void *ctx; /* the struct watches that these tables are part of */
};

void watch_tables_init(struct watch_tables *t, const struct backend_env *env, const struct shard_events *events,
                       void *ctx);
void watch_tables_fini(struct watch_tables *t); /* the tables must be empty */

static inline struct slice
source_name(const struct source *src)
{
    return (struct slice){src->name, src->name_n};
}

struct source *source_find(const struct watch_tables *t, enum source_type type, struct slice name);

/* Frees the source if it has no parts, and `unanswered` is 0. True: it is freed. */
bool source_free_unused(struct source *src);

/* A message on the channel, or a change of the key: a HINT is due for each watch. */
void source_hint(struct source *src);

/* Parts that wait become active. */
void source_activate(struct source *src);

/* Parts that are active or refused wait (again): changes may be missed meanwhile. */
void source_suspend(struct source *src);

/* Redis refuses the source: its parts are refused, and their watches do not wait for them. */
void source_refuse(struct source *src);

/* Whether a part of the source waits. */
bool source_waits(const struct source *src);

struct watch *watch_find(const struct watch_tables *t, uint64_t queue);

struct watch *watch_new(struct watch_tables *t, uint64_t queue);

/* Gives the watch its i-th part. */
void watch_join(struct watch_tables *t, struct watch *wa, int i, enum source_type type, struct slice name);

/* Removes the i-th part, and returns its source, which may be without parts now. NULL: there was no such part. */
struct source *watch_leave(struct watch *wa, int i);

/* The watch must have no parts any more. */
void watch_free(struct watch_tables *t, struct watch *wa);

/* Posts the due events. The tables may change: no caller may be walking them, nor be inside a backend_ call. */
void watch_tables_post(struct watch_tables *t);

#endif
