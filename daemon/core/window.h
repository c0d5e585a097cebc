/*
 * window.h -- operations in flight, each sort within its bound; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WINDOW_H
#define RLOCKD_CORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/claim.h"
#include "daemon/core/state.h"
#include "daemon/core/window_record.h"

struct lock;
struct request;

/* window.c */
uint32_t window_size(const struct core *c, enum window_sort sort);
/* false: it waits for its turn now; or, with a renewal in flight, for the outcome of that */
bool window_may_send(struct core *c, struct claim *cl, enum window_sort sort);
void window_join(struct core *c, struct claim *cl, enum window_sort sort); /* it waits for its turn from now on */
void window_remove(struct core *c, struct claim *cl); /* removes a claim that waits */
/* the deadline may have changed: a claim that waits gets the turn of its present deadline */
void window_reorder(struct core *c, struct claim *cl);
enum window_sort window_release_sort(const struct claim *cl, const struct request *r);
bool windows_find_room(const struct core *c);             /* see windows_may_send() */
void windows_fini(struct core *c);                        /* no claim is left */
bool window_has_room(const struct core *c, enum window_sort sort);

/* The claim waits in no window any more. */
static inline void
window_leave(struct core *c, struct claim *cl)
{
    if (cl->awaits_window) {
        window_remove(c, cl);
    }
}

/* A claim that waits for its turn in a window may send now. */
static inline bool
windows_may_send(const struct core *c)
{
    return c->awaiting_window_n > 0 && windows_find_room(c);
}

#endif
