/*
 * handoff.h -- a lock that passes from owner to owner here, or is cached for the next one; private to daemon/core.
 */
#ifndef RLOCKD_CORE_HANDOFF_H
#define RLOCKD_CORE_HANDOFF_H

#include <stdbool.h>

#include "daemon/core/claim.h"
#include "daemon/core/core.h"

struct core;
struct lock;
struct request;

/* handoff.c */
/* Hands the lock to the next waiter. False: nothing was done. */
bool handoff_to_next(struct core *c, struct claim *cl, struct request *r);
/* Caches the lock for the next request. False: nothing was done. */
bool handoff_cache(struct core *c, struct claim *cl, struct request *r);
/* CACHED, and r is of its last owner: grants the claim to r. False: it is being released. */
bool handoff_reuse(struct core *c, struct claim *cl, struct request *r);
/* CACHED: grants the claim to the next waiter, and returns it. NULL: it is being released. */
struct claim *handoff_from_cache(struct core *c, struct lock *l);

#endif
