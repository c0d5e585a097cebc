/*
 * test_core_queue.c -- waiting for locks that others hold: the watch, when Redis is asked again, turns between daemons,
 * ten thousand waiters, and what the views show of all this.
 */
#include <stdio.h>

#include "tests/unit/core_each.h"
#include "tests/unit/core_world.h"

/* Another client has the key: the daemon subscribes, asks again on confirmation, and when the key's time ends. */
START_TEST(taken_elsewhere)
{
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(3));
    op = watch_of(&w, "a");
    expect_state(&w, "a", "taken");
    ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + SEC(3));
    pass(&w, MS(10));
    watching(&w, op.op.queue);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(3) - MS(10));
    pass(&w, SEC(3) - MS(10));
    quiet(&w);
    pass(&w, MS(1)); /* Redis drops a key when its millisecond has passed */
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    ck_assert(!is_watched(&w, "a"));
    ck_assert_uint_eq(w.metrics.attempts, 3);
    ck_assert_uint_eq(w.metrics.attempts_taken, 2);
    world_close(&w);
}
END_TEST

/* However long another client may hold the key (or for ever), Redis is asked every max_poll. */
START_TEST(polls)
{
    static const int64_t pttls[] = {-1, SEC(3600)};

    for (size_t i = 0; i < sizeof(pttls) / sizeof(pttls[0]); i++) {
        struct world w;

        world_open(&w);
        lock(&w, session(&w), "a");
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = pttls[i]);
        ck_assert(is_watched(&w, "a"));
        ck_assert_int_eq(view_of(&w, "a").deadline_us, pttls[i] < 0 ? CORE_FOREVER : w.now_us + pttls[i]);
        for (int n = 0; n < 3; n++) {
            pass(&w, SEC(5));
            quiet(&w);
            pass(&w, MS(1));
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = pttls[i]);
        }
        world_close(&w);
    }
}
END_TEST

START_TEST(hints)
{
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(is_watched(&w, "a"));
    hint(&w, op.op.queue);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    hint(&w, op.op.queue); /* while an attempt is in flight, whose answer may be older than the hint */
    hint(&w, op.op.queue);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30)); /* no hint since the attempt, so no further one */
    quiet(&w);
    ck_assert_uint_eq(w.metrics.hints, 3);
    hint(&w, op.op.queue);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    ck_assert(!is_watched(&w, "a"));
    hint(&w, op.op.queue); /* held here: no attempt */
    watching(&w, op.op.queue);
    hint(&w, 123456); /* of a freed record */
    world_close(&w);
}
END_TEST

/* A reload has changed whether keys are tracked: the watch changes with the next LOCK, and only then. */
START_TEST(watch_follows_the_rules)
{
    struct world w;
    struct flight op;

    world_open(&w);
    lock(&w, session(&w), "a");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(!watch_of(&w, "a").op.tracking);
    for (int i = 0; i < 4; i++) {
        bool tracking = i % 2 == 0;

        lock(&w, session(&w), "a", .tracking = tracking);
        op = watch_of(&w, "a");
        ck_assert(op.op.tracking == tracking);
        watching(&w, op.op.queue);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30));
        lock(&w, session(&w), "a", .tracking = tracking);
        quiet(&w); /* no change */
    }
    world_close(&w);
}
END_TEST

/* The watch lasts as long as a request waits, across grants here, and no longer. */
START_TEST(one_watch)
{
    struct world w;
    struct flight op;
    uint64_t s, t, u, first, second, third;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    first = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    second = lock(&w, t, "a");
    third = lock(&w, u, "a", .wait_us = SEC(1));
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    op = watch_of(&w, "a");
    watching(&w, op.op.queue);
    redis_grants(&w, "a", first);
    pass(&w, SEC(1));
    expect_reply(&w, third, CORE_NOT_GRANTED);
    give(&w, s, "a");
    redis_grants(&w, "a", second);
    ck_assert(!is_watched(&w, "a"));
    third = lock(&w, u, "a"); /* a lock that is held here needs no watch */
    give(&w, t, "a");
    redis_grants(&w, "a", third);
    world_close(&w);
}
END_TEST

/* While Redis is down, pauses double up to half a second; the same head asks again, and the queue keeps its order. */
START_TEST(backoff)
{
    static const int64_t pauses[] = {MS(20), MS(40), MS(80), MS(160), MS(320), MS(500), MS(500)};
    struct world w;
    struct flight op;
    uint64_t first;

    world_open(&w);
    first = lock(&w, session(&w), "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    lock(&w, session(&w), "a");
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        redis_says(&w, op, CORE_DOWN);
        pass(&w, pauses[i] - 1);
        quiet(&w);
        pass(&w, 1);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert_uint_eq(op.op.owner, w.session[0]);
    }
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, first, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* n sessions ask for "a", which is watched, with confirmation; the first one has got it. */
static void
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
    redis_grants(w, "a", id[0]);
}

static void
free_received_by(struct world *w, uint64_t s, int64_t listeners)
{
    uint64_t id = unlock(w, s, "a");

    redis_says(w, expect_op(w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = listeners);
    expect_reply(w, id, CORE_LEFT);
}

static void
open_with_runs(struct world *w, uint32_t most)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = most;
    world_open_conf(w, &conf);
}

/*
 * Others listen to the channel, too: after handoff_max grants in a row here they get a little time before this daemon.
 */
START_TEST(turns_by_count)
{
    enum { N = 9 };
    struct world w;
    struct flight op;
    uint64_t s[N], id[N];

    open_with_runs(&w, 4);
    crowd(&w, s, id, N);
    for (int i = 1; i < N; i++) {
        if (i % 4 == 0) {
            free_received_by(&w, s[i - 1], 2);
            hint(&w, w.flights[0].op.queue); /* of our own release */
            pass(&w, MS(5) - 1);
            quiet(&w);
            expect_reply(&w, lock(&w, session(&w), "a", .nowait = true), CORE_NOT_GRANTED);
            pass(&w, 1);
            op = expect_op(&w, CORE_ACQUIRE, "a");
            redis_says(&w, op, CORE_OK);
        } else {
            expect_reply(&w, unlock(&w, s[i - 1], "a"), CORE_LEFT); /* handed off */
        }
        expect_reply(&w, id[i], CORE_GRANTED);
    }
    ck_assert_uint_eq(w.metrics.handoff_yields, 2);
    ck_assert_uint_eq(w.metrics.handoff_late, 0);
    ck_assert(!is_watched(&w, "a"));
    world_close(&w);
}
END_TEST

/* The only listener is another one, because this daemon is not subscribed any more: the listener gets its turn. */
START_TEST(turns_of_a_listener_while_we_do_not_listen)
{
    static const bool receives[] = {true, false, true}; /* the last one: subscribed again */

    for (int i = 0; i < 3; i++) {
        struct world w;
        struct flight op;
        uint64_t s[4], id[4];

        open_with_runs(&w, 1);
        crowd(&w, s, id, 3);
        if (i > 0) {
            unsubscribed(&w, w.flights[0].op.queue);
        }
        if (i > 1) {
            watching(&w, w.flights[0].op.queue);
        }
        free_received_by(&w, s[0], 1);
        if (!receives[i]) {
            pass(&w, MS(5) - 1);
            quiet(&w);
            pass(&w, 1);
        }
        op = expect_op(&w, CORE_ACQUIRE, "a");
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id[1], CORE_GRANTED);
        ck_assert_uint_eq(w.metrics.handoff_yields, !receives[i]);
        world_close(&w);
    }
}
END_TEST

START_TEST(turns_by_time)
{
    struct world w;
    uint64_t s[4], id[4];

    open_with_runs(&w, 4);
    crowd(&w, s, id, 4);
    pass(&w, MS(10) - 1);
    expect_reply(&w, unlock(&w, s[0], "a"), CORE_LEFT);
    expect_reply(&w, id[1], CORE_GRANTED);
    pass(&w, 1);
    free_received_by(&w, s[1], 2);
    quiet(&w);
    pass(&w, MS(5));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(1)); /* a remote waiter has it */
    pass(&w, SEC(1) + MS(1));
    redis_grants(&w, "a", id[2]);
    pass(&w, MS(16));
    free_received_by(&w, s[2], 2); /* held too long: remote waiters had to wait longer than handoff.time */
    ck_assert_uint_eq(w.metrics.handoff_late, 1);
    pass(&w, MS(5));
    redis_grants(&w, "a", id[3]);
    ck_assert(!is_watched(&w, "a"));
    world_close(&w);
}
END_TEST

/* Only this daemon listens to the channel: no turn for others. */
START_TEST(turns_alone)
{
    enum { N = 9 };
    struct world w;
    uint64_t s[N], id[N];

    world_open(&w);
    crowd(&w, s, id, N);
    for (int i = 1; i < N; i++) {
        pass(&w, MS(20));
        free_received_by(&w, s[i - 1], 1);
        redis_grants(&w, "a", id[i]);
    }
    ck_assert(!is_watched(&w, "a"));
    world_close(&w);
}
END_TEST

/* One watch, and one attempt per release, however many requests wait. */
START_TEST(ten_thousand_waiters)
{
    enum { N = 10000 };
    static struct world w;
    static uint64_t s[N], id[N];
    uint64_t holder, token = 0;
    struct flight op;

    world_open(&w);
    w.unchecked = true;
    holder = session(&w);
    take(&w, holder, "a");
    for (int i = 0; i < N; i++) {
        s[i] = session(&w);
        id[i] = lock(&w, s[i], "a");
    }
    ck_assert_uint_eq(view_of(&w, "a").waiters, N);
    ck_assert_uint_eq(w.metrics.attempts, 1);
    core_check(w.core, w.now_us);
    give(&w, holder, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1));
    op = watch_of(&w, "a");
    watching(&w, op.op.queue);
    for (int i = 0; i < N; i++) {
        const struct core_reply *r;

        r = redis_grants(&w, "a", id[i]);
        ck_assert_msg(r->token > token, "token %d", i);
        token = r->token;
        if (i == N - 1) {
            ck_assert(!is_watched(&w, "a"));
        }
        if (i % 2 == 0) {
            give(&w, s[i], "a");
        } else {
            gone(&w, s[i]); /* releases at once, as UNLOCK does */
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 1);
        }
    }
    ck_assert_uint_eq(w.metrics.attempts, N + 2);
    ck_assert_uint_eq(w.metrics.releases, N + 1);
    world_close(&w);
}
END_TEST

/*
 * Half of the waiters leave, the waits of the others end; the one attempt, which serves no request then, is released.
 */
START_TEST(ten_thousand_leave)
{
    enum { N = 10000 };
    static struct world w;
    struct flight op;

    world_open(&w);
    w.unchecked = true;
    for (int i = 0; i < N; i++) {
        lock(&w, session(&w), "a", .wait_us = SEC(1));
        if (i == 0) {
            op = expect_op(&w, CORE_ACQUIRE, "a");
        }
    }
    for (int i = 0; i < N / 2; i++) {
        gone(&w, w.session[w.sessions_n - 1]);
    }
    ck_assert_uint_eq(w.metrics.cancelled, N / 2);
    pass(&w, SEC(1) + MS(250)); /* the others wait for that attempt only, and it takes too long */
    ck_assert_uint_eq(w.answers_n, N / 2);
    for (int i = 0; i < N / 2; i++) {
        struct answer *r = &w.answers[i];

        /* the attempt is that of the first waiter */
        ck_assert(r->reply.answer == CORE_UNAVAILABLE || (r->reply.id != 1 && r->reply.answer == CORE_NOT_GRANTED));
        r->seen = true;
    }
    ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ---- views ---- */

struct seen {
    char text[512];
};

static void
see_lock(void *ctx, const struct core_lock_view *v)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof(s->text) - n, "%.*s:%s:%d ", (int)v->name.n, v->name.p, v->state, (int)v->waiters);
}

static void
see_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof(s->text) - n, "%.*s:%d:%.*s:%lld:%lld%s ", (int)v->name.n, v->name.p, (int)v->position,
             (int)v->owner.name.n, v->owner.name.p, (long long)(v->waited_us / 1000),
             v->due_us == CORE_FOREVER ? -1 : (long long)(v->due_us / 1000), v->kept ? ":kept" : "");
}


static const char *
waiters(const struct world *w, const char *glob, struct seen *s)
{
    s->text[0] = '\0';
    core_each_waiter(w->core, w->now_us, slice_of(glob), see_waiter, s);
    return s->text;
}

static const char *
locks(const struct world *w, const char *glob, struct seen *s)
{
    s->text[0] = '\0';
    core_each_lock(w->core, w->now_us, slice_of(glob), see_lock, s);
    return s->text;
}

/* Losses that were not reported yet are no positions: as many of these are kept as may wait. */
START_TEST(losses_take_no_kept_positions)
{
    static const char *const name[] = {"a", "b", "c"};
    struct core_conf conf = world_conf;
    struct world w;
    struct seen seen;
    uint64_t s, id;

    conf.waiters_max = 2;
    world_open_conf(&w, &conf);
    s = session(&w);
    for (int i = 0; i < 3; i++) {
        take(&w, s, name[i]);
        pass(&w, SEC(10));
        redis_says(&w, expect_op(&w, CORE_EXTEND, name[i]), CORE_GONE_IN_REDIS);
        expect_state(&w, name[i], "lost");
    }
    take(&w, s, "x");
    id = lock(&w, session(&w), "x", .owner = "alice", .wait_us = SEC(1));
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    ck_assert_ptr_nonnull(strstr(waiters(&w, "x", &seen), "x:1:alice:1000:"));
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    world_close(&w);
}
END_TEST

START_TEST(views)
{
    struct world w;
    struct seen seen;
    struct core_lock_view v;
    struct core_session_counts n;
    uint64_t s, t, id, token;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    token = take(&w, s, "k:1");
    id = lock(&w, s, "k:2", .owner = "alice", .lease_us = SEC(60), .key = "{k:2}");
    redis_grants(&w, "{k:2}", id);
    pass(&w, SEC(1));
    id = lock(&w, t, "k:1", .wait_us = SEC(3), .owner = "bob");
    pass(&w, SEC(2));
    lock(&w, t, "k:1");
    lock(&w, t, "x", .owner = "carol");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "x"), CORE_TAKEN, .pttl_us = SEC(20));
    ck_assert(is_watched(&w, "x"));
    lock(&w, t, "y", .owner = "dave");
    expect_op(&w, CORE_ACQUIRE, "y");

    ck_assert_str_eq(locks(&w, "", &seen), "k:1:held:2 k:2:held:0 x:taken:1 y:trying:1 ");
    ck_assert_str_eq(locks(&w, "k*", &seen), "k:1:held:2 k:2:held:0 ");
    ck_assert_str_eq(waiters(&w, "", &seen), "k:1:1:bob:2000:1004000 k:1:2::0:-1 x:1:carol:0:-1 y:1:dave:0:-1 ");
    ck_assert_str_eq(waiters(&w, "x", &seen), "x:1:carol:0:-1 ");
    v = view_of(&w, "k:1");
    ck_assert(v.renewed && v.owner.redis_owner == s && v.owner.session == s && v.token == token);
    ck_assert_int_eq(v.held_us, SEC(3));
    ck_assert_int_eq(v.oldest_wait_us, SEC(2));
    ck_assert_int_eq(v.deadline_us, SEC(1000) + REPORTED_30S);
    ck_assert_uint_eq(v.holds, 1);
    v = view_of(&w, "k:2");
    ck_assert(!v.renewed && slice_eq(v.owner.name, SLICE_LIT("alice")) && slice_eq(v.key, SLICE_LIT("{k:2}")));
    n = core_session_count(w.core, s);
    ck_assert(n.held == 2 && n.waiting == 0);
    n = core_session_count(w.core, t);
    ck_assert(n.held == 0 && n.waiting == 4);
    n = core_session_count(w.core, 999);
    ck_assert(n.held == 0 && n.waiting == 0);
    ck_assert_uint_eq(core_totals(w.core).waiters, 4);
    ck_assert_uint_eq(core_totals(w.core).owners, 6);

    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED); /* the position of bob is kept */
    ck_assert_str_eq(waiters(&w, "k:1", &seen), "k:1:1:bob:3000:1006000:kept k:1:2::1000:-1 ");
    ck_assert_str_eq(locks(&w, "k:1", &seen), "k:1:held:1 ");

    unlock(&w, s, "k:1");
    expect_op(&w, CORE_RELEASE, "k:1");
    ck_assert_uint_eq(core_totals(w.core).releasing_claims, 1);
    v = view_of(&w, "k:1");
    ck_assert_str_eq(v.state, "freeing");
    ck_assert(v.owner.redis_owner == s && v.token == token && v.holds == 0 && v.deadline_us == 0);
    world_close(&w);
}
END_TEST

/*
 * An attempt is unanswered, and Redis has granted it. Meanwhile an owner with a kept position in front has come back,
 * and finds the lock taken by this daemon's own claim, which nobody holds. The claim asks again before its lease ends.
 */
START_TEST(an_unanswered_grant_behind_a_kept_position)
{
    struct world w;
    struct flight op;
    uint64_t a, b, id, asked_by;
    int asked = 0;

    world_open(&w);
    a = session(&w);
    b = session(&w);
    id = lock(&w, a, "a", .owner = "alice", .wait_us = MS(100));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = MS(200));
    pass(&w, MS(100));
    expect_reply(&w, id, CORE_NOT_GRANTED); /* the position is kept for 2 s */
    lock(&w, b, "a", .owner = "bob");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    asked_by = op.op.owner;
    lock(&w, a, "a", .owner = "alice");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + MS(900)); /* Redis has run it */
    for (int i = 0; i < 200 && asked == 0; i++) {
        stall(&w, MS(100));
        world_step(&w, &(struct core_event){.type = CORE_TIME});
        if (has_op(&w, CORE_RELEASE, "a")) {
            asked++;
        } else if (has_op(&w, CORE_ACQUIRE, "a")) {
            op = expect_op(&w, CORE_ACQUIRE, "a");
            asked += op.op.owner == asked_by;
            redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30) - i * MS(100));
        }
    }
    ck_assert_msg(asked > 0, "the lock stays taken by a claim that nobody holds, until its lease ends");
    skip_all(&w);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        an_unanswered_grant_behind_a_kept_position,
        taken_elsewhere, polls,         hints,       one_watch,            backoff,
        turns_by_count,  turns_by_time, turns_alone, ten_thousand_waiters, ten_thousand_leave,
        losses_take_no_kept_positions,
        views,
        turns_of_a_listener_while_we_do_not_listen,
        watch_follows_the_rules,
    };

    return suite_main("core, queue", tests, sizeof(tests) / sizeof(tests[0]));
}
