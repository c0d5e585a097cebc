/*
 * window.h -- operations in flight, each sort within its bound; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WINDOW_H
#define RLOCKD_CORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/heap.h"
#include "daemon/core/claim.h"

struct core;
struct lock;
struct request;

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
    struct heap waiting; /* claim.window_node: the lease that ends first is first; releases in order of arrival */
};

/* window.c */
uint32_t window_size(const struct core *c, enum window_sort sort);
bool window_may_send(struct core *c, struct claim *cl, enum window_sort sort); /* false: it waits for its turn now */
void window_join(struct core *c, struct claim *cl, enum window_sort sort); /* it waits for its turn from now on */
void window_remove(struct core *c, struct claim *cl); /* removes a claim that waits */
void window_update_turn(struct core *c, struct claim *cl); /* its deadline may have changed: so has its turn, if it
                                                              waits */
enum window_sort window_release_sort(const struct claim *cl, const struct request *r);
bool windows_have_room(const struct core *c);             /* some window has room for a claim that waits for its turn */
void windows_fini(struct core *c);                        /* no claim is left */
bool window_has_room(const struct core *c, enum window_sort sort);

/* The claim waits in no window any more. */
static inline void
window_leave(struct core *c, struct claim *cl)
{
    if (cl->in_window) {
        window_remove(c, cl);
    }
}

#endif
