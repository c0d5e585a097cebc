/*
 * deadlock.c -- waits that could never end: found when they begin, and over several daemons a little later.
 *
 * The graph: an owner waits for one name at a time (its requests run in order), and a name is held by owners. Who
 * waits for a name needs every holder to give it back; one of them that waits for who asks, itself or by others, is
 * enough to make it hopeless. With one holder that is a plain cycle, and with several readers too. Who waits for a
 * permit needs only one of them: that is hopeless when every holder is stuck, so it is judged by a daemon that has all.
 *
 * Inside one daemon the search runs whenever a wait begins, so the victim is the one whose wait closes the cycle. One
 * step per owner, and as owners wait for one name each, mostly a walk along a short chain.
 *
 * Over several daemons nobody sees the whole graph, so the cycle is walked (edge chasing, Chandy, Misra and Haas 1983):
 * a wait that is older than deadlock_us, of an owner that holds something, leads through our own owners to a name that
 * is held elsewhere; the way so far, the trail, is said to all daemons, and the one where that name is held goes on
 * with it. When the trail comes back to its start, there was a cycle, unless a wait ended behind its back: so the start
 * walks it once more, and only the same waits seen twice are believed; each of them then lasted from the first walk to
 * the second, so all of them existed at once. Walks have numbers, and only the newest one counts: an echo of the first
 * is no second one. Several starts may find the same cycle; all of them name the same
 * victim, whose daemon answers it if that very wait still lasts. So it is reported once, to one.
 *
 * A trail is told (tell.c) as the number of the walk, then for each owner six words: daemon, owner, wait, shared, name,
 * key.
 */
#include "daemon/core/state.h"

enum { SEARCH_MAX = 4096, STEPS_MAX = 64 }; /* owners in one search; on one daemon's part of one walk */

/* One owner on the way: it waits for `name`. Slices point into records of this step, or into what was heard. */
struct stop {
    struct slice daemon;
    uint64_t owner, wait;
    uint64_t shared; /* 1: it wants to share it, and waits for nobody who does */
    struct slice name, key;
};

struct trail {
    uint64_t walk; /* which of the start's walks this is */
    struct stop stop[HOPS_MAX];
    size_t n;
};

/* What the owner waits for: the LOCK it has running, once that is in a queue and means to stay there. */
static struct request *
wait_of(const struct owner *o)
{
    struct request *r;

    if (list_empty(&o->fifo)) {
        return NULL;
    }
    r = container_of(o->fifo.next, struct request, fifo_node);
    if (!r->started || !r->waits || r->hurried) {
        return NULL;
    }
    return r->claim->state == CLAIM_QUEUED || r->claim->state == CLAIM_TRYING ? r : NULL;
}

/* Who waits for the name waits for who holds it here, at least: all permits are out, or they do not share it. */
static bool
waits_for_holders(const struct lock *l, bool shared)
{
    if (l->held_n == 0 || (lock_is(l, KIND_F_PERMITS) && l->held_n < l->limit)) {
        return false;
    }
    return !shared || container_of(l->holders.next, struct claim, node)->holds > 0;
}

/* Its lease has ended, which is only still to be said: it is in nobody's way. */
static bool
is_over(const struct core *c, const struct claim *cl)
{
    return c->now_us >= cl->deadline_us;
}

/* ---- inside this daemon ---- */

static const struct request *
wait_in_search(const struct request *r, const struct owner *o)
{
    return o == r->owner ? r : wait_of(o);
}

/*
 * Everybody that the wait of r leads to, as a list through `todo` that begins with who waits; all are taken to be stuck
 * who wait for somebody here. False: too many.
 */
static bool
gather(struct core *c, const struct request *r)
{
    struct owner *start = r->owner, *tail = start, *o;
    struct list *pos, *nxt;
    int left = SEARCH_MAX;

    c->searches++;
    start->search = c->searches;
    start->via = start->todo = NULL;
    for (o = start; o != NULL; o = o->todo) {
        const struct request *wait = wait_in_search(r, o);

        o->stuck = wait != NULL && waits_for_holders(wait->claim->lock, wait->shared);
        if (!o->stuck) {
            continue;
        }
        list_each(pos, nxt, &wait->claim->lock->holders)
        {
            struct owner *holder = container_of(pos, struct claim, node)->owner;

            if (holder->search == c->searches) {
                continue;
            }
            if (--left == 0) {
                return false;
            }
            holder->search = c->searches;
            holder->via = holder->todo = NULL;
            tail->todo = holder;
            tail = holder;
        }
    }
    return true;
}

/*
 * Whether the wait has no end while those are stuck who seem to be. Who waits for a permit needs one of them, who waits
 * for anything else needs all holders to leave.
 */
static bool
is_hopeless(const struct core *c, const struct lock *l)
{
    bool any = lock_is(l, KIND_F_PERMITS);
    struct list *pos, *nxt;

    list_each(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        if ((cl->owner->stuck && !is_over(c, cl)) != any) {
            return !any;
        }
    }
    return any;
}

/* Who seems to be stuck, but waits for somebody who is not, is none of them; nor who waits for those. */
static void
set_free(const struct core *c, const struct request *r)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (struct owner *o = r->owner; o != NULL; o = o->todo) {
            if (o->stuck && !is_hopeless(c, wait_in_search(r, o)->claim->lock)) {
                o->stuck = false;
                changed = true;
            }
        }
    }
}

/* One step from o, who is stuck and was reached, to those it waits for. True: one of them is who asks. */
static bool
reach_on(const struct core *c, const struct request *r, struct owner *o, bool *news)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &wait_in_search(r, o)->claim->lock->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (is_over(c, cl)) {
            continue;
        }
        if (cl->owner == r->owner) {
            return true;
        }
        if (cl->owner->via == NULL) {
            cl->owner->via = o;
            *news = true;
        }
    }
    return false;
}

/* Whom the cycle goes through last, before it is back at who begins to wait with r; NULL: there is none. */
static struct owner *
find_cycle(struct core *c, const struct request *r)
{
    struct owner *start = r->owner;
    bool news = gather(c, r);

    if (news) {
        set_free(c, r);
    }
    while (news) { /* who is stuck without leading here is so for another reason than this wait */
        news = false;
        for (struct owner *o = start; o != NULL; o = o->todo) {
            if (o->stuck && (o == start || o->via != NULL) && reach_on(c, r, o, &news)) {
                return o;
            }
        }
    }
    return NULL;
}

static struct core_hop
hop_of(const struct owner *o, const struct lock *waits_for)
{
    return (struct core_hop){
        .owner = o->id, .owner_name = {o->name, o->name_n}, .name = lock_name(waits_for)};
}

/* The wait of r begins now, or goes on: answers it when it can never end. */
bool
deadlock_begins(struct core *c, struct request *r)
{
    struct core_hop hop[HOPS_MAX];
    struct owner *start = r->owner, *last = find_cycle(c, r), *o;
    size_t length = 1, at;

    if (last == NULL) {
        return false;
    }
    for (o = last; o != start; o = o->via) {
        length++;
    }
    hop[0] = hop_of(start, r->claim->lock);
    for (o = last, at = length - 1; o != start; o = o->via, at--) {
        if (at < HOPS_MAX) { /* of a longer one the end is not spelled out */
            hop[at] = hop_of(o, wait_of(o)->claim->lock);
        }
    }
    request_deadlock(c, r, hop, length < HOPS_MAX ? length : HOPS_MAX);
    return true;
}

/* ---- a trail, told ---- */

static void
say(struct core *c, const struct trail *t, enum tell_what what)
{
    tell_begin(c, what);
    tell_number(c, t->walk);
    for (size_t i = 0; i < t->n; i++) {
        const struct stop *s = &t->stop[i];

        tell_word(c, s->daemon);
        tell_number(c, s->owner);
        tell_number(c, s->wait);
        tell_number(c, s->shared);
        tell_word(c, s->name);
        tell_word(c, s->key);
    }
    tell_send(c); /* names too long to be told: their waits have to time out */
}

/* False: it is no trail. */
static bool
read_trail(struct slice text, struct trail *t)
{
    t->n = 0;
    if (!told_number(&text, &t->walk)) {
        return false;
    }
    while (text.n > 0) {
        struct stop *s = &t->stop[t->n];

        if (t->n == HOPS_MAX || !told_word(&text, &s->daemon) || !told_number(&text, &s->owner) ||
            !told_number(&text, &s->wait) || !told_number(&text, &s->shared) || !told_word(&text, &s->name) ||
            !told_word(&text, &s->key)) {
            return false;
        }
        t->n++;
    }
    return t->n > 0;
}

/* ---- over several daemons ---- */

static bool
is_at(const struct core *c, const struct stop *s, const struct owner *o)
{
    return s->owner == o->id && slice_eq(s->daemon, tell_myself(c));
}

static bool
was_at(const struct core *c, const struct trail *t, const struct owner *o)
{
    for (size_t i = 0; i < t->n; i++) {
        if (is_at(c, &t->stop[i], o)) {
            return true;
        }
    }
    return false;
}

/* The wait of ours that a stop speaks of; NULL: it has ended. */
static struct request *
still_waits(struct core *c, const struct stop *s)
{
    struct lock *l = lock_find(c, s->name);
    struct list *pos, *nxt;

    if (l == NULL || !slice_eq(s->daemon, tell_myself(c))) {
        return NULL;
    }
    list_each(pos, nxt, &l->queue->claims)
    {
        struct owner *o = container_of(pos, struct claim, node)->owner;
        struct request *r = o->id == s->owner ? wait_of(o) : NULL;

        if (r != NULL && r->serial == s->wait && r->claim->lock == l) {
            return r;
        }
    }
    return NULL;
}

/* One total order of the owners of all daemons, also if one's id is the beginning of another's. */
static bool
comes_after(const struct stop *a, const struct stop *b)
{
    size_t n = a->daemon.n < b->daemon.n ? a->daemon.n : b->daemon.n;
    int cmp = memcmp(a->daemon.p, b->daemon.p, n);

    if (cmp == 0 && a->daemon.n != b->daemon.n) {
        return a->daemon.n > b->daemon.n;
    }
    return cmp != 0 ? cmp > 0 : a->owner > b->owner;
}

/* The same for all who look at the same cycle. */
static size_t
victim_of(const struct trail *t)
{
    size_t victim = 0;

    for (size_t i = 1; i < t->n; i++) {
        victim = comes_after(&t->stop[i], &t->stop[victim]) ? i : victim;
    }
    return victim;
}

/* The verdict is for one of ours, if that wait still lasts, and every other of ours that it speaks of. */
static void
sentence(struct core *c, const struct trail *t)
{
    size_t victim = victim_of(t);
    struct request *r = still_waits(c, &t->stop[victim]);
    struct core_hop hop[HOPS_MAX];

    if (r == NULL || t->n < 2) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        const struct stop *s = &t->stop[(victim + i) % t->n];
        const struct request *ours = still_waits(c, s);

        if (ours == NULL && slice_eq(s->daemon, tell_myself(c))) {
            return;
        }
        hop[i] = (struct core_hop){.daemon = s->daemon, .owner = s->owner, .name = s->name};
        if (ours != NULL) {
            hop[i] = hop_of(ours->owner, ours->claim->lock);
        }
    }
    request_deadlock(c, r, hop, t->n);
}

static void set_out(struct core *c, struct request *r);
static void walk(struct core *c, struct trail t, const struct owner *o, int *steps);

/* Of several permits only a daemon that has all of them could say whether all are stuck. */
static bool
may_follow(const struct lock *l)
{
    return l->held_n > 0 && (!lock_is(l, KIND_F_PERMITS) || l->held_n == 1);
}

/* To whoever has the name elsewhere. */
static void
say_way(struct core *c, const struct trail *t, const struct lock *l)
{
    bool permits = lock_is(l, KIND_F_PERMITS);
    bool taken = l->queue->taken_until_us != 0;

    if (permits ? taken && l->queue->elsewhere_n <= 1 : taken || l->held_n > 0) {
        say(c, t, TELL_WAY);
    }
}

/* The trail is back at its start, which is ours. Believed when it was there before. */
static void
close_cycle(struct core *c, const struct trail *t)
{
    struct request *r = still_waits(c, &t->stop[0]);
    uint64_t sum = 0;

    if (r == NULL || r->walk != t->walk) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        struct { uint64_t sum, owner, wait, daemon; } in = {
            sum, t->stop[i].owner, t->stop[i].wait, hash_bytes(&c->key, t->stop[i].daemon.p, t->stop[i].daemon.n)};

        sum = hash_bytes(&c->key, &in, sizeof(in));
    }
    if (r->cycle != sum) {
        r->cycle = sum;
        set_out(c, r);
    } else if (slice_eq(t->stop[victim_of(t)].daemon, tell_myself(c))) {
        sentence(c, t);
    } else {
        say(c, t, TELL_VERDICT);
    }
}

/* Each holder of the name that the trail leads to: it may be the start, or wait for another name. */
static void
branch(struct core *c, const struct trail *t, const struct lock *l, int *steps)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);
        const struct owner *o = cl->owner;

        if (--*steps <= 0) {
            return;
        }
        if (is_over(c, cl)) {
            continue;
        }
        if (is_at(c, &t->stop[0], o)) {
            close_cycle(c, t);
            return; /* what else there is may have gone with it */
        }
        if (!was_at(c, t, o)) {
            walk(c, *t, o, steps);
        }
    }
}

/* Goes on from an owner of ours to the name it waits for: held here by others, or elsewhere. */
static void
walk(struct core *c, struct trail t, const struct owner *o, int *steps)
{
    const struct request *r = wait_of(o);
    const struct lock *l;

    if (r == NULL || t.n == HOPS_MAX) {
        return;
    }
    l = r->claim->lock;
    t.stop[t.n++] = (struct stop){tell_myself(c), o->id, r->serial, r->shared, lock_name(l), lock_key(l)};
    if (waits_for_holders(l, r->shared) && may_follow(l)) {
        branch(c, &t, l, steps);
    }
    if (l->held_n == 0 || container_of(l->holders.next, struct claim, node)->holds == 0) { /* some may read elsewhere */
        say_way(c, &t, l);
    }
}

static void
set_out(struct core *c, struct request *r)
{
    struct trail t = {.walk = ++c->serial};
    int steps = STEPS_MAX;

    r->walk = t.walk;
    walk(c, t, r->owner, &steps);
}

static bool
holds_something(const struct owner *o)
{
    struct list *pos, *nxt;

    list_each(pos, nxt, &o->claims)
    {
        if (container_of(pos, struct claim, owner_node)->state == CLAIM_HELD) {
            return true;
        }
    }
    return false;
}

/* The wait has become old. Nobody waits for who holds nothing. */
void
deadlock_ask(struct core *c, struct request *r)
{
    if (holds_something(r->owner) && wait_of(r->owner) == r && !deadlock_begins(c, r)) {
        set_out(c, r);
    }
}

void
deadlock_heard(struct core *c, enum tell_what what, struct slice text)
{
    struct trail t;
    const struct stop *last;
    int steps = STEPS_MAX;
    struct lock *l;

    if (!read_trail(text, &t)) {
        return;
    }
    if (what == TELL_VERDICT) {
        sentence(c, &t);
        return;
    }
    last = &t.stop[t.n - 1];
    l = lock_find(c, last->name);
    if (l != NULL && slice_eq(lock_key(l), last->key) && may_follow(l) && waits_for_holders(l, last->shared != 0)) {
        branch(c, &t, l, &steps);
    }
}
