/*
 * refusals.h -- requests that wait for a lock, and are refused; private to daemon/core.
 */
#ifndef RLOCKD_CORE_REFUSALS_H
#define RLOCKD_CORE_REFUSALS_H

#include <stdint.h>

#include "daemon/core/answers.h"

struct claim;
struct core;
struct lock;

enum { REFUSED_MAX = 512 }; /* requests refused at a time; Redis is asked anew for those behind them */

/* answers the first `most` requests that wait for the lock; holders are not concerned */
void refusal_of_waiters(struct core *c, struct lock *l, enum core_answer answer, uint32_t most);
void refusal_by_drain(struct core *c, struct claim *cl); /* answers the first request that waits in the claim */

#endif
