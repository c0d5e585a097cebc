/*
 * test_redis.c -- properties of the simulated Redis without a real counterpart: its faults, its identity, its
 * determinism.
 */
#include <check.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/sha1.h"
#include "daemon/base/buf.h"
#include "tests/sim/redis.h"
#include "tests/unit/rng.h"

#define T0 INT64_C(1763701200123456)
#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ID_C "cccccccccccccccccccccccccccccccccccccccc"

enum { WORDS_MAX = 16 };

static struct sim_redis *r;

static void
set_up(void)
{
    r = sim_redis_new(ID_A, ID_B);
}

static void
tear_down(void)
{
    sim_redis_free(&r);
}

/* The words end with a NULL. */
static const struct reply *
ask(struct sim_redis *to, int64_t at_us, ...)
{
    struct slice word[WORDS_MAX];
    const char *text;
    va_list args;
    int n = 0;

    va_start(args, at_us);
    while ((text = va_arg(args, const char *)) != NULL) {
        word[n++] = slice_of(text);
    }
    va_end(args);
    return sim_redis_command(to, at_us, n, word);
}

#define ASK(to, at, ...) ask(to, at, __VA_ARGS__, (char *)NULL)
#define is_text(reply, want) ck_assert_str_eq((reply)->text.p, want)

static void
is_error(const struct reply *reply, const char *want)
{
    ck_assert_int_eq(reply->type, REPLY_ERROR);
    ck_assert_mem_eq(reply->text.p, want, strlen(want));
}

/* The field of INFO, in a buffer of the test. */
static const char *
info(struct sim_redis *of, int64_t at_us, const char *field)
{
    static char value[64];
    const struct reply *reply = ASK(of, at_us, "INFO");
    const char *at = strstr(reply->text.p, field);

    ck_assert_msg(at != NULL, "INFO has no %s", field);
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + strlen(field) + 1, "\r"), at + strlen(field) + 1);
    return value;
}

/* ---- identity ---- */

START_TEST(info_names_the_server)
{
    ck_assert_str_eq(info(r, T0, "run_id"), ID_A);
    ck_assert_str_eq(info(r, T0, "master_replid"), ID_B);
    ck_assert_str_eq(info(r, T0, "role"), "master");
    ck_assert_str_eq(info(r, T0 + 7000000, "uptime_in_seconds"), "7");
    sim_redis_started(r, T0 - 60000000);
    ck_assert_str_eq(info(r, T0, "uptime_in_seconds"), "60");
    ck_assert(strstr(ASK(r, T0, "INFO", "replication")->text.p, "run_id") == NULL);
    ck_assert(strstr(ASK(r, T0, "INFO", "server", "replication")->text.p, "master_replid:" ID_B) != NULL);
}
END_TEST

START_TEST(info_says_whether_it_was_flushed)
{
    ck_assert(strstr(ASK(r, T0, "INFO", "commandstats")->text.p, "flushall") == NULL);
    sim_redis_flush(r);
    ck_assert(strstr(ASK(r, T0, "INFO", "commandstats")->text.p, "\ncmdstat_flushall:calls=") != NULL);
    ck_assert(strstr(ASK(r, T0, "INFO")->text.p, "cmdstat") == NULL);
    sim_redis_restart(r, r, ID_B, ID_A);
    ck_assert(strstr(ASK(r, T0, "INFO", "commandstats")->text.p, "flushall") == NULL);
}
END_TEST

START_TEST(a_restart_is_another_run_and_forgets_scripts)
{
    const struct reply *sha = ASK(r, T0, "SCRIPT", "LOAD", "return 1");
    char text[41];

    memcpy(text, sha->text.p, sizeof(text));
    ck_assert_int_eq(ASK(r, T0, "EVALSHA", text, "0")->n, 1);
    ASK(r, T0, "SET", "k", "v");
    sim_redis_restart(r, r, ID_C, ID_C); /* a clean restart keeps the data */
    is_text(ASK(r, T0, "GET", "k"), "v");
    is_error(ASK(r, T0, "EVALSHA", text, "0"), "NOSCRIPT ");
    ck_assert_str_eq(info(r, T0, "run_id"), ID_C);
    sim_redis_restart(r, NULL, ID_A, ID_A);
    ck_assert_int_eq(ASK(r, T0, "DBSIZE")->n, 0);
}
END_TEST

START_TEST(a_restart_from_a_snapshot_has_lost_what_came_later)
{
    struct sim_redis *snapshot;

    ASK(r, T0, "SET", "k", "old", "PX", "1000");
    snapshot = sim_redis_copy(r);
    ASK(r, T0, "SET", "k", "new");
    ASK(r, T0, "HSET", "h", "f", "v");
    sim_redis_restart(r, snapshot, ID_C, ID_C);
    sim_redis_free(&snapshot);
    is_text(ASK(r, T0, "GET", "k"), "old");
    ck_assert_int_eq(ASK(r, T0, "PTTL", "k")->n, 1000);
    ck_assert_int_eq(ASK(r, T0, "EXISTS", "h")->n, 0);
    ck_assert_str_eq(info(r, T0, "role"), "master");
}
END_TEST

/* ---- replicas ---- */

START_TEST(a_replica_reads_and_refuses_writes_until_it_is_promoted)
{
    struct sim_redis *replica;

    ASK(r, T0, "SET", "k", "v", "PX", "100");
    ASK(r, T0, "ZADD", "z", "1.5", "m");
    replica = sim_redis_copy(r);
    ck_assert_str_eq(info(replica, T0, "role"), "slave");
    ck_assert_str_eq(info(replica, T0, "master_replid"), ID_B);
    ck_assert_str_ne(info(replica, T0, "run_id"), ID_A);
    is_error(ASK(replica, T0, "DEL", "k"), "READONLY ");
    is_error(ASK(replica, T0, "EVAL", "return redis.call('DEL', 'k')", "0"), "READONLY ");
    is_text(ASK(replica, T0, "EVAL", "return redis.call('GET', 'k')", "0"), "v");
    ck_assert_int_eq(ASK(replica, T0 + 200000, "EXISTS", "k")->n, 0); /* expired, but its master has not deleted it */
    ck_assert_int_eq(ASK(replica, T0 + 200000, "DBSIZE")->n, 2);
    sim_redis_promote(replica, ID_C);
    ck_assert_str_eq(info(replica, T0, "master_replid"), ID_C);
    ck_assert_str_eq(info(replica, T0, "master_replid2"), ID_B);
    ck_assert_int_eq(ASK(replica, T0 + 200000, "DEL", "k", "z")->n, 1);
    is_text(ASK(r, T0, "ZSCORE", "z", "m"), "1.5"); /* a copy shares nothing */
    sim_redis_free(&replica);
}
END_TEST

/* ---- faults ---- */

START_TEST(a_full_redis_checks_the_first_write_only)
{
    sim_redis_full(r, true);
    is_error(ASK(r, T0, "SET", "k", "v"), "OOM ");
    is_error(ASK(r, T0, "EVAL", "return redis.call('SET', 'k', 'v')", "0"), "OOM ");
    is_text(ASK(r, T0, "EVAL", "redis.call('DEL', 'k') return redis.call('SET', 'k', 'v')", "0"), "OK");
    is_text(ASK(r, T0, "EVAL", "redis.call('PEXPIRE', 'x', 1) redis.call('HSET', 'h', 'f', 'v') return 'written'", "0"),
            "written");
    ck_assert_int_eq(ASK(r, T0, "EVAL", "redis.call('GET', 'k') local e = redis.pcall('INCR', 'n')\n"
                                        "return e.err and 1 or 0", "0")->n, 1);
    sim_redis_full(r, false);
    is_text(ASK(r, T0, "SET", "k", "w"), "OK");
}
END_TEST

START_TEST(what_is_refused_does_nothing)
{
    sim_redis_refuse(r, "LOADING Redis is loading the dataset in memory");
    is_error(ASK(r, T0, "SET", "k", "v"), "LOADING ");
    is_error(ASK(r, T0, "INFO"), "LOADING ");
    sim_redis_refuse(r, "BUSY Redis is busy running a script.");
    is_error(ASK(r, T0, "GET", "k"), "BUSY ");
    sim_redis_refuse(r, NULL);
    ck_assert_int_eq(ASK(r, T0, "GET", "k")->type, REPLY_NULL);
}
END_TEST

START_TEST(flushes)
{
    ASK(r, T0, "SET", "k", "v");
    ASK(r, T0, "SCRIPT", "LOAD", "return 1");
    sim_redis_script_flush(r);
    ck_assert_int_eq(ASK(r, T0, "SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")->item[0]->n, 0);
    ck_assert_int_eq(ASK(r, T0, "EVAL", "return 1", "0")->n, 1); /* the server has the script again */
    ck_assert_int_eq(ASK(r, T0, "SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")->item[0]->n, 1);
    is_text(ASK(r, T0, "GET", "k"), "v");
    sim_redis_flush(r);
    ck_assert_int_eq(ASK(r, T0, "GET", "k")->type, REPLY_NULL);
}
END_TEST

START_TEST(two_redis_know_their_own_scripts)
{
    struct sim_redis *other = sim_redis_new(ID_C, ID_C);

    ASK(r, T0, "SCRIPT", "LOAD", "return 1");
    is_error(ASK(other, T0, "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"), "NOSCRIPT ");
    ck_assert_int_eq(ASK(r, T0, "EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0")->n, 1);
    sim_redis_free(&other);
}
END_TEST

/* ---- keys for tests ---- */

struct seen {
    char text[256];
};

static void
see(void *ctx, struct slice key)
{
    struct seen *s = ctx;

    snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text), "%.*s ", (int)key.n, key.p);
}

START_TEST(keys_come_in_the_order_of_their_names)
{
    struct seen s = {""};

    ASK(r, T0, "SET", "b", "1");
    ASK(r, T0, "SET", "a", "1", "PX", "10");
    ASK(r, T0, "HSET", "aa", "f", "v");
    sim_redis_keys(r, T0, see, &s);
    ck_assert_str_eq(s.text, "a aa b ");
    s.text[0] = '\0';
    sim_redis_keys(r, T0 + 10999, see, &s); /* 10 ms after 123456 us: the millisecond 133 is its last */
    ck_assert_str_eq(s.text, "aa b ");
}
END_TEST

static int
receive(void *ctx, struct slice channel, struct slice message, bool sharded)
{
    (void)sharded;
    see(ctx, channel);
    see(ctx, message);
    return 3;
}

START_TEST(listeners_are_asked)
{
    struct seen s = {""};

    ck_assert_int_eq(ASK(r, T0, "PUBLISH", "c", "m")->n, 0);
    sim_redis_on_publish(r, receive, &s);
    ck_assert_int_eq(ASK(r, T0, "PUBLISH", "c", "m")->n, 3);
    ck_assert_int_eq(ASK(r, T0, "EVAL", "return redis.call('PUBLISH', 'd', 'n')", "0")->n, 3);
    ck_assert_str_eq(s.text, "c m d n ");
}
END_TEST

/* A hash of all replies: the same for the same seed, also after another Redis has lived in the thread. */
static uint64_t
life(int seed)
{
    static const char *const text = "local t = redis.call('HGETALL', KEYS[1])\n"
                                    "t[#t + 1] = tostring(redis.call('TIME')[2])\n"
                                    "redis.call('HSET', KEYS[1], ARGV[1], ARGV[1]) return t";
    struct sim_redis *one = sim_redis_new(ID_A, ID_B);
    struct rng rng = rng_of(seed);
    uint64_t h = 0;
    int64_t now = T0;

    for (int i = 0; i < 2000; i++) {
        char field[16], key[16];
        const struct reply *reply;

        snprintf(field, sizeof(field), "f%u", rng_below(&rng, 50));
        snprintf(key, sizeof(key), "k%u", rng_below(&rng, 5));
        reply = ASK(one, now += rng_below(&rng, 1000), "EVAL", text, "1", key, field);
        for (size_t k = 0; k < reply->count; k++) {
            for (size_t b = 0; b < reply->item[k]->text.n; b++) {
                h = h * 31 + (unsigned char)reply->item[k]->text.p[b];
            }
        }
        if (rng_below(&rng, 20) == 0) {
            ASK(one, now, "PEXPIRE", key, "3");
        }
    }
    sim_redis_free(&one);
    return h;
}

START_TEST(the_same_seed_is_the_same_life)
{
    uint64_t first = life(1);

    ck_assert(life(2) != first);
    ck_assert(life(1) == first);
}
END_TEST

/* A script leaves nothing for the next one. */
START_TEST(scripts_leave_nothing_behind)
{
    is_error(ASK(r, T0, "EVAL", "left = 1", "0"), "ERR user_script:1: Attempt to modify a readonly table");
    is_error(ASK(r, T0, "EVAL", "rawset(_G, 'left', 1)", "0"), "ERR Attempt to modify a readonly table");
    is_error(ASK(r, T0, "EVAL", "setmetatable(_G, nil)", "0"), "ERR Attempt to modify a readonly table");
    is_error(ASK(r, T0, "EVAL", "return left", "0"), "ERR user_script:1: Script attempted to access nonexistent");
    ASK(r, T0, "EVAL", "KEYS[3] = 'x' return 1", "1", "k");
    ck_assert_int_eq(ASK(r, T0, "EVAL", "return #KEYS", "1", "k")->n, 1);
}
END_TEST

/* ---- a slot that moves, see slots.def ---- */

enum side { SOURCE, TARGET, ASKING };

static const char *
place(void *ctx, uint8_t node)
{
    (void)ctx;
    return node == SOURCE ? "at:source" : "at:target";
}

static const char *
no_nodes(void *ctx)
{
    (void)ctx;
    return "";
}

static void
says(struct sim_redis *const node[2], enum side side, const char *want, int words, const struct slice *word)
{
    struct sim_redis *to = node[side != SOURCE];
    const char *other = side == SOURCE ? "at:target" : "at:source", *at = strchr(want, '@');
    const char *error = sim_redis_redirects(to, T0, side == ASKING, words, word);
    char text[160], full[160];

    snprintf(full, sizeof(full), "%.*s%s", (int)(at != NULL ? at - want : (int)strlen(want)), want,
             at != NULL ? other : "");
    if (error != NULL) {
        snprintf(text, sizeof(text), "%s", error);
    } else {
        const struct reply *reply = sim_redis_command(to, T0, words, word);

        if (reply->type == REPLY_INT) {
            snprintf(text, sizeof(text), "%" PRId64, reply->n);
        } else {
            snprintf(text, sizeof(text), "%.*s", (int)reply->text.n, reply->text.p);
        }
    }
    ck_assert_msg(strncmp(text, full, strlen(full)) == 0, "%s of %.*s: %s, not %s", other, (int)word[0].n, word[0].p,
                  text, full);
}

#define COUNT_OF(...) (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

START_TEST(a_slot_moves)
{
    static uint8_t owner[16384]; /* all slots belong to the source */
    struct sim_slots slots[2] = {{owner, SOURCE, TARGET, 16287, SIM_NO_SLOT, false, place, no_nodes, NULL},
                                 {owner, TARGET, SOURCE, SIM_NO_SLOT, 16287, false, place, no_nodes, NULL}};
    struct sim_redis *node[2] = {r, sim_redis_new(ID_C, ID_C)};

    ASK(r, T0, "SET", "{x}a", "1");
    ASK(r, T0, "SET", "{x}b", "2");
    for (int i = 0; i < 2; i++) {
        sim_redis_in_cluster(node[i], &slots[i]);
    }
#define ROW(side, want, ...)                                                                                           \
    {                                                                                                                  \
        static const char *const text[] = {__VA_ARGS__};                                                               \
        struct slice word[COUNT_OF(__VA_ARGS__)];                                                                      \
                                                                                                                       \
        for (int i = 0; i < COUNT_OF(__VA_ARGS__); i++) {                                                              \
            word[i] = slice_of(text[i]);                                                                               \
        }                                                                                                              \
        says(node, side, want, COUNT_OF(__VA_ARGS__), word);                                                           \
    }
#define MOVES(key) (void)sim_redis_migrate(node[0], T0, node[1], T0, slice_of(key));
#include "tests/sim/slots.def"
#undef ROW
#undef MOVES
    sim_redis_free(&node[1]);
}
END_TEST

/* A key moves with the rest of its time, by the clock of the other node. */
START_TEST(a_key_moves_with_its_time)
{
    struct sim_redis *to = sim_redis_new(ID_C, ID_C);
    int64_t there_us = T0 - 5000000;

    ASK(r, T0, "SET", "k", "v", "PX", "700");
    ck_assert(!sim_redis_migrate(r, T0 + 300000, to, there_us, SLICE_LIT("k")));
    ck_assert_int_eq(ASK(r, T0 + 300000, "EXISTS", "k")->n, 0);
    ck_assert_int_eq(ASK(to, there_us, "PTTL", "k")->n, 400);
    sim_redis_free(&to);
}
END_TEST

/* REPLACE ignores times: an older key replaces a newer one, and the function reports that. */
START_TEST(an_older_key_replaces_a_newer_one)
{
    struct sim_redis *to = sim_redis_new(ID_C, ID_C);

    ASK(r, T0, "SET", "k", "old", "PX", "700");
    ASK(to, T0, "SET", "k", "new", "PX", "900");
    ck_assert(sim_redis_migrate(r, T0, to, T0, SLICE_LIT("k")));
    ck_assert_str_eq(ASK(to, T0, "GET", "k")->text.p, "old");
    ASK(r, T0, "SET", "k", "newer", "PX", "900");
    ck_assert(!sim_redis_migrate(r, T0, to, T0, SLICE_LIT("k")));
    ASK(r, T0, "SET", "n", "9 0");
    ASK(to, T0, "SET", "n", "10 0");
    ck_assert(sim_redis_migrate(r, T0, to, T0, SLICE_LIT("n")));
    ck_assert_str_eq(ASK(to, T0, "GET", "n")->text.p, "9 0");
    sim_redis_free(&to);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("sim_redis");
    TCase *c = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, info_names_the_server);
    tcase_add_test(c, info_says_whether_it_was_flushed);
    tcase_add_test(c, a_restart_is_another_run_and_forgets_scripts);
    tcase_add_test(c, a_restart_from_a_snapshot_has_lost_what_came_later);
    tcase_add_test(c, a_replica_reads_and_refuses_writes_until_it_is_promoted);
    tcase_add_test(c, a_full_redis_checks_the_first_write_only);
    tcase_add_test(c, what_is_refused_does_nothing);
    tcase_add_test(c, flushes);
    tcase_add_test(c, two_redis_know_their_own_scripts);
    tcase_add_test(c, keys_come_in_the_order_of_their_names);
    tcase_add_test(c, listeners_are_asked);
    tcase_add_test(c, the_same_seed_is_the_same_life);
    tcase_add_test(c, scripts_leave_nothing_behind);
    tcase_add_test(c, a_slot_moves);
    tcase_add_test(c, a_key_moves_with_its_time);
    tcase_add_test(c, an_older_key_replaces_a_newer_one);
    suite_add_tcase(s, c);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
