/*
 * test_core_linger.c -- a lock without waiters stays cached here for a while, and the next request takes it up without
 * a command to Redis.
 */
#include "tests/unit/core_world.h"

static struct core_conf
conf_of(bool keeps)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = 8;
    conf.stores_checkpoints = keeps;
    return conf;
}

static void
open_lingering(struct world *w)
{
    struct core_conf conf = conf_of(false);

    world_open_conf(w, &conf);
}

#define LINGER .linger_us = MS(5)

/* s has taken "a" and given it back: the lock is cached. Returns the acquire, with the ids that Redis knows it by. */
static struct flight
lingers(struct world *w, uint64_t s, struct ask how)
{
    uint64_t id = world_ask(w, CORE_LOCK, s, "a", how);
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert_uint_eq(op.op.reserve, 8);
    redis_says(w, op, CORE_OK);
    expect_reply(w, id, CORE_GRANTED);
    ck_assert_int_eq(expect_reply(w, unlock(w, s, "a", .owner = how.owner), CORE_LEFT)->left, 0);
    expect_state(w, "a", "lingering");
    return op;
}

/* Now the cached lock is released in Redis, by the ids of its acquire. */
static void
is_released(struct world *w, struct flight acquired)
{
    struct flight op = expect_op(w, CORE_RELEASE, "a");

    ck_assert_uint_eq(op.op.claim, acquired.op.claim);
    ck_assert_uint_eq(op.op.owner, acquired.op.owner);
    ck_assert_uint_eq(op.op.holds, 0);
    redis_says(w, op, CORE_OK);
    ck_assert(!known(w, "a"));
}

/* The next request takes the lock up: one of the former owner or of another one, also with NOWAIT. */
START_TEST(taken_up)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SIMPLE, KIND_RW};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t s, t, token;

        open_lingering(&w);
        s = session(&w);
        t = session(&w);
        op = lingers(&w, s, (struct ask){.kind = kinds[i], LINGER});
        token = w.token;
        expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
        for (int turn = 0; turn < 3; turn++) {
            uint64_t who = turn == 0 ? s : t;
            const struct core_reply *r;

            pass(&w, MS(1));
            r = expect_reply(&w, lock(&w, who, "a", .kind = kinds[i], LINGER, .nowait = turn == 1), CORE_GRANTED);
            ck_assert_uint_eq(r->token, ++token);
            ck_assert_uint_eq(r->holds, 1);
            ck_assert_int_eq(r->lease_us, REPORTED_30S - MS(turn + 1));
            expect_state(&w, "a", "held");
            expect_reply(&w, unlock(&w, who, "a"), CORE_LEFT);
        }
        ck_assert_uint_eq(w.metrics.lingers, 4);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 4);
        pass(&w, MS(5) - 1);
        quiet(&w);
        pass(&w, 1);
        is_released(&w, op);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 4);
        world_close(&w);
    }
}
END_TEST

/*
 * The session of the holder has gone: its lock is cached as after an UNLOCK; after the release no record of it is left.
 */
START_TEST(its_holder_has_gone)
{
    struct world w;
    struct flight op;
    uint64_t s, t;

    open_lingering(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", LINGER);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, w.request, CORE_GRANTED);
    gone(&w, s);
    expect_state(&w, "a", "lingering");
    expect_reply(&w, lock(&w, t, "a", LINGER), CORE_GRANTED);
    ck_assert_uint_eq(core_totals(w.core).owners, 1);
    gone(&w, t);
    pass(&w, MS(5));
    is_released(&w, op);
    ck_assert_uint_eq(core_totals(w.core).owners, 0);
    world_close(&w);
}
END_TEST

/* A cached lock has no holder: it does not count for the last owner until that owner takes it again. */
START_TEST(counts_for_no_owner)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    open_lingering(&w);
    w.conf.locks_max = 1;
    core_configure(w.core, &w.conf);
    s = session(&w);
    op = lingers(&w, s, (struct ask){LINGER});
    id = lock(&w, s, "b");
    redis_grants(&w, "b", id);
    expect_reply(&w, lock(&w, s, "c"), CORE_TOO_MANY_LOCKS);
    expect_reply(&w, lock(&w, s, "a", LINGER), CORE_TOO_MANY_LOCKS);
    id = unlock(&w, s, "b");
    redis_releases(&w, "b", id);
    expect_reply(&w, lock(&w, s, "a", LINGER), CORE_GRANTED);
    expect_reply(&w, lock(&w, s, "b"), CORE_TOO_MANY_LOCKS);
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    expect_reply(&w, lock(&w, session(&w), "a", LINGER), CORE_GRANTED);
    expect_reply(&w, unlock(&w, w.session[1], "a"), CORE_LEFT);
    pass(&w, MS(5));
    is_released(&w, op);
    world_close(&w);
}
END_TEST

/* A request that the cached lock does not suit waits until Redis has answered the release. */
START_TEST(not_as_it_is)
{
    enum why { LONGER_LEASE, LONGER_LEASE_OF_ITS_OWN, SHARED, SHARED_OF_ITS_OWN, LATE, LATE_OF_ITS_OWN, WHYS };

    for (enum why why = 0; why < WHYS; why++) {
        bool own = why == LONGER_LEASE_OF_ITS_OWN || why == SHARED_OF_ITS_OWN || why == LATE_OF_ITS_OWN;
        struct flight released = {0};
        struct world w;
        uint64_t s, t, id;

        open_lingering(&w);
        s = session(&w);
        t = own ? s : session(&w);
        lingers(&w, s, (struct ask){.kind = KIND_RW, .linger_us = MS(20)});
        pass(&w, why >= LATE ? w.conf.handoff_time_us : 1);
        released = why >= LATE ? expect_op(&w, CORE_RELEASE, "a") : released; /* by then the lock is no longer cached */
        id = lock(&w, t, "a", .kind = KIND_RW, LINGER, .shared = why == SHARED || why == SHARED_OF_ITS_OWN,
                  .lease_us = why <= LONGER_LEASE_OF_ITS_OWN ? SEC(60) : 0);
        if (why < LATE && !own) {
            redis_says(&w, redis_releases_for_next(&w, "a"), CORE_OK);
            expect_reply(&w, id, CORE_GRANTED);
        } else { /* the claim has to be free first; or the answer reports whether others wait elsewhere */
            redis_says(&w, why >= LATE ? released : expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
            redis_grants(&w, "a", id);
        }
        world_close(&w);
    }
}
END_TEST

/* The former owner has so many requests that a walk over all of them would take too long: the lock is released. */
START_TEST(not_through_long_pipelines)
{
    struct world w;
    uint64_t s, id;

    open_lingering(&w);
    s = session(&w);
    lingers(&w, s, (struct ask){LINGER});
    lock(&w, s, "b");
    expect_op(&w, CORE_ACQUIRE, "b");
    for (int i = 0; i < 64; i++) {
        lock(&w, s, "b");
    }
    id = lock(&w, session(&w), "a", LINGER);
    redis_says(&w, redis_releases_for_next(&w, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* A request waits to which the lock cannot be handed off: the lock is released, and not cached. */
START_TEST(not_while_a_request_waits)
{
    struct world w;
    struct flight op;
    uint64_t s, id, waits;

    open_lingering(&w);
    s = session(&w);
    id = lock(&w, s, "a", LINGER);
    redis_grants(&w, "a", id);
    waits = lock(&w, session(&w), "a", LINGER, .lease_us = SEC(60));
    id = unlock(&w, s, "a");
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    ck_assert_uint_eq(w.metrics.lingers, 0);
    world_close(&w);
}
END_TEST

/* After handoff_max grants in a row the lock is released in Redis. */
START_TEST(so_many_times)
{
    struct world w;
    uint64_t s;

    open_lingering(&w);
    s = session(&w);
    lingers(&w, s, (struct ask){LINGER});
    for (int i = 1; i < 7; i++) {
        expect_reply(&w, lock(&w, s, "a", LINGER), CORE_GRANTED);
        expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    }
    expect_reply(&w, lock(&w, s, "a", LINGER), CORE_GRANTED);
    give(&w, s, "a");
    world_close(&w);
}
END_TEST

/* A reload shortens the runs, and the run of the cached lock is too long now: it is released, whoever asks next. */
START_TEST(until_a_reload)
{
    for (int own = 0; own < 2; own++) {
        struct world w;
        uint64_t s, t, id;

        open_lingering(&w);
        s = session(&w);
        t = own ? s : session(&w);
        lingers(&w, s, (struct ask){LINGER});
        w.conf.handoff_max = 0;
        core_configure(w.core, &w.conf);
        id = lock(&w, t, "a", LINGER);
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        redis_grants(&w, "a", id);
        world_close(&w);
    }
}
END_TEST

/* BREAK, DRAIN, a loss of data and a jump of the clock end the caching at once. */
START_TEST(ends)
{
    enum why { BREAK, DRAIN, RECLAIM, SUSPECT, WHYS };

    for (enum why why = 0; why < WHYS; why++) {
        struct world w;
        struct flight op, broken;
        uint64_t s;

        open_lingering(&w);
        s = session(&w);
        op = lingers(&w, s, (struct ask){LINGER});
        switch (why) {
        case BREAK:
            break_name(&w, s, "a");
            op = expect_op(&w, CORE_RELEASE, "a");
            broken = expect_op(&w, CORE_BREAK_KEY, "a");
            redis_says(&w, op, CORE_OK);
            redis_says(&w, broken, CORE_OK);
            expect_reply(&w, w.request, CORE_LEFT);
            world_close(&w);
            continue;
        case DRAIN:
            drains(&w);
            break;
        case RECLAIM:
            reclaims(&w, 7);
            break;
        default:
            suspects(&w);
            break;
        }
        is_released(&w, op);
        ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 1);
        world_close(&w);
    }
}
END_TEST

/* A lock is not cached where a cached one would be of no use, or of doubtful use. */
START_TEST(does_not)
{
    enum why { PERMIT, SHORT_LEASE, READER, RENEWED, DRAINING, WHYS };

    for (enum why why = 0; why < WHYS; why++) {
        enum kind kind = why == PERMIT ? KIND_SEMAPHORE : why == READER ? KIND_RW : KIND_REENTRANT;
        struct world w;
        uint64_t s, id;

        open_lingering(&w);
        w.conf.handoff_time_us = SEC(60);
        core_configure(w.core, &w.conf);
        s = session(&w);
        id = lock(&w, s, "a", LINGER, .kind = kind, .shared = why == READER,
                  .lease_us = why == SHORT_LEASE ? MS(7) : 0);
        redis_grants(&w, "a", id);
        if (why == RENEWED) {
            pass(&w, REPORTED_30S / 3);
            expect_op(&w, CORE_EXTEND, "a");
        } else if (why == DRAINING) {
            drains(&w);
        }
        id = unlock(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        ck_assert_uint_eq(w.metrics.lingers, 0);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The checkpoint of a cached lock is one to release; when an owner takes the lock up, it is one held by this owner. */
START_TEST(kept)
{
    struct core_conf conf = conf_of(true);
    struct world w;
    struct flight op;
    uint64_t s;

    world_open_conf(&w, &conf);
    s = session(&w);
    op = lingers(&w, s, (struct ask){.owner = "alice", LINGER});
    ck_assert_int_eq(world_checkpoint(&w, op.op.claim)->cp.part.state, CORE_CHECKPOINT_RELEASING);
    expect_reply(&w, lock(&w, s, "a", .owner = "bob", LINGER), CORE_GRANTED);
    ck_assert_int_eq(world_checkpoint(&w, op.op.claim)->cp.part.state, CORE_CHECKPOINT_HELD);
    ck_assert_str_eq(world_checkpoint(&w, op.op.claim)->owner, "bob");
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {taken_up, its_holder_has_gone, counts_for_no_owner, not_as_it_is,
                            not_through_long_pipelines, not_while_a_request_waits, so_many_times, until_a_reload,
                            ends, does_not, kept};

    return suite_main("core, linger", tests, sizeof(tests) / sizeof(tests[0]));
}
