/*
 * view.c -- what the core has: locks, waiters, counts. Changes nothing but cursors.
 */
#include "daemon/core/view.h"

#include "daemon/base/glob.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/cursors.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/locks.h"
#include "daemon/core/owner.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

static struct core_owner_view
owner_view(const struct claim *cl)
{
    const struct owner *o = cl->owner;

    return (struct core_owner_view){
        .id = o->id, .redis_owner = cl->redis_owner, .name = {o->name, o->name_n}, .session = o->session};
}

enum {
    SCAN_MAX = 64,    /* records that the view of one name reads from each end of a list, at most */
    COUNT_MAX = 1024, /* records of a session that are counted one by one */
};

/*
 * The number of waiters, and the longest wait among the first in the queue, which are the oldest unless Redis has
 * another order.
 */
static void
count_waiters(const struct lock *l, int64_t now_us, struct core_lock_view *v)
{
    struct list *pos = l->queue->claims.next;

    v->waiters = l->queue->waiting_n;
    for (int i = 0; i < SCAN_MAX && pos != &l->queue->claims; i++, pos = pos->next) {
        const struct claim *cl = container_of(pos, struct claim, node);
        int64_t waited_us = now_us - cl->since_us;

        if (!list_empty(&cl->requests) && waited_us > v->oldest_wait_us) {
            v->oldest_wait_us = waited_us;
        }
    }
}

/* The first claim in one of these states, if it is among the first SCAN_MAX of the list. */
static const struct claim *
scan_for(const struct list *list, unsigned states)
{
    struct list *pos = list->next;

    for (int i = 0; i < SCAN_MAX && pos != list; i++, pos = pos->next) {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (states & (1u << cl->state)) {
            return cl;
        }
    }
    return NULL;
}

/*
 * A claim that is held, and whose lease has not ended. Very many claims may have leases that have ended while their
 * timers are still due; so only some of the first and of the last claims are looked at, and NULL may be returned though
 * another claim holds the lock.
 */
static const struct claim *
first_held(const struct lock *l, int64_t now_us)
{
    struct list *pos = l->holders.next, *last = pos->prev;

    for (int i = 0; i < SCAN_MAX && pos != last; i++, pos = pos->next) {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (claim_is_held(cl, now_us)) {
            return cl;
        }
    }
    for (int i = 0; i < SCAN_MAX && pos != last; i++) {
        const struct claim *cl = container_of(last->prev, struct claim, node);

        if (claim_is_held(cl, now_us)) {
            return cl;
        }
        last = last->prev;
    }
    return NULL;
}

/* The owner and the token of a hold; also while it is being released, and after its loss until that is reported. */
static void
view_hold(const struct claim *cl, struct core_lock_view *v)
{
    v->owner = owner_view(cl);
    v->token = cl->token;
}

static void
lock_view(const struct lock *l, int64_t now_us, struct core_lock_view *v)
{
    const struct claim *first = claim_first(&l->holders, CLAIM_IN(HELD)), *holder = first_held(l, now_us);
    const struct claim *shown = holder != NULL ? holder : scan_for(&l->rest, CLAIM_LEAVING);

    *v = (struct core_lock_view){
        .name = lock_name(l), .key = lock_key(l), .kind = l->kind, .state = "idle"};
    v->limit = lock_has_limit(l) ? l->limit : 0;
    shown = shown != NULL ? shown : first != NULL ? first : scan_for(&l->rest, CLAIM_IN(LOST));
    count_waiters(l, now_us, v);
    if (holder != NULL) {
        v->state = "held";
        view_hold(holder, v);
        v->claim = claim_id(holder);
        v->holds = claim_holds(holder);
        v->holders = l->held_n;
        v->shared = holder->holds == 0;
        v->fresh = holder->fresh;
        v->deadline_us = holder->hold.deadline_us;
        v->renewed = holder->watchdog;
        v->held_us = now_us - holder->since_us;
    } else if (shown != NULL && shown->state == CLAIM_RELEASING) {
        v->state = "freeing";
        view_hold(shown, v);
    } else if (l->has_cached) {
        v->state = "lingering";
    } else if (l->queue->taken_until_us != 0) {
        v->state = "taken";
        v->deadline_us = l->queue->taken_until_us;
    } else if (l->queue->trying_n > 0 || v->waiters > 0) { /* a position that is kept without a request asks for
                                                              nothing */
        v->state = "trying";
    } else if (shown != NULL && (shown == first || shown->state == CLAIM_LOST || shown->lost)) {
        v->state = "lost";
        view_hold(shown, v);
    }
}

static void
view_waiter(const struct claim *cl, uint32_t position, int64_t now_us, core_waiter_fn *fn, void *ctx)
{
    struct core_waiter_view v = {.name = lock_name(cl->lock),
                                 .owner = owner_view(cl),
                                 .position = position,
                                 .waited_us = now_us - cl->since_us,
                                 .kept = list_empty(&cl->requests)};
    struct list *rpos, *rnxt;

    v.due_us = v.kept ? claim_kept_until_us(cl) : 0;
    list_for_each_safe(rpos, rnxt, &cl->requests)
    {
        const struct request *r = container_of(rpos, struct request, claim_node);

        v.due_us = r->due_us > v.due_us ? r->due_us : v.due_us;
        v.shared = r->shared;
    }
    fn(ctx, &v);
}

static void
waiters_of(const struct lock *l, int64_t now_us, size_t most, core_waiter_fn *fn, void *ctx)
{
    struct list *pos, *nxt;
    uint32_t position = 0;

    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        if (position == most) {
            return;
        }
        view_waiter(container_of(pos, struct claim, node), ++position, now_us, fn, ctx);
    }
}

void
core_waiters_of(const struct core *c, int64_t now_us, struct slice name, size_t most, core_waiter_fn *fn, void *ctx)
{
    const struct lock *l = lock_find(c, name);

    if (l != NULL) {
        waiters_of(l, now_us, most, fn, ctx);
    }
}

static struct core_holder_view
holder_view(const struct claim *cl, int64_t now_us)
{
    return (struct core_holder_view){.name = lock_name(cl->lock),
                                     .owner = owner_view(cl),
                                     .token = cl->token,
                                     .holds = claim_holds(cl),
                                     .shared = cl->holds == 0,
                                     .held_us = now_us - cl->since_us,
                                     .deadline_us = cl->hold.deadline_us,
                                     .claim = claim_id(cl)};
}

void
core_holders_of(const struct core *c, int64_t now_us, struct slice name, size_t most, core_holder_fn *fn, void *ctx)
{
    const struct lock *l = lock_find(c, name);
    struct list *pos, *nxt;

    if (l == NULL) {
        return;
    }
    list_for_each_safe(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);
        struct core_holder_view v = holder_view(cl, now_us);

        if (most-- == 0) {
            return;
        }
        if (claim_is_held(cl, now_us)) {
            fn(ctx, &v);
        }
    }
}

bool
core_holder_named(const struct core *c, int64_t now_us, struct slice name, struct slice owner,
                  struct core_holder_view *out)
{
    const struct lock *l = lock_find(c, name);
    const struct claim *cl = NULL;
    struct owner *o = owner_find(c, owner);

    if (l != NULL && o != NULL) {
        cl = claim_newest_held(c, l, o);
    }
    if (cl == NULL || !claim_is_held(cl, now_us)) {
        return false;
    }
    *out = holder_view(cl, now_us);
    return true;
}

/* ---- cursors ---- */

void
core_cursor_begin(struct core *c, struct core_cursor *w)
{
    cursor_begin(c, w);
}

void
core_cursor_end(struct core *c, struct core_cursor *w)
{
    cursor_end(c, w);
}

bool
core_cursor_locks(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                  core_lock_fn *fn, void *ctx)
{
    struct claim *waiter;
    struct lock *l = cursor_resume(c, w, &waiter);

    for (; n > 0 && l != NULL; n--) {
        struct core_lock_view v;

        if (glob.n == 0 || glob_match(glob, lock_name(l))) {
            lock_view(l, now_us, &v);
            fn(ctx, &v);
        }
        l = cursor_next(c, w, l, &waiter);
    }
    cursor_suspend(c, w, l, NULL);
    return l != NULL;
}

bool
core_cursor_waiters(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                    core_waiter_fn *fn, void *ctx)
{
    struct claim *cl;
    struct lock *l = cursor_resume(c, w, &cl);

    while (n > 0 && l != NULL) {
        if (cl != NULL && glob.n > 0 && !glob_match(glob, lock_name(l))) {
            cl = NULL;
        }
        for (; cl != NULL && n > 0; n--) {
            view_waiter(cl, ++w->position, now_us, fn, ctx);
            cl = cl->node.next == &l->queue->claims ? NULL : container_of(cl->node.next, struct claim, node);
        }
        if (cl == NULL) {
            n -= n > 0;
            l = cursor_next(c, w, l, &cl);
        }
    }
    cursor_suspend(c, w, l, w->position > 0 ? cl : NULL);
    return l != NULL;
}

bool
core_name_in_use(const struct core *c, struct slice name, enum kind *kind)
{
    const struct lock *l = lock_find(c, name);

    l = l != NULL && lock_is_vacant(l) ? NULL : l;
    *kind = l != NULL ? l->kind : KINDS;
    return l != NULL;
}

bool
core_lock_info(const struct core *c, int64_t now_us, struct slice name, struct core_lock_view *out)
{
    const struct lock *l = lock_find(c, name);

    if (l == NULL) {
        return false;
    }
    lock_view(l, now_us, out);
    return true;
}

/*
 * How many locks and permits this session acquired for the owner. Of an owner with more than *left claims none is
 * looked at: then all count if the session acted for the owner last, else none.
 */
static uint32_t
held_by(const struct owner *o, uint64_t session, uint32_t *left)
{
    struct list *pos, *nxt;
    uint32_t n = 0;

    if (o->claims_n > *left) {
        return o->session == session ? o->claims_n - o->cached_n : 0;
    }
    list_for_each_safe(pos, nxt, &o->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, owner_node);

        n += cl->state == CLAIM_HELD && cl->hold.session == session;
    }
    *left -= o->claims_n;
    return n;
}

struct core_session_counts
core_session_count(const struct core *c, uint64_t session)
{
    struct core_session_counts n = {0, 0};
    uint32_t left = COUNT_MAX, session_owners = COUNT_MAX;
    struct list *pos, *nxt;
    const struct core_session *s = core_session_find(c, session);

    if (s == NULL) {
        return n;
    }
    n.held = held_by(s->owner, session, &left);
    list_for_each_safe(pos, nxt, &s->session_owners)
    {
        if (session_owners-- == 0) {
            break;
        }
        n.held += held_by(container_of(pos, struct session_owner, session_node)->owner, session, &left);
    }
    list_for_each_safe(pos, nxt, &s->requests)
    {
        const struct request *r = container_of(pos, struct request, session_node);

        n.waiting += r->waiting;
    }
    return n;
}

struct core_totals
core_totals(const struct core *c)
{
    return (struct core_totals){.locks = c->locks_n,
                                .held_claims = c->held_n,
                                .waiters = c->waiting_n,
                                .owners = c->owners_n,
                                .sessions = c->sessions_n,
                                .releasing_claims = c->releasing_n,
                                .serial = c->serial};
}
