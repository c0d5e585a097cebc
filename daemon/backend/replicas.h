/*
 * replicas.h -- withholds grants of Redis until as many replicas have acknowledged them as the rule demands.
 *
 * The outcome of a grant is OK, with the number of acknowledgements; SHORTFALL, if too few came within
 * redis.timeout / REPLICAS_TIMEOUT_DIVISOR; or UNKNOWN. An acknowledging replica may still fail, or never be promoted:
 * lost locks become rarer, and epochs (membership.h) remain the answer to them.
 */
#ifndef RLOCKD_BACKEND_REPLICAS_H
#define RLOCKD_BACKEND_REPLICAS_H

#include "daemon/backend/continuity.h"
#include "daemon/backend/link.h"
#include "daemon/base/list.h"

enum { REPLICAS_TIMEOUT_DIVISOR = 4 }; /* the part of redis.timeout for which a WAIT waits */

/* Embedded in its shard; outlives the link. */
struct replicas {
    const struct backend_conf *conf; /* borrowed, as are these */
    const struct backend_env *env;
    const struct shard_events *events;
    struct continuity *continuity;
    const struct link_address *address;
    struct redis_link *link; /* the shard's; NULL: no rule has needed it yet */
    struct list waiting;     /* grants for the next WAIT; the core's attempts in flight bound their number */
    struct list asked;       /* grants of the WAIT in flight; empty: there is none */
    unsigned jumps;          /* counts replicas_jumped() */
    bool written;            /* the write before that WAIT has succeeded */
};

void replicas_init(struct replicas *r, const struct backend_conf *conf, const struct backend_env *env,
                   const struct shard_events *events, struct continuity *continuity,
                   const struct link_address *address);
void replicas_fini(struct replicas *r);

/* The link is greeting. */
void replicas_greet(struct replicas *r);

/* Takes a grant: Redis has just answered `done` (copied) to the operation, in the domain's epoch. From the loop. */
void replicas_take(struct replicas *r, const struct core_op *op, const struct core_done *done, uint16_t domain);

/* A clock has jumped: the leases of taken grants may be shorter than they seem. */
static inline void
replicas_jumped(struct replicas *r)
{
    r->jumps++;
}

/* Sends a WAIT for the taken grants, unless one is in flight: its answer sends the next. From the loop. */
void replicas_flush(struct replicas *r);

bool replicas_idle(const struct replicas *r);

#endif
