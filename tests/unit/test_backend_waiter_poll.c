/*
 * test_backend_waiter_poll.c -- the number of subscribers on the channels of some names: asked once, answered once or
 * not at all.
 */
#include "daemon/backend/waiter_poll.h"
#include "watch_world.h"

#define PLAIN(name) "redisson_lock__channel:{" name "}"

/* The last answer. */
static struct {
    uint64_t op;
    size_t n;
    int64_t each[CORE_WAITER_POLL_MAX];
    unsigned answers;
} got;

static void
take_answer(const struct core_event *ev)
{
    got.op = ev->polled.op;
    got.n = ev->polled.n;
    memcpy(got.each, ev->polled.subscribers, got.n * sizeof(got.each[0]));
    got.answers++;
}

static void
world_up_probing(void)
{
    memset(&got, 0, sizeof(got));
    world_up();
    w.polled = take_answer;
}

static void
world_with_redis_probing(void)
{
    memset(&got, 0, sizeof(got));
    world_with_redis();
    w.polled = take_answer;
}

static void
waiter_poll(uint64_t op, const struct core_waiter_poll_name *name, size_t n)
{
    w.inside = true;
    backend_waiter_poll(w.b, &(struct core_waiter_poll){op, name, n});
    w.inside = false;
}

static void
poll_one(uint64_t op, const char *key)
{
    char *spoiled = strdup(key);

    waiter_poll(op, &(struct core_waiter_poll_name){slice_of(spoiled), KIND_REENTRANT}, 1);
    memset(spoiled, '#', strlen(spoiled)); /* the backend must have copied it */
    free(spoiled);
}

static bool
is_answered(const void *op)
{
    return got.op == *(const uint64_t *)op;
}

#define must_answer(op) turn_until(is_answered, (&(uint64_t){op}))

static redisContext *
subscriber(const char *channel)
{
    redisContext *c = redisConnectUnix(w.sock);

    ck_assert(c != NULL && c->err == 0);
    freeReplyObject(redisCommand(c, "SUBSCRIBE %s", channel));
    return c;
}

/* A count for each name, by the channel of its kind; also for a name without subscribers. */
START_TEST(counts)
{
    static const struct core_waiter_poll_name name[] = {{SLICE_LIT("a"), KIND_REENTRANT},
                                                  {SLICE_LIT("b"), KIND_SIMPLE},
                                                  {SLICE_LIT("c"), KIND_RW},
                                                  {SLICE_LIT("d\0 \r\n"), KIND_REENTRANT},
                                                  {SLICE_LIT("a"), KIND_RW}};
    redisContext *c[4] = {subscriber(PLAIN("a")), subscriber(PLAIN("a")), subscriber(PLAIN("b")),
                          subscriber("redisson_rwlock:{c}")};

    waiter_poll(7, name, 5);
    must_answer(7);
    ck_assert_uint_eq(got.n, 5);
    ck_assert_int_eq(got.each[0], 2);
    ck_assert_int_eq(got.each[1], 1);
    ck_assert_int_eq(got.each[2], 1);
    ck_assert_int_eq(got.each[3], 0);
    ck_assert_int_eq(got.each[4], 0);
    for (int i = 0; i < 4; i++) {
        redisFree(c[i]);
    }
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 0);
}
END_TEST

/* As many names as a poll may have; our own subscription counts, like that of another daemon. */
START_TEST(many)
{
    struct core_waiter_poll_name name[CORE_WAITER_POLL_MAX];
    char key[CORE_WAITER_POLL_MAX][8];
    struct core_op op = op_on("k77", KIND_REENTRANT, 1);
    int64_t before = redis_calls("pubsub|numsub");

    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, op.queue, 1);
    for (int i = 0; i < CORE_WAITER_POLL_MAX; i++) {
        snprintf(key[i], sizeof(key[i]), "k%d", i);
        name[i] = (struct core_waiter_poll_name){slice_of(key[i]), KIND_REENTRANT};
    }
    for (uint64_t round = 1; round <= 3; round++) {
        waiter_poll(round, name, CORE_WAITER_POLL_MAX);
        must_answer(round);
        for (int i = 0; i < CORE_WAITER_POLL_MAX; i++) {
            ck_assert_int_eq(got.each[i], i == 77);
        }
    }
    ck_assert_int_eq(redis_calls("pubsub|numsub"), before + 3);
}
END_TEST

/* One poll at a time: a second one is not sent. A poll is no operation, and keeps no backend busy. */
START_TEST(one_at_a_time)
{
    int64_t before = redis_calls("pubsub|numsub");

    poll_one(1, "a");
    poll_one(2, "a");
    ck_assert(backend_idle(w.b));
    must_answer(1);
    poll_one(3, "a");
    must_answer(3);
    ck_assert_uint_eq(got.answers, 2);
    ck_assert_uint_eq(w.metrics.probes, 2);
    ck_assert_int_eq(redis_calls("pubsub|numsub"), before + 2);
}
END_TEST

/* A poll that is not sent, or not answered, is not repeated; the next one is a new one. */
START_TEST(redis_is_away)
{
    redis_stop(); /* it must not answer before it is killed */
    poll_one(1, "a");
    redis_kill();
    turn_until(is_down, NULL);
    poll_one(2, "a");
    unlink(w.sock);
    redis_start(NULL);
    redis_connect();
    turn_until(is_all_up, NULL);
    poll_one(3, "a");
    must_answer(3);
    ck_assert_uint_eq(got.answers, 1);
    ck_assert_uint_eq(w.metrics.probes, 2); /* those that were sent */
}
END_TEST

/* A reply of another shape is no answer. */
START_TEST(other_answers)
{
    struct reply name = {.type = REPLY_TEXT, .text = SLICE_LIT("a")}, number = {.type = REPLY_INT, .n = 7};
    struct reply *item[4] = {&name, &number, &name, &number};
    struct reply r = {.type = REPLY_ARRAY, .count = 4, .item = item};
    int64_t n[2] = {0, 0};

    ck_assert(waiter_poll_read(&r, 2, n));
    ck_assert(n[0] == 7 && n[1] == 7);
    ck_assert(!waiter_poll_read(&r, 1, n));
    item[3] = &name;
    ck_assert(!waiter_poll_read(&r, 2, n));
    ck_assert(!waiter_poll_read(&number, 2, n));
}
END_TEST

static bool
is_quiet(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.in_flight == 0;
}

static bool
is_refused(const void *unused)
{
    (void)unused;
    return log_count("remote waiters not detected") > 0;
}

/* BUSY is no refusal: Redis does not forbid the question. */
START_TEST(errors_of_the_moment)
{
    redisContext *busy = redisConnectUnix(w.sock);

    redis("CONFIG SET busy-reply-threshold 1");
    log_keep();
    redisAppendCommand(busy, "EVAL %s 0", "while true do end");
    ck_assert_int_eq(redisBufferWrite(busy, NULL), REDIS_OK);
    redis_until("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "GET %s",
                "x");
    poll_one(1, "a");
    turn_until(is_quiet, NULL);
    redis("SCRIPT KILL");
    redis_until("", "GET %s", "x");
    poll_one(2, "a");
    must_answer(2);
    ck_assert_uint_eq(got.answers, 1);
    ck_assert_int_eq(log_count("remote waiters not detected"), 0);
    redisFree(busy);
}
END_TEST

/* A daemon without the right to poll goes on without, and logs that once; a new connection may have more rights. */
START_TEST(a_daemon_that_may_not_poll)
{
    up_as("");
    redis("ACL SETUSER locks -pubsub"); /* without this right from the start membership.lua admits no daemon */
    for (uint64_t op = 1; op < 10; op++) {
        poll_one(op, "a");
        turn_until(is_refused, NULL);
    }
    ck_assert_int_eq(log_count("remote waiters not detected"), 1);
    ck_assert_int_eq(log_count("ACL SETUSER locks +pubsub"), 1);
    ck_assert_uint_eq(got.answers, 0);
    ck_assert_uint_eq(w.metrics.redis_disconnects, 0);
    redis("ACL SETUSER locks +pubsub");
    redis("CLIENT KILL TYPE normal SKIPME yes");
    turn_until(is_down, NULL);
    turn_until(is_all_up, NULL);
    poll_one(20, "a");
    must_answer(20);
}
END_TEST

int
main(void)
{
    TCase *tc[] = {tcase_create("up"), tcase_create("users")};

    tcase_add_checked_fixture(tc[0], world_up_probing, world_end);
    tcase_add_test(tc[0], counts);
    tcase_add_test(tc[0], many);
    tcase_add_test(tc[0], one_at_a_time);
    tcase_add_test(tc[0], redis_is_away);
    tcase_add_test(tc[0], other_answers);
    tcase_add_test(tc[0], errors_of_the_moment);
    tcase_add_checked_fixture(tc[1], world_with_redis_probing, world_end);
    tcase_add_test(tc[1], a_daemon_that_may_not_poll);
    return world_run("backend_probe", tc, 2);
}
