/*
 * waiter_polls.h -- asks Redis for remote waiters of locks that stay here; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WAITER_POLLS_H
#define RLOCKD_CORE_WAITER_POLLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/core.h"
#include "daemon/core/times.h"

struct lock;

/* The poll for remote waiters of locks that stay here, see waiter_polls.c. */
struct waiter_poll {
    struct timer timer; /* the next poll; or the time limit of the one in flight */
    struct list todo;   /* queue.waiter_poll_node: to be asked about in this pass, the first one next ... */
    struct list seen;   /* ... and in the next one */
    uint64_t op;        /* in flight; 0 = none */
    uint64_t claim[CORE_WAITER_POLL_MAX]; /* ids of claims: the poll asks about their locks */
    size_t n;
    int64_t sent_us;    /* when the last poll was sent */
    uint64_t grants;    /* grants made here before the last poll */
};

/* waiter_polls.c */
void waiter_poll_join(struct core *c, struct lock *l); /* the lock stays here: Redis is asked for remote waiters */
void waiter_poll_timer(struct core *c);
void waiter_poll_done(struct core *c, const struct core_waiters_polled *d);
void waiter_poll_found(struct core *c, struct lock *l); /* a remote waiter is known */

#endif
