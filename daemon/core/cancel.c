/*
 * cancel.c -- CANCEL: the waits of one owner for one name end.
 *
 * Ends each LOCK of the owner for the name that is not answered, whatever it waits for (the lock, an operation in
 * flight, its turn among the owner's requests), and each MLOCK that has the name in it. Their tickets go with them, and
 * so does one that is kept for the owner; a grant that an attempt in flight brings is given back (acquire_ok()).
 * UNLOCK and RENEW stay.
 *
 * CANCEL runs when it arrives: in its owner's order it would stand behind the very wait it is to end. So of the owner's
 * requests no more than CANCEL_MAX are looked at; an owner that has more of them is refused, and nothing is done.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/core.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/locks.h"
#include "daemon/core/multilock.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/reviews.h"

/* Requests of the owner that name a claim on the lock, the waiting and the running. */
static uint32_t
count_requests(const struct lock *l, const struct owner *o)
{
    const struct claim *cl;
    struct pair p;
    uint32_t n = 0;

    pair_begin(&p, l, o);
    while ((cl = pair_next(&p)) != NULL) {
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

/* Of an MLOCK that runs, the name may be one that is granted already. */
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

/* Ends the requests in the owner's order, the one that runs among them. */
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
            before = before->prev; /* those of an MLOCK stand together, and go together */
        }
        cancel(c, r);
        n++;
        pos = before->next;
    }
    return n;
}

/* Repetitions (ONCE) that joined a wait take its place in the order one after the other: see request_stop_waiting(). */
static int64_t
cancel_all(struct core *c, const struct lock *l, const struct owner *o)
{
    int64_t n = cancel_in_order(c, o, l);
    struct claim *cl;
    struct pair p;

    pair_begin(&p, l, o);
    while ((cl = pair_next(&p)) != NULL) {
        claim_drop_kept_position(c, cl); /* only this one may go to another list */
    }
    return n;
}

void
cancel_arrives(struct core *c, const struct core_request *rq)
{
    struct core_session *p = core_session_find(c, rq->session);
    struct core_reply rp = {.session = rq->session, .id = rq->id, .answer = CORE_LEFT, .name = rq->name};
    struct lock *l = lock_find(c, rq->name);
    struct owner *o = NULL;
    enum core_answer answer;

    if (p == NULL) {
        return; /* the session has gone: no answer can reach it */
    }
    answer = owner_get(c, p, rq->owner, false, &o);
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
