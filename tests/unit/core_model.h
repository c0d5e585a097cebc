/*
 * core_model.h -- a Redis of a few names, as far as the core depends on it: what the scripts of each kind do to a key,
 * in C.
 *
 * Names end in their number. An owner is identified by its daemon and its number there, a permit by its claim as well.
 * The model has no randomness and no clock: the caller decides when an operation runs, and what becomes of a wake-up.
 */
#ifndef RLOCKD_TESTS_CORE_MODEL_H
#define RLOCKD_TESTS_CORE_MODEL_H

#include <assert.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/core/core.h"

enum { MODEL_NAMES = 10, MODEL_ENTRIES = 256 };

/* The holds of a reader, of a writer, or of a permit's owner. */
struct model_hold {
    uint64_t owner, claim;
    uint32_t reads, writes;
    int64_t until_us; /* of a permit, or of read holds */
};

struct model_ticket {
    uint64_t owner;
    int64_t until_us;
};

struct model_key {
    uint64_t owner; /* kinds with one holder; 0 = free */
    uint32_t holds;
    int64_t expires_us;
    struct model_hold hold[MODEL_ENTRIES]; /* kinds with several holders */
    size_t holds_n;
    struct model_ticket ticket[MODEL_ENTRIES]; /* first come, first served */
    size_t tickets_n;
};

struct model {
    struct model_key key[MODEL_NAMES];
    uint64_t token;
    int64_t timeout_us; /* a guarded operation that is older does nothing */
    /* Wakes the subscribers of the name, or of this owner's own channel (!= 0). */
    void (*wake)(void *ctx, int name, uint64_t owner);
    size_t (*listeners)(void *ctx, int name);
    void *ctx;
    unsigned stale_heads, tickets_taken, tickets_lost, tickets_given_back; /* counters */
};

/* An operation that runs now, at now_us; d.sent_us is set. */
struct model_call {
    int daemon;
    enum core_action_type verb;
    struct core_op op;
    struct core_done *d;
    int64_t now_us;
};

static inline uint64_t
model_owner(int daemon, uint64_t number)
{
    return (uint64_t)(daemon + 1) << 40 | number;
}

static inline int
model_name(struct slice name)
{
    return name.p[name.n - 1] - '0';
}

static inline bool
model_too_late(const struct model *m, const struct model_call *c)
{
    return c->now_us > c->d->sent_us + m->timeout_us;
}

static inline void
model_grant(struct model *m, struct model_call *c)
{
    uint64_t t = (uint64_t)c->now_us;

    c->d->outcome = CORE_OK;
    if (!c->op.reentry) {
        t = t > m->token ? t : m->token + 1;
        m->token = t > c->op.token_floor ? t : c->op.token_floor + 1;
        c->d->token = m->token;
    }
}

static inline void
model_lengthen(const struct model_call *c, int64_t *expires_us)
{
    int64_t at_us = c->now_us + c->op.lease_us;

    if (c->op.exact || at_us > *expires_us) {
        *expires_us = at_us;
    }
}

static inline void
model_taken(struct model_call *c, int64_t until_us)
{
    c->d->outcome = CORE_TAKEN;
    c->d->pttl_us = until_us - c->now_us > US_PER_MS ? until_us - c->now_us : US_PER_MS;
}

/* ---- one holder ---- */

static inline bool
model_is_held(const struct model_key *k, int64_t now_us)
{
    return k->owner != 0 && now_us < k->expires_us;
}

static inline bool
model_is_mine(const struct model_key *k, const struct model_call *c)
{
    if (!model_is_held(k, c->now_us)) {
        return false;
    }
    return c->op.kind == KIND_COUNTER ? c->op.expiry_ms == k->expires_us
                                      : k->owner == model_owner(c->daemon, c->op.owner);
}

static inline void
model_acquire_one(struct model *m, struct model_key *k, struct model_call *c)
{
    bool same = model_is_mine(k, c) && c->op.kind != KIND_COUNTER;

    if (c->op.reentry && !same) {
        c->d->outcome = CORE_GONE_IN_REDIS;
    } else if (model_is_held(k, c->now_us) && !same) {
        model_taken(c, k->expires_us);
    } else {
        k->expires_us = same ? k->expires_us : 0;
        model_lengthen(c, &k->expires_us);
        k->owner = model_owner(c->daemon, c->op.owner);
        k->holds = c->op.holds;
        c->d->expiry_ms = k->expires_us;
        model_grant(m, c);
    }
}

static inline void
model_extend_one(struct model_key *k, struct model_call *c)
{
    if (!model_is_mine(k, c)) {
        c->d->outcome = CORE_GONE_IN_REDIS;
        return;
    }
    model_lengthen(c, &k->expires_us);
    c->d->expiry_ms = k->expires_us;
}

/* ---- tickets ---- */

static inline struct model_ticket *
model_ticket_of(struct model_key *k, uint64_t owner)
{
    for (size_t i = 0; i < k->tickets_n; i++) {
        if (k->ticket[i].owner == owner) {
            return &k->ticket[i];
        }
    }
    return NULL;
}

/* The number of heads of the queue whose time is over; `owner` asks, so its ticket counts as alive. */
static inline size_t
model_stale(const struct model_key *k, uint64_t owner, int64_t now_us)
{
    size_t n = 0;

    while (n < k->tickets_n && k->ticket[n].owner != owner && k->ticket[n].until_us <= now_us) {
        n++;
    }
    return n;
}

static inline void
model_call_head(struct model *m, const struct model_key *k, int name)
{
    if (k->tickets_n > 0) {
        m->wake(m->ctx, name, k->ticket[0].owner);
    }
}

static inline void
model_drop(struct model *m, struct model_key *k, int name, size_t stale, int64_t now_us)
{
    memmove(k->ticket, k->ticket + stale, (k->tickets_n - stale) * sizeof(k->ticket[0]));
    k->tickets_n -= stale;
    m->stale_heads += (unsigned)stale;
    if (stale > 0 && !model_is_held(k, now_us)) {
        m->wake(m->ctx, name, 0);
        model_call_head(m, k, name);
    }
}

static inline bool
model_leave(struct model_key *k, uint64_t owner)
{
    struct model_ticket *p = model_ticket_of(k, owner);

    if (p == NULL) {
        return false;
    }
    memmove(p, p + 1, (size_t)(k->ticket + k->tickets_n - (p + 1)) * sizeof(*p));
    k->tickets_n--;
    return true;
}

static inline void
model_acquire_fair(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    uint64_t owner = model_owner(c->daemon, c->op.owner);
    size_t stale = model_stale(k, owner, c->now_us);
    bool next = stale == k->tickets_n || k->ticket[stale].owner == owner;
    bool held = model_is_held(k, c->now_us);
    struct model_ticket *p = model_ticket_of(k, owner);
    int64_t until_us = c->now_us + c->op.lease_us;

    if (c->op.reentry || (held ? model_is_mine(k, c) : next)) {
        model_acquire_one(m, k, c);
        if (!c->op.reentry) {
            model_drop(m, k, name, stale, c->now_us);
            model_leave(k, owner);
        }
        return;
    }
    model_taken(c, held ? k->expires_us : k->ticket[stale].until_us);
    if (c->op.ticket && p != NULL) {
        p->until_us = until_us > p->until_us ? until_us : p->until_us;
    } else if (c->op.ticket) {
        assert(k->tickets_n < MODEL_ENTRIES);
        k->ticket[k->tickets_n++] = (struct model_ticket){owner, until_us};
        m->tickets_taken++;
    }
    c->d->has_ticket = c->op.ticket || p != NULL;
    model_drop(m, k, name, stale, c->now_us);
}

static inline void
model_extend_ticket(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    uint64_t owner = model_owner(c->daemon, c->op.owner);
    struct model_ticket *p = model_ticket_of(k, owner);
    int64_t until_us = c->now_us + c->op.lease_us;

    if (p == NULL) {
        m->tickets_lost++;
        c->d->outcome = CORE_GONE_IN_REDIS;
    } else if (until_us > p->until_us) {
        p->until_us = until_us;
    }
    model_drop(m, k, name, model_stale(k, owner, c->now_us), c->now_us);
}

static inline void
model_release_one(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    bool mine = model_is_mine(k, c), has_ticket;

    if (c->op.holds > 0) {
        k->holds = mine ? c->op.holds : k->holds;
        model_extend_one(k, c);
        return;
    }
    k->owner = mine ? 0 : k->owner;
    has_ticket = model_leave(k, model_owner(c->daemon, c->op.owner));
    m->tickets_given_back += has_ticket;
    model_drop(m, k, name, model_stale(k, 0, c->now_us), c->now_us);
    if (!mine && !has_ticket) {
        c->d->outcome = CORE_GONE_IN_REDIS;
    } else if (!model_is_held(k, c->now_us)) {
        c->d->remote_subscribers = (int64_t)m->listeners(m->ctx, name);
        m->wake(m->ctx, name, 0);
        model_call_head(m, k, name);
    }
}

/* ---- several holders ---- */

static inline struct model_hold *
model_hold_of(struct model_key *k, const struct model_call *c)
{
    for (size_t i = 0; i < k->holds_n; i++) {
        struct model_hold *h = &k->hold[i];

        if (h->owner == model_owner(c->daemon, c->op.owner) &&
            (c->op.kind != KIND_SEMAPHORE || h->claim == c->op.claim)) {
            return h;
        }
    }
    return NULL;
}

static inline struct model_hold *
model_enter(struct model_key *k, const struct model_call *c)
{
    struct model_hold *h = model_hold_of(k, c);

    if (h == NULL) {
        assert(k->holds_n < MODEL_ENTRIES);
        h = &k->hold[k->holds_n++];
        *h = (struct model_hold){.owner = model_owner(c->daemon, c->op.owner), .claim = c->op.claim};
    }
    return h;
}

static inline void
model_exit(struct model_key *k, struct model_hold *h)
{
    *h = k->hold[--k->holds_n];
}

static inline bool
model_is_written(const struct model_key *k)
{
    return k->holds_n > 0 && k->hold[0].writes > 0;
}

static inline void
model_acquire_rw(struct model *m, struct model_key *k, struct model_call *c)
{
    struct model_hold *h;

    k->holds_n = c->now_us < k->expires_us ? k->holds_n : 0;
    h = model_hold_of(k, c);
    if (c->op.reentry && h == NULL) {
        c->d->outcome = CORE_GONE_IN_REDIS;
        return;
    }
    if (k->holds_n > 0 && (model_is_written(k) ? h == NULL : !c->op.shared)) {
        model_taken(c, k->expires_us);
        c->d->holders = (int64_t)k->holds_n;
        return;
    }
    k->expires_us = k->holds_n > 0 ? k->expires_us : 0;
    h = model_enter(k, c);
    if (c->op.shared) {
        h->reads = c->op.holds;
        h->until_us = h->until_us > c->now_us + c->op.lease_us ? h->until_us : c->now_us + c->op.lease_us;
    } else {
        h->writes = c->op.holds;
    }
    model_lengthen(c, &k->expires_us);
    c->d->expiry_ms = k->expires_us;
    model_grant(m, c);
}

static inline int64_t
model_longest(const struct model_key *k, const struct model_hold *but)
{
    int64_t us = 0;

    for (size_t i = 0; i < k->holds_n; i++) {
        us = &k->hold[i] != but && k->hold[i].until_us > us ? k->hold[i].until_us : us;
    }
    return us;
}

static inline void
model_extend_rw(struct model_key *k, struct model_call *c)
{
    struct model_hold *h = c->now_us < k->expires_us ? model_hold_of(k, c) : NULL;
    int64_t until_us = c->now_us + c->op.lease_us, others_us;

    if (h == NULL) {
        c->d->outcome = CORE_GONE_IN_REDIS;
        return;
    }
    if (h->reads > 0) {
        h->until_us = c->op.exact || until_us > h->until_us ? until_us : h->until_us;
    }
    others_us = model_longest(k, h);
    model_lengthen(c, &k->expires_us);
    k->expires_us = k->expires_us > others_us ? k->expires_us : others_us;
    c->d->expiry_ms = until_us;
}

static inline void
model_release_rw(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    struct model_hold *h = c->now_us < k->expires_us ? model_hold_of(k, c) : NULL;
    uint32_t reads = c->op.shared ? c->op.holds : c->op.other_sort;
    uint32_t writes = c->op.shared ? c->op.other_sort : c->op.holds;
    bool wrote, whole;

    if (h == NULL) {
        c->d->outcome = CORE_GONE_IN_REDIS;
        return;
    }
    wrote = h->writes > 0 && writes == 0;
    whole = (h->reads > 0 || reads == 0) && (h->writes > 0 || writes == 0);
    h->reads = h->reads > 0 ? reads : 0;
    h->writes = h->writes > 0 ? writes : 0;
    c->d->outcome = whole ? CORE_OK : CORE_GONE_IN_REDIS;
    if (h->reads + h->writes > 0) {
        model_lengthen(c, &k->expires_us);
        if (h->reads > 0 && h->until_us < c->now_us + c->op.lease_us) {
            h->until_us = c->now_us + c->op.lease_us;
        }
        c->d->expiry_ms = k->expires_us;
    } else {
        model_exit(k, h);
        k->expires_us = k->holds_n > 0 ? model_longest(k, NULL) : 0;
        k->holds_n = c->now_us < k->expires_us ? k->holds_n : 0;
    }
    if (wrote || k->holds_n == 0) {
        c->d->remote_subscribers = (int64_t)m->listeners(m->ctx, name);
        m->wake(m->ctx, name, 0);
    }
}

static inline void
model_acquire_permit(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    struct model_hold *h = model_hold_of(k, c);
    int64_t nearest_us = CORE_FOREVER;
    size_t before = k->holds_n;

    for (size_t i = k->holds_n; h == NULL && i-- > 0;) {
        if (k->hold[i].until_us <= c->now_us) {
            model_exit(k, &k->hold[i]);
        }
    }
    for (size_t i = 0; i < k->holds_n; i++) {
        nearest_us = k->hold[i].until_us < nearest_us ? k->hold[i].until_us : nearest_us;
    }
    if (h == NULL && k->holds_n >= c->op.limit) {
        model_taken(c, nearest_us);
        c->d->holders = (int64_t)k->holds_n;
    } else {
        h = model_enter(k, c);
        model_lengthen(c, &h->until_us);
        c->d->expiry_ms = h->until_us;
        model_grant(m, c);
    }
    if (k->holds_n < before && k->holds_n < c->op.limit) {
        m->wake(m->ctx, name, 0);
    }
}

static inline void
model_extend_permit(struct model_key *k, struct model_call *c)
{
    struct model_hold *h = model_hold_of(k, c);

    if (h == NULL) {
        c->d->outcome = CORE_GONE_IN_REDIS;
        return;
    }
    model_lengthen(c, &h->until_us);
    c->d->expiry_ms = h->until_us;
}

static inline void
model_release_permit(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    struct model_hold *h = model_hold_of(k, c);

    if (h == NULL || h->until_us <= c->now_us) {
        c->d->outcome = CORE_GONE_IN_REDIS;
    }
    if (h != NULL) {
        model_exit(k, h);
        c->d->remote_subscribers = (int64_t)m->listeners(m->ctx, name);
        m->wake(m->ctx, name, 0);
    }
}

/* ---- all kinds ---- */

/* Whether there is a hold that has not expired. */
static inline bool
model_is_held_by_any(const struct model_key *k, enum kind kind, int64_t now_us)
{
    bool held = model_is_held(k, now_us);

    for (size_t i = 0; i < k->holds_n; i++) {
        held |= now_us < (kind == KIND_RW ? k->expires_us : k->hold[i].until_us);
    }
    return held;
}

static inline void
model_clear(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    c->d->expiry_ms = model_is_held_by_any(k, c->op.kind, c->now_us);
    k->owner = 0;
    k->holds_n = 0;
    m->wake(m->ctx, name, 0);
    model_call_head(m, k, name);
}

static inline void
model_acquire(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    if (model_too_late(m, c)) {
        c->d->outcome = CORE_DOWN;
    } else if (c->op.kind == KIND_RW) {
        model_acquire_rw(m, k, c);
    } else if (c->op.kind == KIND_SEMAPHORE) {
        model_acquire_permit(m, k, name, c);
    } else if (c->op.kind == KIND_FAIR) {
        model_acquire_fair(m, k, name, c);
    } else {
        model_acquire_one(m, k, c);
    }
}

static inline void
model_extend(struct model *m, struct model_key *k, int name, struct model_call *c)
{
    if (c->op.exact && model_too_late(m, c)) {
        c->d->outcome = CORE_DOWN;
    } else if (c->op.ticket) {
        model_extend_ticket(m, k, name, c);
    } else if (c->op.kind == KIND_RW) {
        model_extend_rw(k, c);
    } else if (c->op.kind == KIND_SEMAPHORE) {
        model_extend_permit(k, c);
    } else {
        model_extend_one(k, c);
    }
}

/* The operation runs; its outcome is in c->d. */
static inline void
model_runs(struct model *m, struct model_call *c)
{
    int name = model_name(c->op.key);
    struct model_key *k = &m->key[name];

    c->d->outcome = CORE_OK;
    switch (c->verb) {
    case CORE_ACQUIRE:
        model_acquire(m, k, name, c);
        break;
    case CORE_EXTEND:
        model_extend(m, k, name, c);
        break;
    case CORE_RELEASE:
        if ((c->op.holds > 0 || c->op.other_sort > 0) && model_too_late(m, c)) { /* a release of a part is guarded */
            c->d->outcome = CORE_DOWN;
        } else if (c->op.kind == KIND_RW) {
            model_release_rw(m, k, name, c);
        } else if (c->op.kind == KIND_SEMAPHORE) {
            model_release_permit(m, k, name, c);
        } else {
            model_release_one(m, k, name, c);
        }
        break;
    default: /* BREAK_KEY */
        model_clear(m, k, name, c);
        break;
    }
}

#endif
