/*
 * backend.h -- Redis, as the engine uses it: operations in, events out (DONE, HINT, SUBSCRIBED and others).
 *
 * A backend is a topology: it hands an operation to the shard of its key. Events are posted in a later turn of the
 * loop, never from inside one of these functions. Every ACQUIRE, EXTEND, RELEASE and BREAK_KEY ends in exactly one
 * DONE, whatever happens to the connection: OK or another plain outcome if Redis answered, UNKNOWN if the operation may
 * have run or may yet run, DOWN if it has not run and will not.
 */
#ifndef RLOCKD_BACKEND_BACKEND_H
#define RLOCKD_BACKEND_BACKEND_H

#include "daemon/backend/backend_ops.h"

/* Opens the topology of the URL, which connects by itself. NULL with a message in `error`: the URL is bad. */
struct backend *backend_open(const struct backend_conf *conf, const struct backend_env *env, char error[160]);

/* Takes ACQUIRE EXTEND RELEASE BREAK_KEY WATCH UNWATCH. The op is copied. */
static inline void
backend_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    b->ops->perform(b, op, verb);
}

/* Asks Redis what it has under `key`; ends in one env.inspected(id). */
static inline void
backend_inspect(struct backend *b, uint64_t id, struct slice key)
{
    b->ops->inspect(b, id, key);
}

/* Broadcasts: each daemon on this database gets RECEIVED, also this one. 15 KiB at most; may get lost. Copied. */
static inline void
backend_broadcast(struct backend *b, struct slice what)
{
    b->ops->broadcast(b, what);
}

/* Polls remote waiters: posts one WAITERS_POLLED; none if Redis is away or refuses, or one is in flight. Copies p. */
static inline void
backend_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    b->ops->waiter_poll(b, p);
}

/* Sets the longest lease, which never gets shorter. Other settings need a new backend. */
static inline void
backend_configure(struct backend *b, int64_t longest_lease_us)
{
    b->ops->configure(b, longest_lease_us);
}

/* Takes the login and the files of TLS of new connections from conf. False with a message: nothing has changed. */
static inline bool
backend_login(struct backend *b, const struct backend_conf *conf, char error[160])
{
    return b->ops->login(b, conf, error);
}

/* This daemon has reclaimed all its locks of the domain in that epoch (the core's answer to RECLAIM). */
static inline void
backend_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch)
{
    b->ops->reclaimed(b, domain, epoch);
}

/* The number of domains, for core_conf. */
static inline uint32_t
backend_domains(const struct backend *b)
{
    return b->ops->domains;
}

/* Whether operations go to several shards, each of which has links of its own (backend_conf.links). */
static inline bool
backend_has_several_shards(const struct backend *b)
{
    return b->ops->several_shards;
}

/* The domain of a key. */
static inline uint16_t
backend_domain(const struct backend *b, struct slice key)
{
    return b->ops->domain != NULL ? b->ops->domain(b, key) : 0;
}

/* Whether the topology can lock a name of that kind with this key. False with the reason in `why`. */
static inline bool
backend_can_lock(const struct backend *b, enum kind kind, struct slice key, char why[160])
{
    return b->ops->can_lock == NULL || b->ops->can_lock(b, kind, key, why);
}

/* Why the key is not granted although the backend is up; "" = no reason that concerns this key alone. */
static inline void
backend_refusal(const struct backend *b, struct slice key, char why[160])
{
    why[0] = '\0';
    if (b->ops->refusal != NULL) {
        b->ops->refusal(b, key, why);
    }
}

/* Leaves the membership; this daemon holds no lock any more. The backend is not idle until Redis has answered. */
static inline void
backend_leave(struct backend *b)
{
    b->ops->leave(b);
}

/* The end of a turn: sends the gathered operations, unless they are few and a call is in flight (shard_calls.c). */
static inline void
backend_flush(struct backend *b)
{
    b->ops->flush(b);
}

/* Nothing queued, nothing in flight. */
static inline bool
backend_idle(const struct backend *b)
{
    return b->ops->idle(b);
}

static inline void
backend_status(const struct backend *b, struct backend_status *out)
{
    b->ops->status(b, out);
}

/* Lists the known servers, BACKEND_NODES_MAX at most; returns their number. */
static inline size_t
backend_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX])
{
    return b->ops->nodes(b, out);
}

/* Closes all links, and posts no more events. */
static inline void
backend_close(struct backend **b)
{
    if (*b != NULL) {
        (*b)->ops->close(*b);
        *b = NULL;
    }
}

#endif
