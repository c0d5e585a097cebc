/*
 * trail.c -- deadlocks over several daemons, found by edge chasing (Chandy, Misra and Haas 1983).
 *
 * A wait older than deadlock_us, of an owner that holds something, starts a search. Its path, the trail, is extended on
 * this daemon up to names that are held elsewhere, then broadcast; the daemon of a holder extends it further. A trail
 * that comes back to its start is a cycle, unless one of its waits has ended meanwhile: so the start searches again,
 * and believes a cycle only if two searches have found the same waits, which then all lasted from one search to the
 * next. Searches have numbers; only the newest one of a wait counts. Several starts may find the same cycle: all name
 * the same victim, whose daemon answers DEADLOCK if that very wait still lasts.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/broadcast.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"
#include "daemon/core/waits.h"

enum { STEPS_MAX = 64 }; /* owners on one daemon's part of one search */

/* One owner on the trail, which waits for `name`. Slices point into records of this step, or into the received text. */
struct trail_hop {
    struct slice daemon;
    uint64_t owner, wait;
    uint64_t shared; /* 1: it wants a shared hold, and does not wait for shared holders */
    struct slice name, key;
};

struct trail {
    uint64_t search; /* number of the search; request.trail_search of the first wait */
    struct trail_hop hop[HOPS_MAX];
    size_t n;
};

/* ---- a trail as a broadcast: the number of the search, then six words for each owner ---- */

static void
broadcast_trail(struct core *c, const struct trail *t, enum broadcast_type what)
{
    broadcast_begin(c, what);
    broadcast_number(c, t->search);
    for (size_t i = 0; i < t->n; i++) {
        const struct trail_hop *h = &t->hop[i];

        broadcast_word(c, h->daemon);
        broadcast_number(c, h->owner);
        broadcast_number(c, h->wait);
        broadcast_number(c, h->shared);
        broadcast_word(c, h->name);
        broadcast_word(c, h->key);
    }
    broadcast_send(c); /* not if the names are too long: a deadlock of such waits ends by their timeouts */
}

/* False: the text is no trail. */
static bool
read_trail(struct slice text, struct trail *t)
{
    t->n = 0;
    if (!broadcast_take_number(&text, &t->search)) {
        return false;
    }
    while (text.n > 0) {
        struct trail_hop *h = &t->hop[t->n];

        if (t->n == HOPS_MAX || !broadcast_take_word(&text, &h->daemon) || !broadcast_take_number(&text, &h->owner) ||
            !broadcast_take_number(&text, &h->wait) || !broadcast_take_number(&text, &h->shared) ||
            !broadcast_take_word(&text, &h->name) || !broadcast_take_word(&text, &h->key)) {
            return false;
        }
        t->n++;
    }
    return t->n > 0;
}

/* ---- over several daemons ---- */

static bool
hop_is_owner(const struct core *c, const struct trail_hop *h, const struct owner *o)
{
    return h->owner == o->id && slice_eq(h->daemon, broadcast_self(c));
}

static bool
is_on_trail(const struct core *c, const struct trail *t, const struct owner *o)
{
    for (size_t i = 0; i < t->n; i++) {
        if (hop_is_owner(c, &t->hop[i], o)) {
            return true;
        }
    }
    return false;
}

/* A trail is about to name this wait: indexes it. A wait of a session's own owner is found by the session. */
static void
index_wait(struct core *c, struct request *r)
{
    if (!r->in_trail && r->owner->name != NULL) {
        map_add(&c->trail_waits, &r->by_wait, r->serial);
        r->in_trail = true;
    }
}

static struct request *
find_wait(struct core *c, const struct trail_hop *h)
{
    struct map_node *n = map_find(&c->trail_waits, h->wait);
    const struct core_session *session;

    if (n != NULL) {
        return container_of(n, struct request, by_wait);
    }
    session = core_session_find(c, h->owner);
    return session != NULL ? wait_of_owner(session->owner) : NULL;
}

/* The wait here that a hop names; NULL: it has ended. */
static struct request *
still_waits(struct core *c, const struct trail_hop *h)
{
    struct request *r = slice_eq(h->daemon, broadcast_self(c)) ? find_wait(c, h) : NULL;
    bool same = r != NULL && r->serial == h->wait && r->owner->id == h->owner && wait_of_owner(r->owner) == r;

    return same && slice_eq(lock_name(r->claim->lock), h->name) ? r : NULL;
}

/* One total order of the owners of all daemons, also if one uuid is a prefix of another. */
static bool
comes_after(const struct trail_hop *a, const struct trail_hop *b)
{
    size_t n = a->daemon.n < b->daemon.n ? a->daemon.n : b->daemon.n;
    int cmp = memcmp(a->daemon.p, b->daemon.p, n);

    if (cmp == 0 && a->daemon.n != b->daemon.n) {
        return a->daemon.n > b->daemon.n;
    }
    return cmp != 0 ? cmp > 0 : a->owner > b->owner;
}

/* The victim of the cycle, on which all daemons agree: the last owner in their common order. */
static size_t
victim_of(const struct trail *t)
{
    size_t victim = 0;

    for (size_t i = 1; i < t->n; i++) {
        victim = comes_after(&t->hop[i], &t->hop[victim]) ? i : victim;
    }
    return victim;
}

/* Answers DEADLOCK if the victim is an owner here, and its wait and all other waits here on the cycle still last. */
static void
answer_victim(struct core *c, const struct trail *t)
{
    size_t victim = victim_of(t);
    struct request *r = still_waits(c, &t->hop[victim]);
    struct core_hop hop[HOPS_MAX];

    if (r == NULL || t->n < 2) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        const struct trail_hop *h = &t->hop[(victim + i) % t->n];
        const struct request *waits = still_waits(c, h); /* NULL: not here */

        if (waits == NULL && slice_eq(h->daemon, broadcast_self(c))) {
            return;
        }
        hop[i] = (struct core_hop){.daemon = h->daemon, .owner = h->owner, .name = h->name};
        if (waits != NULL) {
            hop[i] = wait_hop(waits->owner, waits->claim->lock);
        }
    }
    request_deadlock(c, r, hop, t->n);
}

static void follow(struct core *c, struct trail t, const struct owner *o, int *steps);

/*
 * Whether a cycle may go through the holders here. Not through one of several permits: only a daemon that has all of
 * them can find out whether all are stuck.
 */
static bool
may_follow(const struct lock *l)
{
    return l->held_n > 0 && (!policy(l)->any_makes_room || l->held_n == 1);
}

/* Broadcasts the trail, for the daemon that holds the name. */
static void
send_to_holder(struct core *c, const struct trail *t, const struct lock *l)
{
    bool taken = l->queue->taken_until_us != 0;

    if (policy(l)->any_makes_room ? taken && l->queue->redis_holders_n <= 1 : taken || l->held_n > 0) {
        broadcast_trail(c, t, BROADCAST_TRAIL);
    }
}

/* The trail is back at its start, in this daemon. The cycle is believed when the search before has found it too. */
static void
close_cycle(struct core *c, const struct trail *t)
{
    struct request *r = still_waits(c, &t->hop[0]);
    uint64_t sum = 0;

    if (r == NULL || r->trail_search != t->search) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        struct { uint64_t sum, owner, wait, daemon; } in = {
            sum, t->hop[i].owner, t->hop[i].wait, hash_bytes(&c->key, t->hop[i].daemon.p, t->hop[i].daemon.n)};

        sum = hash_bytes(&c->key, &in, sizeof(in));
    }
    if (r->cycle != sum) {
        r->cycle = sum;
        trail_begin(c, r);
    } else if (slice_eq(t->hop[victim_of(t)].daemon, broadcast_self(c))) {
        answer_victim(c, t);
    } else {
        broadcast_trail(c, t, BROADCAST_VERDICT);
    }
}

/* Extends the trail by each holder of the name: a holder may be the start, or wait for another name. */
static void
branch(struct core *c, const struct trail *t, const struct lock *l, int *steps)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);
        const struct owner *o = cl->owner;

        if (--*steps <= 0) {
            return;
        }
        if (wait_hold_is_over(c, cl)) {
            continue;
        }
        if (hop_is_owner(c, &t->hop[0], o)) {
            close_cycle(c, t);
            *steps = 0; /* the answer may release holds, also the next ones on the list of this loop */
            return;
        }
        if (!is_on_trail(c, t, o)) {
            follow(c, *t, o, steps);
        }
    }
}

/* Extends the trail from an owner here to the name that it waits for: held by others here, or elsewhere. */
static void
follow(struct core *c, struct trail t, const struct owner *o, int *steps)
{
    struct request *r = wait_of_owner(o);
    const struct lock *l;
    bool shared;

    if (r == NULL || t.n == HOPS_MAX) {
        return;
    }
    index_wait(c, r);
    l = r->claim->lock;
    shared = wait_is_shared(r);
    t.hop[t.n++] = (struct trail_hop){broadcast_self(c), o->id, r->serial, shared, lock_name(l), lock_key(l)};
    if (wait_is_for_holders(l, shared) && may_follow(l)) {
        branch(c, &t, l, steps);
    }
    if (l->held_n == 0 || container_of(l->holders.next, struct claim, node)->holds == 0) { /* some may read elsewhere */
        send_to_holder(c, &t, l);
    }
}

void
trail_begin(struct core *c, struct request *r)
{
    struct trail t = {.search = ++c->serial};
    int steps = STEPS_MAX;

    r->trail_search = t.search;
    follow(c, t, r->owner, &steps);
}

void
trail_received(struct core *c, enum broadcast_type what, struct slice text)
{
    struct trail t;
    const struct trail_hop *last;
    int steps = STEPS_MAX;
    struct lock *l;

    if (!read_trail(text, &t)) {
        return;
    }
    if (what == BROADCAST_VERDICT) {
        answer_victim(c, &t);
        return;
    }
    last = &t.hop[t.n - 1];
    l = lock_find(c, last->name);
    if (l != NULL && slice_eq(lock_key(l), last->key) && may_follow(l) &&
        wait_is_for_holders(l, last->shared != 0)) {
        branch(c, &t, l, &steps);
    }
}
