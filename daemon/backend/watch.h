/*
 * watch.h -- wake-ups for waiting locks: channels, and keys whose holders publish nothing.
 */
#ifndef RLOCKD_BACKEND_WATCH_H
#define RLOCKD_BACKEND_WATCH_H

#include "daemon/backend/shard.h"

struct watches;

/*
 * env, events, address and the links are borrowed for its life: `sub` is where messages come, `reader` reads the keys
 * that are tracked. sharded: channels are those of slots, by SSUBSCRIBE.
 */
struct watches *watches_new(const struct backend_env *env, const struct shard_events *events,
                            const struct link_address *address, struct redis_link *sub, struct redis_link *reader,
                            bool sharded);

/* The links are closed already. */
void watches_free(struct watches **w);

/* The op of a WATCH: its lock, key, kind, owner (kinds with tickets) and tracking; a former watch of the lock ends. */
void watches_add(struct watches *w, const struct core_op *op);
void watches_remove(struct watches *w, uint64_t lock);

/* The subscriber link is greeting. */
void watches_greet(struct watches *w);

/* Link l has come up (then everything is asked for again), or is down. */
void watches_link(struct watches *w, const struct redis_link *l, bool up);

/* A message: its locks get a HINT. An integer: the channel is not heard here any more. */
void watches_message(struct watches *w, struct slice channel, const struct reply *what);

/* Subscribed channels. */
size_t watches_count(const struct watches *w);

#endif
