/*
 * breaks.c -- BREAK: a name is taken from its holders, here and at other daemons; scripts wake the remote waiters.
 *
 * B1  One BREAK of a name is in flight at a time; its outcome answers all BREAKs that came until then.
 * B2  Once Redis has broken the name, the queue's job takes it from the holders here, in slices; a holder that the job
 *     has not reached yet counts as broken (claim_is_broken()). Later holders have later tokens, and are behind the
 *     broken ones in lock.holders. A quorum releases the keys of broken holders, because nodes that the BREAK did not
 *     reach may have them until the leases end.
 * B3  The other daemons receive a broadcast, and ask Redis whether their holds are still there; this daemon asks too
 *     when the outcome is UNKNOWN.
 */
#include "daemon/core/act.h"
#include "daemon/core/broadcast.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/locks.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"

void
break_begin(struct core *c, struct request *r)
{
    struct lock *l = r->lock;
    struct core_action a = {.type = CORE_BREAK_KEY};

    op_release_cached(c, l);
    list_push_back(&l->queue->breaks, &r->claim_node);
    timer_set(&c->timers, &r->timer, after_us(c->now_us, 2 * c->conf.op_timeout_us));
    if (l->queue->break_op != 0) {
        return; /* the outcome of the BREAK in flight answers this one, too */
    }
    l->queue->break_op = ++c->serial;
    /* A BREAK has no claim: `claim` is the id of the queue. The outcome repeats it, and operation_done() finds it. */
    a.op = (struct core_op){.op = l->queue->break_op,
                            .queue = lock_queue_id(l),
                            .claim = lock_queue_id(l),
                            .key = lock_key(l),
                            .kind = l->kind,
                            .value = l->value,
                            .declared = l->declared || l->held_n > 0,
                            .wakes = l->wakes,
                            .token_floor = c->token_max};
    core_act(c, &a);
}

/*
 * A grant may be on its way to a claim here while the name is broken, here or elsewhere, and its answer may come later
 * than that of the BREAK (replicas or nodes of a quorum delay it), or than the broadcast. So the claim asks again, and
 * finds out whether Redis still has it. An OK uses a ticket up: of kinds with tickets a grant is given back, and only
 * if its token is smaller than that of the BREAK (0 = not known). See acquire_ok().
 */
static void
mark_attempts(struct lock *l, uint64_t token)
{
    uint32_t trying = l->queue->trying_n; /* the walk ends behind the last of them */
    struct list *pos, *nxt;

    if (trying > 0 && token > l->queue->broken_token) {
        l->queue->broken_token = token;
    }
    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (trying == 0) {
            break;
        }
        trying -= cl->state == CLAIM_TRYING;
        uncertain_set_broken(cl, true); /* a claim that is not TRYING loses the mark with its next attempt */
    }
}

/*
 * The lock was broken, or may be: other owners may have later tokens, so the reserve ends, and a hold here may be gone.
 */
void
break_suspect(struct core *c, struct lock *l, uint64_t token)
{
    lock_end_reserve(l);
    mark_attempts(l, token);
    review_suspect(c, l);
}

void
break_done(struct core *c, struct lock *l, const struct core_done *d)
{
    bool ok = d->outcome == CORE_OK;
    bool denied = d->outcome == CORE_DENIED || d->denied;
    enum core_answer answer = ok                             ? CORE_LEFT
                              : d->outcome == CORE_FOREIGN ? CORE_WRONG_KIND
                              : denied                     ? CORE_FORBIDDEN
                                                           : CORE_UNAVAILABLE;

    l->queue->break_op = 0;
    if (ok) {
        /* no token: a grace period, so there are no later grants */
        l->queue->broken_token = d->token != 0 ? d->token : c->token_max + 1;
        l->queue->broken_remains = d->remains;
        mark_attempts(l, l->queue->broken_token);
        job_begin(c, &l->queue->break_job);
    }
    /* Other daemons verify their holds now, not with the next renewal. */
    if (ok || d->outcome == CORE_UNKNOWN) { /* also if there was nothing to break: an earlier BREAK may have run late */
        broadcast_lock(c, BROADCAST_BROKEN, l, ok ? d->token : 0);
    }
    if (d->outcome == CORE_UNKNOWN) {
        break_suspect(c, l, 0);
    }
    while (!list_empty(&l->queue->breaks)) {
        /* expiry_ms: of a BREAK, whether there was a key */
        request_finish(c, container_of(l->queue->breaks.next, struct request, claim_node), answer, d->expiry_ms);
    }
    l->queue->retry_us = ok ? 0 : l->queue->retry_us; /* the name is free in Redis: waiters here ask at once */
    dirty_mark_lock(c, l);
}

/*
 * The next holder from before the BREAK loses the lock; such holders are in front of those that were granted it later.
 */
bool
break_next(struct core *c, struct lock *l)
{
    struct claim *cl = claim_first(&l->holders, CLAIM_IN(HELD));

    if (cl != NULL && cl->token < l->queue->broken_token) {
        end_by_loss(c, cl, "broken", !l->queue->broken_remains);
        return true;
    }
    job_end(&l->queue->break_job);
    dirty_mark_lock(c, l);
    return false;
}
