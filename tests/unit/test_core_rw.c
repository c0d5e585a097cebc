/*
 * test_core_rw.c -- shared and exclusive holds of one name: which owners may hold it together, which wait, and what is
 * released in Redis.
 */
#include "tests/unit/core_world.h"

#define RW .kind = KIND_RW
#define READS RW, .shared = true

/* s gets "a" shared or exclusively at once; returns the token. */
static uint64_t
enters(struct world *w, uint64_t s, bool shared)
{
    uint64_t id = lock(w, s, "a", RW, .shared = shared);
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert(op.op.shared == shared && !op.op.reentry && op.op.holds == 1);
    redis_says(w, op, CORE_OK);
    return expect_reply(w, id, CORE_GRANTED)->token;
}

/* s gives back its only hold. */
static void
leaves(struct world *w, uint64_t s)
{
    uint64_t id = unlock(w, s, "a");
    struct flight op = expect_op(w, CORE_RELEASE, "a");

    ck_assert(op.op.holds == 0 && op.op.other_sort == 0 && !op.op.shared);
    redis_says(w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(w, id, CORE_LEFT)->left, 0);
}

/* Readers whose attempts leave together. */
static void
let_in(struct world *w, const uint64_t *id, int n)
{
    struct flight op[8];

    for (int i = 0; i < n; i++) {
        op[i] = expect_op(w, CORE_ACQUIRE, "a");
        ck_assert(op[i].op.shared && op[i].op.reserve == 0);
    }
    for (int i = 0; i < n; i++) {
        redis_says(w, op[i], CORE_OK);
        expect_reply(w, id[i], CORE_GRANTED);
    }
}

static struct core_lock_view
expect_in(const struct world *w, uint32_t holders, bool shared)
{
    struct core_lock_view v = view_of(w, "a");

    ck_assert_str_eq(v.state, "held");
    ck_assert_uint_eq(v.holders, holders);
    ck_assert_int_eq(v.shared, shared);
    return v;
}

/* Readers hold the lock together, each with a token of its own; a writer waits until the last one has left. */
START_TEST(many_readers_one_writer)
{
    struct world w;
    uint64_t s[20], writer, id, last = 0;

    world_open(&w);
    for (int i = 0; i < 20; i++) {
        uint64_t token = enters(&w, s[i] = session(&w), true);

        ck_assert_uint_gt(token, last);
        last = token;
    }
    expect_in(&w, 20, true);
    writer = session(&w);
    id = lock(&w, writer, "a", RW);
    for (int i = 0; i < 20; i++) {
        quiet(&w);
        leaves(&w, s[i]);
    }
    ck_assert_uint_gt(redis_grants(&w, "a", id)->token, last);
    expect_in(&w, 1, false);
    lock(&w, s[0], "a", READS);
    lock(&w, s[1], "a", RW);
    quiet(&w);
    leaves(&w, writer);
    redis_grants(&w, "a", w.request - 2);
    world_close(&w);
}
END_TEST

/* First come, first served: readers behind a waiting writer do not pass it. */
START_TEST(writer_is_not_starved)
{
    struct world w;
    uint64_t first, writer, wrote, read[3];

    world_open(&w);
    first = session(&w);
    writer = session(&w);
    enters(&w, first, true);
    wrote = lock(&w, writer, "a", RW);
    for (int i = 0; i < 3; i++) {
        read[i] = lock(&w, session(&w), "a", READS);
    }
    ck_assert_uint_eq(view_of(&w, "a").waiters, 4);
    expect_reply(&w, lock(&w, session(&w), "a", READS, .nowait = true), CORE_NOT_GRANTED);
    leaves(&w, first);
    redis_grants(&w, "a", wrote);
    quiet(&w);
    leaves(&w, writer);
    let_in(&w, read, 3);
    expect_in(&w, 3, true);
    world_close(&w);
}
END_TEST

/* The writer's wait ends: readers behind it get in at once. */
START_TEST(writer_gives_up)
{
    struct world w;
    uint64_t read;

    world_open(&w);
    enters(&w, session(&w), true);
    lock(&w, session(&w), "a", RW, .wait_us = SEC(1));
    read = lock(&w, session(&w), "a", READS);
    pass(&w, SEC(1));
    expect_reply(&w, w.request - 1, CORE_NOT_GRANTED);
    redis_grants(&w, "a", read);
    world_close(&w);
}
END_TEST

START_TEST(reentry)
{
    static const bool sorts[] = {false, true};

    for (size_t i = 0; i < 2; i++) {
        bool shared = sorts[i];
        struct world w;
        struct flight op;
        uint64_t s, token, id;

        world_open(&w);
        s = session(&w);
        token = enters(&w, s, shared);
        lock(&w, session(&w), "a", RW); /* a waiter does not keep a holder from re-entry */
        for (uint32_t holds = 2; holds <= 3; holds++) {
            id = lock(&w, s, "a", RW, .shared = shared);
            op = expect_op(&w, CORE_ACQUIRE, "a");
            ck_assert(op.op.reentry && op.op.shared == shared && op.op.holds == holds);
            redis_says(&w, op, CORE_OK);
            ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->holds, holds);
        }
        ck_assert_uint_eq(view_of(&w, "a").holds, 3);
        ck_assert_uint_eq(view_of(&w, "a").token, token);
        for (uint32_t left = 2; left > 0; left--) {
            id = unlock(&w, s, "a");
            op = expect_op(&w, CORE_RELEASE, "a");
            ck_assert(op.op.shared == shared && op.op.holds == left && op.op.other_sort == 0);
            redis_says(&w, op, CORE_OK);
            ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, left);
        }
        quiet(&w);
        leaves(&w, s);
        expect_op(&w, CORE_ACQUIRE, "a");
        world_close(&w);
    }
}
END_TEST

/* A repeated release is answered; but the first one may still run, and would take away a hold that is granted now. */
START_TEST(unanswered_downgrade)
{
    struct world w;
    struct flight op;
    uint64_t s, first, id;

    world_open(&w);
    s = session(&w);
    enters(&w, s, false);
    id = lock(&w, s, "a", READS);
    redis_grants(&w, "a", id);
    first = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + MS(800));
    pass(&w, MS(20));
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.holds == 0 && op.op.other_sort == 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, first, CORE_LEFT)->left, 1);
    id = lock(&w, s, "a", READS);
    pass(&w, MS(779));
    quiet(&w);
    pass(&w, MS(1));
    ck_assert_uint_eq(redis_grants(&w, "a", id)->holds, 2);
    world_close(&w);
}
END_TEST

/* The lock is broken meanwhile: the release that may still run must not find a later hold of the same owner. */
START_TEST(unanswered_downgrade_overtaken)
{
    struct world w;
    struct flight op;
    uint64_t s, id, number;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", RW, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    number = op.op.owner;
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    id = lock(&w, s, "a", READS, .owner = "alice");
    redis_grants(&w, "a", id);
    id = unlock(&w, s, "a", .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    break_name(&w, session(&w), "a", RW);
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1);
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_reply(&w, w.request, CORE_LEFT);
    lock(&w, s, "a", RW, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_ne(op.op.owner, number);
    world_close(&w);
}
END_TEST

/* A writer also reads; when it gives back its exclusive hold, other readers get in beside it. */
START_TEST(downgrade_wakes_readers)
{
    struct world w;
    struct flight op;
    uint64_t s, id, read[2];

    world_open(&w);
    s = session(&w);
    enters(&w, s, false);
    id = lock(&w, s, "a", READS);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.reentry && op.op.shared && op.op.holds == 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->holds, 2);
    read[0] = lock(&w, session(&w), "a", READS);
    read[1] = lock(&w, session(&w), "a", READS);
    expect_in(&w, 1, false);
    id = unlock(&w, s, "a"); /* the exclusive hold first */
    expect_in(&w, 1, true);  /* others may read once the release has run, which is before its answer */
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(!op.op.shared && op.op.holds == 0 && op.op.other_sort == 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    let_in(&w, read, 2);
    expect_in(&w, 3, true);
    leaves(&w, s);
    expect_in(&w, 2, true);
    world_close(&w);
}
END_TEST

/* With holds of both sorts, UNLOCK SHARED takes a shared one; without SHARED the exclusive ones go first. */
START_TEST(unlock_shared)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    enters(&w, s, false);
    expect_reply(&w, unlock(&w, s, "a", .shared = true), CORE_NOT_HELD);
    for (uint32_t n = 1; n <= 2; n++) {
        lock(&w, s, "a", READS);
        redis_grants(&w, "a", w.request);
    }
    for (uint32_t left = 2; left-- > 0;) {
        id = unlock(&w, s, "a", .shared = true);
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert(op.op.shared && op.op.holds == left && op.op.other_sort == 1);
        redis_says(&w, op, CORE_OK);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, left + 1);
    }
    expect_reply(&w, unlock(&w, s, "a", .shared = true), CORE_NOT_HELD);
    expect_in(&w, 1, false);
    leaves(&w, s);
    enters(&w, s, true);
    id = unlock(&w, s, "a", .shared = true);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.holds == 0 && op.op.other_sort == 0 && !op.op.shared);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    world_close(&w);
}
END_TEST

/* A reader that requests the lock exclusively would wait for itself. */
START_TEST(upgrade)
{
    struct world w;
    const struct core_reply *r;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    enters(&w, s, true);
    r = expect_reply(&w, lock(&w, s, "a", RW), CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 1);
    ck_assert_str_eq(hop(r, 0)->name, "a");
    ck_assert_uint_eq(hop(r, 0)->hop.owner, s);
    expect_reply(&w, lock(&w, s, "a", RW, .wait_us = SEC(1)), CORE_DEADLOCK);
    expect_reply(&w, lock(&w, s, "a", RW, .once = true), CORE_DEADLOCK);
    expect_reply(&w, lock(&w, s, "a", RW, .nowait = true), CORE_NOT_GRANTED);
    expect_in(&w, 1, true);
    leaves(&w, s);
    enters(&w, s, false);
    expect_reply(&w, lock(&w, s, "a", READS, .once = true), CORE_GRANTED); /* a writer may read: no hold is added */
    ck_assert_uint_eq(view_of(&w, "a").holds, 1);
    world_close(&w);
}
END_TEST

/* A repetition joins the wait for the same sort; a request for the other sort waits for its own turn. */
START_TEST(once)
{
    struct world w;
    uint64_t s, t, read[2], write;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    enters(&w, s, false);
    read[0] = lock(&w, t, "a", READS, .owner = "alice");
    read[1] = lock(&w, t, "a", READS, .owner = "alice", .once = true);
    write = lock(&w, t, "a", RW, .owner = "alice", .once = true, .nowait = true);
    leaves(&w, s);
    redis_grants(&w, "a", read[0]);
    ck_assert_uint_eq(expect_reply(&w, read[1], CORE_GRANTED)->holds, 1);
    expect_reply(&w, write, CORE_NOT_GRANTED);
    world_close(&w);
}
END_TEST

/* One reader is lost (Redis does not have it any more); the others stay, and the writer waits on. */
START_TEST(lost_while_shared)
{
    struct world w;
    struct flight op[2];
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    enters(&w, s, true);
    enters(&w, t, true);
    id = lock(&w, session(&w), "a", RW);
    pass(&w, SEC(10));
    op[0] = expect_op(&w, CORE_EXTEND, "a");
    op[1] = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op[0], CORE_GONE_IN_REDIS);
    redis_says(&w, op[1], CORE_OK);
    ck_assert_uint_eq(expect_news(&w, CORE_NEWS_LOST, "a")->owner, s);
    expect_in(&w, 1, true);
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    leaves(&w, t);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* BREAK takes the lock from all readers, and each of them gets LOST once. */
START_TEST(break_of_several)
{
    struct world w;
    uint64_t s[3], id, wrote;

    world_open(&w);
    for (int i = 0; i < 3; i++) {
        enters(&w, s[i] = session(&w), true);
    }
    wrote = lock(&w, session(&w), "a", RW);
    id = break_name(&w, session(&w), "a", RW);
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 3);
    redis_grants(&w, "a", wrote);
    expect_in(&w, 1, false);
    for (int i = 0; i < 3; i++) {
        expect_reply(&w, unlock(&w, s[i], "a"), CORE_WAS_LOST);
        expect_reply(&w, unlock(&w, s[i], "a"), CORE_NOT_HELD);
    }
    ck_assert_uint_eq(w.metrics.lost, 3);
    world_close(&w);
}
END_TEST

/* Each reader is renewed by itself, also when one of the renewals is not answered. */
START_TEST(renewals_of_several)
{
    struct world w;
    struct flight op[2];
    uint64_t s[3];

    world_open(&w);
    enters(&w, s[0] = session(&w), true);
    pass(&w, SEC(5));
    enters(&w, s[1] = session(&w), true);
    enters(&w, s[2] = session(&w), true);
    pass(&w, SEC(5));
    ck_assert_uint_eq(expect_op(&w, CORE_EXTEND, "a").op.owner, s[0]); /* never answered */
    for (int n = 0; n < 2; n++) {
        pass(&w, SEC(10) - MS(60));
        for (int i = 0; i < 2; i++) {
            op[i] = expect_op(&w, CORE_EXTEND, "a");
            ck_assert_uint_eq(op[i].op.owner, s[1 + i]);
            ck_assert(op[i].op.reentry && !op[i].op.exact && op[i].op.lease_us == SEC(30));
        }
        if (n == 1) {
            ck_assert_uint_eq(expect_op(&w, CORE_RELEASE, "a").op.owner, s[0]);
        }
        redis_says(&w, op[0], CORE_OK);
        redis_says(&w, op[1], CORE_OK);
        expect_in(&w, n == 0 ? 3 : 2, true);
    }
    ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason, "not renewed in time");
    world_close(&w);
}
END_TEST

/* The end of a reader's session releases its hold only. A release under way keeps writers out, but not readers. */
START_TEST(leaving)
{
    struct world w;
    struct flight op, other;
    uint64_t s, t, read, wrote;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    enters(&w, s, true);
    gone(&w, s);
    op = expect_op(&w, CORE_RELEASE, "a");
    read = lock(&w, t, "a", READS);
    redis_grants(&w, "a", read);
    gone(&w, t);
    other = expect_op(&w, CORE_RELEASE, "a");
    wrote = lock(&w, session(&w), "a", RW);
    redis_says(&w, op, CORE_OK);
    quiet(&w);
    redis_says(&w, other, CORE_OK);
    redis_grants(&w, "a", wrote);
    world_close(&w);
}
END_TEST

/* A LOCK SHARED ends during its attempt: its outcome is no exclusive hold; and the reverse. */
START_TEST(other_sort_behind_an_attempt)
{
    static const bool sorts[] = {false, true};
    static const enum core_outcome outcomes[] = {CORE_OK, CORE_UNKNOWN};

    for (size_t i = 0; i < 4; i++) {
        bool first = sorts[i % 2];
        struct world w;
        struct flight op;
        uint64_t s, id;

        world_open(&w);
        s = session(&w);
        lock(&w, s, "a", RW, .shared = first, .wait_us = MS(10));
        op = expect_op(&w, CORE_ACQUIRE, "a");
        pass(&w, MS(600));
        expect_reply(&w, w.request, CORE_UNAVAILABLE);
        id = lock(&w, s, "a", RW, .shared = !first);
        redis_says(&w, op, outcomes[i / 2], .guard_us = w.now_us);
        op = expect_op(&w, CORE_RELEASE, "a"); /* whatever the attempt has taken is released first */
        ck_assert(op.op.holds == 0 && op.op.other_sort == 0);
        redis_says(&w, op, CORE_OK);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_int_eq(op.op.shared, !first);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        expect_in(&w, 1, !first);
        world_close(&w);
    }
}
END_TEST

/* As above, with NOWAIT. */
START_TEST(other_sort_in_a_hurry)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", READS, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    gone(&w, s);
    other = lock(&w, t, "a", RW);
    id = lock(&w, t, "a", RW, .owner = "alice", .nowait = true);
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_NOT_GRANTED); /* it stands behind the other owner now */
    redis_grants(&w, "a", other);
    world_close(&w);
}
END_TEST

/* The owner that came first is first, although it waited for the end of its own earlier attempt. */
START_TEST(other_sort_in_front)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", READS, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    gone(&w, s);
    id = lock(&w, t, "a", RW, .owner = "alice", .nowait = true);
    lock(&w, t, "a", RW);
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* s writes and reads, and has sent an UNLOCK of the exclusive hold that Redis does not answer. Returns that request. */
static uint64_t
downgrades_unanswered(struct world *w, uint64_t s)
{
    struct flight op;
    uint64_t id;

    enters(w, s, false);
    id = lock(w, s, "a", READS);
    redis_grants(w, "a", id);
    id = unlock(w, s, "a");
    op = expect_op(w, CORE_RELEASE, "a");
    ck_assert(!op.op.shared && op.op.holds == 0 && op.op.other_sort == 1);
    redis_says(w, op, CORE_UNKNOWN, .guard_us = w->now_us + SEC(1));
    return id;
}

/* Other owners may read by now: the lock does not count as exclusive any more. The release is repeated unchanged. */
START_TEST(downgrade_unanswered)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = downgrades_unanswered(&w, s);
    expect_in(&w, 1, true);
    pass(&w, MS(20));
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(!op.op.shared && op.op.holds == 0 && op.op.other_sort == 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    leaves(&w, s);
    id = downgrades_unanswered(&w, s);
    pass(&w, MS(20));
    op = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    redis_says(&w, op, CORE_DOWN);
    expect_reply(&w, lock(&w, s, "a", RW, .once = true), CORE_DEADLOCK);
    expect_in(&w, 1, true);
    leaves(&w, s);
    world_close(&w);
}
END_TEST

/* A release of one hold is unanswered and may run at any time: it must not find a later hold of the same owner. */
START_TEST(late_release_of_a_part)
{
    static const bool sorts[] = {false, true};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        struct flight op;
        uint64_t s;

        world_open(&w);
        s = session(&w);
        enters(&w, s, sorts[i]);
        lock(&w, s, "a", RW, .shared = sorts[i]);
        redis_grants(&w, "a", w.request);
        unlock(&w, s, "a");
        op = expect_op(&w, CORE_RELEASE, "a");
        redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
        pass(&w, MS(20));
        redis_releases(&w, "a", w.request);
        leaves(&w, s);
        lock(&w, s, "a", RW, .shared = !sorts[i]);
        ck_assert_uint_ne(expect_op(&w, CORE_ACQUIRE, "a").op.owner, op.op.owner);
        world_close(&w);
    }
}
END_TEST

/* ... also when the lease ends before the answer. */
START_TEST(late_release_of_a_part_overtaken)
{
    struct world w;
    struct flight op;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < 2; i++) {
        lock(&w, s, "a", READS, .lease_us = SEC(2));
        redis_grants(&w, "a", w.request);
    }
    unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.holds, 1);
    pass(&w, SEC(2));
    expect_reply(&w, w.request, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, lock(&w, s, "a", RW), CORE_WAS_LOST);
    lock(&w, s, "a", RW);
    ck_assert_uint_ne(expect_op(&w, CORE_ACQUIRE, "a").op.owner, op.op.owner);
    world_close(&w);
}
END_TEST

/* Readers elsewhere have the lock: the wait and its end are those of any other kind. */
START_TEST(taken_elsewhere)
{
    struct world w;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", RW);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(3), .holders = 7);
    ck_assert(is_watched(&w, "a"));
    lock(&w, session(&w), "a", READS);
    pass(&w, SEC(3) + MS(1));
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* A repetition outlives its LOCK, and a LOCK for the other sort waits behind it: the two are not granted together. */
START_TEST(once_outlives_its_lock)
{
    struct world w;
    uint64_t s, t, first, writes, repeats;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    first = lock(&w, s, "a", .kind = KIND_RW);
    redis_grants(&w, "a", first);
    first = lock(&w, t, "a", .kind = KIND_RW, .shared = true, .wait_us = SEC(1));
    writes = lock(&w, t, "a", .kind = KIND_RW);
    repeats = lock(&w, t, "a", .kind = KIND_RW, .shared = true, .once = true);
    pass(&w, SEC(1));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    give(&w, s, "a");
    redis_grants(&w, "a", repeats);
    expect_reply(&w, writes, CORE_DEADLOCK); /* a reader cannot become a writer */
    world_close(&w);
}
END_TEST

/*
 * A LOCK's wait ends during an attempt of its owner; with that grant the LOCK re-enters, whatever others are answered.
 */
START_TEST(hurried_into_a_hold)
{
    struct world w;
    struct flight op, again;
    uint64_t t, u, first, joined, late, other;

    world_open(&w);
    t = session(&w);
    u = session(&w);
    first = lock(&w, t, "r", .kind = KIND_RW, .shared = true, .wait_us = MS(10));
    op = expect_op(&w, CORE_ACQUIRE, "r");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(5), .holders = 1);
    joined = lock(&w, t, "r", .kind = KIND_RW, .shared = true, .once = true);
    pass(&w, MS(10));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    late = lock(&w, t, "r", .kind = KIND_RW, .shared = true, .wait_us = MS(10));
    hint(&w, op.op.queue);
    op = expect_op(&w, CORE_ACQUIRE, "r");
    pass(&w, MS(10)); /* its wait has ended, but an answer is under way */
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, joined, CORE_GRANTED);
    again = expect_op(&w, CORE_ACQUIRE, "r");
    other = lock(&w, u, "r", .kind = KIND_RW, .shared = true, .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "r"), CORE_TAKEN, .pttl_us = SEC(5), .holders = 1);
    expect_reply(&w, other, CORE_NOT_GRANTED);
    redis_says(&w, again, CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, late, CORE_GRANTED)->holds, 2);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* Readers that arrive in one turn ask in one turn, but not past a writer; a writer asks alone. */
START_TEST(a_run_of_readers)
{
    struct world w;
    struct flight op[2], wrote;
    uint64_t s[2], read[4], write[2];

    world_open(&w);
    w.one_turn = true;
    for (int i = 0; i < 2; i++) {
        read[i] = lock(&w, s[i] = session(&w), "a", READS);
        op[i] = expect_op(&w, CORE_ACQUIRE, "a");
    }
    write[0] = lock(&w, session(&w), "a", RW);
    read[2] = lock(&w, session(&w), "a", READS);
    core_end_turn(w.core);
    w.one_turn = false;
    write[1] = lock(&w, session(&w), "a", RW);
    read[3] = lock(&w, session(&w), "a", READS);
    for (int i = 0; i < 2; i++) {
        redis_says(&w, op[i], CORE_OK);
        expect_reply(&w, read[i], CORE_GRANTED);
        quiet(&w);
    }
    leaves(&w, s[0]);
    quiet(&w);
    leaves(&w, s[1]);
    wrote = expect_op(&w, CORE_ACQUIRE, "a");
    quiet(&w);
    redis_says(&w, wrote, CORE_OK);
    expect_reply(&w, write[0], CORE_GRANTED);
    quiet(&w);
    leaves(&w, w.session[2]);
    let_in(&w, read + 2, 1);
    expect_reply(&w, lock(&w, session(&w), "a", READS, .nowait = true), CORE_NOT_GRANTED);
    quiet(&w);
    leaves(&w, w.session[3]);
    redis_grants(&w, "a", write[1]);
    leaves(&w, w.session[4]);
    let_in(&w, read + 3, 1);
    world_close(&w);
}
END_TEST

/* A writer elsewhere has the lock: one of several readers asks, and when it is granted the others follow. */
START_TEST(readers_of_a_name_that_is_written)
{
    struct world w;
    struct flight op[2];
    uint64_t read[4];

    world_open(&w);
    read[0] = lock(&w, session(&w), "a", READS);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    for (int i = 1; i < 4; i++) {
        read[i] = lock(&w, session(&w), "a", READS);
    }
    for (int i = 0; i < 2; i++) {
        redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(30));
        quiet(&w);
        hint(&w, op[0].op.queue);
        op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    }
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, read[0], CORE_GRANTED);
    let_in(&w, read + 1, 3);
    world_close(&w);
}
END_TEST

/*
 * During a reader's attempt a writer, or a reader behind one, does not ask; during a writer's attempt no waiter does.
 */
START_TEST(no_attempt_goes_along_with_a_writer)
{
    static const bool first_reads[] = {true, false};

    for (size_t i = 0; i < 2; i++) {
        struct world w;
        struct flight op;
        uint64_t id;

        world_open(&w);
        w.one_turn = true;
        id = lock(&w, session(&w), "a", RW, .shared = first_reads[i]);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        lock(&w, session(&w), "a", RW, .shared = !first_reads[i]);
        lock(&w, session(&w), "a", READS);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        hurried_into_a_hold,
        many_readers_one_writer,
        writer_is_not_starved,
        writer_gives_up,
        reentry,
        unanswered_downgrade,
        unanswered_downgrade_overtaken,
        downgrade_wakes_readers,
        unlock_shared,
        once_outlives_its_lock,
        upgrade,
        once,
        lost_while_shared,
        break_of_several,
        renewals_of_several,
        leaving,
        other_sort_behind_an_attempt,
        other_sort_in_a_hurry,
        other_sort_in_front,
        downgrade_unanswered,
        late_release_of_a_part,
        late_release_of_a_part_overtaken,
        taken_elsewhere,
        a_run_of_readers,
        readers_of_a_name_that_is_written,
        no_attempt_goes_along_with_a_writer,
    };

    return suite_main("core, rw", tests, sizeof(tests) / sizeof(tests[0]));
}
