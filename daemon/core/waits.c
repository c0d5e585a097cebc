/*
 * waits.c -- the waits of owners, read from the records.
 */
#include "daemon/core/waits.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/queue.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

enum { AHEAD_MAX = 16 }; /* claims at the front of a queue that are looked at, at most */

/* The wait of the owner: its LOCK that has begun, if that is in a queue and its time is not over. NULL: none. */
struct request *
wait_of_owner(const struct owner *o)
{
    struct request *r;

    if (list_empty(&o->fifo)) {
        return NULL;
    }
    r = container_of(o->fifo.next, struct request, fifo_node);
    if (!r->started || !r->waiting || r->timing_out) {
        return NULL;
    }
    return r->claim->state == CLAIM_QUEUED || r->claim->state == CLAIM_TRYING ? r : NULL;
}

/* Whether a waiter has to wait for the holders here: there is no room, and the waiter or the holder is exclusive. */
bool
wait_is_for_holders(const struct lock *l, bool shared)
{
    if (l->held_n < lock_holders_max(l)) {
        return false;
    }
    return !shared || container_of(l->holders.next, struct claim, node)->holds > 0;
}

/* The first claim in the queue that has requests, if positions that are kept without one are few; else NULL. */
static const struct claim *
first_waiting(const struct queue *q)
{
    struct list *pos = q->claims.next;

    for (int n = 0; n < AHEAD_MAX && pos != &q->claims; n++, pos = pos->next) {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (!list_empty(&cl->requests)) {
            return cl;
        }
    }
    return NULL;
}

/*
 * Whether the LOCK, which is in the queue or about to join it, does not wait for readers: it is shared, and no writer
 * is first in the queue. Behind a writer it waits for all that the writer waits for.
 */
bool
wait_is_shared(const struct request *r)
{
    const struct claim *cl = r->claim, *first = r->shared ? first_waiting(cl->lock->queue) : NULL;
    const struct request *waits = first != NULL ? container_of(first->requests.next, struct request, claim_node) : NULL;
    bool queued = (CLAIM_IN_QUEUE & (1u << cl->state)) != 0;

    if (waits == NULL || first == cl || waits->shared || waits->timing_out) {
        return r->shared;
    }
    return queued && cl->queued.position < first->queued.position;
}

/*
 * The claim is HELD, but its lease has ended, or its name was broken, and only the loss is still to be published: no
 * wait leads to it.
 */
bool
wait_hold_is_over(const struct core *c, const struct claim *cl)
{
    return !claim_is_held(cl, c->now_us);
}

struct core_hop
wait_hop(const struct owner *o, const struct lock *waits_for)
{
    return (struct core_hop){
        .owner = o->id, .owner_name = {o->name, o->name_n}, .name = lock_name(waits_for)};
}

void
wait_leave_trail(struct core *c, struct request *r)
{
    if (r->in_trail) {
        map_remove(&c->trail_waits, &r->by_wait);
        r->in_trail = false;
    }
}
