/*
 * test_core_broadcast.c -- what daemons tell each other of a name. It is broken at one and held at another: that one
 * hears of it, and asks Redis at once. It is wanted at one and lingers at another: that one gives it back at once.
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

/* `name` is broken at a daemon, and Redis answers so. What the daemon then says is in its w->said. */
static void
breaks(struct world *w, const char *daemon, const char *name, enum core_outcome outcome, int64_t were)
{
    uint64_t id;

    open_as(w, daemon);
    id = break_name(w, session(w), name);
    redis_says(w, expect_op(w, CORE_BREAK_KEY, name), outcome, .expiry_ms = were);
    expect_reply(w, id, outcome == CORE_OK ? CORE_LEFT : CORE_UNAVAILABLE);
}

/* Another daemon says that "a" was broken. */
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
        const char *says; /* NULL: nothing */
    } cases[] = {
        {CORE_OK, 1, "B5:other,1:a,1:a,"},
        {CORE_UNKNOWN, 0, "B5:other,1:a,1:a,"}, /* it may have run */
        {CORE_OK, 0, "B5:other,1:a,1:a,"}, /* one before may have run late */
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
    redis_says(&w, op, CORE_GONE_IN_REDIS); /* before anything is handed over */
    expect_news(&w, CORE_NEWS_LOST, "a");
    expect_reply(&w, id, CORE_WAS_LOST);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    redis_grants(&w, "a", t);
    world_close(&w);
}
END_TEST

/* Redis still has it, for it was taken after that: it goes on, but the run of hand-overs is over. */
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
    op = redis_frees_for_next(&w, "a"); /* with tokens set aside now */
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    receives_broken(&w);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    waits = lock(&w, s, "a");
    id = unlock(&w, w.session[1], "a");
    op = redis_frees_for_next(&w, "a");
    expect_reply(&w, id, CORE_LEFT);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, waits, CORE_GRANTED);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    world_close(&w);
}
END_TEST

/* What a renewal finds that was sent before is no news of what has happened since. */
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

/* It stays here for nobody: Redis hears that it is free. */
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

/* Redisson's forceUnlock: whoever waits here listens, so it is heard. */
START_TEST(received_from_others)
{
    static const struct {
        struct ask how;
        bool asks;
    } cases[] = {
        {{.kind = KIND_REENTRANT}, true},
        {{.kind = KIND_FENCED}, true},
        {{.kind = KIND_REENTRANT, .lease_us = SEC(60)}, false}, /* is not renewed */
        {{.kind = KIND_SIMPLE, .tracking = true}, false},       /* the renewal itself would be heard, and so on */
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
        watching(&w, op.op.queue); /* that one says nothing */
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

/* The renewal that a hint brings is no doubt, and is not one for each hint. */
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
    hint(&w, op.op.queue); /* the echo of our own release, say */
    pass(&w, MS(15) - 1);
    quiet(&w);
    pass(&w, 1);
    renewal = expect_op(&w, CORE_EXTEND, "a");
    hint(&w, op.op.queue);
    redis_says(&w, renewal, CORE_OK);
    hint(&w, op.op.queue);
    quiet(&w);
    unlock(&w, s, "a");
    expect_op(&w, CORE_RELEASE, "a"); /* nobody has to wait for an answer to that */
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* It was broken between our acquire and its answer: whoever took it then has it. */
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
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30)); /* asked again at once */
    pass(&w, SEC(5) + MS(1));
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* ... or it was taken behind the break: then it is ours, also for who does not wait. A place is not asked for twice. */
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

/* Who asked for the break does not wait for the answer: the others hear of it all the same. */
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

/* Another daemon says that somebody there waits for "a". */
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
        {{.linger_us = 0}, CORE_TAKEN, false}, /* the rule is the same there, or Redis is asked */
        {{.linger_us = SEC(1), .kind = KIND_FENCED}, CORE_TAKEN, false}, /* never lingers */
        {{.linger_us = SEC(1), .nowait = true}, CORE_TAKEN, false},   /* waits no more */
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

/* It goes back to Redis before its time, and does not stay here again before others had their turn. */
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
    receives_wanted(&w); /* once is enough */
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
    id = lock(&w, s, "a", .linger_us = SEC(1)); /* nobody waited here: they have their turn all the same */
    quiet(&w);
    pass(&w, MS(5));
    redis_grants(&w, "a", id); /* they had it, and it lingers again */
    expect_reply(&w, unlock(&w, s, "a"), CORE_LEFT);
    expect_state(&w, "a", "lingering");
    world_close(&w);
}
END_TEST

/* The record of a name that others have their turn with goes with that turn. */
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
    expect_reply(&w, lock(&w, s, "a", .nowait = true), CORE_NOT_GRANTED); /* that it was asked for ends no turn */
    pass(&w, MS(3));
    ck_assert(!known(&w, "a"));
    redis_grants(&w, "a", lock(&w, s, "a", .nowait = true));
    world_close(&w);
}
END_TEST

/* Such a record is nobody's: it gives way to another kind of the name, and to another name or key. */
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
        ck_assert_int_eq(look(&w, asks[i].name).kind, asks[i].a.kind);
        world_close(&w);
    }
}
END_TEST

/* What is being broken is in use. */
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

/* Who waits for it as well has nothing to give back, and what it has later may linger. */
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

/* Of oneself, of other names, of the name with another key, and what is no such message. */
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
                            a_break_of_a_closed_session_is_broadcast, wanted_is_broadcast, wanted_while_it_lingers,
                            wanted_while_it_is_held, their_turn_ends, their_turn_refuses_no_request,
                            a_break_refuses_another_kind, wanted_where_it_is_wanted, nothing_to_do};

    return suite_main("core, tell", tests, sizeof(tests) / sizeof(tests[0]));
}
