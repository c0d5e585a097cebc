/*
 * times.c -- timers of records, and sums of times.
 */
#include "daemon/core/times.h"

#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/state.h"

int64_t
core_deadline_us(int64_t sent_us, int64_t lease_us)
{
    return after_us(sent_us, lease_us - lease_us / 100 - 2 * US_PER_MS);
}

/* The other way round. */
int64_t
core_lease_us(int64_t left_us)
{
    int64_t us = left_us + 2 * US_PER_MS;

    return us + us / 99;
}

int64_t
after_us(int64_t now_us, int64_t delay_us)
{
    return delay_us >= CORE_FOREVER - now_us ? CORE_FOREVER : now_us + delay_us;
}

int64_t
backoff_us(unsigned failed_n)
{
    return failed_n < BACKOFF_TIMES ? BACKOFF_MIN_US << (failed_n - 1) : BACKOFF_MAX_US;
}

void
timer_init(struct timer *t, enum timer_kind kind)
{
    t->node.what = kind;
    t->node.pos = 0;
}

void
timer_fini(struct core *c, struct timer *t)
{
    heap_remove(&c->timers, &t->node);
}

void
timer_set(struct core *c, struct timer *t, int64_t at_us)
{
    if (at_us == CORE_FOREVER) {
        if (t->node.pos != 0) {
            heap_remove(&c->timers, &t->node);
        }
    } else if (t->node.pos == 0 || heap_at(&c->timers, &t->node) != at_us) {
        heap_set(&c->timers, &t->node, at_us);
    }
}
