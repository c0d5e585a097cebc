/*
 * request_ends.c -- the end of a request, and its one reply.
 *
 * Only request_drop() frees a request, in request_drop.c; a request of a multilock has no reply of its own.
 */
#include <assert.h>

#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/owner.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/* ---- replies without a record ---- */

struct core_reply
request_refusal(const struct core *c, const struct core_request *rq, enum core_answer answer)
{
    struct core_reply rp = {.session = rq->session, .id = rq->id, .answer = answer, .name = rq->name};

    if (answer == CORE_KEY_IN_USE) {
        rp.other = lock_name(lock_conflict(c, rq));
    }
    return rp;
}

void
request_refuse(struct core *c, const struct core_request *rq, enum core_answer answer)
{
    struct core_reply rp = request_refusal(c, rq, answer);

    request_reply(c, &rp);
}

/* ---- the end of a record ---- */

static struct core_reply
reply_of(const struct request *r, enum core_answer answer)
{
    const struct claim *cl = r->claim;
    const struct lock *l = cl != NULL ? cl->lock : r->lock;

    return (struct core_reply){.session = r->session != NULL ? r->session->id : 0,
                               .id = r->id,
                               .answer = answer,
                               .name = lock_name(l),
                               .token = cl != NULL ? cl->token : 0,
                               .owner = cl != NULL ? cl->redis_owner : 0,
                               .kind = l->kind,
                               .replicas_wanted = l->replicas,
                               .full = r->full};
}

static struct core_grant
grant_of(const struct claim *cl)
{
    return (struct core_grant){.claim = claim_id(cl), .token = cl->token, .deadline_us = cl->hold.deadline_us};
}

/*
 * The grant that the answer LEFT relies on: that of the claim while it is HELD; after a permit was given back, that of
 * the owner's permit whose lease ends first.
 */
static struct core_grant
left_of(struct claim *cl)
{
    const struct claim *first = cl->state == CLAIM_HELD ? cl : permit_set_first_end(cl);

    return first != NULL ? grant_of(first) : (struct core_grant){0};
}

/* Ends the request with its answer; a silent request has none. */
static void
answer(struct core *c, struct request *r, const struct core_reply *rp)
{
    if (r->multilock != NULL) {
        multilock_answer(c, r, rp);
        return;
    }
    if (!r->silent) {
        request_reply(c, rp);
    }
    request_drop(c, r);
}

/* Ends the request as GRANTED: the claim is held, and its deadline lies ahead. */
void
request_grant(struct core *c, struct request *r)
{
    const struct claim *cl = r->claim;
    struct core_reply rp = reply_of(r, CORE_GRANTED);

    assert(cl->state == CLAIM_HELD && c->now_us < cl->hold.deadline_us);
    c->metrics->grants++;
    rp.holds = claim_holds(cl);
    rp.replicas = cl->replicas;
    rp.grant = grant_of(cl);
    rp.grant.counted = !r->uncounted;
    rp.grant.shared = r->shared;
    rp.lease_us = cl->hold.deadline_us - c->now_us;
    rp.waited_us = c->now_us - r->arrived_us;
    answer(c, r, &rp);
}

/* Ends the request with an answer other than GRANTED. `left`: see core_answer. */
void
request_finish(struct core *c, struct request *r, enum core_answer what, int64_t left)
{
    bool crowded = r->crowded && what == CORE_NOT_GRANTED;
    struct core_reply rp = reply_of(r, crowded ? CORE_TOO_MANY_REQUESTS : what);

    rp.left = left;
    rp.left_is_ms = r->verb == CORE_RENEW;
    if (rp.answer == CORE_NO_REPLICAS) {
        rp.replicas = r->claim->lock->queue->replicas;
        rp.replicas_wanted = r->claim->lock->queue->replicas_wanted;
    }
    if (what == CORE_LEFT && r->claim != NULL && (left > 0 || rp.left_is_ms)) {
        rp.grant = left_of(r->claim);
    }
    answer(c, r, &rp);
}

/* No hops: the owner holds what the request asks for, and would wait for itself. */
void
request_deadlock(struct core *c, struct request *r, const struct core_hop *hop, size_t hops)
{
    struct core_reply rp = reply_of(r, CORE_DEADLOCK);
    struct core_hop self = {.owner = r->owner->id,
                            .owner_name = {r->owner->name, r->owner->name_n},
                            .name = lock_name(r->claim->lock)};

    c->metrics->deadlocks++;
    rp.hop = hops == 0 ? &self : hop;
    rp.hops = hops == 0 ? 1 : hops;
    answer(c, r, &rp);
}
