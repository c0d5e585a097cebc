/*
 * listen.h -- watches and their sources: a watch has a part in each of its sources, a source the parts of its watches.
 *
 * Tables and states, nothing of Redis: watch.c asks Redis, and reports its answers here.
 */
#ifndef RLOCKD_BACKEND_LISTEN_H
#define RLOCKD_BACKEND_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/shard.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"

/* A channel is subscribed once however many listen; a key is tracked (track.h). */
enum source_type { SOURCE_CHANNEL, SOURCE_KEY, SOURCES };

enum part_state { PART_WAITING, PART_ACTIVE, PART_REFUSED };

enum { PART_CHANNEL, PART_OWN_CHANNEL, PART_KEY, PARTS_MAX }; /* of a watch: the second is its owner's */

struct part {
    struct list node; /* source.parts */
    struct watch *watch;
    struct source *source; /* NULL: there is no such part */
    enum part_state state;
};

struct watch {
    uint64_t lock;
    struct part part[PARTS_MAX];
    struct list due; /* listen.due, when something is to be posted */
    bool subscribed_due, unsubscribed_due, hint_due;
    struct map_node by_lock; /* listen.watch */
};

struct source {
    struct listen *in;
    enum source_type type;
    struct list parts;
    size_t unanswered; /* questions to Redis about it that are not answered */
    bool changed; /* key: the read in flight was sent because it had changed */
    bool changed_again; /* key: it has changed while a read was in flight */
    struct map_node by_name; /* listen.source; a keyed hash */
    size_t name_n;
    char name[];
};

struct listen {
    const struct backend_env *env; /* borrowed */
    const struct shard_events *events; /* borrowed */
    struct map source[SOURCES];
    struct map watch;
    struct list due;
    void *owner; /* of these tables */
};

void listen_init(struct listen *in, const struct backend_env *env, const struct shard_events *events, void *owner);
void listen_fini(struct listen *in); /* its tables are empty */

static inline struct slice
source_name(const struct source *src)
{
    return (struct slice){src->name, src->name_n};
}

struct source *source_find(const struct listen *in, enum source_type type, struct slice name);

/* Frees it when no watch has a part in it and no answer is to come; says whether. */
bool source_free(struct source *src);

/* The source has moved: a HINT is due to all its watches. */
void source_hint(struct source *src);

/* The parts of the source that waited are heard. */
void source_activate(struct source *src);

/* The parts of the source wait (again): what may have moved meanwhile is not known. */
void source_suspend(struct source *src);

/* Redis refuses the subscription: its parts are not waited for. */
void source_refuse(struct source *src);

/* Some part of it waits. */
bool source_waits(const struct source *src);

struct watch *watch_find(const struct listen *in, uint64_t lock);

struct watch *watch_new(struct listen *in, uint64_t lock);

/* Gives the watch its i-th part. */
void watch_join(struct listen *in, struct watch *wa, int i, enum source_type type, struct slice name);

/* Takes the i-th part away. The source, which may be deserted now, and freed; NULL: there was no such part. */
struct source *watch_leave(struct watch *wa, int i);

/* All its parts were taken away. */
void watch_free(struct listen *in, struct watch *wa);

/* Posts the due events. Not from inside a backend_ call, nor while a caller walks the tables: they may change. */
void listen_post(struct listen *in);

#endif
