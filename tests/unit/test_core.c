/*
 * test_core.c -- LOCK, UNLOCK and BREAK as in PROTOCOL.md: grants and counts, tokens, kinds, limits, BREAK,
 * DRAIN.
 *
 * Beside it: test_core_wait.c and test_core_queue.c (waiting), test_core_owners.c and test_core_grace.c (sessions
 * and owners), test_core_lease.c and test_core_renew.c (time), test_core_redis.c (what Redis may do),
 * test_core_memory.c.
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
    ck_assert_int_eq(r->lease_us, REPORTED_30S - MS(3));
    ck_assert_int_eq(r->waited_us, MS(3));
    ck_assert(r->full);
    n = expect_news(&w, CORE_NEWS_GRANTED, "orders:42");
    ck_assert_uint_eq(n->token, 77);
    ck_assert_uint_eq(n->session, s);
    ck_assert_uint_eq(n->owner_name.n, 0);
    expect_state(&w, "orders:42", "held");
    ck_assert_int_eq(core_next_us(w.core), op.at_us + REPORTED_30S / 3);

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
        token = redis_grants(&w, "a", id)->token;
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

/* It joins the position its owner has; both are answered, and it counts once. */
START_TEST(once_while_waiting)
{
    struct world w;
    uint64_t s, t, ids[3], after;
    struct flight op;

    s = world_holding(&w);
    t = session(&w);
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
    ck_assert_uint_eq(redis_grants(&w, "a", after)->holds, 2);
    world_close(&w);
}
END_TEST

/* It does not overtake an UNLOCK: the hold in its answer would be given back behind it. */
START_TEST(once_behind_unlock)
{
    struct world w;
    uint64_t s, t, first, gives, repeats;

    s = world_holding(&w);
    t = session(&w);
    first = lock(&w, t, "a");
    gives = unlock(&w, t, "a");
    repeats = lock(&w, t, "a", .once = true);
    give(&w, s, "a");
    redis_grants(&w, "a", first);
    redis_releases(&w, "a", gives);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK); /* a hold of its own */
    expect_reply(&w, repeats, CORE_GRANTED);
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

/* One that joined times out alone. */
START_TEST(once_joined_times_out)
{
    struct world w;
    uint64_t s, t, first, joined;

    s = world_holding(&w);
    t = session(&w);
    first = lock(&w, t, "a");
    joined = lock(&w, t, "a", .once = true, .wait_us = SEC(1));
    pass(&w, SEC(1));
    expect_reply(&w, joined, CORE_NOT_GRANTED);
    ck_assert_uint_eq(view_of(&w, "a").waiters, 1);
    joined = lock(&w, t, "a", .once = true, .nowait = true);
    expect_reply(&w, joined, CORE_NOT_GRANTED);
    give(&w, s, "a");
    redis_grants(&w, "a", first);
    world_close(&w);
}
END_TEST

/*
 * It has waited on when what it repeated gave up: then it is the one that counts. A LOCK behind it is another, and
 * begins behind the wait; a repetition joins the wait, and adds no hold.
 */
START_TEST(once_outlives_the_request_that_it_repeats)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SIMPLE};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        uint64_t s, t, first, joined, after, repeats;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        first = lock(&w, s, "a", .kind = kinds[i]);
        redis_grants(&w, "a", first);
        first = lock(&w, t, "a", .kind = kinds[i], .wait_us = SEC(1));
        joined = lock(&w, t, "a", .kind = kinds[i], .once = true);
        pass(&w, SEC(1));
        expect_reply(&w, first, CORE_NOT_GRANTED);
        after = lock(&w, t, "a", .kind = kinds[i]);
        repeats = lock(&w, t, "a", .kind = kinds[i], .once = true);
        give(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        ck_assert(expect_reply(&w, joined, CORE_GRANTED)->grant.counted);
        ck_assert(!expect_reply(&w, repeats, CORE_GRANTED)->grant.counted);
        ck_assert_uint_eq(view_of(&w, "a").holds, 1);
        if (kinds[i] == KIND_REENTRANT) {
            ck_assert_uint_eq(redis_grants(&w, "a", after)->holds, 2);
        } else {
            expect_reply(&w, after, CORE_DEADLOCK);
        }
        world_close(&w);
    }
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
    expect_reply(&w, unlock(&w, s, "a", .owner = "other"), CORE_NOT_HELD);
    expect_reply(&w, renew(&w, s, "a", SEC(1)), CORE_NOT_HELD);
    token = take(&w, s, "a");
    expect_reply(&w, unlock(&w, t, "a"), CORE_NOT_HELD);
    expect_reply(&w, renew(&w, t, "a", SEC(1)), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, t, "a", .owner = "other"), CORE_NOT_HELD);
    give(&w, s, "a");
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, s, "a", .token = token), CORE_NOT_HELD);
    take(&w, t, "a"); /* the old token touches no other owner */
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
    ck_assert_int_eq(redis_renews(&w, "a", id)->left, 59398);
    id = lock(&w, s, "a");
    redis_grants(&w, "a", id);
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
    token = redis_grants(&w, "a", id)->token;
    expect_reply(&w, unlock(&w, s, "a", .owner = "alice", .token = token + 1), CORE_STALE);
    expect_reply(&w, renew(&w, s, "a", SEC(1), .owner = "alice", .token = 1), CORE_STALE);
    id = lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    stale = unlock(&w, s, "a", .owner = "alice", .token = token - 1);
    right = unlock(&w, s, "a", .owner = "alice", .token = token);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    expect_reply(&w, stale, CORE_STALE);
    ck_assert_int_eq(redis_releases(&w, "a", right)->left, 1);
    world_close(&w);
}
END_TEST

/* Two UNLOCKs on their way: one frees, the other finds nothing and touches no owner. */
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
    second = unlock(&w, t, "a", .token = token); /* it is being given back: it has no holder any more */
    expect_reply(&w, second, CORE_NOT_HELD);
    third = unlock(&w, s, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, first, CORE_LEFT);
    expect_reply(&w, third, CORE_NOT_HELD);
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
        redis_grants(&w, "a", id);
        world_close(&w);
    }
}
END_TEST

START_TEST(wrong_kind)
{
    struct world w;
    uint64_t s, t, first, second, id;
    struct flight op;

    s = world_holding(&w);
    t = session(&w);
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
    redis_grants(&w, "b", id);
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
    redis_grants(&w, "a", id);

    lock(&w, t, "a", .waiters_max = 2);
    lock(&w, session(&w), "a", .waiters_max = 2);
    expect_reply(&w, lock(&w, session(&w), "a", .waiters_max = 2), CORE_TOO_MANY_WAITERS);
    expect_reply(&w, lock(&w, session(&w), "a", .waiters_max = 2, .nowait = true), CORE_NOT_GRANTED);
    id = lock(&w, s, "a", .waiters_max = 2); /* the holder does not wait for anybody */
    redis_grants(&w, "a", id);

    lock(&w, session(&w), "b");
    lock(&w, session(&w), "b");
    expect_reply(&w, lock(&w, session(&w), "e"), CORE_TOO_MANY_WAITERS); /* in all */
    ck_assert_uint_eq(w.metrics.limited, 4);
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
        redis_says(&w, op, CORE_OK, .expiry_ms = 1, .token = token + 10);
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

/* Nodes of a quorum that the BREAK did not reach may have the key: it is released there. */
START_TEST(break_leaves_keys)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    id = break_name(&w, session(&w), "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1, .token = w.token + 10,
               .remains = true);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    expect_news(&w, CORE_NEWS_LOST, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
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
    redis_says(&w, op, CORE_OK, .expiry_ms = 0); /* there was nothing */
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
    ck_assert_int_eq(expect_reply(&w, other, CORE_LEFT)->left, 0);
    ck_assert(!known(&w, "a"));

    waits = lock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(is_watched(&w, "a"));
    id = break_name(&w, session(&w), "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1);
    expect_reply(&w, id, CORE_LEFT);
    redis_grants(&w, "a", waits);
    ck_assert(!is_watched(&w, "a"));
    world_close(&w);
}
END_TEST

/* Not known to be broken: the holder goes on if Redis still has it. */
START_TEST(break_unanswered)
{
    static const enum core_outcome outcomes[] = {CORE_UNKNOWN, CORE_DOWN};
    struct world w;
    uint64_t t, id;
    struct flight op;

    world_holding(&w);
    t = session(&w);
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        id = break_name(&w, t, "a");
        redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), outcomes[i]);
        expect_reply(&w, id, CORE_UNAVAILABLE);
        if (outcomes[i] == CORE_UNKNOWN) {
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
        }
        expect_state(&w, "a", "held");
    }
    id = break_name(&w, t, "b");
    op = expect_op(&w, CORE_BREAK_KEY, "b");
    pass(&w, SEC(2) - 1);
    quiet(&w);
    pass(&w, 1);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_OK); /* its request has its answer */
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

    s = world_holding(&w);
    t = session(&w);
    u = session(&w);
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
    redis_grants(&w, "a", id);
    id = unlock(&w, s, "a");
    redis_releases(&w, "a", id);
    give(&w, s, "a");
    ck_assert_uint_eq(core_totals(w.core).locks, 0);
    world_close(&w);
}
END_TEST

/* A LOCK that waits for its own owner's release is sent away as well. */
START_TEST(draining_behind_a_release)
{
    struct world w;
    uint64_t s, unlocked, id;
    struct flight op;

    s = world_holding(&w);
    unlocked = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    id = lock(&w, s, "a");
    drains(&w);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked, CORE_LEFT);
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
        once_behind_unlock,
        once_joined_times_out,
        once_outlives_the_request_that_it_repeats,
        not_held,
        token_acts_for_the_holder,
        token_of_an_owner,
        unlock_twice,
        waiting_for_oneself,
        wrong_kind,
        limits,
        break_held_here,
        break_leaves_keys,
        break_held_elsewhere,
        break_unanswered,
        break_wrong_kind,
        draining,
        draining_behind_a_release,
    };

    return suite_main("core", tests, sizeof(tests) / sizeof(tests[0]));
}
