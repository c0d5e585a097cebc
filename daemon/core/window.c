/*
 * window.c -- operations in flight, each sort within its bound, and which claim is next.
 *
 * Renewals, releases and the reclaims of a grace period come by the hundred thousand: leases that were taken together,
 * a session that ends with all it held, a Redis that has lost its data. If all were sent at once, the last ones would
 * be given up unanswered, be sent again on top of that, and the link would be dropped for its silence. So no more are
 * in flight than Redis answers in time; the other claims wait for their turn: the lease that ends first goes first, so
 * that a short one outlives any number of long ones; releases go in order of arrival.
 *
 * Each sort has a window of its own, so that none holds up another: a renewal never waits for releases. Releases that
 * no request waits for have the smallest window, so that operations beside them are answered soon.
 */
#include "daemon/core/window.h"

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

uint32_t
window_size(const struct core *c, enum window_sort sort)
{
    int64_t n = earlier(c->conf.op_timeout_us / WINDOW_US, WINDOW_MAX);

    if (c->conf.window != 0) {
        return c->conf.window;
    }
    return (uint32_t)later(sort == WINDOW_BACKGROUND ? n / WINDOW_BACKGROUND_PART : n, RENEW_EARLY_MAX);
}

bool
window_has_room(const struct core *c, enum window_sort sort)
{
    return c->window[sort].n < window_size(c, sort);
}

/* The claim with the smallest time is next: about the end of its hold or ticket; of a release, its arrival. */
static int64_t
window_order_us(const struct core *c, const struct claim *cl)
{
    switch (cl->state) {
    case CLAIM_HELD:
        return cl->hold.deadline_us;
    case CLAIM_QUEUED:
        return after_us(cl->renew_us, cl->queued.ticket_life_us / 3 * 2); /* about then its ticket ends */
    default:
        return c->now_us;
    }
}

void
window_join(struct core *c, struct claim *cl, enum window_sort sort)
{
    struct heap *waiting = &c->window[sort].waiting;

    cl->awaits_window = true;
    c->awaiting_window_n++;
    cl->window_node = (struct heap_node){.what = sort};
    heap_set(waiting, &cl->window_node, window_order_us(c, cl));
}

/*
 * While a renewal is in flight the claim does not wait for a turn: the outcome of the renewal asks again, see
 * renew_done() and held_next_us().
 */
bool
window_may_send(struct core *c, struct claim *cl, enum window_sort sort)
{
    if (window_has_room(c, sort)) {
        window_leave(c, cl);
        return true;
    }
    if (!claim_renewal_pending(cl)) {
        window_join(c, cl, sort);
    }
    return false;
}

void
window_remove(struct core *c, struct claim *cl)
{
    cl->awaits_window = false;
    c->awaiting_window_n--;
    heap_remove(&c->window[cl->window_node.what].waiting, &cl->window_node);
}

void
window_reorder(struct core *c, struct claim *cl)
{
    struct heap *waiting = cl->awaits_window ? &c->window[cl->window_node.what].waiting : NULL;

    if (waiting != NULL && heap_at(waiting, &cl->window_node) != window_order_us(c, cl)) {
        heap_set(waiting, &cl->window_node, window_order_us(c, cl));
    }
}

enum window_sort
window_release_sort(const struct claim *cl, const struct request *r)
{
    bool wanted = cl->lock->queue->waiting_n > 0 || cl->lock->remote_waiters || !list_empty(&cl->requests);

    return r != NULL || wanted ? WINDOW_UNLOCK : WINDOW_BACKGROUND;
}

static bool
may_send_from(const struct core *c, enum window_sort sort)
{
    return heap_min(&c->window[sort].waiting) != NULL && window_has_room(c, sort);
}

bool
windows_find_room(const struct core *c)
{
    for (int i = 0; i < WINDOWS; i++) {
        if (may_send_from(c, (enum window_sort)i)) {
            return true;
        }
    }
    return false;
}

void
windows_fini(struct core *c)
{
    for (int i = 0; i < WINDOWS; i++) {
        heap_fini(&c->window[i].waiting);
    }
}
