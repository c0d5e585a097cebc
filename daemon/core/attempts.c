/*
 * attempts.c -- when Redis is asked for a name, for how many of those who wait here, and what an answer means for the
 * others.
 *
 * Who wants a name alone asks alone: Redis sees one asker per daemon, however many wait here. Those who can have it
 * beside each other (readers, and who wants a permit) ask together, all at the head of the queue who may, in one turn
 * of the loop: so their attempts leave as names of one call.
 *
 * A1  Who asks together are the first in the queue whom somebody waits for, in its order, and in that order Redis does
 *     it. Who comes later, or has room only later, does not ask before all of them are answered: else Redis could give
 *     him what it has just refused to somebody before him.
 * A2  Nobody asks beside who asks for an exclusive hold, or for a place; and nobody behind one who waits for that.
 * A3  Several ask only while nothing speaks against it: after an attempt that failed it is one, the first in the queue;
 *     when that one gets in, the rest follow.
 * A4  Of permits no more are asked for than can be left: the limit, less those that are held here, being given back,
 *     and asked for already.
 * A5  An outcome is that of its own claim: who waits in another one that is TRYING is told nothing before its own is
 *     there. What it says of the name goes for all: of several that failed together the earliest retry counts, the
 *     pause grows once, and what moved while any of them was under way (queue.again) has the first one ask again at
 *     once. A grant behind a failure says that there is room again.
 * A6  An attempt may leave behind releases of the name that are under way: the link keeps their order, so one trip does
 *     for both. Redis decides as ever, so nothing is believed of a release before it is answered; if it did not run,
 *     the attempt is TAKEN or unanswered, like any other, and its end has the first one ask again. But not when our run
 *     is over (handoff.max, handoff.time), or somebody is known to wait elsewhere (waiter_polls.c): then Redis says
 *     first whether he still does; and who is let in as the run ends is the last of it. Nor where Redis has a queue of
 *     its own, or knows an owner by the time alone.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/handoff.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/locks.h"
#include "daemon/core/serving.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/* In the queue without a place in Redis's, though somebody waits: it goes there at once, whoever holds the lock. */
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

/* Nothing that was heard speaks against there being room for several. */
static bool
is_open(const struct lock *l)
{
    return l->queue->taken_until_us == 0 && l->queue->last_failure == CORE_NOT_GRANTED;
}

/* A1: whether somebody may join those who are asking now. */
static bool
may_join(const struct core *c, const struct lock *l)
{
    return !l->queue->alone && l->queue->turn == c->turn && l->queue->trying_n < TOGETHER && is_open(l);
}

/* A6 */
static bool
may_leave_behind(const struct core *c, const struct lock *l)
{
    return !lock_cohort_is_over(c, l) && !l->remote_waiters && policy(l)->leave_behind;
}

/* Whether others may have what it wants beside it. */
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

    q->alone = alone;
    q->turn = c->turn;
    q->again = q->failed = false;
    claim_try(c, cl);
}

/* The next attempt, and those that may go with it, now or when it is time. */
static void
try_queue(struct core *c, struct lock *l)
{
    bool behind = may_leave_behind(c, l);
    struct queue *q = l->queue;
    struct list *pos, *nxt;

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
            timer_set(c, &q->timer, q->retry_us);
            return;
        }
        if (q->trying_n == 0) {
            try_first(c, cl, !is_open(l) || !can_share(cl));
        } else {
            claim_try(c, cl);
        }
    }
}

/*
 * Goes on with those who wait, of whom `next` is the first (NULL: nobody does). Who needs a place in Redis's queue asks
 * first and at once: that is no question of who holds the lock.
 */
void
lock_try(struct core *c, struct lock *l, struct claim *next)
{
    struct queue *q = l->queue;
    struct claim *ticketless = q->trying_n == 0 ? first_ticketless(l) : NULL, *taken;

    timer_set(c, &q->timer, CORE_FOREVER);
    if (next != NULL) {
        lock_releases_sooner(c, l);
    }
    if (next == NULL || (q->trying_n > 0 && !may_join(c, l))) {
        return;
    }
    taken = l->lingers ? lock_take_up(c, l) : NULL;
    if (taken != NULL) {
        claim_serve(c, taken);
        return;
    }
    if (ticketless == NULL) {
        try_queue(c, l);
    } else if (q->retry_us > c->now_us && q->last_failure != CORE_NOT_GRANTED) {
        timer_set(c, &q->timer, q->retry_us);
    } else {
        bool due = q->retry_us <= c->now_us;

        try_first(c, ticketless, true);
        if (ticketless != next) { /* it asks for its place only: when the first one asks is not put off by that */
            q->again = due;
            q->failed = !due;
        }
    }
}
