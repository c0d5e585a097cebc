/*
 * window_record.h -- the windows of operations in flight, one for each sort; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WINDOW_RECORD_H
#define RLOCKD_CORE_WINDOW_RECORD_H

#include <stdint.h>

#include "daemon/base/heap.h"

/* Operations that come by the hundred thousand, each sort within a bound of its own: window.c. */
enum window_sort {
    WINDOW_RECLAIM, /* reclaims of holds that Redis may have lost */
    WINDOW_RENEW,   /* renewals of leases and tickets */
    WINDOW_UNLOCK,  /* releases that a request waits for: the UNLOCK itself, or a LOCK of the name, here or elsewhere */
    WINDOW_BACKGROUND, /* all others: what an ended session, a passed lease or a loss left in Redis */
    WINDOWS
};

struct window {
    uint32_t n;          /* in flight */
    struct heap waiting; /* claim.window_node; the end of a lease or ticket, or the arrival of a release, orders it */
};

#endif
