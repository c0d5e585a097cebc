/*
 * test_core_wait.c -- LOCK that may not wait, or not for long: its answers, and when they come.
 */
#include "tests/unit/core_world.h"

START_TEST(nowait_held_here)
{
    struct world w;
    uint64_t t;

    world_holding(&w);
    t = session(&w);
    expect_reply(&w, lock(&w, t, "a", .nowait = true), CORE_NOT_GRANTED);
    lock(&w, t, "a");
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    ck_assert_uint_eq(w.metrics.attempts, 1);
    ck_assert_uint_eq(w.metrics.timeouts, 2);
    world_close(&w);
}
END_TEST

/* Another client has the lock: one attempt, no watch, no record left. */
START_TEST(nowait_taken_elsewhere)
{
    struct world w;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(w.metrics.attempts_taken, 1);
    world_close(&w);
}
END_TEST

/* The kept position of a named owner is no answer of Redis: each NOWAIT request asks Redis. */
START_TEST(nowait_asks_every_time)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    pass(&w, MS(100));
    id = lock(&w, t, "a", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    pass(&w, MS(100));
    id = lock(&w, s, "a", .owner = "alice", .nowait = true);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* Other NOWAIT requests join the attempt in flight: its outcome decides for all of them. */
START_TEST(nowait_joins_the_attempt)
{
    static const struct {
        enum core_outcome outcome;
        enum core_answer first, others;
    } rows[] = {{CORE_OK, CORE_GRANTED, CORE_NOT_GRANTED},
                {CORE_TAKEN, CORE_NOT_GRANTED, CORE_NOT_GRANTED},
                {CORE_DOWN, CORE_UNAVAILABLE, CORE_UNAVAILABLE},
                {CORE_FULL, CORE_REDIS_FULL, CORE_REDIS_FULL},
                {CORE_FOREIGN, CORE_WRONG_KIND, CORE_WRONG_KIND}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t id[3];

        world_open(&w);
        id[0] = lock(&w, session(&w), "a", .nowait = true);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        id[1] = lock(&w, session(&w), "a", .nowait = true);
        id[2] = lock(&w, session(&w), "a", .nowait = true);
        redis_says(&w, op, rows[i].outcome, .pttl_us = SEC(1));
        if (rows[i].outcome == CORE_DOWN) { /* the link may be up again within their patience */
            quiet(&w);
            pass(&w, MS(20));
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_DOWN);
            pass(&w, MS(40));
            op = expect_op(&w, CORE_ACQUIRE, "a");
            pass(&w, MS(250));
        }
        expect_reply(&w, id[0], rows[i].first);
        expect_reply(&w, id[1], rows[i].others);
        expect_reply(&w, id[2], rows[i].others);
        if (rows[i].outcome == CORE_DOWN) {
            redis_says(&w, op, CORE_DOWN);
        }
        ck_assert_int_eq(known(&w, "a"), rows[i].first == CORE_GRANTED);
        world_close(&w);
    }
}
END_TEST

/* A waiter is in front: null at once, whatever the outcome of the attempt in flight. */
START_TEST(nowait_behind_a_waiter)
{
    struct world w;
    struct flight op;

    world_open(&w);
    lock(&w, session(&w), "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1));
    ck_assert(is_watched(&w, "a"));
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    world_close(&w);
}
END_TEST

/* During the pause after a failed attempt the answer is the reason of the failure. */
START_TEST(nowait_while_redis_is_away)
{
    static const struct {
        enum core_outcome outcome;
        enum core_answer answer;
    } rows[] = {{CORE_DOWN, CORE_UNAVAILABLE}, {CORE_UNKNOWN, CORE_UNAVAILABLE}, {CORE_FULL, CORE_REDIS_FULL}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;

        world_open(&w);
        lock(&w, session(&w), "a");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), rows[i].outcome);
        expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), rows[i].answer);
        ck_assert_uint_eq(w.metrics.unavailable, 1);
        world_close(&w);
    }
}
END_TEST

/* An attempt takes too long for a NOWAIT request; a lock that is granted later is released. */
START_TEST(nowait_patience)
{
    struct world w;
    struct flight op;
    uint64_t id, behind;

    world_open(&w);
    id = lock(&w, session(&w), "a", .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    behind = lock(&w, session(&w), "a", .nowait = true);
    pass(&w, MS(250) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    expect_reply(&w, behind, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(w.metrics.unclaimed, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_GRANTED) + count_news(&w, CORE_NEWS_RELEASED), 0);
    world_close(&w);
}
END_TEST

START_TEST(wait_times_out)
{
    struct world w;
    uint64_t id;

    world_holding(&w);
    id = lock(&w, session(&w), "a", .wait_us = SEC(1));
    pass(&w, SEC(1) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_NOT_GRANTED);

    id = lock(&w, session(&w), "b", .wait_us = SEC(1)); /* another client has it */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(is_watched(&w, "b"));
    pass(&w, SEC(1) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    ck_assert(!is_watched(&w, "b"));
    ck_assert(!known(&w, "b"));

    id = lock(&w, session(&w), "c", .wait_us = MS(30)); /* Redis is down */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "c"), CORE_DOWN);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "c"), CORE_DOWN);
    pass(&w, MS(10) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    world_close(&w);
}
END_TEST

/* The wait ends during an attempt: its outcome is awaited, but not for long. */
START_TEST(wait_ends_in_an_attempt)
{
    static const struct {
        enum core_outcome outcome;
        enum core_answer answer;
    } rows[] = {{CORE_OK, CORE_GRANTED}, {CORE_TAKEN, CORE_NOT_GRANTED}, {CORE_DOWN, CORE_UNAVAILABLE}};
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        id = lock(&w, session(&w), "a", .wait_us = MS(100));
        op = expect_op(&w, CORE_ACQUIRE, "a");
        pass(&w, MS(200));
        redis_says(&w, op, rows[i].outcome, .pttl_us = SEC(1));
        expect_reply(&w, id, rows[i].answer);
        if (rows[i].outcome == CORE_OK) {
            give(&w, w.session[0], "a");
        }
    }
    id = lock(&w, session(&w), "a", .wait_us = MS(100));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(250) - 1); /* a quarter of the timeout, from the sending of the attempt */
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    id = lock(&w, session(&w), "a", .wait_us = MS(100)); /* behind the attempt, which serves no request any more */
    pass(&w, MS(350) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_DOWN);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        nowait_held_here,
        nowait_taken_elsewhere,
        nowait_asks_every_time,
        nowait_joins_the_attempt,
        nowait_behind_a_waiter,
        nowait_while_redis_is_away,
        nowait_patience,
        wait_times_out,
        wait_ends_in_an_attempt,
    };

    return suite_main("core, wait", tests, sizeof(tests) / sizeof(tests[0]));
}
