/*
 * requests.c -- LOCK, UNLOCK, RENEW and BREAK from the door to their one reply.
 *
 * A request brings what its whole life needs when it arrives: its own record,
 * the owner, the lock and the claim. From then on nothing can fail for want of
 * memory. It runs when it is first in its owner's order; only a repeated LOCK
 * ... ONCE (it joins the one that waits) and what proves itself by a TOKEN
 * (it acts for the holder) run at once.
 */
#include <assert.h>
#include <stdlib.h>

#include "daemon/core/state.h"

static void
reply(struct core *c, const struct core_reply *rp)
{
    struct core_action a = {.type = CORE_REPLY, .reply = *rp};

    c->metrics->timeouts += rp->answer == CORE_NOT_GRANTED;
    c->metrics->unavailable += rp->answer == CORE_UNAVAILABLE || rp->answer == CORE_REDIS_FULL;
    core_act(c, &a);
}

/* Answered at the door: no record was made. */
static void
refuse(struct core *c, const struct core_request *rq, enum core_answer answer)
{
    reply(c, &(struct core_reply){.session = rq->session, .id = rq->id, .answer = answer, .name = rq->name});
}

static struct request *
request_new(struct core *c, struct peer *p, const struct core_request *rq, enum core_event_type verb)
{
    struct request *r = calloc(1, sizeof(*r));

    if (r == NULL || !timer_init(c, &r->timer, TIMER_REQUEST)) {
        free(r);
        return NULL;
    }
    r->id = rq->id;
    r->verb = verb;
    r->peer = p;
    r->once = rq->once;
    r->full = rq->full;
    r->token = rq->token;
    r->lease_us = rq->lease_us;
    r->spec_lease_us = rq->spec.lease_us;
    r->arrived_us = c->now_us;
    r->due_us = after_us(c->now_us, rq->wait_us);
    list_init(&r->fifo_node);
    list_init(&r->claim_node);
    list_init(&r->hurry_node);
    list_push_back(&p->requests, &r->peer_node);
    return r;
}

static void
request_bind(struct core *c, struct request *r, struct claim *cl, bool in_order)
{
    r->claim = cl;
    r->owner = cl->owner;
    cl->refs++;
    if (in_order) {
        list_push_back(&cl->owner->fifo, &r->fifo_node);
        owner_wake(c, cl->owner);
    } else {
        request_run(c, r);
    }
}

static void
lock_arrives(struct core *c, struct peer *p, const struct core_request *rq)
{
    enum core_answer answer;
    struct owner *o;
    struct lock *l;
    struct claim *cl;
    struct request *r = NULL;
    bool joins, held;

    if (c->waiting_n >= c->conf.waiters_max) {
        refuse(c, rq, CORE_TOO_MANY_WAITERS);
        return;
    }
    answer = owner_get(c, p, rq->owner, true, &o);
    if (answer == CORE_GRANTED) {
        answer = lock_get(c, rq, false, &l);
    }
    if (answer != CORE_GRANTED) {
        refuse(c, rq, answer);
        return;
    }
    cl = claim_find(l, o);
    held = cl != NULL && cl->state == CLAIM_HELD;
    if (rq->spec.waiters_max != 0 && rq->wait_us != 0 && !held && l->waiting_n >= rq->spec.waiters_max) {
        refuse(c, rq, CORE_TOO_MANY_WAITERS);
        return;
    }
    if (cl == NULL && o->claims_n >= c->conf.locks_max) {
        refuse(c, rq, CORE_TOO_MANY_LOCKS);
        return;
    }
    cl = cl != NULL ? cl : claim_get(c, l, o);
    r = cl != NULL ? request_new(c, p, rq, CORE_LOCK) : NULL;
    if (r == NULL) {
        lock_wake(c, l); /* the claim may be a new one, for nobody */
        refuse(c, rq, CORE_NO_MEMORY);
        return;
    }
    cl->owner_grace_us = rq->spec.owner_grace_us;
    cl->place_grace_us = rq->spec.place_grace_us;
    l->waiting_n++;
    c->waiting_n++;
    joins = r->once && (cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING) && !list_empty(&cl->requests);
    request_bind(c, r, cl, !joins);
}

/* The claim a TOKEN stands for: whoever holds the name by it, or held it and does not know of the loss yet. */
static struct claim *
claim_by_token(const struct lock *l, uint64_t token)
{
    const struct list *lists[] = {&l->holders, &l->leaving, &l->lost};
    struct list *pos, *nxt;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_each(pos, nxt, lists[i])
        {
            struct claim *cl = container_of(pos, struct claim, node);

            if (cl->token == token) {
                return cl;
            }
        }
    }
    return NULL;
}

/*
 * UNLOCK or RENEW. A LOCK made its claim when it arrived, so if there is none
 * now there will be none when it would be this request's turn.
 */
static void
holder_arrives(struct core *c, struct peer *p, const struct core_request *rq, enum core_event_type verb)
{
    struct lock *l = lock_find(c, rq->name);
    bool by_token = rq->token != 0 && rq->owner.n == 0;
    enum core_answer answer = CORE_NOT_HELD;
    struct claim *cl = NULL;
    struct owner *o;
    struct request *r;

    if (l != NULL && by_token) {
        cl = claim_by_token(l, rq->token);
        answer = list_empty(&l->holders) ? CORE_NOT_HELD : CORE_STALE;
    } else if (l != NULL) {
        answer = owner_get(c, p, rq->owner, false, &o);
        if (answer == CORE_GRANTED) {
            cl = claim_find(l, o);
            answer = CORE_NOT_HELD;
        }
    }
    if (cl == NULL) {
        refuse(c, rq, answer);
        return;
    }
    r = request_new(c, p, rq, verb);
    if (r == NULL) {
        refuse(c, rq, CORE_NO_MEMORY);
        return;
    }
    request_bind(c, r, cl, !by_token);
}

static void
break_arrives(struct core *c, struct peer *p, const struct core_request *rq)
{
    struct lock *l;
    enum core_answer answer = lock_get(c, rq, true, &l);
    struct request *r = NULL;

    if (answer == CORE_GRANTED) {
        r = request_new(c, p, rq, CORE_BREAK);
    }
    if (r == NULL) {
        refuse(c, rq, CORE_NO_MEMORY);
        return;
    }
    r->lock = l;
    r->started = true;
    lock_break(c, r);
}

void
request_arrive(struct core *c, const struct core_event *ev)
{
    struct peer *p = peer_find(c, ev->request.session);

    if (p == NULL) {
        return; /* it has gone; there is nobody to answer */
    }
    switch (ev->type) {
    case CORE_LOCK:
        lock_arrives(c, p, &ev->request);
        break;
    case CORE_BREAK:
        break_arrives(c, p, &ev->request);
        break;
    default:
        holder_arrives(c, p, &ev->request, ev->type);
        break;
    }
}

/* A LOCK takes its place, or joins the place its owner has. */
static void
join_queue(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;

    if (c->draining) {
        request_finish(c, r, CORE_DRAINING, 0);
        return;
    }
    if (cl->state == CLAIM_IDLE || cl->state == CLAIM_SWEEP) {
        claim_enqueue(c, cl);
    }
    list_push_back(&cl->requests, &r->claim_node);
    cl->place_until_us = 0;
    claim_arm(c, cl);
    lock_wake(c, cl->lock);
    if (r->due_us <= c->now_us) {
        request_hurry(c, r);
    } else {
        timer_set(c, &r->timer, r->due_us);
    }
}

/* It waits for, or is, the operation under way on a claim that is held or being given back. */
static void
join_holder(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;

    list_push_back(&cl->requests, &r->claim_node);
    if (r->verb != CORE_LOCK) {
        timer_set(c, &r->timer, after_us(c->now_us, c->conf.op_timeout_us)); /* not since it arrived */
    } else if (r->due_us > c->now_us) {
        timer_set(c, &r->timer, r->due_us);
    } else {
        request_hurry(c, r); /* may be its end; r is not looked at any more */
    }
    if (cl->state == CLAIM_HELD) {
        claim_serve(c, cl);
    }
}

/* What the request means in the state its claim is in. */
void
request_run(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    bool reentrant = (kind_rows[cl->lock->kind].flags & KIND_F_REENTRANT) != 0;

    r->started = true;
    r->hurried = false;
    switch (cl->state) {
    case CLAIM_LOST:
        cl->token = 0;
        claim_move(c, cl, CLAIM_IDLE);
        request_finish(c, r, CORE_WAS_LOST, 0);
        return;
    case CLAIM_HELD:
        if (r->verb == CORE_LOCK && !r->once && !reentrant) { /* it would wait for itself */
            request_finish(c, r, r->due_us <= c->now_us ? CORE_NOT_GRANTED : CORE_DEADLOCK, 0);
            return;
        }
        join_holder(c, r);
        return;
    case CLAIM_FREEING:
        if (cl->lost) { /* Redis has no say in it */
            cl->lost = false;
            request_finish(c, r, CORE_WAS_LOST, 0);
        } else if (r->verb == CORE_LOCK) {
            join_holder(c, r);
        } else {
            request_finish(c, r, CORE_NOT_HELD, 0); /* it was given back, or its loss was told, already */
        }
        return;
    default:
        if (r->verb == CORE_LOCK && cl->state == CLAIM_SWEEP && cl->doubtful) {
            join_holder(c, r); /* it needs another number in Redis, the sweep the old one */
        } else if (r->verb == CORE_LOCK) {
            join_queue(c, r);
        } else {
            request_finish(c, r, CORE_NOT_HELD, 0);
        }
        return;
    }
}

/* Redis may take so long for one operation before a LOCK that must not wait is told that it is unavailable. */
static int64_t
patience_us(const struct core *c)
{
    return c->conf.op_timeout_us / 4;
}

/*
 * Its time to wait is over (or was none). When only an operation in flight
 * stands between it and an answer, the answer is awaited a little longer.
 */
void
request_hurry(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    struct lock *l = cl->lock;
    bool queued = cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING;
    int64_t until_us = after_us(cl->state == CLAIM_TRYING ? cl->tried_us : c->now_us, patience_us(c));

    if (r->hurried || (!queued && cl->retry_us > c->now_us)) {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    } else if (queued && lock_busy_for(c, r)) {
        request_finish(c, r, l->trouble, 0);
    } else if (until_us <= c->now_us) {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    } else {
        r->hurried = true;
        timer_set(c, &r->timer, until_us);
        if (queued) {
            list_push_back(&l->hurried, &r->hurry_node);
        }
    }
}

void
request_timer(struct core *c, struct request *r)
{
    if (r->verb == CORE_LOCK) {
        request_hurry(c, r);
    } else {
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    }
}

/* The claim is held and its deadline lies ahead. */
void
request_grant(struct core *c, struct request *r)
{
    const struct claim *cl = r->claim;

    assert(cl->state == CLAIM_HELD && c->now_us < cl->deadline_us);
    c->metrics->grants++;
    reply(c, &(struct core_reply){.session = r->peer->id,
                                  .id = r->id,
                                  .answer = CORE_GRANTED,
                                  .name = lock_name(cl->lock),
                                  .token = cl->token,
                                  .owner = cl->number,
                                  .kind = cl->lock->kind,
                                  .holds = cl->holds,
                                  .lease_us = cl->deadline_us - c->now_us,
                                  .waited_us = c->now_us - r->arrived_us,
                                  .full = r->full});
    request_drop(c, r);
}

/* Any other answer. `left` as core_answer says. */
void
request_finish(struct core *c, struct request *r, enum core_answer answer, int64_t left)
{
    const struct lock *l = r->claim != NULL ? r->claim->lock : r->lock;

    reply(c, &(struct core_reply){.session = r->peer->id,
                                  .id = r->id,
                                  .answer = answer,
                                  .name = lock_name(l),
                                  .token = r->claim != NULL ? r->claim->token : 0,
                                  .owner = r->claim != NULL ? r->claim->number : 0,
                                  .kind = l->kind,
                                  .left = left,
                                  .full = r->full});
    request_drop(c, r);
}

/* Without a reply: takes it off every list and frees it; whoever was behind it is woken. */
void
request_drop(struct core *c, struct request *r)
{
    struct claim *cl = r->claim;
    bool attached = list_linked(&r->claim_node);

    list_remove(&r->peer_node);
    list_remove(&r->claim_node);
    list_remove(&r->hurry_node);
    if (list_linked(&r->fifo_node)) {
        list_remove(&r->fifo_node);
        owner_wake(c, r->owner);
    }
    timer_fini(c, &r->timer);
    if (r->verb == CORE_LOCK) {
        cl->lock->waiting_n--;
        c->waiting_n--;
    }
    if (cl != NULL) {
        cl->refs--;
        if (cl->op_request == r) {
            cl->op_request = NULL;
        }
        if (attached && list_empty(&cl->requests) && (cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING)) {
            claim_deserted(c, cl);
        }
        lock_wake(c, cl->lock);
    } else {
        lock_wake(c, r->lock);
    }
    free(r);
}
