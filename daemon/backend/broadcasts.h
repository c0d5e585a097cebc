/*
 * broadcasts.h -- broadcasts, on one channel for all daemons of a Redis: about deadlocks, and names that were broken.
 *
 * One channel per database, `rlock:deadlock:<db>`, since a daemon's locks live in one; Redis's channels know no
 * databases. A broadcast may get lost: nothing depends on it but the time until a deadlock is found, or a holder learns
 * that its lock was broken.
 */
#ifndef RLOCKD_BACKEND_BROADCASTS_H
#define RLOCKD_BACKEND_BROADCASTS_H

#include "daemon/backend/shard.h"

#define BROADCAST_TEXT_MAX (16 * 1024) /* longer ones are neither sent nor received */

/* Embedded in its shard, and outlives the shard's links. */
struct broadcasts {
    const struct backend_env *env;
    const struct shard_events *events;
    const struct link_address *address;
    struct redis_link *sub; /* where it listens */
    void (*listening)(void *ctx); /* see broadcasts_listen() */
    void *ctx;
    char channel[32];
    bool sharded; /* by SPUBLISH, on the channel of the events */
    bool logged; /* the refusal is in the log */
};

/* All are borrowed for its life. */
void broadcasts_init(struct broadcasts *s, const struct backend_env *env, const struct shard_events *events,
                     const struct link_address *address, bool sharded);

/* The subscriber link is up (again). listening(ctx): from now on all broadcasts are received; before, perhaps not. */
void broadcasts_listen(struct broadcasts *s, struct redis_link *sub, void (*listening)(void *ctx), void *ctx);

/* Nothing happens when it cannot be sent. */
void broadcasts_send(const struct broadcasts *s, struct redis_link *l, struct slice what);

/* A message: posted as RECEIVED if it is on our channel and none of presence.lua (empty, or with a +); else false. */
bool broadcasts_received(const struct broadcasts *s, struct slice channel, const struct reply *what);

#endif
