/*
 * test_backend.c -- every verb and every outcome on a real Redis that answers; test_backend_loss.c has a Redis that
 * does not.
 */
#include "redis_world.h"

#include "daemon/backend/value.h"

#define KIND_EACH(k) for (int k = 0; (k) < KINDS; (k)++)

/* The layout of each kind in Redis; a semaphore has one permit here. */
static const struct {
    const char *type;
    const char *foreign; /* makes the key %s of another type, with a TTL of a minute */
    int keys;       /* number of keys while it is held */
    int kept;       /* and when it is free again */
    int holders;    /* what TAKEN reports of one owner */
    bool by_beside; /* another key has the owner and the expiry, not this key */
} kinds[KINDS] = {
    [KIND_REENTRANT] = {.type = "hash", .foreign = "SET %s somebody PX 60000", .keys = 1},
    [KIND_SIMPLE] = {.type = "string", .foreign = "RPUSH %s x", .keys = 1},
    [KIND_COUNTER] = {.type = "string", .foreign = "HSET %s f 1", .keys = 1},
    [KIND_FAIR] = {.type = "hash", .foreign = "SET %s somebody PX 60000", .keys = 1},
    [KIND_RW] = {.type = "hash", .foreign = "HSET %s somebody 1", .keys = 1, .holders = 1},
    [KIND_SEMAPHORE] = {.type = "string", .foreign = "HSET %s f 1", .keys = 2, .holders = 1, .by_beside = true},
    [KIND_FENCED] = {.type = "hash", .foreign = "RPUSH %s x", .keys = 2, .kept = 1},
};

/* Takes the lock away, with all that names its owner. */
static void
take_away(const char *key)
{
    redis("DEL %s {%s}:timeout", key, key);
}

static int64_t
pttl(const char *key)
{
    return redis_number(redis("PTTL %s", key));
}

/* ---- acquire ---- */

START_TEST(acquire_gives_token_expiry_and_lease)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        int64_t before_us = clock_now_us(), redis_ms, ttl_ms;
        struct core_done d = acquire(key, (enum kind)k, 1);

        must(d, CORE_OK);
        ck_assert_str_eq(redis("TYPE %s", key), kinds[k].type);
        redis_ms = redis_number(redis("TIME")) * 1000;
        ttl_ms = pttl(key);
        ck_assert_int_gt(ttl_ms, LEASE_US / US_PER_MS - 5000 * w.slow);
        ck_assert_int_le(ttl_ms, LEASE_US / US_PER_MS);
        ck_assert_int_ge(d.expiry_ms, redis_ms + ttl_ms - 5);
        ck_assert_int_le(d.expiry_ms, redis_ms + 1000 + ttl_ms + 5);
        ck_assert_int_ge(d.sent_us, before_us);
        ck_assert_int_le(d.sent_us, clock_now_us());
        ck_assert_uint_gt(d.token, (uint64_t)(redis_ms - 60000) * 1000); /* near the time of Redis, in us */
        ck_assert_uint_le(d.token, (uint64_t)(redis_ms + 60000) * 1000);
    }
}
END_TEST

START_TEST(reentrant_is_redissons_hash)
{
    must(acquire("order:1", KIND_REENTRANT, 42), CORE_OK);
    ck_assert_str_eq(redis("HGETALL order:1"), UUID ":42 1 ");
}
END_TEST

START_TEST(another_owner_finds_it_taken)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d;
        int64_t ttl_ms;

        must(acquire(key, (enum kind)k, 1), CORE_OK);
        redis("PEXPIRE %s 20000", key);
        d = acquire(key, (enum kind)k, 2);
        must(d, CORE_TAKEN);
        ck_assert_int_eq(d.holders, kinds[k].holders);
        ck_assert(!d.has_ticket);
        ttl_ms = pttl(key);
        ck_assert_int_ge(d.pttl_us, ttl_ms * US_PER_MS); /* the loser has not changed it */
        ck_assert_int_le(ttl_ms, 20000);
        if (kinds[k].by_beside) {
            ck_assert_int_gt(d.pttl_us, 20000 * US_PER_MS);
            continue;
        }
        ck_assert_int_le(d.pttl_us, 20000 * US_PER_MS);
        redis("PERSIST %s", key);
        d = acquire(key, (enum kind)k, 2);
        must(d, CORE_TAKEN);
        ck_assert_int_eq(d.pttl_us, -1);
        ck_assert_int_eq(pttl(key), -1);
    }
}
END_TEST

START_TEST(a_key_of_another_type_is_foreign_and_stays)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d;
        char type[16];

        redis(kinds[k].foreign, key);
        redis("PEXPIRE %s 60000", key);
        snprintf(type, sizeof(type), "%s", redis("TYPE %s", key));
        d = acquire(key, (enum kind)k, 1);
        must(d, CORE_FOREIGN);
        ck_assert_int_gt(d.pttl_us, 50 * US_PER_S);
        ck_assert_int_le(d.pttl_us, 60 * US_PER_S);
        must(extend(key, (enum kind)k, 1, 12345, LEASE_US, false), CORE_GONE_IN_REDIS);
        must(release(key, (enum kind)k, 1, 12345), CORE_GONE_IN_REDIS);
        ck_assert_str_eq(redis("TYPE %s", key), type);
        ck_assert_int_le(pttl(key), 60000);
        redis("PERSIST %s", key);
        ck_assert_int_eq(acquire(key, (enum kind)k, 1).pttl_us, -1);
    }
}
END_TEST

/*
 * The reply was lost, and the same claim asks again: it finds itself. A counter names no owner: the claim waits for its
 * expiry.
 */
START_TEST(asking_again_finds_oneself)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done first = acquire(key, (enum kind)k, 1), again;

        redis("PEXPIRE %s 10000", key);
        again = acquire(key, (enum kind)k, 1);
        if (k == KIND_COUNTER) {
            must(again, CORE_TAKEN);
            continue;
        }
        must(again, CORE_OK);
        ck_assert_uint_gt(again.token, first.token);
        ck_assert_int_gt(pttl(key), 20000); /* a full lease again */
        redis("PEXPIRE %s 90000", key);
        again = acquire(key, (enum kind)k, 1);
        must(again, CORE_OK);
        ck_assert_int_gt(pttl(key), 80000); /* it is never shortened */
        ck_assert(kinds[k].by_beside || again.expiry_ms > first.expiry_ms + 50000);
    }
    ck_assert_str_eq(redis("HVALS reentrant"), "1 ");
    ck_assert_str_eq(redis("HVALS fair"), "1 ");
    ck_assert_str_eq(redis("HVALS rw"), "write 1 ");
    ck_assert_str_eq(redis("GET semaphore"), "0");
}
END_TEST

START_TEST(reentry_sets_the_count)
{
    struct core_op op = op_on("r", KIND_REENTRANT, 1);

    must(acquire("r", KIND_REENTRANT, 1), CORE_OK);
    op.holds = 3;
    op.reentry = true;
    for (int i = 0; i < 2; i++) { /* twice counts once */
        op.op = ++w.serial;
        must(run(&op, CORE_ACQUIRE), CORE_OK);
        ck_assert_str_eq(redis("HGETALL r"), UUID ":1 3 ");
    }
}
END_TEST

START_TEST(reentry_only_where_one_is)
{
    struct core_op op = op_on("r", KIND_REENTRANT, 1);

    op.holds = 2;
    op.reentry = true;
    must(run(&op, CORE_ACQUIRE), CORE_GONE_IN_REDIS);
    ck_assert_str_eq(redis("EXISTS r rlock:clock"), "0");
    must(acquire("r", KIND_REENTRANT, 2), CORE_OK);
    op.op = ++w.serial;
    must(run(&op, CORE_ACQUIRE), CORE_GONE_IN_REDIS);
    ck_assert_str_eq(redis("HGETALL r"), UUID ":2 1 ");
    redis("DEL r");
    redis("SET r x");
    op.op = ++w.serial;
    must(run(&op, CORE_ACQUIRE), CORE_GONE_IN_REDIS);
}
END_TEST

START_TEST(simple_values_have_the_shape_asked_for)
{
    static const size_t length[VALUES] = {
        [VALUE_UUID] = 36, [VALUE_HEX32] = 32, [VALUE_BASE64_UUID] = 24, [VALUE_BASE64_URL] = 22};
    char seen[VALUES * 2][64];
    int n = 0;

    for (int v = 0; v < VALUES; v++) {
        for (uint64_t owner = 1; owner <= 2; owner++, n++) {
            struct core_op op;
            char key[16];

            snprintf(key, sizeof(key), "s%d", n);
            op = op_on(key, KIND_SIMPLE, owner);
            op.value = (enum value_format)v;
            must(run(&op, CORE_ACQUIRE), CORE_OK);
            snprintf(seen[n], sizeof(seen[n]), "%s", redis("GET %s", key));
            ck_assert_uint_eq(strlen(seen[n]), length[v]);
            for (int i = 0; i < n; i++) {
                ck_assert_str_ne(seen[i], seen[n]);
            }
        }
    }
}
END_TEST

START_TEST(a_counter_is_one_and_its_loser_touches_nothing)
{
    struct core_done d = acquire("c", KIND_COUNTER, 1);

    ck_assert_str_eq(redis("GET c"), "1");
    for (int i = 0; i < 5; i++) {
        must(acquire("c", KIND_COUNTER, 2), CORE_TAKEN);
    }
    ck_assert_str_eq(redis("GET c"), "1");
    must(release("c", KIND_COUNTER, 1, d.expiry_ms), CORE_OK); /* its expiry has not moved by a ms */
}
END_TEST

/* ---- renew ---- */

START_TEST(renew_lengthens_and_never_shortens)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d = acquire(key, (enum kind)k, 1), e;

        e = extend(key, (enum kind)k, 1, d.expiry_ms, 2 * LEASE_US, false);
        must(e, CORE_OK);
        ck_assert_int_gt(pttl(key), 50000);
        ck_assert_int_ge(e.expiry_ms, d.expiry_ms + LEASE_US / US_PER_MS);
        d = extend(key, (enum kind)k, 1, e.expiry_ms, LEASE_US / 3, false);
        must(d, CORE_OK);
        ck_assert_int_gt(pttl(key), 50000);
        ck_assert_int_ge(d.expiry_ms, e.expiry_ms - 2);
        must(release(key, (enum kind)k, 1, d.expiry_ms), CORE_OK); /* the expiry still proves the hold */
    }
}
END_TEST

START_TEST(exact_renew_shortens)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d = acquire(key, (enum kind)k, 1), e;

        e = extend(key, (enum kind)k, 1, d.expiry_ms, 9 * US_PER_S, true);
        must(e, CORE_OK);
        ck_assert(kinds[k].by_beside || pttl(key) <= 9000);
        ck_assert_int_lt(e.expiry_ms, d.expiry_ms - 10000);
        must(release(key, (enum kind)k, 1, e.expiry_ms), CORE_OK);
    }
}
END_TEST

START_TEST(renew_never_brings_a_key_back)
{
    KIND_EACH(k)
    {
        for (int exact = 0; exact < 2; exact++) {
            const char *key = kind_rows[k].name;
            struct core_done d = acquire(key, (enum kind)k, 1);

            take_away(key);
            must(extend(key, (enum kind)k, 1, d.expiry_ms, LEASE_US, exact), CORE_GONE_IN_REDIS);
            ck_assert_str_eq(redis("EXISTS %s", key), "0");
        }
    }
}
END_TEST

/* The next owner keeps its hold, to the millisecond. */
START_TEST(a_former_owner_takes_nothing_away)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_op op = op_on(key, (enum kind)k, 2);
        struct core_done mine = acquire(key, (enum kind)k, 1), theirs;

        take_away(key);
        op.lease_us = LEASE_US - 10 * US_PER_S;
        theirs = run(&op, CORE_ACQUIRE);
        must(theirs, CORE_OK);
        must(extend(key, (enum kind)k, 1, mine.expiry_ms, LEASE_US, false), CORE_GONE_IN_REDIS);
        must(extend(key, (enum kind)k, 1, mine.expiry_ms, LEASE_US, true), CORE_GONE_IN_REDIS);
        must(release(key, (enum kind)k, 1, mine.expiry_ms), CORE_GONE_IN_REDIS);
        ck_assert_int_le(pttl(key), 20000);
        must(release(key, (enum kind)k, 2, theirs.expiry_ms), CORE_OK);
    }
}
END_TEST

/* ---- release ---- */

START_TEST(release_frees_once_and_wakes)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d = acquire(key, (enum kind)k, 1), r;

        redis("CONFIG RESETSTAT");
        r = release(key, (enum kind)k, 1, d.expiry_ms);
        must(r, CORE_OK);
        ck_assert_int_eq(r.remote_subscribers, 0);
        ck_assert_str_eq(redis("EXISTS %s", key), "0");
        ck_assert_int_eq(redis_calls("publish"), 1);
        must(release(key, (enum kind)k, 1, d.expiry_ms), CORE_GONE_IN_REDIS);
        ck_assert_int_eq(redis_calls("publish"), 1);
    }
}
END_TEST

START_TEST(release_keeps_the_other_holds)
{
    struct core_op op = op_on("r", KIND_REENTRANT, 1);

    op.holds = 2;
    op.reentry = false;
    must(run(&op, CORE_ACQUIRE), CORE_OK);
    ck_assert_str_eq(redis("HVALS r"), "2 ");
    redis("CONFIG RESETSTAT");
    op.holds = 1;
    for (int i = 0; i < 2; i++) {
        op.op = ++w.serial;
        must(run(&op, CORE_RELEASE), CORE_OK);
        ck_assert_str_eq(redis("HVALS r"), "1 ");
    }
    ck_assert_int_eq(redis_calls("publish"), 0);
    redis("DEL r");
    op.op = ++w.serial;
    must(run(&op, CORE_RELEASE), CORE_GONE_IN_REDIS);
    ck_assert_str_eq(redis("EXISTS r"), "0");
}
END_TEST

START_TEST(a_counter_needs_its_expiry)
{
    struct core_done d = acquire("c", KIND_COUNTER, 1);

    must(release("c", KIND_COUNTER, 1, 0), CORE_GONE_IN_REDIS);
    must(release("c", KIND_COUNTER, 1, d.expiry_ms - 10), CORE_GONE_IN_REDIS);
    must(release("c", KIND_COUNTER, 1, d.expiry_ms + 500), CORE_GONE_IN_REDIS);
    must(extend("c", KIND_COUNTER, 1, 0, LEASE_US, false), CORE_GONE_IN_REDIS);
    redis("PERSIST c");
    must(release("c", KIND_COUNTER, 1, d.expiry_ms), CORE_GONE_IN_REDIS);
    ck_assert_str_eq(redis("GET c"), "1");
}
END_TEST

/* ---- break ---- */

START_TEST(break_frees_any_holder)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_op op = op_on(key, (enum kind)k, 9);
        struct core_done a = acquire(key, (enum kind)k, 1), b;

        op.claim = op.queue;
        b = run(&op, CORE_BREAK_KEY);
        must(b, CORE_OK);
        ck_assert_int_eq(b.expiry_ms, 1);
        ck_assert_uint_gt(b.token, a.token);
        ck_assert_str_eq(redis("EXISTS %s", key), "0");
        op.op = ++w.serial;
        b = run(&op, CORE_BREAK_KEY);
        must(b, CORE_OK);
        ck_assert_int_eq(b.expiry_ms, 0);
        ck_assert_uint_gt(acquire(key, (enum kind)k, 1).token, b.token);
    }
}
END_TEST

START_TEST(break_leaves_a_key_that_is_no_lock)
{
    KIND_EACH(k)
    {
        struct core_op op = op_on("data", (enum kind)k, 9);

        redis("DEL data");
        redis("RPUSH data a b");
        must(run(&op, CORE_BREAK_KEY), CORE_FOREIGN);
        ck_assert_str_eq(redis("LLEN data"), "2");
    }
}
END_TEST

/* ---- tokens ---- */

START_TEST(tokens_rise_over_many_names_of_one_turn)
{
    uint64_t op[200], last;

    last = acquire("before", KIND_SIMPLE, 1).token;
    for (uint64_t i = 0; i < 200; i++) {
        char key[16];
        struct core_op o;

        snprintf(key, sizeof(key), "k%d", (int)i);
        o = op_on(key, KIND_REENTRANT, i);
        op[i] = perform(&o, CORE_ACQUIRE);
    }
    flush();
    for (int i = 0; i < 200; i++) {
        struct core_done d = await(op[i]);

        must(d, CORE_OK);
        ck_assert_uint_gt(d.token, last);
        last = d.token;
    }
    ck_assert_uint_gt(acquire("after", KIND_COUNTER, 1).token, last);
    ck_assert_str_eq(redis("OBJECT ENCODING rlock:clock"), "int"); /* whole numbers, as text that INCR could read */
}
END_TEST

START_TEST(tokens_rise_over_an_emptied_redis)
{
    uint64_t last = 0;

    for (int i = 0; i < 50; i++) {
        struct core_done d = acquire("k", KIND_REENTRANT, 1);

        must(d, CORE_OK);
        ck_assert_uint_gt(d.token, last);
        last = d.token;
        redis(i % 2 ? "FLUSHALL" : "DEL k rlock:clock");
        if (i % 2) {
            uint64_t epoch = epoch_now();

            d = acquire("k", KIND_REENTRANT, 1); /* UNKNOWN: a beat found the loss while the acquire was in flight */
            ck_assert(d.outcome == CORE_GRACE || d.outcome == CORE_UNKNOWN);
            turn_until(is_granting_anew, &epoch);
        }
    }
}
END_TEST

/* Redis's clock went back, or another daemon is ahead: tokens rise above the clock key and the floor. */
START_TEST(tokens_rise_over_clocks_that_went_back)
{
    struct core_op op = op_on("a", KIND_REENTRANT, 1);
    uint64_t far = acquire("x", KIND_REENTRANT, 1).token + UINT64_C(1000000000000);

    redis("SET rlock:clock %llu", (unsigned long long)far);
    ck_assert_uint_eq(acquire("b", KIND_REENTRANT, 1).token, far + 1);
    ck_assert_uint_eq(redis_number(redis("GET rlock:clock")), far + 1);
    op.token_floor = far + 500;
    ck_assert_uint_eq(run(&op, CORE_ACQUIRE).token, far + 501);
    ck_assert_uint_eq(acquire("c", KIND_REENTRANT, 1).token, far + 502);
    op = op_on("c", KIND_REENTRANT, 1);
    op.token_floor = far + 1000;
    ck_assert_uint_eq(run(&op, CORE_BREAK_KEY).token, far + 1001);
}
END_TEST

START_TEST(a_clock_key_of_another_program_does_no_harm)
{
    static const char *const spoil[] = {"SET rlock:clock nonsense", "SET rlock:clock nan", "SET rlock:clock -5",
                                        "SET rlock:clock 1e300", "RPUSH rlock:clock x"};
    uint64_t last = 0;

    for (size_t i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
        char key[16];
        struct core_done d;

        snprintf(key, sizeof(key), "k%d", (int)i);
        redis("DEL rlock:clock");
        redis(spoil[i]);
        d = acquire(key, KIND_SIMPLE, 1);
        must(d, CORE_OK);
        ck_assert_msg(d.token > last && d.token < (UINT64_C(1) << 53), "after %s: %" PRIu64, spoil[i], d.token);
        last = d.token;
    }
}
END_TEST

/* ---- batches ---- */

START_TEST(a_spoiled_name_spoils_only_itself)
{
    KIND_EACH(k)
    {
        uint64_t op[40];

        redis_empty();
        redis(kinds[k].foreign, "k17");
        for (uint64_t i = 0; i < 40; i++) {
            char key[16];
            struct core_op o;

            snprintf(key, sizeof(key), "k%d", (int)i);
            o = op_on(key, (enum kind)k, i);
            op[i] = perform(&o, CORE_ACQUIRE);
        }
        flush();
        for (int i = 0; i < 40; i++) {
            must(await(op[i]), i == 17 ? CORE_FOREIGN : CORE_OK);
        }
        ck_assert_int_eq(redis_keys(), 1 + 39 * kinds[k].keys + 1); /* and the token clock */
    }
}
END_TEST

/* Forty attempts of one turn, and one on a forbidden key. */
static void
forty(enum kind kind, const char *forbidden, uint64_t owner)
{
    uint64_t op[41];

    for (uint64_t i = 0; i <= 40; i++) {
        struct core_op o;
        char key[16];

        snprintf(key, sizeof(key), i == 40 ? "%s" : "%s%d", i == 40 ? forbidden : kind_rows[kind].name, (int)i);
        o = op_on(key, kind, owner + i);
        op[i] = perform(&o, CORE_ACQUIRE);
    }
    flush();
    for (int i = 0; i <= 40; i++) {
        must(await(op[i]), i == 40 ? CORE_DENIED : CORE_OK);
    }
}

/*
 * Redis's ACL refuses a call as a whole for one of its keys: the other names of the call get their answers, and the
 * next calls work.
 */
START_TEST(a_forbidden_key_spoils_only_itself)
{
    KIND_EACH(k)
    {
        enum kind kind = (enum kind)k;
        struct core_op held = op_on("held", KIND_REENTRANT, 1);
        uint64_t calls;

        redis_empty();
        must(run(&held, CORE_ACQUIRE), CORE_OK);
        redis("ACL SETUSER default resetkeys ~rlock:* ~%s* ~{%s* ~redisson*{%s* ~held", kind_rows[k].name,
              kind_rows[k].name, kind_rows[k].name);
        forty(kind, "theirs", 1);
        calls = w.metrics.redis_calls;
        if (kind != KIND_COUNTER) { /* an owner does not find itself in a counter */
            forty(kind, "theirs too", 1);
            ck_assert_uint_le(w.metrics.redis_calls - calls, 4); /* accepted names share a call; beats count, too */
        }
        must(extend("held", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK);
        redis("ACL SETUSER default ~*");
        must(acquire("theirs", kind, 50), CORE_OK); /* it goes alone, and is allowed now */
    }
}
END_TEST

/*
 * One name of forty has an auxiliary key that is forbidden: the script fails in the middle, so that the outcome of the
 * whole call is unknown. This happens once; from then on the name goes alone, even if operations of other kinds and
 * verbs on it pass meanwhile.
 */
START_TEST(a_forbidden_key_beside_spoils_one_call)
{
    enum { N = 40 };
    uint64_t id[N + 1];

    redis("ACL SETUSER default resetkeys ~rlock:* ~k* ~theirs ~*{k*");
    for (int round = 0; round < 4; round++) {
        must(acquire("theirs", KIND_REENTRANT, 90), CORE_OK); /* as another kind it passes */
        must(release("theirs", KIND_REENTRANT, 90, 0), CORE_OK);
        must(release("theirs", KIND_FENCED, 90, 0), CORE_GONE_IN_REDIS); /* and with another verb */
        for (int i = 0; i <= N; i++) {
            char key[16];
            struct core_op op;

            snprintf(key, sizeof(key), i == N / 2 ? "theirs" : "k%d", i);
            op = op_on(key, KIND_FENCED, (uint64_t)(100 * round + i));
            id[i] = perform(&op, CORE_ACQUIRE);
        }
        flush();
        for (int i = 0; i <= N; i++) {
            struct core_done done = await(id[i]);

            ck_assert((done.outcome == CORE_UNKNOWN) == (round == 0 || i == N / 2)); /* else OK, or TAKEN later */
            ck_assert(done.denied == (round > 0 && i == N / 2));
        }
    }
    redis("ACL SETUSER default ~*");
}
END_TEST

/* The place of an answer in the order of answers. */
static size_t
rank_of(uint64_t op)
{
    size_t i = 0;

    while (w.event[i].type != CORE_DONE || w.event[i].done.op != op) {
        ck_assert_uint_lt(++i, w.events_n);
    }
    return i;
}

/*
 * An operation that goes alone, because of the forbidden key of another name, still keeps its turn: a release runs
 * before the requests behind it and before any attempt, and behind a reclaim of the same name.
 */
START_TEST(a_single_call_keeps_its_turn)
{
    static const char *const keys[] = {"k0", "k1", "k2", "k3"};
    struct core_op op = op_on("k1", KIND_FENCED, 1), theirs = op_on("theirs", KIND_FENCED, 9);
    uint64_t id[5];

    redis("ACL SETUSER default resetkeys ~rlock:* ~k* ~theirs ~*{k*");
    id[0] = perform(&op, CORE_ACQUIRE);
    id[1] = perform(&theirs, CORE_ACQUIRE);
    flush();
    must(await(id[0]), CORE_UNKNOWN);
    must(await(id[1]), CORE_UNKNOWN);
    for (int i = 0; i < 4; i++) {
        must(acquire(keys[i], KIND_FENCED, 1), CORE_OK); /* k1 alone */
    }
    for (int i = 0; i < 4; i++) {
        op = op_on(keys[i], KIND_FENCED, 1);
        op.holds = 0;
        id[i] = perform(&op, CORE_RELEASE);
    }
    op = op_on("k1", KIND_FENCED, 2);
    id[4] = perform(&op, CORE_ACQUIRE);
    flush();
    must(await(id[4]), CORE_OK);
    for (int i = 0; i < 4; i++) {
        must(*done_of(id[i]), CORE_OK);
        ck_assert_uint_lt(rank_of(id[i]), rank_of(id[i + 1]));
    }
    op.reclaim = true;
    op.op = ++w.serial;
    id[0] = perform(&op, CORE_ACQUIRE);
    op.reclaim = false;
    op.op = ++w.serial;
    op.holds = 0;
    id[1] = perform(&op, CORE_RELEASE);
    flush();
    must(await(id[0]), CORE_OK);
    must(await(id[1]), CORE_OK); /* behind the reclaim, or the name would be held without an owner */
    ck_assert_int_eq(redis_number(redis("EXISTS k1")), 0);
    redis("ACL SETUSER default ~*");
}
END_TEST

/* The rights shrink while the lock is held: its renewal and release fail, and those of other names do not. */
START_TEST(a_held_key_may_be_forbidden_later)
{
    static const char *const keys[] = {"k1", "theirs", "k2"};
    uint64_t id[3];

    for (int i = 0; i < 3; i++) {
        must(acquire(keys[i], KIND_REENTRANT, 1), CORE_OK);
    }
    redis("ACL SETUSER default resetkeys ~rlock:* ~k*");
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++) {
            struct core_op op = op_on(keys[i], KIND_REENTRANT, 1);

            op.holds = round < 2;
            id[i] = perform(&op, round < 2 ? CORE_EXTEND : CORE_RELEASE);
        }
        flush();
        must(await(id[0]), round == 3 ? CORE_GONE_IN_REDIS : CORE_OK);
        must(await(id[1]), CORE_DENIED);
        must(await(id[2]), round == 3 ? CORE_GONE_IN_REDIS : CORE_OK);
    }
    redis("ACL SETUSER default ~*");
    must(release("theirs", KIND_REENTRANT, 1, 0), CORE_OK);
}
END_TEST

static void
is_one_call(int n, int most)
{
    uint64_t calls;
    uint64_t op[130];

    redis_empty();
    redis("CONFIG RESETSTAT");
    calls = w.metrics.redis_calls;
    for (int i = 0; i < n; i++) {
        char key[16];
        struct core_op o;

        snprintf(key, sizeof(key), "k%d", i);
        o = op_on(key, KIND_REENTRANT, (uint64_t)i);
        op[i] = perform(&o, CORE_ACQUIRE);
    }
    flush();
    for (int i = 0; i < n; i++) {
        must(await(op[i]), CORE_OK);
    }
    calls += (uint64_t)redis_beats(); /* the daemon may have registered meanwhile */
    ck_assert_uint_eq(w.metrics.redis_calls - calls, (uint64_t)(n + most - 1) / (unsigned)most);
    ck_assert_int_eq(redis_calls("evalsha") - redis_beats(), (n + most - 1) / most);
}

/* A turn is one call, or several of at most batch_max names each. */
START_TEST(a_turn_is_one_call)
{
    static const int names[] = {1, 64, 130}, most[] = {64, 9, 128};

    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        backend_close(&w.b);
        w.up = false;
        w.conf.batch_max = (unsigned)most[i];
        open_up();
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
            is_one_call(names[j], most[i]);
        }
    }
}
END_TEST

/* No operation is open, and no request of the daemon itself. */
static bool
is_all_answered(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.in_flight + st.queued == 0 && backend_idle(w.b);
}

/* Redis stands still, so that it answers nothing before all is asked for. */
START_TEST(operations_behind_a_call_leave_together)
{
    struct core_op first = op_on("first", KIND_REENTRANT, 1), held = op_on("held", KIND_REENTRANT, 1);
    struct backend_status st;
    uint64_t op[10], ahead;

    held.expiry_ms = acquire("held", KIND_REENTRANT, 1).expiry_ms;
    backend_status(w.b, &st);
    ahead = st.in_flight;
    redis("CONFIG RESETSTAT");
    redis_stop();
    perform(&first, CORE_ACQUIRE);
    flush();
    for (int i = 0; i < 10; i++) {
        char key[16];
        struct core_op o;

        snprintf(key, sizeof(key), "k%d", i);
        o = op_on(key, KIND_REENTRANT, (uint64_t)i);
        op[i] = perform(&o, CORE_ACQUIRE);
        flush(); /* one turn each */
    }
    held.op = ++w.serial;
    held.holds = 0;
    perform(&held, CORE_RELEASE);
    flush();
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.queued, 11);
    ck_assert_uint_eq(st.in_flight - ahead, 1);
    ck_assert(!backend_idle(w.b));
    held.op = ++w.serial;
    perform(&held, CORE_EXTEND); /* by another link: not behind them */
    flush();
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.queued, 11);
    redis_cont();
    must(await(first.op), CORE_OK);
    for (int i = 0; i < 10; i++) {
        must(await(op[i]), CORE_OK);
    }
    must(await(held.op - 1), CORE_OK);
    (void)await(held.op);
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.queued, 0);
    ck_assert(backend_idle(w.b));
    ck_assert_int_eq(redis_calls("evalsha") - redis_beats(), 4); /* the first, the attempts, the release, the renewal */
}
END_TEST

static bool
exists(const void *key)
{
    return redis_number(redis("EXISTS %s", (const char *)key)) == 1;
}

/* An owner ends while its hold is being reclaimed: the release must find the hold. */
START_TEST(a_reclaimed_hold_can_be_released)
{
    struct core_op first = op_on("first", KIND_REENTRANT, 1), again = op_on("k", KIND_REENTRANT, 2),
                   gives = op_on("k", KIND_REENTRANT, 2);

    redis_stop();
    perform(&first, CORE_ACQUIRE);
    flush();
    again.reclaim = true;
    perform(&again, CORE_ACQUIRE);
    gives.holds = 0;
    perform(&gives, CORE_RELEASE);
    flush();
    redis_cont();
    must(await(gives.op), CORE_OK);
    must(await(again.op), CORE_OK);
    ck_assert(!exists("k"));
}
END_TEST

/* The owner may give all tokens of its reserve: whatever Redis loses, it must give none of them to other owners. */
START_TEST(tokens_set_aside_are_known_for_given)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    uint64_t token;

    op.reserve = 1000 * 1000; /* more than the time that passes meanwhile, in us */
    perform(&op, CORE_ACQUIRE);
    flush();
    must(await(op.op), CORE_OK);
    token = done_of(op.op)->token;
    redis("DEL rlock:clock");
    turn_until(exists, "rlock:clock"); /* with the next beat */
    ck_assert_uint_eq(strtoull(redis("GET rlock:clock"), NULL, 10), token + 1000 * 1000);
}
END_TEST

/*
 * Of any number of renewals only few calls are with Redis at a time, which leaves it time for other requests; and each
 * kind has its turn.
 */
START_TEST(renewals_leave_few_calls_at_a_time)
{
    struct core_op other = op_on("s", KIND_SIMPLE, 1), late = op_on("k", KIND_REENTRANT, 1);
    struct backend_status st;
    static uint64_t op[1280]; /* 20 calls */
    uint64_t ahead;

    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    redis("DEL rlock:clock");
    turn_until(exists, "rlock:clock"); /* no beat falls due soon: no other answer comes behind the late one */
    turn_until(is_all_answered, NULL);
    redis_stop(); /* one late answer must not count as a long distance to Redis */
    late.op = perform(&late, CORE_EXTEND);
    flush();
    turn_until_us(clock_now_us() + 300 * US_PER_MS);
    redis_cont();
    must(await(late.op), CORE_OK);
    redis("CONFIG RESETSTAT");
    redis_stop();
    backend_status(w.b, &st);
    ahead = st.in_flight;
    for (int i = 0; i < 1280; i++) {
        struct core_op o = op_on("k", KIND_REENTRANT, 1);

        op[i] = perform(&o, CORE_EXTEND);
    }
    perform(&other, CORE_EXTEND);
    flush();
    backend_status(w.b, &st);
    ck_assert_uint_ge(st.in_flight - ahead, 1);
    ck_assert_uint_le(st.in_flight - ahead, 12); /* more than two where all is slow, as under valgrind */
    ck_assert_uint_ge(st.queued, 1281 - 12 * 64);
    redis_cont();
    must(await(other.op), CORE_GONE_IN_REDIS);
    ck_assert_ptr_null(done_of(op[1279]));
    for (int i = 0; i < 1280; i++) {
        must(await(op[i]), CORE_OK);
    }
    ck_assert_int_eq(redis_calls("evalsha") - redis_beats(), 21);
    ck_assert(backend_idle(w.b));
}
END_TEST

START_TEST(one_turn_keeps_the_order_of_a_name)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_op op[2] = {op_on(key, (enum kind)k, 1), op_on(key, (enum kind)k, 2)};

        op[0].expiry_ms = acquire(key, (enum kind)k, 1).expiry_ms;
        op[0].op = ++w.serial;
        op[0].holds = 0;
        perform(&op[0], CORE_RELEASE);
        perform(&op[1], CORE_ACQUIRE);
        flush();
        must(await(op[0].op), CORE_OK);
        must(await(op[1].op), CORE_OK);
    }
}
END_TEST

/*
 * Redis stands still while the operations leave, and then reads its connections in any order. The operations are in
 * pairs, but for one in the middle. If the operations of one name went by different links, in turns, then in any order
 * one of the names would be taken before it is released.
 */
START_TEST(many_links_keep_the_order_of_a_name)
{
    backend_close(&w.b);
    w.up = false;
    w.conf.links = 4;
    open_up();
    must(acquire("odd", KIND_REENTRANT, 1), CORE_OK);
    for (int round = 0; round < 20; round++) {
        uint64_t owner = (uint64_t)round + 1, op[64], odd = 0;

        redis_stop();
        for (int i = 0; i < 32; i++) { /* in one turn the old owner releases and the new one takes */
            char key[16];
            struct core_op o;

            if (i == 16) {
                o = op_on("odd", KIND_REENTRANT, 2);
                odd = perform(&o, CORE_ACQUIRE);
            }
            snprintf(key, sizeof(key), "k%d", i);
            o = op_on(key, KIND_REENTRANT, owner - 1);
            o.holds = 0;
            op[2 * i] = perform(&o, CORE_RELEASE);
            o = op_on(key, KIND_REENTRANT, owner);
            op[2 * i + 1] = perform(&o, CORE_ACQUIRE);
        }
        flush();
        redis_cont();
        must(await(odd), CORE_TAKEN);
        for (int i = 0; i < 64; i++) {
            must(await(op[i]), round == 0 && i % 2 == 0 ? CORE_GONE_IN_REDIS : CORE_OK);
        }
        w.events_n = 0;
    }
    ck_assert_int_eq(redis_keys(), 1 + 1 + 32);
}
END_TEST

START_TEST(names_are_bytes)
{
    char key[512];
    struct core_op op;
    int kept = 0;

    for (int i = 0; i < 512; i++) {
        key[i] = (char)(i * 7); /* NUL, CR, LF, blanks, quotes, braces */
    }
    KIND_EACH(k)
    {
        struct core_done d;
        redisReply *r;

        key[0] = (char)('0' + k);
        op = op_on("", (enum kind)k, 1);
        op.key = (struct slice){key, sizeof(key)};
        d = run(&op, CORE_ACQUIRE);
        must(d, CORE_OK);
        r = redisCommand(w.cli, "EXISTS %b", key, sizeof(key));
        ck_assert_int_eq(r->integer, 1);
        freeReplyObject(r);
        op.op = ++w.serial;
        op.holds = 0;
        op.expiry_ms = d.expiry_ms;
        must(run(&op, CORE_RELEASE), CORE_OK);
        kept += kinds[k].kept;
    }
    ck_assert_int_eq(redis_keys(), 1 + kept);
}
END_TEST

/* ---- operations of some kinds only ---- */

START_TEST(a_ticket_is_requested_and_reported)
{
    struct core_op op = op_on("f", KIND_FAIR, 2);
    struct core_done d;

    must(acquire("f", KIND_FAIR, 1), CORE_OK);
    op.ticket = true;
    must(run(&op, CORE_EXTEND), CORE_GONE_IN_REDIS);
    op.op = ++w.serial;
    d = run(&op, CORE_ACQUIRE);
    must(d, CORE_TAKEN);
    ck_assert(d.has_ticket);
    ck_assert_int_eq(d.holders, 0);
    ck_assert_str_eq(redis("LRANGE redisson_lock_queue:{f} 0 -1"), UUID ":2 ");
    op.op = ++w.serial;
    must(run(&op, CORE_EXTEND), CORE_OK);
    must(extend("f", KIND_FAIR, 2, 0, LEASE_US, false), CORE_GONE_IN_REDIS); /* owner 2 has a ticket only */
    must(release("f", KIND_FAIR, 2, 0), CORE_OK);
    ck_assert_str_eq(redis("EXISTS redisson_lock_queue:{f} redisson_lock_timeout:{f}"), "0");
}
END_TEST

START_TEST(readers_share_and_are_counted)
{
    struct core_op op[3];

    for (uint64_t i = 0; i < 3; i++) {
        op[i] = op_on("r", KIND_RW, i + 1);
        op[i].shared = true;
        must(run(&op[i], CORE_ACQUIRE), CORE_OK);
    }
    ck_assert_int_eq(acquire("r", KIND_RW, 4).holders, 3);
    ck_assert_str_eq(redis("HGET r mode"), "read");
    ck_assert_str_eq(redis("EXISTS {r}:" UUID ":2:rwlock_timeout:1"), "1");
    for (int i = 0; i < 3; i++) {
        op[i].op = ++w.serial;
        op[i].holds = 0;
        must(run(&op[i], CORE_RELEASE), CORE_OK);
    }
    ck_assert_int_eq(redis_keys(), 1);
}
END_TEST

/* From writing and reading to reading alone: `other_sort` is the number of the other holds that remain. */
START_TEST(a_writer_may_go_on_reading)
{
    struct core_op op = op_on("r", KIND_RW, 1);

    must(run(&op, CORE_ACQUIRE), CORE_OK);
    op.op = ++w.serial;
    op.shared = op.reentry = true;
    must(run(&op, CORE_ACQUIRE), CORE_OK);
    op.op = ++w.serial;
    op.shared = op.reentry = false;
    op.holds = 0;
    op.other_sort = 1;
    must(run(&op, CORE_RELEASE), CORE_OK);
    ck_assert_str_eq(redis("HGETALL r"), "mode read " UUID ":1 1 ");
    must(release("r", KIND_RW, 1, 0), CORE_OK);
    ck_assert_int_eq(redis_keys(), 1);
}
END_TEST

START_TEST(permits_are_of_their_claims_and_up_to_the_limit)
{
    struct core_op op[4];

    for (uint64_t i = 0; i < 4; i++) {
        op[i] = op_on("s", KIND_SEMAPHORE, 1);
        op[i].claim = 100 + i; /* of one owner */
        op[i].limit = 3;
        must(run(&op[i], CORE_ACQUIRE), i < 3 ? CORE_OK : CORE_TAKEN);
    }
    ck_assert_str_eq(redis("GET s"), "0");
    ck_assert_str_eq(redis("ZCARD {s}:timeout"), "3");
    ck_assert_int_eq(redis_number(redis("EVAL %s 1 {s}:timeout",
                                        "return #redis.call('ZRANGE', KEYS[1], 0, 0)[1]")), VALUE_BYTES);
    op[3].op = ++w.serial;
    ck_assert_int_eq(run(&op[3], CORE_ACQUIRE).holders, 3);
    for (int i = 0; i < 3; i++) {
        op[i].op = ++w.serial;
        must(run(&op[i], CORE_RELEASE), CORE_OK);
    }
    ck_assert_int_eq(redis_keys(), 1);
}
END_TEST

START_TEST(a_fenced_token_is_redissons_too)
{
    uint64_t token = acquire("f", KIND_FENCED, 1).token;

    ck_assert_uint_eq(redis_number(redis("INCR redisson_lock_token:{f}")), token + 1);
    must(release("f", KIND_FENCED, 1, 0), CORE_OK);
    ck_assert_uint_gt(acquire("f", KIND_FENCED, 2).token, token + 1);
}
END_TEST

/* ---- looking ---- */

static bool
is_seen(const void *n)
{
    return w.seen_n >= *(const unsigned *)n;
}

static void
inspected(struct slice key)
{
    unsigned n = w.seen_n + 1;

    w.inside = true;
    backend_inspect(w.b, 100 + n, key);
    backend_flush(w.b);
    w.inside = false;
    turn_until(is_seen, &n);
    ck_assert_uint_eq(w.seen_id, 100 + n);
}

START_TEST(look_reports_the_key)
{
    char digest[17];

    inspected(SLICE_LIT("nothing"));
    ck_assert(w.seen.ok && !w.seen.exists);

    must(acquire("r", KIND_REENTRANT, 5), CORE_OK);
    inspected(SLICE_LIT("r"));
    ck_assert(w.seen.ok && w.seen.exists);
    ck_assert_str_eq(w.seen.type, "hash");
    ck_assert_str_eq(w.seen.owner, UUID ":5");
    ck_assert_int_eq(w.seen.holds, 1);
    ck_assert_int_gt(w.seen.pttl_ms, 20000);

    redis("HSET redisson 8743c9c0-95b2-4ea3-8a3d-3a3a3a3a3a3a:91 4");
    inspected(SLICE_LIT("redisson"));
    ck_assert_str_eq(w.seen.owner, ""); /* an owner is shown only of a key with an expiry */
    redis("PEXPIRE redisson 30000");
    inspected(SLICE_LIT("redisson"));
    ck_assert_str_eq(w.seen.owner, "8743c9c0-95b2-4ea3-8a3d-3a3a3a3a3a3a:91");
    ck_assert_int_eq(w.seen.holds, 4);

    redis("SET s %b", "a\n\0\"b", (size_t)5);
    inspected(SLICE_LIT("s"));
    ck_assert_str_eq(w.seen.type, "string");
    ck_assert_int_eq(w.seen.pttl_ms, -1);
    ck_assert_str_eq(w.seen.owner, "");
    ck_assert_uint_eq(strlen(w.seen.digest), 16);
    snprintf(digest, sizeof(digest), "%s", w.seen.digest);
    inspected(SLICE_LIT("s"));
    ck_assert_str_eq(w.seen.digest, digest);
    redis("SET s2 %b", "a\n\0\"b", (size_t)5);
    inspected(SLICE_LIT("s2"));
    ck_assert_str_ne(w.seen.digest, digest); /* the digest covers the key, too */
    redis("SET s other");
    inspected(SLICE_LIT("s"));
    ck_assert_str_ne(w.seen.digest, digest);

    redis("RPUSH l x");
    inspected(SLICE_LIT("l"));
    ck_assert_str_eq(w.seen.type, "list");
    ck_assert_str_eq(w.seen.owner, "");
}
END_TEST

START_TEST(look_is_not_bothered_by_large_things)
{
    static char big[3000000];

    memset(big, 'x', sizeof(big));
    redis("SET s %b", big, sizeof(big));
    redis("HSET h %b %b", big, sizeof(big), big, sizeof(big));
    redis("HSET odd f notanumber");
    inspected(SLICE_LIT("s"));
    ck_assert(w.seen.ok && w.seen.exists);
    ck_assert_uint_le(strlen(w.seen.owner), 159);
    inspected(SLICE_LIT("h"));
    ck_assert(w.seen.ok && w.seen.exists);
    inspected(SLICE_LIT("odd"));
    ck_assert(w.seen.ok);
    ck_assert_int_eq(w.seen.holds, 0);
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 0);
}
END_TEST

START_TEST(status_reports_server_info)
{
    struct backend_status st;

    must(acquire("k", KIND_SIMPLE, 1), CORE_OK);
    turn_until(is_all_answered, NULL);
    backend_status(w.b, &st);
    ck_assert(st.up);
    ck_assert_ptr_nonnull(strstr(st.address, w.sock));
    ck_assert_ptr_nonnull(strstr(redis("INFO server"), st.version));
    ck_assert_ptr_nonnull(strstr(redis("INFO server"), st.run_id));
    ck_assert_str_eq(st.role, "master");
    ck_assert_str_eq(st.maxmemory_policy, "noeviction");
    ck_assert_str_eq(st.last_error, "");
    ck_assert_uint_eq(st.links_up, st.links);
    ck_assert_uint_eq(st.links, 3);
    ck_assert_int_gt(st.rtt_us, 0);
    ck_assert_int_lt(llabs(st.offset_us - (clock_wall_us() - clock_now_us())), US_PER_S);
    ck_assert_ptr_nonnull(strstr(redis("CLIENT LIST"), "name=rlockd"));
}
END_TEST

/* ---- errors of Redis ---- */

START_TEST(scripts_that_were_forgotten_are_sent_again)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d;

        redis("SCRIPT FLUSH");
        d = acquire(key, (enum kind)k, 1);
        must(d, CORE_OK);
        redis("SCRIPT FLUSH");
        d = extend(key, (enum kind)k, 1, d.expiry_ms, LEASE_US, false);
        must(d, CORE_OK);
        redis("SCRIPT FLUSH");
        must(release(key, (enum kind)k, 1, d.expiry_ms), CORE_OK);
    }
    ck_assert_uint_eq(w.metrics.redis_disconnects, 0);
}
END_TEST

START_TEST(a_full_redis_grants_nothing_and_frees_all)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_op op = op_on(key, (enum kind)k, 9);
        struct core_done d = acquire(key, (enum kind)k, 1);
        const char *const names[] = {"full0", key, "full1"};
        uint64_t three[3];

        redis("CONFIG SET maxmemory 1");
        redis("DEL rlock:clock"); /* no beat may bring it back */
        for (int i = 0; i < 3; i++) {
            struct core_op o = op_on(names[i], (enum kind)k, 2);

            three[i] = perform(&o, CORE_ACQUIRE);
        }
        flush();
        must(await(three[0]), CORE_FULL);
        must(await(three[1]), CORE_TAKEN); /* it is taken, whether Redis is full or not */
        must(await(three[2]), CORE_FULL);
        ck_assert_str_eq(redis("EXISTS full0 full1 rlock:clock"), "0");
        d = extend(key, (enum kind)k, 1, d.expiry_ms, 2 * LEASE_US, false);
        must(d, CORE_OK);
        ck_assert_int_gt(pttl(key), 50000);
        must(release(key, (enum kind)k, 1, d.expiry_ms), CORE_OK);
        ck_assert_str_eq(redis("EXISTS %s", key), "0");
        must(run(&op, CORE_BREAK_KEY), CORE_OK);
        redis("CONFIG SET maxmemory 0");
        must(acquire(key, (enum kind)k, 1), CORE_OK);
    }
}
END_TEST

/* Also when Redis is full, one hold of two is given back, and an attempt whose reply was lost is repeated. */
START_TEST(a_full_redis_takes_holds_back)
{
    struct core_op op = op_on("r", KIND_REENTRANT, 1);

    op.holds = 2;
    must(run(&op, CORE_ACQUIRE), CORE_OK);
    redis("CONFIG SET maxmemory 1");
    op.op = ++w.serial;
    must(run(&op, CORE_ACQUIRE), CORE_OK); /* the same count: nothing to allocate */
    op.op = ++w.serial;
    op.holds = 1;
    must(run(&op, CORE_RELEASE), CORE_OK);
    ck_assert_str_eq(redis("HVALS r"), "1 ");
    op.op = ++w.serial;
    op.holds = 2;
    op.reentry = true;
    must(run(&op, CORE_ACQUIRE), CORE_FULL);
    ck_assert_str_eq(redis("HVALS r"), "1 ");
}
END_TEST

/* Refusals before anything ran: DOWN, and no key is there. */
START_TEST(not_executed_is_down)
{
    struct core_done held = acquire("held", KIND_SIMPLE, 1);

    redis("CONFIG SET min-replicas-to-write 1");
    KIND_EACH(k)
    {
        must(acquire(kind_rows[k].name, (enum kind)k, 1), CORE_DOWN);
        ck_assert_str_eq(redis("EXISTS %s", kind_rows[k].name), "0");
    }
    must(extend("held", KIND_SIMPLE, 1, held.expiry_ms, LEASE_US, false), CORE_DOWN);
    must(release("held", KIND_SIMPLE, 1, held.expiry_ms), CORE_DOWN);
    ck_assert_str_eq(redis("EXISTS held"), "1");
    redis("CONFIG SET min-replicas-to-write 0");
    must(release("held", KIND_SIMPLE, 1, held.expiry_ms), CORE_OK);
}
END_TEST

START_TEST(a_busy_redis_is_down)
{
    redisContext *other = redisConnectUnix(w.sock);
    redisReply *r;
    bool busy;
    int wrote;

    redis("CONFIG SET busy-reply-threshold 1");
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    ck_assert_int_eq(redisBufferWrite(other, &wrote), REDIS_OK);
    ck_assert(wrote);
    do { /* until Redis is in the loop: before that, it serves attempts */
        r = redisCommand(w.cli, "PING");
        ck_assert_ptr_nonnull(r);
        busy = r->type == REDIS_REPLY_ERROR;
        freeReplyObject(r);
    } while (!busy);
    must(acquire("k", KIND_REENTRANT, 1), CORE_DOWN);
    redis("SCRIPT KILL");
    ck_assert_int_eq(redisGetReply(other, (void **)&r), REDIS_OK);
    freeReplyObject(r);
    redisFree(other);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

START_TEST(a_demoted_master_is_left)
{
    uint64_t lost = w.metrics.redis_disconnects, before = epoch_now();

    redis("REPLICAOF 127.0.0.1 1");
    must(acquire("k", KIND_REENTRANT, 1), CORE_DOWN);
    redis("REPLICAOF NO ONE");
    ck_assert_str_eq(redis("EXISTS k"), "0");
    turn_until(is_all_up, NULL);
    turn_until(is_granting_anew, &before);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    ck_assert_uint_gt(w.metrics.redis_disconnects, lost);
}
END_TEST

/* ---- channels ---- */

static uint64_t
watch_kind(const char *key, enum kind kind, uint64_t lock, enum core_action_type verb)
{
    struct core_op op = op_on(key, kind, 1);

    op.queue = lock;
    perform(&op, verb);
    flush();
    return lock;
}

static uint64_t
watch(const char *key, uint64_t lock, enum core_action_type verb)
{
    return watch_kind(key, KIND_REENTRANT, lock, verb);
}

struct received {
    enum core_event_type type;
    uint64_t lock;
    size_t n;
};

static bool
is_received(const void *arg)
{
    const struct received *h = arg;

    return count_events(h->type, h->lock) >= h->n;
}

#define must_receive(type, lock, n) turn_until(is_received, (&(struct received){type, lock, n}))

/* An operation on another link has been answered: what was sent before it has arrived. */
static void
settle(void)
{
    struct core_op op = op_on("settle", KIND_REENTRANT, 1);

    (void)run(&op, CORE_BREAK_KEY);
}

START_TEST(a_watch_is_confirmed_and_receives_hints)
{
    watch("order:1", 5, CORE_WATCH);
    must_receive(CORE_SUBSCRIBED, 5, 1);
    ck_assert_uint_eq(count_events(CORE_HINT, 5), 0);
    ck_assert_str_eq(redis("PUBLISH redisson_lock__channel:{order:1} 0"), "1");
    must_receive(CORE_HINT, 5, 1);

    watch("a{b}c", 6, CORE_WATCH);
    must_receive(CORE_SUBSCRIBED, 6, 1);
    ck_assert_str_eq(redis("PUBLISH redisson_lock__channel:a{b}c 0"), "1");
    must_receive(CORE_HINT, 6, 1);
    ck_assert_uint_eq(count_events(CORE_HINT, 5), 1);
}
END_TEST

START_TEST(a_release_wakes_watchers)
{
    KIND_EACH(k)
    {
        const char *key = kind_rows[k].name;
        struct core_done d = acquire(key, (enum kind)k, 1);
        struct core_op op = op_on(key, (enum kind)k, 1);

        watch_kind(key, (enum kind)k, 50 + (uint64_t)k, CORE_WATCH);
        must_receive(CORE_SUBSCRIBED, 50 + (uint64_t)k, 1);
        d = release(key, (enum kind)k, 1, d.expiry_ms);
        must(d, CORE_OK);
        ck_assert_int_eq(d.remote_subscribers, 1); /* the test's own subscription */
        must_receive(CORE_HINT, 50 + (uint64_t)k, 1);
        op.claim = op.queue;
        ck_assert_int_eq(run(&op, CORE_BREAK_KEY).remote_subscribers, 1);
        must_receive(CORE_HINT, 50 + (uint64_t)k, 2);
    }
}
END_TEST

START_TEST(one_subscription_for_all_locks_of_a_key)
{
    struct backend_status st;

    for (uint64_t lock = 1; lock <= 3; lock++) {
        watch("k", lock, CORE_WATCH);
        must_receive(CORE_SUBSCRIBED, lock, 1);
    }
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.watched, 1);
    ck_assert_str_eq(redis("PUBLISH redisson_lock__channel:{k} 0"), "1");
    for (uint64_t lock = 1; lock <= 3; lock++) {
        must_receive(CORE_HINT, lock, 1);
    }
    watch("k", 2, CORE_UNWATCH);
    watch("k", 3, CORE_UNWATCH);
    ck_assert_str_eq(redis("PUBLISH redisson_lock__channel:{k} 0"), "1");
    must_receive(CORE_HINT, 1, 2);
    ck_assert_uint_eq(count_events(CORE_HINT, 2) + count_events(CORE_HINT, 3), 2);
}
END_TEST

static int64_t
listeners(const char *key)
{
    return redis_number(strchr(redis("PUBSUB NUMSUB redisson_lock__channel:{%s}", key), ' ') + 1);
}

START_TEST(the_last_lock_ends_the_subscription)
{
    struct backend_status st;

    watch("k", 1, CORE_WATCH);
    must_receive(CORE_SUBSCRIBED, 1, 1);
    ck_assert_int_eq(listeners("k"), 1);
    watch("k", 1, CORE_UNWATCH);
    for (int n = 0; listeners("k") != 0; n++) {
        ck_assert_int_lt(n, 1000);
        settle();
    }
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.watched, 0);
    watch("k", 2, CORE_WATCH); /* again, for another lock with this key */
    must_receive(CORE_SUBSCRIBED, 2, 1);
    redis("PUBLISH redisson_lock__channel:{k} 0");
    must_receive(CORE_HINT, 2, 1);
    ck_assert_uint_eq(count_events(CORE_HINT, 1), 0);
}
END_TEST

START_TEST(a_thousand_channels)
{
    char key[16];

    for (uint64_t i = 0; i < 1000; i++) {
        struct core_op op;

        snprintf(key, sizeof(key), "k%d", (int)i);
        op = op_on(key, KIND_REENTRANT, 1);
        op.queue = 10 + i;
        perform(&op, CORE_WATCH);
    }
    flush();
    for (uint64_t i = 0; i < 1000; i++) {
        must_receive(CORE_SUBSCRIBED, 10 + i, 1);
    }
    redis("PUBLISH redisson_lock__channel:{k777} 0");
    must_receive(CORE_HINT, 787, 1);
}
END_TEST

START_TEST(subscriptions_come_back_with_the_link)
{
    for (uint64_t lock = 1; lock <= 2; lock++) {
        watch(lock == 1 ? "a" : "b", lock, CORE_WATCH);
        must_receive(CORE_SUBSCRIBED, lock, 1);
    }
    ck_assert_str_eq(redis("CLIENT KILL TYPE pubsub"), "1");
    watch("c", 3, CORE_WATCH); /* requested while the link is broken */
    must_receive(CORE_SUBSCRIBED, 1, 2);
    must_receive(CORE_SUBSCRIBED, 2, 2);
    must_receive(CORE_SUBSCRIBED, 3, 1);
    redis("PUBLISH redisson_lock__channel:{b} 0");
    must_receive(CORE_HINT, 2, 1);
    ck_assert(w.up); /* the links of locks are not affected */
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

/* Any message on the channel is a hint, whatever its text. */
START_TEST(any_payload_is_a_hint)
{
    static const char *const payload[] = {"0", "1", "", "message", "\r\n$5\r\n"};

    watch("k", 1, CORE_WATCH);
    must_receive(CORE_SUBSCRIBED, 1, 1);
    for (size_t i = 0; i < sizeof(payload) / sizeof(payload[0]); i++) {
        redis("PUBLISH redisson_lock__channel:{k} %s", payload[i]);
        must_receive(CORE_HINT, 1, i + 1);
    }
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        acquire_gives_token_expiry_and_lease,
        reentrant_is_redissons_hash,
        another_owner_finds_it_taken,
        a_key_of_another_type_is_foreign_and_stays,
        asking_again_finds_oneself,
        reentry_sets_the_count,
        reentry_only_where_one_is,
        simple_values_have_the_shape_asked_for,
        a_counter_is_one_and_its_loser_touches_nothing,
        renew_lengthens_and_never_shortens,
        exact_renew_shortens,
        renew_never_brings_a_key_back,
        a_former_owner_takes_nothing_away,
        release_frees_once_and_wakes,
        release_keeps_the_other_holds,
        a_counter_needs_its_expiry,
        break_frees_any_holder,
        break_leaves_a_key_that_is_no_lock,
        tokens_rise_over_many_names_of_one_turn,
        tokens_rise_over_an_emptied_redis,
        tokens_rise_over_clocks_that_went_back,
        a_clock_key_of_another_program_does_no_harm,
        a_spoiled_name_spoils_only_itself,
        a_forbidden_key_spoils_only_itself,
        a_forbidden_key_beside_spoils_one_call,
        a_single_call_keeps_its_turn,
        a_held_key_may_be_forbidden_later,
        a_turn_is_one_call,
        operations_behind_a_call_leave_together,
        renewals_leave_few_calls_at_a_time,
        a_reclaimed_hold_can_be_released,
        tokens_set_aside_are_known_for_given,
        one_turn_keeps_the_order_of_a_name,
        many_links_keep_the_order_of_a_name,
        names_are_bytes,
        a_ticket_is_requested_and_reported,
        readers_share_and_are_counted,
        a_writer_may_go_on_reading,
        permits_are_of_their_claims_and_up_to_the_limit,
        a_fenced_token_is_redissons_too,
        look_reports_the_key,
        look_is_not_bothered_by_large_things,
        status_reports_server_info,
        scripts_that_were_forgotten_are_sent_again,
        a_full_redis_grants_nothing_and_frees_all,
        a_full_redis_takes_holds_back,
        not_executed_is_down,
        a_busy_redis_is_down,
        a_demoted_master_is_left,
        a_watch_is_confirmed_and_receives_hints,
        a_release_wakes_watchers,
        one_subscription_for_all_locks_of_a_key,
        the_last_lock_ends_the_subscription,
        a_thousand_channels,
        subscriptions_come_back_with_the_link,
        any_payload_is_a_hint,
    };
    TCase *tc = tcase_create("backend");

    tcase_add_checked_fixture(tc, world_up, world_end);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    return world_run("backend", &tc, 1);
}
