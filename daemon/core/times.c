/*
 * times.c -- deadlines, leases and pauses.
 */
#include "daemon/core/times.h"

#include "daemon/core/bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/state.h"

int64_t
core_deadline_us(int64_t sent_us, int64_t lease_us)
{
    return after_us(sent_us, lease_us - lease_us / 100 - 2 * US_PER_MS);
}

/* The inverse of core_deadline_us(). */
int64_t
core_lease_us(int64_t left_us)
{
    int64_t us = left_us + 2 * US_PER_MS;

    return us + us / 99;
}

int64_t
backoff_us(unsigned failed_n)
{
    return failed_n < BACKOFF_TIMES ? BACKOFF_MIN_US << (failed_n - 1) : BACKOFF_MAX_US;
}
