/*
 * test_answers.c -- the core's answers as bytes, for one name and for several; the text of deadlocks; and the refusals
 * that depend on the kind of a lock.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"
#include "tests/unit/resp.h"

#include "daemon/serve/commands_reply.h"
#include "daemon/serve/session_record.h"

static void
expects_at(int line, const struct client *c, const char *request, const char *want)
{
    sends(c, request);
    settle();
    expect_at(line, c, want);
}
#define expects(c, request, want) expects_at(__LINE__, c, request, want)

/* The answer to this request contains this text. */
static void
reported_at(int line, const struct client *c, const char *request, const char *want)
{
    struct resp r = ask(c, request);

    ck_assert_msg(r.text != NULL && strstr(r.text, want) != NULL, "line %d: \"%s\" lacks \"%s\"", line, r.text, want);
    resp_fini(&r);
}
#define reported(c, request, want) reported_at(__LINE__, c, request, want)

/* ---- one name ---- */

static void
answered(const struct core_reply *r, const char *want)
{
    struct outbox out;
    struct writer w = {.out = &out.bytes, .proto = 2};

    outbox_init(&out);
    command_write_reply(engine, &out, &w, r);
    buf_add(&out.bytes, "", 1);
    ck_assert_str_eq(out.bytes.p, want);
    outbox_fini(&out);
}

START_TEST(every_core_answer_has_its_bytes)
{
    static const struct {
        enum core_answer answer;
        const char *want;
    } rows[] = {
        {CORE_GRANTED, ":1187\r\n"},
        {CORE_NOT_GRANTED, "$-1\r\n"},
        {CORE_CANCELLED, "$-1\r\n"},
        {CORE_LEFT, ":2\r\n"},
        {CORE_NOT_HELD, "-NOTHELD this owner does not hold the lock\r\n"},
        {CORE_STALE, "-STALE the token is not the current one\r\n"},
        {CORE_WAS_LOST, "-LOST the lock was held and has been lost\r\n"},
        {CORE_WRONG_KIND, "-KIND the key in Redis is of another kind\r\n"},
        {CORE_KEY_IN_USE, "-KIND \"a\\x0d\\x0a\" has a key in Redis that is in use by another name, \"b\"\r\n"},
        {CORE_DEADLOCK, "-DEADLOCK session 7 already holds \"a\\x0d\\x0a\" and would wait for itself\r\n"},
        {CORE_TOO_MANY_WAITERS, "-LIMIT too many waiters\r\n"},
        {CORE_TOO_MANY_LOCKS, "-LIMIT this owner holds or waits for too many locks\r\n"},
        {CORE_LOCKS_FULL, "-LIMIT too many locks, of all clients or of this user\r\n"},
        {CORE_TOO_MANY_OWNERS, "-LIMIT connections use too many owners, in all or those of this user\r\n"},
        {CORE_TOO_MANY_REQUESTS, "-LIMIT too many requests of this connection wait behind this one\r\n"},
        {CORE_DRAINING, "-DRAINING the daemon is shutting down\r\n"},
        {CORE_UNAVAILABLE, "-UNAVAILABLE Redis cannot answer\r\n"},
        {CORE_REDIS_FULL, "-UNAVAILABLE Redis is out of memory\r\n"},
        {CORE_NO_REPLICAS, "-NOREPLICAS too few replicas have acknowledged the lock in time: 1 of 2\r\n"},
        {CORE_FORBIDDEN, "-NOPERM the ACL of Redis forbids rlockd the key of this name: \"a\\x0d\\x0a\"\r\n"},
    };
    struct core_reply r = {.answer = rows[_i].answer, .session = 7, .owner = 7, .token = 1187, .left = 2,
                           .replicas = 1, .replicas_wanted = 2};

    ck_assert_uint_eq(sizeof(rows) / sizeof(rows[0]), CORE_ANSWERS); /* a new answer needs a row */
    ck_assert_int_eq(rows[_i].answer, _i);
    r.name = SLICE_LIT("a\r\n");
    r.other = SLICE_LIT("b");
    answered(&r, rows[_i].want);
}
END_TEST

/* ---- several ---- */

/* Several names: an answer for each, or one refusal with the name that it is about. */
START_TEST(many_answers)
{
    struct core_reply part[] = {
        {.answer = CORE_GRANTED, .name = {"a", 1}, .token = 8, .left = 0},
        {.answer = CORE_GRANTED, .name = {"b\n", 2}, .token = 7, .left = 3},
    };
    struct core_reply r = {.answer = CORE_GRANTED, .part = part, .parts = 2};

    answered(&r, "*2\r\n:8\r\n:7\r\n");
    r.answer = part[0].answer = part[1].answer = CORE_LEFT;
    answered(&r, "*2\r\n:0\r\n:3\r\n");
    part[1].answer = CORE_NOT_HELD;
    answered(&r, "-NOTHELD this owner does not hold the lock: \"b\\x0a\"\r\n");
    part[0].answer = CORE_WAS_LOST;
    answered(&r, "-LOST the lock was held and has been lost: \"a\"\r\n");
    r = (struct core_reply){.answer = CORE_NOT_GRANTED, .part = part, .parts = 2};
    answered(&r, "$-1\r\n");
    r = (struct core_reply){.answer = CORE_WRONG_KIND, .part = part, .parts = 2, .name = {"b", 1}};
    answered(&r, "-KIND the key in Redis is of another kind: \"b\"\r\n");
    r = (struct core_reply){.answer = CORE_WRONG_KIND, .name = {"b", 1}};
    answered(&r, "-KIND the key in Redis is of another kind\r\n");
}
END_TEST

START_TEST(many_full_answers)
{
    struct core_reply part[] = {{.answer = CORE_GRANTED, .name = {"a", 1}, .token = 8, .owner = 3, .kind = KIND_RW}};
    struct core_reply r = {.answer = CORE_GRANTED, .part = part, .parts = 1, .full = true};
    char want[300];

    snprintf(want, sizeof(want),
             "*1\r\n*14\r\n$4\r\nname\r\n$1\r\na\r\n$5\r\ntoken\r\n:8\r\n$5\r\nowner\r\n$38\r\n%s:3\r\n"
             "$4\r\nkind\r\n$2\r\nrw\r\n$5\r\nholds\r\n:0\r\n$8\r\nlease_ms\r\n:0\r\n$9\r\nwaited_ms\r\n:0\r\n",
             engine->uuid);
    answered(&r, want);
}
END_TEST

/* ---- deadlocks ---- */

#define FAR "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10"

static const struct {
    struct core_hop hop[3];
    size_t n;
    const char *want;
} cycles[] = {
    {{{.owner = 7, .name = {"a", 1}}}, 1, "session 7 already holds \"a\" and would wait for itself"},
    {{{.owner = 9, .owner_name = {"w\n7", 3}, .name = {"a", 1}}},
     1,
     "owner \"w\\x0a7\" already holds \"a\" and would wait for itself"},
    {{{.owner = 7, .name = {"b", 1}}, {.owner = 9, .name = {"a", 1}}},
     2,
     "session 7 waits for \"b\", held by session 9, which waits for \"a\", held by session 7"},
    {{{.owner = 7, .owner_name = {"me", 2}, .name = {"b", 1}},
      {.daemon = {FAR, 36}, .owner = 12, .name = {"c\r\n", 3}},
      {.daemon = {FAR, 36}, .owner = 13, .owner_name = {"job", 3}, .name = {"a", 1}}},
     3,
     "owner \"me\" waits for \"b\", held by session 12 of daemon " FAR ", which waits for \"c\\x0d\\x0a\", held by "
     "owner \"job\" of daemon " FAR ", which waits for \"a\", held by owner \"me\""},
};

START_TEST(deadlocks_are_spelled_out)
{
    struct core_reply r = {.answer = CORE_DEADLOCK, .session = 7, .owner = 7, .name = {"a", 1}};
    char want[600];

    r.hop = cycles[_i].hop;
    r.hops = cycles[_i].n;
    snprintf(want, sizeof(want), "-DEADLOCK %s\r\n", cycles[_i].want);
    answered(&r, want);
}
END_TEST

/* A deadlock of any length and with any names is one line of bounded length. */
START_TEST(long_deadlocks_are_cut)
{
    static char name[512];
    struct core_hop hop[100];
    struct core_reply r = {.answer = CORE_DEADLOCK, .hop = hop, .hops = 100};
    struct outbox box;
    struct writer w = {.out = &box.bytes, .proto = 2};
    struct buf *out = &box.bytes;
    int i;

    memset(name, '\n', sizeof(name));
    for (i = 0; i < 100; i++) {
        hop[i] = (struct core_hop){.daemon = {FAR, 36}, .owner = 1000 + (uint64_t)i, .owner_name = {name, 128},
                                   .name = {name, 512}};
    }
    outbox_init(&box);
    command_write_reply(engine, &box, &w, &r);
    buf_add(out, "", 1);
    ck_assert_uint_lt(out->n, 8192);
    ck_assert_ptr_eq(strchr(out->p, '\r'), out->p + out->n - 3);
    ck_assert_ptr_nonnull(strstr(out->p, "\", and so on over 92 more owners, held by owner \"\\x0a"));
    outbox_fini(&box);
}
END_TEST

/* ---- options that need a kind ---- */

START_TEST(options_need_their_kind)
{
    struct client c = come();

#define LOCK_USAGE                                                                                                     \
    "; usage: LOCK name [WAIT duration|NOWAIT] [LEASE duration] [KIND kind] [SHARED] [LIMIT permits] "                 \
    "[OWNER id [GRACE duration]] [ONCE] [FULL]\r\n"
    expects(&c, "LOCK a SHARED\n", "-ERR SHARED is for kind rw, and \"a\" is of kind reentrant" LOCK_USAGE);
    expects(&c, "LOCK a KIND rw LIMIT 2\n", "-ERR LIMIT is for kind semaphore, and \"a\" is of kind rw" LOCK_USAGE);
    reported(&c, "MLOCK 2 a b KIND semaphore SHARED\n",
         "ERR SHARED is for kind rw, and \"a\" is of kind semaphore; usage: MLOCK n");
    conf->locks.kind = KIND_SEMAPHORE; /* as a rule may demand */
    reported(&c, "MLOCK 1 b SHARED\n", "ERR SHARED is for kind rw, and \"b\" is of kind semaphore; usage: MLOCK n");
    reported(&c, "MLOCK 2 b b\n", "ERR the name 'b' is given twice; usage: MLOCK n");
    reported(&c, "MUNLOCK 2 b\n", "ERR 2 names are announced, 1 are given; usage: MUNLOCK n");
    ck_assert_uint_eq(redis->acquires, 0);
    leave(&c);
}
END_TEST

START_TEST(settings_of_rules_reach_redis)
{
    struct client c = come();

    conf->locks.limit = 5;
    conf->locks.kind = KIND_SEMAPHORE;
    sends(&c, "LOCK a\nLOCK b LIMIT 7\nLOCK c KIND rw SHARED\n");
    settle();
    ck_assert_uint_ge(redis->n, 3);
    ck_assert_uint_eq(redis->op[0].limit, 5);
    ck_assert_uint_eq(redis->op[1].limit, 7);
    ck_assert_int_eq(redis->op[2].kind, KIND_RW);
    ck_assert(redis->op[2].shared && !redis->op[0].shared);
    close(c.fd);
    settle();
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("answers");
    TCase *tc = tcase_create("all");
    SRunner *run;
    int failed;

    tcase_add_checked_fixture(tc, build, take_down);
    tcase_add_loop_test(tc, every_core_answer_has_its_bytes, 0, CORE_ANSWERS);
    tcase_add_test(tc, many_answers);
    tcase_add_test(tc, many_full_answers);
    tcase_add_loop_test(tc, deadlocks_are_spelled_out, 0, sizeof(cycles) / sizeof(cycles[0]));
    tcase_add_test(tc, long_deadlocks_are_cut);
    tcase_add_test(tc, options_need_their_kind);
    tcase_add_test(tc, settings_of_rules_reach_redis);
    suite_add_tcase(s, tc);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
