/*
 * test_core_reclaim.c -- Redis has lost data, or a clock has jumped: an owner keeps its lock, or learns that it is
 * lost.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

/* The next operation reclaims the lock, with so many holds. */
static struct flight
expect_reclaim(struct world *w, const char *key, uint32_t holds, bool shared)
{
    struct flight f = expect_op(w, CORE_ACQUIRE, key);

    ck_assert_msg(f.op.reclaim && !f.op.reentry && !f.op.ticket, "no reclaim of %s", key);
    ck_assert_uint_eq(f.op.holds, holds);
    ck_assert_int_eq(f.op.shared, shared);
    return f;
}

/* The daemon has reported so many times that all locks are reclaimed, last for this epoch. */
static void
reported_reclaimed(const struct world *w, unsigned times, uint64_t epoch)
{
    ck_assert_uint_eq(w->reclaimed_n, times);
    ck_assert_uint_eq(w->reclaimed, epoch);
}

static uint64_t
take_as(struct world *w, uint64_t s, const char *name, struct ask a)
{
    uint64_t id = world_ask(w, CORE_LOCK, s, name, a);
    struct flight f = expect_op(w, CORE_ACQUIRE, name);

    ck_assert(!f.op.reclaim);
    redis_says(w, f, CORE_OK, .expiry_ms = 77);
    return expect_reply(w, id, CORE_GRANTED)->token;
}

START_TEST(nothing_held_is_reclaimed_at_once)
{
    struct world w;

    world_open(&w);
    reclaims(&w, 5);
    reported_reclaimed(&w, 1, 5);
    pass(&w, SEC(60));
    reported_reclaimed(&w, 1, 5);
    world_close(&w);
}
END_TEST

/* Of every kind, each lock is reclaimed with all holds and the same token, and without an event. */
START_TEST(every_kind_is_asserted_as_it_is)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct world w;
        struct flight f;
        uint64_t s, id, token;
        struct ask a = {.kind = (enum kind)kind, .limit = 1};
        bool counts = kind_rows[kind].flags & KIND_F_REENTRANT;

        world_open(&w);
        s = session(&w);
        token = take_as(&w, s, "a", a);
        if (counts) {
            id = world_ask(&w, CORE_LOCK, s, "a", a);
            ck_assert_uint_eq(redis_grants(&w, "a", id)->token, token);
        }
        pass(&w, SEC(3));
        reclaims(&w, 9);
        reported_reclaimed(&w, 0, 0);
        f = expect_reclaim(&w, "a", counts ? 2 : 1, false);
        ck_assert_int_eq(f.op.lease_us, SEC(30));
        ck_assert_uint_eq(f.op.owner, w.flights[0].op.owner);
        ck_assert_uint_eq(f.op.claim, w.flights[0].op.claim);
        ck_assert_int_eq(f.op.expiry_ms, 77);
        redis_says(&w, f, CORE_OK, .expiry_ms = 88);
        reported_reclaimed(&w, 1, 9);
        ck_assert_uint_eq(w.metrics.reclaims, 1);
        ck_assert_uint_eq(view_of(&w, "a").token, token);
        ck_assert_int_eq(view_of(&w, "a").deadline_us, f.at_us + REPORTED_30S);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST) + count_news(&w, CORE_NEWS_RELEASED), 0);
        if (counts) {
            id = unlock(&w, s, "a");
            ck_assert_int_eq(redis_releases(&w, "a", id)->left, 1);
        }
        id = unlock(&w, s, "a");
        if (kind_rows[kind].flags & KIND_F_BY_EXPIRY) {
            pass(&w, MS(5)); /* see test_core_redis.c:owned_by_expiry */
        }
        f = expect_op(&w, CORE_RELEASE, "a");
        ck_assert(counts || f.op.expiry_ms == 88); /* the newest expiry proves the hold */
        redis_says(&w, f, CORE_OK);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
        world_close(&w);
    }
}
END_TEST

/*
 * A writer that also reads reclaims both sorts of holds, one after the other, and the daemon reports the end only then.
 */
START_TEST(both_sorts_of_holds)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_as(&w, s, "a", (struct ask){.kind = KIND_RW});
    for (int i = 0; i < 3; i++) {
        id = lock(&w, s, "a", .kind = KIND_RW, .shared = true);
        redis_grants(&w, "a", id);
    }
    reclaims(&w, 9);
    redis_says(&w, expect_reclaim(&w, "a", 1, false), CORE_OK);
    reported_reclaimed(&w, 0, 0);
    redis_says(&w, expect_reclaim(&w, "a", 3, true), CORE_OK);
    reported_reclaimed(&w, 1, 9);
    world_close(&w);
}
END_TEST

START_TEST(readers_and_permits_one_by_one)
{
    static const enum kind kinds[] = {KIND_RW, KIND_SEMAPHORE};

    for (int k = 0; k < 2; k++) {
        struct world w;
        struct flight f[3];
        uint64_t s[3];

        world_open(&w);
        for (int i = 0; i < 3; i++) {
            s[i] = k == 0 || i == 0 ? session(&w) : s[0];
            take_as(&w, s[i], "a", (struct ask){.kind = kinds[k], .shared = k == 0, .limit = 3});
        }
        reclaims(&w, 9);
        for (int i = 0; i < 3; i++) {
            f[i] = expect_reclaim(&w, "a", 1, k == 0);
            ck_assert(i == 0 || f[i].op.claim != f[i - 1].op.claim);
        }
        redis_says(&w, f[1], CORE_OK);
        redis_says(&w, f[0], CORE_TAKEN, .pttl_us = SEC(1));
        if (k == 0) { /* it may hold the other sort */
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
        }
        reported_reclaimed(&w, 0, 0);
        redis_says(&w, f[2], CORE_OK);
        reported_reclaimed(&w, 1, 9);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
        world_close(&w);
    }
}
END_TEST

/* All requests on the lock wait for the outcome of the reclaim. */
START_TEST(requests_wait)
{
    struct world w;
    struct flight f;
    uint64_t s, again, once, more, left;

    s = world_holding(&w);
    reclaims(&w, 9);
    f = expect_reclaim(&w, "a", 1, false);
    again = lock(&w, s, "a");
    once = lock(&w, s, "a", .once = true);
    more = renew(&w, s, "a", SEC(60));
    left = unlock(&w, s, "a", .full = true);
    pass(&w, SEC(2));
    quiet(&w);
    redis_says(&w, f, CORE_OK);
    reported_reclaimed(&w, 1, 9);
    redis_grants(&w, "a", again);
    expect_reply(&w, once, CORE_GRANTED);
    redis_renews(&w, "a", more);
    redis_releases(&w, "a", left);
    world_close(&w);
}
END_TEST

/* Redis has the key of another client, or refuses the reclaim: the lock is lost, and its owner learns that once. */
START_TEST(a_key_of_another_owner_is_lost)
{
    static const enum core_outcome says[] = {CORE_TAKEN, CORE_GONE_IN_REDIS, CORE_FOREIGN};

    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        for (int asked = 0; asked < 2; asked++) {
            struct world w;
            struct flight f;
            uint64_t s, id = 0;

            s = world_holding(&w);
            reclaims(&w, 9);
            f = expect_reclaim(&w, "a", 1, false);
            id = asked ? unlock(&w, s, "a") : 0;
            redis_says(&w, f, says[i], .pttl_us = SEC(1));
            reported_reclaimed(&w, 1, 9);
            ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "lost by Redis");
            ck_assert_uint_eq(w.metrics.lost, 1);
            expect_reply(&w, asked ? id : unlock(&w, s, "a"), CORE_WAS_LOST);
            expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
            world_close(&w);
        }
    }
}
END_TEST

/*
 * Redis does not answer, or refuses for now: the reclaim is repeated, ever less often, up to the deadline; then LOST.
 */
START_TEST(again_until_the_deadline)
{
    static const enum core_outcome says[] = {CORE_UNKNOWN, CORE_DOWN, CORE_GRACE, CORE_FULL};

    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        struct world w;
        struct flight f;
        int64_t deadline_us;
        uint64_t s;
        int tries = 0;

        s = world_holding(&w);
        deadline_us = view_of(&w, "a").deadline_us;
        pass(&w, SEC(2));
        reclaims(&w, 9);
        while (w.now_us < deadline_us) {
            if (w.flights_n > w.flights_seen && !w.flights[w.flights_n - 1].seen) {
                f = expect_reclaim(&w, "a", 1, false);
                redis_says(&w, f, says[i], .guard_us = f.at_us + SEC(1));
                tries++;
            }
            expect_state(&w, "a", "held");
            pass(&w, MS(1));
        }
        ck_assert_msg(tries > 10 && tries < 200, "tried %d times", tries);
        expect_news(&w, CORE_NEWS_LOST, "a");
        expect_news(&w, CORE_NEWS_JEOPARDY, "a");
        reported_reclaimed(&w, 1, 9);
        f = expect_op(&w, CORE_RELEASE, "a");
        expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
        redis_says(&w, f, CORE_OK);
        if (says[i] == CORE_UNKNOWN) { /* the last attempt may still run: one more release after its guard */
            pass(&w, SEC(1));
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
        }
        world_close(&w);
    }
}
END_TEST

/* A reclaim fails at first, and then succeeds: no event for the owner. */
START_TEST(again_and_there)
{
    static const enum core_outcome says[] = {CORE_UNKNOWN, CORE_DOWN, CORE_GRACE, CORE_FULL};

    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        struct world w;
        uint64_t s;

        s = world_holding(&w);
        reclaims(&w, 9);
        redis_says(&w, expect_reclaim(&w, "a", 1, false), says[i], .guard_us = w.now_us + SEC(1));
        reported_reclaimed(&w, 0, 0);
        pass(&w, SEC(1));
        redis_says(&w, expect_reclaim(&w, "a", 1, false), CORE_OK);
        reported_reclaimed(&w, 1, 9);
        give(&w, s, "a");
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
        world_close(&w);
    }
}
END_TEST

/*
 * A lease that a client requested ends at its time, however often the daemon reclaims or verifies the lock meanwhile.
 */
START_TEST(an_explicit_lease_is_not_lengthened)
{
    struct world w;
    struct flight f;
    int64_t deadline_us;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    take_for(&w, s, SEC(20));
    deadline_us = view_of(&w, "a").deadline_us;
    for (uint64_t n = 1; n <= 15; n++) {
        pass(&w, SEC(1));
        if (n % 2) {
            reclaims(&w, n);
            f = expect_reclaim(&w, "a", 1, false);
        } else {
            suspects(&w);
            f = expect_op(&w, CORE_EXTEND, "a");
        }
        ck_assert_int_ge(f.at_us + f.op.lease_us, deadline_us); /* Redis must not drop the key sooner */
        ck_assert_int_le(f.op.lease_us, (deadline_us - f.at_us) * 103 / 100 + MS(10));
        pass(&w, MS(1));
        redis_says(&w, f, CORE_OK);
        ck_assert_int_ge(view_of(&w, "a").deadline_us, deadline_us);
        ck_assert_int_le(view_of(&w, "a").deadline_us, deadline_us + (int64_t)n); /* rounded */
    }
    pass(&w, deadline_us + MS(1) - w.now_us);
    expect_news(&w, CORE_NEWS_LOST, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_JEOPARDY), 0); /* no watchdog, so no jeopardy */
    world_close(&w);
}
END_TEST

/*
 * Redis loses its data again before all is reclaimed: all locks are reclaimed anew, with one report, of the last epoch.
 */
START_TEST(a_second_loss_during_the_first)
{
    struct world w;
    struct flight f, late;
    uint64_t s;

    s = world_holding(&w);
    take(&w, s, "b");
    reclaims(&w, 5);
    late = expect_reclaim(&w, "a", 1, false);
    redis_says(&w, expect_reclaim(&w, "b", 1, false), CORE_OK);
    reclaims(&w, 6);
    f = expect_reclaim(&w, "b", 1, false);
    redis_says(&w, late, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1)); /* the answer is about data that may be lost */
    redis_says(&w, f, CORE_OK);
    reported_reclaimed(&w, 0, 0);
    pass(&w, SEC(1));
    redis_says(&w, expect_reclaim(&w, "a", 1, false), CORE_OK);
    reported_reclaimed(&w, 1, 6);
    world_close(&w);
}
END_TEST

/* A renewal finds the key gone, and its answer is late: an unanswered reclaim may have run behind the renewal. */
START_TEST(gone_before_a_late_assertion)
{
    struct world w;
    struct flight f;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .spec_lease_us = SEC(2)));
    reclaims(&w, 9);
    redis_says(&w, expect_reclaim(&w, "a", 1, false), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_says(&w, expect_reclaim(&w, "a", 1, false), CORE_OK);
    reported_reclaimed(&w, 1, 9);
    pass(&w, MS(700));
    f = expect_op(&w, CORE_EXTEND, "a");
    pass(&w, MS(400));
    redis_says(&w, f, CORE_GONE_IN_REDIS);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* the reclaim did run */
    pass(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS); /* sent when the reclaim could run no more */
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* Operations in flight at the loss of data are awaited before the reclaim: their answers prove nothing any more. */
START_TEST(a_reclaim_goes_behind_operations_in_flight)
{
    struct world w;
    struct flight f;
    uint64_t s, id;

    s = world_holding(&w);
    id = lock(&w, s, "a");
    f = expect_op(&w, CORE_ACQUIRE, "a");
    reclaims(&w, 9);
    redis_says(&w, f, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, SEC(1));
    redis_says(&w, expect_reclaim(&w, "a", 1, false), CORE_OK);
    reported_reclaimed(&w, 1, 9);
    redis_grants(&w, "a", id);

    pass(&w, REPORTED_30S / 3);
    f = expect_op(&w, CORE_EXTEND, "a"); /* a renewal */
    reclaims(&w, 10);
    redis_says(&w, f, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, SEC(1));
    redis_says(&w, expect_reclaim(&w, "a", 2, false), CORE_OK);
    reported_reclaimed(&w, 2, 10);
    world_close(&w);
}
END_TEST

/*
 * The owner ends during the reclaim: the lock is released, whatever the outcome of the reclaim, and whenever it runs.
 */
START_TEST(the_owner_ends_meanwhile)
{
    static const enum core_outcome outcomes[] = {CORE_OK, CORE_UNKNOWN};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct world w;
        struct flight f;
        uint64_t s = world_holding(&w);

        reclaims(&w, 9);
        f = expect_reclaim(&w, "a", 1, false);
        gone(&w, s);
        reported_reclaimed(&w, 1, 9);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        redis_says(&w, f, outcomes[i]); /* overtaken */
        quiet(&w);
        pass(&w, 2 * world_conf.op_timeout_us);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK); /* by then the reclaim has run, or never will */
        ck_assert(!known(&w, "a"));
        ck_assert_uint_eq(w.metrics.reclaims, 0);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
        world_close(&w);
    }
}
END_TEST

/* A re-entry has a longer lease than the watchdog's: the reclaim must have at least the lease that was reported. */
START_TEST(the_longer_of_two_leases)
{
    struct world w;
    struct flight f;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_as(&w, s, "a", (struct ask){.kind = KIND_REENTRANT});
    id = lock(&w, s, "a", .lease_us = SEC(100));
    redis_grants(&w, "a", id);
    reclaims(&w, 9);
    f = expect_reclaim(&w, "a", 2, false);
    ck_assert_int_ge(core_deadline_us(w.now_us, f.op.lease_us), core_deadline_us(w.now_us, SEC(100)));
    redis_says(&w, f, CORE_OK);
    world_close(&w);
}
END_TEST

/* The UNLOCK has not reached Redis before the loss of data; a release that finds no key there then is no loss. */
START_TEST(a_released_hold_is_not_lost)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take_as(&w, s, "a", (struct ask){.kind = KIND_REENTRANT});
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    reclaims(&w, 9);
    reported_reclaimed(&w, 1, 9);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(w.metrics.lost, 0);
    world_close(&w);
}
END_TEST

/*
 * After the loss of data a release and a renewal find no key: the release is done, and the renewal reports no loss yet.
 */
START_TEST(grace_is_no_loss)
{
    struct world w;
    struct flight f;
    uint64_t s, id;

    s = world_holding(&w);
    take(&w, s, "b");
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GRACE);
    expect_reply(&w, id, CORE_LEFT);
    pass(&w, REPORTED_30S / 3);
    f = expect_op(&w, CORE_EXTEND, "b");
    redis_says(&w, f, CORE_GRACE);
    expect_state(&w, "b", "held");
    ck_assert_uint_eq(w.metrics.lost, 0);
    reclaims(&w, 9);
    redis_says(&w, expect_reclaim(&w, "b", 1, false), CORE_OK);
    reported_reclaimed(&w, 1, 9);
    world_close(&w);
}
END_TEST

/* Redis answers GRACE to all attempts in flight. */
static void
answer_grace(struct world *w)
{
    struct flight f[8];
    size_t n = 0;

    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        if (!w->flights[i].seen && w->flights[i].verb == CORE_ACQUIRE) {
            f[n++] = expect_op(w, CORE_ACQUIRE, w->flights[i].key);
        }
    }
    while (n > 0) {
        redis_says(w, f[--n], CORE_GRACE, .pttl_us = SEC(30));
    }
}

/* In a grace period a waiter is answered GRACE, and asks again at its end; a NOWAIT request is refused. */
START_TEST(waiters_wake_when_it_is_over)
{
    struct world w;
    struct flight f;
    uint64_t s, t, id, no;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .wait_us = SEC(60));
    f = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, f, CORE_GRACE, .pttl_us = SEC(30));
    no = lock(&w, t, "b", .nowait = true);
    while (w.answers_n == 0) { /* up to its patience */
        ck_assert_int_le(w.now_us, w.flights[0].at_us + SEC(1));
        answer_grace(&w);
        pass(&w, MS(1));
    }
    expect_reply(&w, no, CORE_UNAVAILABLE);
    answer_grace(&w);
    for (int i = 0; i < 3; i++) { /* also now and then, because the message about the end may be lost */
        pass(&w, SEC(6));
        answer_grace(&w);
    }
    grace_over(&w);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* The grace period ends while an attempt is in flight, whose answer may be from before: the core asks again, soon. */
START_TEST(over_during_an_attempt)
{
    struct world w;
    struct flight f;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a");
    f = expect_op(&w, CORE_ACQUIRE, "a");
    grace_over(&w);
    redis_says(&w, f, CORE_GRACE, .pttl_us = SEC(30));
    pass(&w, MS(20));
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* A clock has jumped: each lock is verified before requests about it are answered, and lost if Redis has it no more. */
START_TEST(a_jump_is_confirmed)
{
    struct world w;
    struct flight a, b;
    uint64_t s, once, id;

    s = world_holding(&w);
    take(&w, s, "b");
    suspects(&w);
    a = expect_op(&w, CORE_EXTEND, "a");
    b = expect_op(&w, CORE_EXTEND, "b");
    ck_assert(!a.op.exact && a.op.lease_us == SEC(30));
    once = lock(&w, s, "a", .once = true);
    quiet(&w);
    suspects(&w); /* another jump: the verify in flight may have run before it */
    redis_says(&w, a, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    expect_reply(&w, once, CORE_GRANTED);
    redis_says(&w, b, CORE_GONE_IN_REDIS);
    expect_news(&w, CORE_NEWS_LOST, "b");
    id = unlock(&w, s, "b");
    expect_reply(&w, id, CORE_WAS_LOST);
    reported_reclaimed(&w, 0, 0);

    suspects(&w); /* an unanswered verify is repeated */
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    once = lock(&w, s, "a", .once = true);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    expect_reply(&w, once, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Two thirds of a lease without a confirmed renewal: one event JEOPARDY, and one more for the next lease. */
START_TEST(jeopardy_once_per_lease)
{
    struct world w;
    struct flight f;
    int64_t began_us;

    world_holding(&w);
    for (unsigned round = 1; round <= 3; round++) {
        began_us = w.now_us;
        while (w.now_us < began_us + SEC(25)) {
            unsigned before = w.now_us < began_us + REPORTED_30S / 3 * 2 ? round - 1 : round;

            if (w.flights_n > w.flights_seen) {
                redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_DOWN);
            }
            ck_assert_uint_eq(count_news(&w, CORE_NEWS_JEOPARDY), before);
            pass(&w, MS(10));
        }
        ck_assert_uint_eq(w.metrics.jeopardies, round);
        while (w.flights_n == w.flights_seen || w.flights[w.flights_n - 1].seen) {
            pass(&w, MS(10));
        }
        f = expect_op(&w, CORE_EXTEND, "a");
        f.at_us = w.now_us;
        redis_says(&w, f, CORE_OK);
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
    world_close(&w);
}
END_TEST

/* A majority of a quorum may have the lock for less time than reported: JEOPARDY precedes LOST all the same. */
START_TEST(jeopardy_before_an_end_that_has_come_nearer)
{
    struct world w;
    struct flight f;
    int64_t ends_us;

    world_holding(&w);
    pass(&w, REPORTED_30S / 3);
    f = expect_op(&w, CORE_EXTEND, "a");
    ends_us = w.now_us + SEC(12);
    redis_says(&w, f, CORE_DOWN, .deadline_max_us = ends_us);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, ends_us);
    while (w.now_us < ends_us - MS(10)) {
        bool near = w.now_us >= ends_us - SEC(10);

        ck_assert_uint_eq(count_news(&w, CORE_NEWS_JEOPARDY), near);
        if (w.flights_n > w.flights_seen) {
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_DOWN);
        }
        pass(&w, MS(10));
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
    pass(&w, MS(10));
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

/* A lock whose renewals succeed is never in jeopardy. */
START_TEST(no_jeopardy)
{
    struct world w;

    world_holding(&w);
    for (int i = 0; i < 20; i++) {
        pass(&w, REPORTED_30S / 3);
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    }
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_JEOPARDY), 0);
    world_close(&w);
}
END_TEST

/* Of many locks each is reclaimed by itself, and the daemon reports once, at the end. */
START_TEST(many)
{
    struct world w;
    struct flight f[300];
    uint64_t s;
    char name[16];

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "n%03d", i);
        take(&w, s, name);
    }
    reclaims(&w, 9);
    for (size_t i = 0; i < 300; i++) {
        struct flight *at = &w.flights[w.flights_seen + i];

        ck_assert(at->verb == CORE_ACQUIRE && at->op.reclaim);
        at->seen = true;
        f[i] = *at;
        f[i].op.key = slice_of(f[i].key);
    }
    for (size_t i = 0; i < 300; i++) {
        reported_reclaimed(&w, 0, 0);
        redis_says(&w, f[i], i % 3 ? CORE_OK : CORE_TAKEN, .pttl_us = SEC(1));
    }
    reported_reclaimed(&w, 1, 9);
    ck_assert_uint_eq(w.metrics.reclaims, 200);
    ck_assert_uint_eq(w.metrics.lost, 100);
    world_close(&w);
}
END_TEST

/* The lease ends during its reclaim, and the lock is released: the waiter here is next, at once. */
START_TEST(next_after_an_overtaken_reclaim)
{
    struct world w;
    uint64_t id;

    world_holding(&w);
    id = lock(&w, session(&w), "a");
    reclaims(&w, 9);
    expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, REPORTED_30S);
    expect_news(&w, CORE_NEWS_LOST, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/*
 * The lease ends during the reclaim, which may have run, and may still run. The release is repeated until Redis answers
 * it, also after the end of the lease: only Redis knows when the attempt can run no more, as the guard goes by its
 * clock.
 */
START_TEST(a_reclaimed_and_lost_hold_is_released)
{
    static const int64_t wait_us[] = {SEC(2), SEC(28), SEC(2)}; /* the old lease has ended; then that of the reclaim */
    struct world w;
    struct flight op;

    world_holding(&w);
    reclaims(&w, 9);
    expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, REPORTED_30S);
    expect_news(&w, CORE_NEWS_LOST, "a");
    for (int i = 0; i < 3; i++) {
        op = expect_op(&w, CORE_RELEASE, "a");
        pass(&w, wait_us[i]);
        expect_state(&w, "a", "freeing");
        redis_says(&w, op, CORE_DOWN);
        pass(&w, SEC(1));
    }
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_state(&w, "a", "lost");
    world_close(&w);
}
END_TEST

/* A lock is lost during its reclaim, and the loss is reported, while the reclaim may still run. */
static uint64_t
reported_while_late(struct world *w)
{
    uint64_t s = world_holding(w);

    reclaims(w, 9);
    expect_op(w, CORE_ACQUIRE, "a");
    pass(w, REPORTED_30S);
    expect_news(w, CORE_NEWS_LOST, "a");
    redis_says(w, expect_op(w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(w, unlock(w, s, "a"), CORE_WAS_LOST);
    return s;
}

/* The next hold has nothing of the lost one: its release is an event again. */
START_TEST(the_hold_behind_one_that_was_lost)
{
    struct world w;
    uint64_t s = reported_while_late(&w);

    take(&w, s, "a");
    pass(&w, SEC(5));
    give(&w, s, "a");
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 1);
    world_close(&w);
}
END_TEST

/* ... nor has a wait that ends without a grant. */
START_TEST(the_wait_behind_one_that_was_lost)
{
    struct world w;
    uint64_t s = reported_while_late(&w), id, other, gives;
    struct flight op;

    id = lock(&w, s, "a", .wait_us = SEC(4));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    other = lock(&w, s, "b");
    gives = unlock(&w, s, "a"); /* waits for `other`: the claim stays until then */
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3));
    pass(&w, SEC(3) + MS(1));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30)); /* the reclaim can run no more */
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    redis_grants(&w, "b", other);
    expect_reply(&w, gives, CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/*
 * A late reclaim would be a hold of the other sort, which would refuse the LOCK: it is released before the LOCK asks.
 */
START_TEST(the_other_sort_behind_one_that_was_lost)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .kind = KIND_RW, .shared = true));
    reclaims(&w, 9);
    expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, REPORTED_30S);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    id = lock(&w, s, "a", .kind = KIND_RW);
    quiet(&w);
    pass(&w, 2 * world_conf.op_timeout_us);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/*
 * The reclaim may put the key back after the release: it is released again; LOST is reported without waiting for that.
 */
START_TEST(an_assertion_that_runs_late_is_swept_up)
{
    for (int reported = 0; reported < 2; reported++) {
        struct world w;
        uint64_t s = world_holding(&w);

        reclaims(&w, 9);
        expect_op(&w, CORE_ACQUIRE, "a");
        pass(&w, REPORTED_30S);
        expect_news(&w, CORE_NEWS_LOST, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
        expect_state(&w, "a", "lost");
        if (reported) {
            expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
            expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
        }
        pass(&w, 2 * world_conf.op_timeout_us);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert(reported ? !known(&w, "a") : strcmp(view_of(&w, "a").state, "lost") == 0);
        expect_reply(&w, unlock(&w, s, "a"), reported ? CORE_NOT_HELD : CORE_WAS_LOST);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 0);
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {nothing_held_is_reclaimed_at_once, every_kind_is_asserted_as_it_is, both_sorts_of_holds,
                            readers_and_permits_one_by_one, requests_wait, a_key_of_another_owner_is_lost,
                            again_until_the_deadline, again_and_there, an_explicit_lease_is_not_lengthened,
                            a_second_loss_during_the_first, gone_before_a_late_assertion,
                            a_reclaim_goes_behind_operations_in_flight, the_owner_ends_meanwhile,
                            the_longer_of_two_leases, a_released_hold_is_not_lost, grace_is_no_loss,
                            waiters_wake_when_it_is_over, over_during_an_attempt, a_jump_is_confirmed,
                            jeopardy_once_per_lease, jeopardy_before_an_end_that_has_come_nearer, no_jeopardy, many,
                            next_after_an_overtaken_reclaim, a_reclaimed_and_lost_hold_is_released,
                            an_assertion_that_runs_late_is_swept_up, the_hold_behind_one_that_was_lost,
                            the_wait_behind_one_that_was_lost, the_other_sort_behind_one_that_was_lost};

    return suite_main("core, reclaim", tests, sizeof(tests) / sizeof(tests[0]));
}
