/*
 * test_core_meanwhile.c -- requests and answers that come while another operation is under way, or too late.
 */
#include "tests/unit/core_world.h"

/* An answer after the end of its request, or a second answer to the same operation, changes nothing. */
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
    redis_says(&w, op, CORE_OK);
    ck_assert(!known(&w, "a"));
    redis_says(&w, op, CORE_OK); /* its record is no longer there */
    take(&w, s, "b");
    id = break_name(&w, s, "b");
    op = expect_op(&w, CORE_BREAK_KEY, "b");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    expect_news(&w, CORE_NEWS_LOST, "b");
    redis_says(&w, op, CORE_FOREIGN); /* a second answer, which is ignored */
    expect_reply(&w, unlock(&w, s, "b"), CORE_WAS_LOST);
    gone(&w, s);
    mlock(&w, s, "a b"); /* the session has gone: no reply */
    quiet(&w);
    world_close(&w);
}
END_TEST

/* A lease that is shorter than the safety margin of the deadline has ended before it begins. */
START_TEST(a_lease_of_nothing)
{
    struct world w;
    uint64_t s, id;

    s = world_holding(&w);
    id = renew(&w, s, "a", MS(1));
    expect_op(&w, CORE_EXTEND, "a"); /* its answer is not awaited */
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_news(&w, CORE_NEWS_LOST, "a");
    expect_op(&w, CORE_RELEASE, "a");
    world_close(&w);
}
END_TEST

/* Such a RENEW that had to wait for its turn ends at that turn, before the core handles a new request. */
START_TEST(nothing_behind_a_wait)
{
    struct world w;
    struct flight release;
    uint64_t s, t, id, renewal, next;

    s = world_holding(&w);
    t = session(&w);
    take(&w, t, "b");
    id = lock(&w, s, "b", .wait_us = SEC(1));
    renewal = renew(&w, s, "a", MS(1)); /* it waits behind the LOCK of its owner */
    stall(&w, SEC(1));
    next = lock(&w, t, "a", .nowait = true); /* the release of "a" is under way, so NOWAIT waits for it */
    expect_reply(&w, id, CORE_NOT_GRANTED);
    expect_op(&w, CORE_EXTEND, "a");
    expect_reply(&w, renewal, CORE_WAS_LOST);
    expect_news(&w, CORE_NEWS_LOST, "a");
    release = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, release, CORE_OK);
    redis_grants(&w, "a", next);
    world_close(&w);
}
END_TEST

/* A RENEW by TOKEN extends one name of an MLOCK that waits for another name: no second renewal runs beside it. */
START_TEST(renewed_before_all_are_there)
{
    struct world w;
    struct flight second, renewal;
    uint64_t s, id, other;

    world_open(&w);
    s = session(&w);
    id = mlock(&w, s, "a b", .lease_us = SEC(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    second = expect_op(&w, CORE_ACQUIRE, "b");
    stall(&w, MS(100));
    other = renew(&w, session(&w), "a", SEC(20), .token = w.token);
    renewal = expect_op(&w, CORE_EXTEND, "a");
    stall(&w, MS(100));
    redis_says(&w, second, CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->parts, 2);
    quiet(&w);
    redis_says(&w, renewal, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, other, CORE_LEFT)->left, (reported(SEC(20)) - MS(100)) / US_PER_MS);
    pass(&w, SEC(10)); /* neither is renewed by the watchdog from now on; the lease of b has ended */
    expect_op(&w, CORE_RELEASE, "b");
    expect_news(&w, CORE_NEWS_LOST, "b");
    expect_state(&w, "a", "held");
    pass(&w, SEC(10));
    expect_op(&w, CORE_RELEASE, "a");
    expect_news(&w, CORE_NEWS_LOST, "a");
    world_close(&w);
}
END_TEST

/* A release by TOKEN does not wait for its session's earlier requests; one with an owner waits for that owner's. */
START_TEST(gone_past_a_wait)
{
    for (int named = 0; named < 2; named++) {
        const char *owner = named ? "alice" : NULL;
        struct world w;
        uint64_t s, token, wait, id;

        world_open(&w);
        s = session(&w);
        take(&w, session(&w), "b");
        lock(&w, s, "a", .owner = owner);
        token = redis_grants(&w, "a", w.request)->token;
        wait = lock(&w, s, "b", .owner = owner, .wait_us = SEC(1));
        id = munlock(&w, s, "a", .owner = owner, .token = token);
        if (named) {
            quiet(&w);
            pass(&w, SEC(1));
            expect_reply(&w, wait, CORE_NOT_GRANTED);
        }
        ck_assert_int_eq(part(redis_releases(&w, "a", id), 0)->part.answer, CORE_LEFT);
        if (!named) {
            pass(&w, SEC(1));
            expect_reply(&w, wait, CORE_NOT_GRANTED);
        }
        world_close(&w);
    }
}
END_TEST

/*
 * A hold of kind counter must not be released during its renewal, nor at once after its expiry was set: also not when
 * Redis is reached again (CORE_REACHED).
 */
START_TEST(given_back_while_renewed)
{
    for (int goes = 0; goes < 2; goes++) {
        struct world w;
        struct flight renewal;
        uint64_t s, id = 0;

        world_open(&w);
        s = session(&w);
        lock(&w, s, "c", .kind = KIND_COUNTER);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "c"), CORE_OK, .expiry_ms = 7);
        expect_reply(&w, w.request, CORE_GRANTED);
        pass(&w, SEC(10));
        renewal = expect_op(&w, CORE_EXTEND, "c");
        if (goes) {
            gone(&w, s);
        } else {
            id = unlock(&w, s, "c");
        }
        happens(&w, &(struct core_event){.type = CORE_REACHED});
        quiet(&w);
        redis_says(&w, renewal, CORE_OK, .expiry_ms = 42);
        pass(&w, MS(5) - 1);
        quiet(&w);
        pass(&w, 1);
        ck_assert_int_eq(w.flights[w.flights_n - 1].op.expiry_ms, 42); /* its expiry in Redis now */
        redis_says(&w, expect_op(&w, CORE_RELEASE, "c"), CORE_OK);
        if (!goes) {
            ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
        }
        ck_assert(!known(&w, "c"));
        world_close(&w);
    }
}
END_TEST

/* A higher LIMIT is no reason to ask a Redis that is down before the pause has ended. */
START_TEST(raised_while_redis_is_down)
{
    static const enum core_outcome outcomes[] = {CORE_TAKEN, CORE_DOWN};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        uint64_t id;

        world_open(&w);
        lock(&w, session(&w), "pool", .kind = KIND_SEMAPHORE, .limit = 1);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "pool"), outcomes[i], .pttl_us = SEC(4), .holders = 1);
        quiet(&w);
        id = lock(&w, session(&w), "pool", .kind = KIND_SEMAPHORE, .limit = 2);
        if (outcomes[i] == CORE_DOWN) {
            quiet(&w);
            ck_assert_int_gt(core_next_us(w.core), w.now_us);
            pass(&w, core_next_us(w.core) - w.now_us);
        }
        redis_grants(&w, "pool", id - 1);
        expect_op(&w, CORE_ACQUIRE, "pool");
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* A session counts the holds that it was granted itself, not those of other sessions of the same owner. */
START_TEST(held_by_another_session)
{
    static const char *const name[] = {"a", "b", "c"};
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    for (int i = 0; i < 3; i++) {
        lock(&w, i == 0 ? s : t, name[i], .owner = "alice");
        redis_grants(&w, name[i], w.request);
    }
    ck_assert_uint_eq(core_session_count(w.core, s).held, 1);
    ck_assert_uint_eq(core_session_count(w.core, t).held, 2);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {answers_that_are_late, a_lease_of_nothing, nothing_behind_a_wait,
                            renewed_before_all_are_there, gone_past_a_wait, given_back_while_renewed,
                            raised_while_redis_is_down, held_by_another_session};

    return suite_main("core, meanwhile", tests, sizeof(tests) / sizeof(tests[0]));
}
