/*
 * clock.h -- the time; only clock.c asks the kernel for it.
 *
 * Everything about leases uses clock_now_us(): CLOCK_BOOTTIME, which counts suspend and is never stepped. Wall time is
 * for people only: in MONITOR, and for the days that a certificate has left.
 */
#ifndef RLOCKD_BASE_CLOCK_H
#define RLOCKD_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define US_PER_MS INT64_C(1000)
#define US_PER_S INT64_C(1000000)

/* Microseconds of CLOCK_BOOTTIME. */
int64_t clock_now_us(void);

/* Microseconds of CLOCK_REALTIME; for MONITOR and certificates, never for a decision about a lock. */
int64_t clock_wall_us(void);

#ifdef RLOCKD_TEST_CLOCK
/* Test builds only: from now on both clocks run `us` ahead (DEBUG ADVANCE). */
void clock_advance_us(int64_t us);

/* Test builds only: stops both clocks, except for clock_advance_us(), or lets them run again. */
void clock_stop(bool stop);
#endif

#endif
