/*
 * timer.h -- deadlines of records in a heap: no event of a loop, the owner of the heap asks for the earliest.
 */
#ifndef RLOCKD_BASE_TIMER_H
#define RLOCKD_BASE_TIMER_H

#include "daemon/base/heap.h"

struct timer {
    struct heap_node node; /* node.what: the kind of the timer, its owner's */
};

/* Not armed. */
void timer_init(struct timer *t, int kind);

/* Takes it out of the heap, if it is there. */
void timer_fini(struct heap *due, struct timer *t);

/* Arms it, or moves it; INT64_MAX = off. */
void timer_set(struct heap *due, struct timer *t, int64_t at_us);

#endif
