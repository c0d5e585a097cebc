/*
 * owners.c -- how owners are found, made and freed; sessions.c has how they end.
 */
#include "daemon/core/owners.h"

#include <assert.h>

#include "daemon/core/act.h"
#include "daemon/core/bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/graph.h"
#include "daemon/core/jobs.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

struct core_session *
core_session_find(const struct core *c, uint64_t id)
{
    struct map_node *n = map_find(&c->sessions, id);

    return n != NULL ? container_of(n, struct core_session, by_id) : NULL;
}

struct owner *
owner_new(struct core *c, uint64_t id)
{
    struct owner *o = freelist_take_zeroed(&c->freelist, sizeof(*o));

    timer_init(&o->timer, TIMER_OWNER);
    o->id = o->redis_owner = id;
    list_init(&o->fifo);
    list_init(&o->claims);
    list_init(&o->unreleased);
    list_init(&o->lost);
    list_init(&o->losses_node);
    job_init(&o->job, JOB_OWNER);
    list_init(&o->session_owners);
    list_init(&o->dirty_node);
    c->owners_n++;
    return o;
}

/*
 * A daemon that restarts again and again would give a vanished owner a new owner grace each time. So the end of the
 * grace is recorded: it counts from the end of the last session, or from the first start since. It is not recorded in a
 * drain: then sessions end because the daemon does, and the owner grace begins with the next process.
 */
static void
owner_store_checkpoint(struct core *c, struct owner *o, int64_t owner_grace_until_us)
{
    struct core_action a = {.type = CORE_STORE_OWNER};

    o->owner_grace_until_us = c->conf.stores_checkpoints && !c->draining && o->claims_n > 0 ? owner_grace_until_us : 0;
    if (o->owner_grace_until_us != 0) {
        a.store_owner = (struct core_owner_checkpoint){o->id, {o->name, o->name_n}, owner_grace_until_us};
        core_act(c, &a);
    }
}

static void
owner_drop_checkpoint(struct core *c, struct owner *o)
{
    if (o->owner_grace_until_us != 0) {
        o->owner_grace_until_us = 0;
        core_act(c, &(struct core_action){.type = CORE_DROP_OWNER, .drop = o->id});
    }
}

void
owner_begin_grace(struct core *c, struct owner *o, int64_t owner_grace_until_us)
{
    timer_set(&c->timers, &o->timer, owner_grace_until_us);
    owner_store_checkpoint(c, o, owner_grace_until_us);
}

void
owner_free(struct core *c, struct owner *o)
{
    owner_drop_checkpoint(c, o);
    assert(list_empty(&o->fifo) && list_empty(&o->claims) && list_empty(&o->unreleased));
    assert(list_empty(&o->session_owners));
    job_end(&o->job);
    list_remove(&o->dirty_node);
    graph_owner_freed(c, o);
    user_remove_owner(c, o);
    timer_fini(&c->timers, &o->timer);
    c->owners_n--;
    freelist_give(&c->freelist, o->name, o->name_n);
    freelist_give(&c->freelist, o, sizeof(*o));
}

/*
 * Raises the owner's grace to that of the lock, or to the longer one that its request asks for. The longer one is this
 * owner's alone: when another owner vanishes, waiters for the lock wait no longer than the lock's grace.
 */
bool
owner_raise_grace(struct owner *o, const struct lock *l, int64_t asked_us)
{
    uint32_t before_us = o->owner_grace_us;

    o->owner_grace_us = (uint32_t)later(o->owner_grace_us, later(l->owner_grace_us, clamp_us(asked_us, GRACE_MAX_US)));
    return o->owner_grace_us > before_us;
}

void
session_owner_free(struct core *c, struct session_owner *so)
{
    struct owner *o = so->owner;

    map_remove(&c->session_owners, &so->by_pair);
    list_remove(&so->session_node);
    list_remove(&so->owner_node);
    user_count_session_owner(so->session, -1);
    freelist_give(&c->freelist, so, sizeof(*so));
    if (list_empty(&o->session_owners) && !o->ending) {
        owner_begin_grace(c, o, after_us(c->now_us, o->owner_grace_us));
    }
}

static uint64_t
pair_of(const struct core *c, const struct core_session *s, const struct owner *o)
{
    const uint64_t ids[] = {s->id, o->id};

    return hash_bytes(&c->key, ids, sizeof(ids));
}

/*
 * Finds the record by the pair: a session may use very many owners, and an owner be used by very many sessions. False:
 * there is none, and there may not be one more. The other limits do not bound these records: there may be as many
 * as sessions times named owners.
 */
static bool
session_owner_add(struct core *c, struct core_session *s, struct owner *o)
{
    uint64_t pair = pair_of(c, s, o);
    struct map_node *n = map_find(&c->session_owners, pair);
    struct session_owner *so;

    for (; n != NULL; n = map_next(n)) {
        so = container_of(n, struct session_owner, by_pair);
        if (so->session == s && so->owner == o) {
            return true;
        }
    }
    if (!user_has_room(c, s->user, c->conf.session_owners_max, c->session_owners.count, user_session_owners(s))) {
        return false;
    }
    so = freelist_take(&c->freelist, sizeof(*so));
    map_add(&c->session_owners, &so->by_pair, pair);
    so->session = s;
    so->owner = o;
    list_push_back(&s->session_owners, &so->session_node);
    list_push_back(&o->session_owners, &so->owner_node);
    user_count_session_owner(s, 1);
    timer_set(&c->timers, &o->timer, CORE_FOREVER);
    owner_drop_checkpoint(c, o);
    return true;
}

struct owner *
owner_find(const struct core *c, struct slice name)
{
    struct map_node *n = map_find(&c->owners, hash_bytes(&c->key, name.p, name.n));

    for (; n != NULL; n = map_next(n)) {
        struct owner *o = container_of(n, struct owner, by_name);

        if (slice_eq((struct slice){o->name, o->name_n}, name)) {
            return o;
        }
    }
    return NULL;
}

static struct owner *
owner_named(struct core *c, struct slice name)
{
    struct owner *o = owner_new(c, ++c->serial);

    o->name = freelist_take(&c->freelist, name.n);
    memcpy(o->name, name.p, name.n);
    o->name_n = name.n;
    map_add(&c->owners, &o->by_name, hash_bytes(&c->key, name.p, name.n));
    dirty_mark_owner(c, o); /* freed at the end of the step if nothing comes of it */
    return o;
}

/*
 * Finds or makes the owner for which a request of this session acts. GRANTED: *out; the session uses the owner from now
 * on, whatever becomes of the request. NOT_HELD: the owner is unknown, and not to be made. TOO_MANY_OWNERS: the session
 * does not use it.
 */
enum core_answer
owner_get(struct core *c, struct core_session *s, struct slice name, bool create, struct owner **out)
{
    struct owner *o;

    if (name.n == 0) {
        *out = s->owner;
        return CORE_GRANTED;
    }
    o = owner_find(c, name);
    if (o == NULL && !create) {
        return CORE_NOT_HELD;
    }
    if (o == NULL) {
        o = owner_named(c, name);
    }
    if (!session_owner_add(c, s, o)) {
        return CORE_TOO_MANY_OWNERS; /* an owner that was made is freed at the end of the step */
    }
    o->session = s->id;
    user_add_owner(o, s->user);
    *out = o;
    return CORE_GRANTED;
}

void
owner_used(struct core *c, const struct core_request *rq)
{
    struct core_session *s = core_session_find(c, rq->session);
    struct owner *o;

    if (s != NULL) {
        (void)owner_get(c, s, rq->owner, false, &o);
    }
}

/* The owner of a restored claim: the named owner, or one that has ended and is freed with its last claim. */
struct owner *
owner_restore(struct core *c, struct slice name)
{
    struct owner *o;

    if (name.n > 0) {
        o = owner_find(c, name);
        return o != NULL ? o : owner_named(c, name);
    }
    o = owner_new(c, ++c->serial);
    o->ending = true;
    dirty_mark_owner(c, o);
    return o;
}
