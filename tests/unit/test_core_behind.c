/*
 * test_core_behind.c -- a release, and the attempts of the next waiters right behind it: one trip to Redis for both;
 * and what becomes of them when the release did not run, or there are remote waiters.
 */
#include "tests/unit/core_world.h"

#define THREE .kind = KIND_SEMAPHORE, .limit = 3
#define RW .kind = KIND_RW
#define READS RW, .shared = true

static void
open_behind(struct world *w, uint32_t handoff_max)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = handoff_max;
    world_open_conf(w, &conf);
}

/* A new session takes "a". */
static uint64_t
has(struct world *w, struct ask how)
{
    uint64_t s = session(w), id = world_ask(w, CORE_LOCK, s, "a", how);

    redis_grants(w, "a", id);
    return s;
}

#define HAS(w, ...) has(w, (struct ask){__VA_ARGS__})

/* Another session waits for it; returns its request. */
static uint64_t
waits(struct world *w, struct ask how)
{
    uint64_t id = world_ask(w, CORE_LOCK, session(w), "a", how);

    quiet(w);
    return id;
}

#define WAITS(w, ...) waits(w, (struct ask){__VA_ARGS__})

START_TEST(permits)
{
    struct world w;
    struct flight gives[2], op[2];
    uint64_t s[3], next[3], id[2];

    open_behind(&w, 8);
    for (int i = 0; i < 3; i++) {
        s[i] = HAS(&w, THREE);
    }
    for (int i = 0; i < 3; i++) {
        next[i] = WAITS(&w, THREE);
    }
    w.one_turn = true;
    for (int i = 0; i < 2; i++) { /* an attempt for each release */
        id[i] = unlock(&w, s[i], "a");
        gives[i] = expect_op(&w, CORE_RELEASE, "a");
        op[i] = expect_op(&w, CORE_ACQUIRE, "a");
        quiet(&w);
    }
    w.one_turn = false;
    core_end_turn(w.core);
    for (int i = 0; i < 2; i++) {
        redis_says(&w, gives[i], CORE_OK);
        expect_reply(&w, id[i], CORE_LEFT);
        quiet(&w);
    }
    for (int i = 0; i < 2; i++) {
        redis_says(&w, op[i], CORE_OK);
        expect_reply(&w, next[i], CORE_GRANTED);
    }
    quiet(&w);
    ck_assert_uint_eq(view_of(&w, "a").holders, 3);
    gone(&w, next[2]);
    world_close(&w);
}
END_TEST

/* Several readers behind a writer; a writer behind the last of several readers. */
START_TEST(readers_and_writers)
{
    struct world w;
    struct flight gives, op[2];
    uint64_t writer, reader[2], read[2], wrote, id;

    open_behind(&w, 8);
    writer = HAS(&w, RW);
    for (int i = 0; i < 2; i++) {
        reader[i] = session(&w);
        read[i] = lock(&w, reader[i], "a", READS);
    }
    wrote = WAITS(&w, RW);
    id = unlock(&w, writer, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    op[1] = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, gives, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    for (int i = 0; i < 2; i++) {
        redis_says(&w, op[i], CORE_OK);
        expect_reply(&w, read[i], CORE_GRANTED);
    }
    id = unlock(&w, reader[0], "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    quiet(&w); /* the other reader goes on */
    op[0] = (unlock(&w, reader[1], "a"), redis_releases_for_next(&w, "a"));
    expect_reply(&w, id + 1, CORE_LEFT);
    redis_says(&w, gives, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, wrote, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/*
 * No attempt leaves behind the release where Redis keeps a queue (fair) or only the expiry proves the hold (counter),
 * nor with handoff.max 0: the answer to the release comes first.
 */
START_TEST(not_there)
{
    static const struct {
        enum kind kind;
        uint32_t max;
    } rows[] = {{KIND_COUNTER, 8}, {KIND_FAIR, 8}, {KIND_REENTRANT, 0}, {KIND_SEMAPHORE, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        struct flight gives;
        uint64_t s, id;

        open_behind(&w, rows[i].max);
        s = HAS(&w, .kind = rows[i].kind);
        pass(&w, MS(6));
        lock(&w, session(&w), "a", .kind = rows[i].kind);
        skip_all(&w); /* kind fair takes its ticket at once */
        if (rows[i].kind == KIND_FAIR) {
            redis_says(&w, w.flights[w.flights_n - 1], CORE_TAKEN, .pttl_us = SEC(20), .has_ticket = true);
            skip_all(&w);
        }
        id = unlock(&w, s, "a");
        gives = expect_op(&w, CORE_RELEASE, "a");
        quiet(&w);
        redis_says(&w, gives, CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        expect_op(&w, CORE_ACQUIRE, "a");
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The release did not run, or its outcome is unknown, and the attempt behind it is TAKEN or granted: Redis decides. */
START_TEST(release_failed)
{
    static const enum core_outcome ends[] = {CORE_DOWN, CORE_UNKNOWN};

    for (size_t i = 0; i < 4; i++) {
        bool ran = i / 2 == 1;
        struct world w;
        struct flight gives, op;
        uint64_t s, next, id;

        open_behind(&w, 8);
        s = HAS(&w, .kind = KIND_FENCED);
        next = WAITS(&w, .kind = KIND_FENCED);
        WAITS(&w, .kind = KIND_FENCED);
        id = unlock(&w, s, "a");
        gives = expect_op(&w, CORE_RELEASE, "a");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        redis_says(&w, gives, ends[i % 2], .guard_us = w.now_us);
        quiet(&w);
        if (ran) {
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, next, CORE_GRANTED);
        } else {
            redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
        }
        pass(&w, MS(20));
        gives = expect_op(&w, CORE_RELEASE, "a");
        if (!ran) { /* the outcome of this release is still open */
            quiet(&w);
        }
        redis_says(&w, gives, ran ? CORE_GONE_IN_REDIS : CORE_OK);
        expect_reply(&w, id, ran && ends[i % 2] == CORE_DOWN ? CORE_WAS_LOST : CORE_LEFT);
        if (!ran) {
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
            expect_reply(&w, next, CORE_GRANTED);
        }
        quiet(&w);
        world_close(&w);
    }
}
END_TEST

/* A release that is put off is sent again later: until then there is none that an attempt could be behind. */
START_TEST(release_put_off)
{
    struct world w;
    struct flight op;
    uint64_t s, next, id;

    open_behind(&w, 8);
    w.conf.handoff_time_us = SEC(60);
    core_configure(w.core, &w.conf);
    s = HAS(&w, .kind = KIND_FENCED);
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    next = WAITS(&w, .kind = KIND_FENCED);
    pass(&w, MS(20) - 1);
    quiet(&w);
    pass(&w, 1);
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, next, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* A release that had to be sent twice, because its script was not loaded, comes behind the attempt. */
START_TEST(overtaken)
{
    struct world w;
    struct flight gives, op;
    uint64_t s, next, id;

    open_behind(&w, 8);
    s = HAS(&w, RW);
    next = WAITS(&w, RW, .lease_us = SEC(60));
    id = unlock(&w, s, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    quiet(&w);
    pass(&w, MS(1));
    redis_says(&w, gives, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    redis_grants(&w, "a", next);
    world_close(&w);
}
END_TEST

/* There are remote waiters. The attempt that leaves as our run ends is the last of it: then it is their turn. */
START_TEST(last_of_a_run)
{
    struct world w;
    struct flight gives, op;
    uint64_t s, t, next[2], id;

    open_behind(&w, 8);
    s = HAS(&w, .kind = KIND_FENCED);
    t = session(&w);
    next[0] = lock(&w, t, "a", .kind = KIND_FENCED);
    next[1] = WAITS(&w, .kind = KIND_FENCED);
    pass(&w, MS(9));
    id = unlock(&w, s, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(2));
    redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, next[0], CORE_GRANTED);
    ck_assert_uint_eq(w.metrics.handoff_yields, 0);
    pass(&w, MS(1));
    id = unlock(&w, t, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    quiet(&w); /* the answer of Redis comes first */
    redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(w.metrics.handoff_yields, 1);
    pass(&w, MS(5) - 1);
    quiet(&w);
    pass(&w, 1);
    redis_grants(&w, "a", next[1]);
    world_close(&w);
}
END_TEST

/* Our run is not over yet: it does not wait for remote waiters. */
START_TEST(in_a_run)
{
    struct world w;
    struct flight gives;
    uint64_t s, id;

    open_behind(&w, 8);
    s = HAS(&w, .kind = KIND_FENCED);
    id = unlock(&w, s, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    lock(&w, s, "a", .kind = KIND_FENCED); /* its own claim has to be free first */
    redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    redis_grants(&w, "a", w.request);
    ck_assert_uint_eq(w.metrics.handoff_yields, 0);
    world_close(&w);
}
END_TEST

/* The release for an attempt that was given up finds nothing: its answer proves nothing about remote waiters. */
START_TEST(swept_up_meanwhile)
{
    struct world w;
    struct flight gives;
    uint64_t s, next, id;

    open_behind(&w, 8);
    lock(&w, session(&w), "a", .kind = KIND_FENCED, .wait_us = MS(10));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(10));
    expect_reply(&w, w.request, CORE_UNAVAILABLE);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    s = HAS(&w, .kind = KIND_FENCED);
    next = WAITS(&w, .kind = KIND_FENCED);
    pass(&w, SEC(1) - MS(10));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    id = unlock(&w, s, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    quiet(&w); /* our run is over: remote waiters come first */
    redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    quiet(&w);
    pass(&w, MS(5));
    redis_grants(&w, "a", next);
    world_close(&w);
}
END_TEST

/* Our run ends after handoff.max grants, too. */
START_TEST(so_many)
{
    struct world w;
    struct flight gives;
    uint64_t s[4], id;

    open_behind(&w, 3);
    s[0] = HAS(&w, .kind = KIND_FENCED);
    for (int i = 1; i < 4; i++) {
        s[i] = session(&w);
        lock(&w, s[i], "a", .kind = KIND_FENCED);
    }
    for (int i = 0; i < 3; i++) {
        id = unlock(&w, s[i], "a");
        gives = expect_op(&w, CORE_RELEASE, "a");
        if (i == 2) {
            quiet(&w);
            redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
            expect_reply(&w, id, CORE_LEFT);
            quiet(&w);
            pass(&w, MS(5));
            redis_grants(&w, "a", (uint64_t)i + 2);
        } else {
            struct flight op = expect_op(&w, CORE_ACQUIRE, "a");

            redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
            expect_reply(&w, id, CORE_LEFT);
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, (uint64_t)i + 2, CORE_GRANTED);
        }
    }
    ck_assert_uint_eq(w.metrics.handoff_yields, 1);
    world_close(&w);
}
END_TEST

/*
 * An attempt for a permit may be in flight when the turn of the remote waiters begins: it is granted, and no other
 * attempt follows it in that turn.
 */
START_TEST(their_turn_stays)
{
    struct world w;
    struct flight gives, op;
    uint64_t s[3], next[2], id;

    open_behind(&w, 8);
    for (int i = 0; i < 3; i++) {
        s[i] = HAS(&w, THREE);
    }
    next[0] = WAITS(&w, THREE);
    next[1] = WAITS(&w, THREE);
    pass(&w, MS(9));
    unlock(&w, s[0], "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(1));
    redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, w.request, CORE_LEFT);
    id = unlock(&w, s[1], "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, next[0], CORE_GRANTED);
    quiet(&w);
    pass(&w, MS(5) - 1);
    quiet(&w);
    pass(&w, 1);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, gives, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, next[1], CORE_GRANTED);
    world_close(&w);
}
END_TEST

/*
 * A hint, or a confirmed watch, is not lost in the turn of the remote waiters: a waiter whose attempt was TAKEN asks
 * again when the turn is over.
 */
START_TEST(a_hint_in_their_turn)
{
    for (int hints = 0; hints < 2; hints++) {
        struct world w;
        struct flight gives, op;
        uint64_t s[3], next;

        open_behind(&w, 8);
        for (int i = 0; i < 3; i++) {
            s[i] = HAS(&w, THREE);
        }
        next = WAITS(&w, THREE);
        pass(&w, MS(9));
        unlock(&w, s[0], "a");
        gives = expect_op(&w, CORE_RELEASE, "a");
        op = expect_op(&w, CORE_ACQUIRE, "a");
        pass(&w, MS(1));
        redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
        expect_reply(&w, w.request, CORE_LEFT);
        ck_assert_uint_eq(w.metrics.handoff_yields, 1);
        if (hints) {
            hint(&w, op.op.queue);
        }
        redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(100));
        if (!hints) {
            watching(&w, watch_of(&w, "a").op.queue);
        }
        pass(&w, MS(5) - 1);
        quiet(&w);
        pass(&w, 1);
        redis_grants(&w, "a", next);
        world_close(&w);
    }
}
END_TEST

/*
 * The nodes of a quorum may answer an attempt before the release in front of it. If the lock that was granted then is
 * released in the turn of the remote waiters, their turn goes on.
 */
START_TEST(released_in_their_turn)
{
    struct world w;
    struct flight gives[2], op;
    uint64_t s, t, next[2], id[2];

    open_behind(&w, 8);
    s = HAS(&w, .kind = KIND_FENCED);
    t = session(&w);
    next[0] = lock(&w, t, "a", .kind = KIND_FENCED);
    next[1] = WAITS(&w, .kind = KIND_FENCED);
    pass(&w, MS(9));
    id[0] = unlock(&w, s, "a");
    gives[0] = expect_op(&w, CORE_RELEASE, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, next[0], CORE_GRANTED);
    pass(&w, MS(1));
    id[1] = unlock(&w, t, "a");
    gives[1] = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, gives[0], CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id[0], CORE_LEFT);
    ck_assert_uint_eq(w.metrics.handoff_yields, 1);
    redis_says(&w, gives[1], CORE_OK); /* a remote waiter is not subscribed while its attempt is in flight */
    expect_reply(&w, id[1], CORE_LEFT);
    pass(&w, MS(5) - 1);
    quiet(&w);
    pass(&w, 1);
    redis_grants(&w, "a", next[1]);
    world_close(&w);
}
END_TEST

/*
 * Readers leave one after the other: the answer of Redis without remote waiters, before the last reader has left,
 * begins no new run.
 */
START_TEST(a_run_of_readers)
{
    struct world w;
    struct flight gives;
    uint64_t s[2], next, id;

    open_behind(&w, 2);
    s[0] = HAS(&w, READS);
    s[1] = HAS(&w, READS);
    next = WAITS(&w, RW);
    id = unlock(&w, s[0], "a");
    redis_releases(&w, "a", id);
    id = unlock(&w, s[1], "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    quiet(&w);
    redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(w.metrics.handoff_yields, 1);
    quiet(&w);
    pass(&w, MS(5));
    redis_grants(&w, "a", next);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        permits,
        readers_and_writers,
        not_there,
        release_failed,
        release_put_off,
        overtaken,
        last_of_a_run,
        in_a_run,
        swept_up_meanwhile,
        so_many,
        their_turn_stays,
        a_hint_in_their_turn,
        released_in_their_turn,
        a_run_of_readers,
    };

    return suite_main("core, behind a release", tests, sizeof(tests) / sizeof(tests[0]));
}
