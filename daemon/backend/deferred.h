/*
 * deferred.h -- operations and questions that will not be sent: they end, as DOWN or unanswered, in a later turn.
 *
 * Deferring allocates nothing: each record has a list node.
 */
#ifndef RLOCKD_BACKEND_DEFERRED_H
#define RLOCKD_BACKEND_DEFERRED_H

#include "daemon/backend/call.h"
#include "daemon/backend/inspect.h"

/* Embedded in its shard, or in the topology of a cluster. */
struct deferred {
    const struct backend_env *env;
    const struct shard_events *events;
    struct list items;  /* item.node; owned */
    struct list questions; /* inspect.node; owned */
    struct event *ev;   /* owned: one of the lists is not empty */
};

void deferred_init(struct deferred *d, const struct backend_env *env, const struct shard_events *events);
void deferred_fini(struct deferred *d);

/* Takes the item, off any list. */
void deferred_item(struct deferred *d, struct item *it);

/* Takes the question. */
void deferred_inspect(struct deferred *d, struct inspect *q);

/* Both lists are empty. */
bool deferred_idle(const struct deferred *d);

#endif
