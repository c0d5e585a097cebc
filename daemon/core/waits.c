/*
 * waits.c -- the waits of owners, read from the records.
 */
#include "daemon/core/waits.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/* The wait of the owner: its LOCK that has begun, if that is in a queue and its time is not over. NULL: none. */
struct request *
wait_of_owner(const struct owner *o)
{
    struct request *r;

    if (list_empty(&o->fifo)) {
        return NULL;
    }
    r = container_of(o->fifo.next, struct request, fifo_node);
    if (!r->started || !r->waits || r->timing_out) {
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
