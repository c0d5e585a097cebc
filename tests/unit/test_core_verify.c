/*
 * test_core_verify.c -- a clock has jumped (SUSPECT): each lock is unverified until Redis has confirmed it, whatever
 * else happens meanwhile.
 */
#include "tests/unit/core_world.h"

/*
 * An operation in flight fails and is to be repeated; the verify goes first. Meanwhile the time of the repetition must
 * not count as work that is due: it has passed, and the step would never end (found by tests/fuzz, core).
 */
START_TEST(a_failed_operation_and_a_verify)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    suspects(&w);
    redis_says(&w, op, CORE_DOWN);
    pass(&w, SEC(1));
    op = expect_op(&w, CORE_EXTEND, "a"); /* the verify */
    pass(&w, SEC(1));
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(view_of(&w, "a").holds, 2);
    world_close(&w);
}
END_TEST

/* A renewal is due before the repetition: none is sent beside the verify, which has its own time. */
START_TEST(a_renewal_due_while_unverified)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    id = renew(&w, s, "a", MS(10));
    op = expect_op(&w, CORE_EXTEND, "a");
    suspects(&w);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1)); /* RENEW may have shortened the lease */
    pass(&w, MS(7));
    expect_state(&w, "a", "held");
    pass(&w, MS(1));
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_op(&w, CORE_RELEASE, "a");
    world_close(&w);
}
END_TEST

/*
 * A due renewal takes along others that are due soon, but not a verify that has just failed: that waits for its pause.
 */
START_TEST(verify_waits_for_its_pause)
{
    struct world w;
    struct flight a, b;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .spec_lease_us = SEC(3)); /* renewed after 989 ms */
    redis_grants(&w, "a", id);
    take(&w, s, "b");
    suspects(&w);
    a = expect_op(&w, CORE_EXTEND, "a");
    b = expect_op(&w, CORE_EXTEND, "b");
    redis_says(&w, a, CORE_OK);
    redis_says(&w, b, CORE_DOWN); /* repeated after 1 s */
    pass(&w, MS(995));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    pass(&w, MS(5));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "b"), CORE_OK);
    world_close(&w);
}
END_TEST

/* A request waits for a verify that failed before: it gets its answer with the repetition, without extra work. */
START_TEST(verify_that_is_waited_for)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    suspects(&w);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_DOWN); /* repeated after 1 s */
    id = lock(&w, s, "a", .once = true);
    pass(&w, SEC(1));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, MS(100));
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/*
 * An unverified UNLOCK may get UNAVAILABLE, but the core must still release the lock: else it is renewed for ever.
 */
START_TEST(given_back_unverified)
{
    for (int named = 0; named < 2; named++) {
        struct world w;
        uint64_t s, id;

        s = world_holding(&w);
        suspects(&w);
        expect_op(&w, CORE_EXTEND, "a");
        id = unlock(&w, s, "a", .token = named ? view_of(&w, "a").token : 0);
        pass(&w, SEC(1));
        expect_reply(&w, id, CORE_UNAVAILABLE);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* ... but a request that would not release the last hold is not carried out later. */
START_TEST(not_given_back_unverified)
{
    enum how { TWO_HOLDS, RENEWED, STALE, SHARED, HOWS };

    for (int how = 0; how < HOWS; how++) {
        struct world w;
        uint64_t s, id, token;
        struct flight op;

        world_open(&w);
        s = session(&w);
        token = redis_grants(&w, "a", lock(&w, s, "a", .owner = "o"))->token;
        if (how == TWO_HOLDS) {
            redis_grants(&w, "a", lock(&w, s, "a", .owner = "o"));
        }
        suspects(&w);
        op = expect_op(&w, CORE_EXTEND, "a");
        id = how == RENEWED  ? renew(&w, s, "a", SEC(60), .owner = "o")
             : how == STALE  ? unlock(&w, s, "a", .owner = "o", .token = token + 1)
             : how == SHARED ? unlock(&w, s, "a", .owner = "o", .shared = true)
                             : unlock(&w, s, "a", .owner = "o");
        pass(&w, SEC(1));
        expect_reply(&w, id, CORE_UNAVAILABLE);
        redis_says(&w, op, CORE_OK);
        expect_state(&w, "a", "held");
        world_close(&w);
    }
}
END_TEST

/* ... nor is an UNLOCK that stands behind another request. */
START_TEST(given_back_behind_another_unverified)
{
    struct world w;
    uint64_t s, first, id;
    struct flight op;

    s = world_holding(&w);
    suspects(&w);
    op = expect_op(&w, CORE_EXTEND, "a");
    first = lock(&w, s, "a", .once = true);
    id = unlock(&w, s, "a", .token = view_of(&w, "a").token);
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, first, CORE_GRANTED);
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

/* A re-entry that is answered needs no verify, though a renewal beside it failed while the lock was unverified. */
START_TEST(reentry_beside_a_verify)
{
    for (int how = 0; how < 3; how++) {
        struct world w;
        struct flight renewal, op;
        uint64_t s, id;

        s = world_holding(&w);
        pass(&w, REPORTED_30S / 3);
        renewal = expect_op(&w, CORE_EXTEND, "a");
        id = lock(&w, s, "a", .nowait = how < 2); /* with NOWAIT, it waits for this operation only */
        op = expect_op(&w, CORE_ACQUIRE, "a");
        if (how == 0) {
            suspects(&w);
        } else {
            receives(&w, "B5:other,1:a,1:a,", 17); /* the lock was broken at another daemon */
        }
        redis_says(&w, renewal, CORE_DOWN);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        quiet(&w);
        pass(&w, SEC(1));
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {a_failed_operation_and_a_verify, a_renewal_due_while_unverified, verify_waits_for_its_pause,
                            verify_that_is_waited_for, given_back_unverified, not_given_back_unverified,
                            given_back_behind_another_unverified, reentry_beside_a_verify};

    return suite_main("core, verify", tests, sizeof(tests) / sizeof(tests[0]));
}
