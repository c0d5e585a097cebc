/*
 * test_core_owners.c -- PROTOCOL.md, "Owners and sessions": the order of an owner's requests, sessions that end in
 * every state of their holds and requests, half-closed sessions.
 */
#include "tests/unit/core_world.h"

/* ---- order ---- */

START_TEST(pipelined)
{
    struct world w;
    struct flight op;
    uint64_t s, id[5];

    world_open(&w);
    s = session(&w);
    id[0] = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "a");
    id[2] = unlock(&w, s, "a");
    id[3] = unlock(&w, s, "a");
    id[4] = unlock(&w, s, "a");
    redis_says(&w, op, CORE_OK); /* one operation at a time, one reply after the other */
    expect_reply(&w, id[0], CORE_GRANTED);
    ck_assert_uint_eq(redis_grants(&w, "a", id[1])->holds, 2);
    ck_assert_int_eq(redis_releases(&w, "a", id[2])->left, 1);
    ck_assert_int_eq(redis_releases(&w, "a", id[3])->left, 0);
    expect_reply(&w, id[4], CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/* UNLOCK and LOCK in one write: the LOCK stands behind the waiters that are there already. */
START_TEST(unlock_then_lock)
{
    struct world w;
    struct flight op;
    uint64_t s, t, unlocked, again, other, alone;

    s = world_holding(&w);
    t = session(&w);
    unlocked = unlock(&w, s, "a"); /* no waiter */
    op = expect_op(&w, CORE_RELEASE, "a");
    alone = lock(&w, s, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked, CORE_LEFT);
    redis_grants(&w, "a", alone);

    other = lock(&w, t, "a");
    unlocked = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    again = lock(&w, s, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked, CORE_LEFT);
    redis_grants(&w, "a", other);
    give(&w, t, "a");
    redis_grants(&w, "a", again);
    world_close(&w);
}
END_TEST

/* A LOCK that waits delays its own owner only; otherwise the last UNLOCK here would wait for itself. */
START_TEST(other_owners_go_on)
{
    struct world w;
    struct flight op;
    uint64_t s, held, waits, behind, unlocked;

    world_open(&w);
    s = session(&w);
    held = lock(&w, s, "a", .owner = "alice");
    redis_grants(&w, "a", held);
    waits = lock(&w, s, "a", .owner = "bob");
    behind = lock(&w, s, "b", .owner = "bob");
    take(&w, s, "c");
    give(&w, s, "c");
    unlocked = unlock(&w, s, "a", .owner = "alice");
    redis_releases(&w, "a", unlocked);
    redis_grants(&w, "a", waits);
    op = expect_op(&w, CORE_ACQUIRE, "b");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, behind, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* A request's patience (the time for Redis's answer) begins with its turn, not while it waits behind another. */
START_TEST(patience_begins_with_the_turn)
{
    struct world w;
    uint64_t s, t, granted, renewed, unlocked;

    s = world_holding(&w);
    t = session(&w);
    granted = lock(&w, t, "a");
    renewed = renew(&w, t, "a", SEC(40));
    unlocked = unlock(&w, t, "a");
    pass(&w, SEC(5)); /* more than redis.timeout */
    give(&w, s, "a");
    redis_grants(&w, "a", granted);
    redis_renews(&w, "a", renewed);
    redis_releases(&w, "a", unlocked);
    world_close(&w);
}
END_TEST

/* Any session may act for a named owner. */
START_TEST(owner_over_sessions)
{
    struct world w;
    uint64_t s, t, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice");
    token = redis_grants(&w, "a", id)->token;
    ck_assert(slice_eq(expect_news(&w, CORE_NEWS_GRANTED, "a")->owner_name, SLICE_LIT("alice")));
    id = lock(&w, t, "a", .owner = "alice");
    ck_assert_uint_eq(redis_grants(&w, "a", id)->token, token);
    ck_assert_uint_eq(view_of(&w, "a").owner.session, t);
    gone(&w, s); /* the other session is still there */
    pass(&w, REPORTED_30S / 3);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    for (int left = 1; left >= 0; left--) {
        id = unlock(&w, t, "a", .owner = "alice");
        ck_assert_int_eq(redis_releases(&w, "a", id)->left, left);
    }
    ck_assert_uint_eq(core_totals(w.core).owners, 1);
    world_close(&w);
}
END_TEST

/* A request that is granted nothing leaves no owner behind. */
START_TEST(owners_leave_nothing)
{
    struct world w;
    uint64_t s, t, first, second, id;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .no_queue_grace = true));
    expect_reply(&w, lock(&w, s, "a", .owner = "x", .nowait = true, .no_queue_grace = true), CORE_NOT_GRANTED);
    ck_assert_uint_eq(core_totals(w.core).owners, 1);
    give(&w, s, "a");
    t = session(&w);
    first = lock(&w, t, "a", .owner = "x");
    first = redis_grants(&w, "a", first)->owner;
    id = unlock(&w, t, "a", .owner = "x");
    redis_releases(&w, "a", id);
    second = lock(&w, t, "a", .owner = "x");
    second = redis_grants(&w, "a", second)->owner;
    ck_assert_uint_ne(first, second); /* numbers are never used twice */
    world_close(&w);
}
END_TEST

/* ---- sessions that end ---- */

START_TEST(gone_holding)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    s = world_holding(&w);
    t = session(&w);
    take(&w, s, "b");
    id = lock(&w, t, "a");
    gone(&w, s); /* releases both names at once */
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.holds, 0);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    redis_says(&w, op, CORE_OK, .remote_subscribers = 0);
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 2);
    ck_assert_uint_eq(core_totals(w.core).owners, 1);
    gone(&w, s); /* a second end, and late events of the session, are ignored */
    lock(&w, s, "a");
    eof(&w, s);
    world_close(&w);
}
END_TEST

START_TEST(gone_waiting)
{
    struct world w;
    struct flight op;
    uint64_t s, t, u, id;

    s = world_holding(&w);
    t = session(&w);
    u = session(&w);
    lock(&w, t, "a");
    lock(&w, t, "a", .once = true);
    unlock(&w, t, "a");
    id = lock(&w, u, "a");
    gone(&w, t);
    ck_assert_uint_eq(w.metrics.cancelled, 2);
    ck_assert_uint_eq(core_totals(w.core).waiters, 1);
    give(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.owner, u);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* A lock that was still being acquired is released, whatever the outcome. */
START_TEST(gone_trying)
{
    static const struct {
        enum core_outcome outcome;
        bool released;
    } rows[] = {{CORE_OK, true}, {CORE_UNKNOWN, true}, {CORE_TAKEN, false}, {CORE_DOWN, false}, {CORE_FOREIGN, false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t s, t, id;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        lock(&w, s, "a");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        id = lock(&w, t, "a");
        gone(&w, s);
        redis_says(&w, op, rows[i].outcome, .pttl_us = MS(10));
        if (rows[i].outcome == CORE_FOREIGN) {
            expect_reply(&w, id, CORE_WRONG_KIND);
            world_close(&w);
            continue;
        }
        if (rows[i].outcome == CORE_TAKEN) {
            ck_assert(is_watched(&w, "a"));
        }
        if (rows[i].released) {
            op = expect_op(&w, CORE_RELEASE, "a");
            ck_assert_uint_eq(op.op.owner, s);
            redis_says(&w, op, CORE_OK);
        } else {
            pass(&w, MS(20));
        }
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_uint_eq(op.op.owner, t);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        if (rows[i].outcome == CORE_TAKEN) {
            ck_assert(!is_watched(&w, "a"));
        }
        world_close(&w);
    }
}
END_TEST

START_TEST(gone_freeing)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    s = world_holding(&w);
    t = session(&w);
    unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    lock(&w, s, "a");
    gone(&w, s);
    id = lock(&w, t, "a");
    redis_says(&w, op, CORE_DOWN); /* the release is repeated, although the session has gone */
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* The session ends during a re-entry, an UNLOCK or a renewal: all holds are released. */
START_TEST(gone_in_an_operation)
{
    for (int what = 0; what < 3; what++) {
        struct world w;
        struct flight op, last;
        uint64_t s, id;

        s = world_holding(&w);
        id = lock(&w, s, "a");
        redis_grants(&w, "a", id);
        if (what == 0) {
            lock(&w, s, "a");
            op = expect_op(&w, CORE_ACQUIRE, "a");
        } else if (what == 1) {
            unlock(&w, s, "a");
            op = expect_op(&w, CORE_RELEASE, "a");
        } else {
            pass(&w, REPORTED_30S / 3);
            op = expect_op(&w, CORE_EXTEND, "a");
        }
        gone(&w, s);
        last = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(last.op.holds, 0);
        redis_says(&w, op, CORE_OK); /* overtaken: the core drops its outcome */
        expect_state(&w, "a", "freeing");
        redis_says(&w, last, CORE_OK);
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

START_TEST(gone_lost)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .lease_us = SEC(1));
    redis_grants(&w, "a", id);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_state(&w, "a", "lost");
    gone(&w, s); /* the loss can no longer be reported */
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* The session ends while the release of a lost lock is under way: the loss is not reported either. */
START_TEST(gone_losing)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .lease_us = SEC(1));
    redis_grants(&w, "a", id);
    pass(&w, SEC(1));
    op = expect_op(&w, CORE_RELEASE, "a");
    gone(&w, s);
    redis_says(&w, op, CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ---- EOF ---- */

/* printf 'LOCK a\nUNLOCK a\n' | nc -N: both are executed and answered. */
START_TEST(eof_in_flight)
{
    struct world w;
    struct flight op;
    uint64_t s, granted, unlocked;

    world_open(&w);
    s = session(&w);
    granted = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    unlocked = unlock(&w, s, "a");
    eof(&w, s);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, granted, CORE_GRANTED);
    redis_releases(&w, "a", unlocked);
    gone(&w, s);
    world_close(&w);
}
END_TEST

/* EOF answers a waiting LOCK with null at once; a LOCK behind it, whose turn comes then, does not wait either. */
START_TEST(eof_waiting)
{
    struct world w;
    struct flight op;
    uint64_t t, id[4], other;

    world_holding(&w);
    t = session(&w);
    id[0] = lock(&w, t, "a");
    id[1] = lock(&w, t, "a");
    id[2] = unlock(&w, t, "a");
    id[3] = lock(&w, t, "b");
    other = lock(&w, t, "a", .owner = "x");
    eof(&w, t);
    expect_reply(&w, id[0], CORE_NOT_GRANTED);
    expect_reply(&w, id[1], CORE_NOT_GRANTED);
    expect_reply(&w, id[2], CORE_NOT_HELD);
    expect_reply(&w, other, CORE_NOT_GRANTED);
    op = expect_op(&w, CORE_ACQUIRE, "b"); /* one attempt, as with NOWAIT */
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1));
    expect_reply(&w, id[3], CORE_NOT_GRANTED);
    world_close(&w);
}
END_TEST

START_TEST(eof_reentry)
{
    struct world w;
    struct flight op;
    uint64_t s, id, unlocked;

    s = world_holding(&w);
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    unlocked = unlock(&w, s, "a");
    eof(&w, s);
    redis_says(&w, op, CORE_DOWN);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* of its only hold */
    ck_assert_int_eq(expect_reply(&w, unlocked, CORE_LEFT)->left, 0);
    world_close(&w);
}
END_TEST

/* ---- the client is unreachable ---- */

/* The session's own lock is released at once; a named owner's is not, and the session can still act for it. */
START_TEST(unreachable_holding)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    s = world_holding(&w);
    t = session(&w);
    redis_grants(&w, "b", lock(&w, s, "b", .owner = "x"));
    id = lock(&w, t, "a");
    unreachable(&w, s);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 0);
    redis_grants(&w, "a", id);
    ck_assert_int_eq(redis_releases(&w, "b", unlock(&w, s, "b", .owner = "x"))->left, 0);
    id = lock(&w, s, "c"); /* a LOCK for itself is executed, and the lock released again */
    op = expect_op(&w, CORE_ACQUIRE, "c");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "c"), CORE_OK);
    unreachable(&w, s); /* nothing is left to release */
    gone(&w, s);
    unreachable(&w, s);
    world_close(&w);
}
END_TEST

/* Requests that the session's own owner has sent are executed first, in their order. */
START_TEST(unreachable_in_flight)
{
    struct world w;
    struct flight op;
    uint64_t s, id[2];

    s = world_holding(&w);
    id[0] = lock(&w, s, "b");
    op = expect_op(&w, CORE_ACQUIRE, "b");
    id[1] = lock(&w, s, "c");
    unreachable(&w, s);
    quiet(&w);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    redis_grants(&w, "c", id[1]);
    for (int i = 0; i < 3; i++) { /* a, b, c */
        ck_assert_int_eq(w.flights[w.flights_n - 1 - (size_t)i].verb, CORE_RELEASE);
    }
    skip_all(&w);
    gone(&w, s);
    world_close(&w);
}
END_TEST

/* A repetition that waits on, outside of the order, is one of its owner's requests, and is answered first, too. */
START_TEST(unreachable_repeating)
{
    struct world w;
    struct flight op;
    uint64_t s, first, again;

    world_open(&w);
    s = session(&w);
    first = lock(&w, s, "a", .once = true, .wait_us = SEC(1));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    again = lock(&w, s, "a", .once = true, .wait_us = SEC(5));
    unreachable(&w, s);
    pass(&w, SEC(2));
    expect_reply(&w, first, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, again, CORE_GRANTED);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* of the grant that no client has received */
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        pipelined,
        unlock_then_lock,
        other_owners_go_on,
        patience_begins_with_the_turn,
        owner_over_sessions,
        owners_leave_nothing,
        gone_holding,
        gone_waiting,
        gone_trying,
        gone_freeing,
        gone_in_an_operation,
        gone_lost,
        gone_losing,
        eof_in_flight,
        eof_waiting,
        eof_reentry,
        unreachable_holding,
        unreachable_in_flight,
        unreachable_repeating,
    };

    return suite_main("core, owners", tests, sizeof(tests) / sizeof(tests[0]));
}
