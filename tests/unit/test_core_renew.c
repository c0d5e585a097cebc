/*
 * test_core_renew.c -- RENEW: with a lease of its own, beside the watchdog, in flight, unanswered, late.
 */
#include "tests/unit/core_world.h"

START_TEST(renew_own_lease)
{
    static const int64_t leases[] = {SEC(20), SEC(2)};

    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t s, id;

        world_open(&w);
        s = session(&w);
        take_for(&w, s, SEC(10));
        pass(&w, SEC(1));
        id = renew(&w, s, "a", leases[i]);
        op = expect_op(&w, CORE_EXTEND, "a");
        ck_assert(op.op.lease_us == leases[i] && op.op.exact && op.op.holds == 1);
        pass(&w, MS(100));
        redis_says(&w, op, CORE_OK);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, (reported(leases[i]) - MS(100)) / MS(1));
        pass(&w, reported(leases[i]) - MS(100) - 1);
        expect_state(&w, "a", "held");
        pass(&w, 1);
        expect_news(&w, CORE_NEWS_LOST, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        world_close(&w);
    }
}
END_TEST

/* The watchdog continues from RENEW's lease: it renews after a third of that, with its own lease. */
START_TEST(renew_with_watchdog)
{
    static const int64_t leases[] = {SEC(60), SEC(3)};

    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t s, id;

        s = world_holding(&w);
        id = renew(&w, s, "a", leases[i]);
        redis_renews(&w, "a", id);
        ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + reported(leases[i]));
        pass(&w, reported(leases[i]) / 3 - 1);
        quiet(&w);
        pass(&w, 1);
        op = expect_op(&w, CORE_EXTEND, "a");
        ck_assert(op.op.lease_us == SEC(30) && !op.op.exact);
        redis_says(&w, op, CORE_OK);
        ck_assert_int_eq(view_of(&w, "a").deadline_us,
                         i == 0 ? SEC(1000) + reported(leases[i]) : w.now_us + REPORTED_30S); /* RENEW's end */
        world_close(&w);
    }
}
END_TEST

/* So short a lease ends at once. */
START_TEST(renew_to_nothing)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(10));
    id = renew(&w, s, "a", MS(1));
    op = expect_op(&w, CORE_EXTEND, "a");
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    redis_says(&w, w.flights[w.flights_n - 1], CORE_OK);
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/* RENEW may run at any time after its sending: from then on the core counts only on the shorter of the two leases. */
START_TEST(renew_in_flight)
{
    struct world w;
    struct flight op, last;
    uint64_t s, id;

    s = world_holding(&w);
    id = renew(&w, s, "a", MS(500));
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(MS(500)));
    pass(&w, MS(100));
    redis_says(&w, op, CORE_DOWN); /* it has not run, and never will */
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + REPORTED_30S);
    pass(&w, MS(20));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, reported(MS(500)) - 1);
    expect_state(&w, "a", "held");
    pass(&w, 1);
    expect_reply(&w, id, CORE_WAS_LOST);
    last = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    redis_says(&w, last, CORE_OK);
    world_close(&w);
}
END_TEST

/*
 * In a quorum a RENEW to a shorter lease runs on one node, and not on the others; a third node has lost the key before.
 * So RENEW has failed, and a majority has the key no longer than the first node: the deadline from before RENEW no
 * longer counts.
 */
START_TEST(renew_failed_with_a_nearer_end)
{
    struct world w;
    struct flight op;
    uint64_t s, id;
    int64_t ends_us;

    s = world_holding(&w);
    id = renew(&w, s, "a", SEC(5));
    op = expect_op(&w, CORE_EXTEND, "a");
    ends_us = op.at_us + SEC(6);
    redis_says(&w, op, CORE_DOWN, .deadline_max_us = ends_us);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, ends_us);
    while (w.now_us < ends_us) {
        while (w.flights_n > w.flights_seen) {
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_DOWN);
        }
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
        if (w.now_us == op.at_us + SEC(1)) {
            expect_reply(&w, id, CORE_UNAVAILABLE);
        }
        pass(&w, MS(10));
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_JEOPARDY), 1);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

/* The lease ends during a RENEW to a longer one, which may have run: the release is repeated for that longer lease. */
START_TEST(renew_overtaken_by_the_end)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(1));
    pass(&w, MS(900));
    id = renew(&w, s, "a", SEC(60));
    expect_op(&w, CORE_EXTEND, "a");
    pass(&w, reported(SEC(1)) - MS(900));
    expect_reply(&w, id, CORE_WAS_LOST);
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(2)); /* the lease before RENEW has ended */
    redis_says(&w, op, CORE_DOWN);
    pass(&w, SEC(1));
    expect_state(&w, "a", "freeing");
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(70)); /* the lease of RENEW has ended, too */
    redis_says(&w, op, CORE_DOWN);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* RENEW and a renewal of the watchdog at once: in whatever order the answers come, the lease of RENEW is the limit. */
START_TEST(renew_beside_a_renewal)
{
    struct world w;
    struct flight renewal, op;
    uint64_t s, id;
    size_t before;

    s = world_holding(&w);
    pass(&w, REPORTED_30S / 3);
    renewal = expect_op(&w, CORE_EXTEND, "a");
    before = w.flights_n;
    id = renew(&w, s, "a", SEC(2));
    if (w.flights_n > before) { /* both are in flight; Redis runs the renewal first, the answers cross */
        op = expect_op(&w, CORE_EXTEND, "a");
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        redis_says(&w, renewal, CORE_OK);
    } else {
        redis_says(&w, renewal, CORE_OK);
        op = expect_op(&w, CORE_EXTEND, "a");
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
    }
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(2)));
    world_close(&w);
}
END_TEST

/*
 * Redis does not answer: RENEW is repeated, and then UNAVAILABLE; a lease that it may have shortened counts as short.
 */
START_TEST(renew_unanswered)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(10));
    id = renew(&w, s, "a", SEC(5));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_DOWN);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + reported(SEC(10))); /* RENEW has not run */
    pass(&w, MS(20));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, MS(500));
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = op.at_us + SEC(1));
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(5)));
    pass(&w, MS(40));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, SEC(1) - MS(560));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = op.at_us + SEC(1));
    id = renew(&w, s, "a", SEC(60));
    op = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op, CORE_OK); /* the RENEW to 5 s may still run after it */
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(5)));
    pass(&w, SEC(1));
    id = renew(&w, s, "a", SEC(60)); /* now that RENEW can run no more */
    op = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(60)));
    world_close(&w);
}
END_TEST

/* The shortest lease of the RENEWs that may still run counts. */
START_TEST(renew_unanswered_twice)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(20));
    id = renew(&w, s, "a", SEC(3));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    id = renew(&w, s, "a", SEC(6));
    op = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(40));
    op = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(3)));
    world_close(&w);
}
END_TEST

/* The watchdog renews a lease that RENEW may have shortened, in good time. */
START_TEST(renew_unanswered_with_watchdog)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    id = renew(&w, s, "a", SEC(5));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(5)));
    pass(&w, SEC(3));
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(op.op.lease_us == SEC(30) && !op.op.exact);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + REPORTED_30S);
    world_close(&w);
}
END_TEST

/*
 * A straggler that can run no more does not count again because of a later one that may still run: see
 * uncertain_add_straggler().
 */
START_TEST(long_over)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_grants(&w, "a", id);
    pass(&w, SEC(2));
    id = renew(&w, s, "a", SEC(5));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    redis_releases(&w, "a", unlock(&w, s, "a"));
    ck_assert(!known(&w, "a")); /* no further release */
    world_close(&w);
}
END_TEST

/* If a RENEW could still shorten the lease when a renewal was sent, the renewal counts only for the RENEW's lease. */
START_TEST(overtaken_by_a_renew)
{
    struct world w;
    struct flight shorter, renewal, release;
    uint64_t s, id;

    s = world_holding(&w);
    redis_grants(&w, "a", lock(&w, s, "a"));
    id = renew(&w, s, "a", SEC(5));
    shorter = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, shorter, CORE_UNKNOWN, .guard_us = w.now_us + SEC(2));
    pass(&w, SEC(1));
    renewal = expect_op(&w, CORE_EXTEND, "a");
    id = unlock(&w, s, "a");
    release = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(2));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, release, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1)); /* the RENEW can run no more */
    redis_says(&w, renewal, CORE_OK);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, renewal.at_us + reported(SEC(5)));
    expect_op(&w, CORE_EXTEND, "a"); /* so the next one is due already */
    world_close(&w);
}
END_TEST

/* A RENEW that may still shorten a lease must not find the same owner's next hold. */
START_TEST(renew_runs_late)
{
    for (int how = 0; how < 2; how++) {
        struct world w;
        struct flight op, late;
        uint64_t s, id;

        world_open(&w);
        s = session(&w);
        take_for(&w, s, SEC(1));
        if (how == 0) { /* unanswered, then UNLOCK */
            id = renew(&w, s, "a", MS(800));
            late = expect_op(&w, CORE_EXTEND, "a");
            redis_says(&w, late, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
            pass(&w, MS(20));
            redis_renews(&w, "a", id);
            give(&w, s, "a");
        } else { /* in flight when the lease ends */
            pass(&w, MS(900));
            id = renew(&w, s, "a", MS(500));
            late = expect_op(&w, CORE_EXTEND, "a");
            pass(&w, MS(88));
            expect_reply(&w, id, CORE_WAS_LOST);
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        }
        id = lock(&w, s, "a");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_uint_ne(op.op.owner, late.op.owner);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        world_close(&w);
    }
}
END_TEST

/*
 * A RENEW that may still run finds no later hold, also if the next LOCK comes while an older straggler is still to be
 * released: the LOCK waits, or has another number.
 */
static void
sweep_and_renew(int64_t acquire_guard_us, int64_t wait_us)
{
    struct world w;
    struct flight op, late;
    int64_t until_us;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .lease_us = SEC(20));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + acquire_guard_us);
    pass(&w, MS(20));
    redis_grants(&w, "a", id);
    id = renew(&w, s, "a", SEC(3));
    late = expect_op(&w, CORE_EXTEND, "a");
    until_us = w.now_us + SEC(1);
    redis_says(&w, late, CORE_UNKNOWN, .guard_us = until_us); /* its link broke */
    pass(&w, MS(20));
    redis_renews(&w, "a", id);
    pass(&w, wait_us);
    give(&w, s, "a");
    id = lock(&w, s, "a");
    if (w.flights_seen == w.flights_n) { /* it waits for the release of the straggler */
        pass(&w, SEC(1));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    }
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    ck_assert_msg(op.op.owner != late.op.owner || op.at_us >= until_us,
                  "reported as held for %d ms; within %d ms Redis may get an expiry of 3000 ms",
                  (int)((view_of(&w, "a").deadline_us - w.now_us) / MS(1)), (int)((until_us - w.now_us) / MS(1)));
    world_close(&w);
}

START_TEST(sweep_then_lock_both_late)
{
    sweep_and_renew(SEC(1), 0);
}
END_TEST

START_TEST(sweep_then_lock_attempt_over)
{
    sweep_and_renew(MS(100), MS(200));
}
END_TEST

/* UNLOCK during a renewal, and then no Redis: the renewal may have run, so the release is repeated for its lease. */
START_TEST(overtaken_renewal_and_no_redis)
{
    static const enum core_outcome outcomes[] = {CORE_OK, CORE_UNKNOWN};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct world w;
        struct flight renewal, op;
        uint64_t s, id;

        world_open(&w);
        s = session(&w);
        redis_grants(&w, "a", lock(&w, s, "a", .spec_lease_us = SEC(3)));
        pass(&w, SEC(1));
        renewal = expect_op(&w, CORE_EXTEND, "a");
        id = unlock(&w, s, "a");
        op = expect_op(&w, CORE_RELEASE, "a");
        pass(&w, MS(500));
        redis_says(&w, renewal, outcomes[i]);
        pass(&w, MS(500));
        expect_reply(&w, id, CORE_UNAVAILABLE);
        pass(&w, MS(2000)); /* the first lease has ended, that of the renewal has not */
        redis_says(&w, op, CORE_DOWN);
        expect_state(&w, "a", "freeing");
        pass(&w, SEC(1));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {renew_own_lease, renew_with_watchdog, renew_to_nothing, renew_in_flight,
                            renew_failed_with_a_nearer_end, renew_overtaken_by_the_end,
                            renew_beside_a_renewal, renew_unanswered, renew_unanswered_twice,
                            renew_unanswered_with_watchdog, long_over, overtaken_by_a_renew, renew_runs_late,
                            sweep_then_lock_both_late, sweep_then_lock_attempt_over,
                            overtaken_renewal_and_no_redis};

    return suite_main("core, renew", tests, sizeof(tests) / sizeof(tests[0]));
}
