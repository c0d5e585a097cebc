/*
 * test_core_keys.c -- one key in Redis is one lock: while a name is in use, the daemon refuses a second name that the
 * rules give the same key, whatever state the first lock is in. And a lock in use stays under the rule by which it was
 * taken.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

/* The request is refused, and the reply names the name that uses the key. */
static void
refused(struct world *w, uint64_t id, const char *name, const char *other)
{
    const struct core_reply *r = expect_reply(w, id, CORE_KEY_IN_USE);
    const struct answer *a = (const struct answer *)(const void *)r;

    ck_assert_str_eq(a->name, name);
    ck_assert_str_eq(a->other, other);
}

static uint64_t
take_as(struct world *w, uint64_t s, const char *name, const char *key)
{
    return redis_grants(w, key, lock(w, s, name, .key = key))->token;
}

/* Whether the name equals its key or not, in either order: the second name is refused to the holder and to others. */
START_TEST(two_names_one_key)
{
    static const char *const names[][2] = {{"app:job", "job"}, {"job", "app:job"}, {"job", "jobs"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *one = names[i][0], *two = names[i][1];
        struct world w;
        uint64_t s, t;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        take_as(&w, s, one, "app:job");
        refused(&w, lock(&w, s, two, .key = "app:job"), two, one);
        refused(&w, lock(&w, s, two, .key = "app:job", .nowait = true, .owner = "o"), two, one);
        refused(&w, lock(&w, t, two, .key = "app:job", .once = true), two, one);
        refused(&w, break_name(&w, t, two, .key = "app:job"), two, one);
        expect_reply(&w, unlock(&w, s, two), CORE_NOT_HELD);
        ck_assert(!known(&w, two));
        expect_state(&w, one, "held");
        redis_releases(&w, "app:job", unlock(&w, s, one));
        take_as(&w, t, two, "app:job"); /* the first name is free: now the second one has the key */
        refused(&w, lock(&w, s, one, .key = "app:job"), one, two);
        world_close(&w);
    }
}
END_TEST

/* The same for a name of another kind: both would write the same key. */
START_TEST(across_kinds)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SIMPLE, KIND_COUNTER, KIND_RW, KIND_SEMAPHORE};
    enum { N = sizeof(kinds) / sizeof(kinds[0]) };

    for (size_t i = 0; i < N * N; i++) {
        struct world w;
        uint64_t s;

        world_open(&w);
        s = session(&w);
        redis_grants(&w, "k", lock(&w, s, "a", .key = "k", .kind = kinds[i / N], .limit = 2));
        refused(&w, lock(&w, s, "b", .key = "k", .kind = kinds[i % N], .limit = 2), "b", "a");
        world_close(&w);
    }
}
END_TEST

/* The key is in use while the lock is requested, waited for or released, and while a straggler may still run. */
START_TEST(as_long_as_redis_may_have_it)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", .key = "k");
    op = expect_op(&w, CORE_ACQUIRE, "k");
    refused(&w, lock(&w, t, "b", .key = "k"), "b", "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(5));
    refused(&w, lock(&w, t, "b", .key = "k"), "b", "a");
    pass(&w, SEC(5) + MS(1));
    redis_grants(&w, "k", id);
    id = unlock(&w, s, "a");
    op = expect_op(&w, CORE_RELEASE, "k");
    refused(&w, lock(&w, t, "b", .key = "k"), "b", "a");
    redis_says(&w, op, CORE_UNKNOWN);
    refused(&w, lock(&w, t, "b", .key = "k"), "b", "a");
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    op = expect_op(&w, CORE_RELEASE, "k"); /* the first release may not have run */
    refused(&w, lock(&w, t, "b", .key = "k"), "b", "a");
    redis_says(&w, op, CORE_OK);
    take_as(&w, t, "b", "k");
    world_close(&w);
}
END_TEST

/* Kinds with auxiliary keys: K and {K} have the same ones. */
START_TEST(keys_beside_the_key)
{
    static const struct {
        const char *one, *two;
        enum kind kind, other;
        bool in_the_way;
    } rows[] = {
        {"x", "{x}", KIND_RW, KIND_RW, true},
        {"{x}", "x", KIND_RW, KIND_SEMAPHORE, true},
        {"x", "{x}", KIND_FAIR, KIND_RW, true},
        {"x", "{x}", KIND_REENTRANT, KIND_RW, false},
        {"x", "{x}", KIND_RW, KIND_FENCED, false},
        {"x", "{x}", KIND_SIMPLE, KIND_SIMPLE, false},
        {"{x}", "{{x}}", KIND_RW, KIND_RW, false},
        {"x{y}", "{x{y}}", KIND_RW, KIND_RW, false},
        {"x", "{x}y", KIND_RW, KIND_RW, false},
        {"x", "{x", KIND_RW, KIND_RW, false},
        {"x}", "{x}}", KIND_RW, KIND_RW, true}, /* the auxiliary keys of both are those of {x}} */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        uint64_t s, id;

        world_open(&w);
        s = session(&w);
        redis_grants(&w, rows[i].one, lock(&w, s, rows[i].one, .kind = rows[i].kind, .limit = 2));
        id = lock(&w, s, rows[i].two, .kind = rows[i].other, .limit = 2);
        if (rows[i].in_the_way) {
            refused(&w, id, rows[i].two, rows[i].one);
            give(&w, s, rows[i].one);
            id = lock(&w, s, rows[i].two, .kind = rows[i].other, .limit = 2);
        }
        redis_grants(&w, rows[i].two, id);
        world_close(&w);
    }
}
END_TEST

START_TEST(of_an_mlock)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = mlock(&w, s, "c a:k b:k");
    refused(&w, id, "b", "a");
    ck_assert_uint_eq(core_totals(w.core).locks, 0);
    id = mlock(&w, s, "k b:k");
    refused(&w, id, "b", "k");
    ck_assert_uint_eq(core_totals(w.core).locks, 0);
    take_as(&w, s, "a", "k");
    id = mlock(&w, s, "c k");
    refused(&w, id, "k", "a");
    ck_assert_uint_eq(core_totals(w.core).locks, 1);
    world_close(&w);
}
END_TEST

/* core_check() looks up each lock by its key. */
START_TEST(many_come_and_go)
{
    enum { NAMES = 200 };
    struct world w;
    char name[16], key[16];
    bool held[NAMES] = {false};
    uint64_t s, dice = 1;

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < 2000; i++) {
        size_t n = (dice = dice * 6364136223846793005u + 1442695040888963407u) >> 33;

        n %= NAMES;
        snprintf(name, sizeof(name), "n%zu", n);
        snprintf(key, sizeof(key), n % 3 == 0 ? "n%zu" : "key-%zu", n);
        if (held[n]) {
            redis_releases(&w, key, unlock(&w, s, name));
        } else {
            take_as(&w, s, name, key);
            refused(&w, lock(&w, s, "other", .key = key), "other", name);
        }
        held[n] = !held[n];
    }
    world_close(&w);
}
END_TEST

/* Another daemon has another name for the key: its broadcast about the key is meant for the lock with that key. */
START_TEST(a_broadcast_names_the_key)
{
    static const char text[] = "B5:other,1:b,1:k,", other[] = "B5:other,1:a,1:a,";
    struct world w;

    world_open(&w);
    take_as(&w, session(&w), "a", "k");
    receives(&w, other, sizeof(other) - 1);
    quiet(&w);
    receives(&w, text, sizeof(text) - 1);
    redis_says(&w, expect_op(&w, CORE_EXTEND, "k"), CORE_GONE_IN_REDIS);
    world_close(&w);
}
END_TEST

/* ---- the rules change ---- */

/* The request by which `rlock run` checks that its lock is still held. */
static const struct core_reply *
asks_again(struct world *w, uint64_t s, struct ask a)
{
    uint64_t id;

    a.once = a.nowait = true;
    id = world_ask(w, CORE_LOCK, s, "a", a);
    return expect_reply(w, id, CORE_GRANTED); /* without a command to Redis */
}

/*
 * The rule has another kind now: the holder can do all that it could before, and newcomers wait for the lock as it is.
 */
START_TEST(kind_it_was_taken_as)
{
    static const enum kind kinds[][2] = {
        {KIND_REENTRANT, KIND_SIMPLE}, {KIND_REENTRANT, KIND_RW},        {KIND_RW, KIND_REENTRANT},
        {KIND_FAIR, KIND_REENTRANT},   {KIND_REENTRANT, KIND_SEMAPHORE}, {KIND_RW, KIND_SEMAPHORE},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        enum kind was = kinds[i][0], is = kinds[i][1];
        struct world w;
        struct flight op;
        uint64_t s, t, id, token;

        world_open(&w);
        s = session(&w);
        t = session(&w);
        token = redis_grants(&w, "a", lock(&w, s, "a", .kind = was, .rule_kind = was))->token;
        ck_assert_uint_eq(asks_again(&w, s, (struct ask){.kind = is, .rule_kind = is})->token, token);
        redis_renews(&w, "a", renew(&w, s, "a", SEC(20)));
        id = lock(&w, t, "a", .kind = is, .rule_kind = is, .limit = 5);
        skip_all(&w); /* operations for the ticket, the watch */
        ck_assert_uint_eq(view_of(&w, "a").waiters, 1);
        ck_assert_int_eq(view_of(&w, "a").kind, was);
        expect_reply(&w, lock(&w, t, "a", .owner = "o", .kind = KIND_COUNTER, .rule_kind = is), CORE_WRONG_KIND);
        gone(&w, t);
        (void)id;
        skip_all(&w);
        id = unlock(&w, s, "a");
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_int_eq(op.op.kind, was);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        world_close(&w);
    }
}
END_TEST

/* A free lock has the kind of the current rule. */
START_TEST(kind_of_the_rule_once_it_is_free)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    s = world_holding(&w);
    give(&w, s, "a");
    id = lock(&w, s, "a", .kind = KIND_RW, .rule_kind = KIND_RW);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_int_eq(op.op.kind, KIND_RW);
    redis_says(&w, op, CORE_OK, .token = 5000);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Owners keep their permits; a request by which the lock is exclusive now gets no hold beside them. */
START_TEST(permits_are_not_for_an_owner_that_expects_to_be_alone)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .kind = KIND_SEMAPHORE, .rule_kind = KIND_SEMAPHORE, .limit = 3));
    redis_grants(&w, "a", lock(&w, t, "a", .kind = KIND_SEMAPHORE, .rule_kind = KIND_SEMAPHORE, .limit = 3));
    asks_again(&w, s, (struct ask){.limit = 1});
    ck_assert_uint_eq(view_of(&w, "a").limit, 3);
    expect_reply(&w, lock(&w, s, "a"), CORE_WRONG_KIND); /* a further hold of the same owner */
    expect_reply(&w, lock(&w, session(&w), "a"), CORE_WRONG_KIND);
    id = lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 3); /* with KIND it gets a permit */
    redis_grants(&w, "a", id);
    give(&w, s, "a");
    give(&w, t, "a");
    world_close(&w);
}
END_TEST

/* SHARED is granted only beside holds that are shared. */
START_TEST(shared_as_it_was_taken)
{
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    expect_reply(&w, lock(&w, t, "a", .kind = KIND_RW, .rule_kind = KIND_RW, .shared = true), CORE_WRONG_KIND);
    redis_grants(&w, "b", lock(&w, s, "b", .kind = KIND_RW, .rule_kind = KIND_RW, .shared = true));
    expect_reply(&w, lock(&w, t, "b", .nowait = true), CORE_NOT_GRANTED); /* an exclusive request, behind a reader */
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* No rule has changed, a client has requested another kind: requests without it are refused. */
START_TEST(kind_that_a_client_requested)
{
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .kind = KIND_RW));
    expect_reply(&w, lock(&w, t, "a"), CORE_WRONG_KIND);
    expect_reply(&w, lock(&w, s, "a"), CORE_WRONG_KIND);
    world_close(&w);
}
END_TEST

/* By the rules the name has another key now: requests of the holder and of newcomers use the key of the held lock. */
START_TEST(key_it_was_taken_under)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take_as(&w, s, "a", "k");
    expect_reply(&w, lock(&w, s, "a", .key = "other", .once = true, .nowait = true), CORE_GRANTED);
    id = lock(&w, t, "a", .key = "other");
    ck_assert_uint_eq(view_of(&w, "a").waiters, 1);
    redis_releases(&w, "k", unlock(&w, s, "a"));
    redis_grants(&w, "k", id);
    redis_releases(&w, "k", unlock(&w, t, "a"));
    take_as(&w, t, "a", "other"); /* the lock is free: from now on it has the new key */
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        two_names_one_key,
        across_kinds,
        as_long_as_redis_may_have_it,
        keys_beside_the_key,
        of_an_mlock,
        many_come_and_go,
        a_broadcast_names_the_key,
        kind_it_was_taken_as,
        kind_of_the_rule_once_it_is_free,
        permits_are_not_for_an_owner_that_expects_to_be_alone,
        shared_as_it_was_taken,
        kind_that_a_client_requested,
        key_it_was_taken_under,
    };

    return suite_main("core, keys", tests, sizeof(tests) / sizeof(tests[0]));
}
