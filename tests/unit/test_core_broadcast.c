/*
 * test_core_broadcast.c -- broadcasts about one name: when it is broken at another daemon, a daemon that holds it asks
 * Redis at once; when another daemon waits for it, a daemon that has it cached gives it back at once.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

static void
open_as(struct world *w, const char *daemon)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = 8;
    snprintf(conf.daemon, sizeof(conf.daemon), "%s", daemon);
    world_open_conf(w, &conf);
}

/* Breaks `name` at a daemon, with this outcome in Redis. What the daemon broadcasts is in w->broadcasts. */
static void
breaks(struct world *w, const char *daemon, const char *name, enum core_outcome outcome, int64_t were)
{
    uint64_t id;

    open_as(w, daemon);
    id = break_name(w, session(w), name);
    redis_says(w, expect_op(w, CORE_BREAK_KEY, name), outcome, .expiry_ms = were);
    expect_reply(w, id, outcome == CORE_OK ? CORE_LEFT : CORE_UNAVAILABLE);
}

/* Another daemon has broadcast that "a" was broken. */
static void
receives_broken(struct world *w)
{
    static const char text[] = "B5:other,1:a,1:a,";

    receives(w, text, sizeof(text) - 1);
}

START_TEST(a_break_is_broadcast)
{
    static const struct {
        enum core_outcome outcome;
        int64_t were;
        const char *says; /* NULL: no broadcast */
    } cases[] = {
        {CORE_OK, 1, "B5:other,1:a,1:a,4:1001,"}, /* the token of the BREAK */
        {CORE_UNKNOWN, 0, "B5:other,1:a,1:a,"}, /* it may have run */
        {CORE_OK, 0, "B5:other,1:a,1:a,4:1001,"}, /* an earlier BREAK may have run late */
        {CORE_DOWN, 0, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;

        breaks(&w, "other", "a", cases[i].outcome, cases[i].were);
        ck_assert_uint_eq(w.broadcasts_n, cases[i].says != NULL);
        if (cases[i].says != NULL) {
            ck_assert_uint_eq(w.broadcasts[0].n, strlen(cases[i].says));
            ck_assert_mem_eq(w.broadcasts[0].p, cases[i].says, w.broadcasts[0].n);
        }
        world_close(&w);
    }
}
END_TEST

/* The key is gone in Redis: the holder receives LOST at once, and hands the lock over to no waiter. */
START_TEST(lost_at_once)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    open_as(&w, "us");
    s = session(&w);
    take(&w, s, "a");
    receives_broken(&w);
    op = expect_op(&w, CORE_EXTEND, "a");
    t = lock(&w, session(&w), "a");
    id = unlock(&w, s, "a");
    redis_says(&w, op, CORE_GONE_IN_REDIS); /* before any hand-off */
    expect_news(&w, CORE_NEWS_LOST, "a");
    expect_reply(&w, id, CORE_WAS_LOST);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    redis_grants(&w, "a", t);
    world_close(&w);
}
END_TEST

/* Redis still has the key, because it was taken after the break: the hold stays, but the run of hand-offs is over. */
START_TEST(taken_since)
{
    struct world w;
    struct flight op;
    uint64_t s, id, waits;

    open_as(&w, "us");
    s = session(&w);
    take(&w, s, "a");
    waits = lock(&w, session(&w), "a");
    id = unlock(&w, s, "a");
    op = redis_releases_for_next(&w, "a"); /* with a reserve now */
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    receives_broken(&w);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    waits = lock(&w, s, "a");
    id = unlock(&w, w.session[1], "a");
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    world_close(&w);
}
END_TEST

/* A renewal that was sent before the broadcast proves nothing about what came after: another one is sent. */
START_TEST(renewed_before)
{
    for (int answered = 0; answered < 2; answered++) {
        struct world w;
        struct flight before;

        open_as(&w, "us");
        take(&w, session(&w), "a");
        pass(&w, REPORTED_30S / 3);
        before = expect_op(&w, CORE_EXTEND, "a");
        receives_broken(&w);
        quiet(&w);
        if (answered) {
            redis_says(&w, before, CORE_OK);
        } else {
            redis_says(&w, before, CORE_DOWN);
            quiet(&w);
            pass(&w, SEC(1));
        }
        redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_GONE_IN_REDIS);
        expect_news(&w, CORE_NEWS_LOST, "a");
        world_close(&w);
    }
}
END_TEST

/* A lingering lock has no owner: it is released at once. */
START_TEST(cached)
{
    struct world w;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .linger_us = SEC(1)));
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    expect_state(&w, "a", "lingering");
    receives_broken(&w);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    id = lock(&w, s, "a", .linger_us = SEC(1));
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* Redisson's forceUnlock publishes to the channel of the name: a daemon with waiters receives it as a hint. */
START_TEST(received_from_others)
{
    static const struct {
        struct ask how;
        bool asks;
    } cases[] = {
        {{.kind = KIND_REENTRANT}, true},
        {{.kind = KIND_FENCED}, true},
        {{.kind = KIND_REENTRANT, .lease_us = SEC(60)}, false}, /* is not renewed by the watchdog */
        {{.kind = KIND_SIMPLE, .tracking = true}, false},       /* the renewal itself would bring a hint, and so on */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t id;

        open_as(&w, "us");
        id = world_ask(&w, CORE_LOCK, session(&w), "a", cases[i].how);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        world_ask(&w, CORE_LOCK, session(&w), "a", cases[i].how);
        redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
        ck_assert(is_watched(&w, "a"));
        hint(&w, op.op.queue);
        redis_grants(&w, "a", id);
        pass(&w, MS(15));
        watching(&w, op.op.queue); /* SUBSCRIBED brings no renewal */
        quiet(&w);
        hint(&w, op.op.queue);
        if (cases[i].asks) {
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_GONE_IN_REDIS);
            expect_news(&w, CORE_NEWS_LOST, "a");
            skip_all(&w);
        }
        world_close(&w);
    }
}
END_TEST

/* The hold stays verified during the renewal that a hint brings; and not every hint brings one. */
START_TEST(received_from_others_in_vain)
{
    struct world w;
    struct flight op, renewal;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    lock(&w, session(&w), "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30));
    ck_assert(is_watched(&w, "a"));
    hint(&w, op.op.queue);
    redis_grants(&w, "a", id);
    hint(&w, op.op.queue); /* perhaps that of our own release */
    pass(&w, MS(15) - 1);
    quiet(&w);
    pass(&w, 1);
    renewal = expect_op(&w, CORE_EXTEND, "a");
    hint(&w, op.op.queue);
    redis_says(&w, renewal, CORE_OK);
    hint(&w, op.op.queue);
    quiet(&w);
    unlock(&w, s, "a");
    expect_op(&w, CORE_RELEASE, "a"); /* the release waits for no other answer */
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* The name was broken between our acquire and its answer: the owner that took it after the break has it. */
START_TEST(answered_too_late)
{
    struct world w;
    struct flight op;
    uint64_t id;

    open_as(&w, "us");
    id = lock(&w, session(&w), "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    receives_broken(&w);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30)); /* sent again at once */
    pass(&w, SEC(5) + MS(1));
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/*
 * The acquire ran after the break: then the lock is ours, also for a request that does not wait. An attempt of kind
 * fair is not sent twice.
 */
START_TEST(answered_in_time)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_FAIR};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        struct flight op;
        uint64_t id;

        open_as(&w, "us");
        id = lock(&w, session(&w), "a", .kind = kinds[i], .nowait = true);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        receives_broken(&w);
        redis_says(&w, op, CORE_OK);
        if (kinds[i] == KIND_REENTRANT) {
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        }
        expect_reply(&w, id, CORE_GRANTED);
        world_close(&w);
    }
}
END_TEST

/* The token of the BREAK shows whether a grant of kind fair was there before it: then it is given back. */
START_TEST(a_fair_grant_by_its_token)
{
    static const char broken[] = "B5:other,1:a,1:a,4:2000,";

    for (uint64_t token = 1999; token <= 2001; token += 2) {
        struct world w;
        struct flight op;
        uint64_t id;

        open_as(&w, "us");
        id = lock(&w, session(&w), "a", .kind = KIND_FAIR);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        receives(&w, broken, sizeof(broken) - 1);
        redis_says(&w, op, CORE_OK, .token = token);
        if (token < 2000) {
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
            w.token = 2001;
            redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        }
        ck_assert_uint_gt(expect_reply(&w, id, CORE_GRANTED)->token, 2000);
        world_close(&w);
    }
}
END_TEST

/* The session of the BREAK ends before the answer: the other daemons receive the broadcast all the same. */
START_TEST(a_break_of_a_closed_session_is_broadcast)
{
    struct world w;
    struct flight op;
    uint64_t s;

    open_as(&w, "other");
    s = session(&w);
    break_name(&w, s, "a");
    op = expect_op(&w, CORE_BREAK_KEY, "a");
    gone(&w, s);
    redis_says(&w, op, CORE_OK, .expiry_ms = 1);
    ck_assert_uint_eq(w.broadcasts_n, 1);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* ---- wanted ---- */

/* Another daemon has broadcast that a request there waits for "a". */
static void
receives_wanted(struct world *w)
{
    static const char text[] = "N5:other,1:a,1:a,";

    receives(w, text, sizeof(text) - 1);
}

START_TEST(wanted_is_broadcast)
{
    static const struct {
        struct ask how;
        enum core_outcome outcome;
        bool reported;
    } cases[] = {
        {{.linger_us = SEC(1)}, CORE_TAKEN, true},
        {{.linger_us = SEC(1), .kind = KIND_RW, .shared = true}, CORE_TAKEN, true},
        {{.linger_us = 0}, CORE_TAKEN, false}, /* by the same rule nothing lingers at the other daemon */
        {{.linger_us = SEC(1), .kind = KIND_FENCED}, CORE_TAKEN, false}, /* this kind never lingers */
        {{.linger_us = SEC(1), .nowait = true}, CORE_TAKEN, false},   /* the request does not wait */
        {{.linger_us = SEC(1)}, CORE_UNKNOWN, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;
        uint64_t id;

        open_as(&w, "us");
        id = world_ask(&w, CORE_LOCK, session(&w), "a", cases[i].how);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), cases[i].outcome, .pttl_us = SEC(30));
        if (cases[i].how.nowait) {
            expect_reply(&w, id, CORE_NOT_GRANTED);
        }
        ck_assert_uint_eq(w.broadcasts_n, cases[i].reported);
        if (cases[i].reported) {
            ck_assert_uint_eq(w.broadcasts[0].n, strlen("N2:us,1:a,1:a,"));
            ck_assert_mem_eq(w.broadcasts[0].p, "N2:us,1:a,1:a,", w.broadcasts[0].n);
        }
        world_close(&w);
    }
}
END_TEST

/* The lock goes back to Redis before its time, and lingers here again only after the turn of the remote waiters. */
START_TEST(wanted_while_it_lingers)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .linger_us = SEC(1)));
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    receives_wanted(&w);
    ck_assert_uint_eq(w.metrics.linger_yields, 1);
    op = expect_op(&w, CORE_RELEASE, "a");
    receives_wanted(&w); /* a second broadcast changes nothing */
    quiet(&w);
    id = lock(&w, s, "a", .linger_us = SEC(1));
    redis_says(&w, op, CORE_OK, .remote_subscribers = 1);
    quiet(&w);
    pass(&w, MS(5));
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(w.metrics.handoff_yields, 1);
    world_close(&w);
}
END_TEST

START_TEST(wanted_while_it_is_held)
{
    struct world w;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .linger_us = SEC(1)));
    receives_wanted(&w);
    quiet(&w);
    ck_assert_uint_eq(w.metrics.linger_yields, 0);
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    id = lock(&w, s, "a", .linger_us = SEC(1)); /* no request waited here: the remote waiters still have their turn */
    quiet(&w);
    pass(&w, MS(5));
    redis_grants(&w, "a", id); /* their turn is over, and the lock lingers again */
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    expect_state(&w, "a", "lingering");
    world_close(&w);
}
END_TEST

/* A record that is only there for the turn of remote waiters is freed when the turn ends. */
START_TEST(their_turn_ends)
{
    struct world w;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a"));
    receives_wanted(&w);
    id = unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 1);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert(known(&w, "a"));
    expect_reply(&w, lock(&w, s, "a", .nowait = true), CORE_NOT_GRANTED);
    pass(&w, MS(2));
    expect_reply(&w, lock(&w, s, "a", .nowait = true), CORE_NOT_GRANTED); /* a request does not end the turn */
    pass(&w, MS(3));
    ck_assert(!known(&w, "a"));
    redis_grants(&w, "a", lock(&w, s, "a", .nowait = true));
    world_close(&w);
}
END_TEST

/* Such a record refuses no request: it makes room for another kind of the name, and for another name or key. */
START_TEST(their_turn_refuses_no_request)
{
    static const struct {
        const char *name;
        struct ask a;
    } asks[] = {{"a", {.kind = KIND_SIMPLE}}, {"a", {.kind = KIND_SEMAPHORE, .limit = 2}}, {"b", {.key = "a"}},
                {"a", {.key = "k"}}, {"b", {.key = "{a}", .kind = KIND_FAIR}}};

    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct ask first = {.kind = asks[i].a.kind == KIND_FAIR ? KIND_RW : KIND_REENTRANT};
        struct world w;
        enum kind kind;
        uint64_t s, id;

        open_as(&w, "us");
        s = session(&w);
        redis_grants(&w, "a", world_ask(&w, CORE_LOCK, s, "a", first));
        receives_wanted(&w);
        id = unlock(&w, s, "a");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 1);
        expect_reply(&w, id, CORE_LEFT);
        ck_assert(known(&w, "a") && !core_name_in_use(w.core, slice_of("a"), &kind));
        redis_grants(&w, asks[i].a.key != NULL ? asks[i].a.key : asks[i].name,
                     world_ask(&w, CORE_LOCK, s, asks[i].name, asks[i].a));
        ck_assert_int_eq(view_of(&w, asks[i].name).kind, asks[i].a.kind);
        world_close(&w);
    }
}
END_TEST

/* A record whose key is being broken is in use. */
START_TEST(a_break_refuses_another_kind)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    id = break_name(&w, s, "a");
    op = expect_op(&w, CORE_BREAK_KEY, "a");
    expect_reply(&w, lock(&w, s, "a", .kind = KIND_SIMPLE), CORE_WRONG_KIND);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    world_close(&w);
}
END_TEST

/* A daemon that waits for the name as well has nothing to give back, and the lock may linger there later. */
START_TEST(wanted_where_it_is_wanted)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    open_as(&w, "us");
    s = session(&w);
    id = lock(&w, s, "a", .linger_us = SEC(1));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    receives_wanted(&w);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    expect_state(&w, "a", "lingering");
    world_close(&w);
}
END_TEST

/* ---- */

/* Broadcasts of this daemon itself, of other names, of the name with another key, and malformed ones. */
START_TEST(nothing_to_do)
{
    static const char *const texts[] = {"B2:us,1:a,1:a,", "B5:other,1:b,1:b,", "B5:other,1:a,1:k,", "B5:other,1:a,1:a",
                                        "B5:other,1:a,",  "B5:other,",         "B",                 "b5:other,1:a,1:a,",
                                        "N2:us,1:a,1:a,", "N5:other,1:b,1:b,", "N",
                                        ""};
    struct world w;

    open_as(&w, "us");
    take(&w, session(&w), "a");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        receives(&w, texts[i], strlen(texts[i]));
        quiet(&w);
    }
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {a_break_is_broadcast, lost_at_once, taken_since, renewed_before, cached,
                            received_from_others, received_from_others_in_vain, answered_too_late, answered_in_time,
                            a_fair_grant_by_its_token,
                            a_break_of_a_closed_session_is_broadcast, wanted_is_broadcast, wanted_while_it_lingers,
                            wanted_while_it_is_held, their_turn_ends, their_turn_refuses_no_request,
                            a_break_refuses_another_kind, wanted_where_it_is_wanted, nothing_to_do};

    return suite_main("core, tell", tests, sizeof(tests) / sizeof(tests[0]));
}
