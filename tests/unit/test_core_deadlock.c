/*
 * test_core_deadlock.c -- waits that could never end: found in one daemon when they begin, over several daemons a
 * little later; and waits that only resemble them.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"
#include "tests/unit/rng.h"

static const char *const names[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"};

enum { LONGEST = 10 };

/* ---- inside one daemon ---- */

/* An owner asks for a lock that it holds and may not have twice. */
START_TEST(self)
{
    struct world w;
    const struct core_reply *r;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    lock(&w, s, "a", .kind = KIND_SIMPLE);
    redis_grants(&w, "a", w.request);
    r = expect_reply(&w, lock(&w, s, "a", .kind = KIND_SIMPLE), CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 1);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, s);
    ck_assert_str_eq(hop(r, 0)->name, "a");
    ck_assert_str_eq(hop(r, 0)->daemon, "");
    expect_reply(&w, lock(&w, s, "a", .kind = KIND_SIMPLE, .nowait = true), CORE_NOT_GRANTED);
    take(&w, s, "b");
    expect_reply(&w, lock(&w, s, "b", .fresh = true), CORE_DEADLOCK);
    ck_assert_uint_eq(w.metrics.deadlocks, 2);
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

/* Owner i holds name i and waits for the next one: only the last owner, which closes the cycle, gets DEADLOCK. */
START_TEST(circles)
{
    for (size_t n = 2; n <= LONGEST; n++) {
        struct world w;
        const struct core_reply *r;
        uint64_t s[LONGEST], id[LONGEST];

        world_open(&w);
        for (size_t i = 0; i < n; i++) {
            take(&w, s[i] = session(&w), names[i]);
        }
        for (size_t i = 0; i + 1 < n; i++) {
            id[i] = lock(&w, s[i], names[i + 1]);
            quiet(&w);
        }
        expect_reply(&w, lock(&w, s[n - 1], names[0], .nowait = true), CORE_NOT_GRANTED);
        r = expect_reply(&w, lock(&w, s[n - 1], names[0]), CORE_DEADLOCK);
        ck_assert_str_eq(w.answers[w.answers_n - 1].name, names[0]);
        ck_assert_uint_eq(r->hops, n);
        for (size_t i = 0; i < n; i++) {
            size_t o = (n - 1 + i) % n;

            ck_assert_uint_eq(hop(r, i)->hop.owner, s[o]);
            ck_assert_str_eq(hop(r, i)->name, names[(o + 1) % n]);
        }
        give(&w, s[n - 1], names[n - 1]); /* it makes room, and the others go on */
        redis_grants(&w, names[n - 1], id[n - 2]);
        world_close(&w);
    }
}
END_TEST

/* A chain that ends at an owner that does not wait, or in Redis, is no cycle, however long it is. */
START_TEST(chains)
{
    struct world w;
    uint64_t s[LONGEST];

    world_open(&w);
    for (size_t i = 0; i < LONGEST; i++) {
        take(&w, s[i] = session(&w), names[i]);
    }
    for (size_t i = 0; i + 1 < LONGEST; i++) {
        lock(&w, s[i], names[i + 1]);
    }
    lock(&w, s[LONGEST - 1], "x");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "x"), CORE_TAKEN, .pttl_us = SEC(1));
    ck_assert(is_watched(&w, "x"));
    for (size_t i = 0; i < LONGEST; i++) { /* requests from outside wait for the chain */
        lock(&w, session(&w), names[i]);
    }
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    world_close(&w);
}
END_TEST

/* A lock that is being released closes no cycle. */
START_TEST(freeing)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    s = world_holding(&w);
    t = session(&w);
    take(&w, t, "b");
    unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    id = lock(&w, t, "a");
    lock(&w, s, "b");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id - 1, CORE_LEFT);
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    world_close(&w);
}
END_TEST

/* Owners with names, all over one connection. */
START_TEST(named_owners)
{
    static const char *const who[] = {"alice", "bob", "carol"};
    struct world w;
    const struct core_reply *r;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    for (size_t i = 0; i < 3; i++) {
        lock(&w, s, names[i], .owner = who[i]);
        redis_grants(&w, names[i], w.request);
    }
    for (size_t i = 0; i < 3; i++) {
        lock(&w, s, names[(i + 1) % 3], .owner = who[i]);
    }
    r = expect_reply(&w, w.request, CORE_DEADLOCK);
    ck_assert_str_eq(hop(r, 0)->owner, "carol");
    ck_assert_str_eq(hop(r, 1)->owner, "alice");
    ck_assert_str_eq(hop(r, 2)->owner, "bob");
    world_close(&w);
}
END_TEST

/* A request behind another one of its owner does not wait for its own name yet; its turn comes. */
START_TEST(in_order)
{
    struct world w;
    uint64_t s, t, id;

    s = world_holding(&w);
    t = session(&w);
    take(&w, t, "b");
    id = lock(&w, s, "b", .wait_us = SEC(1));
    unlock(&w, s, "a"); /* it runs when that wait is over */
    expect_reply(&w, lock(&w, t, "a"), CORE_DEADLOCK);
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    redis_releases(&w, "a", id + 1);
    world_close(&w);
}
END_TEST

/* ---- random requests against a reference ---- */

enum { PARTIES = 9, THINGS = LONGEST, ROUNDS = 400, LOCKS = 500 };

/* A model of a daemon whose Redis grants everything at once. */
struct party {
    uint64_t s, id;
    int wants; /* -1: does not wait */
};

struct market {
    struct world w;
    struct rng rng;
    struct party party[PARTIES];
    int owner[THINGS], queue[THINGS][PARTIES], queued[THINGS];
    bool ordered; /* an owner asks only for names behind those that it has */
    unsigned locks, deadlocks;
};

/* The length of the cycle that closes when `who` waits for `what`; 0: no cycle. */
static size_t
reference(const struct market *m, int who, int what)
{
    size_t length = 1;

    for (int o = m->owner[what]; o != who; o = m->owner[m->party[o].wants]) {
        if (o < 0 || m->party[o].wants < 0) {
            return 0;
        }
        length++;
    }
    return length;
}

static void
gets_it(struct market *m, int who, int what)
{
    redis_says(&m->w, expect_op(&m->w, CORE_ACQUIRE, names[what]), CORE_OK);
    expect_reply(&m->w, m->party[who].id, CORE_GRANTED);
    m->owner[what] = who;
    m->party[who].wants = -1;
}

static void
asks_for(struct market *m, int who, int what)
{
    struct party *p = &m->party[who];
    size_t circle = m->owner[what] >= 0 ? reference(m, who, what) : 0;

    p->id = lock(&m->w, p->s, names[what]);
    m->locks++;
    if (circle > 0) {
        ck_assert_uint_eq(expect_reply(&m->w, p->id, CORE_DEADLOCK)->hops, circle);
        m->deadlocks++;
    } else if (m->owner[what] < 0) {
        gets_it(m, who, what);
    } else {
        p->wants = what;
        m->queue[what][m->queued[what]++] = who;
    }
}

static void
gives_back(struct market *m, int who, int what)
{
    int next = m->queue[what][0];

    give(&m->w, m->party[who].s, names[what]);
    m->owner[what] = -1;
    if (m->queued[what] > 0) {
        memmove(m->queue[what], m->queue[what] + 1, sizeof(m->queue[what]) - sizeof(m->queue[what][0]));
        m->queued[what]--;
        gets_it(m, next, what);
    }
}

static void
one_acts(struct market *m)
{
    int who = (int)rng_below(&m->rng, PARTIES), what = (int)rng_below(&m->rng, THINGS), last = -1;

    for (int i = 0; i < THINGS; i++) {
        last = m->owner[i] == who ? i : last;
    }
    if (m->party[who].wants >= 0) {
        return;
    }
    if (m->owner[what] == who) {
        gives_back(m, who, what);
    } else if (!m->ordered || what > last) {
        asks_for(m, who, what);
    }
}

static unsigned
market(struct market *m, int seed, bool ordered)
{
    memset(m, 0, sizeof(*m));
    m->rng = rng_of(seed);
    m->ordered = ordered;
    world_open(&m->w);
    for (int i = 0; i < PARTIES; i++) {
        m->party[i] = (struct party){.s = session(&m->w), .wants = -1};
    }
    for (int i = 0; i < THINGS; i++) {
        m->owner[i] = -1;
    }
    while (m->locks < LOCKS) {
        one_acts(m);
    }
    ck_assert_uint_eq(m->w.metrics.deadlocks, m->deadlocks);
    world_close(&m->w);
    return m->deadlocks;
}

/* Every wait that closes a cycle is reported, with the length of the cycle, and no other wait. */
START_TEST(exactly_the_circles)
{
    static struct market m;
    unsigned deadlocks = 0;
    int seeds = rng_seeds(50);

    for (int seed = 0; seed < seeds; seed++) {
        deadlocks += market(&m, seed, false);
    }
    ck_assert_uint_gt(deadlocks, 2 * (unsigned)seeds);
}
END_TEST

/* Two hundred thousand LOCKs, by each owner in the order of the names: no deadlock is reported. */
START_TEST(none_in_order)
{
    static struct market m;

    for (int seed = 0; seed < rng_seeds(ROUNDS); seed++) {
        ck_assert_uint_eq(market(&m, seed, true), 0);
    }
}
END_TEST

/* ---- several holders ---- */

/* s takes `name`, of that kind. */
static void
has(struct world *w, uint64_t s, const char *name, enum kind kind, bool shared)
{
    lock(w, s, name, .kind = kind, .shared = shared, .limit = 2);
    redis_grants(w, name, w->request);
}

/* Two owners hold "a". As long as one of them does not wait, a permit may become free; then none can. */
START_TEST(permits)
{
    enum kind kind = KIND_SEMAPHORE;
    struct world w;
    const struct core_reply *r;
    uint64_t s, t, u, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    has(&w, s, "a", kind, false);
    has(&w, t, "a", kind, false);
    take(&w, u, "u");
    lock(&w, s, "u");
    id = lock(&w, u, "a", .kind = kind, .limit = 2); /* t may leave */
    quiet(&w);
    r = expect_reply(&w, lock(&w, t, "u"), CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 2);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, t);
    ck_assert_str_eq(hop(r, 0)->name, "u");
    ck_assert_uint_eq(hop(r, 1)->hop.owner, u);
    ck_assert_str_eq(hop(r, 1)->name, "a");
    give(&w, t, "a");
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/*
 * A reader behind a writer that waits (u) needs what the writer needs: t closes a cycle with s, or s with t.
 */
START_TEST(reader_behind_a_writer)
{
    for (int reader_last = 0; reader_last < 2; reader_last++) {
        struct world w;
        const struct core_reply *r;
        uint64_t s, t;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        has(&w, s, "a", KIND_RW, true);
        take(&w, t, "b");
        lock(&w, session(&w), "a", .kind = KIND_RW);
        if (reader_last) {
            lock(&w, s, "b");
            r = expect_reply(&w, lock(&w, t, "a", .kind = KIND_RW, .shared = true), CORE_DEADLOCK);
        } else {
            lock(&w, t, "a", .kind = KIND_RW, .shared = true);
            r = expect_reply(&w, lock(&w, s, "b"), CORE_DEADLOCK);
        }
        ck_assert_uint_eq(r->hops, 2);
        ck_assert_uint_eq(hop(r, 0)->hop.owner, reader_last ? t : s);
        ck_assert_str_eq(hop(r, 0)->name, reader_last ? "a" : "b");
        world_close(&w);
    }
}
END_TEST

/* A position that is kept in front of the writer: a LOCK that takes it is granted beside the other readers. */
START_TEST(reader_before_a_writer)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    has(&w, s, "a", KIND_RW, false);
    redis_grants(&w, "b", lock(&w, t, "b", .owner = "alice"));
    id = lock(&w, t, "a", .kind = KIND_RW, .shared = true, .owner = "alice", .wait_us = MS(100));
    pass(&w, MS(100));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    lock(&w, session(&w), "a", .kind = KIND_RW);
    id = lock(&w, s, "a", .kind = KIND_RW, .shared = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    lock(&w, s, "b");
    id = lock(&w, t, "a", .kind = KIND_RW, .shared = true, .owner = "alice");
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    world_close(&w);
}
END_TEST

/* A writer needs every reader to leave: one reader that waits for the writer is enough. */
START_TEST(readers)
{
    struct world w;
    const struct core_reply *r;
    uint64_t s, t, u;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    has(&w, t, "a", KIND_RW, true);
    has(&w, s, "a", KIND_RW, true);
    take(&w, u, "u");
    lock(&w, s, "u");
    r = expect_reply(&w, lock(&w, u, "a", .kind = KIND_RW), CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 2);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, u);
    ck_assert_str_eq(hop(r, 0)->name, "a");
    ck_assert_uint_eq(hop(r, 1)->hop.owner, s);
    ck_assert_str_eq(hop(r, 1)->name, "u");
    world_close(&w);
}
END_TEST

/* u waits for t, and t for s: no cycle. Then s closes a cycle with t, and gets DEADLOCK; u has no part in it. */
START_TEST(stuck_elsewhere)
{
    struct world w;
    uint64_t s, t, u;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    w.conf.deadlock_us = 0;
    take(&w, s, "s");
    take(&w, u, "u");
    has(&w, t, "a", KIND_RW, true);
    lock(&w, t, "s");
    lock(&w, u, "a", .kind = KIND_RW); /* s does not wait */
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    expect_reply(&w, lock(&w, s, "a", .kind = KIND_RW), CORE_DEADLOCK);
    world_close(&w);
}
END_TEST

/* An owner that holds all permits waits for itself alone. If a permit is held elsewhere, Redis may still grant it. */
START_TEST(own_permits)
{
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    has(&w, s, "a", KIND_SEMAPHORE, false);
    take(&w, t, "b");
    lock(&w, s, "b");
    lock(&w, t, "a", .kind = KIND_SEMAPHORE, .limit = 2);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30), .holders = 2);
    ck_assert(is_watched(&w, "a"));
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    world_close(&w);

    world_open(&w);
    s = session(&w);
    has(&w, s, "a", KIND_SEMAPHORE, false);
    has(&w, s, "a", KIND_SEMAPHORE, false);
    ck_assert_uint_eq(expect_reply(&w, lock(&w, s, "a", .kind = KIND_SEMAPHORE, .limit = 2), CORE_DEADLOCK)->hops, 1);
    world_close(&w);
}
END_TEST

/*
 * The daemon stood still: the owner that seems to hold a name has lost it, and its waiter is searched before that is
 * reported.
 */
START_TEST(holds_that_are_over)
{
    static const int64_t leases[] = {SEC(2), SEC(60)};

    for (size_t i = 0; i < 2; i++) {
        struct core_conf conf = world_conf;
        struct world w;
        uint64_t s, t;

        conf.deadlock_us = SEC(1);
        world_open_conf(&w, &conf);
        s = session(&w);
        t = session(&w);
        lock(&w, s, "a", .kind = KIND_SEMAPHORE, .limit = 2, .lease_us = SEC(60));
        redis_grants(&w, "a", w.request);
        lock(&w, t, "b", .lease_us = leases[i]);
        redis_grants(&w, "b", w.request);
        lock(&w, s, "b");
        lock(&w, t, "a", .kind = KIND_SEMAPHORE, .limit = 2);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = -1, .holders = 2);
        lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 1, .nowait = true);
        expect_reply(&w, w.request, CORE_NOT_GRANTED); /* with this limit there is a cycle, but no wait begins */
        stall(&w, SEC(3));
        world_step(&w, &(struct core_event){.type = CORE_TIME});
        ck_assert_uint_eq(w.metrics.deadlocks, i);
        w.answers[w.answers_n - 1].seen = true;
        w.flights[w.flights_n - 1].seen = true;
        world_close(&w);
    }
}
END_TEST

/* A reader does not wait for readers, whatever these wait for. */
START_TEST(reader_beside_readers)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    has(&w, s, "a", KIND_RW, true);
    take(&w, t, "b");
    lock(&w, s, "b");
    id = lock(&w, t, "a", .kind = KIND_RW, .shared = true);
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    world_close(&w);

    world_open(&w); /* ... but it waits for a writer */
    s = session(&w);
    t = session(&w);
    has(&w, s, "a", KIND_RW, false);
    take(&w, t, "b");
    lock(&w, s, "b");
    expect_reply(&w, lock(&w, t, "a", .kind = KIND_RW, .shared = true), CORE_DEADLOCK);
    world_close(&w);
}
END_TEST

/* ---- over several daemons ---- */

enum { DAEMONS = 3 };

struct fleet {
    struct world d[DAEMONS];
    size_t n, received[DAEMONS];
    bool twice, backwards;
    int lose_percent;
    struct rng rng;
};

static struct fleet fleet;

static void
fleet_open(struct fleet *f, size_t n)
{
    struct core_conf conf = world_conf;

    memset(f, 0, sizeof(*f));
    f->n = n;
    f->rng = rng_of(1);
    conf.deadlock_us = SEC(1);
    for (size_t i = 0; i < n; i++) {
        snprintf(conf.daemon, sizeof(conf.daemon), "daemon-%zu", i);
        world_open_conf(&f->d[i], &conf);
    }
}

static void
fleet_close(struct fleet *f)
{
    for (size_t i = 0; i < f->n; i++) {
        world_close(&f->d[i]);
    }
}

/* A DEADLOCK may come at any time; reports() counts them. */
static void
see_reports(struct world *w)
{
    for (size_t i = w->answers_seen; i < w->answers_n; i++) {
        w->answers[i].seen |= w->answers[i].reply.answer == CORE_DEADLOCK;
    }
}

static void
take_text(struct world *w, const char *p, size_t n)
{
    receives(w, p, n);
    see_reports(w);
}

/* A broadcast comes to all daemons, the sender included. */
static void
deliver(struct fleet *f, struct broadcast_copy *s)
{
    for (size_t i = 0; i < f->n; i++) {
        for (int times = f->twice ? 2 : 1; times > 0; times--) {
            if ((int)rng_below(&f->rng, 100) >= f->lose_percent) {
                take_text(&f->d[i], s->p, s->n);
            }
        }
    }
}

/* All broadcasts are received, and those that they bring, until there are no more. */
static void
talk(struct fleet *f)
{
    for (bool any = true; any;) {
        any = false;
        for (size_t i = 0; i < f->n; i++) {
            size_t from = f->received[i], to = f->d[i].broadcasts_n;

            f->received[i] = to;
            for (size_t k = from; k < to; k++) {
                struct broadcast_copy s = f->d[i].broadcasts[f->backwards ? to - 1 - (k - from) : k];

                any = true;
                deliver(f, &s);
            }
        }
    }
}

/* Redis: a name that is asked for is taken, renewals and releases succeed. */
static void
fleet_serve(struct world *w)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        struct flight f = w->flights[i];

        for (size_t k = i; k < w->flights_n; k++) {
            w->flights[k].seen = true;
        }
        if (!f.answered && f.verb == CORE_ACQUIRE) {
            redis_says(w, f, CORE_TAKEN, .pttl_us = -1, .holders = 1);
        } else if (!f.answered) {
            redis_says(w, f, CORE_OK);
        }
    }
}

static void
fleet_pass(struct fleet *f, int64_t us)
{
    for (int64_t step_us; us > 0; us -= step_us) {
        step_us = us < MS(10) ? us : MS(10);
        for (size_t i = 0; i < f->n; i++) {
            pass(&f->d[i], step_us);
            see_reports(&f->d[i]);
            fleet_serve(&f->d[i]);
        }
        talk(f);
        for (size_t i = 0; i < f->n; i++) {
            fleet_serve(&f->d[i]);
        }
    }
}

/* The number of DEADLOCK replies so far; the last of them, and its daemon. */
static size_t
reports(struct fleet *f, const struct core_reply **last, size_t *where)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        for (size_t k = 0; k < f->d[i].answers_n; k++) {
            struct answer *a = &f->d[i].answers[k];

            if (a->reply.answer == CORE_DEADLOCK) {
                *last = &a->reply;
                *where = i;
                n++;
            }
        }
    }
    return n;
}

/* One owner of a cycle: its daemon, its session, and the request that waits. */
struct link {
    size_t at;
    uint64_t s, id;
};

/* Owner i of daemon i % n holds name i, and waits for the next one. */
static void
make_circle(struct fleet *f, struct link *link, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        link[i].at = i % f->n;
        link[i].s = session(&f->d[link[i].at]);
        take(&f->d[link[i].at], link[i].s, names[i]);
    }
    for (size_t i = 0; i < length; i++) {
        link[i].id = lock(&f->d[link[i].at], link[i].s, names[(i + 1) % length]);
        fleet_serve(&f->d[link[i].at]);
    }
}

/* The reply lists this cycle, from the victim on. */
static void
expect_circle(const struct core_reply *r, size_t where, const struct link *link, size_t length)
{
    size_t first = 0;

    ck_assert_uint_eq(r->hops, length);
    while (first < length && link[first].id != r->id) {
        first++;
    }
    while (first < length && (link[first].at != where || link[first].s != r->session)) {
        first++;
    }
    ck_assert_uint_lt(first, length);
    for (size_t i = 0; i < length; i++) {
        const struct link *l = &link[(first + i) % length];
        char daemon[16];

        snprintf(daemon, sizeof(daemon), "daemon-%zu", l->at);
        ck_assert_uint_eq(hop(r, i)->hop.owner, l->s);
        ck_assert_str_eq(hop(r, i)->name, names[(first + i + 1) % length]);
        ck_assert_str_eq(hop(r, i)->daemon, l->at == where ? "" : daemon);
    }
}

/* The cycle is reported once, to one owner, when the delay is over. The other owners wait on. */
static void
over_daemons(size_t daemons, size_t length)
{
    struct link link[LONGEST];
    const struct core_reply *r = NULL;
    size_t where = 0, waiters = 0;

    fleet_open(&fleet, daemons);
    make_circle(&fleet, link, length);
    fleet_pass(&fleet, SEC(1) - MS(10));
    ck_assert_uint_eq(reports(&fleet, &r, &where), length % daemons == 1 && daemons == 1);
    fleet_pass(&fleet, MS(20));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 1);
    expect_circle(r, where, link, length);
    fleet_pass(&fleet, SEC(20));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 1);
    for (size_t i = 0; i < daemons; i++) {
        waiters += core_totals(fleet.d[i].core).waiters;
    }
    ck_assert_uint_eq(waiters, length - 1);
    fleet_close(&fleet);
}

START_TEST(two_daemons)
{
    static const size_t lengths[] = {2, 3, 5, 10};

    over_daemons(2, lengths[_i]);
}
END_TEST

START_TEST(three_daemons)
{
    static const size_t lengths[] = {3, 4, 5, 10};

    over_daemons(3, lengths[_i]);
}
END_TEST

/* No trail is sent with delay 0, nor for an owner that holds nothing. */
START_TEST(not_asked)
{
    struct core_conf conf = world_conf;
    struct link link[2];
    const struct core_reply *r = NULL;
    size_t where = 0;

    fleet_open(&fleet, 2);
    conf.deadlock_us = 0;
    for (size_t i = 0; i < 2; i++) {
        core_configure(fleet.d[i].core, &conf);
    }
    make_circle(&fleet, link, 2);
    fleet_pass(&fleet, SEC(20));
    ck_assert_uint_eq(reports(&fleet, &r, &where) + fleet.d[0].broadcasts_n + fleet.d[1].broadcasts_n, 0);
    fleet_close(&fleet);

    fleet_open(&fleet, 2);
    lock(&fleet.d[0], session(&fleet.d[0]), "x");
    fleet_serve(&fleet.d[0]);
    fleet_pass(&fleet, SEC(20));
    ck_assert_uint_eq(fleet.d[0].broadcasts_n, 0);
    fleet_close(&fleet);
}
END_TEST

/* For a chain over several daemons that ends, trails are sent less and less often, and nothing is reported. */
START_TEST(chain_over_daemons)
{
    struct link link[LONGEST];
    const struct core_reply *r = NULL;
    size_t where = 0;

    fleet_open(&fleet, 3);
    for (size_t i = 0; i < 6; i++) {
        link[i].at = i % 3;
        link[i].s = session(&fleet.d[link[i].at]);
        take(&fleet.d[link[i].at], link[i].s, names[i]);
    }
    for (size_t i = 0; i < 5; i++) {
        lock(&fleet.d[link[i].at], link[i].s, names[i + 1]);
        fleet_serve(&fleet.d[link[i].at]);
    }
    fleet_pass(&fleet, SEC(100));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 0);
    ck_assert_uint_gt(fleet.d[0].broadcasts_n, 0);
    ck_assert_uint_lt(fleet.d[0].broadcasts_n, 200);
    fleet_close(&fleet);
}
END_TEST

/* Broadcasts get lost: the cycle is found later. They come twice, or in another order: it is still reported once. */
START_TEST(bad_weather)
{
    struct link link[LONGEST];
    const struct core_reply *r = NULL;
    size_t where = 0;

    fleet_open(&fleet, 3);
    fleet.rng = rng_of(_i);
    fleet.lose_percent = _i % 3 * 15;
    fleet.twice = _i % 2 == 1;
    fleet.backwards = _i / 2 % 2 == 1;
    make_circle(&fleet, link, 2 + (size_t)_i % 4);
    fleet_pass(&fleet, SEC(600));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 1);
    expect_circle(r, where, link, 2 + (size_t)_i % 4);
    fleet_close(&fleet);
}
END_TEST

/* The broadcast that ends the first walk comes again, after one of the waits has ended: that is no second walk. */
START_TEST(echo_of_the_first_walk)
{
    struct link link[3];
    const struct core_reply *r = NULL;
    struct broadcast_copy back;
    size_t where = 0;

    fleet_open(&fleet, 3);
    make_circle(&fleet, link, 3);
    pass(&fleet.d[0], SEC(1)); /* only this daemon searches */
    take_text(&fleet.d[1], fleet.d[0].broadcasts[0].p, fleet.d[0].broadcasts[0].n);
    take_text(&fleet.d[2], fleet.d[1].broadcasts[0].p, fleet.d[1].broadcasts[0].n);
    back = fleet.d[2].broadcasts[0];
    gone(&fleet.d[1], link[1].s); /* neither the owner that searches nor the one that would be the victim */
    fleet_serve(&fleet.d[1]);
    for (int i = 0; i < 3; i++) {
        take_text(&fleet.d[0], back.p, back.n);
    }
    ck_assert_uint_eq(fleet.d[0].broadcasts_n, 2); /* the second walk has begun, once */
    fleet_pass(&fleet, SEC(30));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 0);
    fleet_close(&fleet);
}
END_TEST

/* The cycle is real during the first walk, and one of its waits ends before the second. */
START_TEST(ended_between_the_walks)
{
    for (size_t who = 0; who < 2; who++) {
        struct link link[2];
        const struct core_reply *r = NULL;
        size_t where = 0;

        fleet_open(&fleet, 2);
        make_circle(&fleet, link, 2);
        pass(&fleet.d[0], SEC(1));
        pass(&fleet.d[1], SEC(1) - 1);
        take_text(&fleet.d[1], fleet.d[0].broadcasts[0].p, fleet.d[0].broadcasts[0].n);
        take_text(&fleet.d[0], fleet.d[1].broadcasts[0].p, fleet.d[1].broadcasts[0].n);
        ck_assert_uint_eq(fleet.d[0].broadcasts_n, 2); /* the second walk begins */
        fleet.received[0] = fleet.received[1] = 1;
        gone(&fleet.d[who], link[who].s);
        fleet_serve(&fleet.d[who]);
        fleet_pass(&fleet, SEC(30));
        ck_assert_uint_eq(reports(&fleet, &r, &where), 0);
        fleet_close(&fleet);
    }
}
END_TEST

/*
 * A reader does not wait for a reader at another daemon either: Redis only has not granted it yet. A writer waits, and
 * so does a reader behind a writer.
 */
START_TEST(reader_elsewhere)
{
    enum { READS, WRITES, READS_BEHIND, CASES };

    for (int how = 0; how < CASES; how++) {
        const struct core_reply *r = NULL;
        size_t where = 0;
        uint64_t s, t;

        fleet_open(&fleet, 2);
        s = session(&fleet.d[0]);
        t = session(&fleet.d[1]);
        has(&fleet.d[0], s, "a", KIND_RW, true);
        take(&fleet.d[1], t, "b");
        lock(&fleet.d[0], s, "b");
        if (how == READS_BEHIND) {
            lock(&fleet.d[1], session(&fleet.d[1]), "a", .kind = KIND_RW);
            fleet_serve(&fleet.d[1]);
        }
        lock(&fleet.d[1], t, "a", .kind = KIND_RW, .shared = how != WRITES);
        for (size_t i = 0; i < 2; i++) {
            fleet_serve(&fleet.d[i]);
        }
        fleet_pass(&fleet, how == READS ? SEC(30) : SEC(2));
        ck_assert_uint_eq(reports(&fleet, &r, &where), how != READS);
        fleet_close(&fleet);
    }
}
END_TEST

/* The name has another key at this daemon, so it is another lock: the trail ends there. */
START_TEST(another_key)
{
    const struct core_reply *r = NULL;
    size_t where = 0;
    uint64_t s, t;

    fleet_open(&fleet, 2);
    s = session(&fleet.d[0]);
    t = session(&fleet.d[1]);
    take(&fleet.d[0], s, "a");
    take(&fleet.d[1], t, "b");
    lock(&fleet.d[0], s, "b", .key = "other");
    lock(&fleet.d[1], t, "a");
    for (size_t i = 0; i < 2; i++) {
        fleet_serve(&fleet.d[i]);
    }
    fleet_pass(&fleet, SEC(30));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 0);
    fleet_close(&fleet);
}
END_TEST

/* The cycle has a tail: an owner that waits for the cycle is no part of it. */
START_TEST(tail)
{
    struct link link[3];
    const struct core_reply *r = NULL;
    size_t where = 0;
    uint64_t s, id;

    fleet_open(&fleet, 3);
    s = session(&fleet.d[2]);
    take(&fleet.d[2], s, "x");
    make_circle(&fleet, link, 3);
    id = lock(&fleet.d[2], s, names[0]);
    fleet_serve(&fleet.d[2]);
    fleet_pass(&fleet, SEC(20));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 1);
    expect_circle(r, where, link, 3);
    ck_assert(where != 2 || r->id != id);
    fleet_close(&fleet);
}
END_TEST

/* A cycle that is longer than a trail can be is not found, and nothing else happens. */
START_TEST(too_long)
{
    struct link link[17];
    const struct core_reply *r = NULL;
    size_t where = 0;

    fleet_open(&fleet, 2);
    for (size_t i = 0; i < 17; i++) {
        char name[WORLD_TEXT];

        link[i].at = i % 2;
        link[i].s = session(&fleet.d[i % 2]);
        snprintf(name, sizeof(name), "long-%zu", i);
        take(&fleet.d[i % 2], link[i].s, name);
    }
    for (size_t i = 0; i < 17; i++) {
        char name[WORLD_TEXT];

        snprintf(name, sizeof(name), "long-%zu", (i + 1) % 17);
        lock(&fleet.d[i % 2], link[i].s, name);
        fleet_serve(&fleet.d[i % 2]);
    }
    fleet_pass(&fleet, SEC(20));
    ck_assert_uint_eq(reports(&fleet, &r, &where), 0);
    fleet_close(&fleet);
}
END_TEST

/* A broadcast may contain anything. */
START_TEST(garbage)
{
    static const char *const texts[] = {"", "W", "V", "X", "W1:", "W1:0", "W1:0,", "V1:0,", "W999999:x,", "W-1:,",
                                        "W0:,", "W0:,0:,0:,0:,0:,", "V0:,1:1,1:1,0:,0:,", "W4294967296:,",
                                        "W1:1,0:,20:18446744073709551616,1:1,1:a,1:a,", "W18446744073709551615:"};
    struct link link[3];
    const struct core_reply *r = NULL;
    struct rng rng = rng_of(_i);
    struct broadcast_copy real;
    size_t where = 0, before;

    fleet_open(&fleet, 3);
    make_circle(&fleet, link, 3);
    pass(&fleet.d[0], SEC(1));
    real = fleet.d[0].broadcasts[0];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        take_text(&fleet.d[i % 3], texts[i], strlen(texts[i]));
    }
    for (size_t n = 0; n < real.n; n++) { /* cut off */
        before = fleet.d[1].broadcasts_n;
        take_text(&fleet.d[1], real.p, n);
        ck_assert_uint_eq(fleet.d[1].broadcasts_n, before);
    }
    for (int i = 0; i < 2000; i++) { /* one to three bytes are changed */
        char text[1024];
        size_t n = real.n;

        ck_assert_uint_lt(n, sizeof(text));
        memcpy(text, real.p, n);
        for (unsigned k = 1 + rng_below(&rng, 3); k > 0; k--) {
            text[rng_below(&rng, (unsigned)n)] = (char)rng_below(&rng, 256);
        }
        take_text(&fleet.d[i % 3], text, n);
    }
    ck_assert_uint_eq(reports(&fleet, &r, &where), 0);
    fleet_close(&fleet);
}
END_TEST

/* A broadcast of 512 bytes that are no message brings no answer. */
START_TEST(as_long_as_can_be)
{
    char name[513] = "";

    fleet_open(&fleet, 1);
    memset(name, 'x', 512);
    take(&fleet.d[0], session(&fleet.d[0]), "a");
    take_text(&fleet.d[0], name, 512);
    ck_assert_uint_eq(fleet.d[0].broadcasts_n, 0);
    fleet_close(&fleet);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        self, circles, chains, freeing, named_owners, in_order, exactly_the_circles, none_in_order, permits, readers,
        stuck_elsewhere, own_permits,
        reader_beside_readers, reader_behind_a_writer, reader_before_a_writer,
        holds_that_are_over, not_asked, chain_over_daemons, echo_of_the_first_walk,
        ended_between_the_walks, reader_elsewhere, another_key,
        tail, too_long, as_long_as_can_be,
    };
    Suite *s = suite_create("core, deadlock");
    TCase *tc = tcase_create("all");

    tcase_set_timeout(tc, 300);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    tcase_add_loop_test(tc, two_daemons, 0, 4);
    tcase_add_loop_test(tc, three_daemons, 0, 4);
    tcase_add_loop_test(tc, bad_weather, 0, rng_seeds(60));
    tcase_add_loop_test(tc, garbage, 0, rng_seeds(20));
    suite_add_tcase(s, tc);
    return suite_run(s);
}
