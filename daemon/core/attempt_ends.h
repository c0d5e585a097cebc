/*
 * attempt_ends.h -- what an outcome means for the other waiters; private to daemon/core.
 */
#ifndef RLOCKD_CORE_ATTEMPT_ENDS_H
#define RLOCKD_CORE_ATTEMPT_ENDS_H

#include "daemon/core/events.h"

struct core;
struct lock;

void attempt_succeeded(struct lock *l);
void attempt_failed(struct core *c, struct lock *l, const struct core_done *d);
void attempt_after_release(struct core *c, struct lock *l, const struct core_done *d);

#endif
