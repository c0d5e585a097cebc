/*
 * waiter_poll.h -- PUBSUB NUMSUB: the number of subscribers of the channels of some names.
 */
#ifndef RLOCKD_BACKEND_WAITER_POLL_H
#define RLOCKD_BACKEND_WAITER_POLL_H

#include "daemon/backend/shard.h"
#include "daemon/base/buf.h"

/* Embedded in its shard, and outlives the shard's links. */
struct waiter_poller {
    const struct backend_env *env;
    const struct shard_events *events;
    const struct link_address *address;
    struct buf channels; /* scratch */
    uint64_t op;         /* the names in flight; 0 = none */
    size_t n;
    bool refused;        /* Redis does not let us: nothing is asked any more on this connection */
    bool logged;         /* ... and is in the log */
};

/* All are borrowed for its life. */
void waiter_poll_init(struct waiter_poller *p, const struct backend_env *env, const struct shard_events *events,
                      const struct link_address *address);
void waiter_poll_fini(struct waiter_poller *p);

/* Ends in one WAITERS_POLLED, if Redis answers; nothing happens when it cannot be sent. */
void waiter_poll_send(struct waiter_poller *p, struct redis_link *l, const struct core_waiter_poll *what);

/* The answer about n names: for each its channel, and a number. False: it is none. */
bool waiter_poll_read(const struct reply *r, size_t n, int64_t *subscribers);

#endif
