/*
 * test_core.c -- LOCK, UNLOCK and BREAK as protocol.md tells them: grants and counts, queues and waits, kinds,
 * tokens, limits, DRAIN, BREAK.
 *
 * Owners and sessions: test_core_owners.c. Leases, and what Redis may do: test_core_redis.c. Turns between daemons
 * and the views: test_core_queue.c. Memory: test_core_memory.c.
 */
#include "tests/unit/core_world.h"

START_TEST(grant_and_release)
{
    struct world w;
    uint64_t s, id;
    struct flight op;
    const struct core_reply *r;
    const struct core_publish *n;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "orders:42", .key = "{orders:42}:lock", .kind = KIND_SIMPLE, .full = true);
    op = expect_op(&w, CORE_ACQUIRE, "{orders:42}:lock");
    ck_assert_uint_eq(op.op.owner, s);
    ck_assert_uint_eq(op.op.holds, 1);
    ck_assert_int_eq(op.op.kind, KIND_SIMPLE);
    ck_assert_int_eq(op.op.lease_us, SEC(30));
    ck_assert_uint_eq(op.op.token_floor, 0);
    ck_assert(!op.op.reentry && !op.op.exact);
    expect_state(&w, "orders:42", "trying");
    pass(&w, MS(3));
    redis_says(&w, op, CORE_OK, .token = 77);
    r = expect_reply(&w, id, CORE_GRANTED);
    ck_assert_uint_eq(r->session, s);
    ck_assert_uint_eq(r->token, 77);
    ck_assert_uint_eq(r->owner, s);
    ck_assert_uint_eq(r->holds, 1);
    ck_assert_int_eq(r->kind, KIND_SIMPLE);
    ck_assert_int_eq(r->lease_us, TOLD_30S - MS(3));
    ck_assert_int_eq(r->waited_us, MS(3));
    ck_assert(r->full);
    n = expect_news(&w, CORE_NEWS_GRANTED, "orders:42");
    ck_assert_uint_eq(n->token, 77);
    ck_assert_uint_eq(n->session, s);
    ck_assert_uint_eq(n->owner_name.n, 0);
    expect_state(&w, "orders:42", "held");
    ck_assert_int_eq(core_next_us(w.core), op.at_us + TOLD_30S / 3);

    id = unlock(&w, s, "orders:42");
    op = expect_op(&w, CORE_RELEASE, "{orders:42}:lock");
    ck_assert_uint_eq(op.op.holds, 0);
    ck_assert_uint_eq(op.op.token_floor, 77);
    expect_state(&w, "orders:42", "freeing");
    redis_says(&w, op, CORE_OK);
    r = expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(r->left, 0);
    ck_assert_uint_eq(r->token, 77);
    ck_assert_uint_eq(expect_news(&w, CORE_NEWS_RELEASED, "orders:42")->token, 77);
    ck_assert(!known(&w, "orders:42"));
    ck_assert_int_eq(core_next_us(w.core), CORE_FOREVER);
    ck_assert_uint_eq(w.metrics.grants, 1);
    ck_assert_uint_eq(w.metrics.releases, 1);
    world_close(&w);
}
END_TEST

START_TEST(reentry_counts)
{
    struct world w;
    uint64_t s, id, token;
    struct flight op;
    const struct core_reply *r;

    world_open(&w);
    s = session(&w);
    token = take(&w, s, "a");
    for (uint32_t holds = 2; holds <= 3; holds++) {
        id = lock(&w, s, "a", .nowait = holds == 3);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert(op.op.reentry);
        ck_assert_uint_eq(op.op.holds, holds);
        ck_assert_int_eq(op.op.lease_us, SEC(30));
        redis_says(&w, op, CORE_OK);
        r = expect_reply(&w, id, CORE_GRANTED);
        ck_assert_uint_eq(r->token, token);
        ck_assert_uint_eq(r->holds, holds);
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_GRANTED), 1);
    for (uint32_t left = 2; left >= 1; left--) {
        id = unlock(&w, s, "a");
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(op.op.holds, left);
        ck_assert_int_eq(op.op.lease_us, SEC(30));
        redis_says(&w, op, CORE_OK);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, left);
        expect_state(&w, "a", "held");
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 0);
    give(&w, s, "a");
    expect_news(&w, CORE_NEWS_RELEASED, "a");
    world_close(&w);
}
END_TEST

START_TEST(once_while_held)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SIMPLE, KIND_COUNTER};
    struct world w;
    uint64_t s, id, token;
    const struct core_reply *r;

    world_open(&w);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        s = session(&w);
        id = lock(&w, s, "a", .kind = kinds[i], .once = true);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        token = expect_reply(&w, id, CORE_GRANTED)->token;
        for (int again = 0; again < 2; again++) {
            id = lock(&w, s, "a", .kind = kinds[i], .once = true, .nowait = again == 1);
            r = expect_reply(&w, id, CORE_GRANTED); /* without asking Redis */
            ck_assert_uint_eq(r->token, token);
            ck_assert_uint_eq(r->holds, 1);
        }
        give(&w, s, "a");
    }
    world_close(&w);
}
END_TEST

/* It joins the place its owner has; both are answered, and it counts once. */
START_TEST(once_while_waiting)
{
    struct world w;
    uint64_t s, t, ids[3], after;
    struct flight op;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    ids[0] = lock(&w, t, "a");
    after = lock(&w, t, "a"); /* not ONCE: in order, a re-entry when its turn comes */
    ids[1] = lock(&w, t, "a", .once = true);
    give(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ids[2] = lock(&w, t, "a", .once = true, .wait_us = SEC(1)); /* also while the attempt is in flight */
    redis_says(&w, op, CORE_OK);
    for (int i = 0; i < 3; i++) {
        const struct core_reply *r = expect_reply(&w, ids[i], CORE_GRANTED);

        ck_assert_uint_eq(r->token, w.token);
        ck_assert_uint_eq(r->holds, 1);
    }
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, after, CORE_GRANTED)->holds, 2);
    world_close(&w);
}
END_TEST

/* One that joined times out alone. */
START_TEST(once_joined_times_out)
{
    struct world w;
    uint64_t s, t, first, joined;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    first = lock(&w, t, "a");
    joined = lock(&w, t, "a", .once = true, .wait_us = SEC(1));
    pass(&w, SEC(1));
    expect_reply(&w, joined, CORE_NOT_GRANTED);
    ck_assert_uint_eq(look(&w, "a").waiters, 1);
    joined = lock(&w, t, "a", .once = true, .nowait = true);
    expect_reply(&w, joined, CORE_NOT_GRANTED);
    give(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, first, CORE_GRANTED);
    world_close(&w);
}
END_TEST

START_TEST(not_held)
{
    struct world w;
    uint64_t s, t, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, s, "a", .token = 5), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, s, "a", .owner = "nobody"), CORE_NOT_HELD);
    expect_reply(&w, renew(&w, s, "a", SEC(1)), CORE_NOT_HELD);
    token = take(&w, s, "a");
    expect_reply(&w, unlock(&w, t, "a"), CORE_NOT_HELD);
    expect_reply(&w, renew(&w, t, "a", SEC(1)), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, t, "a", .owner = "nobody"), CORE_NOT_HELD);
    give(&w, s, "a");
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, s, "a", .token = token), CORE_NOT_HELD);
    take(&w, t, "a"); /* the old token touches nobody else */
    expect_reply(&w, unlock(&w, s, "a", .token = token), CORE_STALE);
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

/* The token acts for the holder from any session, at once, also while the holder itself waits for something else. */
START_TEST(token_acts_for_the_holder)
{
    struct world w;
    uint64_t s, t, u, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    token = take(&w, s, "a");
    expect_reply(&w, unlock(&w, s, "a", .token = token + 1), CORE_STALE);
    expect_reply(&w, renew(&w, s, "a", SEC(5), .token = token - 1), CORE_STALE);
    expect_reply(&w, unlock(&w, t, "a", .token = token - 1), CORE_STALE);
    id = renew(&w, t, "a", SEC(60), .token = token);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 59398);
    id = lock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    take(&w, u, "b");
    lock(&w, s, "b");
    for (uint32_t left = 2; left-- > 0;) {
        struct flight op;

        id = unlock(&w, t, "a", .token = token);
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(op.op.holds, left);
        redis_says(&w, op, CORE_OK);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, left);
    }
    expect_reply(&w, unlock(&w, t, "a", .token = token), CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/* With OWNER as well, the token is checked when the request's turn comes. */
START_TEST(token_of_an_owner)
{
    struct world w;
    struct flight op;
    uint64_t s, id, token, stale, right;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    token = expect_reply(&w, id, CORE_GRANTED)->token;
    expect_reply(&w, unlock(&w, s, "a", .owner = "alice", .token = token + 1), CORE_STALE);
    expect_reply(&w, renew(&w, s, "a", SEC(1), .owner = "alice", .token = 1), CORE_STALE);
    id = lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    stale = unlock(&w, s, "a", .owner = "alice", .token = token - 1);
    right = unlock(&w, s, "a", .owner = "alice", .token = token);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    expect_reply(&w, stale, CORE_STALE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert_int_eq(expect_reply(&w, right, CORE_LEFT)->left, 1);
    world_close(&w);
}
END_TEST

/* Two UNLOCKs on their way: one frees, the other finds nothing and touches nobody. */
START_TEST(unlock_twice)
{
    struct world w;
    uint64_t s, t, first, second, third, token;
    struct flight op;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    token = take(&w, s, "a");
    first = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    second = unlock(&w, t, "a", .token = token);
    third = unlock(&w, s, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, first, CORE_LEFT);
    expect_reply(&w, second, CORE_NOT_HELD);
    expect_reply(&w, third, CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

START_TEST(nowait_held_here)
{
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    expect_reply(&w, lock(&w, t, "a", .nowait = true), CORE_NOT_GRANTED);
    lock(&w, t, "a");
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    ck_assert_uint_eq(w.metrics.attempts, 1);
    ck_assert_uint_eq(w.metrics.timeouts, 2);
    world_close(&w);
}
END_TEST

/* Taken elsewhere: one attempt, no watch, no record left. */
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

/* A place kept for a named owner is no answer of Redis: whoever asks without waiting has it asked. */
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
    skip_watches(&w); /* her place is kept; watching for it is allowed */
    pass(&w, MS(100));
    id = lock(&w, t, "a", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    pass(&w, MS(100));
    id = lock(&w, s, "a", .owner = "alice", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    skip_watches(&w);
    world_close(&w);
}
END_TEST

/* An attempt for others who cannot wait is under way: its outcome decides for all of them. */
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
        expect_reply(&w, id[0], rows[i].first);
        expect_reply(&w, id[1], rows[i].others);
        expect_reply(&w, id[2], rows[i].others);
        ck_assert_int_eq(known(&w, "a"), rows[i].first == CORE_GRANTED);
        world_close(&w);
    }
}
END_TEST

/* Somebody who can wait comes first: null at once, whatever the attempt in flight brings. */
START_TEST(nowait_behind_a_waiter)
{
    struct world w;
    struct flight op;

    world_open(&w);
    lock(&w, session(&w), "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1));
    expect_op(&w, CORE_WATCH, "a");
    expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
    world_close(&w);
}
END_TEST

/* While the pause after a failed attempt lasts, its reason is the answer. */
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

/* An attempt that takes too long for one who cannot wait; what it brings in the end is given back. */
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
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    id = lock(&w, session(&w), "a", .wait_us = SEC(1));
    pass(&w, SEC(1) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_NOT_GRANTED);

    id = lock(&w, session(&w), "b", .wait_us = SEC(1)); /* held elsewhere */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_op(&w, CORE_WATCH, "b");
    pass(&w, SEC(1) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    expect_op(&w, CORE_UNWATCH, "b");
    ck_assert(!known(&w, "b"));

    id = lock(&w, session(&w), "c", .wait_us = MS(30)); /* Redis is away */
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

/* The time is over while an attempt is in flight: its outcome is awaited, but not for long. */
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
    pass(&w, MS(250) - 1); /* a quarter of the timeout, since the attempt began */
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    id = lock(&w, session(&w), "a", .wait_us = MS(100)); /* behind the attempt that still runs for nobody */
    pass(&w, MS(350) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_DOWN);
    world_close(&w);
}
END_TEST

/* Kinds that are not reentrant: who waits for itself would wait for ever. */
START_TEST(waiting_for_oneself)
{
    static const enum kind kinds[] = {KIND_SIMPLE, KIND_COUNTER};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        uint64_t s, first, second, id;

        world_open(&w);
        s = session(&w);
        first = lock(&w, s, "a", .kind = kinds[i]);
        {
            struct flight op = expect_op(&w, CORE_ACQUIRE, "a");

            second = lock(&w, s, "a", .kind = kinds[i]); /* runs when the first is granted */
            redis_says(&w, op, CORE_OK);
        }
        expect_reply(&w, first, CORE_GRANTED);
        expect_reply(&w, second, CORE_DEADLOCK);
        expect_reply(&w, lock(&w, s, "a", .kind = kinds[i], .wait_us = SEC(1)), CORE_DEADLOCK);
        expect_reply(&w, lock(&w, s, "a", .kind = kinds[i], .nowait = true), CORE_NOT_GRANTED);
        id = lock(&w, s, "a", .kind = kinds[i], .owner = "other", .wait_us = SEC(1)); /* somebody else may wait */
        give(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        world_close(&w);
    }
}
END_TEST

START_TEST(wrong_kind)
{
    struct world w;
    uint64_t s, t, first, second, id;
    struct flight op;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    expect_reply(&w, lock(&w, t, "a", .kind = KIND_SIMPLE), CORE_WRONG_KIND); /* in use here as another */
    expect_reply(&w, lock(&w, t, "a", .kind = KIND_SIMPLE, .owner = "new"), CORE_WRONG_KIND);

    first = lock(&w, s, "b");
    op = expect_op(&w, CORE_ACQUIRE, "b");
    second = lock(&w, t, "b");
    redis_says(&w, op, CORE_FOREIGN, .pttl_us = -1);
    expect_reply(&w, first, CORE_WRONG_KIND);
    expect_reply(&w, second, CORE_WRONG_KIND);
    ck_assert(!known(&w, "b"));
    id = lock(&w, t, "b", .kind = KIND_SIMPLE); /* asked anew */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

START_TEST(limits)
{
    struct core_conf conf = world_conf;
    struct world w;
    uint64_t s, t, id;
    struct flight op;

    conf.waiters_max = 4;
    conf.locks_max = 3;
    world_open_conf(&w, &conf);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    take(&w, s, "b");
    take(&w, s, "c");
    expect_reply(&w, lock(&w, s, "d"), CORE_TOO_MANY_LOCKS);
    expect_reply(&w, lock(&w, s, "d", .owner = NULL, .nowait = true), CORE_TOO_MANY_LOCKS);
    ck_assert(!known(&w, "d"));
    id = lock(&w, s, "a"); /* a re-entry is no further lock */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);

    lock(&w, t, "a", .waiters_max = 2);
    lock(&w, session(&w), "a", .waiters_max = 2);
    expect_reply(&w, lock(&w, session(&w), "a", .waiters_max = 2), CORE_TOO_MANY_WAITERS);
    expect_reply(&w, lock(&w, session(&w), "a", .waiters_max = 2, .nowait = true), CORE_NOT_GRANTED);
    id = lock(&w, s, "a", .waiters_max = 2); /* the holder does not wait for anybody */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);

    lock(&w, session(&w), "b");
    lock(&w, session(&w), "b");
    expect_reply(&w, lock(&w, session(&w), "e"), CORE_TOO_MANY_WAITERS); /* in all */
    ck_assert(!known(&w, "e"));
    conf.waiters_max = 5;
    core_configure(w.core, &conf);
    id = lock(&w, session(&w), "e");
    op = expect_op(&w, CORE_ACQUIRE, "e");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

START_TEST(break_held_here)
{
    struct world w;
    uint64_t s, t, u, id, token;
    struct flight op;
    const struct core_publish *n;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    token = take(&w, s, "a");
    id = lock(&w, t, "a");
    {
        uint64_t broken = break_name(&w, u, "a", .kind = KIND_SIMPLE); /* as whatever it is in use */

        op = expect_op(&w, CORE_BREAK_KEY, "a");
        ck_assert_int_eq(op.op.kind, KIND_REENTRANT);
        ck_assert_uint_eq(op.op.token_floor, token);
        redis_says(&w, op, CORE_OK, .stamp = 1, .token = token + 10);
        ck_assert_int_eq(expect_reply(&w, broken, CORE_LEFT)->left, 1);
    }
    n = expect_news(&w, CORE_NEWS_LOST, "a");
    ck_assert_str_eq(n->reason, "broken");
    ck_assert_uint_eq(n->token, token);
    op = expect_op(&w, CORE_ACQUIRE, "a"); /* the next in the queue, at once */
    ck_assert_uint_ge(op.op.token_floor, token + 10);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_gt(expect_reply(&w, id, CORE_GRANTED)->token, token + 10);
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

START_TEST(break_held_elsewhere)
{
    struct world w;
    uint64_t s, id, other, waits;
    struct flight op;

    world_open(&w);
    s = session(&w);
    id = break_name(&w, s, "a");
    op = expect_op(&w, CORE_BREAK_KEY, "a");
    other = break_name(&w, s, "a"); /* the one in flight answers for both */
    redis_says(&w, op, CORE_GONE_IN_REDIS); /* there was nothing */
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
    ck_assert_int_eq(expect_reply(&w, other, CORE_LEFT)->left, 0);
    ck_assert(!known(&w, "a"));

    waits = lock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    expect_op(&w, CORE_WATCH, "a");
    id = break_name(&w, session(&w), "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .stamp = 1);
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    expect_op(&w, CORE_UNWATCH, "a");
    world_close(&w);
}
END_TEST

/* Not known to be broken: the holder goes on, and the watchdog finds out. */
START_TEST(break_unanswered)
{
    static const enum core_outcome outcomes[] = {CORE_UNKNOWN, CORE_DOWN};
    struct world w;
    uint64_t s, t, id;
    struct flight op;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        id = break_name(&w, t, "a");
        redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), outcomes[i]);
        expect_reply(&w, id, CORE_UNAVAILABLE);
        expect_state(&w, "a", "held");
    }
    id = break_name(&w, t, "b");
    op = expect_op(&w, CORE_BREAK_KEY, "b");
    pass(&w, SEC(2) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_OK); /* nobody is there any more */
    break_name(&w, t, "c");
    op = expect_op(&w, CORE_BREAK_KEY, "c");
    gone(&w, t);
    redis_says(&w, op, CORE_OK);
    ck_assert(!known(&w, "b") && !known(&w, "c"));
    world_close(&w);
}
END_TEST

/* The key is no lock of this kind: that is what BREAK says, and it touches nothing. */
START_TEST(break_wrong_kind)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = break_name(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_FOREIGN, .pttl_us = -1);
    expect_reply(&w, id, CORE_WRONG_KIND);
    world_close(&w);
}
END_TEST

START_TEST(draining)
{
    struct world w;
    uint64_t s, t, u, first, second, tried, id;
    struct flight op;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    take(&w, s, "a");
    first = lock(&w, t, "a");
    second = lock(&w, t, "b"); /* behind the first, in its owner's order */
    tried = lock(&w, u, "c");
    op = expect_op(&w, CORE_ACQUIRE, "c");
    drains(&w);
    expect_reply(&w, first, CORE_DRAINING);
    expect_reply(&w, second, CORE_DRAINING);
    expect_reply(&w, tried, CORE_DRAINING);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "c"), CORE_OK);
    expect_reply(&w, lock(&w, t, "a"), CORE_DRAINING);
    expect_reply(&w, lock(&w, t, "d", .nowait = true, .owner = "x"), CORE_DRAINING);
    id = lock(&w, s, "a"); /* who holds may go on */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    give(&w, s, "a");
    ck_assert_uint_eq(core_totals(w.core).locks, 0);
    world_close(&w);
}
END_TEST

/* A LOCK that waits for its own owner's release is sent away as well. */
START_TEST(draining_behind_a_release)
{
    struct world w;
    uint64_t s, freed, id;
    struct flight op;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    freed = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    id = lock(&w, s, "a");
    drains(&w);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, freed, CORE_LEFT);
    expect_reply(&w, id, CORE_DRAINING);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        grant_and_release,
        reentry_counts,
        once_while_held,
        once_while_waiting,
        once_joined_times_out,
        not_held,
        token_acts_for_the_holder,
        token_of_an_owner,
        unlock_twice,
        nowait_held_here,
        nowait_taken_elsewhere,
        nowait_asks_every_time,
        nowait_joins_the_attempt,
        nowait_behind_a_waiter,
        nowait_while_redis_is_away,
        nowait_patience,
        wait_times_out,
        wait_ends_in_an_attempt,
        waiting_for_oneself,
        wrong_kind,
        limits,
        break_held_here,
        break_held_elsewhere,
        break_unanswered,
        break_wrong_kind,
        draining,
        draining_behind_a_release,
    };

    return world_main("core", tests, sizeof(tests) / sizeof(tests[0]));
}
