/*
 * test_core_slices.c -- long jobs are done in slices; the promises hold wherever a job stands.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/queue.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

enum { MANY = 20, SLICE = 4 };

static void
open_sliced(struct world *w, uint32_t slice)
{
    struct core_conf conf = world_conf;

    conf.slice = slice;
    world_open_conf(w, &conf);
}

static const char *
name_of(int i)
{
    static char name[16];

    snprintf(name, sizeof(name), "n%d", i);
    return name;
}

static void
take_many(struct world *w, uint64_t s, struct ask a)
{
    for (int i = 0; i < MANY; i++) {
        redis_grants(w, name_of(i), world_ask(w, CORE_LOCK, s, name_of(i), a));
    }
}

/* Counts the operations since the last call, which are all of this sort. */
static int
count_ops(struct world *w, enum core_action_type verb)
{
    int n = 0;

    for (; w->flights_seen < w->flights_n; w->flights_seen++, n++) {
        ck_assert_int_eq(w->flights[w->flights_seen].verb, verb);
    }
    return n;
}

/* Counts all operations of this sort since the start of the test. */
static int
count_all(struct world *w, enum core_action_type verb)
{
    int n = 0;

    w->flights_seen = w->flights_n;
    for (size_t i = 0; i < w->flights_n; i++) {
        n += w->flights[i].verb == verb;
    }
    return n;
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

/* A turn sends a slice of the releases, and asks for another turn at once; other clients are served in between. */
START_TEST(a_session_ends_in_slices)
{
    struct world w;
    struct flight f;
    uint64_t s, other, id;
    int turns, n;

    open_sliced(&w, SLICE);
    s = session(&w);
    other = session(&w);
    take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
    gone(&w, s);
    n = count_ops(&w, CORE_RELEASE);
    ck_assert_int_eq(n, SLICE);
    ck_assert(is_busy(&w));
    id = lock(&w, other, "free");
    f = expect_op(&w, CORE_ACQUIRE, "free");
    skip_all(&w);
    redis_says(&w, f, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    for (turns = 3; is_busy(&w); turns++) {
        n = count_all(&w, CORE_RELEASE);
        ck_assert_int_le(n, SLICE * turns);
        next_turn(&w);
    }
    ck_assert_int_eq(count_all(&w, CORE_RELEASE), MANY);
    world_close(&w);
}
END_TEST

/* The session has gone: its locks are released in the end, and a waiter for one of them gets it. */
START_TEST(waiters_behind_an_end)
{
    struct world w;
    uint64_t s, other, id;

    open_sliced(&w, 1);
    s = session(&w);
    other = session(&w);
    take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
    gone(&w, s);
    count_ops(&w, CORE_RELEASE);
    id = lock(&w, other, "n19");
    while (is_busy(&w)) {
        next_turn(&w);
    }
    for (size_t i = 0; i < w.flights_n; i++) {
        if (!w.flights[i].answered) {
            w.flights_seen = w.flights_n;
            world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
        }
    }
    w.flights_seen = w.flights_n;
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Leases end before the job has come to them: their session has gone, so no loss is reported. */
START_TEST(over_before_its_end)
{
    struct world w;
    uint64_t s;

    open_sliced(&w, 1);
    s = session(&w);
    take_many(&w, s, (struct ask){.lease_us = SEC(2)});
    gone(&w, s);
    w.now_us += SEC(3);
    while (is_busy(&w)) {
        next_turn(&w);
    }
    ck_assert_int_eq(count_ops(&w, CORE_RELEASE), MANY);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
    world_close(&w);
}
END_TEST

/*
 * All leases end at once: the oldest go first; a lock whose timer has not had its turn does not count as held either.
 */
START_TEST(leases_run_out_in_slices)
{
    struct world w;
    uint64_t s, id;

    open_sliced(&w, SLICE);
    s = session(&w);
    take_many(&w, s, (struct ask){.lease_us = SEC(2)});
    stall(&w, SEC(3));
    next_turn(&w);
    ck_assert_int_eq(count_ops(&w, CORE_RELEASE), SLICE);
    ck_assert(is_busy(&w));
    expect_state(&w, "n0", "freeing");
    for (int i = SLICE; i < MANY; i++) {
        expect_state(&w, name_of(i), "lost");
    }
    id = lock(&w, s, "n19", .once = true, .nowait = true);
    expect_reply(&w, id, CORE_WAS_LOST);
    count_ops(&w, CORE_RELEASE);
    expect_reply(&w, unlock(&w, s, "n18"), CORE_WAS_LOST);
    count_ops(&w, CORE_RELEASE);
    expect_reply(&w, renew(&w, s, "n17", SEC(5)), CORE_WAS_LOST);
    count_ops(&w, CORE_RELEASE);
    while (is_busy(&w)) {
        next_turn(&w);
        count_ops(&w, CORE_RELEASE);
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), MANY);
    world_close(&w);
}
END_TEST

/* The number that UNLOCK returns has no permits whose lease has ended, though their timers have not had their turn. */
START_TEST(permits_run_out_in_slices)
{
    struct ask a = {.kind = KIND_SEMAPHORE, .limit = 2 * MANY, .lease_us = SEC(60)};
    struct world w;
    uint64_t s, id;

    open_sliced(&w, 1);
    s = session(&w);
    for (int i = 0; i < MANY + 2; i++) {
        a.lease_us = SEC(i < MANY ? 2 : 60);
        redis_grants(&w, "pool", world_ask(&w, CORE_LOCK, s, "pool", a));
    }
    stall(&w, SEC(3));
    id = world_ask(&w, CORE_UNLOCK, s, "pool", (struct ask){.kind = KIND_SEMAPHORE});
    skip_all(&w);
    for (size_t i = MANY + 2; i < w.flights_n; i++) {
        if (w.flights[i].op.claim == w.flights[MANY + 1].op.claim) {
            world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
        }
        skip_all(&w);
    }
    ck_assert_uint_gt(w.core->held_n, 2);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    world_close(&w);
}
END_TEST

/* The answer to a renewal comes after the end of the lease, whose timer has not had its turn: LOST, and no renewal. */
START_TEST(a_renewal_that_comes_too_late)
{
    struct world w;
    struct flight renewal;
    uint64_t s;

    open_sliced(&w, 1);
    s = session(&w);
    take_many(&w, s, (struct ask){.lease_us = SEC(2)});
    redis_grants(&w, "late", lock(&w, s, "late", .spec_lease_us = SEC(3)));
    w.now_us += MS(1100);
    next_turn(&w);
    renewal = expect_op(&w, CORE_EXTEND, "late");
    stall(&w, SEC(4));
    redis_says(&w, renewal, CORE_OK);
    expect_news(&w, CORE_NEWS_LOST, "late");
    w.flights_seen = w.flights_n;
    while (is_busy(&w)) {
        next_turn(&w);
        count_ops(&w, CORE_RELEASE);
    }
    world_close(&w);
}
END_TEST

/* Redis has lost its data: locks that the review has not reached yet are unverified as well, for any request. */
START_TEST(a_review_in_slices)
{
    struct world w;
    struct flight f;
    uint64_t s, id;

    open_sliced(&w, 2);
    s = session(&w);
    take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
    reclaims(&w, 5);
    ck_assert_int_le(count_ops(&w, CORE_ACQUIRE), 2);
    id = lock(&w, s, "n19", .once = true);
    ck_assert_uint_eq(w.answers_seen, w.answers_n);
    while (is_busy(&w)) {
        next_turn(&w);
    }
    ck_assert_uint_eq(w.reclaimed_n, 0);
    while (w.flights_seen < w.flights_n) {
        f = w.flights[w.flights_seen++];
        ck_assert(f.verb == CORE_ACQUIRE && f.op.reclaim);
    }
    for (size_t i = 0; i < w.flights_n; i++) {
        if (!w.flights[i].answered) {
            ck_assert_uint_eq(w.reclaimed_n, 0);
            w.answers_seen = w.answers_n;
            world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
        }
    }
    w.answers_seen = 0;
    expect_reply(&w, id, CORE_GRANTED);
    w.answers_seen = w.answers_n;
    ck_assert_uint_eq(w.reclaimed_n, 1);
    world_close(&w);
}
END_TEST

/* All locks that the review has reached are reclaimed; the end is reported only when it has reached all of them. */
START_TEST(reclaimed_is_reported_behind_the_review)
{
    struct world w;
    uint64_t s;

    open_sliced(&w, 1);
    s = session(&w);
    take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
    w.one_turn = true; /* the slice is used up */
    reclaims(&w, 5);
    redis_says(&w, expect_any(&w, CORE_ACQUIRE), CORE_OK);
    ck_assert_uint_eq(w.reclaimed_n, 0);
    w.one_turn = false;
    while (w.reclaimed_n == 0) {
        next_turn(&w);
        for (size_t i = 0; i < w.flights_n; i++) {
            if (!w.flights[i].answered) {
                w.flights_seen = w.flights_n;
                world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
            }
        }
        w.flights_seen = w.flights_n;
    }
    ck_assert_int_eq(count_all(&w, CORE_ACQUIRE), 2 * MANY);
    world_close(&w);
}
END_TEST

/* However many reviews begin before one has ended: each lock is reviewed after the beginning of the last one. */
START_TEST(reviews_one_behind_the_other)
{
    for (int reviews = 1; reviews < 40; reviews++) {
        struct world w;
        uint64_t s;
        size_t before;
        int asked = 0;

        open_sliced(&w, 1);
        s = session(&w);
        take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
        for (int i = 0; i < reviews; i++) {
            w.flights_seen = w.flights_n;
            before = w.flights_n;
            reclaims(&w, 5 + (uint64_t)i);
        }
        for (size_t i = 0; i < w.flights_n; i++) { /* operations in flight ended with the link */
            if (i < before && !w.flights[i].answered) {
                w.flights_seen = w.flights_n;
                world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_UNKNOWN, .guard_us = w.now_us});
            }
        }
        w.flights_seen = w.flights_n;
        for (int turns = 0; w.reclaimed_n == 0; turns++) {
            ck_assert_int_lt(turns, 100 * MANY);
            for (size_t i = before; i < w.flights_n; i++) {
                if (!w.flights[i].answered) {
                    w.flights_seen = w.flights_n;
                    asked += w.flights[i].op.reclaim;
                    world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
                }
            }
            w.now_us += MS(10);
            next_turn(&w);
            w.flights_seen = w.flights_n;
        }
        ck_assert_int_ge(asked, MANY);
        ck_assert_uint_eq(w.reclaimed, 4 + (uint64_t)reviews);
        world_close(&w);
    }
}
END_TEST

/* From DRAIN on nothing is granted, wherever the job stands. */
START_TEST(a_drain_in_slices)
{
    uint64_t s, other, id[MANY];
    struct world w;
    int refused = 0;

    open_sliced(&w, 1);
    s = session(&w);
    other = session(&w);
    take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
    for (int i = 0; i < MANY; i++) {
        id[i] = lock(&w, other, name_of(i), .linger_us = MS(20));
    }
    w.answers_seen = w.answers_n;
    drains(&w);
    w.answers_seen = w.answers_n;
    expect_reply(&w, lock(&w, s, "more"), CORE_DRAINING);
    w.answers_seen = w.answers_n;
    unlock(&w, s, "n19");
    w.answers_seen = w.answers_n;
    redis_says(&w, expect_op(&w, CORE_RELEASE, "n19"), CORE_OK);
    while (is_busy(&w)) {
        next_turn(&w);
    }
    for (size_t i = 0; i < w.answers_n; i++) {
        const struct core_reply *r = &w.answers[i].reply;

        ck_assert(r->session != other || (r->answer == CORE_DRAINING && r->id >= id[0]));
        refused += r->session == other;
    }
    ck_assert_int_eq(refused, MANY);
    w.answers_seen = w.answers_n;
    world_close(&w);
}
END_TEST

/* Notes which of two requests have got their reply, which is DRAINING. */
static void
note_drained(struct world *w, const uint64_t id[2], bool reported[2])
{
    for (int i = 0; i < 2; i++) {
        if (is_answered(w, id[i])) {
            expect_reply(w, id[i], CORE_DRAINING);
            reported[i] = true;
        }
    }
}

/* A lock that is granted after DRAIN is released, also at the end of the walk that the job has not reached. */
START_TEST(a_drain_and_an_attempt)
{
    static const char *const names[] = {"one end", "other end"};
    bool reported[2] = {false, false};
    struct world w;
    uint64_t s, other, id[2];
    struct flight f[2];

    open_sliced(&w, 1);
    s = session(&w);
    other = session(&w);
    id[0] = lock(&w, other, names[0], .owner = "x");
    f[0] = expect_op(&w, CORE_ACQUIRE, names[0]);
    take_many(&w, s, (struct ask){.kind = KIND_REENTRANT});
    id[1] = lock(&w, other, names[1], .owner = "y");
    f[1] = expect_op(&w, CORE_ACQUIRE, names[1]);
    drains(&w);
    note_drained(&w, id, reported);
    ck_assert(!reported[0] || !reported[1]);
    for (int i = 0; i < 2; i++) {
        redis_says(&w, f[i], CORE_OK);
        note_drained(&w, id, reported);
        ck_assert(reported[i]);
        redis_says(&w, expect_op(&w, CORE_RELEASE, names[i]), CORE_OK);
        note_drained(&w, id, reported);
    }
    while (is_busy(&w)) {
        next_turn(&w);
    }
    world_close(&w);
}
END_TEST

/* A BREAK takes the lock from each of many readers, also from those at the end of the walk; a later reader keeps it. */
START_TEST(a_break_in_slices)
{
    struct ask reads = {.kind = KIND_RW, .shared = true};
    uint64_t s[MANY], boss, id;
    struct world w;

    open_sliced(&w, 1);
    boss = session(&w);
    for (int i = 0; i < MANY; i++) {
        s[i] = session(&w);
        redis_grants(&w, "doc", world_ask(&w, CORE_LOCK, s[i], "doc", reads));
    }
    id = break_name(&w, boss, "doc", .kind = KIND_RW);
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "doc"), CORE_OK, .expiry_ms = 1);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert(is_busy(&w));
    expect_state(&w, "doc", "lost");
    id = world_ask(&w, CORE_LOCK, boss, "doc", reads);
    redis_grants(&w, "doc", id);
    expect_reply(&w, unlock(&w, s[MANY - 1], "doc", .kind = KIND_RW), CORE_WAS_LOST);
    ck_assert(is_busy(&w));
    while (is_busy(&w)) {
        next_turn(&w);
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), MANY);
    expect_state(&w, "doc", "held");
    ck_assert_uint_eq(view_of(&w, "doc").holders, 1);
    world_close(&w);
}
END_TEST

/* ---- the claims of one name ---- */

static const struct ask reading = {.kind = KIND_RW, .shared = true};

/* MANY sessions read "doc". */
static void
read_many(struct world *w, uint64_t *s)
{
    for (int i = 0; i < MANY; i++) {
        s[i] = session(w);
        redis_grants(w, "doc", world_ask(w, CORE_LOCK, s[i], "doc", reading));
    }
}

/* Runs turns until no work is left; `n` counts the work done, at most a slice in each turn. */
static int
turns_of(struct world *w, const uint64_t *n)
{
    int turns = 0;

    while (is_busy(w)) {
        uint64_t before = *n;

        next_turn(w);
        ck_assert_uint_le(*n, before + SLICE);
        ck_assert_int_lt(++turns, 100);
    }
    return turns;
}

/* Redis has lost its data: readers of one name become unverified slice by slice, and one with a request at once. */
START_TEST(readers_are_reviewed_in_slices)
{
    uint64_t s[MANY], id;
    struct world w;
    int n;

    open_sliced(&w, SLICE);
    read_many(&w, s);
    reclaims(&w, 5);
    ck_assert_uint_le(w.core->domain[0].unverified_n, SLICE);
    n = count_ops(&w, CORE_ACQUIRE);
    ck_assert_int_le(n, SLICE);
    id = world_ask(&w, CORE_UNLOCK, s[MANY - 1], "doc", reading);
    n = count_ops(&w, CORE_ACQUIRE); /* the reader's hold is reclaimed before its release */
    ck_assert_int_le(n, SLICE + 1);
    ck_assert_int_ge(turns_of(&w, &w.core->domain[0].unverified_n), MANY / SLICE - 3);
    ck_assert_int_eq(count_all(&w, CORE_ACQUIRE), 2 * MANY);
    for (size_t i = 0; i < w.flights_n; i++) {
        if (!w.flights[i].answered) {
            skip_all(&w);
            ck_assert(w.reclaimed_n == 0 || w.flights[i].verb == CORE_RELEASE);
            world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
        }
        while (is_busy(&w)) {
            next_turn(&w);
        }
    }
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(w.metrics.reclaims, MANY);
    ck_assert_uint_eq(w.reclaimed_n, 1);
    world_close(&w);
}
END_TEST

/* No reviewed reader is unverified any more; the end is reported only when the review has reached all readers. */
START_TEST(reclaimed_is_reported_behind_the_readers)
{
    uint64_t s[MANY];
    struct world w;

    open_sliced(&w, 1);
    read_many(&w, s);
    w.one_turn = true; /* the slice is used up */
    reclaims(&w, 5);
    ck_assert_uint_eq(w.core->domain[0].unverified_n, 0);
    ck_assert_uint_eq(w.reclaimed_n, 0);
    w.one_turn = false;
    for (size_t i = MANY; w.reclaimed_n == 0; i++) {
        while (i == w.flights_n) {
            ck_assert(is_busy(&w));
            next_turn(&w);
        }
        skip_all(&w);
        redis_says(&w, w.flights[i], CORE_OK);
    }
    ck_assert_uint_eq(w.metrics.reclaims, MANY);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* A break at another daemon: each reader's lock is verified, slice by slice, in their order. */
START_TEST(broken_elsewhere_in_slices)
{
    uint64_t s[MANY];
    struct world w;
    struct flight f;

    open_sliced(&w, SLICE);
    read_many(&w, s);
    receives(&w, "B1:d,3:doc,3:doc,", 17);
    ck_assert_int_le(count_ops(&w, CORE_EXTEND), SLICE);
    renew(&w, s[MANY - 1], "doc", SEC(60), .kind = KIND_RW);
    for (int turns = 2; is_busy(&w); turns++) {
        ck_assert_int_le(count_all(&w, CORE_EXTEND), SLICE * turns + 1);
        next_turn(&w);
    }
    ck_assert_int_eq(count_all(&w, CORE_EXTEND), MANY);
    for (size_t i = 0; i < MANY; i++) {
        f = w.flights[w.flights_n - MANY + i];
        ck_assert(!f.op.exact); /* no RENEW */
    }
    /* Further breaks: each lock is verified at most once for each of them, and every lock is. */
    receives(&w, "B1:d,3:doc,3:doc,", 17);
    for (int i = 0; i < 20; i++) {
        w.one_turn = true;
        receives(&w, "B1:d,3:doc,3:doc,", 17);
        w.one_turn = false;
    }
    while (is_busy(&w)) {
        next_turn(&w);
    }
    core_check(w.core, w.now_us);
    for (size_t i = 0; i < w.flights_n; i++) { /* locks verified before the last break are verified once more */
        skip_all(&w);
        w.answers_seen = w.answers_n;
        if (!w.flights[i].answered) {
            world_done(&w, w.flights[i], (struct core_done){.outcome = CORE_OK});
        }
        while (is_busy(&w)) {
            next_turn(&w);
        }
    }
    w.answers_seen = w.answers_n;
    ck_assert_uint_ge(w.metrics.renewals, 2 * MANY);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* A drain refuses a slice of the waiters of one name in each turn; none of the others is granted the lock meanwhile. */
START_TEST(waits_are_drained_in_slices)
{
    uint64_t s, other, id[MANY];
    struct world w;
    size_t from;

    open_sliced(&w, SLICE);
    s = session(&w);
    other = session(&w);
    take(&w, s, "hot");
    for (int i = 0; i < MANY; i++) {
        char owner[16];

        snprintf(owner, sizeof(owner), "o%d", i);
        id[i] = lock(&w, other, "hot", .owner = owner);
    }
    from = w.answers_n;
    drains(&w);
    ck_assert_uint_le(w.answers_n - from, SLICE);
    w.answers_seen = w.answers_n;
    skip_all(&w);
    unlock(&w, s, "hot");
    w.answers_seen = w.answers_n;
    redis_says(&w, expect_op(&w, CORE_RELEASE, "hot"), CORE_OK);
    for (int turns = 3; is_busy(&w); turns++) {
        ck_assert_uint_le(w.answers_n - from, (size_t)(SLICE * turns + 1));
        next_turn(&w);
    }
    ck_assert_uint_eq(w.answers_n - from, MANY + 1);
    for (size_t i = from; i < w.answers_n; i++) {
        ck_assert(w.answers[i].reply.answer == (w.answers[i].reply.session == s ? CORE_LEFT : CORE_DRAINING));
        ck_assert(w.answers[i].reply.session == s || w.answers[i].reply.id >= id[0]);
    }
    ck_assert_int_eq(count_all(&w, CORE_ACQUIRE), 1);
    w.answers_seen = w.answers_n;
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* One owner requests one name many times: the requests wait in one claim, and a drain refuses them in slices. */
START_TEST(waits_of_one_claim_are_drained_in_slices)
{
    uint64_t s, other;
    struct world w;
    size_t from;

    open_sliced(&w, SLICE);
    s = session(&w);
    other = session(&w);
    take(&w, s, "hot");
    for (int i = 0; i < MANY; i++) {
        lock(&w, other, "hot", .once = true, .owner = "one");
        lock(&w, session(&w), "hot");
    }
    from = w.answers_n;
    drains(&w);
    for (int turns = 1; is_busy(&w); turns++) {
        ck_assert_uint_le(w.answers_n - from, (size_t)(SLICE * turns));
        next_turn(&w);
    }
    ck_assert_uint_eq(w.answers_n - from, 2 * MANY);
    w.answers_seen = w.answers_n;
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* Redis is reached again: the releases of one name are repeated slice by slice. */
START_TEST(a_crowd_is_reached_in_slices)
{
    uint64_t s[MANY];
    struct world w;

    open_sliced(&w, SLICE);
    read_many(&w, s);
    for (int i = 0; i < MANY; i++) {
        w.answers_seen = w.answers_n;
        world_ask(&w, CORE_UNLOCK, s[i], "doc", reading);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "doc"), CORE_DOWN);
    }
    world_step(&w, &(struct core_event){.type = CORE_REACHED});
    for (int turns = 1; is_busy(&w); turns++) {
        ck_assert_int_le(count_all(&w, CORE_RELEASE), MANY + SLICE * turns);
        next_turn(&w);
    }
    ck_assert_int_eq(count_all(&w, CORE_RELEASE), 2 * MANY);
    w.answers_seen = w.answers_n;
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* MANY owners send LOCK NOWAIT, and the attempt of the first one is in flight. */
static struct flight
ask_many(struct world *w, uint64_t s)
{
    struct flight op = {.verb = CORE_REPLY};

    for (int i = 0; i < MANY; i++) {
        lock(w, s, "hot", .owner = name_of(i), .nowait = true, .no_queue_grace = true);
        op = i == 0 ? expect_op(w, CORE_ACQUIRE, "hot") : op;
    }
    return op;
}

/* All n answers from this one on are the same. */
static void
expect_answers(struct world *w, size_t from, size_t n, enum core_answer answer)
{
    ck_assert_uint_eq(w->answers_n - from, n);
    for (; from < w->answers_n; from++) {
        ck_assert_int_eq(w->answers[from].reply.answer, answer);
    }
    w->answers_seen = w->answers_n;
}

/* One outcome is the answer to all NOWAIT requests: a slice of them is answered in each turn. */
START_TEST(nowaits_are_answered_in_slices)
{
    struct world w;

    open_sliced(&w, SLICE);
    redis_says(&w, ask_many(&w, session(&w)), CORE_TAKEN, .pttl_us = SEC(60));
    for (int turns = 1; is_busy(&w); turns++) {
        ck_assert_uint_le(w.answers_n, (size_t)(SLICE * turns));
        next_turn(&w);
    }
    expect_answers(&w, 0, MANY, CORE_NOT_GRANTED);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* A NOWAIT request whose patience ends before its slice gets the known outcome. */
START_TEST(a_nowait_gets_the_known_answer)
{
    struct world w;

    open_sliced(&w, SLICE);
    redis_says(&w, ask_many(&w, session(&w)), CORE_TAKEN, .pttl_us = SEC(60));
    w.answers_seen = w.answers_n;
    skip_all(&w);
    stall(&w, SEC(1));
    while (is_busy(&w)) {
        next_turn(&w);
    }
    expect_answers(&w, 0, MANY, CORE_NOT_GRANTED);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* The next attempt begins before all requests have got the last outcome, which is not for requests that came since. */
START_TEST(nowaits_behind_the_next_attempt)
{
    struct world w;
    struct flight op;
    uint64_t s, last;
    size_t reported;

    open_sliced(&w, SLICE);
    s = session(&w);
    op = ask_many(&w, s);
    w.one_turn = true;
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(60));
    w.answers_seen = reported = w.answers_n;
    hint(&w, op.op.queue);
    op = expect_op(&w, CORE_ACQUIRE, "hot");
    last = lock(&w, s, "hot", .owner = "last", .nowait = true, .no_queue_grace = true);
    ck_assert_uint_eq(w.answers_n, reported);
    w.one_turn = false;
    next_turn(&w);
    while (is_busy(&w)) {
        next_turn(&w);
    }
    /* without the owner that asks now, and the last one */
    expect_answers(&w, reported, MANY - reported - 1, CORE_NOT_GRANTED);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(w.answers_n, MANY + 1);
    ck_assert_int_eq(w.answers[MANY - 1].reply.answer, CORE_GRANTED);
    w.answers_seen = MANY;
    expect_reply(&w, last, CORE_NOT_GRANTED);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* One owner repeats its LOCK by ONCE: after the grant a slice of the repetitions is answered in each turn. */
START_TEST(repetitions_are_answered_in_slices)
{
    struct world w;
    struct flight op = {.verb = CORE_REPLY};
    uint64_t s, last;

    open_sliced(&w, SLICE);
    s = session(&w);
    for (int i = 0; i < MANY; i++) {
        lock(&w, s, "hot", .once = true, .nowait = i % 2 != 0);
        op = i == 0 ? expect_op(&w, CORE_ACQUIRE, "hot") : op;
    }
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_le(w.answers_n, 1 + SLICE);
    w.answers_seen = w.answers_n;
    last = unlock(&w, s, "hot"); /* behind all of them; a request on the name has two more slices served */
    for (int turns = 2; is_busy(&w); turns++) {
        ck_assert_uint_le(w.answers_n, (size_t)((1 + SLICE) * turns + 2 * SLICE));
        next_turn(&w);
    }
    expect_answers(&w, 0, MANY, CORE_GRANTED);
    redis_releases(&w, "hot", last);
    world_close(&w);
}
END_TEST

/* A claim moves to the front while a round stands somewhere in the queue: the round still reaches all claims. */
START_TEST(a_claim_that_goes_to_the_front_is_seen)
{
    for (int k = 0; k < MANY; k++) {
        struct world w;
        struct list *pos;
        uint64_t s, other;
        struct lock *l;

        open_sliced(&w, SLICE);
        s = session(&w);
        other = session(&w);
        take(&w, s, "hot");
        for (int i = 0; i < MANY; i++) {
            lock(&w, other, "hot", .owner = name_of(i));
        }
        suspects(&w);
        l = lock_find(w.core, slice_of("hot"));
        ck_assert(round_is_pending(w.core, l, ROUND_REVIEW));
        pos = l->queue->claims.next;
        for (int i = 0; i < k; i++) {
            pos = pos->next;
        }
        claim_put_by_ticket(w.core, container_of(pos, struct claim, node)); /* without the event that reviews it */
        ck_assert_ptr_eq(l->queue->claims.next, pos);
        skip_all(&w);
        while (is_busy(&w)) {
            next_turn(&w);
        }
        for (pos = l->queue->claims.next; pos != &l->queue->claims; pos = pos->next) {
            ck_assert_uint_eq(container_of(pos, struct claim, node)->review_n, l->reviews_n);
        }
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The grace of a named owner begins when its session goes, however long the end of the session takes. */
START_TEST(sessions_of_many_owners_end_in_slices)
{
    struct world w;
    uint64_t s, other;
    char owner[16];

    open_sliced(&w, 1);
    s = session(&w);
    other = session(&w);
    for (int i = 0; i < MANY; i++) {
        snprintf(owner, sizeof(owner), "o%d", i);
        redis_grants(&w, name_of(i), lock(&w, s, name_of(i), .owner = owner));
    }
    gone(&w, s);
    ck_assert_int_eq(redis_releases(&w, "n19", unlock(&w, other, "n19", .owner = "o19"))->left, 0);
    pass(&w, SEC(9));
    ck_assert_int_eq(count_ops(&w, CORE_RELEASE), 0);
    w.now_us += SEC(2);
    while (is_busy(&w)) {
        next_turn(&w);
    }
    ck_assert_int_eq(count_all(&w, CORE_RELEASE), MANY);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {a_session_ends_in_slices, waiters_behind_an_end, over_before_its_end,
                            leases_run_out_in_slices, permits_run_out_in_slices, a_renewal_that_comes_too_late,
                            a_review_in_slices, reclaimed_is_reported_behind_the_review, reviews_one_behind_the_other,
                            a_drain_in_slices, a_drain_and_an_attempt, a_break_in_slices,
                            readers_are_reviewed_in_slices, reclaimed_is_reported_behind_the_readers,
                            broken_elsewhere_in_slices, waits_are_drained_in_slices,
                            waits_of_one_claim_are_drained_in_slices, a_crowd_is_reached_in_slices,
                            nowaits_are_answered_in_slices, a_nowait_gets_the_known_answer,
                            nowaits_behind_the_next_attempt, repetitions_are_answered_in_slices,
                            a_claim_that_goes_to_the_front_is_seen, sessions_of_many_owners_end_in_slices};

    return suite_main("core, slices", tests, sizeof(tests) / sizeof(tests[0]));
}
