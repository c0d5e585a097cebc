/*
 * jump.c -- preloaded: the wall clock of a program is ahead by the seconds in the file RLOCKD_TEST_JUMP, as after a
 * change of the clock; with RLOCKD_TEST_SLEPT it is CLOCK_BOOTTIME instead, as on a machine that was suspended so long.
 *
 * libfaketime does the same, but does not work with redis-server's allocator. CLOCK_MONOTONIC is left alone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *ahead_s;
static int slept;

__attribute__((constructor)) static void
map(void)
{
    const char *path = getenv("RLOCKD_TEST_JUMP");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *p = fd >= 0 ? mmap(NULL, sizeof(*ahead_s), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (p == MAP_FAILED) {
        abort();
    }
    close(fd);
    slept = getenv("RLOCKD_TEST_SLEPT") != NULL;
    ahead_s = p;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ts);
    int moved = slept ? id == CLOCK_BOOTTIME : id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;

    if (rc == 0 && moved && ahead_s != NULL) {
        ts->tv_sec += *ahead_s;
    }
    return rc;
}

int
gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec ts;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) {
        return -1;
    }
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t
time(time_t *out)
{
    struct timespec ts;

    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) {
        return -1;
    }
    if (out != NULL) {
        *out = ts.tv_sec;
    }
    return ts.tv_sec;
}
