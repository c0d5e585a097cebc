/*
 * view.c -- looking at the core: locks, waiters, counts. Changes nothing.
 */
#include "daemon/core/view.h"

#include "daemon/base/glob.h"
#include "daemon/core/state.h"

static struct core_owner_view
owner_view(const struct claim *cl)
{
    const struct owner *o = cl->owner;

    return (struct core_owner_view){
        .id = o->id, .number = cl->number, .name = {o->name, o->name_n}, .session = o->session};
}

/* Places that somebody waits in, and the longest wait. */
static void
count_waiters(const struct lock *l, int64_t now_us, struct core_lock_view *v)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &l->queue->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, node);
        int64_t waited_us = now_us - cl->since_us;

        if (!list_empty(&cl->requests)) {
            v->waiters++;
            v->oldest_wait_us = waited_us > v->oldest_wait_us ? waited_us : v->oldest_wait_us;
        }
    }
}

static void
lock_view(const struct lock *l, int64_t now_us, struct core_lock_view *v)
{
    const struct claim *holder = claim_first(&l->holders, CLAIM_IN(HELD));
    const struct claim *told = holder != NULL ? holder : claim_first(&l->rest, CLAIM_LEAVING);

    *v = (struct core_lock_view){
        .name = lock_name(l), .key = lock_key(l), .kind = l->kind, .state = "idle"};
    v->limit = lock_is(l, KIND_F_PERMITS) ? l->limit : 0;
    told = told != NULL ? told : claim_first(&l->rest, CLAIM_IN(LOST));
    count_waiters(l, now_us, v);
    if (told != NULL && (told->state != CLAIM_SWEEP || told->lost) && told->state != CLAIM_LINGERING) {
        v->owner = owner_view(told);
        v->token = told->token;
    }
    if (holder != NULL) {
        v->state = "held";
        v->holds = claim_holds(holder);
        v->holders = l->held_n;
        v->shared = holder->holds == 0;
        v->fresh = holder->fresh;
        v->deadline_us = holder->deadline_us;
        v->renewed = holder->watchdog;
        v->held_us = now_us - holder->since_us;
    } else if (told != NULL && told->state == CLAIM_FREEING) {
        v->state = "freeing";
    } else if (l->lingers) {
        v->state = "lingering";
    } else if (l->queue->taken_until_us != 0) {
        v->state = "taken";
        v->deadline_us = l->queue->taken_until_us;
    } else if (!list_empty(&l->queue->claims)) {
        v->state = "trying";
    } else if (told != NULL && (told->state == CLAIM_LOST || told->lost)) {
        v->state = "lost";
    }
}

void
core_each_lock(const struct core *c, int64_t now_us, struct slice glob, core_lock_fn *fn, void *ctx)
{
    struct core_lock_view v;
    struct list *pos, *nxt;

    list_each(pos, nxt, &c->locks)
    {
        const struct lock *l = container_of(pos, struct lock, all);

        if (glob.n == 0 || glob_match(glob, lock_name(l))) {
            lock_view(l, now_us, &v);
            fn(ctx, &v);
        }
    }
}

static void
waiters_of(const struct lock *l, int64_t now_us, core_waiter_fn *fn, void *ctx)
{
    struct list *pos, *nxt, *rpos, *rnxt;
    uint32_t position = 0;

    list_each(pos, nxt, &l->queue->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, node);
        struct core_waiter_view v = {.name = lock_name(l),
                                     .owner = owner_view(cl),
                                     .position = ++position,
                                     .waited_us = now_us - cl->since_us,
                                     .kept = list_empty(&cl->requests)};

        v.deadline_us = v.kept ? cl->place_until_us : 0;
        list_each(rpos, rnxt, &cl->requests)
        {
            const struct request *r = container_of(rpos, struct request, claim_node);

            v.deadline_us = r->due_us > v.deadline_us ? r->due_us : v.deadline_us;
            v.shared = r->shared;
        }
        fn(ctx, &v);
    }
}

void
core_each_waiter(const struct core *c, int64_t now_us, struct slice glob, core_waiter_fn *fn, void *ctx)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &c->locks)
    {
        const struct lock *l = container_of(pos, struct lock, all);

        if (glob.n == 0 || glob_match(glob, lock_name(l))) {
            waiters_of(l, now_us, fn, ctx);
        }
    }
}

void
core_each_holder(const struct core *c, int64_t now_us, struct slice name, core_holder_fn *fn, void *ctx)
{
    const struct lock *l = lock_find(c, name);
    struct list *pos, *nxt;

    if (l == NULL) {
        return;
    }
    list_each(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        fn(ctx, &(struct core_holder_view){.name = lock_name(l),
                                           .owner = owner_view(cl),
                                           .token = cl->token,
                                           .holds = claim_holds(cl),
                                           .shared = cl->holds == 0,
                                           .held_us = now_us - cl->since_us,
                                           .deadline_us = cl->deadline_us});
    }
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

static uint32_t
held_by(const struct owner *o, uint64_t session)
{
    struct list *pos, *nxt;
    uint32_t n = 0;

    list_each(pos, nxt, &o->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, owner_node);

        n += cl->state == CLAIM_HELD && cl->session == session;
    }
    return n;
}

struct core_session_counts
core_session_count(const struct core *c, uint64_t session)
{
    struct core_session_counts n = {0, 0};
    struct list *pos, *nxt;
    struct peer *p = NULL;

    HASH_FIND_BYHASHVALUE(hh, c->peers, &session, sizeof(session), hash_id(session), p);
    if (p == NULL) {
        return n;
    }
    n.held = held_by(p->owner, session);
    list_each(pos, nxt, &p->ties)
    {
        n.held += held_by(container_of(pos, struct tie, peer_node)->owner, session);
    }
    list_each(pos, nxt, &p->requests)
    {
        const struct request *r = container_of(pos, struct request, peer_node);

        n.waiting += r->waits;
    }
    return n;
}

struct core_totals
core_totals(const struct core *c)
{
    return (struct core_totals){.locks = c->locks_n,
                                .held = c->held_n,
                                .waiters = c->waiting_n,
                                .owners = c->owners_n,
                                .sessions = c->peers_n,
                                .freeing = c->freeing_n,
                                .serial = c->serial};
}
