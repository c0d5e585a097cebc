/*
 * replication.h -- the part of a server in replication: whether it is a master, and whether it stops taking writes when
 * it is cut off from its replicas.
 *
 * A master that is cut off, and does not know yet of its successor, goes on granting and renewing. Only its own
 * settings bound that: with min-replicas-to-write of 1 or more, and min-replicas-max-lag shorter by two seconds than
 * the sentinels' down-after-milliseconds, it refuses writes by the time the new epoch begins; so its grants have
 * expired when the grace period of that epoch ends.
 */
#ifndef RLOCKD_BACKEND_REPLICATION_H
#define RLOCKD_BACKEND_REPLICATION_H

#include "daemon/backend/link.h"
#include "daemon/backend/shard.h"

/* Embedded in its topology; outlives the links. */
struct replication {
    const struct backend_env *env;
    const struct link_address *address;
    int64_t asked_us;              /* when the settings were asked for */
    int64_t min_replicas, lag_ms;  /* -1 = not known */
    bool refused;                  /* Redis does not tell them to us */
    bool logged;                   /* the log knows that nothing bounds an old master */
    char unbounded[128];               /* why nothing does; "" = something does, or nothing is known yet */
};

void replication_init(struct replication *r, const struct backend_env *env, const struct link_address *address);

/* A link greets: a server that is not a master is given up before it serves; and its settings are asked for. */
void replication_greet(struct replication *r, struct redis_link *l);

/* The settings are asked for again when they are old. */
void replication_tick(struct replication *r, struct shard *sh);

/* Another server, of which nothing is known yet. */
void replication_forget(struct replication *r);

/* Whether an old master is bounded, given the sentinels' down-after-milliseconds (0 = not known); logs changes. */
bool replication_bounded(struct replication *r, int64_t down_after_ms);

#endif
