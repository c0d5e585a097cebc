/*
 * test_core_order.c -- PROTOCOL.md, "Order": which requests of one owner run side by side, and which do not.
 *
 * The world fails a test if an operation that the test has not expected is sent before the next event (core_world.h):
 * so an operation that is sent too early is found.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

static uint64_t
cancels(struct world *w, uint64_t s, const char *name)
{
    return (uint64_t)expect_reply(w, world_ask(w, CORE_CANCEL, s, name, (struct ask){.owner = NULL}), CORE_LEFT)->left;
}

/* Each LOCK asks Redis at once and is answered by itself; the outcome of one does not affect the others. */
START_TEST(locks_that_cannot_wait)
{
    struct world w;
    struct flight op[4];
    uint64_t s, id[4];

    world_open(&w);
    s = session(&w);
    id[0] = lock(&w, s, "a", .nowait = true);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "b", .nowait = true);
    op[1] = expect_op(&w, CORE_ACQUIRE, "b");
    id[2] = lock(&w, s, "c", .nowait = true);
    op[2] = expect_op(&w, CORE_ACQUIRE, "c");
    id[3] = lock(&w, s, "d", .nowait = true);
    op[3] = expect_op(&w, CORE_ACQUIRE, "d");
    redis_says(&w, op[1], CORE_OK);
    expect_reply(&w, id[1], CORE_GRANTED);
    redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(3));
    expect_reply(&w, id[0], CORE_NOT_GRANTED);
    redis_says(&w, op[3], CORE_FOREIGN, .pttl_us = -1);
    expect_reply(&w, id[3], CORE_WRONG_KIND);
    redis_says(&w, op[2], CORE_OK);
    expect_reply(&w, id[2], CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Requests of one name run one behind the other; requests behind the second one run at once. */
START_TEST(one_name)
{
    struct world w;
    struct flight op;
    uint64_t s, id[3];

    world_open(&w);
    s = session(&w);
    id[0] = lock(&w, s, "a", .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "a", .nowait = true);
    id[2] = lock(&w, s, "b", .nowait = true);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_grants(&w, "b", id[2]);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, id[1], CORE_GRANTED)->holds, 2);

    id[0] = lock(&w, s, "p", .nowait = true, .kind = KIND_SEMAPHORE, .limit = 2); /* permits are of one name */
    op = expect_op(&w, CORE_ACQUIRE, "p");
    id[1] = lock(&w, s, "p", .nowait = true, .kind = KIND_SEMAPHORE, .limit = 2);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    redis_grants(&w, "p", id[1]);
    world_close(&w);
}
END_TEST

/* No request begins behind a LOCK that waits, nor behind one that may yet have to wait. */
START_TEST(behind_a_wait)
{
    struct world w;
    struct flight op;
    uint64_t s, t, waits, behind[3];

    s = world_holding(&w);
    t = session(&w);
    take(&w, t, "c");
    waits = lock(&w, t, "a");
    behind[0] = lock(&w, t, "b", .nowait = true);
    behind[1] = unlock(&w, t, "c");
    behind[2] = renew(&w, t, "c", SEC(60));
    give(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    redis_grants(&w, "b", behind[0]);
    redis_releases(&w, "c", behind[1]);
    expect_reply(&w, behind[2], CORE_NOT_HELD);

    waits = lock(&w, s, "d", .wait_us = SEC(1)); /* free, as far as the daemon knows */
    op = expect_op(&w, CORE_ACQUIRE, "d");
    behind[0] = lock(&w, s, "e", .nowait = true);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    pass(&w, SEC(1));
    expect_reply(&w, waits, CORE_NOT_GRANTED);
    redis_grants(&w, "e", behind[0]);
    world_close(&w);
}
END_TEST

/*
 * A LOCK that may wait begins when all requests before it are answered; so does an MLOCK, even one that may not wait.
 */
START_TEST(a_wait_begins_last)
{
    struct world w;
    struct flight op[2];
    uint64_t s, id[2], waits, many;

    world_open(&w);
    s = session(&w);
    id[0] = lock(&w, s, "a", .nowait = true);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "b", .nowait = true);
    op[1] = expect_op(&w, CORE_ACQUIRE, "b");
    waits = lock(&w, s, "c", .wait_us = MS(5));
    redis_says(&w, op[1], CORE_OK);
    expect_reply(&w, id[1], CORE_GRANTED);
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    redis_grants(&w, "c", waits);

    id[0] = lock(&w, s, "d", .nowait = true);
    op[0] = expect_op(&w, CORE_ACQUIRE, "d");
    many = mlock(&w, s, "e f", .nowait = true);
    id[1] = lock(&w, s, "g", .nowait = true);
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "e"), CORE_OK);
    redis_grants(&w, "f", many);
    redis_grants(&w, "g", id[1]);
    world_close(&w);
}
END_TEST

/* An UNLOCK behind a LOCK waits for its answer: an owner that moves from name to name always holds one of them. */
START_TEST(unlock_behind_lock)
{
    struct world w;
    struct flight op;
    uint64_t s, locked, unlocked;

    s = world_holding(&w);
    locked = lock(&w, s, "b", .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "b");
    unlocked = unlock(&w, s, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3));
    expect_reply(&w, locked, CORE_NOT_GRANTED);
    redis_releases(&w, "a", unlocked);
    world_close(&w);
}
END_TEST

/* Releases reach Redis in the order of the UNLOCKs, and the acquire of a LOCK behind them reaches Redis after them. */
START_TEST(unlocks)
{
    struct world w;
    struct flight a, b, c;
    uint64_t s, unlocked[2], locked, behind;

    s = world_holding(&w);
    take(&w, s, "b");
    take(&w, s, "x");
    unlocked[0] = unlock(&w, s, "b");
    b = expect_op(&w, CORE_RELEASE, "b");
    unlocked[1] = unlock(&w, s, "a");
    a = expect_op(&w, CORE_RELEASE, "a");
    locked = lock(&w, s, "c", .nowait = true);
    c = expect_op(&w, CORE_ACQUIRE, "c");
    behind = unlock(&w, s, "x"); /* it waits for the LOCK */
    redis_says(&w, a, CORE_OK);
    expect_reply(&w, unlocked[1], CORE_LEFT);
    redis_says(&w, b, CORE_OK);
    expect_reply(&w, unlocked[0], CORE_LEFT);
    redis_says(&w, c, CORE_OK);
    expect_reply(&w, locked, CORE_GRANTED);
    redis_releases(&w, "x", behind);
    world_close(&w);
}
END_TEST

/* Releases of two kinds would leave as two calls, in the order of the kinds: so the second waits for the first one. */
START_TEST(unlocks_of_two_kinds)
{
    struct world w;
    struct flight op;
    uint64_t s, unlocked[2];

    s = world_holding(&w);
    redis_grants(&w, "b", lock(&w, s, "b", .kind = KIND_SIMPLE));
    unlocked[0] = unlock(&w, s, "b");
    op = expect_op(&w, CORE_RELEASE, "b");
    unlocked[1] = unlock(&w, s, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked[0], CORE_LEFT);
    redis_releases(&w, "a", unlocked[1]);
    world_close(&w);
}
END_TEST

/* No request overtakes an operation that is not sent yet: here a release waits for a renewal, and 5 ms more. */
START_TEST(unlock_that_is_not_sent)
{
    struct world w;
    struct flight renewal, op;
    uint64_t s, unlocked[2], locked;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .kind = KIND_COUNTER));
    redis_grants(&w, "b", lock(&w, s, "b", .kind = KIND_COUNTER));
    pass(&w, REPORTED_30S / 3);
    renewal = expect_op(&w, CORE_EXTEND, "a");
    op = expect_op(&w, CORE_EXTEND, "b");
    redis_says(&w, op, CORE_OK);
    pass(&w, MS(10));
    unlocked[0] = unlock(&w, s, "a");
    unlocked[1] = unlock(&w, s, "b");
    locked = lock(&w, s, "c", .nowait = true);
    redis_says(&w, renewal, CORE_OK, .expiry_ms = 7); /* the next owner must get another expiry */
    quiet(&w);
    pass(&w, MS(5));
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked[0], CORE_LEFT);
    op = expect_op(&w, CORE_RELEASE, "b");
    redis_grants(&w, "c", locked);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, unlocked[1], CORE_LEFT);
    world_close(&w);
}
END_TEST

/* With several links, on which operations have no common order, no request begins behind an UNLOCK. */
START_TEST(several_links)
{
    struct core_conf conf = world_conf;
    struct world w;
    struct flight op[2];
    uint64_t s, id[3];

    conf.one_link = false;
    world_open_conf(&w, &conf);
    s = session(&w);
    id[0] = lock(&w, s, "a", .nowait = true);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "b", .nowait = true);
    op[1] = expect_op(&w, CORE_ACQUIRE, "b");
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    redis_says(&w, op[1], CORE_OK);
    expect_reply(&w, id[1], CORE_GRANTED);
    id[0] = unlock(&w, s, "a");
    op[0] = expect_op(&w, CORE_RELEASE, "a");
    id[1] = unlock(&w, s, "b");
    id[2] = lock(&w, s, "c", .nowait = true);
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id[0], CORE_LEFT);
    redis_releases(&w, "b", id[1]);
    redis_grants(&w, "c", id[2]);
    world_close(&w);
}
END_TEST

START_TEST(renewals)
{
    struct world w;
    struct flight a, b;
    uint64_t s, id[4];

    s = world_holding(&w);
    take(&w, s, "b");
    take(&w, s, "c");
    id[0] = renew(&w, s, "a", SEC(60));
    a = expect_op(&w, CORE_EXTEND, "a");
    id[1] = renew(&w, s, "b", SEC(60));
    b = expect_op(&w, CORE_EXTEND, "b");
    id[2] = unlock(&w, s, "c");
    redis_says(&w, b, CORE_OK);
    expect_reply(&w, id[1], CORE_LEFT);
    redis_says(&w, a, CORE_OK);
    expect_reply(&w, id[0], CORE_LEFT);
    a = expect_op(&w, CORE_RELEASE, "c");
    id[3] = renew(&w, s, "b", SEC(50)); /* does not begin behind an UNLOCK ... */
    redis_says(&w, a, CORE_OK);
    expect_reply(&w, id[2], CORE_LEFT);
    b = expect_op(&w, CORE_EXTEND, "b");
    id[2] = lock(&w, s, "c", .nowait = true); /* ... nor does a LOCK behind a RENEW */
    redis_says(&w, b, CORE_OK);
    expect_reply(&w, id[3], CORE_LEFT);
    redis_grants(&w, "c", id[2]);
    world_close(&w);
}
END_TEST

/* The order is over all connections of an owner; the requests of other owners do not count. */
START_TEST(over_connections)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id[3];

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id[0] = lock(&w, s, "a", .owner = "alice", .wait_us = SEC(5));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, t, "b", .owner = "alice", .nowait = true);
    id[2] = lock(&w, t, "c", .owner = "bob", .nowait = true);
    redis_grants(&w, "c", id[2]);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    redis_grants(&w, "b", id[1]);
    world_close(&w);
}
END_TEST

/* At most 64 requests of an owner run at once; with each answer the next one begins. */
START_TEST(bound)
{
    enum { MOST = 64, N = MOST + 3 };
    struct world w;
    struct flight op[N];
    uint64_t s, id[N];
    char name[N][8];

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof(name[i]), "n%02d", i);
        id[i] = lock(&w, s, name[i], .nowait = true);
        if (i < MOST) {
            op[i] = expect_op(&w, CORE_ACQUIRE, name[i]);
        }
    }
    redis_says(&w, op[40], CORE_OK);
    expect_reply(&w, id[40], CORE_GRANTED);
    op[MOST] = expect_op(&w, CORE_ACQUIRE, name[MOST]);
    for (int i = 0; i < N; i++) {
        if (i != 40) {
            redis_says(&w, op[i], CORE_OK);
            expect_reply(&w, id[i], CORE_GRANTED);
        }
        if (i + MOST + 1 < N && i != 40) {
            op[i + MOST + 1] = expect_op(&w, CORE_ACQUIRE, name[i + MOST + 1]);
        }
    }
    world_close(&w);
}
END_TEST

/* CANCEL ends one request, the end of the session all of them. Locks that are granted later are released. */
START_TEST(ends)
{
    struct world w;
    struct flight op[3];
    uint64_t s, id[3];

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < 3; i++) {
        static const char *const name[] = {"a", "b", "c"};

        id[i] = lock(&w, s, name[i], .nowait = true);
        op[i] = expect_op(&w, CORE_ACQUIRE, name[i]);
    }
    ck_assert_uint_eq(cancels(&w, s, "b"), 1);
    expect_reply(&w, id[1], CORE_CANCELLED);
    redis_says(&w, op[1], CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    redis_says(&w, op[2], CORE_OK);
    expect_reply(&w, id[2], CORE_GRANTED);
    gone(&w, s);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "c"), CORE_OK);
    redis_says(&w, op[0], CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

/* A drain refuses the requests under way, as it does one that waits; locks that they are granted later are released. */
START_TEST(drained)
{
    struct world w;
    struct flight op[2];
    uint64_t s, id[2];

    world_open(&w);
    s = session(&w);
    id[0] = lock(&w, s, "a", .nowait = true);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "b", .nowait = true);
    op[1] = expect_op(&w, CORE_ACQUIRE, "b");
    drains(&w);
    expect_reply(&w, id[0], CORE_DRAINING);
    expect_reply(&w, id[1], CORE_DRAINING);
    redis_says(&w, op[0], CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_says(&w, op[1], CORE_TAKEN, .pttl_us = SEC(3));
    world_close(&w);
}
END_TEST

/* A LOCK that cannot wait closes no cycle; one behind it that can wait does. */
START_TEST(deadlock)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, waits, victim;

    s = world_holding(&w);
    t = session(&w);
    take(&w, t, "b");
    waits = lock(&w, t, "a");
    id = lock(&w, s, "c", .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "c");
    expect_reply(&w, lock(&w, s, "b", .nowait = true), CORE_NOT_GRANTED); /* no wait, so no cycle */
    victim = lock(&w, s, "b");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    ck_assert_uint_eq(expect_reply(&w, victim, CORE_DEADLOCK)->hops, 2);
    give(&w, s, "a");
    redis_grants(&w, "a", waits);
    world_close(&w);
}
END_TEST

/*
 * A repetition that may wait does not join a LOCK that may not: the wait would have no position in the owner's order.
 */
START_TEST(repetition)
{
    struct world w;
    struct flight op;
    uint64_t s, first, again, behind;

    world_open(&w);
    s = session(&w);
    first = lock(&w, s, "a", .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    again = lock(&w, s, "a", .once = true);
    behind = lock(&w, s, "b", .nowait = true);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    if (has_op(&w, CORE_ACQUIRE, "a")) { /* unless the core knows how long the lock is taken */
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(3));
    }
    pass(&w, SEC(3) + MS(1));
    redis_grants(&w, "a", again);
    redis_grants(&w, "b", behind);
    world_close(&w);
}
END_TEST

/*
 * A repetition that waits longer than the LOCK that it joined: the wait goes on, and requests behind it do not begin.
 */
START_TEST(joined)
{
    struct world w;
    uint64_t s, t, first, again, other, behind;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "a");
    first = lock(&w, s, "a", .once = true, .wait_us = SEC(1));
    again = lock(&w, s, "a", .once = true, .wait_us = SEC(5));
    behind = lock(&w, s, "b");
    pass(&w, SEC(1));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    quiet(&w); /* the LOCK of "b" stands behind the wait */
    redis_grants(&w, "c", lock(&w, s, "c", .owner = "x"));
    other = lock(&w, s, "a", .owner = "x");
    pass(&w, SEC(4));
    expect_reply(&w, again, CORE_NOT_GRANTED);
    redis_grants(&w, "b", behind);
    give(&w, t, "a");
    redis_grants(&w, "a", other);
    world_close(&w);
}
END_TEST

/* The owner waits for the name as long as one of the joined requests does: a cycle through that wait is found. */
START_TEST(joined_in_a_cycle)
{
    struct world w;
    uint64_t s, t, first, again, victim;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "a");
    take(&w, s, "b");
    first = lock(&w, s, "a", .once = true, .wait_us = SEC(1));
    again = lock(&w, s, "a", .once = true);
    pass(&w, SEC(1));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    victim = lock(&w, t, "b");
    ck_assert_uint_eq(expect_reply(&w, victim, CORE_DEADLOCK)->hops, 2);
    redis_says(&w, (unlock(&w, t, "a"), expect_op(&w, CORE_RELEASE, "a")), CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    redis_grants(&w, "a", again);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        locks_that_cannot_wait, one_name,  behind_a_wait, a_wait_begins_last, unlock_behind_lock, unlocks,
        unlocks_of_two_kinds,   unlock_that_is_not_sent,  several_links,      renewals,           over_connections,
        bound,                  ends,      drained,       deadlock,          repetition,
        joined,            joined_in_a_cycle,
    };

    return suite_main("core, order of an owner", tests, sizeof(tests) / sizeof(tests[0]));
}
