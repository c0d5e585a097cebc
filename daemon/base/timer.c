/*
 * timer.c -- timers as nodes of a heap.
 */
#include "daemon/base/timer.h"

void
timer_init(struct timer *t, int kind)
{
    t->node.what = kind;
    t->node.pos = 0;
}

void
timer_fini(struct heap *due, struct timer *t)
{
    heap_remove(due, &t->node);
}

void
timer_set(struct heap *due, struct timer *t, int64_t at_us)
{
    if (at_us == INT64_MAX) {
        heap_remove(due, &t->node);
    } else if (t->node.pos == 0 || heap_at(due, &t->node) != at_us) {
        heap_set(due, &t->node, at_us);
    }
}
