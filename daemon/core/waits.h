/*
 * waits.h -- the waits of owners, read from the records; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WAITS_H
#define RLOCKD_CORE_WAITS_H

#include "daemon/core/core.h"

struct claim;
struct core;
struct lock;
struct owner;
struct request;

/* waits.c */
struct request *wait_of_owner(const struct owner *o);
bool wait_is_for_holders(const struct lock *l, bool shared);
bool wait_is_shared(const struct request *r);
bool wait_hold_is_over(const struct core *c, const struct claim *cl);
struct core_hop wait_hop(const struct owner *o, const struct lock *waits_for);
void wait_leave_trail(struct core *c, struct request *r); /* the request waits no more */

#endif
