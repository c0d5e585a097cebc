/*
 * cancel.c -- CANCEL: the waits of one owner for one name end.
 *
 * Ends each unanswered LOCK of the owner for the name, whatever the LOCK waits for (the lock, an operation in flight,
 * its turn among the owner's requests), and each MLOCK that has the name in it. Their positions are given up, with
 * their tickets, and so is a position that is kept for the owner; a grant by an attempt in flight is given back
 * (acquire_ok()). UNLOCK and RENEW stay.
 *
 * CANCEL runs when it arrives: in its owner's order it would run behind the very wait that it is to end. So of the
 * owner's requests no more than CANCEL_MAX are looked at; an owner that has more of them is refused, and nothing is
 * done.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/locks.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"

/* Requests of the owner that name a claim on the lock, the waiting and the running. */
static uint32_t
count_requests(const struct lock *l, const struct owner *o)
{
    const struct claim *cl;
    struct claim_iter p;
    uint32_t n = 0;

    claim_iter_begin(&p, l, o);
    while ((cl = claim_iter_next(&p)) != NULL) {
        n += cl->refs;
    }
    return n;
}

static bool
has_at_most(const struct list *l, uint32_t most)
{
    for (const struct list *pos = l->next; pos != l; pos = pos->next) {
        if (most-- == 0) {
            return false;
        }
    }
    return true;
}

/* Whether the request is a LOCK for the name; an MLOCK that runs may have been granted the name already. */
static bool
asks_for(const struct request *r, const struct lock *l)
{
    return r->verb == CORE_LOCK &&
           (r->claim->lock == l || (r->started && r->multilock != NULL && multilock_asks_for(r->multilock, l)));
}

/* Ends the request, with the MLOCK that it is part of. */
static void
cancel(struct core *c, struct request *r)
{
    if (r->multilock != NULL) {
        multilock_cancelled(r->multilock);
    }
    r->cancelled = true;
    request_finish(c, r, CORE_CANCELLED, 0);
    multilocks_advance(c);
}

/* Ends those in the owner's order, running or not. Returns their number. */
static int64_t
cancel_in_order(struct core *c, const struct owner *o, const struct lock *l)
{
    struct list *pos = o->fifo.next;
    int64_t n = 0;

    while (pos != &o->fifo) {
        struct request *r = container_of(pos, struct request, fifo_node);
        struct list *before = pos->prev;

        if (!asks_for(r, l)) {
            pos = pos->next;
            continue;
        }
        while (r->multilock != NULL && before != &o->fifo &&
               container_of(before, struct request, fifo_node)->multilock == r->multilock) {
            before = before->prev; /* those of an MLOCK are adjacent, and end together */
        }
        cancel(c, r);
        n++;
        pos = before->next;
    }
    return n;
}

/*
 * Repetitions (ONCE) that joined a wait replace it in the order, one after the other (order_inherit()): so
 * cancel_in_order() ends them, too.
 */
static int64_t
cancel_all(struct core *c, const struct lock *l, const struct owner *o)
{
    int64_t n = cancel_in_order(c, o, l);
    struct claim *cl;
    struct claim_iter p;

    claim_iter_begin(&p, l, o);
    while ((cl = claim_iter_next(&p)) != NULL) {
        position_drop_kept(c, cl); /* the iterator lets only this claim go to another list */
    }
    return n;
}

void
cancel_arrives(struct core *c, const struct core_request *rq)
{
    struct core_session *s = core_session_find(c, rq->session);
    struct core_reply rp = {.session = rq->session, .id = rq->id, .answer = CORE_LEFT, .name = rq->name};
    struct lock *l = lock_find(c, rq->name);
    struct owner *o = NULL;
    enum core_answer answer;

    if (s == NULL) {
        return; /* the session has gone: no answer can reach it */
    }
    answer = owner_get(c, s, rq->owner, false, &o);
    if (answer == CORE_TOO_MANY_OWNERS) {
        request_refuse(c, rq, answer);
        return;
    }
    if (l != NULL) {
        lock_catch_up(c, l);
    }
    if (answer == CORE_GRANTED && l != NULL) {
        uint32_t n = count_requests(l, o);

        if (n > CANCEL_MAX || (n > 0 && !has_at_most(&o->fifo, CANCEL_MAX))) {
            request_refuse(c, rq, CORE_TOO_MANY_WAITERS);
            return;
        }
        rp.left = cancel_all(c, l, o);
    }
    request_reply(c, &rp);
}
