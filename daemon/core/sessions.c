/*
 * sessions.c -- how sessions begin and end, and owners with them.
 *
 * A session's own owner ends with the session. A named owner lives while it has requests or claims; when the last
 * session that used it has gone it keeps what it has for its owner grace, then ends. An owner that ends releases
 * everything and is freed when Redis has confirmed that.
 */
#include "daemon/core/requests.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/locks.h"
#include "daemon/core/owner.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

uint64_t
core_session_open(struct core *c, uint64_t user)
{
    struct core_session *s = mem_zalloc(sizeof(*s));

    s->id = ++c->serial;
    list_init(&s->requests);
    list_init(&s->session_owners);
    job_init(&s->job, JOB_SESSION);
    s->owner = owner_new(c, s->id);
    s->owner->session = s->id;
    user_enter(c, s, user);
    map_add(&c->sessions, &s->by_id, s->id);
    c->sessions_n++;
    return s->id;
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
    list_move_all(&o->unreleased, &o->claims);
    job_begin(c, &o->job);
}

bool
owner_release_next(struct core *c, struct owner *o)
{
    if (!list_empty(&o->unreleased)) {
        struct claim *cl = container_of(o->unreleased.next, struct claim, owner_node);

        list_remove(&cl->owner_node);
        list_push_back(&o->claims, &cl->owner_node);
        claim_catch_up(c, cl);
        requests_rerun(c);
    }
    if (!list_empty(&o->unreleased)) {
        return true;
    }
    job_end(&o->job);
    dirty_mark_owner(c, o);
    return false;
}

/* The owner grace is over, and no session uses the owner. */
void
owner_timer(struct core *c, struct owner *o)
{
    owner_end(c, o);
}

/*
 * The session is unreachable: the locks of its own owner are given back at once, though the daemon may not have read
 * all requests of the session. Requests that it reads later get another owner, which has nothing.
 */
static void
owner_release_early(struct core *c, struct owner *o)
{
    struct core_session *s = core_session_find(c, o->session);
    struct owner *next;

    assert(s != NULL && s->owner == o);
    if (o->claims_n == 0 || !list_empty(&o->fifo)) {
        return;
    }
    next = owner_new(c, ++c->serial);
    next->session = s->id;
    next->unreachable = true;
    user_add_owner(next, s->user);
    s->owner = next;
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
            requests_rerun(c);
            request_run(c, r); /* when it finishes at once, the owner is marked dirty again */
            if (order_next(c, o) != NULL) { /* else the request before it marks the owner when it ends */
                dirty_mark_owner(c, o);
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
core_session_eof(struct core *c, struct core_session *s)
{
    struct list todo;

    list_init(&todo);
    list_move_all(&todo, &s->requests);
    while (!list_empty(&todo)) { /* the end of one request may end others */
        struct request *r = container_of(todo.next, struct request, session_node);

        list_remove(&r->session_node);
        list_push_back(&s->requests, &r->session_node);
        if (!r->waiting || r->due_us <= c->now_us) {
            continue;
        }
        r->due_us = r->arrived_us; /* as if the request had never wanted to wait */
        if (r->started) {
            timing_out_begin(c, r);
        }
    }
}

/*
 * From now on the request with this id has no time to wait; nor has any request of its multilock. Returns the one that
 * waits now, also for an operation in flight; else one that has not begun, behind requests of its owner from
 * other sessions. NULL: there is neither.
 */
static struct request *
end_time_to_wait(const struct core_session *s, uint64_t id)
{
    struct request *waits = NULL, *behind = NULL;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &s->requests)
    {
        struct request *r = container_of(pos, struct request, session_node);

        if (r->id != id) { /* those of a multilock are adjacent */
            break;
        }
        r->crowded = true;
        r->due_us = r->arrived_us;
        waits = r->started && r->waiting ? r : waits;
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
core_session_crowded(struct core *c, const struct core_session *s, uint64_t id)
{
    struct request *r = list_empty(&s->session_owners) ? NULL : end_time_to_wait(s, id);

    if (r == NULL) {
        return;
    }
    if (!r->started) {
        request_finish(c, r, CORE_TOO_MANY_REQUESTS, 0);
    } else if (!r->timing_out) {
        timing_out_begin(c, r);
    }
}

/* No answer reaches the session any more. Requests of its own owner that have arrived are still done. */
void
core_session_unreachable(struct core *c, struct core_session *s)
{
    s->owner->unreachable = true;
    owner_release_early(c, s->owner);
}

/* The session has ended: its waits are over, its own owner ends, named owners have one session less. */
void
core_session_gone(struct core *c, struct core_session *s)
{
    while (!list_empty(&s->requests)) {
        struct request *r = container_of(s->requests.next, struct request, session_node);

        if (r->multilock != NULL) {
            multilock_leave(c, r);
        } else {
            c->metrics->cancelled += r->waiting;
            request_drop(c, r);
        }
    }
    owner_end(c, s->owner);
    s->owner = NULL;
    user_leave(c, s);
    map_remove(&c->sessions, &s->by_id);
    c->sessions_n--;
    job_begin(c, &s->job);
}

bool
core_session_leave_owner(struct core *c, struct core_session *s)
{
    if (!list_empty(&s->session_owners)) {
        session_owner_free(c, container_of(s->session_owners.next, struct session_owner, session_node));
    }
    if (!list_empty(&s->session_owners)) {
        return true;
    }
    job_end(&s->job);
    free(s);
    return false;
}
