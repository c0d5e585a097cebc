/*
 * shim.h -- the page by which a test tells the shim which call is to fail, and hears what was called.
 *
 * All numbers count from the mark: the driver zeroes `calls` and `injected`, then sets `family`. run.py has the
 * same layout (class Page).
 */
#ifndef RLOCKD_TESTS_FAULTS_SHIM_H
#define RLOCKD_TESTS_FAULTS_SHIM_H

#include <stdint.h>

enum family {
    NOTHING,
    ALLOC,
    READ,   /* read, readv, recv */
    WRITE,  /* write, writev, send, sendmsg; not to 0..2, where the log goes */
    ACCEPT,
    CONNECT,
    EPOLL_CTL, /* ADD alone: nothing else can fail on a descriptor that is good */
    EPOLL_WAIT,
    SOCKET,
    SETSOCKOPT,
    GETRANDOM,
    OPEN,
    EVENTFD, /* eventfd, timerfd_create, epoll_create1, pipe2, socketpair */
    FAMILIES
};

enum { FRAMES = 16, CALLS_MAX = 1 << 16 };

struct page {
    uint64_t family;          /* which one fails; NOTHING = none */
    uint64_t first, length;   /* its calls first .. first + length - 1 */
    uint64_t error;           /* errno; memory has its own */
    uint64_t injected;        /* how often it did */
    int64_t alive;            /* blocks out */
    uint64_t record;          /* 1 = note who calls */
    uint64_t frames_n;        /* of the first one that failed */
    uint64_t frame[FRAMES];   /* ... as addresses in the program, 0 = of a library */
    uint64_t calls[FAMILIES];
    uint32_t stack[CALLS_MAX]; /* record: a hash of who called for the n-th time, of the family `record` says */
    uint32_t site[CALLS_MAX];  /* ... and the innermost address of the program itself */
};

extern struct page *faults; /* for a test that has the shim linked in */

#endif
