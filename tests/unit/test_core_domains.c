/*
 * test_core_domains.c -- the events of one domain do not affect the locks of another one.
 */
#include <stdio.h>

#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "tests/unit/core_each.h"
#include "tests/unit/core_restart.h"

enum { NAMES = 12, SLICE = 3 };

static void
open_domains(struct world *w, uint32_t n, uint32_t slice)
{
    struct core_conf conf = world_conf;

    conf.domains = n;
    conf.slice = slice;
    world_open_conf(w, &conf);
}

static void
of_domain(struct world *w, enum core_event_type type, uint16_t domain, uint64_t epoch)
{
    happens(w, &(struct core_event){.type = type, .domain = domain, .epoch = epoch});
}

static uint64_t
take_in(struct world *w, uint64_t s, const char *name, uint16_t domain)
{
    return redis_grants(w, name, lock(w, s, name, .domain = domain))->token;
}

/* "a" is in domain 0 and "b" in domain 1, held by the first and the second session. */
static void
open_holding(struct world *w)
{
    open_domains(w, 2, 0);
    take_in(w, session(w), "a", 0);
    take_in(w, session(w), "b", 1);
}

static struct flight
expect_reclaim(struct world *w, const char *key)
{
    struct flight f = expect_op(w, CORE_ACQUIRE, key);

    ck_assert_msg(f.op.reclaim, "no reclaim of %s", key);
    ck_assert_uint_gt(f.op.token, 0);
    return f;
}

static void
reported_reclaimed(const struct world *w, unsigned times, uint16_t domain, uint64_t epoch)
{
    ck_assert_uint_eq(w->reclaimed_n, times);
    ck_assert_uint_eq(w->reclaimed_domain, domain);
    ck_assert_uint_eq(w->reclaimed, epoch);
}

static bool
is_busy(const struct world *w)
{
    return core_next_us(w->core) <= w->now_us;
}

static void
next_turn(struct world *w)
{
    world_step(w, &(struct core_event){.type = CORE_TIME});
}

/* Redis does all operations in flight. */
static void
redis_does_all(struct world *w)
{
    for (size_t i = 0; i < w->flights_n; i++) {
        if (!w->flights[i].answered) {
            skip_all(w);
            world_done(w, w->flights[i], (struct core_done){.outcome = CORE_OK});
        }
    }
    skip_all(w);
}

/* The locks of the other domain are granted, renewed and released; those of this one wait for their reclaim. */
START_TEST(one_is_lost)
{
    struct world w;
    struct flight f;
    uint64_t s, id;

    open_holding(&w);
    s = w.session[0];
    of_domain(&w, CORE_RECLAIM, 1, 9);
    f = expect_reclaim(&w, "b");
    quiet(&w);
    id = renew(&w, w.session[1], "b", SEC(60), .domain = 1);
    quiet(&w);
    redis_renews(&w, "a", renew(&w, s, "a", SEC(60)));
    take_in(&w, s, "c", 0);
    give(&w, s, "a");
    take_in(&w, s, "a", 0);
    ck_assert_uint_eq(w.reclaimed_n, 0);
    redis_says(&w, f, CORE_OK);
    reported_reclaimed(&w, 1, 1, 9);
    redis_renews(&w, "b", id);
    reported_reclaimed(&w, 1, 1, 9);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
    world_close(&w);
}
END_TEST

/* A domain without holds reports RECLAIMED at once, and the holds of another domain are not reclaimed. */
START_TEST(nothing_is_held_in_it)
{
    struct world w;

    open_domains(&w, 3, 0);
    take_in(&w, session(&w), "a", 0);
    of_domain(&w, CORE_RECLAIM, 1, 9);
    reported_reclaimed(&w, 1, 1, 9);
    of_domain(&w, CORE_RECLAIM, 2, 4);
    reported_reclaimed(&w, 2, 2, 4);
    quiet(&w);
    of_domain(&w, CORE_RECLAIM, 0, 7);
    reported_reclaimed(&w, 2, 2, 4);
    redis_says(&w, expect_reclaim(&w, "a"), CORE_OK);
    reported_reclaimed(&w, 3, 0, 7);
    world_close(&w);
}
END_TEST

/* Each domain has its own epoch, and reports RECLAIMED when its own locks are reclaimed or lost. */
START_TEST(two_are_lost)
{
    struct world w;
    struct flight a, b;

    open_holding(&w);
    of_domain(&w, CORE_RECLAIM, 1, 9);
    b = expect_reclaim(&w, "b");
    of_domain(&w, CORE_RECLAIM, 0, 5);
    a = expect_reclaim(&w, "a");
    ck_assert_uint_eq(w.reclaimed_n, 0);
    redis_says(&w, a, CORE_OK);
    reported_reclaimed(&w, 1, 0, 5);
    redis_says(&w, b, CORE_TAKEN, .pttl_us = SEC(1));
    reported_reclaimed(&w, 2, 1, 9);
    expect_news(&w, CORE_NEWS_LOST, "b");
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
    expect_state(&w, "a", "held");
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* The last unverified lock ends at its deadline. */
START_TEST(its_last_one_runs_out)
{
    struct world w;
    uint64_t s;

    open_domains(&w, 2, 0);
    s = session(&w);
    take_in(&w, s, "a", 0);
    redis_grants(&w, "b", lock(&w, s, "b", .domain = 1, .lease_us = SEC(1)));
    of_domain(&w, CORE_RECLAIM, 1, 9);
    expect_reclaim(&w, "b");
    pass(&w, SEC(1));
    reported_reclaimed(&w, 1, 1, 9);
    expect_news(&w, CORE_NEWS_LOST, "b");
    skip_all(&w);
    world_close(&w);
}
END_TEST

START_TEST(a_clock_of_one_has_jumped)
{
    struct world w;

    open_holding(&w);
    of_domain(&w, CORE_SUSPECT, 1, 0);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "b"), CORE_OK);
    quiet(&w);
    of_domain(&w, CORE_SUSPECT, 0, 0);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    ck_assert_uint_eq(w.reclaimed_n, 0);
    world_close(&w);
}
END_TEST

/* The waiters of this domain try again; those of another domain go on waiting. */
START_TEST(one_grants_again)
{
    struct world w;
    uint64_t a, b;

    open_domains(&w, 2, 0);
    a = lock(&w, session(&w), "a", .domain = 0, .wait_us = SEC(60));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_GRACE, .pttl_us = SEC(30));
    b = lock(&w, session(&w), "b", .domain = 1, .wait_us = SEC(60));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_GRACE, .pttl_us = SEC(30));
    of_domain(&w, CORE_GRACE_OVER, 1, 0);
    redis_grants(&w, "b", b);
    quiet(&w);
    of_domain(&w, CORE_GRACE_OVER, 0, 0);
    redis_grants(&w, "a", a);
    world_close(&w);
}
END_TEST

/* Releases that were put off are sent in the domain where Redis is reached. */
START_TEST(one_can_be_reached)
{
    struct world w;
    open_holding(&w);
    gone(&w, w.session[0]);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    gone(&w, w.session[0]); /* the session of "b" */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_DOWN);
    quiet(&w);
    of_domain(&w, CORE_REACHED, 1, 0);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    quiet(&w);
    of_domain(&w, CORE_REACHED, 0, 0);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

/* A drain refuses the waiters of all domains. */
START_TEST(all_are_drained)
{
    struct world w;
    uint64_t a, b;

    open_holding(&w);
    a = lock(&w, session(&w), "a", .domain = 0);
    b = lock(&w, session(&w), "b", .domain = 1);
    drains(&w);
    expect_reply(&w, a, CORE_DRAINING);
    expect_reply(&w, b, CORE_DRAINING);
    give(&w, w.session[0], "a");
    give(&w, w.session[1], "b");
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* A restored lock is in the domain that its key is in now. */
START_TEST(a_restored_lock_is_in_its_domain)
{
    struct core_conf conf = storing;
    struct world w;
    uint64_t s;

    conf.domains = 2;
    world_open_conf(&w, &conf);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "alice", .domain = 1));
    w.checkpoints[0].cp.domain = 1;
    restored(restarts(&w), 1, 0, 0, 0);
    of_domain(&w, CORE_RECLAIM, 0, 5);
    reported_reclaimed(&w, 1, 0, 5);
    quiet(&w);
    of_domain(&w, CORE_RECLAIM, 1, 9);
    redis_says(&w, expect_reclaim(&w, "a"), CORE_OK);
    reported_reclaimed(&w, 2, 1, 9);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* The review of one domain goes on in slices: that of the other domain does not wait for it. */
START_TEST(reviews_side_by_side)
{
    struct world w;
    uint64_t s;

    open_domains(&w, 2, SLICE);
    s = session(&w);
    for (int i = 0; i < NAMES; i++) {
        char name[8];

        snprintf(name, sizeof(name), "n%d", i);
        take_in(&w, s, name, 0);
    }
    take_in(&w, s, "b", 1);
    of_domain(&w, CORE_RECLAIM, 0, 5);
    skip_all(&w);
    ck_assert(job_is_pending(&w.core->domain[0].walk[WALK_REVIEW].job));
    of_domain(&w, CORE_RECLAIM, 1, 9);
    for (int turns = 0; w.reclaimed_n == 0; turns++) {
        ck_assert_int_lt(turns, 3);
        for (size_t i = 0; i < w.flights_n; i++) {
            if (!w.flights[i].answered && w.flights[i].key[0] == 'b') {
                skip_all(&w);
                world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
            }
        }
        skip_all(&w);
        next_turn(&w);
    }
    reported_reclaimed(&w, 1, 1, 9);
    ck_assert(w.core->domain[0].unverified_n > 0);
    do {
        redis_does_all(&w);
        next_turn(&w);
    } while (is_busy(&w) || w.flights_seen < w.flights_n);
    reported_reclaimed(&w, 2, 0, 5);
    world_close(&w);
}
END_TEST

/* The same where one lock has very many claims: its round does not delay the other domain. */
START_TEST(a_round_of_another_domain)
{
    struct world w;
    uint64_t s, t;

    open_domains(&w, 2, SLICE);
    s = session(&w);
    t = session(&w);
    take_in(&w, s, "hot", 0);
    for (int i = 0; i < 4 * NAMES; i++) {
        char owner[8];

        snprintf(owner, sizeof(owner), "o%d", i);
        lock(&w, t, "hot", .owner = owner);
    }
    skip_all(&w);
    of_domain(&w, CORE_SUSPECT, 0, 0);
    skip_all(&w);
    ck_assert(round_is_pending(w.core, lock_find(w.core, SLICE_LIT("hot")), ROUND_REVIEW));
    of_domain(&w, CORE_RECLAIM, 1, 9);
    reported_reclaimed(&w, 1, 1, 9);
    while (is_busy(&w)) {
        next_turn(&w);
    }
    redis_does_all(&w);
    reported_reclaimed(&w, 1, 1, 9);
    w.answers_seen = w.answers_n;
    gone(&w, t);
    skip_all(&w);
    w.answers_seen = w.answers_n;
    world_close(&w);
}
END_TEST

/* All locks are reclaimed before the review has come to the last ones: RECLAIMED is reported at its end. */
START_TEST(the_review_ends_last)
{
    static const char *const names[] = {"n0", "n1", "n2", "n3"};
    struct world w;
    struct flight first;
    uint64_t id;

    open_domains(&w, 1, 1);
    for (int i = 0; i < 4; i++) {
        take_in(&w, session(&w), names[i], 0);
    }
    w.one_turn = true; /* the slice is used up */
    of_domain(&w, CORE_RECLAIM, 0, 9);
    first = expect_any(&w, CORE_ACQUIRE);
    redis_says(&w, first, CORE_OK);
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], first.key) == 0) {
            continue;
        }
        id = lock(&w, w.session[i], names[i], .once = true);
        redis_says(&w, expect_reclaim(&w, names[i]), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
    }
    ck_assert_uint_eq(w.core->domain[0].unverified_n, 0);
    ck_assert_uint_eq(w.reclaimed_n, 0);
    w.one_turn = false;
    while (is_busy(&w)) {
        next_turn(&w);
    }
    reported_reclaimed(&w, 1, 0, 9);
    world_close(&w);
}
END_TEST

struct seen {
    char text[64];
};

static void
see_lock(void *ctx, const struct core_lock_view *v)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof(s->text) - n, "%.*s ", (int)v->name.n, v->name.p);
}

static bool
see(struct world *w, struct core_cursor *walk, unsigned n, struct seen *s)
{
    s->text[0] = '\0';
    return core_cursor_locks(w->core, walk, w->now_us, (struct slice){NULL, 0}, n, see_lock, s);
}

/* A walk over all locks sees those of every domain, whichever end meanwhile. */
START_TEST(all_can_be_looked_at)
{
    static const char *const names[] = {"a0", "a3", "b3", "a5", "b0"};
    static const uint16_t domains[] = {0, 3, 3, 5, 0};
    struct core_cursor cursor;
    struct seen seen = {""};
    struct world w;
    uint64_t s;

    open_domains(&w, 6, 0);
    s = session(&w);
    for (int i = 0; i < 5; i++) {
        take_in(&w, s, names[i], domains[i]);
    }
    core_each_lock(w.core, w.now_us, (struct slice){NULL, 0}, see_lock, &seen);
    ck_assert_str_eq(seen.text, "a0 b0 a3 b3 a5 ");
    core_cursor_begin(w.core, &cursor);
    ck_assert(see(&w, &cursor, 3, &seen));
    ck_assert_str_eq(seen.text, "a0 b0 a3 ");
    give(&w, s, "b3"); /* the last one of its domain: the walk goes on in the next domain */
    ck_assert(see(&w, &cursor, 0, &seen));
    ck_assert(!see(&w, &cursor, 9, &seen));
    ck_assert_str_eq(seen.text, "a5 ");
    core_cursor_begin(w.core, &cursor);
    ck_assert(see(&w, &cursor, 3, &seen));
    give(&w, s, "a5");
    ck_assert(!see(&w, &cursor, 9, &seen));
    ck_assert_str_eq(seen.text, "");
    world_close(&w);
}
END_TEST

/* As many domains as a cluster has slots. */
START_TEST(very_many)
{
    enum { SLOTS = 16384 };
    struct world w;
    uint64_t s;

    open_domains(&w, SLOTS, 0);
    s = session(&w);
    take_in(&w, s, "a", SLOTS - 1);
    of_domain(&w, CORE_RECLAIM, SLOTS - 2, 3);
    reported_reclaimed(&w, 1, SLOTS - 2, 3);
    of_domain(&w, CORE_RECLAIM, SLOTS - 1, 4);
    redis_says(&w, expect_reclaim(&w, "a"), CORE_OK);
    reported_reclaimed(&w, 2, SLOTS - 1, 4);
    w.unchecked = true;
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {one_is_lost, nothing_is_held_in_it, two_are_lost, its_last_one_runs_out,
                            a_clock_of_one_has_jumped, one_grants_again, one_can_be_reached, all_are_drained,
                            a_restored_lock_is_in_its_domain, reviews_side_by_side, a_round_of_another_domain,
                            the_review_ends_last, all_can_be_looked_at, very_many};

    return suite_main("core, domains", tests, sizeof(tests) / sizeof(tests[0]));
}
