/*
 * clock.c -- the only file that asks the kernel for the time.
 *
 * Test builds can advance both clocks, and stop them, by static variables: no other static variable of the program
 * changes, and a release build does not have these.
 */
#include "daemon/base/clock.h"

#include <assert.h>
#include <time.h>

static int64_t
read_us(clockid_t id)
{
    struct timespec ts;
    int rc = clock_gettime(id, &ts);

    assert(rc == 0); /* both clocks exist on every kernel we run on */
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

/* The time by which leases run: unlike CLOCK_MONOTONIC, CLOCK_BOOTTIME goes on while the machine sleeps. */
static int64_t
boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

#ifdef RLOCKD_TEST_CLOCK
static int64_t advanced_us, stopped_us, stopped_wall_us; /* stopped: the time of clock_stop(); 0 = the clocks run */

void
clock_advance_us(int64_t us)
{
    advanced_us += us;
}

void
clock_stop(bool stop)
{
    stopped_us = stop ? boot_us() : 0;
    stopped_wall_us = stop ? read_us(CLOCK_REALTIME) : 0;
}

int64_t
clock_now_us(void)
{
    return (stopped_us != 0 ? stopped_us : boot_us()) + advanced_us;
}

int64_t
clock_wall_us(void)
{
    return (stopped_wall_us != 0 ? stopped_wall_us : read_us(CLOCK_REALTIME)) + advanced_us;
}
#else
int64_t
clock_now_us(void)
{
    return boot_us();
}

int64_t
clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}
#endif
