/*
 * test_core_multilock.c -- MLOCK, MUNLOCK, MRENEW: all names or none, in one order for all owners, with one answer.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

/* s takes the free names "a" and "b"; Redis grants them in the order of their keys. Returns the answer. */
static const struct core_reply *
takes_two(struct world *w, uint64_t s)
{
    uint64_t id = mlock(w, s, "a b");

    redis_says(w, expect_op(w, CORE_ACQUIRE, "a"), CORE_OK);
    return redis_grants(w, "b", id);
}

/* The next operation releases all holds of this name. */
static void
expect_freed(struct world *w, const char *name)
{
    struct flight op = expect_op(w, CORE_RELEASE, name);

    ck_assert(op.op.holds == 0 && op.op.other_sort == 0);
    redis_says(w, op, CORE_OK);
    ck_assert(!known(w, name) || strcmp(view_of(w, name).state, "held") != 0);
}

/* Both names are released, in either order. */
static void
expect_both_freed(struct world *w, const char *one, const char *other)
{
    bool swapped = false;
    struct flight first, second;

    for (size_t i = w->flights_n; i > w->flights_seen; i--) {
        const struct flight *f = &w->flights[i - 1];

        swapped = f->seen ? swapped : strcmp(f->key, one) != 0;
    }
    first = expect_op(w, CORE_RELEASE, swapped ? other : one);
    second = expect_op(w, CORE_RELEASE, swapped ? one : other);
    ck_assert(first.op.holds == 0 && second.op.holds == 0);
    redis_says(w, first, CORE_OK);
    redis_says(w, second, CORE_OK);
    ck_assert(!known(w, one) || strcmp(view_of(w, one).state, "held") != 0);
    ck_assert(!known(w, other) || strcmp(view_of(w, other).state, "held") != 0);
}

/* The names are acquired in the order of their keys, and answered in the order of the request, each with its token. */
START_TEST(all)
{
    struct world w;
    const struct core_reply *r;
    uint64_t s, id, token[3];
    static const char *const order[] = {"z", "b", "y"};

    world_open(&w);
    s = session(&w);
    id = mlock(&w, s, "y:key3 z:key1 b:key2", .full = true);
    for (int i = 0; i < 3; i++) {
        char key[] = "key0";

        key[3] = (char)('1' + i);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, key), CORE_OK);
        token[i] = w.token;
        ck_assert_uint_eq(view_of(&w, order[i]).token, token[i]);
    }
    r = expect_reply(&w, id, CORE_GRANTED);
    ck_assert(r->full && r->parts == 3 && r->session == s);
    ck_assert_str_eq(part(r, 0)->name, "y");
    ck_assert_str_eq(part(r, 1)->name, "z");
    ck_assert_str_eq(part(r, 2)->name, "b");
    ck_assert_uint_eq(part(r, 0)->part.token, token[2]);
    ck_assert_uint_eq(part(r, 1)->part.token, token[0]);
    ck_assert_uint_eq(part(r, 2)->part.token, token[1]);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(part(r, (size_t)i)->part.answer, CORE_GRANTED);
        ck_assert_int_eq(part(r, (size_t)i)->part.lease_us, REPORTED_30S);
        ck_assert_uint_eq(part(r, (size_t)i)->part.owner, s);
        ck_assert_uint_eq(part(r, (size_t)i)->part.holds, 1);
    }
    ck_assert_uint_eq(core_totals(w.core).held_claims, 3);
    ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    world_close(&w);
}
END_TEST

START_TEST(one_name)
{
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    mlock(&w, s, "a");
    ck_assert_uint_eq(redis_grants(&w, "a", w.request)->parts, 1);
    munlock(&w, s, "a");
    ck_assert_uint_eq(redis_releases(&w, "a", w.request)->parts, 1);
    world_close(&w);
}
END_TEST

/* The wait ends at the second name: the first one is released, and the third one was never acquired. */
START_TEST(timeout_undoes)
{
    struct world w;
    uint64_t s, t, id, next;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "b");
    id = mlock(&w, s, "c b a", .wait_us = SEC(2));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    ck_assert_uint_eq(core_totals(w.core).waiters, 2);
    next = lock(&w, session(&w), "a");
    pass(&w, SEC(2) - 1);
    quiet(&w);
    pass(&w, 1);
    ck_assert_str_eq(w.answers[w.answers_n - 1].name, "b");
    expect_reply(&w, id, CORE_NOT_GRANTED);
    expect_freed(&w, "a");
    redis_grants(&w, "a", next);
    ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    ck_assert(!known(&w, "c"));
    world_close(&w);
}
END_TEST

/* One wait is for all names: the first name takes so much of it that none is left for the second. */
START_TEST(one_wait_for_all)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "a");
    take(&w, t, "b");
    id = mlock(&w, s, "a b", .wait_us = SEC(2));
    pass(&w, MS(1900));
    give(&w, t, "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    pass(&w, MS(100));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    expect_freed(&w, "a");
    world_close(&w);
}
END_TEST

START_TEST(nowait)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = mlock(&w, s, "a b", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    redis_grants(&w, "b", id);
    expect_reply(&w, mlock(&w, t, "a c", .nowait = true), CORE_NOT_GRANTED);
    id = mlock(&w, t, "a0 b", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a0"), CORE_OK);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    expect_freed(&w, "a0");
    ck_assert_uint_eq(core_totals(w.core).held_claims, 2);
    world_close(&w);
}
END_TEST

/* Any error of one name is the answer for all, with that name. */
START_TEST(error_undoes)
{
    struct world w;
    const struct core_reply *r;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = mlock(&w, s, "a b c");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_FOREIGN, .pttl_us = SEC(1));
    r = expect_reply(&w, id, CORE_WRONG_KIND);
    ck_assert_str_eq(w.answers[w.answers_n - 1].name, "b");
    ck_assert_uint_eq(r->hops, 0);
    expect_freed(&w, "a");
    ck_assert_uint_eq(core_totals(w.core).locks, 0);
    world_close(&w);
}
END_TEST

/* The MLOCK is refused before it acquires anything: the reply names the name to blame. */
START_TEST(refused_at_the_door)
{
    struct core_conf conf = world_conf;
    struct world w;
    uint64_t s, id;

    conf.locks_max = 3;
    world_open_conf(&w, &conf);
    s = session(&w);
    take(&w, s, "x");
    lock(&w, session(&w), "b", .kind = KIND_SIMPLE);
    redis_grants(&w, "b", w.request);
    id = mlock(&w, s, "c b a");
    ck_assert_str_eq(w.answers[w.answers_n - 1].name, "b");
    expect_reply(&w, id, CORE_WRONG_KIND);
    id = mlock(&w, s, "f e d");
    ck_assert_str_eq(w.answers[w.answers_n - 1].name, "f");
    expect_reply(&w, id, CORE_TOO_MANY_LOCKS);
    ck_assert_uint_eq(core_totals(w.core).locks, 2);
    ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    drains(&w);
    expect_reply(&w, mlock(&w, s, "d e"), CORE_DRAINING);
    world_close(&w);
}
END_TEST

/* Two owners that request the same names in different orders do not wait for each other. */
START_TEST(no_deadlock_of_two)
{
    struct world w;
    struct flight op, a;
    uint64_t s, t, first, second;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    first = mlock(&w, s, "a b");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    second = mlock(&w, t, "b a");
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "b", first);
    munlock(&w, s, "b a");
    op = expect_op(&w, CORE_RELEASE, "b");
    a = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    redis_says(&w, a, CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    redis_grants(&w, "b", second);
    world_close(&w);
}
END_TEST

/* An MLOCK and a LOCK can form a cycle: the victim's reply has it, and an MLOCK as the victim releases its names. */
START_TEST(deadlock)
{
    struct world w;
    struct flight op;
    const struct core_reply *r;
    uint64_t s, t, id, single;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "b");
    id = mlock(&w, s, "a b");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    single = lock(&w, t, "a");
    r = expect_reply(&w, single, CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 2);
    give(&w, t, "b");
    redis_grants(&w, "b", id);
    single = lock(&w, t, "b");
    gone(&w, s);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    redis_grants(&w, "b", single);
    redis_says(&w, op, CORE_OK);

    s = session(&w); /* now the MLOCK closes the cycle */
    take(&w, s, "c");
    lock(&w, t, "c");
    id = mlock(&w, s, "a b");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    r = expect_reply(&w, id, CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 2);
    ck_assert_str_eq(hop(r, 0)->name, "b");
    ck_assert_str_eq(hop(r, 1)->name, "c");
    expect_freed(&w, "a");
    world_close(&w);
}
END_TEST

/* A hold that the owner had before the MLOCK stays, or is released with the hold of the MLOCK. */
static void
expect_earlier_hold(struct world *w, bool stays)
{
    struct flight op = expect_op(w, CORE_RELEASE, "a");

    if (stays) {
        ck_assert_uint_eq(op.op.holds, 1);
    } else { /* first the release of the MLOCK's hold, which the end of the owner overtakes */
        op = expect_op(w, CORE_RELEASE, "a");
        ck_assert_uint_eq(op.op.holds, 0);
    }
    redis_says(w, op, CORE_OK);
}

/*
 * The session ends in the middle of its MLOCK: granted names are released, and no name is waited for any more. A named
 * owner keeps the holds that it had before.
 */
START_TEST(session_goes)
{
    static const char *const owners[] = {NULL, "alice"};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        struct flight op;
        uint64_t s, t;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        lock(&w, s, "a", .owner = owners[i]);
        redis_grants(&w, "a", w.request);
        take(&w, t, "c");
        mlock(&w, s, "a b c d", .owner = owners[i]);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
        gone(&w, s);
        op = expect_op(&w, CORE_RELEASE, "b");
        ck_assert_uint_eq(op.op.holds, 0);
        expect_earlier_hold(&w, owners[i] != NULL);
        redis_says(&w, op, CORE_OK);
        ck_assert(!known(&w, "b"));
        ck_assert_int_eq(known(&w, "a"), owners[i] != NULL);
        ck_assert_uint_eq(view_of(&w, "c").waiters, 0);
        ck_assert_uint_eq(w.metrics.cancelled, 1);
        if (owners[i] != NULL) { /* the position for c is kept for a while */
            pass(&w, SEC(2));
            ck_assert(!known(&w, "d"));
            ck_assert_uint_eq(view_of(&w, "a").holds, 1);
            pass(&w, SEC(8) - MS(50));
            expect_op(&w, CORE_EXTEND, "c");
            expect_op(&w, CORE_EXTEND, "a");
            pass(&w, MS(50));
            expect_op(&w, CORE_RELEASE, "a"); /* the owner's grace has ended */
        }
        world_close(&w);
    }
}
END_TEST

/* After EOF the client cannot request anything: the MLOCK must not go on waiting. */
START_TEST(eof_undoes)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, session(&w), "b");
    id = mlock(&w, s, "a b c");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    eof(&w, s);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    expect_freed(&w, "a");
    world_close(&w);
}
END_TEST

/* The names that are granted are renewed until the last one is granted; then the LEASE runs for all of them. */
START_TEST(lease_begins_when_whole)
{
    struct world w;
    struct flight op;
    const struct core_reply *r;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "b");
    id = mlock(&w, s, "a b", .lease_us = SEC(9));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    for (int i = 0; i < 2; i++) {
        pass(&w, SEC(3));
        op = expect_op(&w, CORE_EXTEND, "a");
        ck_assert(op.op.lease_us == SEC(9) && !op.op.exact);
        redis_says(&w, op, CORE_OK);
    }
    pass(&w, SEC(2));
    give(&w, t, "b");
    r = redis_grants(&w, "b", id);
    ck_assert_int_eq(part(r, 1)->part.lease_us, reported(SEC(9)));
    ck_assert_int_ge(part(r, 0)->part.lease_us, reported(SEC(9)) * 2 / 3); /* the lease that is certain already */
    ck_assert(!view_of(&w, "a").renewed && !view_of(&w, "b").renewed);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(op.op.lease_us == SEC(9) && !op.op.exact);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + reported(SEC(9)));
    pass(&w, reported(SEC(9)) - 1);
    quiet(&w);
    pass(&w, 1);
    ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "lease over");
    ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "b")->reason, "lease over");
    expect_op(&w, CORE_RELEASE, "b");
    expect_op(&w, CORE_RELEASE, "a");
    world_close(&w);
}
END_TEST

/* So is a name that the owner held before with a LEASE; if the MLOCK fails, the name has a LEASE again. */
START_TEST(lease_of_a_reentry)
{
    for (int fails = 0; fails < 2; fails++) {
        struct world w;
        struct flight op;
        uint64_t s, t, id;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        redis_grants(&w, "b", lock(&w, t, "b", .lease_us = SEC(60)));
        redis_grants(&w, "a", lock(&w, s, "a", .lease_us = SEC(9)));
        id = mlock(&w, s, "a b", .lease_us = SEC(9), .wait_us = SEC(8));
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        for (int i = 0; i < 2; i++) {
            pass(&w, SEC(3));
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
        }
        if (fails) {
            pass(&w, SEC(2));
            expect_reply(&w, id, CORE_NOT_GRANTED);
            op = expect_op(&w, CORE_RELEASE, "a");
            ck_assert_uint_eq(op.op.holds, 1);
        } else {
            give(&w, t, "b");
            redis_grants(&w, "b", id);
            op = expect_op(&w, CORE_EXTEND, "a");
        }
        redis_says(&w, op, CORE_OK);
        ck_assert(!view_of(&w, "a").renewed);
        pass(&w, reported(SEC(9)) - 1);
        ck_assert(!has_op(&w, CORE_EXTEND, "a"));
        pass(&w, 1);
        ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "lease over");
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* ... also after an MLOCK without LEASE: an UNLOCK that leaves holds begins the former lease anew. */
START_TEST(lease_after_a_failed_reentry)
{
    static const int64_t leases_us[] = {SEC(9), SEC(60)}; /* shorter, and longer than the one that the MLOCK asks for */

    for (size_t i = 0; i < 2; i++) {
        int64_t lease_us = leases_us[i];
        struct world w;
        uint64_t s, t, id;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        redis_grants(&w, "b", lock(&w, t, "b", .lease_us = SEC(60)));
        redis_grants(&w, "a", lock(&w, s, "a", .lease_us = lease_us));
        redis_grants(&w, "a", lock(&w, s, "a", .lease_us = lease_us));
        id = mlock(&w, s, "a b", .nowait = true);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_NOT_GRANTED);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert(!view_of(&w, "a").renewed);
        pass(&w, SEC(25)); /* the watchdog would have renewed it by now */
        ck_assert(!has_op(&w, CORE_EXTEND, "a"));
        id = unlock(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
        ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + reported(lease_us));
        pass(&w, reported(lease_us));
        ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "lease over");
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* One name is lost while the MLOCK waits for another: the MLOCK fails with LOST, and its other names are released. */
START_TEST(lost_member)
{
    static const char *const missing[] = {"a", "b"};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        uint64_t s, t, u, id;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        u = session(&w);
        take(&w, t, "c");
        id = mlock(&w, s, "a b c");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
        break_name(&w, u, missing[i]);
        redis_says(&w, expect_op(&w, CORE_BREAK_KEY, missing[i]), CORE_OK, .expiry_ms = 1);
        expect_reply(&w, w.request, CORE_LEFT);
        give(&w, t, "c");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "c"), CORE_OK);
        ck_assert_str_eq(w.answers[w.answers_n - 1].name, missing[i]);
        expect_reply(&w, id, CORE_WAS_LOST);
        for (int n = 0; n < 2; n++) {
            struct flight *f = &w.flights[w.flights_n - 2 + (size_t)n];

            ck_assert(f->verb == CORE_RELEASE && strcmp(f->key, missing[i]) != 0);
            f->seen = true;
        }
        redis_says(&w, w.flights[w.flights_n - 2], CORE_OK);
        redis_says(&w, w.flights[w.flights_n - 2], CORE_OK);
        ck_assert_uint_eq(core_totals(w.core).held_claims, 0);
        expect_reply(&w, munlock(&w, s, "a b c"), CORE_LEFT); /* the loss was reported already */
        for (size_t n = 0; n < 3; n++) {
            ck_assert_int_eq(part(&w.answers[w.answers_n - 1].reply, n)->part.answer, CORE_NOT_HELD);
        }
        world_close(&w);
    }
}
END_TEST

/* As above, and the same owner has repeated the request for the last name on another connection. */
START_TEST(lost_member_and_a_repetition)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, again;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "b");
    id = mlock(&w, s, "a b", .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    again = lock(&w, t, "b", .owner = "alice", .once = true);
    break_name(&w, t, "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1);
    expect_reply(&w, w.request, CORE_LEFT);
    give(&w, t, "b");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
    expect_reply(&w, id, CORE_WAS_LOST);
    op = expect_op(&w, CORE_RELEASE, "b");
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "b", again);
    world_close(&w);
}
END_TEST

/* A `fresh` MLOCK (the acquire script of redlock) asks for new grants: an unreported loss is not its answer. */
START_TEST(fresh_after_a_loss)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "b", .owner = "host", .fresh = true, .nowait = true, .lease_us = SEC(1));
    redis_grants(&w, "b", id);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
    id = mlock(&w, s, "a b c", .owner = "host", .fresh = true, .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "c"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* The holds that the owner had before stay, whether the MLOCK added a hold (without ONCE) or not. */
START_TEST(undo_leaves_earlier_holds)
{
    static const bool once[] = {false, true};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        uint64_t s, t, id;

        s = world_holding(&w);
        t = session(&w);
        take(&w, t, "b");
        id = mlock(&w, s, "a b", .nowait = true, .once = once[i]);
        if (!once[i]) {
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        }
        expect_reply(&w, id, CORE_NOT_GRANTED);
        if (!once[i]) {
            struct flight op = expect_op(&w, CORE_RELEASE, "a");

            ck_assert_uint_eq(op.op.holds, 1);
            redis_says(&w, op, CORE_OK);
        }
        quiet(&w);
        ck_assert_uint_eq(view_of(&w, "a").holds, 1);
        expect_state(&w, "a", "held");
        give(&w, s, "a");
        world_close(&w);
    }
}
END_TEST

/* So does a hold by a wait that outlived the LOCK that it repeated: the MLOCK begins behind that wait. */
START_TEST(undo_leaves_the_grant_of_an_earlier_wait)
{
    struct world w;
    struct flight op;
    uint64_t s, t, first, joined, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "b");
    first = lock(&w, t, "b", .wait_us = SEC(1));
    joined = lock(&w, t, "b", .once = true);
    pass(&w, SEC(1));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    id = mlock(&w, t, "a b");
    quiet(&w);
    give(&w, s, "b");
    redis_grants(&w, "b", joined);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "b");
    break_name(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1);
    expect_reply(&w, w.request, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_WAS_LOST);
    op = expect_op(&w, CORE_RELEASE, "b");
    ck_assert_uint_eq(op.op.holds, 1);
    redis_says(&w, op, CORE_OK);
    quiet(&w);
    ck_assert_uint_eq(view_of(&w, "b").holds, 1);
    expect_state(&w, "b", "held");
    world_close(&w);
}
END_TEST

START_TEST(munlock_and_mrenew)
{
    struct world w;
    struct flight op[2];
    const struct core_reply *r;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    takes_two(&w, s);
    take(&w, t, "c");
    id = mrenew(&w, s, "x b c a", SEC(60));
    op[0] = expect_op(&w, CORE_EXTEND, "b");
    op[1] = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op[1], CORE_OK);
    redis_says(&w, op[0], CORE_OK);
    r = expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(r->parts, 4);
    ck_assert_int_eq(part(r, 0)->part.answer, CORE_NOT_HELD);
    ck_assert_int_eq(part(r, 1)->part.answer, CORE_LEFT);
    ck_assert_int_eq(part(r, 1)->part.left, reported(SEC(60)) / US_PER_MS);
    ck_assert_int_eq(part(r, 2)->part.answer, CORE_NOT_HELD);
    ck_assert_str_eq(part(r, 2)->name, "c");
    ck_assert_int_eq(part(r, 3)->part.answer, CORE_LEFT);
    id = munlock(&w, s, "a c b x");
    op[0] = expect_op(&w, CORE_RELEASE, "a");
    op[1] = expect_op(&w, CORE_RELEASE, "b");
    redis_says(&w, op[0], CORE_OK);
    redis_says(&w, op[1], CORE_GONE_IN_REDIS);
    r = expect_reply(&w, id, CORE_LEFT);
    ck_assert_int_eq(part(r, 0)->part.answer, CORE_LEFT);
    ck_assert_int_eq(part(r, 0)->part.left, 0);
    ck_assert_int_eq(part(r, 1)->part.answer, CORE_NOT_HELD);
    ck_assert_int_eq(part(r, 2)->part.answer, CORE_WAS_LOST);
    ck_assert_int_eq(part(r, 3)->part.answer, CORE_NOT_HELD);
    r = expect_reply(&w, munlock(&w, s, "a b"), CORE_LEFT);
    ck_assert_int_eq(part(r, 0)->part.answer, CORE_NOT_HELD);
    ck_assert_int_eq(part(r, 1)->part.answer, CORE_NOT_HELD);
    expect_state(&w, "c", "held");
    world_close(&w);
}
END_TEST

/* The session goes during its MUNLOCK: no reply is sent, and the releases under way are completed. */
START_TEST(munlock_of_a_session_that_goes)
{
    struct world w;
    struct flight a, b;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, t, "a", .owner = "alice"));
    redis_grants(&w, "b", lock(&w, t, "b", .owner = "alice"));
    /* of another kind: its release waits for those before it */
    redis_grants(&w, "c", lock(&w, t, "c", .owner = "alice", .kind = KIND_SIMPLE));
    munlock(&w, s, "a b c", .owner = "alice");
    a = expect_op(&w, CORE_RELEASE, "a");
    b = expect_op(&w, CORE_RELEASE, "b");
    gone(&w, s);
    redis_says(&w, a, CORE_OK);
    redis_says(&w, b, CORE_OK);
    quiet(&w);
    expect_state(&w, "c", "held");
    world_close(&w);
}
END_TEST

/* Each name may be of another kind, and an owner may have several permits of one name. */
START_TEST(kinds)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    for (int i = 0; i < 2; i++) {
        id = mlock(&w, s, "p q", .kind = KIND_SEMAPHORE, .limit = 2);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "p"), CORE_OK);
        redis_grants(&w, "q", id);
    }
    ck_assert_uint_eq(view_of(&w, "p").holders, 2);
    expect_reply(&w, mlock(&w, t, "p q", .kind = KIND_SEMAPHORE, .limit = 2, .nowait = true), CORE_NOT_GRANTED);
    id = mlock(&w, t, "o q", .kind = KIND_SEMAPHORE, .limit = 2, .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "o");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    op = expect_op(&w, CORE_RELEASE, "o");
    redis_says(&w, op, CORE_OK);
    id = mlock(&w, t, "r r2", .kind = KIND_RW, .shared = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "r"), CORE_OK);
    redis_grants(&w, "r2", id);
    ck_assert(view_of(&w, "r").shared);
    world_close(&w);
}
END_TEST

/* A failed MLOCK releases its own permit, not one that the owner had before. */
START_TEST(undo_of_a_permit)
{
    struct world w;
    struct flight own, op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, t, "q");
    lock(&w, s, "p", .kind = KIND_SEMAPHORE, .limit = 5, .owner = "alice");
    own = expect_op(&w, CORE_ACQUIRE, "p");
    redis_says(&w, own, CORE_OK);
    expect_reply(&w, w.request, CORE_GRANTED);
    id = lock(&w, s, "q", .nowait = true);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    mlock(&w, s, "p z", .kind = KIND_SEMAPHORE, .limit = 5, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "p");
    redis_says(&w, op, CORE_OK);
    id = op.op.claim;
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "z"), CORE_FOREIGN, .pttl_us = -1);
    expect_reply(&w, w.request, CORE_WRONG_KIND);
    op = expect_op(&w, CORE_RELEASE, "p");
    ck_assert_uint_eq(op.op.claim, id);
    ck_assert_uint_ne(own.op.claim, id);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(view_of(&w, "p").holders, 1);
    world_close(&w);
}
END_TEST

/* The attempt for the last name is unanswered when the wait ends: its name is released with the others. */
START_TEST(unanswered)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = mlock(&w, s, "a b", .wait_us = MS(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "b");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(10));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    expect_both_freed(&w, "a", "b");
    world_close(&w);
}
END_TEST

/* The core ends in the middle of the largest MLOCK or MUNLOCK, in each state, and frees its memory. */
START_TEST(core_ends)
{
    for (int stop = 0; stop < 4; stop++) {
        struct world w;
        char names[CORE_MULTILOCK_MAX * 4 + 1] = "";
        uint64_t s;

        world_open(&w);
        s = session(&w);
        for (int i = 0; i < CORE_MULTILOCK_MAX; i++) {
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%sn%02d", i == 0 ? "" : " ", i);
        }
        mlock(&w, s, names);
        for (int i = 0; i < stop * 32 && i < CORE_MULTILOCK_MAX; i++) {
            char name[] = "n00";

            name[1] = (char)('0' + i / 10);
            name[2] = (char)('0' + i % 10);
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, name), CORE_OK);
        }
        if (stop == 2) {
            ck_assert_uint_eq(expect_reply(&w, w.request, CORE_GRANTED)->parts, CORE_MULTILOCK_MAX);
            munlock(&w, s, names);
        } else if (stop == 1) {
            world_step(&w, &(struct core_event){.type = CORE_SESSION_GONE, .session = s});
        }
        core_free(&w.core);
        free(w.flights);
        free(w.watch);
        for (size_t i = 0; i < w.answers_n; i++) {
            free(w.answers[i].detail);
        }
        free(w.answers);
        free(w.news);
        stop += stop == 2;
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        all,
        one_name,
        timeout_undoes,
        one_wait_for_all,
        nowait,
        error_undoes,
        refused_at_the_door,
        no_deadlock_of_two,
        deadlock,
        session_goes,
        eof_undoes,
        lease_begins_when_whole, lease_of_a_reentry, lease_after_a_failed_reentry,
        lost_member,
        lost_member_and_a_repetition,
        fresh_after_a_loss,
        undo_leaves_earlier_holds,
        undo_leaves_the_grant_of_an_earlier_wait,
        munlock_and_mrenew,
        munlock_of_a_session_that_goes,
        kinds,
        undo_of_a_permit,
        unanswered,
        core_ends,
    };

    return suite_main("core, bundles", tests, sizeof(tests) / sizeof(tests[0]));
}
