/*
 * owners.c -- sessions and owners: who may hold, and in which order their requests run.
 *
 * Owns peers, ties and owners. A session's own owner ends with the session. A
 * named owner lives while it has requests or claims; when the last session that
 * used it has gone it keeps what it has for its grace, then ends. An owner that
 * ends releases everything and is freed when Redis has been told.
 */
#include <assert.h>
#include <stdlib.h>

#include "daemon/core/state.h"

struct peer *
peer_find(struct core *c, uint64_t id)
{
    struct peer *p = NULL;

    HASH_FIND_BYHASHVALUE(hh, c->peers, &id, sizeof(id), hash_id(id), p);
    return p;
}

static struct owner *
owner_new(struct core *c, uint64_t id)
{
    struct owner *o = spares_take_zeroed(&c->spares, sizeof(*o));

    if (o == NULL || !timer_init(c, &o->timer, TIMER_OWNER)) {
        spares_give(&c->spares, o, sizeof(*o));
        return NULL;
    }
    o->id = o->number = id;
    list_init(&o->fifo);
    list_init(&o->claims);
    list_init(&o->ties);
    list_init(&o->work);
    c->owners_n++;
    return o;
}

static void
owner_free(struct core *c, struct owner *o)
{
    assert(list_empty(&o->fifo) && list_empty(&o->claims) && list_empty(&o->ties));
    list_remove(&o->work);
    timer_fini(c, &o->timer);
    c->owners_n--;
    spares_give(&c->spares, o->name, o->name_n);
    spares_give(&c->spares, o, sizeof(*o));
}

uint64_t
core_session_open(struct core *c)
{
    struct peer *p = calloc(1, sizeof(*p));

    if (p == NULL) {
        return 0;
    }
    p->id = ++c->serial;
    list_init(&p->requests);
    list_init(&p->ties);
    p->owner = owner_new(c, p->id);
    if (p->owner == NULL) {
        free(p);
        return 0;
    }
    p->owner->session = p->id;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, c->peers, &p->id, sizeof(p->id), hash_id(p->id), p);
    if (p->hh.tbl == NULL) {
        owner_free(c, p->owner);
        free(p);
        return 0;
    }
    c->peers_n++;
    return p->id;
}

/* From now on the owner takes no request; what it has is given back. */
static void
owner_end(struct core *c, struct owner *o)
{
    struct list *pos, *nxt;

    assert(!o->ending);
    o->ending = true;
    timer_set(c, &o->timer, CORE_FOREVER);
    if (o->name != NULL) {
        HASH_DELETE(hh, c->owners, o);
    }
    list_each(pos, nxt, &o->claims)
    {
        claim_owner_ends(c, container_of(pos, struct claim, owner_node));
    }
    owner_wake(c, o);
}

static void
tie_free(struct core *c, struct tie *ln)
{
    struct owner *o = ln->owner;
    struct list *pos, *nxt;
    int64_t grace_us = 0;

    list_remove(&ln->peer_node);
    list_remove(&ln->owner_node);
    spares_give(&c->spares, ln, sizeof(*ln));
    if (!list_empty(&o->ties) || o->ending) {
        return;
    }
    list_each(pos, nxt, &o->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, owner_node);

        grace_us = later(grace_us, cl->lock->owner_grace_us);
    }
    timer_set(c, &o->timer, after_us(c->now_us, grace_us));
}

static bool
tie_add(struct core *c, struct peer *p, struct owner *o)
{
    struct list *pos, *nxt;
    struct tie *ln;

    list_each(pos, nxt, &p->ties)
    {
        if (container_of(pos, struct tie, peer_node)->owner == o) {
            return true;
        }
    }
    ln = spares_take_zeroed(&c->spares, sizeof(*ln));
    if (ln == NULL) {
        return false;
    }
    ln->peer = p;
    ln->owner = o;
    list_push_front(&p->ties, &ln->peer_node); /* a session mostly speaks for the owner it spoke for last */
    list_push_back(&o->ties, &ln->owner_node);
    timer_set(c, &o->timer, CORE_FOREVER);
    return true;
}

static struct owner *
owner_named(struct core *c, struct slice name, unsigned hash)
{
    struct owner *o = owner_new(c, ++c->serial);

    if (o == NULL) {
        return NULL;
    }
    o->name = spares_take(&c->spares, name.n);
    if (o->name == NULL) {
        goto fail;
    }
    memcpy(o->name, name.p, name.n);
    o->name_n = name.n;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, c->owners, o->name, o->name_n, hash, o);
    if (o->hh.tbl == NULL) {
        goto fail;
    }
    owner_wake(c, o); /* freed at the end of the step if nothing comes of it */
    return o;

fail:
    owner_free(c, o);
    return NULL;
}

/*
 * The owner a request of this session speaks for (GRANTED: *out is there); the
 * session counts as using it from now on. NOT_HELD: unknown, and not to be created.
 */
enum core_answer
owner_get(struct core *c, struct peer *p, struct slice name, bool create, struct owner **out)
{
    struct owner *o = NULL;
    unsigned hash;

    if (name.n == 0) {
        *out = p->owner;
        return CORE_GRANTED;
    }
    hash = hash_name(&c->key, name.p, name.n);
    HASH_FIND_BYHASHVALUE(hh, c->owners, name.p, name.n, hash, o);
    if (o == NULL && !create) {
        return CORE_NOT_HELD;
    }
    if (o == NULL) {
        o = owner_named(c, name, hash);
    }
    if (o == NULL || !tie_add(c, p, o)) {
        return CORE_NO_MEMORY;
    }
    o->session = p->id;
    *out = o;
    return CORE_GRANTED;
}

/* Of the process before us: the named owner, or one that has ended and goes with the last claim of it. */
struct owner *
owner_adopt(struct core *c, struct slice name)
{
    unsigned hash = hash_name(&c->key, name.p, name.n);
    struct owner *o = NULL;

    if (name.n > 0) {
        HASH_FIND_BYHASHVALUE(hh, c->owners, name.p, name.n, hash, o);
        return o != NULL ? o : owner_named(c, name, hash);
    }
    o = owner_new(c, ++c->serial);
    if (o != NULL) {
        o->ending = true;
        owner_wake(c, o);
    }
    return o;
}

/* Nobody came back for it. */
void
owner_timer(struct core *c, struct owner *o)
{
    owner_end(c, o);
}

void
owner_wake(struct core *c, struct owner *o)
{
    if (!list_linked(&o->work)) {
        list_push_back(&c->owner_work, &o->work);
    }
}

/* Runs what is next in its order; frees it when nothing is left of it. */
void
owner_work(struct core *c, struct owner *o)
{
    list_remove(&o->work);
    if (!list_empty(&o->fifo)) {
        struct request *r = container_of(o->fifo.next, struct request, fifo_node);

        if (!r->started) {
            request_run(c, r); /* when it finishes at once, the owner is woken again */
        }
        return;
    }
    if (!list_empty(&o->claims) || (o->name == NULL && !o->ending)) {
        return;
    }
    if (!o->ending) {
        HASH_DELETE(hh, c->owners, o);
        o->ending = true;
    }
    while (!list_empty(&o->ties)) {
        tie_free(c, container_of(o->ties.next, struct tie, owner_node));
    }
    owner_free(c, o);
}

/* The first that still waits although nothing more will be asked. */
static struct request *
first_waiting(struct core *c, struct peer *p)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &p->requests)
    {
        struct request *r = container_of(pos, struct request, peer_node);

        if (r->waits && r->due_us > c->now_us) {
            return r;
        }
    }
    return NULL;
}

/* Nothing more will be asked: no LOCK of this session may go on waiting. */
void
peer_eof(struct core *c, struct peer *p)
{
    struct request *r;

    while ((r = first_waiting(c, p)) != NULL) { /* the end of one may be that of others */
        r->due_us = r->arrived_us; /* as if it had never wanted to wait */
        if (r->started) {
            request_hurry(c, r);
        }
    }
}

/* The session has ended: its waits are over, its own owner ends, named owners have one session less. */
void
peer_gone(struct core *c, struct peer *p)
{
    while (!list_empty(&p->requests)) {
        struct request *r = container_of(p->requests.next, struct request, peer_node);

        if (r->bundle != NULL) {
            bundle_leave(c, r);
        } else {
            c->metrics->cancelled += r->waits;
            request_drop(c, r);
        }
    }
    while (!list_empty(&p->ties)) {
        tie_free(c, container_of(p->ties.next, struct tie, peer_node));
    }
    owner_end(c, p->owner);
    HASH_DELETE(hh, c->peers, p);
    c->peers_n--;
    free(p);
}
