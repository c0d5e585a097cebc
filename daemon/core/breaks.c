/*
 * breaks.c -- BREAK: a name is taken from its holders, here and at other daemons.
 *
 * B1  One BREAK of a name is in flight, and answers for all that came until then.
 * B2  The holders of a name lose it by the queue's job, in slices, once Redis has broken it; until then
 *     claim_is_broken() says so. Holders that were granted it since have later tokens and stand behind them.
 * B3  The other daemons receive a broadcast, and ask Redis whether their holds are still there; this daemon asks too
 *     when the outcome is UNKNOWN.
 */
#include "daemon/core/broadcast.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/locks.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/reviews.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

void
lock_break(struct core *c, struct request *r)
{
    struct lock *l = r->lock;
    struct core_action a = {.type = CORE_BREAK_KEY};

    lock_release_cached(c, l);
    list_push_back(&l->queue->breaks, &r->claim_node);
    timer_set(&c->timers, &r->timer, after_us(c->now_us, 2 * c->conf.op_timeout_us));
    if (l->queue->break_op != 0) {
        return; /* the one in flight answers for this one too */
    }
    l->queue->break_op = ++c->serial;
    a.op = (struct core_op){.op = l->queue->break_op,
                            .lock = queue_id(l),
                            .claim = queue_id(l),
                            .key = lock_key(l),
                            .kind = l->kind,
                            .value = l->value,
                            .declared = l->declared || l->held_n > 0,
                            .wakes = l->wakes,
                            .token_floor = c->token_max};
    core_act(c, &a);
}

/*
 * The lock was broken, or may be: other owners may have later tokens, so the cohort is over, and a grant under way to a
 * claim here may be gone before its answer is read.
 */
void
lock_broken(struct core *c, struct lock *l)
{
    uint32_t trying = l->queue->trying_n; /* such claims are the first in the queue */
    struct list *pos, *nxt;

    lock_reserve_ends(l);
    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (trying == 0) {
            break;
        }
        trying -= cl->state == CLAIM_TRYING;
        /* an OK uses the ticket up, so no second attempt may follow */
        cl->uncertain.broken_since_sent = !policy(l)->tickets;
    }
    lock_suspect(c, l);
}

void
lock_break_done(struct core *c, struct lock *l, const struct core_done *d)
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
        job_begin(c, &l->queue->break_job);
    }
    /* Other daemons verify their holds now, not with the next renewal. */
    if (ok || d->outcome == CORE_UNKNOWN) { /* also if there was nothing to break: an earlier BREAK may have run late */
        broadcast_lock(c, BROADCAST_BROKEN, l);
    }
    if (d->outcome == CORE_UNKNOWN) {
        lock_broken(c, l);
    }
    while (!list_empty(&l->queue->breaks)) {
        request_finish(c, container_of(l->queue->breaks.next, struct request, claim_node), answer, d->expiry_ms);
    }
    l->queue->retry_us = ok ? 0 : l->queue->retry_us;
    lock_wake(c, l);
}

/*
 * The next holder from before the BREAK loses the lock; such holders are in front, because later ones came behind them.
 */
bool
lock_lose_next(struct core *c, struct lock *l)
{
    struct claim *cl = claim_first(&l->holders, CLAIM_IN(HELD));

    if (cl != NULL && cl->token < l->queue->broken_token) {
        claim_lose(c, cl, "broken", true);
        return true;
    }
    job_end(&l->queue->break_job);
    lock_wake(c, l);
    return false;
}
