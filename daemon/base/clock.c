/*
 * clock.c -- the only file that asks the kernel for the time.
 *
 * Test builds may push both clocks ahead; the offset is the one variable of the program that outlives
 * its callers, and it is not in a release build.
 */
#include "daemon/base/clock.h"

#include <assert.h>
#include <time.h>

#ifdef RLOCKD_TEST_CLOCK
static int64_t advanced_us;

void
clock_advance_us(int64_t us)
{
    advanced_us += us;
}
#endif

static int64_t
read_us(clockid_t id)
{
    struct timespec ts;
    int rc = clock_gettime(id, &ts);
    int64_t us;

    assert(rc == 0); /* both clocks exist on every kernel we run on */
    us = (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
#ifdef RLOCKD_TEST_CLOCK
    us += advanced_us;
#endif
    return us;
}

int64_t
clock_now_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t
clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}
