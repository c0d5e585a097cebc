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
    uint64_t op;         /* of the poll in flight; 0 = none */
    size_t n;            /* its number of names */
    bool refused;        /* the ACL forbids PUBSUB: no more polls until link 0 connects again */
    bool logged;         /* the refusal is in the log */
};

/* Borrows its arguments for its life. */
void waiter_poll_init(struct waiter_poller *p, const struct backend_env *env, const struct shard_events *events,
                      const struct link_address *address);
void waiter_poll_fini(struct waiter_poller *p);

/* Sends a poll, which ends in one WAITERS_POLLED if Redis answers. Does nothing if a poll is in flight or refused. */
void waiter_poll_send(struct waiter_poller *p, struct redis_link *l, const struct core_waiter_poll *what);

/* Reads the answer about n channels: for each its name and a number. False: the reply is no such answer. */
bool waiter_poll_read(const struct reply *r, size_t n, int64_t *subscribers);

#endif
