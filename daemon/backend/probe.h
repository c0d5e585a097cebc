/*
 * probe.h -- asks Redis how many listen on the channels of some names: PUBSUB NUMSUB.
 */
#ifndef RLOCKD_BACKEND_PROBE_H
#define RLOCKD_BACKEND_PROBE_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

/* Embedded in its node, and outlives the node's links. */
struct prober {
    const struct backend_env *env;
    const struct link_address *address;
    struct buf channels; /* scratch */
    uint64_t op;         /* in flight, about so many names; 0 = none */
    size_t n;
    bool refused;        /* Redis does not let us: nothing is asked any more on this connection */
    bool told;           /* ... and the log knows */
};

/* Both are borrowed for its life. */
void probe_init(struct prober *p, const struct backend_env *env, const struct link_address *address);
void probe_fini(struct prober *p);

/* Ends in one PROBED, if Redis answers what it should; nothing happens when it cannot be sent. */
void probe_send(struct prober *p, struct redis_link *l, const struct core_probe *what);

/* The answer about n names: for each its channel, and a number. False: it is none. */
bool probe_read(const struct reply *r, size_t n, int64_t *subscribers);

#endif
