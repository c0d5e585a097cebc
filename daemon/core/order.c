/*
 * order.c -- the order in which the requests of one owner begin, and which of them run side by side.
 *
 * owner.fifo has them in order of arrival. They begin in that order, so those that have begun are the first ones; a
 * request begins when each one before it has been answered, or may run beside it, by the rules below.
 */
#include <assert.h>

#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/*
 * O1  A LOCK that may wait runs alone, and so does each name of an MLOCK. So nothing behind a wait begins before the
 *     wait is over, and an owner waits for one name at a time (deadlock.c).
 * O2  Of one name one request runs at a time.
 * O3  LOCKs that cannot wait run beside each other. They also run behind UNLOCKs whose releases are in flight: releases
 *     leave before attempts (shard_calls.c, SC3).
 * O4  UNLOCKs run behind UNLOCKs of locks of the same kind, whose releases are in flight: one link keeps the order of
 *     one kind's releases, so an owner that is granted the later name finds the earlier one free. Never behind a LOCK:
 *     an owner that goes from one name to the next must not be without both.
 * O5  RENEWs run beside RENEWs.
 *
 * Where operations go by several links (core_conf.one_link is false) they have no order: nothing runs behind an UNLOCK.
 * O4 does not hold for a release that Redis does not run when it is first sent: it is lost with a link, unanswered, or
 * refused (busy, a key that the ACL forbids). Such a release is sent again, behind later ones that were sent once.
 */

enum { SIDE_BY_SIDE = 64 }; /* requests of one owner, at most: they are looked at one by one */

static bool
may_wait(const struct request *r)
{
    return r->verb == CORE_LOCK && (r->blocking || r->multilock != NULL);
}

/* The release that the UNLOCK asks for is in flight. */
static bool
is_sent(const struct request *r)
{
    return r->claim->op != 0 && claim_op_request(r->claim) == r;
}

/* Whether r can run beside `before`, by what does not change while `before` runs. */
static bool
can_run_beside(const struct core *c, const struct request *before, const struct request *r)
{
    if (may_wait(before) || may_wait(r) || before->claim->lock == r->claim->lock ||
        (before->verb == CORE_UNLOCK && !c->conf.one_link)) {
        return false;
    }
    switch (r->verb) {
    case CORE_LOCK:
        return before->verb != CORE_RENEW;
    case CORE_UNLOCK:
        return before->verb == CORE_UNLOCK && before->claim->lock->kind == r->claim->lock->kind;
    default:
        return before->verb == r->verb;
    }
}

/* The next request to begin; NULL: all have begun, or as many as may run side by side. */
static struct request *
first_to_begin(const struct owner *o)
{
    struct list *pos = o->fifo.next;

    if (list_empty(&o->fifo) || container_of(o->fifo.prev, struct request, fifo_node)->started) {
        return NULL;
    }
    for (int n = 0; n < SIDE_BY_SIDE; n++, pos = pos->next) {
        struct request *r = container_of(pos, struct request, fifo_node);

        if (!r->started) {
            return r;
        }
    }
    return NULL;
}

struct request *
order_next(const struct core *c, const struct owner *o)
{
    struct request *r = first_to_begin(o);

    for (struct list *pos = o->fifo.next; r != NULL && pos != &r->fifo_node; pos = pos->next) {
        const struct request *before = container_of(pos, struct request, fifo_node);

        if (!can_run_beside(c, before, r) || (before->verb == CORE_UNLOCK && !is_sent(before))) {
            return NULL;
        }
    }
    return r;
}

void
order_check(const struct core *c, const struct owner *o)
{
    bool begun = true;
    int n = 0;

    assert(!o->ending || list_empty(&o->fifo));
    for (struct list *pos = o->fifo.next; pos != &o->fifo; pos = pos->next) {
        const struct request *r = container_of(pos, struct request, fifo_node);

        assert(r->owner == o && (begun || !r->started));
        begun = r->started;
        n += begun;
        for (struct list *at = o->fifo.next; begun && at != pos; at = at->next) {
            assert(can_run_beside(c, container_of(at, struct request, fifo_node), r));
        }
    }
    assert(n <= SIDE_BY_SIDE && (n > 0 || list_empty(&o->fifo)));
}
