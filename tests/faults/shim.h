/*
 * shim.h -- the page by which a test orders the call that fails, and reads which calls were made.
 *
 * All numbers count from the mark: the driver zeroes `calls` and `injected`, then sets `family`. run.py has the same
 * layout (class Page).
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
    EPOLL_CTL, /* ADD alone: other operations cannot fail on a good descriptor */
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
    uint64_t family;          /* the family that fails; NOTHING = none */
    uint64_t first, length;   /* its calls first .. first + length - 1 */
    uint64_t error;           /* errno; memory has its own */
    uint64_t injected;        /* how often a call failed */
    int64_t alive;            /* allocated blocks */
    uint64_t record;          /* 1 = note the callers */
    uint64_t frames_n;        /* of the first call that failed */
    uint64_t frame[FRAMES];   /* ... as addresses in the program, 0 = of a library */
    uint64_t calls[FAMILIES];
    uint32_t stack[CALLS_MAX]; /* record: a hash of the callers of the n-th call, of the family in `record` */
    uint32_t site[CALLS_MAX];  /* ... and the innermost address of the program itself */
};

extern struct page *faults; /* for a test that is linked with the shim */

#endif
