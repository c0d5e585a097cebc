/*
 * test_core_redis.c -- answers that are lost, late or missing, and stragglers: commands that may run long after they
 * were given up.
 */
#include "tests/unit/core_world.h"

START_TEST(dropped_outcomes)
{
    struct world w;
    struct flight op, none = {.verb = CORE_ACQUIRE};
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    redis_says(&w, none, CORE_OK);
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    none = op;
    none.op.op = 0;
    redis_says(&w, none, CORE_OK);
    none.op.op = 12345;
    redis_says(&w, none, CORE_OK);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    redis_says(&w, op, CORE_GONE_IN_REDIS); /* a second answer */
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

/* ---- an acquire without an answer ---- */

/* The same owner asks again and gets its own lock. The straggler is released when its guard has ended. */
START_TEST(unknown_acquire)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;
    int64_t guard_us;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    other = lock(&w, t, "a");
    guard_us = w.now_us + SEC(1);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = guard_us);
    pass(&w, MS(20));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.owner, s);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    give(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a"); /* the next owner does not wait for that release */
    ck_assert_uint_eq(op.op.owner, t);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, other, CORE_GRANTED);
    give(&w, t, "a");
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    pass(&w, guard_us - w.now_us - 1);
    quiet(&w);
    ck_assert(known(&w, "a"));
    pass(&w, 1);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.owner == s && op.op.holds == 0);
    redis_says(&w, op, CORE_GONE_IN_REDIS);
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(w.metrics.unknowns, 1);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 2);
    world_close(&w);
}
END_TEST

/* The wait has ended: the lock is released, and released again after the guard. */
START_TEST(unknown_acquire_given_up)
{
    struct world w;
    struct flight op;
    uint64_t id;
    int64_t guard_us;

    world_open(&w);
    id = lock(&w, session(&w), "a", .wait_us = MS(10));
    guard_us = w.now_us + SEC(1);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = guard_us);
    pass(&w, MS(10));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_GONE_IN_REDIS);
    pass(&w, guard_us - w.now_us);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 0); /* the straggler did run */
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED) + count_news(&w, CORE_NEWS_LOST), 0);
    world_close(&w);
}
END_TEST

/*
 * The ACL forbids a key that the script makes: it may have run, so a release follows; requests get FORBIDDEN at once.
 */
START_TEST(forbidden_inside)
{
    struct world w;
    struct flight op;
    uint64_t a, b, s;
    int64_t guard_us;

    world_open(&w);
    s = session(&w);
    a = lock(&w, s, "a", .wait_us = SEC(30));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    b = lock(&w, session(&w), "a");
    guard_us = w.now_us + SEC(1);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = guard_us, .denied = true);
    expect_reply(&w, a, CORE_FORBIDDEN);
    expect_reply(&w, b, CORE_FORBIDDEN);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert(known(&w, "a"));
    pass(&w, guard_us - w.now_us);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* the straggler did run */
    ck_assert(!known(&w, "a"));
    a = break_name(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1), .denied = true);
    expect_reply(&w, a, CORE_FORBIDDEN);
    world_close(&w);
}
END_TEST

/* Redis's ACL forbids the key: requests get FORBIDDEN at once; operations on a lock that is held are repeated. */
START_TEST(forbidden_key)
{
    struct world w;
    struct flight op;
    uint64_t a, b, s;

    world_open(&w);
    s = session(&w);
    a = lock(&w, s, "a", .wait_us = SEC(30));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    b = lock(&w, session(&w), "a");
    redis_says(&w, op, CORE_DENIED);
    expect_reply(&w, a, CORE_FORBIDDEN);
    expect_reply(&w, b, CORE_FORBIDDEN);
    ck_assert(!known(&w, "a"));
    a = break_name(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_DENIED);
    expect_reply(&w, a, CORE_FORBIDDEN);
    take(&w, s, "b");
    pass(&w, REPORTED_30S / 3);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "b"), CORE_DENIED);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "b"), CORE_OK);
    a = lock(&w, s, "b");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_DENIED);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
    expect_reply(&w, a, CORE_GRANTED);
    gone(&w, s);
    op = expect_op(&w, CORE_RELEASE, "b");
    redis_says(&w, op, CORE_DENIED);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    ck_assert(!known(&w, "b"));
    world_close(&w);
}
END_TEST

static void
clock_set_back(struct world *w, int64_t us)
{
    happens(w, &(struct core_event){.type = CORE_CLOCK_BACK, .back_us = us});
}

/* An unanswered attempt of "a" whose wait has ended; the lock was released, and will be again from guard_us on. */
static int64_t
world_sweeping(struct world *w)
{
    int64_t guard_us;
    uint64_t id;

    world_open(w);
    id = lock(w, session(w), "a", .wait_us = MS(10));
    guard_us = w->now_us + SEC(1);
    redis_says(w, expect_op(w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = guard_us);
    pass(w, MS(10));
    expect_reply(w, id, CORE_UNAVAILABLE);
    redis_says(w, expect_op(w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    return guard_us;
}

/* Redis's clock was set back while an attempt may still run: its guard moves, and the core waits for as much longer. */
START_TEST(clock_set_back_under_an_attempt)
{
    struct world w;
    int64_t guard_us = world_sweeping(&w);

    clock_set_back(&w, SEC(5));
    pass(&w, guard_us + SEC(5) - w.now_us - 1);
    quiet(&w);
    ck_assert(known(&w, "a"));
    pass(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* the straggler did run */
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ... and the core learned that only before the answer to the second release. */
START_TEST(clock_set_back_unknown)
{
    struct world w;
    int64_t guard_us = world_sweeping(&w);
    struct flight op;

    pass(&w, guard_us - w.now_us);
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, MS(300));
    clock_set_back(&w, SEC(5));
    redis_says(&w, op, CORE_GONE_IN_REDIS);
    ck_assert(known(&w, "a"));
    pass(&w, guard_us + SEC(5) - w.now_us);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* However far the clock was set back: a command of a closed connection does not stay under way for ever. */
START_TEST(clock_set_back_by_years)
{
    struct world w;
    int64_t guard_us = world_sweeping(&w);

    clock_set_back(&w, SEC(1000000000));
    pass(&w, guard_us + SEC(120) - w.now_us);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* While Redis does not answer, the core does not know its clock: the end of the lease does not end an attempt. */
START_TEST(clock_of_a_silent_redis)
{
    struct world w;
    int64_t guard_us = world_sweeping(&w);
    struct flight op;

    pass(&w, guard_us - w.now_us);
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(100)); /* its lease was 30 s */
    redis_says(&w, op, CORE_DOWN);
    expect_state(&w, "a", "freeing");
    pass(&w, MS(20));
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(20)); /* 120 s after its guard it can run no more, whatever the clock */
    redis_says(&w, op, CORE_DOWN);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* An attempt is settled when Redis has answered an operation sent after its guard: no clock brings it back. */
START_TEST(clock_set_back_behind_the_answer)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_grants(&w, "a", id);
    pass(&w, REPORTED_30S / 3);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK); /* sent after the guard */
    clock_set_back(&w, SEC(100));
    id = unlock(&w, s, "a");
    redis_does(&w, CORE_RELEASE, "a", id, CORE_LEFT);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* An unanswered RENEW that may have shortened the lease counts for as much longer. */
START_TEST(clock_set_back_under_a_renew)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .lease_us = SEC(20)));
    id = renew(&w, s, "a", SEC(15));
    op = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us);
    clock_set_back(&w, SEC(5));
    pass(&w, SEC(1));
    id = renew(&w, s, "a", SEC(60)); /* the one to 15 s may run behind it */
    op = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, op.at_us + reported(SEC(15)));
    world_close(&w);
}
END_TEST

/*
 * The answer to the release arrives when the attempt can run no more; but the release may have run before the attempt.
 */
START_TEST(unknown_acquire_released_unanswered)
{
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", .wait_us = MS(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + MS(500));
    pass(&w, MS(10));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, MS(600));
    redis_says(&w, op, CORE_GONE_IN_REDIS);
    pass(&w, MS(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* sent after the straggler, which ran */
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ... and so with TAKEN: that owner may have released the lock since, and then the straggler may have run. */
START_TEST(unknown_then_taken_unanswered)
{
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", .wait_us = MS(200));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + MS(40));
    pass(&w, MS(20));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(30));
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(is_watched(&w, "a"));
    pass(&w, MS(150));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(!is_watched(&w, "a"));
    redis_says(&w, op, CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* A second attempt is refused while the first one may still run: the first one is released after its guard. */
START_TEST(unknown_acquire_asked_again)
{
    struct world w;
    struct flight op;
    uint64_t s, id;
    int64_t guard_us;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .nowait = true);
    guard_us = w.now_us + SEC(1);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = guard_us);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    id = lock(&w, s, "a", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(5));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_GONE_IN_REDIS);
    pass(&w, guard_us - w.now_us);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.owner, s);
    redis_says(&w, op, CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* Another owner has the lock. Before the guard the first attempt may still run after it; later it cannot have run. */
START_TEST(unknown_then_taken)
{
    for (int after = 0; after < 2; after++) {
        struct world w;
        struct flight op;
        uint64_t id;

        world_open(&w);
        id = lock(&w, session(&w), "a", .wait_us = SEC(1));
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN,
                   .guard_us = w.now_us + (after == 1 ? MS(10) : SEC(2)));
        pass(&w, MS(20));
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
        ck_assert(is_watched(&w, "a"));
        pass(&w, MS(980));
        expect_reply(&w, id, CORE_NOT_GRANTED);
        if (after == 0) {
            op = expect_op(&w, CORE_RELEASE, "a");
            ck_assert(!is_watched(&w, "a"));
            redis_says(&w, op, CORE_GONE_IN_REDIS);
            pass(&w, SEC(1));
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
        } else {
            ck_assert(!is_watched(&w, "a"));
        }
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* The release is unanswered as well. The release after the guard must have the number of the late attempt's owner. */
START_TEST(unknown_acquire_unknown_release)
{
    struct world w;
    struct flight op;
    uint64_t s, id, number;
    int64_t guard_us;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .nowait = true);
    guard_us = w.now_us + SEC(1);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    number = op.op.owner;
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = guard_us);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    pass(&w, guard_us - w.now_us);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.owner, number);
    redis_says(&w, op, CORE_OK);
    world_close(&w);
}
END_TEST

/* A LOCK of the same owner comes meanwhile: neither the straggler nor its release can affect its hold. */
START_TEST(unknown_acquire_unknown_release_again)
{
    struct world w;
    struct flight op;
    uint64_t s, id, again, number;
    int64_t guard_us;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .nowait = true);
    guard_us = w.now_us + SEC(1);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    number = op.op.owner;
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = guard_us);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    again = lock(&w, s, "a");
    id = unlock(&w, s, "a");
    pass(&w, guard_us - w.now_us);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.owner, number);
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_ne(op.op.owner, number);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, again, CORE_GRANTED);
    redis_releases(&w, "a", id);
    world_close(&w);
}
END_TEST

/* ---- a release without an answer ---- */

/* A repeated release that finds no hold is no loss: the first one has run. */
START_TEST(unknown_release)
{
    static const enum core_outcome then[] = {CORE_OK, CORE_GONE_IN_REDIS, CORE_TAKEN, CORE_FOREIGN};

    for (size_t i = 0; i < sizeof(then) / sizeof(then[0]); i++) {
        struct world w;
        uint64_t s, id;

        s = world_holding(&w);
        id = unlock(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN);
        pass(&w, MS(20));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), then[i]);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
        expect_news(&w, CORE_NEWS_RELEASED, "a");
        ck_assert_uint_eq(w.metrics.lost, 0);
        world_close(&w);
    }
}
END_TEST

/* The first release may still run: it must never find a later hold of the same owner. */
START_TEST(unknown_release_runs_late)
{
    for (int pipelined = 0; pipelined < 2; pipelined++) {
        struct world w;
        struct flight op;
        uint64_t s, id, again, number;

        s = world_holding(&w);
        id = unlock(&w, s, "a");
        op = expect_op(&w, CORE_RELEASE, "a");
        number = op.op.owner;
        redis_says(&w, op, CORE_UNKNOWN);
        again = pipelined ? lock(&w, s, "a") : 0;
        pass(&w, MS(20));
        redis_releases(&w, "a", id);
        again = pipelined ? again : lock(&w, s, "a");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_uint_ne(op.op.owner, number);
        redis_says(&w, op, CORE_OK);
        ck_assert_uint_eq(expect_reply(&w, again, CORE_GRANTED)->owner, op.op.owner);
        world_close(&w);
    }
}
END_TEST

/* The first release finds no hold of this owner: the lock was lost. */
START_TEST(release_finds_nothing)
{
    static const enum core_outcome outcomes[] = {CORE_GONE_IN_REDIS, CORE_TAKEN, CORE_FOREIGN};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct world w;
        uint64_t s, id;

        s = world_holding(&w);
        id = unlock(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), outcomes[i]);
        expect_reply(&w, id, CORE_WAS_LOST);
        expect_news(&w, CORE_NEWS_LOST, "a");
        ck_assert_uint_eq(w.metrics.lost, 1);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 0);
        expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/* Redis is down: UNLOCK gets UNAVAILABLE after a while; the release is repeated until the lease has ended in Redis. */
START_TEST(release_while_redis_is_away)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;
    int64_t over_us;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .no_queue_grace = true));
    t = session(&w);
    over_us = w.now_us + SEC(30) + MS(600) + MS(10); /* clocks may differ a little */
    other = lock(&w, t, "a", .no_queue_grace = true);
    id = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(1) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_DOWN);
    expect_reply(&w, lock(&w, s, "a", .nowait = true, .no_queue_grace = true), CORE_UNAVAILABLE);
    expect_reply(&w, lock(&w, s, "a", .owner = "x", .nowait = true, .no_queue_grace = true), CORE_NOT_GRANTED);
    for (int n = 0; w.now_us < over_us; n++) {
        ck_assert_int_le(core_next_us(w.core) - w.now_us, MS(500));
        pass(&w, core_next_us(w.core) - w.now_us);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), n % 2 == 0 ? CORE_DOWN : CORE_UNKNOWN);
    }
    redis_grants(&w, "a", other);
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/* A LOCK of the same owner waits for the release: too short a wait ends, a later one gets the lock. */
START_TEST(lock_behind_own_release)
{
    struct world w;
    struct flight op;
    uint64_t s, unlocked, id;

    s = world_holding(&w);
    unlocked = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(1));
    expect_reply(&w, unlocked, CORE_UNAVAILABLE);
    id = lock(&w, s, "a", .wait_us = SEC(1)); /* the release is in flight at the end of the wait: a little longer */
    pass(&w, SEC(1) + MS(250) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    id = lock(&w, s, "a", .nowait = true); /* now the answer comes in time */
    pass(&w, MS(100));
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* ---- held locks, while Redis does not answer ---- */

/* Operations on a held lock are repeated unchanged: they set the count of holds, and do not add to it. */
START_TEST(holds_are_set)
{
    static const enum core_outcome outcomes[] = {CORE_UNKNOWN, CORE_DOWN, CORE_FULL};
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    id = lock(&w, s, "a");
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_uint_eq(op.op.holds, 2);
        redis_says(&w, op, outcomes[i]);
        pass(&w, MS(20) << i);
    }
    ck_assert_uint_eq(redis_grants(&w, "a", id)->holds, 2);
    id = unlock(&w, s, "a");
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(op.op.holds, 1);
        redis_says(&w, op, outcomes[i]);
        pass(&w, MS(20) << i);
    }
    ck_assert_int_eq(redis_releases(&w, "a", id)->left, 1);
    world_close(&w);
}
END_TEST

START_TEST(patience_while_holding)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    id = lock(&w, s, "a", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_DOWN);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    id = lock(&w, s, "a", .wait_us = MS(500));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(750) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_UNKNOWN);
    expect_state(&w, "a", "held");
    ck_assert_uint_eq(view_of(&w, "a").holds, 1);
    id = lock(&w, s, "a", .wait_us = MS(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_DOWN);
    pass(&w, MS(10));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    /* Redis is up again; a failure of long ago is no reason to refuse. */
    pass(&w, SEC(3));
    id = lock(&w, s, "a", .nowait = true);
    ck_assert_uint_eq(redis_grants(&w, "a", id)->holds, 2);
    world_close(&w);
}
END_TEST

/* The pause after a failed operation belongs to the request that sent it. */
START_TEST(pause_ends_with_its_request)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    token = take(&w, s, "a");
    renew(&w, t, "a", SEC(60), .token = token);
    op = expect_op(&w, CORE_EXTEND, "a");
    gone(&w, t);
    redis_says(&w, op, CORE_DOWN);
    pass(&w, SEC(3));
    id = lock(&w, s, "a", .nowait = true);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* Any operation that finds the key gone: LOST, and no release. */
START_TEST(gone_in_redis)
{
    static const enum core_outcome outcomes[] = {CORE_GONE_IN_REDIS, CORE_TAKEN, CORE_FOREIGN};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        for (int verb = 0; verb < 3; verb++) {
            struct world w;
            struct flight op;
            uint64_t s, t, id, next;

            s = world_holding(&w);
            t = session(&w);
            id = lock(&w, s, "a");
            redis_grants(&w, "a", id);
            next = lock(&w, t, "a");
            id = verb == 0 ? lock(&w, s, "a") : verb == 1 ? renew(&w, s, "a", SEC(5)) : unlock(&w, s, "a");
            op = expect_op(&w, verb == 0 ? CORE_ACQUIRE : verb == 1 ? CORE_EXTEND : CORE_RELEASE, "a");
            redis_says(&w, op, outcomes[i], .pttl_us = SEC(1));
            expect_reply(&w, id, CORE_WAS_LOST);
            ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "gone in Redis");
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK); /* the next waiter, without delay */
            expect_reply(&w, next, CORE_GRANTED);
            expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
            world_close(&w);
        }
    }
}
END_TEST

/* The outcome of a renewal that was in flight at the release does not affect the owner's next hold. */
START_TEST(renewal_of_a_former_hold)
{
    static const enum core_outcome outcomes[] = {CORE_GONE_IN_REDIS, CORE_UNKNOWN, CORE_OK};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct world w;
        struct flight renewal, op;
        uint64_t s, unlocked, id;
        int64_t since_us;

        s = world_holding(&w);
        pass(&w, REPORTED_30S / 3);
        renewal = expect_op(&w, CORE_EXTEND, "a");
        unlocked = unlock(&w, s, "a");
        op = expect_op(&w, CORE_RELEASE, "a");
        id = lock(&w, s, "a");
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, unlocked, CORE_LEFT);
        since_us = w.now_us;
        redis_grants(&w, "a", id);
        redis_says(&w, renewal, outcomes[i]);
        expect_state(&w, "a", "held");
        ck_assert_uint_eq(w.metrics.lost, 0);
        pass(&w, since_us + REPORTED_30S / 3 - w.now_us); /* and the new hold is renewed at its time */
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
        world_close(&w);
    }
}
END_TEST

/* ---- a kind whose only proof is its expiry: one operation at a time ---- */

START_TEST(owned_by_expiry)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, unlocked, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .kind = KIND_COUNTER);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(op.op.expiry_ms, 0);
    redis_says(&w, op, CORE_OK, .expiry_ms = 111);
    token = expect_reply(&w, id, CORE_GRANTED)->token;
    pass(&w, REPORTED_30S / 3);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert_int_eq(op.op.expiry_ms, 111);
    id = renew(&w, t, "a", SEC(60), .token = token); /* waits for the renewal */
    quiet(&w);
    redis_says(&w, op, CORE_OK, .expiry_ms = 222);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(op.op.expiry_ms == 222 && op.op.exact);
    unlocked = unlock(&w, s, "a", .kind = KIND_COUNTER); /* waits for RENEW */
    quiet(&w);
    redis_says(&w, op, CORE_OK, .expiry_ms = 333);
    expect_reply(&w, id, CORE_LEFT);
    quiet(&w); /* the next owner must get another expiry, by more than scripts tolerate */
    pass(&w, MS(5));
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_int_eq(op.op.expiry_ms, 333);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked, CORE_LEFT);
    world_close(&w);
}
END_TEST

START_TEST(counter_release_waits)
{
    static const enum core_outcome outcomes[] = {CORE_OK, CORE_DOWN, CORE_UNKNOWN};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        for (int how = 0; how < 3; how++) {
            struct world w;
            struct flight op;
            uint64_t s, id = 0;

            world_open(&w);
            s = session(&w);
            take_counter(&w, s, 111);
            pass(&w, REPORTED_30S / 3);
            op = expect_op(&w, CORE_EXTEND, "a");
            if (how == 0) {
                id = unlock(&w, s, "a");
            } else if (how == 1) {
                gone(&w, s);
            } else {
                pass(&w, REPORTED_30S); /* the lease has ended, and the renewal is still unanswered */
                expect_news(&w, CORE_NEWS_LOST, "a");
            }
            quiet(&w);
            redis_says(&w, op, outcomes[i], .expiry_ms = outcomes[i] == CORE_OK ? 222 : 0);
            if (outcomes[i] == CORE_OK) {
                pass(&w, MS(5));
            }
            op = expect_op(&w, CORE_RELEASE, "a");
            ck_assert_int_eq(op.op.expiry_ms, outcomes[i] == CORE_OK ? 222 : 111);
            redis_says(&w, op, CORE_OK);
            if (how == 0) {
                expect_reply(&w, id, CORE_LEFT);
            } else if (how == 2) {
                expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
            }
            ck_assert(!known(&w, "a"));
            world_close(&w);
        }
    }
}
END_TEST

/* UNLOCK gets UNAVAILABLE also when the renewal before its release is not answered. */
START_TEST(counter_patience)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_counter(&w, s, 111);
    pass(&w, REPORTED_30S / 3);
    op = expect_op(&w, CORE_EXTEND, "a");
    id = unlock(&w, s, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_DOWN);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* the release goes on */
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* A release behind an unanswered RENEW has not run yet: it does not wait for the end of the expiry. */
START_TEST(counter_release_behind_a_renew)
{
    struct world w;
    struct flight op;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    take_counter(&w, s, 111);
    pass(&w, MS(5));
    renew(&w, s, "a", SEC(60));
    expect_op(&w, CORE_EXTEND, "a");
    gone(&w, s);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_int_eq(op.op.expiry_ms, 111);
    redis_says(&w, op, CORE_GONE_IN_REDIS); /* the RENEW has run, or another owner has the lock */
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(w.metrics.lost, 0);
    world_close(&w);
}
END_TEST

/*
 * A release that may have run could find the expiry of the next owner: it is not repeated before its own expiry has
 * expired. A release that has not run is repeated.
 */
START_TEST(counter_release_is_not_repeated)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_counter(&w, s, 111);
    pass(&w, MS(5));
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    pass(&w, MS(20));
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us);
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    pass(&w, SEC(29));
    quiet(&w);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN, .guard_us = w.now_us);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* Redis has lost its data before a release: another owner may have the lock now, with the same expiry. */
START_TEST(counter_release_behind_a_loss)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_counter(&w, s, 111);
    pass(&w, MS(5));
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    happens(&w, &(struct core_event){.type = CORE_RECLAIM, .epoch = 2});
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    pass(&w, SEC(29));
    ck_assert(known(&w, "a"));
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ... also when the lease ended before that answer: the release may still run, and find the owner's next hold. */
START_TEST(unanswered_release_behind_the_lease)
{
    struct world w;
    struct flight op;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(2));
    pass(&w, SEC(2)); /* lost, and released in case Redis still has it */
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(1));
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us);
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    lock(&w, s, "a");
    ck_assert_uint_ne(expect_op(&w, CORE_ACQUIRE, "a").op.owner, op.op.owner);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        dropped_outcomes,
        unknown_acquire,
        unknown_acquire_given_up,
        forbidden_key,
        forbidden_inside,
        clock_set_back_under_an_attempt,
        clock_set_back_unknown,
        clock_set_back_by_years,
        clock_of_a_silent_redis,
        clock_set_back_behind_the_answer,
        clock_set_back_under_a_renew,
        unknown_acquire_released_unanswered,
        unknown_then_taken_unanswered,
        unknown_acquire_asked_again,
        unknown_then_taken,
        unknown_acquire_unknown_release,
        unknown_acquire_unknown_release_again,
        unknown_release,
        unknown_release_runs_late,
        release_finds_nothing,
        release_while_redis_is_away,
        lock_behind_own_release,
        holds_are_set,
        patience_while_holding,
        pause_ends_with_its_request,
        gone_in_redis,
        renewal_of_a_former_hold,
        owned_by_expiry,
        counter_release_waits,
        counter_patience,
        counter_release_behind_a_renew,
        counter_release_is_not_repeated,
        counter_release_behind_a_loss,
        unanswered_release_behind_the_lease,
    };

    return suite_main("core, redis", tests, sizeof(tests) / sizeof(tests[0]));
}
