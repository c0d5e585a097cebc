/*
 * waiter_poll_record.h -- the poll for remote waiters of locks that stay here (waiter_polls.c); private to
 * daemon/core.
 */
#ifndef RLOCKD_CORE_WAITER_POLL_RECORD_H
#define RLOCKD_CORE_WAITER_POLL_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/timer.h"
#include "daemon/core/events.h"

struct waiter_poll {
    struct timer timer; /* the next poll; or the time limit of the one in flight */
    struct list todo;   /* queue.waiter_poll_node: what this pass has still to look at, from the front ... */
    struct list seen;   /* ... and what it has looked at, with which the next pass begins */
    uint64_t op;        /* in flight; 0 = none */
    uint64_t claim[CORE_WAITER_POLL_MAX]; /* ids of claims: the poll asks about their locks */
    size_t n;
    int64_t sent_us;    /* when the last poll was sent */
    uint64_t stays_n;   /* count_stays() of waiter_polls.c when the last poll was sent */
};

#endif
