/*
 * test_core_restore.c -- the checkpoints for the next process, and what that process makes of them.
 */
#include "tests/unit/core_restart.h"

static void
expect_nothing(const struct world *w)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        ck_assert_msg(w->flights[i].seen, "an operation: %d on %s", (int)w->flights[i].verb, w->flights[i].key);
    }
}

/* ---- the checkpoints ---- */

START_TEST(kept_while_redis_may_have_it)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    open_storing(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .key = "key-a");
    op = expect_op(&w, CORE_ACQUIRE, "key-a");
    ck_assert_uint_eq(w.checkpoints_n, 1); /* before the acquire is sent */
    ck_assert_str_eq(w.checkpoints[0].name, "a");
    ck_assert_str_eq(w.checkpoints[0].key, "key-a");
    ck_assert_str_eq(w.checkpoints[0].owner, "");
    ck_assert(w.checkpoints[0].cp.part.acquire_unresolved && w.checkpoints[0].cp.part.state == CORE_CHECKPOINT_QUEUED);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1));
    ck_assert(is_watched(&w, "key-a"));
    ck_assert_uint_eq(w.checkpoints_n, 0); /* another owner has the lock */
    pass(&w, SEC(1) + MS(1));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "key-a"), CORE_OK, .expiry_ms = 17);
    ck_assert_uint_eq(w.checkpoints[0].cp.part.token, expect_reply(&w, id, CORE_GRANTED)->token);
    ck_assert_int_eq(w.checkpoints[0].cp.part.expiry_ms, 17);
    ck_assert_int_eq(w.checkpoints[0].cp.part.deadline_us, w.now_us + REPORTED_30S);
    lock(&w, t, "a", .key = "key-a");
    ck_assert_uint_eq(w.checkpoints_n, 1); /* a session that waits needs none */
    lock(&w, t, "a", .key = "key-a", .owner = "alice");
    ck_assert_uint_eq(w.checkpoints_n, 2); /* a named owner has its position */
    id = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "key-a");
    ck_assert_uint_eq(w.checkpoints[0].cp.part.state, CORE_CHECKPOINT_RELEASING);
    gone(&w, t);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(w.checkpoints_n, 1);
    pass(&w, SEC(2) + 1);
    ck_assert_uint_eq(w.checkpoints_n, 0); /* the position has ended */
    world_close(&w);
}
END_TEST

START_TEST(nothing_is_kept_unless_it_is_wanted)
{
    struct world w;

    world_open(&w);
    take(&w, session(&w), "a");
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/* ---- sessions ---- */

static const enum kind all_kinds[] = {KIND_REENTRANT, KIND_SIMPLE, KIND_COUNTER, KIND_FAIR,
                                      KIND_RW,        KIND_RW,     KIND_SEMAPHORE, KIND_FENCED};

/*
 * The next process releases a session's lock under its number, claim and expiry, when Redis is reached, not earlier.
 */
START_TEST(session_is_freed)
{
    enum kind kind = all_kinds[_i];
    bool shared = _i == 5;
    struct world w;
    struct flight op, was;
    uint64_t s, id;

    open_storing(&w);
    s = session(&w);
    id = lock(&w, s, "a", .kind = kind, .shared = shared, .limit = 2);
    was = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, was, CORE_OK, .expiry_ms = 4711);
    expect_reply(&w, id, CORE_GRANTED);
    restored(restarts(&w), 0, 0, 1, 0);
    expect_nothing(&w);
    reached(&w);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.kind == kind && op.op.owner == was.op.owner && op.op.claim == was.op.claim);
    ck_assert(op.op.expiry_ms == 4711 && op.op.holds == 0 && op.op.other_sort == 0 && !op.op.shared);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* Of kind counter: a release that may have run in the process before is not repeated before the expiry. */
START_TEST(counter_release_is_not_repeated)
{
    struct world w;
    uint64_t s;

    open_storing(&w);
    s = session(&w);
    take_counter(&w, s, 4711);
    pass(&w, MS(5));
    unlock(&w, s, "a");
    expect_op(&w, CORE_RELEASE, "a");
    restored(restarts(&w), 0, 0, 1, 0);
    reached(&w);
    pass(&w, SEC(30));
    expect_nothing(&w);
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/* The release is repeated as any other one; if no event reports that Redis is reached, it begins by itself. */
START_TEST(release_is_tried_again)
{
    struct world w;

    open_storing(&w);
    take(&w, session(&w), "a");
    restored(restarts(&w), 0, 0, 1, 0);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN);
    pass(&w, MS(40));
    ck_assert_uint_eq(w.checkpoints_n, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/* An acquire without an answer may run after the release: it is released again when it can run no more. */
START_TEST(acquire_on_its_way_is_swept_up)
{
    struct world w;
    struct flight op, was;

    open_storing(&w);
    lock(&w, session(&w), "a");
    was = expect_op(&w, CORE_ACQUIRE, "a");
    restored(restarts(&w), 0, 0, 1, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert_uint_eq(w.checkpoints_n, 1);
    pass(&w, storing.op_timeout_us);
    expect_nothing(&w);
    pass(&w, storing.op_timeout_us);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.owner == was.op.owner && op.op.claim == was.op.claim);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/*
 * Redis may have the lock for longer than the lease of the claim: by a RENEW in flight (0), or by a re-entry that was
 * granted (1), is in flight (2), also over a reboot (3), or is unanswered (4). Until then the next process releases it,
 * however long Redis is away.
 */
START_TEST(released_until_the_longest_lease_ends)
{
    struct world w;
    uint64_t s, id;

    open_storing(&w);
    s = session(&w);
    take(&w, s, "a");
    if (_i == 0) {
        renew(&w, s, "a", SEC(3600));
        expect_op(&w, CORE_EXTEND, "a");
    } else {
        struct flight op;

        id = lock(&w, s, "a", .lease_us = SEC(3600));
        op = expect_op(&w, CORE_ACQUIRE, "a");
        if (_i == 1) {
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, id, CORE_GRANTED);
            gone(&w, s);
            expect_op(&w, CORE_RELEASE, "a");
        } else if (_i == 4) {
            redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
        }
    }
    restored(restart_as(&w, MS(50), _i != 3), 0, 0, 1, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    pass(&w, SEC(120));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    ck_assert_uint_eq(w.checkpoints_n, 1);
    pass(&w, SEC(3700));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/* The end of a lease, as the checkpoint has it, gets no further margin with each process. */
START_TEST(restarts_do_not_lengthen_the_time_of_a_release)
{
    struct world w;
    uint64_t id;

    open_storing(&w);
    id = lock(&w, session(&w), "a", .owner = "alice", .lease_us = SEC(3000));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    for (int i = 0; i < 20; i++) {
        restored(restart_as(&w, MS(50), true), 1, 0, 0, 0);
        reached(&w);
        expect_op(&w, CORE_EXTEND, "a");
        ck_assert_int_le(w.checkpoints[0].cp.part.outlasts_us, SEC(3000) * 102 / 100 + SEC(1));
    }
    world_close(&w);
}
END_TEST

/* A newcomer waits for the release, and not for the end of the lease. */
START_TEST(newcomer_waits_for_the_release)
{
    struct world w;
    uint64_t id;

    open_storing(&w);
    take(&w, session(&w), "a");
    restored(restarts(&w), 0, 0, 1, 0);
    id = lock(&w, session(&w), "a");
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* The ticket of a session is given back. */
START_TEST(ticket_of_a_session_is_given_back)
{
    struct world w;

    open_storing(&w);
    lock(&w, session(&w), "a", .kind = KIND_FAIR);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(5), .has_ticket = true);
    ck_assert(is_watched(&w, "a"));
    restored(restarts(&w), 0, 0, 1, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/* ---- named owners: their holds ---- */

/* A named owner keeps its locks, with the token, the holds and the number in Redis; they are renewed from now on. */
START_TEST(named_owner_holds_on)
{
    enum kind kind = all_kinds[_i];
    bool shared = _i == 5;
    uint32_t holds = (kind_rows[kind].flags & KIND_F_REENTRANT) != 0 ? 2 : 1;
    const struct core_reply *r;
    struct world w;
    struct flight op, was;
    uint64_t s, id, token;

    open_storing(&w);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .kind = kind, .shared = shared, .limit = 2);
    was = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, was, CORE_OK, .expiry_ms = 4711);
    token = expect_reply(&w, id, CORE_GRANTED)->token;
    if (holds == 2) {
        id = lock(&w, s, "a", .owner = "alice", .kind = kind, .shared = shared);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK, .expiry_ms = 4711);
        expect_reply(&w, id, CORE_GRANTED);
    }
    restored(restarts(&w), 1, 0, 0, 0);
    expect_state(&w, "a", "held");
    reached(&w);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(op.op.owner == was.op.owner && op.op.claim == was.op.claim && op.op.expiry_ms == 4711);
    redis_says(&w, op, CORE_OK, .expiry_ms = 4712);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + REPORTED_30S);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .kind = kind, .shared = shared, .limit = 2, .once = true);
    r = expect_reply(&w, id, CORE_GRANTED);
    ck_assert(r->token == token && r->holds == holds && r->owner == was.op.owner);
    pass(&w, SEC(9)); /* the grace has ended with the LOCK */
    for (; holds > 0; holds--) {
        id = unlock(&w, s, "a", .owner = "alice", .token = token);
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert(op.op.owner == was.op.owner && op.op.claim == was.op.claim && op.op.holds == holds - 1);
        ck_assert_int_eq(op.op.expiry_ms, 4712);
        redis_says(&w, op, CORE_OK, .expiry_ms = 4712);
        ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, holds - 1);
    }
    world_close(&w);
}
END_TEST

/* A writer that also reads keeps both holds. */
START_TEST(writer_and_reader)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    open_storing(&w);
    s = session(&w);
    for (int i = 0; i < 2; i++) {
        id = lock(&w, s, "a", .owner = "alice", .kind = KIND_RW, .shared = i == 1);
        redis_grants(&w, "a", id);
    }
    restored(restarts(&w), 1, 0, 0, 0);
    confirmed(&w, 1);
    s = session(&w);
    id = unlock(&w, s, "a", .owner = "alice");
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.holds == 0 && !op.op.shared && op.op.other_sort == 1);
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    id = unlock(&w, s, "a", .owner = "alice");
    redis_releases(&w, "a", id);
    world_close(&w);
}
END_TEST

/* Each reader, and each permit, is restored by itself. */
START_TEST(several_holders)
{
    bool permits = _i == 0;
    struct world w;
    uint64_t s, t, id, token[3];

    open_storing(&w);
    s = session(&w);
    for (int i = 0; i < 3; i++) {
        id = lock(&w, s, "a", .owner = i == 0 ? "bob" : permits ? "alice" : i == 1 ? "alice" : "carol",
                  .kind = permits ? KIND_SEMAPHORE : KIND_RW, .shared = !permits, .limit = 3);
        token[i] = redis_grants(&w, "a", id)->token;
    }
    restored(restarts(&w), 3, 0, 0, 0);
    confirmed(&w, 3);
    t = session(&w);
    id = lock(&w, t, "a", .kind = permits ? KIND_SEMAPHORE : KIND_RW, .limit = 3, .nowait = true);
    expect_reply(&w, id, CORE_NOT_GRANTED);
    for (int i = 0; i < 3; i++) {
        id = unlock(&w, t, "a", .token = token[i]);
        ck_assert_int_eq(redis_releases(&w, "a", id)->left, permits && i == 1);
    }
    world_close(&w);
}
END_TEST

START_TEST(grace_ends)
{
    struct world w;
    uint64_t s;

    open_storing(&w);
    s = session(&w);
    lock(&w, s, "a", .owner = "alice");
    redis_grants(&w, "a", w.request);
    restored(restarts(&w), 1, 0, 0, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    pass(&w, REPORTED_30S / 3);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    pass(&w, SEC(10) - REPORTED_30S / 3 - 1);
    expect_nothing(&w);
    pass(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/*
 * A lease that ended while no daemon ran, or whose end is unknown after a reboot, is lost; LOST is reported once, also
 * over one more restart.
 */
START_TEST(run_out_is_lost)
{
    bool same_boot = _i % 2 == 0, watchdog = _i < 2;
    struct world w;
    struct flight op;
    uint64_t s;

    open_storing(&w);
    s = session(&w);
    lock(&w, s, "a", .owner = "alice", .lease_us = watchdog ? 0 : SEC(30));
    redis_grants(&w, "a", w.request);
    restored(restart_as(&w, same_boot ? REPORTED_30S : MS(1), same_boot), 0, 0, 0, 1);
    ck_assert_str_eq(expect_news(&w, CORE_NEWS_LOST, "a")->reason,
                     watchdog ? "not renewed while no daemon ran" : "lease over");
    expect_op(&w, CORE_RELEASE, "a");
    restored(restarts(&w), 0, 0, 1, 0);
    reached(&w);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    expect_state(&w, "a", "lost");
    /* the release of the process before may still run */
    ck_assert_uint_ne(w.checkpoints[0].cp.part.redis_owner, op.op.owner);
    restored(restarts(&w), 0, 0, 0, 1);
    s = session(&w);
    expect_reply(&w, unlock(&w, s, "a", .owner = "alice"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "a", .owner = "alice"), CORE_NOT_HELD);
    ck_assert_uint_eq(w.checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/*
 * A lock is lost during its reclaim; Redis may still have it when the process ends. One of the two processes reports
 * LOST, once, and the later release is no event.
 */
START_TEST(lost_and_to_be_swept_up)
{
    enum { UNREPORTED, REPORTED, REPORTED_BEFORE_THE_RELEASE, REPORTED_AT_ONCE };
    struct world w;
    struct flight op;
    uint64_t s, id = 0;

    open_storing(&w);
    s = session(&w);
    lock(&w, s, "a", .owner = "alice");
    redis_grants(&w, "a", w.request);
    reclaims(&w, 9);
    expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, REPORTED_30S - MS(1));
    if (_i == REPORTED_AT_ONCE) { /* it waits for the outcome of the reclaim */
        id = unlock(&w, s, "a", .owner = "alice");
    }
    pass(&w, MS(1));
    op = expect_op(&w, CORE_RELEASE, "a");
    if (_i == UNREPORTED || _i == REPORTED) {
        redis_says(&w, op, CORE_GONE_IN_REDIS);
        expect_state(&w, "a", "lost");
    }
    if (_i == REPORTED_AT_ONCE) {
        expect_reply(&w, id, CORE_WAS_LOST);
    } else if (_i != UNREPORTED) {
        expect_reply(&w, unlock(&w, s, "a", .owner = "alice"), CORE_WAS_LOST);
    }
    restored(restarts(&w), 0, 0, 1, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    pass(&w, SEC(2));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    s = session(&w);
    expect_reply(&w, unlock(&w, s, "a", .owner = "alice"), _i == UNREPORTED ? CORE_WAS_LOST : CORE_NOT_HELD);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 1);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 0);
    world_close(&w);
}
END_TEST

/* The lock may have been broken, or lost by Redis: requests about it wait until Redis has confirmed it. */
START_TEST(no_reply_before_redis_confirms)
{
    bool gone_in_redis = _i == 0;
    struct world w;
    uint64_t s, id;

    open_storing(&w);
    lock(&w, session(&w), "a", .owner = "alice", .lease_us = SEC(20));
    redis_grants(&w, "a", w.request);
    restored(restarts(&w), 1, 0, 0, 0);
    s = session(&w);
    id = lock(&w, s, "a", .owner = "alice", .once = true);
    reached(&w);
    if (gone_in_redis) {
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_GONE_IN_REDIS);
        expect_reply(&w, id, CORE_WAS_LOST);
    } else {
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
        ck_assert_int_le(expect_reply(&w, id, CORE_GRANTED)->lease_us, SEC(20));
    }
    world_close(&w);
}
END_TEST

/* Redis has another epoch: the held lock is reclaimed. */
START_TEST(redis_has_lost_its_data)
{
    struct world w;
    struct flight op, was;

    open_storing(&w);
    lock(&w, session(&w), "a", .owner = "alice");
    was = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, was, CORE_OK);
    expect_reply(&w, w.request, CORE_GRANTED);
    restored(restarts(&w), 1, 0, 0, 0);
    reclaims(&w, 7);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.reclaim && op.op.holds == 1 && op.op.owner == was.op.owner && op.op.claim == was.op.claim);
    redis_says(&w, op, CORE_OK);
    expect_state(&w, "a", "held");
    world_close(&w);
}
END_TEST

/* One microsecond before the deadline the lock is held; at the deadline it is not. */
START_TEST(deadline_is_kept_to)
{
    struct world w;
    uint64_t id;

    open_storing(&w);
    lock(&w, session(&w), "a", .owner = "alice", .lease_us = SEC(5));
    redis_grants(&w, "a", w.request);
    restored(restart_as(&w, reported(SEC(5)) - 1, true), 1, 0, 0, 0);
    expect_state(&w, "a", "held");
    pass(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    id = unlock(&w, session(&w), "a", .owner = "alice");
    expect_reply(&w, id, CORE_WAS_LOST);
    world_close(&w);
}
END_TEST

/* An unanswered RENEW to a shorter lease: only that lease counts while the RENEW may still run. */
START_TEST(shrinking_renew_on_its_way)
{
    struct world w;
    uint64_t s;

    open_storing(&w);
    s = session(&w);
    lock(&w, s, "a", .owner = "alice");
    redis_grants(&w, "a", w.request);
    renew(&w, s, "a", SEC(4), .owner = "alice");
    expect_op(&w, CORE_EXTEND, "a");
    restored(restarts(&w), 1, 0, 0, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + reported(SEC(4)));
    world_close(&w);
}
END_TEST

/* An unanswered release of some holds: the owner gets none of them back while the release may still run. */
START_TEST(partial_release_on_its_way)
{
    struct world w;
    uint64_t s, id;

    open_storing(&w);
    s = session(&w);
    for (int i = 0; i < 2; i++) {
        lock(&w, s, "a", .owner = "alice");
        redis_grants(&w, "a", w.request);
    }
    unlock(&w, s, "a", .owner = "alice");
    expect_op(&w, CORE_RELEASE, "a");
    restored(restarts(&w), 1, 0, 0, 0);
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    id = lock(&w, session(&w), "a", .owner = "alice");
    expect_nothing(&w);
    pass(&w, 2 * storing.op_timeout_us);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* ---- named owners: their positions ---- */

START_TEST(positions_stand_as_they_stood)
{
    static const char *const names[] = {"w0", "w1", "w2", "w3"};
    struct world w;
    uint64_t s, id[4], late, other;

    open_storing(&w);
    s = session(&w);
    take(&w, s, "a");
    for (int i = 0; i < 4; i++) {
        lock(&w, session(&w), "a", .owner = names[i]);
        lock(&w, session(&w), "a");
    }
    restored(restarts(&w), 0, 4, 1, 0);
    other = session(&w);
    late = lock(&w, other, "a");
    for (int i = 3; i >= 0; i--) {
        id[i] = lock(&w, s = session(&w), "a", .owner = names[i]);
    }
    reached(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    for (int i = 0; i < 4; i++) {
        redis_grants(&w, "a", id[i]);
        unlock(&w, s, "a", .owner = names[i]);
        redis_releases(&w, "a", w.request);
    }
    redis_grants(&w, "a", late);
    world_close(&w);
}
END_TEST

/* bob stands in Redis's queue; alice came earlier, and does not stand there, because it was full. */
START_TEST(tickets_come_first)
{
    struct world w;
    struct flight op;
    uint64_t s, bob;

    open_storing(&w);
    s = session(&w);
    lock(&w, s, "a", .kind = KIND_FAIR, .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(50)); /* no ticket */
    gone(&w, s);
    lock(&w, session(&w), "a", .kind = KIND_FAIR, .owner = "bob");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(50), .has_ticket = true);
    restored(restarts(&w), 0, 2, 0, 0);
    reached(&w);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(op.op.ticket);
    redis_says(&w, op, CORE_OK);
    s = session(&w);
    lock(&w, s, "a", .kind = KIND_FAIR, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a"); /* alice asks for a ticket as well */
    ck_assert(op.op.ticket);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(50), .has_ticket = true);
    bob = lock(&w, s, "a", .kind = KIND_FAIR, .owner = "bob");
    hint(&w, op.op.queue);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, bob, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* A waiter that gets a ticket passes those without one; these keep their order. */
START_TEST(positions_that_are_passed)
{
    static const char *const names[] = {"a0", "a1", "p0", "p1", "a0"};
    const struct claim_checkpoint *first, *second;
    struct world w;
    struct flight op;
    uint64_t s;

    open_storing(&w);
    for (int i = 0; i < 5; i++) { /* a0 comes again, when the others have passed it */
        s = session(&w);
        lock(&w, s, "a", .kind = KIND_FAIR, .owner = names[i]);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(50), .has_ticket = names[i][0] == 'p');
        gone(&w, s);
    }
    first = second = NULL;
    for (size_t i = 0; i < w.checkpoints_n; i++) {
        first = strcmp(w.checkpoints[i].owner, "a0") == 0 ? &w.checkpoints[i] : first;
        second = strcmp(w.checkpoints[i].owner, "a1") == 0 ? &w.checkpoints[i] : second;
    }
    ck_assert(first != NULL && second != NULL && first->cp.part.order < second->cp.part.order);
    world_close(&w);
}
END_TEST

/*
 * The acquire of a named owner may have got the lock: it is released with the ticket; an owner that comes back has it.
 */
START_TEST(acquire_of_a_named_owner)
{
    bool comes_back = _i == 0;
    struct world w;
    struct flight op, was;
    uint64_t id;

    open_storing(&w);
    lock(&w, session(&w), "a", .owner = "alice");
    was = expect_op(&w, CORE_ACQUIRE, "a");
    restored(restarts(&w), 0, 1, 0, 0);
    reached(&w);
    if (comes_back) {
        id = lock(&w, session(&w), "a", .owner = "alice");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert(op.op.owner == was.op.owner && op.op.claim == was.op.claim);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
    } else {
        pass(&w, SEC(2));
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert(op.op.owner == was.op.owner && op.op.claim == was.op.claim);
        redis_says(&w, op, CORE_OK);
    }
    world_close(&w);
}
END_TEST

/* A drain refuses waiters, but their positions are kept for the next process. */
START_TEST(drain_keeps_positions)
{
    struct world w;
    uint64_t s, t;

    open_storing(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", .owner = "alice");
    redis_grants(&w, "a", w.request);
    lock(&w, t, "a", .owner = "bob");
    lock(&w, t, "a");
    drains(&w);
    expect_reply(&w, w.request - 1, CORE_DRAINING);
    expect_reply(&w, w.request, CORE_DRAINING);
    pass(&w, SEC(9));
    restored(restarts(&w), 1, 1, 0, 0);
    world_close(&w);
}
END_TEST

/* The positions are kept as long as the drain lasts: drain_timeout may be an hour. */
START_TEST(drain_keeps_positions_to_its_end)
{
    struct world w;

    open_storing(&w);
    lock(&w, session(&w), "a", .owner = "bob");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(1));
    drains(&w);
    expect_reply(&w, w.request, CORE_DRAINING);
    pass(&w, SEC(3599));
    restored(restarts(&w), 0, 1, 0, 0);
    world_close(&w);
}
END_TEST

/* ---- ids and tokens ---- */

START_TEST(ids_and_tokens_rise)
{
    struct core_restored a = {.serial = 1000000, .token = 5000};
    struct world w;
    uint64_t id;

    open_storing(&w);
    world_step(&w, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    ck_assert_uint_gt(session(&w), 1000000);
    id = lock(&w, w.session[0], "a");
    ck_assert_uint_gt(redis_grants(&w, "a", id)->token, 5000);
    world_close(&w);
}
END_TEST

/* Ids of checkpoints are not used again, even if the saved count of ids is behind them. */
START_TEST(ids_that_were_kept_are_not_used_again)
{
    for (int i = 0; i < 2; i++) {
        struct world w;

        open_storing(&w);
        lock(&w, session(&w), "a");
        expect_op(&w, CORE_ACQUIRE, "a");
        *(i == 0 ? &w.checkpoints[0].cp.part.claim : &w.checkpoints[0].cp.part.redis_owner) = 900;
        restored(restarts(&w), 0, 0, 1, 0);
        ck_assert_uint_gt(session(&w), 900);
        world_close(&w);
    }
}
END_TEST

/* A checkpoint that cannot be restored is dropped; its lock ends with its lease. */
START_TEST(a_record_that_does_not_fit_is_forgotten)
{
    struct world w;
    struct core_restored a;
    struct core_checkpoint odd;

    open_storing(&w);
    lock(&w, session(&w), "a");
    expect_op(&w, CORE_ACQUIRE, "a");
    odd = w.checkpoints[0].cp;
    odd.part.claim += 50;
    odd.part.order += 50;
    odd.name = odd.key = slice_of("a");
    odd.kind = KIND_COUNTER;
    world_store(&w, &odd);
    a = restarts(&w);
    ck_assert(a.released == 1 && a.failed == 1);
    ck_assert_uint_eq(w.checkpoints_n, 1);
    world_close(&w);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("core, restore");
    TCase *t = tcase_create("all");
    int kinds = (int)(sizeof(all_kinds) / sizeof(all_kinds[0]));

    tcase_add_test(t, kept_while_redis_may_have_it);
    tcase_add_test(t, nothing_is_kept_unless_it_is_wanted);
    tcase_add_loop_test(t, session_is_freed, 0, kinds);
    tcase_add_test(t, release_is_tried_again);
    tcase_add_test(t, counter_release_is_not_repeated);
    tcase_add_test(t, acquire_on_its_way_is_swept_up);
    tcase_add_loop_test(t, released_until_the_longest_lease_ends, 0, 5);
    tcase_add_test(t, restarts_do_not_lengthen_the_time_of_a_release);
    tcase_add_test(t, newcomer_waits_for_the_release);
    tcase_add_test(t, ticket_of_a_session_is_given_back);
    tcase_add_loop_test(t, named_owner_holds_on, 0, kinds);
    tcase_add_test(t, writer_and_reader);
    tcase_add_loop_test(t, several_holders, 0, 2);
    tcase_add_test(t, grace_ends);
    tcase_add_loop_test(t, run_out_is_lost, 0, 4);
    tcase_add_loop_test(t, lost_and_to_be_swept_up, 0, 4);
    tcase_add_loop_test(t, no_reply_before_redis_confirms, 0, 2);
    tcase_add_test(t, redis_has_lost_its_data);
    tcase_add_test(t, deadline_is_kept_to);
    tcase_add_test(t, shrinking_renew_on_its_way);
    tcase_add_test(t, partial_release_on_its_way);
    tcase_add_test(t, positions_stand_as_they_stood);
    tcase_add_test(t, tickets_come_first);
    tcase_add_test(t, positions_that_are_passed);
    tcase_add_loop_test(t, acquire_of_a_named_owner, 0, 2);
    tcase_add_test(t, drain_keeps_positions);
    tcase_add_test(t, drain_keeps_positions_to_its_end);
    tcase_add_test(t, ids_and_tokens_rise);
    tcase_add_test(t, ids_that_were_kept_are_not_used_again);
    tcase_add_test(t, a_record_that_does_not_fit_is_forgotten);
    suite_add_tcase(s, t);
    return suite_run(s);
}
