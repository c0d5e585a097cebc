/*
 * test_core_corners.c -- what seldom comes together: long cycles and large crowds, trails that lie, records of a process
 * before us that make no sense, and answers that come when they are not expected any more.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

enum { TRAIL_BYTES = 8 * 1024 }; /* more is not said */

/* What it is doing besides is no matter here. */
static void
skip_all(struct world *w)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        w->flights[i].seen = true;
    }
}

/* s holds `name` of that kind. */
static void
has(struct world *w, uint64_t s, const char *name, struct ask a)
{
    uint64_t id = world_ask(w, CORE_LOCK, s, name, a);

    redis_says(w, expect_op(w, CORE_ACQUIRE, name), CORE_OK);
    expect_reply(w, id, CORE_GRANTED);
}

#define holds(w, s, name, ...) has(w, s, name, (struct ask){__VA_ARGS__})

/* ---- deadlocks in one daemon ---- */

/* It is found, however long it is; of more than 16 owners the end is not spelled out. */
START_TEST(long_circle)
{
    enum { N = 20, TOLD = 16 };
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
    ck_assert_uint_eq(r->hops, TOLD);
    ck_assert_uint_eq(hop(r, 0)->hop.owner, s[N - 1]);
    for (int i = 1; i < TOLD; i++) {
        ck_assert_uint_eq(hop(r, i)->hop.owner, s[i - 1]);
        ck_assert_str_eq(hop(r, i)->name, name[i]);
    }
    world_close(&w);
}
END_TEST

/* A search that would be too long is left: who waits then waits, and is told nothing that is not so. */
START_TEST(too_many_to_search)
{
    enum { READERS = 4200 };
    static struct world w;
    uint64_t writer, first, id;

    world_open(&w);
    w.unchecked = true; /* or each step would look at all of them */
    writer = session(&w);
    first = session(&w);
    take(&w, writer, "w");
    holds(&w, first, "r", .kind = KIND_RW, .shared = true);
    for (int i = 1; i < READERS; i++) {
        holds(&w, session(&w), "r", .kind = KIND_RW, .shared = true);
    }
    lock(&w, first, "w"); /* for who will wait for it */
    id = lock(&w, writer, "r", .kind = KIND_RW, .wait_us = SEC(1));
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    core_check(w.core, w.now_us);
    world_close(&w);
}
END_TEST

/* Who is stuck behind somebody who may yet go on has no part in the cycle, although it waits for who asks as well. */
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

/* A limit that was lowered can close a cycle; it is found when it is asked for again. A hold that is over is no part. */
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
    lock(&w, c, "pool", .kind = KIND_SEMAPHORE, .limit = 2); /* asks at 1 s, and at 2 s */
    pass(&w, MS(500));
    id = lock(&w, a, "read", .kind = KIND_RW); /* asks at 1.5 s */
    pass(&w, MS(700));
    skip_all(&w);
    expect_reply(&w, lock(&w, b, "pool", .kind = KIND_SEMAPHORE, .limit = 1, .nowait = true), CORE_NOT_GRANTED);
    gone(&w, e);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "pool"), CORE_OK);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    stall(&w, MS(790)); /* 1.99 s: the hold of b is over, and nobody has said so */
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

/* As bytes of their own, so that one too far is seen. */
static void
hears(struct world *w, const struct text *t)
{
    char *copy = malloc(t->n);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, t->p, t->n);
    happens(w, &(struct core_event){.type = CORE_HEARD, .heard = {copy, t->n}});
    free(copy);
}

static void
open_as(struct world *w, const char *daemon)
{
    struct core_conf conf = world_conf;

    conf.deadlock_us = SEC(1);
    snprintf(conf.daemon, sizeof(conf.daemon), "%s", daemon);
    world_open_conf(w, &conf);
}

/* Its number is not known from outside: `s` waits for "a" of somebody here by one of the serials up to this. */
static uint64_t
waits(struct world *w, uint64_t s, const char *name, uint64_t *id)
{
    *id = lock(w, s, name);
    return core_totals(w->core).serial;
}

/* A verdict whose stop `which` has the right number of that wait, whichever it is; the others have it as they are. */
static bool
judged(struct world *w, uint64_t serial, uint64_t id, void (*stops)(struct text *, uint64_t, void *), void *ctx)
{
    for (uint64_t wait = serial; wait + 8 > serial && wait > 0; wait--) {
        struct text t;

        begin(&t, 'V');
        stops(&t, wait, ctx);
        hears(w, &t);
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
    uint64_t other; /* number of the other one's wait */
    const char *name;
};

static void
two_stops(struct text *t, uint64_t wait, void *ctx)
{
    const struct two *v = ctx;

    add_stop(t, v->first, v->first_owner, v->ours_second ? v->other : wait, v->name);
    add_stop(t, v->second, v->second_owner, v->ours_second ? wait : v->other, v->name);
}

/* All who look at a cycle name the same victim, wherever they begin, also if one's id is the beginning of another's. */
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

            open_as(&w, rows[i].us);
            s = session(&w);
            t = session(&w);
            take(&w, s, "a");
            serial = waits(&w, t, "a", &id);
            ck_assert(judged(&w, serial, id, two_stops,
                             second == 0 ? &(struct two){rows[i].us, rows[i].them, t, 77, false, 5, "a"}
                                         : &(struct two){rows[i].them, rows[i].us, 77, t, true, 5, "a"}) == rows[i].is_us);
            world_close(&w);
        }
    }
}
END_TEST

/* A verdict that speaks of a wait of ours that is over, or of one for another name, is none. */
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

    open_as(&w, "d1"); /* she has a place for "a", and waits for "b" */
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

/* Sixteen owners are followed, one more is no trail. */
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

/* s holds "a", and waits for "b" that somebody elsewhere has. */
static void
on_the_way(struct world *w)
{
    uint64_t s = session(w);

    take(w, s, "a");
    lock(w, s, "b");
    redis_says(w, expect_op(w, CORE_ACQUIRE, "b"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_op(w, CORE_WATCH, "b");
}

/* A way is told whole or not at all: names that are too long for it are left to time out. */
START_TEST(ways_too_long_to_be_told)
{
    size_t unsaid = 0, said = 0;
    static char name[TRAIL_BYTES];
    struct world w;

    open_as(&w, "d1");
    on_the_way(&w);
    memset(name, 'n', sizeof(name));
    for (size_t n = TRAIL_BYTES - 260; n < TRAIL_BYTES - 20; n++) {
        struct text t;
        size_t before = w.said_n;

        begin(&t, 'W');
        add(&t, "d0", 2);
        add_number(&t, 1);
        add_number(&t, 1);
        add_number(&t, 0);
        add(&t, name, n);
        add(&t, "k", 1);
        add_stop(&t, "d0", 2, 1, "a");
        hears(&w, &t);
        if (w.said_n == before) {
            unsaid++;
            continue;
        }
        said++;
        ck_assert_uint_eq(unsaid, 0); /* a longer one is none either */
        ck_assert_uint_eq(w.said_n, before + 1);
        ck_assert_uint_le(w.said[before].n, TRAIL_BYTES);
        ck_assert(memcmp(w.said[before].p, t.p, t.n) == 0); /* and our own owner behind it, to the last word */
        ck_assert(memcmp(w.said[before].p + w.said[before].n - 8, "1:b,1:b,", 8) == 0);
    }
    ck_assert(said > 20 && unsaid > 20);
    world_close(&w);
}
END_TEST

/* Of a crowd of readers so many are followed as one step may look at. */
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
            expect_op(&w, CORE_WATCH, "b");
        }
    }
    begin(&t, 'W');
    add_stop(&t, "d0", 2, 1, "read");
    hears(&w, &t);
    ck_assert_uint_eq(w.said_n, FOLLOWED);
    world_close(&w);
}
END_TEST

/* ---- what the process before us has left ---- */

static const struct core_kept record = {.part = {.claim = 10,
                                                 .number = 5,
                                                 .token = 900,
                                                 .deadline_us = SEC(1020),
                                                 .granted_us = SEC(990),
                                                 .lease_us = SEC(30),
                                                 .place_life_us = SEC(30),
                                                 .holds = 1,
                                                 .state = CORE_KEPT_HELD,
                                                 .named = true,
                                                 .watchdog = true},
                                        .kind = KIND_REENTRANT,
                                        .limit = 1,
                                        .owner_grace_us = SEC(10),
                                        .place_grace_us = SEC(2)};

static struct core_kept
kept_of(uint64_t claim, const char *owner, const char *name)
{
    struct core_kept k = record;

    k.part.claim = claim;
    k.part.order = claim;
    k.owner = slice_of(owner);
    k.name = k.key = slice_of(name);
    return k;
}

static struct core_adoption
adopts(struct world *w, struct core_kept *kept, size_t n)
{
    struct core_adoption a = {.kept = kept, .n = n, .serial = 1000, .token = 1000};
    struct core_conf conf = world_conf;

    conf.keeps = true;
    world_open_conf(w, &conf);
    for (size_t i = 0; i < n; i++) {
        world_keep(w, &kept[i]);
    }
    happens(w, &(struct core_event){.type = CORE_ADOPT, .adopt = &a});
    ck_assert_uint_eq(a.held + a.places + a.freed + a.lost + a.failed, n);
    return a;
}

/* Redis is reached, and says of what is held that it is still there. */
static void
confirmed(struct world *w, const char *name)
{
    happens(w, &(struct core_event){.type = CORE_REACHED});
    redis_says(w, expect_op(w, CORE_EXTEND, name), CORE_OK);
}

/* What nobody can come back for is given back. */
START_TEST(records_of_nobody)
{
    for (int i = 0; i < 4; i++) {
        struct core_kept k = kept_of(10, "alice", "a");
        struct world w;

        switch (i) {
        case 0: /* a hold without a token */
            k.part.token = 0;
            break;
        case 1: /* ... without a count */
            k.part.holds = 0;
            break;
        case 2: /* a place that nobody may come back to */
            k.part.state = CORE_KEPT_QUEUED;
            k.owner_grace_us = k.place_grace_us = 0;
            break;
        default: /* a name that does not stand for itself */
            k.part.named = false;
            break;
        }
        ck_assert_uint_eq(adopts(&w, &k, 1).freed, 1);
        pass(&w, SEC(1));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* A place lives for the grace of the place, or of its owner where that is longer. */
START_TEST(places_by_their_graces)
{
    static const struct {
        int64_t place_us, owner_us, lives_us;
    } rows[] = {{SEC(2), 0, SEC(2)}, {0, SEC(3), SEC(3)}, {SEC(4), SEC(1), SEC(1)}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct core_kept k = kept_of(10, "alice", "a");
        struct world w;

        k.part.state = CORE_KEPT_QUEUED;
        k.place_grace_us = rows[i].place_us;
        k.owner_grace_us = rows[i].owner_us;
        ck_assert_uint_eq(adopts(&w, &k, 1).places, 1);
        if (rows[i].owner_us > 0) {
            pass(&w, rows[i].lives_us - 1);
            ck_assert(known(&w, "a"));
        }
        pass(&w, 1); /* an owner without a grace ends at once, and its place with it */
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* One that Redis may have granted is in the way of others: without a grace for the place it goes at once. */
START_TEST(an_attempt_without_grace)
{
    struct core_kept k = kept_of(10, "alice", "a");
    struct world w;

    k.part.state = CORE_KEPT_QUEUED;
    k.part.unsure = true;
    k.place_grace_us = 0;
    ck_assert_uint_eq(adopts(&w, &k, 1).places, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    happens(&w, &(struct core_event){.type = CORE_REACHED}); /* is no reason to give it back at once again */
    quiet(&w);
    pass(&w, 2 * world_conf.op_timeout_us); /* what was under way can run no more */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* Two holders of what one can hold: one of the records is wrong, and the later one is told that it has lost it. */
START_TEST(two_holders_of_one_name)
{
    struct core_kept kept[] = {kept_of(10, "alice", "a"), kept_of(11, "bob", "a"), kept_of(12, "carol", "b")};
    struct core_adoption a;
    struct world w;
    uint64_t s;

    kept[2].part.state = CORE_KEPT_LOST;
    a = adopts(&w, kept, 3);
    ck_assert(a.held == 1 && a.lost == 2);
    s = session(&w);
    expect_reply(&w, unlock(&w, s, "a", .owner = "bob"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "b", .owner = "carol"), CORE_WAS_LOST);
    confirmed(&w, "a");
    unlock(&w, s, "a", .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    world_close(&w);
}
END_TEST

/* Readers, and holders of permits, may be several; a writer beside readers is wrong. */
START_TEST(several_holders_of_one_name)
{
    struct core_kept kept[] = {kept_of(10, "alice", "r"), kept_of(11, "bob", "r"), kept_of(12, "carol", "r"),
                               kept_of(13, "dave", "p"), kept_of(14, "eve", "p")};
    struct core_adoption a;
    struct world w;

    for (int i = 0; i < 3; i++) {
        kept[i].kind = KIND_RW;
        kept[i].part.holds = i == 2;
        kept[i].part.shared = i != 2;
    }
    kept[3].kind = kept[4].kind = KIND_SEMAPHORE;
    a = adopts(&w, kept, 5); /* also more of them than the limit is now */
    ck_assert(a.held == 4 && a.lost == 1);
    ck_assert_uint_eq(look(&w, "r").holders, 2);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* One name as two things: the first record counts, the other one is left to its lease. */
START_TEST(records_that_disagree)
{
    for (int i = 0; i < 3; i++) {
        struct core_kept kept[] = {kept_of(10, "alice", "a"), kept_of(11, "bob", "a")};
        struct core_adoption a;
        struct world w;

        kept[0].kind = kept[1].kind = KIND_SIMPLE;
        switch (i) {
        case 0:
            kept[1].kind = KIND_RW;
            break;
        case 1:
            kept[1].value = VALUE_HEX32;
            break;
        default:
            kept[1].key = slice_of("other");
            break;
        }
        a = adopts(&w, kept, 2);
        ck_assert(a.held == 1 && a.failed == 1);
        ck_assert_uint_eq(w.kept_n, 1);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* What is under way already is not asked for twice when Redis is reached. */
START_TEST(reached_twice)
{
    struct core_kept kept[] = {kept_of(10, "", "a"), kept_of(11, "alice", "b")};
    struct world w;

    kept[0].part.named = false;
    adopts(&w, kept, 2);
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    expect_op(&w, CORE_RELEASE, "a");
    expect_op(&w, CORE_EXTEND, "b");
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    quiet(&w);
    world_close(&w);
}
END_TEST

/* ---- late answers ---- */

/* An answer to what nobody waits for any more, or a second one to the same, changes nothing. */
START_TEST(answers_that_are_late)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = break_name(&w, s, "a");
    op = expect_op(&w, CORE_BREAK_KEY, "a");
    pass(&w, 2 * world_conf.op_timeout_us);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    ck_assert(!known(&w, "a"));
    redis_says(&w, op, CORE_OK); /* there is no record of it any more */
    take(&w, s, "b");
    id = break_name(&w, s, "b");
    op = expect_op(&w, CORE_BREAK_KEY, "b");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    expect_news(&w, CORE_NEWS_LOST, "b");
    redis_says(&w, op, CORE_FOREIGN); /* once more, and what it says is no news */
    expect_reply(&w, unlock(&w, s, "b"), CORE_WAS_LOST);
    gone(&w, s);
    mlock(&w, s, "a b"); /* nobody is there to be answered */
    quiet(&w);
    world_close(&w);
}
END_TEST

/* A lease that is less than what is taken off for safety is over before it has begun. */
START_TEST(a_lease_of_nothing)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    id = renew(&w, s, "a", MS(1));
    expect_op(&w, CORE_EXTEND, "a"); /* and is not waited for */
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_news(&w, CORE_NEWS_LOST, "a");
    expect_op(&w, CORE_RELEASE, "a");
    world_close(&w);
}
END_TEST

/*
 * The process before us may have shortened the lease, and that may still run: a RENEW that is answered later than that
 * leaves nothing. That Redis may have lost it besides, which was heard of meanwhile, does not keep it alive.
 */
START_TEST(over_and_in_doubt)
{
    struct core_kept k = kept_of(10, "alice", "a");
    struct world w;
    struct flight op;
    uint64_t s, id;

    k.part.shrink_lease_us = MS(100);
    adopts(&w, &k, 1);
    s = session(&w);
    confirmed(&w, "a");
    id = renew(&w, s, "a", SEC(60), .owner = "alice");
    op = expect_op(&w, CORE_EXTEND, "a");
    reclaims(&w, 2);
    pass(&w, MS(200));
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
    expect_news(&w, CORE_NEWS_LOST, "a");
    ck_assert_uint_eq(w.reclaimed, 2); /* there is nothing left that it could be kept waiting for */
    expect_op(&w, CORE_RELEASE, "a");
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {long_circle, too_many_to_search, beside_the_cycle, a_lowered_limit_closes_a_cycle, one_victim,
                            verdicts_that_lie, trails_have_an_end, ways_too_long_to_be_told, crowds_are_not_followed,
                            records_of_nobody, places_by_their_graces, an_attempt_without_grace, two_holders_of_one_name,
                            several_holders_of_one_name, records_that_disagree, reached_twice, answers_that_are_late,
                            a_lease_of_nothing, over_and_in_doubt};

    return world_main("core, corners", tests, sizeof(tests) / sizeof(tests[0]));
}
