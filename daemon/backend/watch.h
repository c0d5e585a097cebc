/*
 * watch.h -- wake-ups for waiting locks: by channels, and by tracking keys whose holders publish nothing.
 */
#ifndef RLOCKD_BACKEND_WATCH_H
#define RLOCKD_BACKEND_WATCH_H

#include "daemon/backend/shard.h"

struct watches;

/*
 * Borrows its arguments for its life. `sub` receives messages, `reader` reads tracked keys. Subscribes by SSUBSCRIBE
 * while `events->variants` is sharded.
 */
struct watches *watches_new(const struct backend_env *env, const struct shard_events *events,
                            const struct link_address *address, struct redis_link *sub, struct redis_link *reader);

/* The links must be closed already. */
void watches_free(struct watches **w);

/* Adds a watch; uses queue, key, kind, owner (kinds with tickets) and `tracking` of op. Ends the queue's former one. */
void watches_add(struct watches *w, const struct core_op *op);
void watches_remove(struct watches *w, uint64_t queue);

/* The subscriber link is greeting. */
void watches_greet(struct watches *w);

/* Link l is up, and all channels and keys are requested again; or it is down. */
void watches_link(struct watches *w, const struct redis_link *l, bool up);

/*
 * Takes a message of the subscriber link: the locks of the channel or key get a HINT; see link.h.
 */
void watches_message(struct watches *w, struct slice channel, const struct reply *what);

/* The number of channels. */
size_t watches_count(const struct watches *w);

#endif
