/*
 * replication.h -- whether a server is a master, and whether its settings make it refuse writes when it is cut off from
 * its replicas.
 *
 * A master that is cut off, and has not learned of its successor, goes on granting and renewing. Only its own settings
 * bound that: min-replicas-to-write must be 1 or more, and min-replicas-max-lag shorter by two seconds than the
 * sentinels' down-after-milliseconds. Then the master refuses writes before the new epoch begins, and its grants have
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
    bool refused;                  /* the ACL forbids CONFIG GET */
    bool logged;                   /* the log has the warning about `why_unbounded` */
    char why_unbounded[128];       /* why no setting bounds an old master; "" = one does, or none was compared yet */
};

void replication_init(struct replication *r, const struct backend_env *env, const struct link_address *address);

/* A link is greeting: fails it unless the server is a master, and requests the settings. */
void replication_greet(struct replication *r, struct redis_link *l);

/* Requests the settings again when they are old. */
void replication_tick(struct replication *r, struct shard *sh);

/* The shard has moved to another server: forgets the settings. */
void replication_forget(struct replication *r);

/* Whether an old master is bounded, given the sentinels' down-after-milliseconds (0 = not known); logs changes. */
bool replication_bounded(struct replication *r, int64_t down_after_ms);

#endif
