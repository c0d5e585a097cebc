/*
 * request_drop.c -- frees the record of a request and takes its counts back; sends replies.
 */
#include <assert.h>

#include "daemon/core/act.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/waits.h"

void
request_reply(struct core *c, const struct core_reply *rp)
{
    struct core_action a; /* only the member of the union that `type` names is set */

    a.type = CORE_REPLY;
    a.reply = *rp;
    c->metrics->timeouts += rp->answer == CORE_NOT_GRANTED;
    c->metrics->cancelled += rp->answer == CORE_CANCELLED;
    c->metrics->unavailable += rp->answer == CORE_UNAVAILABLE || rp->answer == CORE_REDIS_FULL;
    c->metrics->limited += rp->answer == CORE_TOO_MANY_WAITERS || rp->answer == CORE_TOO_MANY_LOCKS ||
                           rp->answer == CORE_LOCKS_FULL || rp->answer == CORE_TOO_MANY_OWNERS ||
                           rp->answer == CORE_TOO_MANY_REQUESTS;
    core_act(c, &a);
}

/*
 * When a request ends, a repetition (ONCE) that joined it replaces it in owner.fifo, if there is one: the wait of the
 * owner goes on. So nothing begins behind the wait before all of it is over (order.c, O1), and the fifo of an owner
 * that waits is never empty.
 */
static void
order_inherit(struct request *r)
{
    struct request *next = container_of(r->claim->requests.next, struct request, claim_node);

    if (r->waiting && !list_empty(&r->claim->requests) && next->waiting && !list_linked(&next->fifo_node)) {
        list_insert_before(&r->fifo_node, &next->fifo_node);
    }
}

/* The request waits no longer, and those behind it may go on. */
void
request_stop_waiting(struct core *c, struct request *r)
{
    if (r->claim != NULL && claim_op_request(r->claim) == r) {
        r->claim->op_for_request = false;
    }
    list_remove(&r->claim_node);
    list_remove(&r->timing_out_node);
    list_remove(&r->search_node);
    list_remove(&r->old_wait_node);
    wait_leave_trail(c, r);
    timer_set(&c->timers, &r->timer, CORE_FOREVER);
    if (list_linked(&r->fifo_node)) {
        order_inherit(r);
        list_remove(&r->fifo_node);
        r->owner->non_locks_n -= r->verb != CORE_LOCK;
        dirty_mark_owner(c, r->owner);
    }
    if (r->waiting) {
        r->waiting = false;
        r->claim->lock->queue->waiting_n--;
        r->claim->lock->queue->blocking_n -= r->blocking;
        dirty_mark_lock(c, r->claim->lock);
        c->waiting_n--;
        r->session->blocking_n -= r->blocking;
        user_count_blocking(r->session, -(int)r->blocking);
        c->blocking_n -= r->blocking;
    }
}

/* Ends the request without a reply: takes it off every list, frees it, and marks owner and lock dirty. */
void
request_drop(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    bool attached = list_linked(&r->claim_node);

    list_remove(&r->session_node);
    request_stop_waiting(c, r);
    timer_fini(&c->timers, &r->timer);
    if (cl != NULL) {
        claim_refer(c, cl, -1);
        if (attached && list_empty(&cl->requests) && (cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING)) {
            position_abandoned(c, cl, r->cancelled);
        }
        dirty_mark_lock(c, cl->lock);
    } else {
        dirty_mark_lock(c, r->lock);
    }
    freelist_give(&c->freelist, r, sizeof(*r));
}
