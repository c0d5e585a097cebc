/*
 * sessions.c -- how sessions begin and end, and owners with them.
 *
 * A session's own owner ends with the session. A named owner lives while it has requests or claims; when the last
 * session that used it has gone it keeps what it has for its owner grace, then ends. An owner that ends releases
 * everything and is freed when Redis has been told.
 */
#include "daemon/core/sessions.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/jobs.h"
#include "daemon/core/multilock.h"
#include "daemon/core/owner.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/turns.h"

uint64_t
core_session_open(struct core *c, uint64_t user)
{
    struct core_session *p = mem_zalloc(sizeof(*p));

    p->id = ++c->serial;
    list_init(&p->requests);
    list_init(&p->session_owners);
    job_init(&p->job, JOB_SESSION);
    p->owner = owner_new(c, p->id);
    p->owner->session = p->id;
    user_enter(c, p, user);
    map_add(&c->sessions, &p->by_id, p->id);
    c->sessions_n++;
    return p->id;
}

/* From now on the owner takes no request; what it has is given back, by its job. */
static void
owner_end(struct core *c, struct owner *o)
{
    assert(!o->ending);
    o->ending = true;
    timer_set(&c->timers, &o->timer, CORE_FOREVER);
    if (o->name != NULL) {
        map_remove(&c->owners, &o->by_name);
    }
    list_move_all(&o->unended, &o->claims);
    job_begin(c, &o->job);
}

bool
owner_release_next(struct core *c, struct owner *o)
{
    if (!list_empty(&o->unended)) {
        struct claim *cl = container_of(o->unended.next, struct claim, owner_node);

        list_remove(&cl->owner_node);
        list_push_back(&o->claims, &cl->owner_node);
        claim_catch_up(c, cl);
        requests_freed(c);
    }
    if (!list_empty(&o->unended)) {
        return true;
    }
    job_end(&o->job);
    owner_wake(c, o);
    return false;
}

/* The owner grace is over, and no session uses the owner. */
void
owner_timer(struct core *c, struct owner *o)
{
    owner_end(c, o);
}

/*
 * The session is unreachable: the locks of its own owner are given back at once, though requests of the session are
 * still to come. These get another owner, which has nothing.
 */
static void
owner_release_early(struct core *c, struct owner *o)
{
    struct core_session *p = core_session_find(c, o->session);
    struct owner *next;

    assert(p != NULL && p->owner == o);
    if (o->claims_n == 0 || !list_empty(&o->fifo)) {
        return;
    }
    next = owner_new(c, ++c->serial);
    next->session = p->id;
    next->unreachable = true;
    user_own(next, p->user);
    p->owner = next;
    owner_end(c, o);
}

/* Begins the next request in the owner's order; frees an owner of which nothing is left. */
void
owner_advance(struct core *c, struct owner *o)
{
    list_remove(&o->dirty_node);
    if (!list_empty(&o->fifo)) {
        struct request *r = order_next(c, o);

        if (r != NULL) {
            claim_catch_up(c, r->claim);
            requests_freed(c);
            request_run(c, r); /* when it finishes at once, the owner is woken again */
            if (order_next(c, o) != NULL) { /* else the request before it wakes the owner when it ends */
                owner_wake(c, o);
            }
        }
        return;
    }
    if (o->unreachable && !o->ending) {
        owner_release_early(c, o);
    }
    if (o->claims_n > 0 || job_is_pending(&o->job) || (o->name == NULL && !o->ending)) {
        return;
    }
    if (!o->ending) {
        map_remove(&c->owners, &o->by_name);
        o->ending = true;
    }
    while (!list_empty(&o->session_owners)) {
        session_owner_free(c, container_of(o->session_owners.next, struct session_owner, owner_node));
    }
    owner_free(c, o);
}

/* The session sends nothing more: none of its LOCKs goes on waiting. */
void
core_session_eof(struct core *c, struct core_session *p)
{
    struct list todo;

    list_init(&todo);
    list_move_all(&todo, &p->requests);
    while (!list_empty(&todo)) { /* the end of one request may end others */
        struct request *r = container_of(todo.next, struct request, session_node);

        list_remove(&r->session_node);
        list_push_back(&p->requests, &r->session_node);
        if (!r->waits || r->due_us <= c->now_us) {
            continue;
        }
        r->due_us = r->arrived_us; /* as if the request had never wanted to wait */
        if (r->started) {
            request_time_out(c, r);
        }
    }
}

/*
 * Ends the waiting of the request with this id; of a multilock, of all its requests. Returns the request that waits
 * now, also for an operation in flight; else one that has not begun, behind requests of its owner on other connections.
 * NULL: there is neither.
 */
static struct request *
stop_waiting(const struct core_session *p, uint64_t id)
{
    struct request *waits = NULL, *behind = NULL;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &p->requests)
    {
        struct request *r = container_of(pos, struct request, session_node);

        if (r->id != id) { /* those of a multilock stand together */
            break;
        }
        r->crowded = true;
        r->due_us = r->arrived_us;
        waits = r->started && r->waits ? r : waits;
        behind = behind == NULL && !r->started ? r : behind;
    }
    return waits != NULL ? waits : behind;
}

/*
 * No more input of the session is read before this request is answered, and that input may contain the UNLOCK for which
 * the request waits, if the session acts for several owners. (Requests of the session's own owner run in order: its
 * UNLOCK could not come first.)
 */
void
core_session_crowded(struct core *c, const struct core_session *p, uint64_t id)
{
    struct request *r = list_empty(&p->session_owners) ? NULL : stop_waiting(p, id);

    if (r == NULL) {
        return;
    }
    if (!r->started) {
        request_finish(c, r, CORE_TOO_MANY_REQUESTS, 0);
    } else if (!r->timing_out) {
        request_time_out(c, r);
    }
}

/* No answer reaches the session any more. Requests of its own owner that have arrived are still done. */
void
core_session_unreachable(struct core *c, struct core_session *p)
{
    p->owner->unreachable = true;
    owner_release_early(c, p->owner);
}

/* The session has ended: its waits are over, its own owner ends, named owners have one session less. */
void
core_session_gone(struct core *c, struct core_session *p)
{
    while (!list_empty(&p->requests)) {
        struct request *r = container_of(p->requests.next, struct request, session_node);

        if (r->multilock != NULL) {
            multilock_leave(c, r);
        } else {
            c->metrics->cancelled += r->waits;
            request_drop(c, r);
        }
    }
    owner_end(c, p->owner);
    p->owner = NULL;
    user_leave(c, p);
    map_remove(&c->sessions, &p->by_id);
    c->sessions_n--;
    job_begin(c, &p->job);
}

bool
core_session_leave_next(struct core *c, struct core_session *p)
{
    if (!list_empty(&p->session_owners)) {
        session_owner_free(c, container_of(p->session_owners.next, struct session_owner, session_node));
    }
    if (!list_empty(&p->session_owners)) {
        return true;
    }
    job_end(&p->job);
    free(p);
    return false;
}
