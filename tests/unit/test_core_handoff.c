/*
 * test_core_handoff.c -- a lock that passes from one owner here to the next without a trip to Redis; and when it must
 * not.
 */
#include "tests/unit/core_world.h"

static void
open_handing(struct world *w)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = 8;
    world_open_conf(w, &conf);
}

/* s holds "a" and may hand it over; t waits for it with the request `waits`. */
struct pair {
    uint64_t s, t, waits;
    struct flight acquired; /* the hold in Redis */
    uint64_t token;
};

/* Two sessions with these terms. The first one is granted the lock when the second one waits already. */
static struct pair
pair(struct world *w, struct ask how, struct ask then)
{
    struct pair p = {.s = session(w), .t = session(w)};
    uint64_t before = session(w), id = lock(w, before, "a", .kind = how.kind, .limit = how.limit), gives;
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert_uint_eq(op.op.reserve, 0);
    redis_says(w, op, CORE_OK);
    expect_reply(w, id, CORE_GRANTED);
    id = world_ask(w, CORE_LOCK, p.s, "a", how);
    p.waits = world_ask(w, CORE_LOCK, p.t, "a", then);
    gives = unlock(w, before, "a");
    p.acquired = redis_releases_for_next(w, "a");
    expect_reply(w, gives, CORE_LEFT);
    ck_assert_uint_eq(p.acquired.op.reserve, w->conf.handoff_max);
    redis_says(w, p.acquired, CORE_OK);
    p.token = expect_reply(w, id, CORE_GRANTED)->token;
    gone(w, before);
    return p;
}

#define PAIR(w, ...) pair(w, (struct ask){__VA_ARGS__}, (struct ask){__VA_ARGS__})

START_TEST(handed)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SIMPLE, KIND_RW};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        struct flight op;
        struct pair p;
        const struct core_reply *r;
        uint64_t id;

        open_handing(&w);
        p = PAIR(&w, .kind = kinds[i], .limit = 1);
        ck_assert_int_eq(expect_reply(&w, unlock(&w, p.s, "a"), CORE_LEFT)->left, 0);
        r = expect_reply(&w, p.waits, CORE_GRANTED); /* without a trip to Redis */
        ck_assert_uint_eq(r->token, p.token + 1);
        ck_assert_uint_eq(r->holds, 1);
        ck_assert_int_eq(r->lease_us, REPORTED_30S);
        ck_assert_uint_eq(w.metrics.handoffs, 1);
        expect_news(&w, CORE_NEWS_RELEASED, "a");
        ck_assert_uint_eq(expect_news(&w, CORE_NEWS_RELEASED, "a")->token, p.token);
        expect_news(&w, CORE_NEWS_GRANTED, "a");
        expect_news(&w, CORE_NEWS_GRANTED, "a");
        ck_assert_uint_eq(expect_news(&w, CORE_NEWS_GRANTED, "a")->session, p.t);
        expect_reply(&w, unlock(&w, p.s, "a"), CORE_NOT_HELD);
        expect_reply(&w, lock(&w, p.s, "a", .kind = kinds[i], .limit = 1, .nowait = true), CORE_NOT_GRANTED);
        ck_assert_uint_eq(view_of(&w, "a").owner.session, p.t);
        id = unlock(&w, p.t, "a");
        op = expect_op(&w, CORE_RELEASE, "a"); /* with the numbers that the hold has in Redis */
        ck_assert_uint_eq(op.op.claim, p.acquired.op.claim);
        ck_assert_uint_eq(op.op.owner, p.acquired.op.owner);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        id = lock(&w, p.s, "a", .kind = kinds[i], .limit = 1);
        op = expect_op(&w, CORE_ACQUIRE, "a"); /* with a number that no other hold may still have there */
        ck_assert_uint_ne(op.op.owner, p.acquired.op.owner);
        ck_assert_uint_ge(op.op.token_floor, p.token + 1);
        redis_says(&w, op, CORE_OK);
        ck_assert_uint_gt(expect_reply(&w, id, CORE_GRANTED)->token, p.token + 1);
        world_close(&w);
    }
}
END_TEST

/* Redis identifies the holder of these kinds by more than an owner: it has to decide on each grant. */
START_TEST(kinds_that_are_not)
{
    static const enum kind kinds[] = {KIND_COUNTER, KIND_FAIR, KIND_FENCED};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        uint64_t s, t, id;

        open_handing(&w);
        s = session(&w);
        t = session(&w);
        id = lock(&w, s, "a", .kind = kinds[i]);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK, .expiry_ms = 5);
        expect_reply(&w, id, CORE_GRANTED);
        lock(&w, t, "a", .kind = kinds[i]);
        skip_all(&w);
        pass(&w, MS(6));
        unlock(&w, s, "a");
        expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(w.metrics.handoffs, 0);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The first holder was granted the lock before there was a waiter, so without a reserve. */
START_TEST(reserve_denied)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, token;

    open_handing(&w);
    s = session(&w);
    t = session(&w);
    token = take(&w, s, "a");
    id = lock(&w, t, "a");
    unlock(&w, s, "a");
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, w.request, CORE_LEFT);
    ck_assert_uint_eq(op.op.reserve, 8);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_gt(expect_reply(&w, id, CORE_GRANTED)->token, token);
    id = lock(&w, s, "a");
    expect_reply(&w, unlock(&w, t, "a"), CORE_LEFT);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* A reserve was asked for, and Redis has denied it. */
START_TEST(no_room_in_redis)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    open_handing(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    id = lock(&w, t, "a");
    unlock(&w, s, "a");
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, w.request, CORE_LEFT);
    ck_assert_uint_eq(op.op.reserve, 8);
    redis_says(&w, op, CORE_OK, .reserve_denied = true);
    expect_reply(&w, id, CORE_GRANTED);
    lock(&w, s, "a");
    unlock(&w, t, "a");
    expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    skip_all(&w);
    gone(&w, s);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/*
 * Two sessions pipeline LOCK and UNLOCK: they have the lock in turns, tokens rise, and after handoff.max grants Redis
 * is asked again.
 */
START_TEST(to_and_fro)
{
    enum { N = 6 };
    struct world w;
    struct pair p;
    uint64_t u, lock_of[2][N], unlock_of[2][N], last;
    int turns = 0;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL); /* s holds it, t waits */
    u = session(&w);
    for (int i = 0; i < N; i++) {
        lock_of[0][i] = i == 0 ? p.waits : lock(&w, p.t, "a");
        unlock_of[0][i] = unlock(&w, p.t, "a");
        lock_of[1][i] = lock(&w, u, "a");
        unlock_of[1][i] = unlock(&w, u, "a");
    }
    last = p.token;
    expect_reply(&w, unlock(&w, p.s, "a"), CORE_LEFT);
    for (; turns < 7; turns++) {
        uint64_t token = expect_reply(&w, lock_of[turns % 2][turns / 2], CORE_GRANTED)->token;

        ck_assert_uint_eq(token, last + 1);
        last = token;
        if (turns < 6) {
            expect_reply(&w, unlock_of[turns % 2][turns / 2], CORE_LEFT);
        }
    }
    ck_assert_uint_eq(w.metrics.handoffs, 7);
    ck_assert_uint_eq(p.acquired.op.reserve, 8); /* enough for this run */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, unlock_of[0][3], CORE_LEFT);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    for (; turns < 2 * N; turns++) {
        uint64_t token = expect_reply(&w, lock_of[turns % 2][turns / 2], CORE_GRANTED)->token;

        ck_assert_uint_gt(token, last);
        last = token;
        if (turns < 2 * N - 1) {
            expect_reply(&w, unlock_of[turns % 2][turns / 2], CORE_LEFT);
        }
    }
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, unlock_of[1][N - 1], CORE_LEFT);
    world_close(&w);
}
END_TEST

/* The session of the holder ends, killed or not: the next waiter has the lock at once. */
START_TEST(holder_goes)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL);
    gone(&w, p.s);
    expect_reply(&w, p.waits, CORE_GRANTED);
    ck_assert_uint_eq(core_totals(w.core).owners, 1);
    world_close(&w);
}
END_TEST

/* Any session may unlock it by its token, but not by the old one. */
START_TEST(by_token)
{
    struct world w;
    struct pair p;
    uint64_t u, id;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL);
    u = session(&w);
    id = lock(&w, u, "a");
    take(&w, session(&w), "z"); /* with a later token */
    expect_reply(&w, unlock(&w, u, "a", .token = p.token), CORE_LEFT);
    expect_reply(&w, p.waits, CORE_GRANTED);
    expect_reply(&w, unlock(&w, p.s, "a", .token = p.token), CORE_STALE);
    expect_reply(&w, unlock(&w, p.s, "a", .token = p.token + 1), CORE_LEFT);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* The checkpoint for the next process names the new owner. */
START_TEST(named_owners)
{
    static const struct {
        const char *first, *then;
    } rows[] = {{"alice", "bob"}, {NULL, "bob"}, {"alice", NULL}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct core_conf conf = world_conf;
        const struct claim_checkpoint *k;
        struct world w;
        struct pair p;

        conf.handoff_max = 8;
        conf.stores_checkpoints = true;
        world_open_conf(&w, &conf);
        p = pair(&w, (struct ask){.owner = rows[i].first}, (struct ask){.owner = rows[i].then});
        lock(&w, p.s, "a", .owner = rows[i].first, .once = true); /* behind the UNLOCK: another hold */
        expect_reply(&w, w.request, CORE_GRANTED);
        expect_reply(&w, unlock(&w, p.s, "a", .owner = rows[i].first), CORE_LEFT);
        expect_reply(&w, p.waits, CORE_GRANTED);
        k = world_checkpoint(&w, p.acquired.op.claim);
        ck_assert_uint_eq(k->cp.part.redis_owner, p.acquired.op.owner);
        ck_assert_uint_eq(k->cp.part.token, p.token + 1);
        ck_assert_int_eq(k->cp.part.state, CORE_CHECKPOINT_HELD);
        ck_assert_int_eq(k->cp.part.named, rows[i].then != NULL);
        if (rows[i].then != NULL) {
            ck_assert_str_eq(k->owner, rows[i].then);
        }
        world_close(&w);
    }
}
END_TEST

/*
 * The lock passes with the rest of its lease: half of it is enough if we renew it, a lease that the waiter requested
 * must be there as a whole.
 */
START_TEST(lease_left)
{
    static const struct {
        int64_t lease_us, spec_us; /* of the holder; spec_us: of the waiter, too */
        int64_t then_us, after_us;
        bool handed;
    } rows[] = {
        {0, SEC(30), 0, MS(5), true},
        {0, SEC(30), SEC(2), MS(5), true},
        {0, SEC(30), SEC(30), MS(5), false},   /* a little of the lease is over */
        {SEC(10), SEC(30), 0, MS(5), false},   /* it has to be renewed at once */
        {SEC(20), SEC(30), 0, MS(5), true},
        {SEC(10), SEC(30), SEC(10), MS(5), false},
        {SEC(10), SEC(30), SEC(9), MS(5), true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t had_us = rows[i].lease_us != 0 ? rows[i].lease_us : SEC(30);
        int64_t reported_us = reported(rows[i].then_us != 0 ? rows[i].then_us : had_us);
        const struct core_reply *r;
        struct world w;
        struct pair p;

        open_handing(&w);
        p = pair(&w, (struct ask){.lease_us = rows[i].lease_us, .spec_lease_us = rows[i].spec_us},
                 (struct ask){.lease_us = rows[i].then_us, .spec_lease_us = rows[i].spec_us});
        pass(&w, rows[i].after_us);
        unlock(&w, p.s, "a");
        if (!rows[i].handed) {
            p.acquired = redis_releases_for_next(&w, "a");
            expect_reply(&w, w.request, CORE_LEFT);
            redis_says(&w, p.acquired, CORE_OK);
            expect_reply(&w, p.waits, CORE_GRANTED);
            world_close(&w);
            continue;
        }
        expect_reply(&w, w.request, CORE_LEFT);
        r = expect_reply(&w, p.waits, CORE_GRANTED);
        ck_assert_int_eq(r->lease_us, rows[i].then_us != 0 ? reported_us : reported_us - rows[i].after_us);
        if (rows[i].then_us != 0) { /* it ends at the requested time */
            pass(&w, r->lease_us);
            expect_op(&w, CORE_RELEASE, "a");
            expect_reply(&w, unlock(&w, p.t, "a"), CORE_WAS_LOST);
        } else { /* it is renewed before it ends */
            pass(&w, r->lease_us / 3);
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
            ck_assert_uint_eq(w.metrics.jeopardies, 0);
        }
        world_close(&w);
    }
}
END_TEST

/* A renewal in flight counts for the new holder, with any outcome. */
START_TEST(renewed_meanwhile)
{
    for (int gone = 0; gone < 2; gone++) {
        struct world w;
        struct flight op;
        struct pair p;

        open_handing(&w);
        w.conf.handoff_time_us = SEC(60);
        core_configure(w.core, &w.conf);
        p = PAIR(&w, .owner = NULL);
        pass(&w, REPORTED_30S / 3);
        op = expect_op(&w, CORE_EXTEND, "a");
        expect_reply(&w, unlock(&w, p.s, "a"), CORE_LEFT);
        expect_reply(&w, p.waits, CORE_GRANTED);
        redis_says(&w, op, gone ? CORE_GONE_IN_REDIS : CORE_OK);
        if (gone) {
            expect_reply(&w, unlock(&w, p.t, "a"), CORE_WAS_LOST);
        } else {
            ck_assert_int_eq(view_of(&w, "a").deadline_us - w.now_us, REPORTED_30S);
        }
        world_close(&w);
    }
}
END_TEST

/* Redis has lost its data: the hold is reclaimed as Redis had it, and nothing is handed over meanwhile. */
START_TEST(reclaimed)
{
    struct world w;
    struct flight op;
    struct pair p;
    uint64_t u, id;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL);
    u = session(&w);
    id = lock(&w, u, "a");
    expect_reply(&w, unlock(&w, p.s, "a"), CORE_LEFT);
    expect_reply(&w, p.waits, CORE_GRANTED);
    reclaims(&w, 7);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.reclaim);
    ck_assert_uint_eq(op.op.owner, p.acquired.op.owner);
    ck_assert_uint_eq(op.op.claim, p.acquired.op.claim);
    gone(&w, p.t);
    redis_says(&w, redis_releases_for_next(&w, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    redis_says(&w, op, CORE_OK);
    world_close(&w);
}
END_TEST

/* Redis has lost the reserve: hand-offs go as far as the reserve that the reclaim got, if any. */
START_TEST(reclaimed_with_less_room)
{
    static const struct {
        uint32_t max; /* handoff.max by then */
        bool reserve_denied;
        unsigned handoffs;
    } rows[] = {{8, false, 3}, {8, true, 0}, {2, false, 2}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        struct flight op;
        struct pair p;

        open_handing(&w);
        p = PAIR(&w, .owner = NULL);
        w.conf.handoff_max = rows[i].max;
        core_configure(w.core, &w.conf);
        reclaims(&w, 7);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_uint_eq(op.op.reserve, rows[i].max);
        redis_says(&w, op, CORE_OK, .reserve_denied = rows[i].reserve_denied);
        w.conf.handoff_max = 1000;
        core_configure(w.core, &w.conf);
        for (unsigned n = 0; n < rows[i].handoffs; n++) {
            uint64_t id = n == 0 ? p.waits : w.request;

            expect_reply(&w, unlock(&w, n % 2 == 0 ? p.s : p.t, "a"), CORE_LEFT);
            expect_reply(&w, id, CORE_GRANTED);
            lock(&w, n % 2 == 0 ? p.s : p.t, "a");
        }
        ck_assert_uint_eq(w.metrics.handoffs, rows[i].handoffs);
        unlock(&w, rows[i].handoffs % 2 == 0 ? p.s : p.t, "a");
        ck_assert_uint_eq(w.metrics.handoffs, rows[i].handoffs + (rows[i].handoffs == 3));
        skip_all(&w);
        for (; w.answers_seen < w.answers_n; w.answers_seen++) {
            w.answers[w.answers_seen].seen = true;
        }
        world_close(&w);
    }
}
END_TEST

/* The last hold is given back by a release in Redis. */
static void
goes_by_redis(struct world *w, uint64_t id)
{
    redis_releases_for_next(w, "a");
    expect_reply(w, id, CORE_LEFT);
    ck_assert_uint_eq(w->metrics.handoffs, 0);
    skip_all(w);
    world_close(w);
}

START_TEST(not_while_it_is_broken)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL);
    break_name(&w, p.t, "a");
    expect_op(&w, CORE_BREAK_KEY, "a");
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

/*
 * The lock was broken, and its holder ends: the job of the holder comes first, and gives the lock back. The waiter asks
 * Redis, in which others may have the lock by now.
 */
START_TEST(not_after_it_was_broken)
{
    static const char *const names[] = {"n0", "n1", "n2", "n3"};
    struct core_conf conf = world_conf;
    struct world w;
    struct flight op;
    uint64_t s, t, waits, before, broken, held, id;

    conf.handoff_max = 8;
    conf.slice = sizeof(names) / sizeof(names[0]);
    world_open_conf(&w, &conf);
    s = session(&w);
    for (size_t i = 0; i < conf.slice; i++) {
        take(&w, s, names[i]);
    }
    t = session(&w);
    before = session(&w);
    take(&w, before, "a");
    held = lock(&w, s, "a");
    waits = lock(&w, t, "a");
    id = unlock(&w, before, "a");
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, held, CORE_GRANTED);
    broken = break_name(&w, t, "a");
    op = expect_op(&w, CORE_BREAK_KEY, "a");
    w.one_turn = true;
    gone(&w, s); /* uses up the slice before it comes to "a" */
    skip_all(&w);
    redis_says(&w, op, CORE_OK, .expiry_ms = 1);
    expect_reply(&w, broken, CORE_LEFT);
    w.one_turn = false;
    core_end_turn(w.core);
    pass(&w, 0);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    ck_assert(!is_answered(&w, waits));
    skip_all(&w);
    world_close(&w);
}
END_TEST

START_TEST(not_to_another_sort)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    p = pair(&w, (struct ask){.kind = KIND_RW}, (struct ask){.kind = KIND_RW, .shared = true});
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

/* A writer that also read has given up writing: other owners may read beside it, and have got tokens since. */
START_TEST(not_by_a_former_writer_that_reads)
{
    for (int beside = 0; beside < 2; beside++) {
        struct world w;
        struct pair p;
        uint64_t id;

        open_handing(&w);
        p = PAIR(&w, .kind = KIND_RW, .shared = false);
        id = lock(&w, p.s, "a", .kind = KIND_RW, .shared = true);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        id = unlock(&w, p.s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        if (!beside) {
            goes_by_redis(&w, unlock(&w, p.s, "a"));
            continue;
        }
        gone(&w, p.t);
        lock(&w, session(&w), "a", .kind = KIND_RW, .shared = true);
        expect_op(&w, CORE_ACQUIRE, "a");
        id = unlock(&w, p.s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        ck_assert_uint_eq(w.metrics.handoffs, 0);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

START_TEST(not_through_long_pipelines)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL);
    for (int i = 0; i < 64; i++) {
        lock(&w, p.t, "b");
    }
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

/* The release of an earlier hold may still run; that of a writer that also reads, at any time. */
START_TEST(not_while_a_release_may_run)
{
    for (int rw = 0; rw < 2; rw++) {
        enum kind kind = rw ? KIND_RW : KIND_REENTRANT;
        struct world w;
        struct pair p;
        uint64_t id;

        open_handing(&w);
        p = PAIR(&w, .kind = kind);
        id = lock(&w, p.s, "a", .kind = kind, .shared = rw);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        id = unlock(&w, p.s, "a", .shared = rw);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + MS(rw ? 1 : 1000));
        pass(&w, MS(20));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        w.conf.handoff_time_us = SEC(60);
        core_configure(w.core, &w.conf);
        goes_by_redis(&w, unlock(&w, p.s, "a"));
    }
}
END_TEST

/* A RENEW that shortens the lease may still run. */
START_TEST(not_while_a_renew_may_run)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    w.conf.handoff_time_us = SEC(60);
    core_configure(w.core, &w.conf);
    p = PAIR(&w, .spec_lease_us = SEC(1));
    renew(&w, p.s, "a", SEC(10));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

/* The lock was reclaimed twice: the first reclaim may still run. */
START_TEST(not_while_a_reclaim_may_run)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    w.conf.handoff_time_us = SEC(60);
    core_configure(w.core, &w.conf);
    p = PAIR(&w, .owner = NULL);
    reclaims(&w, 7);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

/* The reclaim has not succeeded yet. */
START_TEST(not_while_unverified)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    p = PAIR(&w, .owner = NULL);
    reclaims(&w, 7);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_DOWN);
    gone(&w, p.s);
    redis_says(&w, redis_releases_for_next(&w, "a"), CORE_OK);
    expect_reply(&w, p.waits, CORE_GRANTED);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    world_close(&w);
}
END_TEST

/* An attempt of the next waiter was given up, and may still run. */
START_TEST(not_to_a_waiter_that_may_have_it)
{
    struct world w;
    struct flight op;
    uint64_t s, t, before, id, gives;

    open_handing(&w);
    s = session(&w);
    t = session(&w);
    before = session(&w);
    lock(&w, t, "a", .wait_us = MS(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(10));
    expect_reply(&w, w.request, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    take(&w, before, "a");
    id = lock(&w, s, "a");
    lock(&w, t, "a");
    gives = unlock(&w, before, "a");
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, gives, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    goes_by_redis(&w, unlock(&w, s, "a"));
}
END_TEST

/* The end of an owner gives back all its holds at once, with the re-entry that is in flight. */
START_TEST(no_handoff_of_several_holds)
{
    for (int done = 0; done < 2; done++) {
        struct world w;
        struct flight op;
        struct pair p;
        uint64_t id;

        open_handing(&w);
        p = PAIR(&w, .owner = NULL);
        id = lock(&w, p.s, "a");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        if (done) {
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, id, CORE_GRANTED);
        }
        gone(&w, p.s);
        redis_releases_for_next(&w, "a");
        ck_assert_uint_eq(w.metrics.handoffs, 0);
        world_close(&w);
    }
}
END_TEST

/* Another session has sent a request by the token, and waits for the answer of Redis. */
START_TEST(not_while_more_is_asked)
{
    for (int ends = 0; ends < 2; ends++) {
        struct world w;
        struct flight op;
        struct pair p;
        uint64_t u, id, more;

        open_handing(&w);
        w.conf.handoff_time_us = SEC(60);
        core_configure(w.core, &w.conf);
        p = PAIR(&w, .owner = NULL);
        u = session(&w);
        if (ends) {
            pass(&w, REPORTED_30S / 3);
            expect_op(&w, CORE_EXTEND, "a");
            renew(&w, u, "a", SEC(40), .token = p.token); /* behind the renewal of the watchdog */
            gone(&w, p.s);
            op = redis_releases_for_next(&w, "a");
            expect_reply(&w, w.request, CORE_NOT_HELD);
        } else {
            id = renew(&w, u, "a", SEC(40), .token = p.token);
            op = expect_op(&w, CORE_EXTEND, "a");
            more = unlock(&w, p.s, "a");
            w.request = renew(&w, u, "a", SEC(50), .token = p.token);
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, id, CORE_LEFT);
            op = redis_releases_for_next(&w, "a");
            expect_reply(&w, more, CORE_LEFT);
            expect_reply(&w, w.request, CORE_NOT_HELD);
        }
        ck_assert_uint_eq(w.metrics.handoffs, 0);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, p.waits, CORE_GRANTED);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The waiter wants a lease of its own, and the renewal of the watchdog may make it longer. */
START_TEST(not_a_lease_that_is_being_renewed)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    w.conf.handoff_time_us = SEC(60);
    core_configure(w.core, &w.conf);
    p = pair(&w, (struct ask){.owner = NULL}, (struct ask){.lease_us = SEC(1)});
    pass(&w, REPORTED_30S / 3);
    expect_op(&w, CORE_EXTEND, "a");
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

START_TEST(not_in_jeopardy)
{
    struct world w;
    struct pair p;

    open_handing(&w);
    w.conf.handoff_time_us = SEC(60);
    core_configure(w.core, &w.conf);
    p = PAIR(&w, .owner = NULL);
    pass(&w, REPORTED_30S / 3);
    expect_op(&w, CORE_EXTEND, "a");
    pass(&w, REPORTED_30S / 3 + MS(1));
    ck_assert_uint_eq(w.metrics.jeopardies, 1);
    goes_by_redis(&w, unlock(&w, p.s, "a"));
}
END_TEST

/* The locks of an MLOCK are given up as a whole. */
START_TEST(not_from_within_a_bundle)
{
    for (int by = 0; by < 2; by++) {
        struct world w;
        struct flight op;
        uint64_t h, s, t, id, waits, token;

        open_handing(&w);
        h = session(&w);
        s = session(&w);
        t = session(&w);
        take(&w, h, "b");
        take(&w, h, "a");
        id = mlock(&w, s, "a b");
        waits = lock(&w, t, "a");
        unlock(&w, h, "a");
        op = redis_releases_for_next(&w, "a");
        expect_reply(&w, w.request, CORE_LEFT);
        redis_says(&w, op, CORE_OK);
        token = w.token;
        if (by) {
            unlock(&w, t, "a", .token = token);
        } else {
            gone(&w, s);
        }
        op = redis_releases_for_next(&w, "a");
        if (by) {
            expect_reply(&w, w.request, CORE_LEFT);
        }
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, waits, CORE_GRANTED);
        ck_assert_uint_eq(w.metrics.handoffs, 0);
        if (by) { /* the MLOCK checks its locks only when all are granted */
            give(&w, t, "a");
            unlock(&w, h, "b");
            skip_all(&w);
            (void)id;
        }
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        handed,
        kinds_that_are_not,
        reserve_denied,
        no_room_in_redis,
        to_and_fro,
        holder_goes,
        by_token,
        named_owners,
        lease_left,
        renewed_meanwhile,
        reclaimed,
        reclaimed_with_less_room,
        not_while_it_is_broken, not_after_it_was_broken,
        not_to_another_sort,
        not_by_a_former_writer_that_reads,
        not_through_long_pipelines,
        not_while_a_release_may_run,
        not_while_a_renew_may_run,
        not_while_a_reclaim_may_run,
        not_while_unverified,
        not_to_a_waiter_that_may_have_it,
        no_handoff_of_several_holds,
        not_while_more_is_asked,
        not_a_lease_that_is_being_renewed,
        not_in_jeopardy,
        not_from_within_a_bundle,
    };

    return suite_main("core, hand-over", tests, sizeof(tests) / sizeof(tests[0]));
}
