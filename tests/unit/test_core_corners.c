/*
 * test_core_corners.c -- rare combinations: long cycles, large crowds, and false trails.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

enum { TRAIL_BYTES = 8 * 1024 }; /* longer broadcasts are not sent */

/* s takes `name` on these terms. */
static void
has(struct world *w, uint64_t s, const char *name, struct ask a)
{
    uint64_t id = world_ask(w, CORE_LOCK, s, name, a);

    redis_grants(w, name, id);
}

#define holds(w, s, name, ...) has(w, s, name, (struct ask){__VA_ARGS__})

/* ---- deadlocks in one daemon ---- */

/* A cycle of any length is found; of more than 16 owners only 16 are listed. */
START_TEST(long_circle)
{
    enum { N = 20, REPORTED = 16 };
    const struct core_reply *r;
    uint64_t s[N];
    char name[N + 1][8];
    struct world w;

    world_open(&w);
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof(name[i]), "n%d", i);
        take(&w, s[i] = session(&w), name[i]);
    }
    for (int i = 0; i + 1 < N; i++) {
        lock(&w, s[i], name[i + 1]);
    }
    r = expect_reply(&w, lock(&w, s[N - 1], name[0]), CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, REPORTED);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, s[N - 1]);
    for (int i = 1; i < REPORTED; i++) {
        ck_assert_uint_eq(hop(r, i)->hop.owner, s[i - 1]);
        ck_assert_str_eq(hop(r, i)->name, name[i]);
    }
    world_close(&w);
}
END_TEST

/* A search that is too long for one step goes on in the next steps, and finds the cycle. */
START_TEST(too_many_for_one_step)
{
    enum { READERS = 4200 };
    static struct world w;
    const struct core_reply *r;
    uint64_t writer, first = 0, id;
    int slices;

    world_open(&w);
    w.unchecked = true; /* a check reads all of them */
    writer = session(&w);
    take(&w, writer, "w");
    for (int i = 0; i < READERS; i++) {
        first = session(&w);
        holds(&w, first, "r", .kind = KIND_RW, .shared = true);
    }
    lock(&w, first, "w"); /* the writer is going to wait for this session */
    id = lock(&w, writer, "r", .kind = KIND_RW);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    for (slices = 0; core_next_us(w.core) <= w.now_us; slices++) { /* no time passes */
        ck_assert_int_lt(slices, 8);
        world_step(&w, &(struct core_event){.type = CORE_TIME});
    }
    ck_assert_int_ge(slices, 2);
    r = expect_reply(&w, id, CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 2);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, writer);
    ck_assert_str_eq(hop(r, 0)->name, "r");
    ck_assert_uint_eq(hop(r, 1)->hop.owner, first);
    ck_assert_str_eq(hop(r, 1)->name, "w");
    ck_assert_int_gt(core_next_us(w.core), w.now_us);
    core_check(w.core, w.now_us);
    world_close(&w);
}
END_TEST

/* An owner that may still go on has no part in the cycle: B waits for D, and D for A, but E may free a permit. */
START_TEST(beside_the_cycle)
{
    enum { A, B, C, D, E, F, OWNERS };
    const struct core_reply *r;
    struct world w;
    uint64_t s[OWNERS];

    world_open(&w);
    for (int i = 0; i < OWNERS; i++) {
        s[i] = session(&w);
    }
    holds(&w, s[B], "read", .kind = KIND_RW, .shared = true);
    holds(&w, s[C], "read", .kind = KIND_RW, .shared = true);
    holds(&w, s[D], "pool", .kind = KIND_SEMAPHORE, .limit = 2);
    holds(&w, s[E], "pool", .kind = KIND_SEMAPHORE, .limit = 2);
    take(&w, s[F], "f");
    take(&w, s[A], "x");
    take(&w, s[A], "y");
    lock(&w, s[B], "pool", .kind = KIND_SEMAPHORE, .limit = 2); /* E may leave */
    lock(&w, s[D], "y");
    lock(&w, s[C], "f");
    lock(&w, s[F], "x");
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    r = expect_reply(&w, lock(&w, s[A], "read", .kind = KIND_RW), CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 3);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, s[A]);
    ck_assert_uint_eq(hop(r, 1)->hop.owner, s[C]);
    ck_assert_uint_eq(hop(r, 2)->hop.owner, s[F]);
    world_close(&w);
}
END_TEST

/* A lowered limit can close a cycle, which the next search finds. A hold whose lease is over has no part in it. */
START_TEST(a_lowered_limit_closes_a_cycle)
{
    struct core_conf conf = world_conf;
    const struct core_reply *r;
    struct world w;
    uint64_t a, b, c, e, id;

    conf.deadlock_us = SEC(1);
    world_open_conf(&w, &conf);
    a = session(&w);
    b = session(&w);
    c = session(&w);
    e = session(&w);
    holds(&w, a, "pool", .kind = KIND_SEMAPHORE, .limit = 2);
    holds(&w, e, "pool", .kind = KIND_SEMAPHORE, .limit = 2);
    holds(&w, b, "read", .kind = KIND_RW, .shared = true, .lease_us = SEC(2));
    holds(&w, c, "read", .kind = KIND_RW, .shared = true);
    lock(&w, c, "pool", .kind = KIND_SEMAPHORE, .limit = 2); /* searched for at 1 s, and at 2 s */
    pass(&w, MS(500));
    id = lock(&w, a, "read", .kind = KIND_RW); /* searched for at 1.5 s */
    pass(&w, MS(700));
    skip_all(&w);
    expect_reply(&w, lock(&w, b, "pool", .kind = KIND_SEMAPHORE, .limit = 1, .nowait = true), CORE_NOT_GRANTED);
    gone(&w, e);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "pool"), CORE_OK);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    stall(&w, MS(790)); /* 1.99 s: the hold of b is over, which is not reported yet */
    happens(&w, &(struct core_event){.type = CORE_TIME});
    skip_all(&w);
    r = expect_reply(&w, id, CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 2);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, a);
    ck_assert_uint_eq(hop(r, 1)->hop.owner, c);
    expect_news(&w, CORE_NEWS_LOST, "read");
    world_close(&w);
}
END_TEST

/* ---- trails ---- */

struct text {
    char p[2 * TRAIL_BYTES];
    size_t n;
};

static void
add(struct text *t, const char *field, size_t n)
{
    t->n += (size_t)snprintf(t->p + t->n, sizeof(t->p) - t->n, "%zu:%.*s,", n, (int)n, field);
    ck_assert_uint_lt(t->n, sizeof(t->p));
}

static void
add_number(struct text *t, uint64_t number)
{
    char text[24];

    add(t, text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)number));
}

static void
begin(struct text *t, char what)
{
    t->p[0] = what;
    t->n = 1;
    add_number(t, 1);
}

static void
add_stop(struct text *t, const char *daemon, uint64_t owner, uint64_t wait, const char *name)
{
    add(t, daemon, strlen(daemon));
    add_number(t, owner);
    add_number(t, wait);
    add_number(t, 0);
    add(t, name, strlen(name));
    add(t, name, strlen(name));
}

static void
open_as(struct world *w, const char *daemon)
{
    struct core_conf conf = world_conf;

    conf.deadlock_us = SEC(1);
    snprintf(conf.daemon, sizeof(conf.daemon), "%s", daemon);
    world_open_conf(w, &conf);
}

/* `s` waits for `name`. The number of its wait is not known from outside: it is one of the serials up to the result. */
static uint64_t
waits(struct world *w, uint64_t s, const char *name, uint64_t *id)
{
    *id = lock(w, s, name);
    return core_totals(w->core).serial;
}

/* Sends a verdict for each number that the wait may have; true: one of them has ended the request `id`. */
static bool
judged(struct world *w, uint64_t serial, uint64_t id, void (*stops)(struct text *, uint64_t, void *), void *ctx)
{
    for (uint64_t wait = serial; wait + 8 > serial && wait > 0; wait--) {
        struct text t;

        begin(&t, 'V');
        stops(&t, wait, ctx);
        receives(w, t.p, t.n);
        if (w->answers_n > w->answers_seen) {
            expect_reply(w, id, CORE_DEADLOCK);
            return true;
        }
    }
    return false;
}

struct two {
    const char *first, *second; /* daemons */
    uint64_t first_owner, second_owner;
    bool ours_second;
    uint64_t other; /* the number of the other wait */
    const char *name;
};

static void
two_stops(struct text *t, uint64_t wait, void *ctx)
{
    const struct two *v = ctx;

    add_stop(t, v->first, v->first_owner, v->ours_second ? v->other : wait, v->name);
    add_stop(t, v->second, v->second_owner, v->ours_second ? wait : v->other, v->name);
}

/* All daemons of a cycle choose one victim, wherever they begin, also if one id is the beginning of another one. */
START_TEST(one_victim)
{
    static const struct {
        const char *us, *them;
        bool is_us;
    } rows[] = {{"ab", "abc", false}, {"abc", "ab", true}, {"b", "a", true}, {"a", "b", false}, {"b", "aaa", true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int second = 0; second < 2; second++) {
            struct world w;
            uint64_t s, t, id, serial;
            bool is_us;

            open_as(&w, rows[i].us);
            s = session(&w);
            t = session(&w);
            take(&w, s, "a");
            serial = waits(&w, t, "a", &id);
            is_us = judged(&w, serial, id, two_stops,
                           second == 0 ? &(struct two){rows[i].us, rows[i].them, t, 77, false, 5, "a"}
                                       : &(struct two){rows[i].them, rows[i].us, 77, t, true, 5, "a"});
            ck_assert(is_us == rows[i].is_us);
            world_close(&w);
        }
    }
}
END_TEST

/* A verdict about a wait of ours that is over, or about another name, has no effect. */
START_TEST(verdicts_that_lie)
{
    struct world w;
    uint64_t s, t, u, id, serial;

    open_as(&w, "d1");
    s = session(&w);
    t = session(&w);
    u = session(&w);
    take(&w, s, "a");
    take(&w, s, "b");
    serial = waits(&w, u, "a", &id);
    ck_assert(!judged(&w, serial, id, two_stops, &(struct two){"d1", "d1", u, t, false, 5, "a"})); /* t does not wait */
    ck_assert(!judged(&w, serial, id, two_stops, &(struct two){"d1", "d0", u, 7, false, 5, "b"}));
    ck_assert(!judged(&w, serial, id, two_stops, &(struct two){"d1", "d0", u, 7, false, 5, "none"}));
    ck_assert(judged(&w, serial, id, two_stops, &(struct two){"d1", "d0", u, 7, false, 5, "a"}));
    world_close(&w);

    open_as(&w, "d1"); /* alice has a position for "a", and waits for "b" */
    s = session(&w);
    t = session(&w);
    u = session(&w);
    take(&w, s, "a");
    take(&w, s, "b");
    lock(&w, t, "a", .owner = "alice");
    gone(&w, t);
    id = lock(&w, u, "b", .owner = "alice");
    serial = core_totals(w.core).serial;
    for (uint64_t owner = serial; owner > 0; owner--) {
        ck_assert(!judged(&w, serial, id, two_stops, &(struct two){"d1", "d0", owner, 7, false, 5, "a"}));
    }
    world_close(&w);
}
END_TEST

struct many {
    uint64_t owner;
    int n;
};

static void
many_stops(struct text *t, uint64_t wait, void *ctx)
{
    const struct many *m = ctx;

    add_stop(t, "d1", m->owner, wait, "a");
    for (int i = 1; i < m->n; i++) {
        add_stop(t, "d0", (uint64_t)i, 1, "x");
    }
}

/* A trail has at most sixteen owners. */
START_TEST(trails_have_an_end)
{
    struct world w;
    uint64_t s, t, id, serial;

    open_as(&w, "d1");
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    serial = waits(&w, t, "a", &id);
    ck_assert(!judged(&w, serial, id, many_stops, &(struct many){t, 17}));
    ck_assert(judged(&w, serial, id, many_stops, &(struct many){t, 16}));
    world_close(&w);
}
END_TEST

/* s holds "a", and waits for "b", which is held elsewhere. */
static void
on_the_way(struct world *w)
{
    uint64_t s = session(w);

    take(w, s, "a");
    lock(w, s, "b");
    redis_says(w, expect_op(w, CORE_ACQUIRE, "b"), CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(is_watched(w, "b"));
}

/* A trail is broadcast as a whole or not at all: a deadlock with names that are too long ends with the waits. */
START_TEST(a_trail_too_long_for_a_broadcast)
{
    size_t silent = 0, published = 0;
    static char name[TRAIL_BYTES];
    struct world w;

    open_as(&w, "d1");
    on_the_way(&w);
    memset(name, 'n', sizeof(name));
    for (size_t n = TRAIL_BYTES - 260; n < TRAIL_BYTES - 20; n++) {
        struct text t;
        size_t before = w.broadcasts_n;

        begin(&t, 'W');
        add(&t, "d0", 2);
        add_number(&t, 1);
        add_number(&t, 1);
        add_number(&t, 0);
        add(&t, name, n);
        add(&t, "k", 1);
        add_stop(&t, "d0", 2, 1, "a");
        receives(&w, t.p, t.n);
        if (w.broadcasts_n == before) {
            silent++;
            continue;
        }
        published++;
        ck_assert_uint_eq(silent, 0); /* a longer trail is not sent either */
        ck_assert_uint_eq(w.broadcasts_n, before + 1);
        ck_assert_uint_le(w.broadcasts[before].n, TRAIL_BYTES);
        ck_assert(memcmp(w.broadcasts[before].p, t.p, t.n) == 0); /* and our own owner behind it, complete */
        ck_assert(memcmp(w.broadcasts[before].p + w.broadcasts[before].n - 8, "1:b,1:b,", 8) == 0);
    }
    ck_assert(published > 20 && silent > 20);
    world_close(&w);
}
END_TEST

/* Of a crowd of readers only as many are followed as one step may visit. */
START_TEST(crowds_are_not_followed)
{
    enum { READERS = 100, FOLLOWED = 63 };
    struct world w;
    struct text t;
    uint64_t s;

    open_as(&w, "d1");
    for (int i = 0; i < READERS; i++) {
        s = session(&w);
        holds(&w, s, "read", .kind = KIND_RW, .shared = true);
        lock(&w, s, "b");
        if (i == 0) {
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_TAKEN, .pttl_us = SEC(30));
            ck_assert(is_watched(&w, "b"));
        }
    }
    begin(&t, 'W');
    add_stop(&t, "d0", 2, 1, "read");
    receives(&w, t.p, t.n);
    ck_assert_uint_eq(w.broadcasts_n, FOLLOWED);
    world_close(&w);
}
END_TEST

/* One permit that is held elsewhere is followed there; of several, no daemon can know whether all holders are stuck. */
START_TEST(one_permit_elsewhere)
{
    for (uint32_t n = 1; n <= 2; n++) {
        struct world w;
        uint64_t s;

        open_as(&w, "d1");
        s = session(&w);
        take(&w, s, "a");
        lock(&w, session(&w), "a"); /* so that a cycle is possible at all */
        lock(&w, s, "pool", .kind = KIND_SEMAPHORE, .limit = n);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "pool"), CORE_TAKEN, .pttl_us = SEC(30), .holders = n);
        pass(&w, MS(1500));
        ck_assert_uint_eq(w.broadcasts_n, n == 1);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {long_circle, too_many_for_one_step, beside_the_cycle, a_lowered_limit_closes_a_cycle,
                            one_victim, verdicts_that_lie, trails_have_an_end, a_trail_too_long_for_a_broadcast,
                            crowds_are_not_followed, one_permit_elsewhere};

    return suite_main("core, corners", tests, sizeof(tests) / sizeof(tests[0]));
}
