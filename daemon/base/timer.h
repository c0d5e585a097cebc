/*
 * timer.h -- deadlines of records in a heap. They cause no event: the owner of the heap asks for the earliest one.
 */
#ifndef RLOCKD_BASE_TIMER_H
#define RLOCKD_BASE_TIMER_H

#include "daemon/base/heap.h"

struct timer {
    struct heap_node node; /* node.what: the kind of the timer, defined by the heap's owner */
};

/* The timer is not armed. */
void timer_init(struct timer *t, int kind);

/* Disarms the timer. */
void timer_fini(struct heap *due, struct timer *t);

/* Arms or moves the timer; INT64_MAX disarms it. */
void timer_set(struct heap *due, struct timer *t, int64_t at_us);

#endif
