/*
 * clock.c -- preloaded into a real redis-server: the time of day is a number in a file that the test has mapped.
 *
 * So the real and the simulated Redis run each command at the same microsecond, and the test can move the clock by
 * days. The monotonic clock, by which the event loop waits, stays as it is.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *now_us;

static void __attribute__((constructor))
map_clock(void)
{
    const char *path = getenv("RLOCKD_SIM_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*now_us), PROT_READ, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        _exit(99);
    }
    close(fd);
    now_us = p;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    int64_t us = *now_us;

    (void)zone;
    tv->tv_sec = (time_t)(us / 1000000);
    tv->tv_usec = (suseconds_t)(us % 1000000);
    return 0;
}

time_t
time(time_t *out)
{
    time_t s = (time_t)(*now_us / 1000000);

    if (out != NULL) {
        *out = s;
    }
    return s;
}
