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
/* To the next waiter; for the next request. False: nothing was done. */
bool claim_hand_over(struct core *c, struct claim *cl, struct request *r);
bool claim_linger(struct core *c, struct claim *cl, struct request *r);
bool claim_take_up(struct core *c, struct claim *cl, struct request *r); /* CACHED: by r, of its own owner; false: it
                                                                             is being released */
struct claim *lock_take_up(struct core *c, struct lock *l); /* by the next waiter; NULL: it is being released */

#endif
