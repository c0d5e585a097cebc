/*
 * test_core_cancel.c -- PROTOCOL.md, "CANCEL": which waits end, in every state of the attempt; what is given back;
 * positions in the queue.
 */
#include "tests/unit/core_world.h"

/* CANCEL is answered in the same step, whatever requests are before it. */
static int64_t
cancels(struct world *w, uint64_t s, const char *name, const char *owner)
{
    return expect_reply(w, world_ask(w, CORE_CANCEL, s, name, (struct ask){.owner = owner}), CORE_LEFT)->left;
}

/* A LOCK waits behind a holder at this daemon: another session can cancel it by the name of its owner only. */
START_TEST(by_its_owner_only)
{
    struct world w;
    uint64_t s, t, own, named;

    s = world_holding(&w);
    t = session(&w);
    own = lock(&w, t, "a");
    named = lock(&w, t, "a", .owner = "alice");
    ck_assert_int_eq(cancels(&w, s, "a", NULL), 0);
    ck_assert_int_eq(cancels(&w, s, "a", "bob"), 0);
    ck_assert_int_eq(cancels(&w, s, "b", "alice"), 0);
    ck_assert_int_eq(cancels(&w, s, "a", "alice"), 1);
    expect_reply(&w, named, CORE_CANCELLED);
    ck_assert_int_eq(cancels(&w, s, "a", "alice"), 0);
    ck_assert_int_eq(cancels(&w, t, "a", NULL), 1);
    expect_reply(&w, own, CORE_CANCELLED);
    ck_assert_uint_eq(w.metrics.cancelled, 2);
    ck_assert_uint_eq(w.metrics.timeouts, 0);
    ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    ck_assert_uint_eq(core_totals(w.core).owners, 2); /* the record of alice is freed, and none was made for bob */
    world_close(&w);
}
END_TEST

/* All waits of one owner for the name end: a repetition that joined, and those not begun. Other requests stay. */
START_TEST(all_of_them)
{
    struct world w;
    uint64_t s, t, u, id[6], other;

    s = world_holding(&w);
    t = session(&w);
    u = session(&w);
    id[0] = lock(&w, t, "a", .owner = "alice");
    id[1] = lock(&w, u, "a", .owner = "alice", .once = true);
    id[2] = lock(&w, u, "b", .owner = "alice");
    id[3] = lock(&w, t, "a", .owner = "alice");
    id[4] = unlock(&w, t, "a", .owner = "alice");
    id[5] = lock(&w, u, "a", .owner = "alice", .nowait = true);
    other = lock(&w, u, "a");
    ck_assert_int_eq(cancels(&w, s, "a", "alice"), 4);
    expect_reply(&w, id[0], CORE_CANCELLED);
    expect_reply(&w, id[1], CORE_CANCELLED);
    expect_reply(&w, id[3], CORE_CANCELLED);
    expect_reply(&w, id[5], CORE_CANCELLED);
    redis_grants(&w, "b", id[2]);
    expect_reply(&w, id[4], CORE_NOT_HELD);
    give(&w, s, "a");
    redis_grants(&w, "a", other);
    world_close(&w);
}
END_TEST

/* The attempt is in flight: the LOCK is answered at once, and only once, and what the attempt brings is given back. */
START_TEST(grant_in_flight)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(cancels(&w, t, "a", "alice"), 1);
    expect_reply(&w, id, CORE_CANCELLED);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(w.metrics.unclaimed, 1);

    id = lock(&w, s, "a", .owner = "alice"); /* again, and the owner comes back before the outcome */
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(cancels(&w, t, "a", "alice"), 1);
    expect_reply(&w, id, CORE_CANCELLED);
    id = lock(&w, s, "a", .owner = "alice");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* The answer to the attempt was lost: what it may have taken is given back, although the owner has a name. */
START_TEST(grant_unknown)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    ck_assert_int_eq(cancels(&w, s, "a", "alice"), 1);
    expect_reply(&w, id, CORE_CANCELLED);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    pass(&w, SEC(2));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* the attempt cannot run any more */
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* A position that is kept while an attempt may still run is given up: the claim does not go back to the queue. */
START_TEST(kept_behind_a_straggler)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .wait_us = MS(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(10));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert_int_eq(cancels(&w, s, "a", "alice"), 0);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* The position of a named owner ends, whether a request waits in it or it is kept. */
START_TEST(ticket)
{
    struct world w;
    uint64_t s, t, u, first, second;

    s = world_holding(&w);
    t = session(&w);
    u = session(&w);
    for (int kept = 0; kept < 2; kept++) {
        first = lock(&w, t, "a", .owner = "alice", .wait_us = SEC(1));
        if (kept) {
            pass(&w, SEC(1));
            expect_reply(&w, first, CORE_NOT_GRANTED);
        }
        second = lock(&w, u, "a");
        ck_assert_int_eq(cancels(&w, s, "a", "alice"), !kept);
        if (!kept) {
            expect_reply(&w, first, CORE_CANCELLED);
        }
        first = lock(&w, t, "a", .owner = "alice");
        give(&w, s, "a");
        redis_grants(&w, "a", second);
        give(&w, u, "a");
        redis_grants(&w, "a", first);
        first = unlock(&w, t, "a", .owner = "alice");
        redis_releases(&w, "a", first);
        take(&w, s, "a");
    }
    world_close(&w);
}
END_TEST

/* A kind with tickets: the ticket is released in Redis, whether a request waits with it or it is kept. */
START_TEST(ticket_in_redis)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    for (int kept = 0; kept < 2; kept++) {
        id = lock(&w, s, "a", .kind = KIND_FAIR, .owner = "alice", .wait_us = SEC(1));
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(9), .has_ticket = true);
        if (kept) {
            pass(&w, SEC(1));
            expect_reply(&w, id, CORE_NOT_GRANTED);
        }
        ck_assert_int_eq(cancels(&w, s, "a", "alice"), !kept);
        if (!kept) {
            expect_reply(&w, id, CORE_CANCELLED);
        }
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(op.op.holds, 0);
        redis_says(&w, op, CORE_OK);
        ck_assert(!known(&w, "a"));
    }
    world_close(&w);
}
END_TEST

/*
 * An MLOCK is cancelled by a name that it has, by one that it waits for, or by one that it has not come to: it ends,
 * and gives back what it has.
 */
START_TEST(multilock)
{
    static const char *const by[] = {"a", "b", "c"};
    struct world w;
    struct flight op;
    uint64_t s, t, id, behind;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "b");
    for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
        id = mlock(&w, t, "a b c", .owner = "alice");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        behind = mlock(&w, t, "c d", .owner = "alice");
        ck_assert_int_eq(cancels(&w, s, by[i], "alice"), i == 2 ? 2 : 1);
        expect_reply(&w, id, CORE_CANCELLED);
        op = expect_op(&w, CORE_RELEASE, "a");
        if (i == 2) {
            expect_reply(&w, behind, CORE_CANCELLED);
            redis_says(&w, op, CORE_OK);
        } else {
            struct flight c = expect_op(&w, CORE_ACQUIRE, "c");

            redis_says(&w, op, CORE_OK);
            redis_says(&w, c, CORE_OK);
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "d"), CORE_OK);
            expect_reply(&w, behind, CORE_GRANTED);
            id = munlock(&w, t, "c d", .owner = "alice");
            c = expect_op(&w, CORE_RELEASE, "c");
            op = expect_op(&w, CORE_RELEASE, "d");
            redis_says(&w, c, CORE_OK);
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, id, CORE_LEFT);
        }
        ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    }
    expect_state(&w, "b", "held");
    world_close(&w);
}
END_TEST

/* The position for the name that the MLOCK waited for is not kept. */
START_TEST(multilock_ticket)
{
    struct world w;
    uint64_t s, t, u, id, second;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    take(&w, s, "a");
    id = mlock(&w, t, "a b", .owner = "alice");
    second = lock(&w, u, "a");
    ck_assert_int_eq(cancels(&w, s, "b", "alice"), 1);
    expect_reply(&w, id, CORE_CANCELLED);
    id = lock(&w, t, "a", .owner = "alice");
    give(&w, s, "a");
    redis_grants(&w, "a", second);
    give(&w, u, "a");
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* A re-entry is in flight: it is not counted, and the earlier hold stays. */
START_TEST(reentry)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "alice"));
    id = lock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(cancels(&w, t, "a", "alice"), 1);
    expect_reply(&w, id, CORE_CANCELLED);
    redis_says(&w, op, CORE_OK);
    id = unlock(&w, t, "a", .owner = "alice");
    ck_assert_int_eq(redis_releases(&w, "a", id)->left, 0);
    ck_assert_int_eq(cancels(&w, t, "a", "alice"), 0); /* RENEW and UNLOCK do not wait */
    redis_grants(&w, "a", id = lock(&w, s, "a", .owner = "alice"));
    id = unlock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_int_eq(cancels(&w, t, "a", "alice"), 0);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    world_close(&w);
}
END_TEST

/* Each wait for a permit has a claim of its own. */
START_TEST(permits)
{
    struct world w;
    uint64_t s, t, id[3];

    world_open(&w);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .kind = KIND_SEMAPHORE, .limit = 1, .owner = "alice"));
    id[0] = lock(&w, t, "a", .kind = KIND_SEMAPHORE, .limit = 1, .owner = "bob");
    id[1] = lock(&w, t, "a", .kind = KIND_SEMAPHORE, .limit = 1, .owner = "bob");
    id[2] = lock(&w, s, "a", .kind = KIND_SEMAPHORE, .limit = 1, .owner = "bob", .once = true);
    ck_assert_int_eq(cancels(&w, s, "a", "bob"), 3);
    for (int i = 0; i < 3; i++) {
        expect_reply(&w, id[i], CORE_CANCELLED);
    }
    ck_assert_int_eq(cancels(&w, s, "a", "alice"), 0);
    id[0] = unlock(&w, s, "a", .owner = "alice");
    redis_releases(&w, "a", id[0]);
    world_close(&w);
}
END_TEST

/* CANCEL is done in one step, so it is refused where that is long; but not for a name without a wait of the owner. */
START_TEST(bounded)
{
    struct world w;
    uint64_t s, t, id;

    s = world_holding(&w);
    t = session(&w);
    lock(&w, t, "a", .owner = "alice");
    for (int i = 0; i < 1024; i++) {
        lock(&w, t, "b", .owner = "alice");
    }
    id = world_ask(&w, CORE_CANCEL, s, "a", (struct ask){.owner = "alice"});
    expect_reply(&w, id, CORE_TOO_MANY_WAITERS);
    id = world_ask(&w, CORE_CANCEL, s, "b", (struct ask){.owner = "alice"});
    ck_assert_uint_eq(core_totals(w.core).waiters, 1025);
    expect_reply(&w, id, CORE_TOO_MANY_WAITERS);
    ck_assert_int_eq(cancels(&w, s, "c", "alice"), 0);
    gone(&w, t);
    world_close(&w);
}
END_TEST

/* The session of the request has ended: there is no answer. */
START_TEST(after_its_session_has_gone)
{
    struct world w;
    uint64_t s, t;
    size_t answers;

    s = world_holding(&w);
    t = session(&w);
    lock(&w, t, "a");
    gone(&w, t);
    answers = w.answers_n;
    world_ask(&w, CORE_CANCEL, t, "a", (struct ask){0});
    world_ask(&w, CORE_CANCEL, t, "a", (struct ask){.owner = "alice"});
    world_ask(&w, CORE_USE, t, "a", (struct ask){.owner = "alice"});
    ck_assert_uint_eq(w.answers_n, answers);
    give(&w, s, "a");
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {by_its_owner_only,
                            all_of_them,
                            grant_in_flight,
                            grant_unknown,
                            kept_behind_a_straggler,
                            ticket,
                            ticket_in_redis,
                            multilock,
                            multilock_ticket,
                            reentry,
                            permits,
                            bounded,
                            after_its_session_has_gone};

    return suite_main("core, CANCEL", tests, sizeof(tests) / sizeof(tests[0]));
}
