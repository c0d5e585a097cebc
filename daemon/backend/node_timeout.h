/*
 * node_timeout.h -- whether a master of a cluster stops soon enough when it is cut off: its cluster-node-timeout.
 *
 * A master that is cut off, and has not learned of its successor, goes on granting and renewing until its own node
 * timeout ends its writes. The rules of generations.h allow for at most half of the longest lease until then.
 */
#ifndef RLOCKD_BACKEND_NODE_TIMEOUT_H
#define RLOCKD_BACKEND_NODE_TIMEOUT_H

#include "daemon/backend/link.h"
#include "daemon/backend/shard.h"

/* Embedded in its master; outlives the links. */
struct node_timeout {
    int64_t asked_us; /* when the last CONFIG GET left */
    int64_t us;       /* the node timeout; -1 = not known */
    bool refused;     /* the ACL forbids CONFIG GET */
    bool logged;      /* the log has the warning about `why_unbounded` */
    char why_unbounded[128];  /* why the timeout is no bound; "" = it is one, or it was not compared yet */
};

void node_timeout_init(struct node_timeout *t);

/* A link is greeting: requests the timeout. The link is not up before the answer. */
void node_timeout_greet(struct node_timeout *t, struct redis_link *l);

/* Requests the timeout again when the answer is old. */
void node_timeout_tick(struct node_timeout *t, struct shard *sh);

/* Whether a master with that timeout stops in time for leases of that length; logs changes, with its address. */
bool node_timeout_bounded(struct node_timeout *t, int64_t lease_us, const struct log *log,
                          const char *address);

/* The answer to CONFIG GET. */
void node_timeout_take(struct node_timeout *t, const struct reply *reply);

#endif
