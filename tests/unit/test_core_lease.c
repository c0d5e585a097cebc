/*
 * test_core_lease.c -- leases: the deadline that a reply reports, the watchdog, and the end of a lease: LOST.
 */
#include "tests/unit/core_world.h"

/* ---- the end of a lease ---- */

/* LOST is reported once, to the first request about the name; afterwards the name is as if it had never been held. */
START_TEST(lost_is_reported_once)
{
    for (int verb = 0; verb < 4; verb++) {
        struct world w;
        struct flight op;
        uint64_t s, id, token;
        const struct core_publish *n;

        world_open(&w);
        s = session(&w);
        token = take_for(&w, s, SEC(1));
        pass(&w, reported(SEC(1)) - 1);
        expect_state(&w, "a", "held");
        pass(&w, 1);
        n = expect_news(&w, CORE_NEWS_LOST, "a");
        ck_assert_str_eq(n->reason, "lease over");
        ck_assert(n->token == token && n->session == s);
        op = expect_op(&w, CORE_RELEASE, "a"); /* Redis may have the key a little longer */
        redis_says(&w, op, CORE_OK);
        expect_state(&w, "a", "lost");
        ck_assert_uint_eq(view_of(&w, "a").token, token);
        id = verb == 0   ? unlock(&w, s, "a")
             : verb == 1 ? renew(&w, s, "a", SEC(1))
             : verb == 2 ? lock(&w, s, "a")
                         : unlock(&w, session(&w), "a", .token = token);
        expect_reply(&w, id, CORE_WAS_LOST);
        ck_assert(!known(&w, "a"));
        expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
        expect_reply(&w, renew(&w, s, "a", SEC(1)), CORE_NOT_HELD);
        take(&w, s, "a");
        ck_assert_uint_eq(w.metrics.lost, 1);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 0);
        world_close(&w);
    }
}
END_TEST

/* While another daemon holds the name, the owner whose loss is still to be reported is not shown as its holder. */
START_TEST(a_loser_is_no_holder_of_a_name_that_is_taken)
{
    struct world w;

    world_open(&w);
    take_for(&w, session(&w), SEC(1));
    pass(&w, reported(SEC(1)));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_state(&w, "a", "lost");
    ck_assert_uint_ne(view_of(&w, "a").owner.id, 0);
    lock(&w, session(&w), "a", .wait_us = SEC(9));
    expect_state(&w, "a", "trying");
    ck_assert(view_of(&w, "a").owner.id == 0 && view_of(&w, "a").token == 0);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_state(&w, "a", "taken");
    ck_assert(view_of(&w, "a").owner.id == 0 && view_of(&w, "a").token == 0);
    world_close(&w);
}
END_TEST

/* LOST is reported without waiting for Redis, whose answer would change nothing. */
START_TEST(lost_is_reported_at_once)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(1));
    pass(&w, reported(SEC(1)));
    op = expect_op(&w, CORE_RELEASE, "a");
    id = unlock(&w, s, "a");
    expect_reply(&w, id, CORE_WAS_LOST);
    id = lock(&w, s, "a");
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 0); /* a lost lock gets no event RELEASED */
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* A request under way when the lease ends gets LOST. */
START_TEST(lost_under_a_request)
{
    for (int verb = 0; verb < 3; verb++) {
        struct world w;
        struct flight op, last;
        uint64_t s, id, token;

        world_open(&w);
        s = session(&w);
        token = take_for(&w, s, SEC(1));
        pass(&w, MS(900));
        id = lock(&w, s, "a", .lease_us = SEC(1));
        redis_grants(&w, "a", id);
        pass(&w, MS(900));
        id = verb == 0 ? lock(&w, s, "a") : verb == 1 ? renew(&w, s, "a", SEC(5)) : unlock(&w, s, "a");
        op = expect_op(&w, verb == 0 ? CORE_ACQUIRE : verb == 1 ? CORE_EXTEND : CORE_RELEASE, "a");
        {
            uint64_t other = unlock(&w, session(&w), "a", .token = token);

            pass(&w, MS(88));
            expect_reply(&w, id, CORE_WAS_LOST);
            last = expect_op(&w, CORE_RELEASE, "a");
            redis_says(&w, op, CORE_OK); /* too late: the core drops it */
            expect_state(&w, "a", "freeing");
            redis_says(&w, last, CORE_OK);
            expect_reply(&w, other, CORE_NOT_HELD);
        }
        expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/*
 * A LOCK that is `fresh` (SET ... NX) asks for a new grant only: a loss that has not been reported to its owner is not
 * its answer, whatever state the claim is in when the LOCK arrives. With the LOCK the core forgets the loss.
 */
START_TEST(fresh_lock_after_a_loss)
{
    enum { LOST_UNREPORTED, LOST_BY_WATCHDOG, RELEASE_IN_FLIGHT, UNVERIFIED, CASES };

    for (int at = LOST_UNREPORTED; at < CASES; at++) {
        struct world w;
        struct flight op = {0}, release;
        uint64_t s, id, first, second;

        world_open(&w);
        s = session(&w);
        id = lock(&w, s, "a", .owner = "host", .fresh = true, .nowait = true,
                  .lease_us = at == LOST_BY_WATCHDOG ? 0 : SEC(1));
        first = redis_grants(&w, "a", id)->token;
        if (at == LOST_BY_WATCHDOG) {
            pass(&w, SEC(10));
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_GONE_IN_REDIS);
            expect_state(&w, "a", "lost");
        } else if (at == UNVERIFIED) {
            pass(&w, MS(900));
            suspects(&w);
            op = expect_op(&w, CORE_EXTEND, "a");
        } else {
            pass(&w, reported(SEC(1)));
            op = expect_op(&w, CORE_RELEASE, "a");
        }
        if (at == LOST_UNREPORTED) {
            redis_says(&w, op, CORE_OK);
            expect_state(&w, "a", "lost");
        }
        id = lock(&w, at == LOST_UNREPORTED ? session(&w) : s, "a", .owner = "host", .fresh = true, .nowait = true,
                  .lease_us = SEC(1));
        if (at == RELEASE_IN_FLIGHT) {
            redis_says(&w, op, CORE_OK);
        } else if (at == UNVERIFIED) {
            pass(&w, MS(88)); /* the deadline of the lost hold */
            release = expect_op(&w, CORE_RELEASE, "a");
            redis_says(&w, op, CORE_OK); /* dropped */
            redis_says(&w, release, CORE_OK);
        }
        second = redis_grants(&w, "a", id)->token;
        ck_assert(second > first);
        ck_assert_uint_eq(w.metrics.lost, 1);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
        id = unlock(&w, s, "a", .owner = "host"); /* the loss is not reported for the new hold */
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        expect_reply(&w, unlock(&w, s, "a", .owner = "host"), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/* Of the requests that wait for a lock when it is lost, the first that is not `fresh` gets LOST. */
START_TEST(a_fresh_lock_gets_no_lost)
{
    struct world w;
    struct flight op, release;
    uint64_t s, id, other, token;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "host", .fresh = true, .nowait = true, .lease_us = SEC(1));
    token = redis_grants(&w, "a", id)->token;
    pass(&w, MS(900));
    suspects(&w);
    op = expect_op(&w, CORE_EXTEND, "a");
    id = lock(&w, s, "a", .owner = "host", .fresh = true, .nowait = true, .lease_us = SEC(1));
    other = unlock(&w, session(&w), "a", .token = token);
    pass(&w, MS(88));
    expect_reply(&w, other, CORE_WAS_LOST);
    release = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    redis_says(&w, release, CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* No turn ran for an hour: leases and waits that have ended do so before the core handles a new request. */
START_TEST(clock_gap)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;

    s = world_holding(&w);
    t = session(&w);
    other = lock(&w, t, "b", .wait_us = SEC(10));
    op = expect_op(&w, CORE_ACQUIRE, "b");
    stall(&w, SEC(3600));
    id = lock(&w, s, "a", .once = true); /* not "held" */
    expect_reply(&w, other, CORE_UNAVAILABLE);
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_news(&w, CORE_NEWS_LOST, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_GONE_IN_REDIS);
    world_close(&w);
}
END_TEST

START_TEST(clock_never_steps_back)
{
    struct world w;

    world_holding(&w);
    w.now_us -= SEC(500);
    w.unchecked = true;
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, SEC(1000) + REPORTED_30S);
    w.now_us += SEC(500);
    w.unchecked = false;
    world_close(&w);
}
END_TEST

/* ---- granted or not ---- */

/* The deadline counts from the moment at which the attempt was given to the socket. */
START_TEST(deadline_from_sending)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .lease_us = SEC(1));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(600));
    redis_says(&w, op, CORE_OK, .sent_us = op.at_us + MS(50));
    ck_assert_int_eq(expect_reply(&w, id, CORE_GRANTED)->lease_us, reported(SEC(1)) - MS(550));
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + MS(50) + reported(SEC(1)));
    ck_assert_int_eq(core_deadline_us(100, SEC(100)), 100 + SEC(99) - MS(2));
    world_close(&w);
}
END_TEST

/* An answer that arrives after the end of the lease grants nothing; the same owner asks again, after a pause. */
START_TEST(late_grant)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .lease_us = SEC(1));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, reported(SEC(1)));
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_GRANTED), 0);
    pass(&w, MS(20) - 1);
    quiet(&w); /* without a pause, a lease shorter than the round trip would keep daemon and Redis busy for nothing */
    pass(&w, 1);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.owner == s && !op.op.reentry);
    pass(&w, reported(SEC(1)) - 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_GRANTED)->lease_us, 1);
    world_close(&w);
}
END_TEST

/* The request ends after a late answer: Redis has the key, so the core releases it. */
START_TEST(late_grant_given_up)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .lease_us = MS(1), .nowait = true); /* too short a lease to report as held */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ---- the watchdog ---- */

/* A claim is renewed a third of the reported lease after each renewal, as long as it is held. */
START_TEST(watchdog_renews)
{
    struct world w;
    struct flight op;
    uint64_t s;

    s = world_holding(&w);
    for (int i = 1; i <= 50; i++) {
        pass(&w, REPORTED_30S / 3 - 1);
        quiet(&w);
        pass(&w, 1);
        op = expect_op(&w, CORE_EXTEND, "a");
        ck_assert(op.op.lease_us == SEC(30) && !op.op.exact && op.op.holds == 1 && op.op.owner == s);
        redis_says(&w, op, CORE_OK);
        ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + REPORTED_30S);
    }
    ck_assert_uint_eq(w.metrics.renewals, 50);
    give(&w, s, "a");
    world_close(&w);
}
END_TEST

/* Unconfirmed renewals are repeated each second; LOST is reported at the deadline, not before and not after. */
START_TEST(watchdog_fails)
{
    static const enum core_outcome outcomes[] = {CORE_DOWN, CORE_UNKNOWN, CORE_FULL};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t s, token;
        int64_t deadline_us;

        world_open(&w);
        s = session(&w);
        token = take(&w, s, "a");
        deadline_us = w.now_us + REPORTED_30S;
        pass(&w, REPORTED_30S / 3);
        while (w.now_us + SEC(1) < deadline_us) {
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), outcomes[i]);
            pass(&w, SEC(1) - 1);
            quiet(&w);
            pass(&w, 1);
        }
        op = expect_op(&w, CORE_EXTEND, "a");
        pass(&w, deadline_us - w.now_us - 1);
        expect_state(&w, "a", "held");
        expect_reply(&w, lock(&w, s, "a", .once = true), CORE_GRANTED);
        pass(&w, 1);
        ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "not renewed in time");
        ck_assert_uint_ge(w.metrics.renewals_failed, 19);
        {
            struct flight last = expect_op(&w, CORE_RELEASE, "a");

            redis_says(&w, op, CORE_OK); /* too late */
            redis_says(&w, last, CORE_OK);
        }
        expect_reply(&w, unlock(&w, s, "a", .token = token), CORE_WAS_LOST);
        world_close(&w);
    }
}
END_TEST

/* A confirmation one microsecond before the deadline is early enough. */
START_TEST(watchdog_recovers)
{
    struct world w;
    struct flight op;
    int64_t deadline_us;

    world_holding(&w);
    deadline_us = w.now_us + REPORTED_30S;
    pass(&w, REPORTED_30S / 3);
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, deadline_us - w.now_us - 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + REPORTED_30S); /* counted from the sending */
    expect_op(&w, CORE_EXTEND, "a");                                  /* so the next one is due already */
    pass(&w, 1);
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

START_TEST(watchdog_finds_it_gone)
{
    static const enum core_outcome outcomes[] = {CORE_GONE_IN_REDIS, CORE_TAKEN, CORE_FOREIGN};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct world w;
        uint64_t s, t, next;

        s = world_holding(&w);
        t = session(&w);
        next = lock(&w, t, "a");
        pass(&w, REPORTED_30S / 3);
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), outcomes[i]);
        ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "gone in Redis");
        redis_grants(&w, "a", next);
        expect_reply(&w, renew(&w, s, "a", SEC(1)), CORE_WAS_LOST);
        expect_reply(&w, renew(&w, s, "a", SEC(1)), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/*
 * Renewals that are due close together leave together, the later ones by up to 250 ms early, or less for short leases.
 */
START_TEST(watchdog_batches)
{
    static const struct {
        int64_t lease_us, apart_us;
        int together;
    } rows[] = {{SEC(30), MS(60), 5}, {SEC(30), MS(250), 2}, {SEC(30), MS(251), 1}, {SEC(3), MS(10), 6}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        uint64_t s;
        char name[] = "a";

        world_open(&w);
        s = session(&w);
        for (; name[0] < 'h'; name[0]++) {
            uint64_t id = lock(&w, s, name, .spec_lease_us = rows[i].lease_us);

            redis_grants(&w, name, id);
            pass(&w, rows[i].apart_us);
        }
        pass(&w, SEC(1000) + reported(rows[i].lease_us) / 3 - w.now_us);
        name[0] = 'a';
        for (int n = 0; n < rows[i].together; n++, name[0]++) {
            expect_op(&w, CORE_EXTEND, name);
        }
        quiet(&w);
        world_close(&w);
    }
}
END_TEST

/* A hold with the watchdog has the whole claim renewed, by the lease of the rule; no hold shortens another. */
START_TEST(reentry_leases)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, s, "b");
    pass(&w, SEC(1));
    id = lock(&w, s, "b", .lease_us = SEC(2));
    op = expect_op(&w, CORE_ACQUIRE, "b");
    ck_assert_int_eq(op.op.lease_us, REPORTED_30S - SEC(1));
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_GRANTED)->lease_us, REPORTED_30S - SEC(1));
    ck_assert(view_of(&w, "b").renewed);
    id = unlock(&w, s, "b");
    redis_releases(&w, "b", id);
    give(&w, s, "b");

    take_for(&w, s, SEC(1));
    ck_assert(!view_of(&w, "a").renewed);
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(op.op.lease_us, SEC(30));
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_GRANTED)->lease_us, REPORTED_30S);
    ck_assert(view_of(&w, "a").renewed);
    for (int i = 0; i < 5; i++) {
        pass(&w, REPORTED_30S / 3 - 1);
        quiet(&w);
        pass(&w, 1);
        op = expect_op(&w, CORE_EXTEND, "a");
        ck_assert_int_eq(op.op.lease_us, SEC(30));
        redis_says(&w, op, CORE_OK);
    }
    world_close(&w);
}
END_TEST

/* A request with the watchdog takes over an attempt that has a LEASE: the lease is renewed like any other. */
START_TEST(attempt_taken_over)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", .owner = "alice", .lease_us = SEC(1));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(op.op.lease_us, SEC(1));
    gone(&w, s);
    id = lock(&w, t, "a", .owner = "alice");
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_GRANTED)->lease_us, reported(SEC(1)));
    pass(&w, reported(SEC(1)) / 3);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert_int_eq(op.op.lease_us, SEC(30));
    world_close(&w);
}
END_TEST

/* After the UNLOCK of one hold the other holds have at least the lease that they had before. */
START_TEST(unlock_keeps_time)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(1));
    id = lock(&w, s, "a", .lease_us = SEC(60));
    redis_grants(&w, "a", id);
    id = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.holds == 1 && op.op.lease_us == reported(SEC(60)));
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + reported(SEC(60)));
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        lost_is_reported_once,
        lost_is_reported_at_once,
        a_loser_is_no_holder_of_a_name_that_is_taken,
        lost_under_a_request,
        fresh_lock_after_a_loss,
        a_fresh_lock_gets_no_lost,
        clock_gap,
        clock_never_steps_back,
        deadline_from_sending,
        late_grant,
        late_grant_given_up,
        watchdog_renews,
        watchdog_fails,
        watchdog_recovers,
        watchdog_finds_it_gone,
        watchdog_batches,
        reentry_leases,
        attempt_taken_over,
        unlock_keeps_time,
    };

    return suite_main("core, lease", tests, sizeof(tests) / sizeof(tests[0]));
}
