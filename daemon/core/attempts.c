/*
 * attempts.c -- when Redis is asked for a name, and for how many of the waiters here.
 *
 * A claim that wants a name alone asks alone: Redis sees one attempt per daemon, however many claims wait here. Claims
 * that can hold the name beside each other (readers, permits) ask together: those at the head of the queue that may, in
 * one turn of the loop, so that their attempts leave as names of one call.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/locks.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain_notes.h"

/*
 * A1  Claims that ask together are the first ones in the queue that have requests, in its order, and Redis runs their
 *     attempts in that order. A claim that comes, or has room, in a later turn only does not ask before all of these
 *     are answered: otherwise Redis could grant it what it has just refused to a claim in front of it.
 * A2  No claim asks beside an attempt for an exclusive hold (a permit is none), or for a ticket. None asks behind a
 *     claim that waits for an exclusive hold, except for a ticket: a claim without one asks for it wherever it is.
 * A3  Several ask together only while no answer has shown that there is no room: after a failed attempt only the first
 *     in the queue asks; when it is granted, the rest follow.
 * A4  Of permits no more are asked for than can be left: the limit, less those that are held here, being given back,
 *     and asked for already.
 * A5  An outcome answers no waiter of another claim that is TRYING (that claim's own outcome does), unless all waiters
 *     are refused (refusal_of_waiters()). What an outcome shows about the name counts for all claims: of several
 *     attempts that failed together the earliest retry counts, the pause grows once; and if a hint came while any of
 *     them was under way (queue.hinted), the first claim asks again at once. A grant after a failure shows that there
 *     is room again.
 * A6  An attempt may be sent behind a release of the name that is still under way: the link keeps their order, so one
 *     round trip serves both. A release counts only when it is answered; if it did not run, the attempt is TAKEN or
 *     unanswered like any other, and the first claim asks again. No attempt is sent behind a release at the end of a
 *     cohort (handoff.max, handoff.time), or with known remote waiters (waiter_polls.c): the answer to the release has
 *     to show first whether they still wait. For kinds with a queue in Redis, or whose expiry alone proves ownership,
 *     no attempt is sent behind any release.
 * A7  A claim whose grant too few replicas have acknowledged is the first in the queue again when that grant is given
 *     back (claim.shortfall ends). Until then no claim asks, except for a ticket: otherwise others would overtake it
 *     while it cannot ask. With tickets it is the last: the grant has used up its ticket.
 * A8  A claim that asked alone, and that Redis may have granted the lock, asks again before all others, also those that
 *     have come back to a kept position in front of it: they would find the lock taken by this claim, which nobody
 *     holds, until its lease ends. Kinds with tickets have claim_put_by_ticket() for that.
 */

/* The first claim in the queue that has waiters and no ticket: it asks for a ticket, whoever holds the lock. */
static struct claim *
first_ticketless(struct lock *l)
{
    struct queue *q = l->queue;
    struct list *pos, *nxt;

    if (!q->ticketless) {
        return NULL;
    }
    list_for_each_safe(pos, nxt, &q->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (!cl->has_ticket && !list_empty(&cl->requests)) {
            return cl;
        }
    }
    q->ticketless = false;
    return NULL;
}

/* A3: several may ask together, until an answer shows that there is no room. */
static bool
may_have_room(const struct lock *l)
{
    return l->queue->taken_until_us == 0 && l->queue->last_failure == CORE_NOT_GRANTED;
}

/* A1: whether one more claim may ask beside those whose attempts are under way. */
static bool
may_join(const struct core *c, const struct lock *l)
{
    return !l->queue->lone_attempt && l->queue->sent_turn == c->turn && l->queue->trying_n < ATTEMPTS_MAX &&
           may_have_room(l);
}

/* A6 */
static bool
may_try_behind(const struct core *c, const struct lock *l)
{
    return !lock_cohort_is_over(c, l) && !l->remote_waiters && policy(l)->try_behind;
}

/* Whether others may hold the lock beside the hold that the claim wants. */
static bool
can_share(const struct claim *cl)
{
    return lock_has_room_beside(cl->lock, claim_wants_shared(cl));
}

/* The first attempt, or the only one. */
static void
try_first(struct core *c, struct claim *cl, bool alone)
{
    struct queue *q = cl->lock->queue;

    q->lone_attempt = alone;
    q->sent_turn = c->turn;
    q->hinted = q->failed = false;
    q->asks_first = 0;
    op_acquire(c, cl);
}

/* A8. The claim, if it still waits; else NULL. */
static struct claim *
asks_first(const struct core *c, const struct lock *l)
{
    struct map_node *found = l->queue->asks_first != 0 ? map_find(&c->claims, l->queue->asks_first) : NULL;
    struct claim *cl = found != NULL ? container_of(found, struct claim, by_id) : NULL;
    bool waits = cl != NULL && cl->lock == l && cl->state == CLAIM_QUEUED && !list_empty(&cl->requests);

    return waits && uncertain_may_be_in_redis(cl) ? cl : NULL;
}

/* Sends the next attempt, and those that may be sent beside it; or arms the timer if it is too early. */
static void
try_queue(struct core *c, struct lock *l)
{
    bool behind = may_try_behind(c, l);
    struct queue *q = l->queue;
    struct list *pos, *nxt;
    struct claim *first;

    if (q->shortfalls_n > 0) { /* A7 */
        return;
    }
    first = q->trying_n == 0 && q->retry_us <= c->now_us ? asks_first(c, l) : NULL;
    if (first != NULL && lock_has_room(l, claim_wants_shared(first), behind)) {
        try_first(c, first, true);
        return;
    }
    list_for_each_safe(pos, nxt, &q->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (list_empty(&cl->requests) || cl->state == CLAIM_TRYING) {
            continue;
        }
        if ((q->trying_n > 0 && !(may_join(c, l) && can_share(cl))) ||
            !lock_has_room(l, claim_wants_shared(cl), behind)) {
            return;
        }
        if (q->retry_us > c->now_us) {
            timer_set(&c->timers, &q->timer, q->retry_us);
            return;
        }
        if (q->trying_n == 0) {
            try_first(c, cl, !may_have_room(l) || !can_share(cl));
        } else {
            op_acquire(c, cl);
        }
    }
}

/*
 * Goes on with the waiters, of which `next` is the first (NULL: there are none). A claim without a ticket asks first,
 * whether the lock is held or not, and waits only for the end of the pause after a failure.
 */
void
attempts_advance(struct core *c, struct lock *l, struct claim *next)
{
    struct queue *q = l->queue;
    struct claim *ticketless = q->trying_n == 0 ? first_ticketless(l) : NULL, *taken;

    timer_set(&c->timers, &q->timer, CORE_FOREVER);
    if (next != NULL) {
        op_send_releases(c, l);
    }
    if (next == NULL || (q->trying_n > 0 && !may_join(c, l))) {
        return;
    }
    taken = l->has_cached ? handoff_from_cache(c, l) : NULL;
    if (taken != NULL) {
        serve_claim(c, taken);
        return;
    }
    if (ticketless == NULL) {
        try_queue(c, l);
    } else if (q->retry_us > c->now_us && q->last_failure != CORE_NOT_GRANTED) {
        timer_set(&c->timers, &q->timer, q->retry_us);
    } else {
        bool due = q->retry_us <= c->now_us;

        try_first(c, ticketless, true);
        if (ticketless != next) { /* it only takes a ticket: when it is TAKEN, `next` asks at once if it may, else at
                                     q->retry_us as before: see attempt_failed() */
            q->hinted = due;
            q->failed = !due;
        }
    }
}
