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
/* Hands the lock to the next waiter; caches it for the next request. False: nothing was done. */
bool claim_hand_over(struct core *c, struct claim *cl, struct request *r);
bool claim_cache(struct core *c, struct claim *cl, struct request *r);
/* CACHED: grants the claim to r, of its last owner; to the next waiter. False, NULL: the claim is being released. */
bool claim_reuse_cached(struct core *c, struct claim *cl, struct request *r);
struct claim *lock_reuse_cached(struct core *c, struct lock *l);

#endif
