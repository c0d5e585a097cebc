/*
 * waiter_polls.h -- asks Redis for remote waiters of locks that stay here; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WAITER_POLLS_H
#define RLOCKD_CORE_WAITER_POLLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/core.h"

struct lock;

/* waiter_polls.c */
void waiter_poll_join(struct core *c, struct lock *l); /* the lock stays here: Redis is asked for remote waiters */
void waiter_poll_timer(struct core *c);
void waiter_poll_done(struct core *c, const struct core_waiters_polled *d);
void waiter_poll_found(struct core *c, struct lock *l); /* a remote waiter is known */

#endif
