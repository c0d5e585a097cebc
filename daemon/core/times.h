/*
 * times.h -- kinds of timers, pauses, and sums and comparisons of times; private to daemon/core.
 */
#ifndef RLOCKD_CORE_TIMES_H
#define RLOCKD_CORE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/base/timer.h"

enum timer_kind { TIMER_REQUEST, TIMER_CLAIM, TIMER_QUEUE, TIMER_OWNER, TIMER_WAITER_POLL };

int64_t backoff_us(unsigned failed_n); /* the pause after so many failures in a row: 1..BACKOFF_TIMES */

/* The sum; CORE_FOREVER if it overflows. */
static inline int64_t
after_us(int64_t now_us, int64_t delay_us)
{
    return delay_us >= INT64_MAX - now_us ? INT64_MAX : now_us + delay_us;
}

static inline int64_t
earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static inline int64_t
later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* The time, but at least 0 and at most most_us, which fits 32 bits. */
static inline uint32_t
clamp_us(int64_t us, int64_t most_us)
{
    return (uint32_t)earlier(later(us, 0), most_us);
}

#endif
