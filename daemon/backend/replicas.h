/*
 * replicas.h -- grants of Redis until its replicas have acknowledged them, as `replicas` of a rule demands.
 *
 * A grant is OK, with the number of replicas that have it; UNREPLICATED, where these are too few within a part
 * (REPLICAS_PART) of the timeout of a command; or UNKNOWN. A replica that has acknowledged may still fail, or never be
 * promoted: lost locks become rarer, and epochs (membership.h) remain the answer to them.
 */
#ifndef RLOCKD_BACKEND_REPLICAS_H
#define RLOCKD_BACKEND_REPLICAS_H

#include "daemon/backend/continuity.h"
#include "daemon/backend/link.h"
#include "daemon/base/list.h"

enum { REPLICAS_PART = 4 };

/* Embedded in its shard; outlives the link. */
struct replicas {
    const struct backend_conf *conf; /* borrowed, as are these */
    const struct backend_env *env;
    const struct shard_events *events;
    struct continuity *data;
    const struct link_address *address;
    struct redis_link *link; /* the shard's; NULL: no rule has asked for it yet */
    struct list waiting;     /* grants that no WAIT is for yet; as many as the core has attempts under way, at most */
    struct list asked;       /* grants of the WAIT in flight; empty: there is none */
    unsigned jumps;          /* of a clock, replicas_jumped() */
    bool written;            /* the write before that WAIT was done */
};

void replicas_init(struct replicas *r, const struct backend_conf *conf, const struct backend_env *env,
                   const struct shard_events *events, struct continuity *data, const struct link_address *address);
void replicas_fini(struct replicas *r);

/* The link is greeting. */
void replicas_greet(struct replicas *r);

/* Redis has just granted the operation in the epoch of domain 0; done (copied): as it answered. From the loop. */
void replicas_take(struct replicas *r, const struct core_op *op, const struct core_done *done);

/* A clock has jumped: leases of waiting grants may be shorter than was said. */
static inline void
replicas_jumped(struct replicas *r)
{
    r->jumps++;
}

/* Grants that were taken leave, unless a WAIT is in flight: then behind it. From the loop. */
void replicas_flush(struct replicas *r);

bool replicas_idle(const struct replicas *r);

#endif
