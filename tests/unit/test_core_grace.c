/*
 * test_core_grace.c -- named owners without a session: the grace of their positions in the queue and of what they hold.
 */
#include "tests/unit/core_world.h"

/* ---- positions ---- */

/* A named owner whose wait has timed out is still before later waiters: short waits in a loop stay fair. */
START_TEST(position_is_kept)
{
    struct world w;
    uint64_t s, t, id, other;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .lease_us = SEC(60));
    redis_grants(&w, "a", id);
    id = lock(&w, t, "a", .owner = "alice", .wait_us = MS(100));
    other = lock(&w, session(&w), "a");
    for (int i = 0; i < 5; i++) {
        pass(&w, MS(100));
        expect_reply(&w, id, CORE_NOT_GRANTED);
        pass(&w, SEC(2) - 1);
        id = lock(&w, t, "a", .owner = "alice", .wait_us = MS(100));
    }
    give(&w, s, "a");
    redis_grants(&w, "a", id);
    id = unlock(&w, t, "a", .owner = "alice");
    redis_releases(&w, "a", id);
    redis_grants(&w, "a", other);
    world_close(&w);
}
END_TEST

/* A position without a waiting request keeps no owner from a free lock; it is there when its owner comes back. */
START_TEST(position_is_passed_over)
{
    struct world w;
    struct flight op;
    uint64_t s, t, u, v, id, second, third;

    s = world_holding(&w);
    t = session(&w);
    u = session(&w);
    v = session(&w);
    id = lock(&w, t, "a", .owner = "alice", .wait_us = MS(100));
    second = lock(&w, u, "a");
    third = lock(&w, v, "a");
    gone(&w, t); /* the connection is lost: the wait is over, the position is not */
    give(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.owner, u);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, second, CORE_GRANTED);
    expect_reply(&w, unlock(&w, s, "a", .owner = "alice"), CORE_NOT_HELD);
    id = lock(&w, s, "a", .owner = "alice");
    give(&w, u, "a");
    redis_grants(&w, "a", id);
    id = unlock(&w, s, "a", .owner = "alice");
    redis_releases(&w, "a", id);
    redis_grants(&w, "a", third);
    world_close(&w);
}
END_TEST

START_TEST(position_expires)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;

    s = world_holding(&w);
    t = session(&w);
    expect_reply(&w, lock(&w, t, "a", .owner = "alice", .nowait = true), CORE_NOT_GRANTED);
    other = lock(&w, t, "a");
    pass(&w, SEC(2));
    ck_assert_uint_eq(core_totals(w.core).owners, 2);
    id = lock(&w, t, "a", .owner = "alice");
    give(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.owner, t);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, other, CORE_GRANTED);
    give(&w, t, "a");
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* The attempt was in flight when the session ended: what it brings is given back, and the position stays. */
START_TEST(position_of_an_attempt)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    other = lock(&w, t, "a", .lease_us = SEC(5));
    gone(&w, s);
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(1));
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.owner, t);
    id = lock(&w, t, "a", .owner = "alice"); /* back in time, but the attempt of the other owner is in flight */
    redis_says(&w, op, CORE_TAKEN, .pttl_us = MS(10));
    ck_assert(is_watched(&w, "a"));
    pass(&w, MS(11));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_ne(op.op.owner, t);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    id = unlock(&w, t, "a", .owner = "alice");
    redis_releases(&w, "a", id);
    redis_grants(&w, "a", other);
    ck_assert(!is_watched(&w, "a"));
    world_close(&w);
}
END_TEST

/* The position ends before the attempt does, or after it. */
START_TEST(position_ends_around_an_attempt)
{
    static const int64_t answered_after[] = {MS(2100), MS(1900)};

    for (size_t i = 0; i < sizeof(answered_after) / sizeof(answered_after[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t s;

        world_open(&w);
        s = session(&w);
        lock(&w, s, "a", .owner = "alice");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        gone(&w, s);
        pass(&w, answered_after[i]);
        redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
        ck_assert_int_eq(known(&w, "a"), answered_after[i] < SEC(2));
        pass(&w, MS(100));
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* ---- the grace of a named owner ---- */

START_TEST(grace_then_released)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, next;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice");
    redis_grants(&w, "a", id);
    gone(&w, s);
    expect_state(&w, "a", "held");
    next = lock(&w, t, "a");
    pass(&w, SEC(10) - 1); /* renewed meanwhile */
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    pass(&w, 1);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.holds, 0);
    id = lock(&w, t, "b", .owner = "alice"); /* too late: this is a new owner of that name */
    ck_assert_uint_ne(redis_grants(&w, "b", id)->owner, op.op.owner);
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "a", next);
    world_close(&w);
}
END_TEST

START_TEST(grace_came_back)
{
    struct world w;
    uint64_t s, t, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .lease_us = SEC(60));
    token = redis_grants(&w, "a", id)->token;
    gone(&w, s);
    pass(&w, SEC(10) - 1);
    id = lock(&w, t, "a", .owner = "alice", .once = true, .lease_us = SEC(60));
    ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->token, token);
    pass(&w, SEC(20));
    expect_state(&w, "a", "held");
    id = unlock(&w, t, "a", .owner = "alice");
    redis_releases(&w, "a", id);
    world_close(&w);
}
END_TEST

/* The grace ended without an event: it counts as over before the request of the returning owner is handled. */
START_TEST(grace_over_unseen)
{
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", .owner = "alice", .lease_us = SEC(60));
    redis_grants(&w, "a", id);
    gone(&w, w.session[0]);
    stall(&w, SEC(12));
    id = lock(&w, session(&w), "a", .owner = "alice", .once = true);
    op = expect_op(&w, CORE_RELEASE, "a");
    quiet(&w); /* the request is no repetition */
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(!op.op.reentry);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Without a grace a named owner ends with its last session, and its position with it. */
START_TEST(grace_of_nothing)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .no_owner_grace = true);
    redis_grants(&w, "a", id);
    lock(&w, t, "a", .owner = "bob", .no_owner_grace = true);
    gone(&w, t);
    ck_assert_uint_eq(core_totals(w.core).owners, 2);
    gone(&w, s);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(core_totals(w.core).owners, 0);
    world_close(&w);
}
END_TEST

/* The longest grace of the owner's locks counts for all of them. */
START_TEST(grace_of_several)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .lease_us = SEC(60));
    redis_grants(&w, "a", id);
    id = lock(&w, s, "b", .owner = "alice", .lease_us = SEC(60), .no_owner_grace = true);
    redis_grants(&w, "b", id);
    gone(&w, s);
    pass(&w, SEC(10) - 1);
    quiet(&w);
    pass(&w, 1);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    redis_says(&w, op, CORE_OK);
    world_close(&w);
}
END_TEST

/* A session acts by the token for an owner whose grace ends meanwhile. */
START_TEST(grace_ends_under_a_token)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .lease_us = SEC(60), .no_owner_grace = true);
    token = redis_grants(&w, "a", id)->token;
    id = renew(&w, t, "a", SEC(30), .token = token);
    op = expect_op(&w, CORE_EXTEND, "a");
    gone(&w, s);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_NOT_HELD);
    redis_says(&w, op, CORE_OK);
    world_close(&w);
}
END_TEST

/* The session that asked has ended, its owner has not. */
START_TEST(asker_gone_owner_stays)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, t, "a", .owner = "alice");
    token = redis_grants(&w, "a", id)->token;
    lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    gone(&w, s); /* its re-entry does not count: no client has an answer to it */
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(view_of(&w, "a").holds, 1);
    s = session(&w);
    renew(&w, s, "a", SEC(60), .owner = "alice");
    op = expect_op(&w, CORE_EXTEND, "a");
    gone(&w, s);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + SEC(60) - MS(602));
    s = session(&w);
    unlock(&w, s, "a", .token = token);
    op = expect_op(&w, CORE_RELEASE, "a");
    gone(&w, s); /* its UNLOCK counts */
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(expect_news(&w, CORE_NEWS_RELEASED, "a")->token, token);
    expect_reply(&w, unlock(&w, t, "a", .owner = "alice"), CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/* The request of another owner, after a reload, does not change the grace that the holder was granted under. */
START_TEST(grace_of_an_earlier_owner)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "alice", .spec_lease_us = SEC(60)));
    id = lock(&w, t, "a", .no_owner_grace = true, .nowait = true); /* the rule has changed */
    expect_reply(&w, id, CORE_NOT_GRANTED);
    gone(&w, s);
    pass(&w, SEC(9));
    quiet(&w);
    expect_state(&w, "a", "held");
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {position_is_kept, position_is_passed_over, position_expires, position_of_an_attempt,
                            position_ends_around_an_attempt, grace_then_released, grace_came_back, grace_over_unseen,
                            grace_of_nothing, grace_of_several, grace_ends_under_a_token, asker_gone_owner_stays,
                            grace_of_an_earlier_owner};

    return suite_main("core, grace", tests, sizeof(tests) / sizeof(tests[0]));
}
