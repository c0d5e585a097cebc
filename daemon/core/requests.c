/*
 * requests.c -- LOCK, UNLOCK, RENEW and BREAK: how they arrive and run; their end is request_ends.c's.
 *
 * When a request arrives, all records that it needs are found or made: its own, the owner, the lock and the claim. It
 * runs when its owner's order lets it (order.c); only a repeated LOCK with ONCE, which joins the request that waits, a
 * request with a TOKEN and no OWNER, which acts for the holder, and a BREAK run at once.
 */
#include "daemon/core/requests.h"

#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/locks.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"

/* s NULL: a silent request of no session. */
static struct request *
request_new(struct core *c, struct core_session *s, const struct core_request *rq, enum core_event_type verb)
{
    struct request *r = freelist_take(&c->freelist, sizeof(*r));

    *r = (struct request){
        .id = rq->id,
        .verb = verb,
        .session = s,
        .once = rq->once,
        .full = rq->full,
        .fresh = rq->fresh,
        .shared = rq->shared,
        .token = rq->token,
        .lease_us = rq->lease_us,
        .spec_lease_us = rq->spec.lease_us,
        .arrived_us = c->now_us,
        .due_us = after_us(c->now_us, rq->wait_us),
    };
    timer_init(&r->timer, TIMER_REQUEST);
    list_init(&r->fifo_node);
    list_init(&r->claim_node);
    list_init(&r->timing_out_node);
    list_init(&r->search_node);
    list_init(&r->old_wait_node);
    list_init(&r->session_node);
    if (s != NULL) {
        list_push_back(&s->requests, &r->session_node);
    }
    return r;
}

/* Binds the request to another claim than before. */
static void
request_bind(struct core *c, struct request *r, struct claim *cl)
{
    if (r->claim != NULL) {
        claim_refer(c, r->claim, -1);
        dirty_mark_lock(c, r->claim->lock);
    }
    r->claim = cl;
    r->owner = cl->owner;
    claim_refer(c, cl, 1);
}

/* Begins the request in its owner's order, or at once. */
void
request_begin(struct core *c, struct request *r, bool in_order)
{
    if (in_order) {
        list_push_back(&r->owner->fifo, &r->fifo_node);
        r->owner->non_locks_n += r->verb != CORE_LOCK;
        dirty_mark_owner(c, r->owner);
    } else {
        claim_catch_up(c, r->claim);
        requests_rerun(c);
        request_run(c, r);
    }
}

/*
 * Whether the session may have one more request that waits; requests that do not wait are not limited. A session may
 * have no more waits than are left for all sessions, so a session that has none may have one while any is left.
 */
static bool
may_block(struct core *c, const struct core_session *s, const struct core_request *rq)
{
    uint32_t most = c->conf.session_waiters_max, left;

    if (rq->wait_us == 0) {
        return true;
    }
    left = c->conf.waiters_max > c->blocking_n ? c->conf.waiters_max - c->blocking_n : 0;
    if (left == 0 || (most != 0 && s->blocking_n >= most) || s->blocking_n >= left) {
        return false;
    }
    return s->user == NULL || user_has_room(c, s->user, c->conf.waiters_max, c->blocking_n, s->user->blocking_n);
}

/*
 * Whether one more request may wait for the lock, and whether its owner may have one more claim. cl: the owner's claim
 * on the lock; NULL: none.
 */
static enum core_answer
within_limits(struct core *c, const struct core_request *rq, const struct lock *l, const struct owner *o,
              const struct claim *cl)
{
    bool held = cl != NULL && cl->state == CLAIM_HELD, more = cl == NULL || cl->state == CLAIM_CACHED;

    if (rq->spec.waiters_max != 0 && rq->wait_us != 0 && !held && l->queue->waiting_n >= rq->spec.waiters_max) {
        return CORE_TOO_MANY_WAITERS;
    }
    if (more && o->claims_n - o->cached_n >= c->conf.locks_max) {
        return CORE_TOO_MANY_LOCKS;
    }
    return cl != NULL || user_has_room(c, o->user, c->conf.total_locks_max, c->claims.count, user_claims(o))
               ? CORE_GRANTED : CORE_LOCKS_FULL;
}

/* Makes all records of a LOCK before it begins. Any answer but GRANTED: there are none. */
enum core_answer
request_lock(struct core *c, struct core_session *s, const struct core_request *rq, struct request **out)
{
    enum core_answer answer;
    struct owner *o;
    struct lock *l;
    struct claim *cl;
    struct request *r;
    bool may;

    may = may_block(c, s, rq);
    answer = owner_get(c, s, rq->owner, may, &o);
    if (!may) {
        return CORE_TOO_MANY_WAITERS;
    }
    if (answer == CORE_GRANTED) {
        answer = lock_get(c, rq, false, &l);
    }
    if (answer != CORE_GRANTED) {
        return answer;
    }
    cl = claim_to_join(c, l, o, rq->once || rq->fresh);
    if (cl == NULL && l->kind != rq->spec.kind && lock_has_limit(l)) {
        return CORE_WRONG_KIND; /* not one more permit: by the present rules its owner expects to be alone */
    }
    answer = within_limits(c, rq, l, o, cl);
    if (answer != CORE_GRANTED) {
        return answer;
    }
    cl = cl != NULL ? cl : claim_new(c, l, o);
    r = request_new(c, s, rq, CORE_LOCK);
    if (owner_raise_grace(o, l, rq->owner_grace_us)) {
        checkpoint_grace_raised(c, cl);
    }
    r->waiting = true;
    l->queue->waiting_n++;
    c->waiting_n++;
    r->blocking = rq->wait_us != 0;
    l->queue->blocking_n += r->blocking;
    s->blocking_n += r->blocking;
    user_count_blocking(s, r->blocking);
    c->blocking_n += r->blocking;
    request_bind(c, r, cl);
    *out = r;
    return CORE_GRANTED;
}

/*
 * Whether r, a repetition (ONCE), joins the request that waits. It does not join a request for the other sort of hold;
 * nor one of a multilock, whose grant may yet be taken back; nor if an UNLOCK comes before r: that would take the
 * reported hold back. A repetition that may wait does not join a request that may not: it would be left as a wait
 * outside of its owner's order.
 */
static bool
may_join(const struct request *r)
{
    const struct claim *cl = r->claim;
    const struct request *first = container_of(cl->requests.next, struct request, claim_node);
    bool queued = (cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING) && !list_empty(&cl->requests);

    return r->once && queued && first->shared == r->shared && first->multilock == NULL && r->owner->non_locks_n == 0 &&
           (first->blocking || !r->blocking);
}

static void
lock_arrives(struct core *c, struct core_session *s, const struct core_request *rq)
{
    struct request *r;
    enum core_answer answer = request_lock(c, s, rq, &r);

    if (answer != CORE_GRANTED) {
        request_refuse(c, rq, answer);
    } else {
        request_begin(c, r, !may_join(r));
    }
}

/*
 * Makes the record of an UNLOCK or RENEW. Any answer but GRANTED: there is none. A LOCK made its claim when it arrived,
 * so if there is none now there will be none when it would be this request's turn.
 */
enum core_answer
request_of_holder(struct core *c, struct core_session *s, const struct core_request *rq, enum core_event_type verb,
                  struct request **out)
{
    struct lock *l = lock_find(c, rq->name);
    bool by_token = rq->token != 0 && rq->owner.n == 0;
    struct owner *o = NULL;
    enum core_answer answer = by_token ? CORE_NOT_HELD : owner_get(c, s, rq->owner, false, &o);
    struct claim *cl = NULL;

    if (l != NULL && by_token) {
        cl = claim_by_token(c, l, rq->token);
        answer = lock_has_one_token(c, l) ? CORE_STALE : CORE_NOT_HELD;
    } else if (answer == CORE_GRANTED) {
        cl = l != NULL ? claim_find(c, l, o) : NULL;
        answer = CORE_NOT_HELD;
    }
    if (cl == NULL) {
        return answer;
    }
    *out = request_new(c, s, rq, verb);
    request_bind(c, *out, cl);
    return CORE_GRANTED;
}

static void
holder_arrives(struct core *c, struct core_session *s, const struct core_request *rq, enum core_event_type verb)
{
    struct request *r;
    enum core_answer answer = request_of_holder(c, s, rq, verb, &r);

    if (answer != CORE_GRANTED) {
        request_refuse(c, rq, answer);
    } else {
        request_begin(c, r, rq->token == 0 || rq->owner.n != 0);
    }
}

void
request_give_back(struct core *c, struct claim *cl, bool shared)
{
    const struct core_request rq = {.shared = shared, .token = cl->token};
    struct request *r = request_new(c, NULL, &rq, CORE_UNLOCK);

    r->silent = r->other_holds = true;
    request_bind(c, r, cl);
    request_begin(c, r, false);
}

static void
break_arrives(struct core *c, struct core_session *s, const struct core_request *rq)
{
    struct lock *l;
    enum core_answer answer = lock_get(c, rq, true, &l);
    struct request *r;

    if (answer != CORE_GRANTED) {
        request_refuse(c, rq, answer);
        return;
    }
    r = request_new(c, s, rq, CORE_BREAK);
    r->lock = l;
    r->started = true;
    break_begin(c, r);
}

void
request_arrive(struct core *c, const struct core_event *ev)
{
    struct core_session *s = core_session_find(c, ev->request.session);

    if (s == NULL) {
        return; /* the session has gone: no answer can reach it */
    }
    switch (ev->type) {
    case CORE_LOCK:
        lock_arrives(c, s, &ev->request);
        break;
    case CORE_BREAK:
        break_arrives(c, s, &ev->request);
        break;
    default:
        holder_arrives(c, s, &ev->request, ev->type);
        break;
    }
}

/* Arms the timer to the end of the wait, or, before that, to the next search for a deadlock. */
static void
request_arm(struct core *c, struct request *r)
{
    timer_set(&c->timers, &r->timer, r->next_trail_us < r->due_us ? r->next_trail_us : r->due_us);
}

/* A LOCK takes a position in the queue, or joins the one that its owner has. */
static void
join_queue(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    bool first = list_empty(&cl->lock->queue->claims);

    if (c->draining) {
        request_finish(c, r, CORE_DRAINING, 0);
        return;
    }
    if (r->due_us > c->now_us && deadlock_ends_wait(c, r)) {
        return;
    }
    if (cl->state == CLAIM_IDLE || cl->state == CLAIM_STRAGGLING) {
        claim_enqueue(c, cl, r);
    }
    list_push_back(&cl->requests, &r->claim_node);
    cl->lock->contended |= lock_is_full(cl->lock, r->shared) || cl->lock->releasing_n > 0 || !first;
    if (first) {
        lock_publish_wanted(c, cl->lock, r->shared);
    }
    claim_clear_kept_until(cl);
    cl->lock->queue->ticketless = policy(cl->lock)->tickets;
    claim_arm(c, cl);
    dirty_mark_lock(c, cl->lock);
    if (r->due_us <= c->now_us) {
        timing_out_begin(c, r);
    } else {
        r->next_trail_us = c->conf.deadlock_us == 0 ? CORE_FOREVER : after_us(c->now_us, c->conf.deadlock_us);
        request_arm(c, r);
    }
}

/* The claim is held or being given back: the request waits for the operation under way, or is served now. */
static void
join_holder(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;

    list_push_back(&cl->requests, &r->claim_node);
    if (r->silent) {
        ; /* no client waits for it, so it has no time limit */
    } else if (r->verb != CORE_LOCK) {
        timer_set(&c->timers, &r->timer, after_us(c->now_us, c->conf.op_timeout_us)); /* not from its arrival */
    } else if (r->due_us > c->now_us) {
        timer_set(&c->timers, &r->timer, r->due_us);
    } else {
        timing_out_begin(c, r); /* may end the request: r is not used any more */
    }
    if (cl->state == CLAIM_HELD) {
        serve_claim(c, cl);
    }
}

/*
 * The owner's permit that an UNLOCK or RENEW means: without a token the newest one that is held, with one the permit of
 * that token, held or lost. NULL: there is none.
 */
static struct claim *
permit_meant(const struct core *c, const struct request *r)
{
    const struct lock *l = r->claim->lock;
    struct claim *cl;

    if (r->token == 0) {
        return claim_newest_held(c, l, r->owner);
    }
    cl = claim_by_token(c, l, r->token);
    return cl != NULL && cl->owner == r->owner && (cl->state == CLAIM_HELD || cl->state == CLAIM_LOST || cl->lost)
               ? cl : NULL;
}

static void
bind_to_permit(struct core *c, struct request *r)
{
    struct claim *cl = NULL;

    if (r->verb != CORE_LOCK && policy(r->claim->lock)->claim_each) {
        cl = permit_meant(c, r);
    }
    if (cl != NULL && cl != r->claim) {
        request_bind(c, r, cl);
        claim_catch_up(c, cl);
        requests_rerun(c);
    }
}

/*
 * Whether a LOCK waits until no straggler of its claim can run. It does if the next hold needs another redis_owner,
 * because the release after the stragglers needs the old one; and where there are two sorts of holds, because a
 * straggler may acquire the other sort, which Redis takes for another owner's.
 */
static bool
waits_for_stragglers(const struct core *c, const struct claim *cl)
{
    return !uncertain_allows(c, cl, MAY_REUSE_REDIS_OWNER) || policy(cl->lock)->two_sorts;
}

/*
 * The claim was lost: Redis is not asked. A silent request cannot report the loss; but if no hold was reported to the
 * owner, no loss has to be. False: the request asks for a new grant.
 */
static bool
ends_with_loss(struct core *c, struct request *r)
{
    bool fresh = r->fresh;

    if (!r->silent) {
        end_loss_reported(c, r->claim);
    } else if (!r->other_holds) {
        end_clear_loss(c, r->claim);
    }
    if (!fresh) {
        request_finish(c, r, CORE_WAS_LOST, 0);
    }
    return !fresh;
}

/* Runs the request, by the state of its claim. */
void
request_run(struct core *c, struct request *r)
{
    struct claim *cl;

    r->serial = r->started ? r->serial : ++c->serial;
    r->started = true;
    r->timing_out = false;
    list_remove(&r->timing_out_node); /* the request may run for the second time */
    bind_to_permit(c, r);
    cl = r->claim;
    if ((cl->lost || cl->state == CLAIM_LOST) && ends_with_loss(c, r)) {
        return;
    }
    switch (cl->state) {
    case CLAIM_HELD:
        join_holder(c, r);
        return;
    case CLAIM_CACHED:
        if (r->verb == CORE_LOCK && handoff_reuse(c, cl, r)) {
            serve_claim(c, cl);
        } else if (r->verb == CORE_LOCK) {
            join_holder(c, r);
        } else {
            request_finish(c, r, CORE_NOT_HELD, 0);
        }
        return;
    case CLAIM_RELEASING:
        if (r->verb == CORE_LOCK) {
            join_holder(c, r);
        } else {
            request_finish(c, r, CORE_NOT_HELD, 0); /* the claim was already given back, or its loss was already
                                                       reported */
        }
        return;
    default:
        if (r->verb == CORE_LOCK && cl->state == CLAIM_STRAGGLING && waits_for_stragglers(c, cl)) {
            join_holder(c, r);
        } else if (r->verb == CORE_LOCK) {
            join_queue(c, r);
        } else {
            request_finish(c, r, CORE_NOT_HELD, 0);
        }
        return;
    }
}

void
requests_rerun(struct core *c)
{
    while (!list_empty(&c->to_rerun)) {
        struct request *r = container_of(c->to_rerun.next, struct request, claim_node);

        list_remove(&r->claim_node);
        request_run(c, r);
    }
}

/*
 * A question to other daemons may have been lost, or a deadlock may have come about since: ask again, at growing
 * intervals.
 */
static int64_t
trail_pause_us(const struct request *r)
{
    int64_t waited_us = r->next_trail_us - r->arrived_us;

    return waited_us < TRAIL_PAUSE_MAX_US ? waited_us : TRAIL_PAUSE_MAX_US;
}

/* An UNLOCK of the last hold that is next to be served, and was not sent yet; see serve_unlock(). */
static bool
gives_all_back(const struct request *r)
{
    const struct claim *cl = r->claim;

    return r->verb == CORE_UNLOCK && cl->state == CLAIM_HELD && cl->requests.next == &r->claim_node &&
           claim_holds(cl) + r->last_exclusive == 1 && (!r->shared || cl->shared > 0) &&
           (r->token == 0 || r->token == cl->token);
}

void
request_timer(struct core *c, struct request *r)
{
    if (r->verb != CORE_LOCK) {
        struct claim *cl = gives_all_back(r) ? r->claim : NULL;

        request_finish(c, r, CORE_UNAVAILABLE, 0);
        if (cl != NULL) { /* the UNLOCK waited for the claim to be verified: releases the claim all the same */
            op_release(c, cl, NULL);
        }
    } else if (c->now_us < r->due_us) {
        assert(c->now_us >= r->next_trail_us && !r->timing_out);
        r->next_trail_us = after_us(c->now_us, trail_pause_us(r)); /* when it has waited twice as long */
        request_arm(c, r);
        deadlock_old_wait(c, r);
    } else {
        timing_out_begin(c, r);
    }
}
