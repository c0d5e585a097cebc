/*
 * test_core_waiter_poll.c -- while a lock stays at this daemon, the daemon asks Redis whether it has remote waiters.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

#define GAP_US MS(1)
#define LAZY_US (MS(10) / 4 * 3) /* three quarters of handoff.time, which is less than 8 ms */

static void
open_probing(struct world *w)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = 100;
    world_open_conf(w, &conf);
}

/* ---- answers of Redis ---- */

/* Answers the poll with this number: so many subscribers of each name. */
static void
answered(struct world *w, uint64_t op, size_t n, int64_t subscribers)
{
    int64_t each[CORE_WAITER_POLL_MAX];
    struct core_event ev = {.type = CORE_WAITERS_POLLED, .polled = {op, each, n}};

    for (size_t i = 0; i < n; i++) {
        each[i] = subscribers;
    }
    happens(w, &ev);
}

/* Answers the last poll. */
static void
listen(struct world *w, int64_t subscribers)
{
    answered(w, w->waiter_poll.op, w->waiter_poll.n, subscribers);
}

/* The next poll is sent after exactly this time, about n names, of which this is the first. */
static void
polled_after(struct world *w, int64_t us, size_t n, const char *first)
{
    unsigned before = w->polls_n;

    pass(w, us - 1);
    ck_assert_uint_eq(w->polls_n, before);
    pass(w, 1);
    ck_assert_uint_eq(w->polls_n, before + 1);
    ck_assert_uint_eq(w->waiter_poll.n, n);
    ck_assert_str_eq(w->waiter_poll.key[0], first);
}

/* ---- a cached lock ---- */

#define LINGER .linger_us = MS(500)

static void
goes_round(struct world *w, uint64_t s, const char *name)
{
    expect_reply(w, lock(w, s, name, LINGER), CORE_GRANTED);
    expect_reply(w, unlock(w, s, name), CORE_LEFT);
    expect_state(w, name, "lingering");
}

static void
takes(struct world *w, uint64_t s, struct ask how)
{
    uint64_t id = world_ask(w, CORE_LOCK, s, "a", how);

    redis_says(w, expect_op(w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(w, id, CORE_GRANTED);
}

/* A new world, in which a session has taken "a" in this way and given it back: the lock is cached. */
static uint64_t
cached(struct world *w, struct ask how)
{
    uint64_t s;

    open_probing(w);
    s = session(w);
    takes(w, s, how);
    expect_reply(w, unlock(w, s, "a"), CORE_LEFT);
    expect_state(w, "a", "lingering");
    return s;
}

#define CACHED(w, ...) cached(w, (struct ask){LINGER, __VA_ARGS__})

/* A BREAK ends the caching at once, here and in Redis. */
static void
breaks(struct world *w, uint64_t s)
{
    uint64_t id = break_name(w, s, "a");
    struct flight op = expect_op(w, CORE_RELEASE, "a"), broken = expect_op(w, CORE_BREAK_KEY, "a");

    redis_says(w, op, CORE_OK);
    redis_says(w, broken, CORE_OK);
    expect_reply(w, id, CORE_LEFT);
}

/*
 * The first poll comes soon, later ones at intervals, until the lock is released in Redis; none without a cached lock.
 */
START_TEST(asked_while_it_lingers)
{
    struct world w;

    open_probing(&w);
    take(&w, session(&w), "b");
    ck_assert_int_gt(core_next_us(w.core), w.now_us + SEC(1));
    world_close(&w);
    cached(&w, (struct ask){.linger_us = MS(30)});
    polled_after(&w, GAP_US, 1, "a");
    listen(&w, 0);
    for (int i = 0; i < 3; i++) {
        polled_after(&w, LAZY_US, 1, "a");
        listen(&w, 0);
    }
    ck_assert_uint_eq(w.polls_n, 4);
    pass(&w, MS(29) - 3 * LAZY_US);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    pass(&w, SEC(60));
    ck_assert_uint_eq(w.polls_n, 4);
    ck_assert_int_eq(core_next_us(w.core), CORE_FOREVER);
    world_close(&w);
}
END_TEST

/* The lock is released at once, and the next local waiter waits until the remote waiters have had their turn. */
START_TEST(ended_for_a_remote_waiter)
{
    struct world w;
    struct flight op;
    uint64_t s = CACHED(&w), id;

    polled_after(&w, GAP_US, 1, "a");
    listen(&w, 1);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(w.metrics.linger_yields, 1);
    id = lock(&w, s, "a", LINGER);
    redis_says(&w, op, CORE_OK, .remote_subscribers = 1);
    ck_assert_uint_eq(w.metrics.handoff_yields, 1);
    pass(&w, MS(5) - 1);
    quiet(&w);
    pass(&w, 1);
    redis_grants(&w, "a", id);
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT); /* they had it, or did not want it */
    expect_state(&w, "a", "lingering");
    world_close(&w);
}
END_TEST

/* The remote waiter has gone before the release: no turn for others. */
START_TEST(no_listener_any_more)
{
    struct world w;
    struct flight op;
    uint64_t s = CACHED(&w), id;

    pass(&w, GAP_US);
    listen(&w, 1);
    op = expect_op(&w, CORE_RELEASE, "a");
    id = lock(&w, s, "a", LINGER);
    redis_says(&w, op, CORE_OK, .remote_subscribers = 0);
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(w.metrics.handoff_yields, 0);
    world_close(&w);
}
END_TEST

/*
 * Held when the answer comes: the lock is not cached again before a release in Redis, or a poll that finds no waiter.
 */
START_TEST(held_when_that_is_received)
{
    for (int gone = 0; gone < 2; gone++) {
        struct world w;
        uint64_t s = CACHED(&w), id;

        expect_reply(&w, lock(&w, s, "a", LINGER), CORE_GRANTED);
        polled_after(&w, GAP_US, 1, "a");
        listen(&w, 1);
        if (gone) {
            polled_after(&w, LAZY_US, 1, "a");
            listen(&w, 0);
            expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
            expect_state(&w, "a", "lingering");
        } else {
            give(&w, s, "a");
            id = lock(&w, s, "a", LINGER);
            redis_grants(&w, "a", id);
            expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
            expect_state(&w, "a", "lingering");
        }
        ck_assert_uint_eq(w.metrics.linger_yields, 0);
        world_close(&w);
    }
}
END_TEST

/* A run lasts handoff.time from the sending of the poll, not from its answer: so a remote waiter waits no longer. */
START_TEST(the_handoff_time_starts_at_the_poll)
{
    for (int late = 0; late < 2; late++) {
        struct world w;
        uint64_t s = CACHED(&w), id;

        polled_after(&w, GAP_US, 1, "a");
        pass(&w, MS(6));
        listen(&w, 0);
        w.now_us += MS(4) - 1 + late;
        if (late) {
            id = lock(&w, s, "a", LINGER);
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
            redis_grants(&w, "a", id);
        } else {
            goes_round(&w, s, "a");
        }
        world_close(&w);
    }
}
END_TEST

/* A run that has begun since the poll has its own time. */
START_TEST(a_later_run_has_its_own_time)
{
    struct world w;
    uint64_t s = CACHED(&w);

    polled_after(&w, GAP_US, 1, "a");
    breaks(&w, s);
    ck_assert(!known(&w, "a"));
    listen(&w, 1); /* about a record that was freed */
    pass(&w, MS(4));
    takes(&w, s, (struct ask){LINGER});
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    pass(&w, GAP_US);
    ck_assert_uint_eq(w.polls_n, 2);
    world_close(&w);
}
END_TEST

/* Remote waiters of tracked keys may poll without a subscription: the lock is released as often as without polls. */
START_TEST(not_where_others_poll)
{
    struct world w;
    uint64_t s = CACHED(&w, .tracking = true), id;

    polled_after(&w, GAP_US, 1, "a");
    listen(&w, 0);
    pass(&w, MS(9) - 1);
    quiet(&w);
    pass(&w, 1); /* no local request could take it up any more */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    id = lock(&w, s, "a", LINGER, .tracking = true);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* ---- the interval ---- */

/* After 32 grants the next poll comes after a millisecond. */
START_TEST(more_often_when_there_is_much_to_do)
{
    struct world w;
    uint64_t s = CACHED(&w);

    polled_after(&w, GAP_US, 1, "a");
    listen(&w, 0);
    for (int i = 0; i < 31; i++) {
        goes_round(&w, s, "a");
    }
    pass(&w, GAP_US);
    ck_assert_uint_eq(w.polls_n, 1);
    polled_after(&w, LAZY_US - GAP_US, 1, "a");
    listen(&w, 0);
    for (int i = 0; i < 32; i++) {
        goes_round(&w, s, "a");
    }
    polled_after(&w, GAP_US, 1, "a");
    world_close(&w);
}
END_TEST

/* With many names the next poll comes a millisecond later, and each name has its turn. */
START_TEST(going_round)
{
    enum { NAMES = 300 };
    struct world w;
    uint64_t s;
    char name[WORLD_TEXT];
    int asked[NAMES] = {0};

    open_probing(&w);
    w.unchecked = true;
    s = session(&w);
    for (int i = 0; i < NAMES; i++) {
        uint64_t id;

        snprintf(name, sizeof(name), "n%d", i);
        id = lock(&w, s, name, LINGER);
        redis_grants(&w, name, id);
        expect_reply(&w, unlock(&w, s, name), CORE_LEFT);
    }
    for (int i = 0; i < 3; i++) {
        polled_after(&w, GAP_US, CORE_WAITER_POLL_MAX, (const char *[]){"n0", "n128", "n256"}[i]);
        for (size_t k = 0; k < w.waiter_poll.n; k++) {
            asked[atoi(w.waiter_poll.key[k] + 1)]++;
        }
        listen(&w, 0);
    }
    for (int i = 0; i < NAMES; i++) {
        /* The last poll is filled up with the first names. */
        ck_assert_int_eq(asked[i], 1 + (i < 3 * CORE_WAITER_POLL_MAX - NAMES));
    }
    polled_after(&w, LAZY_US, CORE_WAITER_POLL_MAX, "n84");
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* One poll at a time; names that come meanwhile are in the next one. */
START_TEST(one_at_a_time)
{
    struct world w;
    uint64_t s = CACHED(&w);
    uint64_t id;

    polled_after(&w, GAP_US, 1, "a");
    id = lock(&w, s, "b", LINGER);
    redis_grants(&w, "b", id);
    expect_reply(&w, unlock(&w, s, "b"), CORE_LEFT);
    pass(&w, MS(3));
    ck_assert_uint_eq(w.polls_n, 1);
    listen(&w, 0); /* the next one is overdue */
    ck_assert_uint_eq(w.polls_n, 2);
    ck_assert_uint_eq(w.waiter_poll.n, 2);
    world_close(&w);
}
END_TEST

/* Redis is down, or too slow: the bounds of runs hold alone, and the poll is repeated; a late answer is ignored. */
START_TEST(unanswered)
{
    struct core_conf conf = world_conf;
    struct world w;
    uint64_t op, s;

    conf.handoff_max = 8;
    conf.handoff_time_us = SEC(10);
    world_open_conf(&w, &conf);
    s = session(&w);
    takes(&w, s, (struct ask){.linger_us = SEC(5)});
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    answered(&w, 0, 0, 0); /* no poll was sent */
    polled_after(&w, GAP_US, 1, "a");
    op = w.waiter_poll.op;
    polled_after(&w, SEC(1), 1, "a");
    answered(&w, op, 1, 1);
    quiet(&w);
    expect_state(&w, "a", "lingering");
    listen(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    answered(&w, w.waiter_poll.op, 1, 1); /* a second answer */
    world_close(&w);
}
END_TEST

/* A short timeout of Redis does not shorten the interval of polls. */
START_TEST(hasty)
{
    struct core_conf conf = world_conf;
    struct world w;
    uint64_t s;

    conf.handoff_max = 8;
    conf.op_timeout_us = 100;
    world_open_conf(&w, &conf);
    s = session(&w);
    takes(&w, s, (struct ask){LINGER});
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    polled_after(&w, GAP_US, 1, "a");
    polled_after(&w, LAZY_US, 1, "a");
    world_close(&w);
}
END_TEST

/* ---- a lock that is handed off ---- */

/* Another client has had "a", n sessions wait for it, and the daemon listens to its channel. Returns its queue's id. */
static uint64_t
crowd(struct world *w, uint64_t *s, uint64_t *id, int n)
{
    struct flight op;

    s[0] = session(w);
    id[0] = lock(w, s[0], "a");
    op = expect_op(w, CORE_ACQUIRE, "a");
    for (int i = 1; i < n; i++) {
        s[i] = session(w);
        id[i] = lock(w, s[i], "a");
    }
    redis_says(w, op, CORE_TAKEN, .pttl_us = SEC(30));
    op = watch_of(w, "a");
    watching(w, op.op.queue);
    op = expect_op(w, CORE_ACQUIRE, "a");
    redis_says(w, op, CORE_OK);
    expect_reply(w, id[0], CORE_GRANTED);
    return op.op.queue;
}

/* s hands the lock off to the next waiter. */
static void
hands(struct world *w, uint64_t s, uint64_t next)
{
    expect_reply(w, unlock(w, s, "a"), CORE_LEFT);
    expect_reply(w, next, CORE_GRANTED);
}

/*
 * A poll does not change how many grants a run may have. A run that lasts long goes on, unless the poll finds another
 * listener than this daemon.
 */
START_TEST(run_of_hand_overs)
{
    for (int others = 0; others < 2; others++) {
        struct world w;
        uint64_t s[8], id[8], last;

        open_probing(&w);
        crowd(&w, s, id, 8);
        hands(&w, s[0], id[1]);
        pass(&w, MS(5) - 1);
        hands(&w, s[1], id[2]);
        ck_assert_uint_eq(w.polls_n, 0);
        pass(&w, 2 * GAP_US);
        ck_assert_uint_eq(w.polls_n, 1);
        listen(&w, 1 + others);
        pass(&w, MS(3));
        hands(&w, s[2], id[3]);
        pass(&w, MS(1)); /* 11 ms in all, and half of that since the poll */
        if (others == 0) {
            hands(&w, s[3], id[4]);
        } else {
            last = unlock(&w, s[3], "a");
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 2);
            expect_reply(&w, last, CORE_LEFT);
            ck_assert_uint_eq(w.metrics.handoff_yields, 1);
        }
        for (int i = 7; i >= 0; i--) {
            skip_all(&w);
            gone(&w, s[i]);
        }
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* Of very many locks that are handed off a poll has some, and in the end each lock is polled. */
START_TEST(many_runs)
{
    enum { NAMES = 600 };
    struct world w;
    int asked[NAMES] = {0};
    uint64_t s[3];
    char name[WORLD_TEXT];

    open_probing(&w);
    w.unchecked = true;
    for (int i = 0; i < 3; i++) {
        s[i] = session(&w);
    }
    for (int i = 0; i < NAMES; i++) {
        uint64_t id[3];
        struct flight op;

        snprintf(name, sizeof(name), "n%d", i);
        id[0] = lock(&w, s[0], name);
        op = expect_op(&w, CORE_ACQUIRE, name);
        id[1] = lock(&w, s[1], name, .owner = name);
        id[2] = lock(&w, s[2], name, .owner = "o");
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id[0], CORE_GRANTED);
        id[0] = unlock(&w, s[0], name);
        op = redis_releases_for_next(&w, name);
        expect_reply(&w, id[0], CORE_LEFT);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id[1], CORE_GRANTED);
        expect_reply(&w, unlock(&w, s[1], name, .owner = name), CORE_LEFT);
        expect_reply(&w, id[2], CORE_GRANTED);
    }
    pass(&w, MS(5) - 1);
    ck_assert_uint_eq(w.polls_n, 0);
    for (unsigned i = 0; i < 5; i++) {
        pass(&w, MS(1));
        ck_assert_uint_eq(w.polls_n, i + 1);
        /* Names that were polled have time. */
        ck_assert_uint_eq(w.waiter_poll.n, i < 4 ? CORE_WAITER_POLL_MAX : NAMES - 4 * CORE_WAITER_POLL_MAX);
        for (size_t k = 0; k < w.waiter_poll.n; k++) {
            ck_assert_int_eq(asked[atoi(w.waiter_poll.key[k] + 1)]++, 0);
        }
        listen(&w, 0);
    }
    world_close(&w);
}
END_TEST

/*
 * A remote waiter is found: the next local waiter, to which the lock cannot be handed off, asks after the answer to the
 * release, and after the remote waiter. If its attempt was sent before the poll's answer, its grant is the last one of
 * the run.
 */
START_TEST(no_attempt_behind_when_others_wait)
{
    for (int late = 0; late < 2; late++) {
        struct world w;
        struct flight gives, op;
        uint64_t s, t, next[2], id;

        s = CACHED(&w, .kind = KIND_REENTRANT);
        t = session(&w);
        expect_reply(&w, lock(&w, s, "a", LINGER), CORE_GRANTED);
        pass(&w, GAP_US);
        ck_assert_uint_eq(w.polls_n, 1);
        next[0] = lock(&w, t, "a", LINGER, .lease_us = SEC(60));
        next[1] = lock(&w, session(&w), "a", LINGER, .lease_us = SEC(90));
        if (late) {
            id = unlock(&w, s, "a");
            gives = expect_op(&w, CORE_RELEASE, "a");
            op = expect_op(&w, CORE_ACQUIRE, "a");
            listen(&w, 1);
            redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
            expect_reply(&w, id, CORE_LEFT);
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, next[0], CORE_GRANTED);
            ck_assert_uint_eq(w.metrics.handoff_yields, 0);
        } else {
            listen(&w, 1);
        }
        id = unlock(&w, late ? t : s, "a");
        gives = expect_op(&w, CORE_RELEASE, "a");
        quiet(&w);
        redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
        expect_reply(&w, id, CORE_LEFT);
        quiet(&w);
        ck_assert_uint_eq(w.metrics.handoff_yields, 1);
        pass(&w, MS(5));
        redis_grants(&w, "a", next[late]);
        world_close(&w);
    }
}
END_TEST

/* A holder that keeps the lock for long has no run that could go on: no polls. */
START_TEST(not_for_long_holders)
{
    struct world w;
    uint64_t s = CACHED(&w);

    expect_reply(&w, lock(&w, s, "a", LINGER), CORE_GRANTED);
    polled_after(&w, GAP_US, 1, "a");
    listen(&w, 0);
    polled_after(&w, LAZY_US, 1, "a");
    listen(&w, 0);
    pass(&w, SEC(5));
    ck_assert_uint_eq(w.polls_n, 2);
    ck_assert_int_gt(core_next_us(w.core), w.now_us + SEC(1));
    give(&w, s, "a");
    world_close(&w);
}
END_TEST

/* Nor has a lock that was just granted by Redis. */
START_TEST(not_without_a_run)
{
    struct world w;
    uint64_t s = CACHED(&w), id = lock(&w, s, "a", LINGER, .lease_us = SEC(60)); /* more than the rest of the lease */

    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_grants(&w, "a", id);
    pass(&w, SEC(1));
    ck_assert_uint_eq(w.polls_n, 0);
    give(&w, s, "a");
    world_close(&w);
}
END_TEST

/* This daemon's own subscription is not counted if it was there all the time; else a remote waiter is assumed. */
START_TEST(our_own_subscription)
{
    enum sub { THERE, COMES, GOES, SUBS };

    for (enum sub sub = 0; sub < SUBS; sub++) {
        struct world w;
        uint64_t s[3], id[3], last;
        struct flight op;
        bool no_grace = sub == GOES; /* else a position is kept, and so is the subscription */

        open_probing(&w);
        s[0] = session(&w);
        s[1] = session(&w);
        s[2] = session(&w);
        id[0] = lock(&w, s[0], "a", LINGER, .no_queue_grace = no_grace);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        id[1] = lock(&w, s[1], "a", LINGER, .no_queue_grace = no_grace);
        id[2] = lock(&w, s[2], "a", LINGER, .owner = "me", .wait_us = MS(7), .no_queue_grace = no_grace);
        redis_says(&w, op, CORE_TAKEN, .pttl_us = 0);
        op = watch_of(&w, "a");
        if (sub != COMES) {
            watching(&w, op.op.queue);
        } else {
            pass(&w, MS(1));
        }
        redis_grants(&w, "a", id[0]);
        hands(&w, s[0], id[1]);
        pass(&w, GAP_US);
        ck_assert_uint_eq(w.polls_n, 1);
        if (sub == COMES) {
            watching(&w, op.op.queue);
        } else if (sub == GOES) {
            gone(&w, s[2]);
            ck_assert(!is_watched(&w, "a"));
        }
        listen(&w, 1);
        pass(&w, MS(7) - GAP_US);
        if (sub != GOES) {
            expect_reply(&w, id[2], CORE_NOT_GRANTED);
        }
        last = unlock(&w, s[1], "a");
        if (sub == THERE) {
            expect_state(&w, "a", "lingering");
        } else {
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        }
        expect_reply(&w, last, CORE_LEFT);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/*
 * The lock is held here, and a poll is in flight when another daemon broadcasts that it waits: the broadcast is newer.
 */
START_TEST(wanted_behind_a_probe)
{
    struct world w;
    struct core_conf conf = world_conf;
    int64_t none[1] = {0};
    struct core_event ev = {.type = CORE_WAITERS_POLLED};
    uint64_t s, id;

    conf.handoff_max = 100;
    snprintf(conf.daemon, sizeof(conf.daemon), "us");
    world_open_conf(&w, &conf);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .linger_us = MS(500)));
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    expect_state(&w, "a", "lingering");
    pass(&w, MS(1));
    ck_assert_uint_eq(w.polls_n, 1); /* sent */
    id = lock(&w, s, "a", .linger_us = MS(500));
    expect_reply(&w, id, CORE_GRANTED);
    receives(&w, "N5:other,1:a,1:a,", 17); /* a request there was refused after the poll */
    ev.polled = (struct core_waiters_polled){w.waiter_poll.op, none, 1};
    happens(&w, &ev); /* no subscriber yet */
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {asked_while_it_lingers, ended_for_a_remote_waiter, no_listener_any_more,
                            held_when_that_is_received, the_handoff_time_starts_at_the_poll,
                            a_later_run_has_its_own_time,
                            not_where_others_poll, more_often_when_there_is_much_to_do, going_round, one_at_a_time,
                            unanswered, hasty, run_of_hand_overs, many_runs, not_for_long_holders, not_without_a_run,
                            our_own_subscription, no_attempt_behind_when_others_wait, wanted_behind_a_probe};

    return suite_main("core, probe", tests, sizeof(tests) / sizeof(tests[0]));
}
