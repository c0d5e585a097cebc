/*
 * house.h -- a whole house on one thread for a test: real engine, commands and core, clients over socket pairs, and a
 * Redis that answers when the test wants it. The file that includes it *is* the backend.
 */
#ifndef RLOCKD_TESTS_HOUSE_H
#define RLOCKD_TESTS_HOUSE_H

#include <check.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/serve/engine.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/session.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"

#define PATIENCE_US (5 * US_PER_S) /* for events that must come; a test waits as long only if it fails */

/* ---- a Redis that is always reached, and answers on demand: this file is the backend ---- */

#ifndef OPS_MAX
#define OPS_MAX 4096
#endif

struct fake_redis {
    struct backend head;
    struct backend_env env;
    struct core_op op[OPS_MAX]; /* their slices are dangling */
    enum core_action_type verb[OPS_MAX];
    unsigned first, n;          /* asked for and not answered */
    unsigned acquires, releases;
    enum core_outcome extends;  /* the outcome of renewals ... */
    enum core_outcome ends;     /* ... and of all other operations */
    struct inspected_key seen; /* what LOCKINFO receives; ok is false at first */
    uint64_t token;
    uint64_t reclaimed;         /* the epoch */
    int64_t stop_us;            /* how long the process stands still, once, between input and output of a turn */
    int64_t release_us;         /* ... and at each release: also while late replies are rewritten */
};

static struct fake_redis *redis; /* that of the running test */

static void
fake_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    (void)b;
    ck_assert_uint_lt(redis->n, OPS_MAX);
    if (verb == CORE_WATCH || verb == CORE_UNWATCH) {
        return;
    }
    redis->op[redis->n] = *op;
    redis->verb[redis->n++] = verb;
    redis->acquires += verb == CORE_ACQUIRE;
    redis->releases += verb == CORE_RELEASE;
#ifdef RLOCKD_TEST_CLOCK
    clock_advance_us(verb == CORE_RELEASE ? redis->release_us : 0);
#endif
}

static void
fake_inspect(struct backend *b, uint64_t id, struct slice key)
{
    (void)b;
    (void)key;
    redis->env.inspected(redis->env.ctx, id, &redis->seen);
}

/* There are no other daemons: only this one would receive the broadcast, and would ignore it. */
static void
fake_broadcast(struct backend *b, struct slice what)
{
    (void)b;
    (void)what;
}

/* There are no remote waiters either; a poll gets no answer. */
static void
fake_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    (void)b;
    (void)p;
}

static void
fake_configure(struct backend *b, int64_t longest_lease_us)
{
    (void)b;
    (void)longest_lease_us;
}

static void
fake_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch)
{
    (void)b;
    (void)domain;
    redis->reclaimed = epoch;
}

static void
fake_leave(struct backend *b)
{
    (void)b;
}

static void
fake_flush(struct backend *b)
{
    (void)b;
#ifdef RLOCKD_TEST_CLOCK
    clock_advance_us(redis->stop_us);
#endif
    redis->stop_us = 0;
}

static bool
fake_idle(const struct backend *b)
{
    (void)b;
    return redis->first == redis->n;
}

static void
fake_status(const struct backend *b, struct backend_status *out)
{
    (void)b;
    memset(out, 0, sizeof(*out));
    out->up = true;
}

static size_t
fake_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX])
{
    (void)b;
    (void)out;
    return 0;
}

static void
fake_close(struct backend *b)
{
    (void)b;
    free(redis);
    redis = NULL;
}

static const struct backend_ops fake_ops = {
    .perform = fake_perform,
    .inspect = fake_inspect,
    .broadcast = fake_broadcast,
    .waiter_poll = fake_waiter_poll,
    .configure = fake_configure,
    .reclaimed = fake_reclaimed,
    .leave = fake_leave,
    .flush = fake_flush,
    .idle = fake_idle,
    .status = fake_status,
    .nodes = fake_nodes,
    .close = fake_close,
};

struct backend *
backend_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    (void)conf;
    (void)error;
    redis = calloc(1, sizeof(*redis));
    ck_assert_ptr_nonnull(redis);
    redis->head.ops = &fake_ops;
    redis->env = *env;
    redis->token = 100;
    return &redis->head;
}

/* Redis answers all open operations: granted, renewed, freed, unless the test has set other outcomes. */
static inline bool
answer_all(void)
{
    bool any = false;

    while (redis->first < redis->n) {
        const struct core_op *op = &redis->op[redis->first];
        enum core_action_type verb = redis->verb[redis->first++];
        int64_t now_us = clock_now_us();
        struct core_event ev = {.type = CORE_DONE};

        ev.done = (struct core_done){
            .claim = verb == CORE_BREAK_KEY ? op->queue : op->claim,
            .op = op->op,
            .outcome = verb == CORE_EXTEND ? redis->extends : redis->ends,
            .sent_us = now_us,
            .guard_us = now_us,
            .pttl_us = -1,
            .token = verb == CORE_ACQUIRE ? ++redis->token : 0,
            .expiry_ms = verb == CORE_BREAK_KEY ? 1 : (now_us + op->lease_us) / 1000,
        };
        redis->env.post(redis->env.ctx, &ev);
        any = true;
    }
    return any;
}

/* ---- the house ---- */

static struct event_base *base;
static struct conf *conf;
static struct log quiet;
static struct engine *engine;

static inline void
build(void)
{
    char error[160] = "";
    struct buf errors;

    buf_init(&errors, 0);
    conf = conf_load(NULL, NULL, &errors);
    ck_assert_msg(conf != NULL, "%.*s", (int)errors.n, errors.p);
    buf_fini(&errors);
    base = event_base_new();
    log_init(&quiet);
    quiet.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    quiet.level = LOG_DEBUG;
#ifdef RLOCKD_TEST_CLOCK
    clock_stop(false); /* an earlier test may have stopped it */
#endif
    engine = engine_new(base, conf, &quiet, error);
    ck_assert_msg(engine != NULL, "%s", error);
}

static inline void
take_down(void)
{
    engine_free(&engine);
    event_base_free(base);
    conf_free(&conf);
    close(quiet.fd);
}

/* One turn, and all that follow from it without Redis. */
static inline void
turn(void)
{
    int i;

    for (i = 0; i < 10000; i++) {
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        if (!engine_turn(engine) && i >= 2) {
            return;
        }
    }
    ck_abort_msg("the loop spins");
}

/* One turn, and no more. */
static inline bool
one_turn(void)
{
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    return engine_turn(engine);
}

/* Turns until nothing is left to do, Redis included. */
static inline void
settle(void)
{
    do {
        turn();
    } while (answer_all());
    turn();
}

/* Under valgrind or a sanitizer, where little fits into the millisecond of a turn; scripts/check* set the variable. */
static inline bool
is_slowed(void)
{
    return getenv("RLOCKD_SEEDS") != NULL;
}

/* Turns take no time, however slow the machine is. */
static inline void
stop_the_clock(void)
{
#ifdef RLOCKD_TEST_CLOCK
    clock_stop(true);
#endif
}

static inline void
start_the_clock(void)
{
#ifdef RLOCKD_TEST_CLOCK
    clock_stop(false);
#endif
}

/* ---- clients ---- */

struct client {
    int fd;
    struct session *s;
    uint64_t id;
};

static inline struct client
come(void)
{
    struct client c;
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    c.fd = fd[0];
    c.s = session_open(engine, fd[1], true, "unix:test");
    c.id = c.s != NULL ? c.s->id : 0;
    return c;
}

static inline void
sends(const struct client *c, const char *text)
{
    ck_assert_int_eq(send(c->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static inline void
sends_times(const struct client *c, const char *text, int times)
{
    struct buf b;

    buf_init(&b, 0);
    while (times-- > 0) {
        buf_adds(&b, text);
    }
    ck_assert_int_eq(send(c->fd, b.p, b.n, MSG_NOSIGNAL), (ssize_t)b.n);
    buf_fini(&b);
}

/* What the client can read now: bytes, and "<end>" when the connection is closed. */
static inline void
receives(const struct client *c, struct buf *b)
{
    char piece[4096];
    ssize_t n;

    while ((n = recv(c->fd, piece, sizeof(piece), 0)) > 0) {
        buf_add(b, piece, (size_t)n);
    }
    if (n == 0) {
        buf_adds(b, "<end>");
    }
    buf_add(b, "", 1);
}

/* The number of events of grants to owner `o` that the client can read; their tokens go on from *token. */
static inline unsigned
receive_events(const struct client *c, uint64_t *token)
{
    struct buf b;
    char *at, want[64];
    unsigned n = 0;

    buf_init(&b, 0);
    receives(c, &b);
    for (at = b.p; (at = strstr(at, "granted ")) != NULL; at++, n++) {
        snprintf(want, sizeof(want), "granted %llu o\r\n", (unsigned long long)++*token);
        ck_assert_msg(strncmp(at, want, strlen(want)) == 0, "got %.30s, want %s", at, want);
    }
    buf_fini(&b);
    return n;
}

static inline void
expect_at(int line, const struct client *c, const char *want)
{
    struct buf b;

    buf_init(&b, 0);
    receives(c, &b);
    ck_assert_msg(strcmp(b.p, want) == 0, "line %d: got \"%s\", want \"%s\"", line, b.p, want);
    buf_fini(&b);
}
#define expect(c, want) expect_at(__LINE__, c, want)

static inline void
leave(struct client *c)
{
    close(c->fd);
    settle();
    ck_assert_ptr_null(session_find(engine, c->id));
}

/* Lets real time pass, but only until `done`. */
static inline bool
wait_for(bool (*done)(void))
{
    int64_t end_us = clock_now_us() + PATIENCE_US;

    while (!done()) {
        if (clock_now_us() > end_us) {
            return false;
        }
        event_base_loop(base, EVLOOP_ONCE);
        (void)engine_turn(engine);
        (void)answer_all();
        settle();
    }
    return true;
}

/* ---- running it ---- */

static inline TCase *
house_tcase(const TTest *const *tests, size_t n)
{
    TCase *tc = tcase_create("house");
    size_t i;

    tcase_add_checked_fixture(tc, build, take_down);
    tcase_set_timeout(tc, 60);
    for (i = 0; i < n; i++) {
        tcase_add_test(tc, tests[i]);
    }
    return tc;
}

static inline int
house_run(const char *name, TCase *tc)
{
    Suite *suite = suite_create(name);
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

#endif
