/*
 * broadcasts.h -- messages between daemons on one channel of Redis: those of the core (core/broadcast.h), of
 * serve/keymap.c and of quorum_servers.c; messages about the data (continuity_received()) use the same channel.
 *
 * One channel per database, `rlock:deadlock:<db>`, since a daemon's locks are in one database; a channel of Redis is
 * the same in all databases. In a cluster one in the slot of each anchor, `rlock:{<tag>}:deadlock`. A broadcast may get
 * lost: then, for example, a deadlock is found later, a holder learns later that its lock was broken, or a grace period
 * ends later.
 */
#ifndef RLOCKD_BACKEND_BROADCASTS_H
#define RLOCKD_BACKEND_BROADCASTS_H

#include "daemon/backend/shard.h"

#define BROADCAST_TEXT_MAX (16 * 1024) /* sender and receivers drop a longer text */

/* Embedded in its shard, and outlives the shard's links. */
struct broadcasts {
    const struct backend_env *env;
    const struct shard_events *events;
    const struct link_address *address;
    struct redis_link *sub; /* the link that is subscribed */
    void (*on_subscribed)(void *ctx); /* see broadcasts_subscribe() */
    void *ctx;
    char channel[32];
    bool wanted, subscribed; /* set by the shard; a refusal by Redis clears `subscribed` */
    bool logged; /* the log has that Redis refuses the channel */
};

/* Borrows its arguments for the life of the shard. channel NULL: that of the database. */
void broadcasts_init(struct broadcasts *s, const struct backend_env *env, const struct shard_events *events,
                     const struct link_address *address, const char *channel);

/* The subscriber link has come up: subscribes. on_subscribed(ctx) is called when no broadcast is missed any more. */
void broadcasts_subscribe(struct broadcasts *s, struct redis_link *sub, void (*on_subscribed)(void *ctx), void *ctx);

/* Drops the broadcast if the link is down or the text too long. */
void broadcasts_send(const struct broadcasts *s, struct redis_link *l, struct slice what);

/* False: the message is on another channel. Posts RECEIVED, unless the message is about the data: "" or "+...". */
bool broadcasts_received(const struct broadcasts *s, struct slice channel, const struct reply *what);

#endif
