/*
 * waits.c -- the waits of owners, read from the records.
 */
#include "daemon/core/waits.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/* The request by which the owner waits: its running LOCK, if that is in a queue and its time is not over. */
struct request *
deadlock_wait_of(const struct owner *o)
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

/* A waiter for the name waits at least for its holders here: all permits are out, or the hold is not shared. */
bool
deadlock_waits_for_holders(const struct lock *l, bool shared)
{
    if (l->held_n < lock_holders_max(l)) {
        return false;
    }
    return !shared || container_of(l->holders.next, struct claim, node)->holds > 0;
}

/*
 * HELD, but the lease has ended, or the name was broken, and only the report is still to come: no wait leads to the
 * claim.
 */
bool
deadlock_hold_is_over(const struct core *c, const struct claim *cl)
{
    return !claim_is_held(cl, c->now_us);
}

struct core_hop
deadlock_hop(const struct owner *o, const struct lock *waits_for)
{
    return (struct core_hop){
        .owner = o->id, .owner_name = {o->name, o->name_n}, .name = lock_name(waits_for)};
}

void
trail_forget(struct core *c, struct request *r)
{
    if (r->in_trail) {
        map_remove(&c->trail_waits, &r->by_wait);
        r->in_trail = false;
    }
}
