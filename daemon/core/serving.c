/*
 * serving.c -- serves the requests about a claim that is held: one operation at a time, in the order of arrival.
 */
#include "daemon/core/locks.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"

/* Serves an UNLOCK: exclusive holds come first, unless the request is SHARED. */
static void
serve_unlock(struct core *c, struct claim *cl, struct request *r)
{
    bool shared = !r->last_exclusive && (r->shared || cl->holds == 0);
    uint32_t holds = shared ? cl->shared : cl->holds + r->last_exclusive;
    int64_t left_us = cl->hold.deadline_us - c->now_us;

    if (holds == 0) {
        request_finish(c, r, CORE_NOT_HELD, 0);
    } else if (claim_holds(cl) + r->last_exclusive > 1) {
        if (!shared && holds == 1) { /* whatever the outcome of the release, others may read as well from now on */
            cl->holds = 0;
            r->last_exclusive = true;
        }
        op_begin(c, cl, CORE_RELEASE, holds - 1, shared, cl->lease_us > left_us ? cl->lease_us : left_us, r);
    } else if (!handoff_to_next(c, cl, r) && !handoff_cache(c, cl, r)) {
        op_release(c, cl, r);
    }
}

/*
 * A release of some of the holds may still run, and would take away a hold that is added now. Whether r may run beside
 * it: as the repetition of that release, or as the release of all holds (the next hold has another redis_owner then,
 * see op_abandon()).
 */
static bool
is_safe_beside_release(const struct claim *cl, const struct request *r)
{
    return r->unanswered || (r->verb == CORE_UNLOCK && claim_holds(cl) + r->last_exclusive <= 1);
}

/* HELD: a LOCK of the holder that cannot be granted before the holder gives the lock back. */
static bool
request_waits_for_itself(const struct request *r)
{
    const struct claim *cl = r->claim;
    bool upgrade = cl->holds == 0 && !r->shared;

    return r->fresh || (policy(cl->lock)->two_sorts && upgrade) ||
           (!r->once && !policy(cl->lock)->reentrant);
}

/*
 * HELD: serves the claim's next requests, one operation at a time. Of very many requests that need no operation
 * (repetitions by ONCE), the claim's timer serves the rest; they count as timers of the turn.
 */
void
serve_claim(struct core *c, struct claim *cl)
{
    uint32_t n = 0, most = job_records_max(c);

    if (!uncertain_allows(c, cl, MAY_SAY_HELD) && c->now_us < cl->hold.deadline_us) {
        reclaim_verify_now(c, cl);
        claim_arm(c, cl);
        return;
    }
    while (cl->state == CLAIM_HELD && c->now_us < cl->hold.deadline_us && !claim_busy(cl) &&
           !list_empty(&cl->requests)) {
        struct request *r = container_of(cl->requests.next, struct request, claim_node);
        int64_t left_us = cl->hold.deadline_us - c->now_us, lease_us;

        if (n++ == most) {
            cl->retry_us = c->now_us;
            budget_spend(&c->budget.timers, most);
            break;
        }
        if (!uncertain_allows(c, cl, MAY_ADD_HOLD) && !is_safe_beside_release(cl, r)) {
            cl->retry_us = later(cl->retry_us, uncertain_stragglers_end_us(c, cl));
            break;
        }
        if (r->verb == CORE_LOCK && request_waits_for_itself(r)) {
            if (r->due_us <= r->arrived_us) {
                request_finish(c, r, CORE_NOT_GRANTED, 0);
            } else {
                request_deadlock(c, r, NULL, 0);
            }
        } else if (r->verb == CORE_LOCK && r->once) {
            r->uncounted = true;
            request_grant(c, r);
        } else if (r->verb == CORE_LOCK) {
            /* A re-entry never shortens the lease of the earlier holds. */
            lease_us = r->lease_us != 0 ? r->lease_us : r->spec_lease_us;
            op_begin(c, cl, CORE_ACQUIRE, (r->shared ? cl->shared : cl->holds) + 1, r->shared,
                     lease_us > left_us ? lease_us : left_us, r);
        } else if (r->token != 0 && r->token != cl->token) {
            request_finish(c, r, CORE_STALE, 0);
        } else if (r->verb == CORE_RENEW && cl->renewal_sent) {
            break; /* the renewal is answered first: of two commands that set the expiry either may run last */
        } else if (r->verb == CORE_RENEW) {
            cl->hold.unrenewed_us = cl->hold.deadline_us; /* the RENEW may shorten the lease, at an unknown time */
            cl->hold.deadline_us = earlier(cl->hold.deadline_us, core_deadline_us(c->now_us, r->lease_us));
            op_begin(c, cl, CORE_EXTEND, cl->holds, false, r->lease_us, r);
        } else {
            serve_unlock(c, cl, r);
        }
    }
    claim_arm(c, cl);
}
