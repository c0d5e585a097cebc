/*
 * redis_world.h -- a private redis-server, the real backend on it, and a stand-in for the engine that keeps what is
 * posted; for the tests of daemon/backend.
 *
 * Redis has a directory of its own with a Unix socket, and dies with the test. A test waits by turning the loop, up to
 * a deadline. The backend must post nothing inside a backend_ call: all calls are made here, and checked.
 */
#ifndef RLOCKD_TESTS_REDIS_WORLD_H
#define RLOCKD_TESTS_REDIS_WORLD_H

#include <check.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/backend/backend.h"
#include "daemon/base/clock.h"

#define UUID "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64"
#define LEASE_US (30 * US_PER_S)
#define EVENTS_MAX 4096

static struct {
    char dir[64], sock[96], url[128];
    pid_t redis;            /* 0 = not running */
    redisContext *cli;      /* a connection of the test's own */
    struct event_base *base;
    struct event *patience; /* ends a wait that fails */
    struct log log;
    struct metrics metrics;
    struct backend_conf conf;
    struct backend *b;
    int slow;               /* RLOCKD_SLOW: deadlines times this */
    bool inside;            /* a backend_ call is running */
    bool tired;             /* patience is over */
    bool up, others;
    unsigned ups, downs;    /* how often env.state reported it */
    uint64_t reclaim;       /* an epoch in which all holds have to be reclaimed; 0 = done */
    bool keeps_quiet;       /* the end of the reclaims is not reported */
    struct core_event event[EVENTS_MAX];
    size_t events_n;
    void (*polled)(const struct core_event *ev); /* a WAITERS_POLLED was posted */
    unsigned received_n;       /* CORE_RECEIVED events posted */
    char received[20000];      /* the text of the last one, with a NUL behind */
    size_t received_bytes;
    struct inspected_key seen;
    uint64_t seen_id;
    unsigned seen_n;
    uint64_t serial;        /* of operations */
    int null;               /* where the log goes */
} w;

/* ---- what the backend posts ---- */

/* The text is borrowed for the call: it is copied, beside the events. */
static inline void
keep_received(struct slice received)
{
    ck_assert_uint_lt(received.n, sizeof(w.received));
    memcpy(w.received, received.p, received.n);
    w.received[received.n] = '\0';
    w.received_bytes = received.n;
    w.received_n++;
}

static inline void
on_post(void *ctx, const struct core_event *ev)
{
    (void)ctx;
    ck_assert(!w.inside);
    if (ev->type == CORE_RECEIVED) {
        keep_received(ev->received);
        return;
    }
    if (ev->type == CORE_WAITERS_POLLED) {
        w.polled(ev);
        return;
    }
    w.reclaim = ev->type == CORE_RECLAIM ? ev->epoch : w.reclaim;
    ck_assert_uint_lt(w.events_n, EVENTS_MAX);
    w.event[w.events_n++] = *ev;
}

static inline void
on_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    (void)ctx;
    ck_assert(!w.inside);
    w.seen = *found;
    w.seen_id = id;
    w.seen_n++;
}

static inline void
on_others_changed(void *ctx, bool others)
{
    (void)ctx;
    w.others = others;
}

static inline void
on_state(void *ctx, bool up)
{
    (void)ctx;
    ck_assert(!w.inside);
    ck_assert(up != w.up);
    w.up = up;
    w.ups += up;
    w.downs += !up;
}

static inline void
on_patience(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    w.tired = true;
}

/* ---- the loop ---- */

/* The end of a turn. The test itself holds nothing, so it reports at once that all holds are reclaimed. */
static inline void
flush(void)
{
    w.inside = true;
    if (w.reclaim != 0 && !w.keeps_quiet) {
        backend_reclaimed(w.b, 0, w.reclaim);
        w.reclaim = 0;
    }
    backend_flush(w.b);
    w.inside = false;
}

/* Turns the loop until the condition holds; false when it does not within `us`. */
static inline bool
turn_for(bool (*done)(const void *arg), const void *arg, int64_t us)
{
    struct timeval tv = {.tv_sec = (time_t)(us * w.slow / US_PER_S), .tv_usec = (suseconds_t)(us * w.slow % US_PER_S)};

    w.tired = false;
    event_add(w.patience, &tv);
    while (!done(arg) && !w.tired) {
        event_base_loop(w.base, EVLOOP_ONCE);
        if (w.b != NULL) {
            flush();
        }
    }
    event_del(w.patience);
    return done(arg);
}

#define turn_until(done, arg) ck_assert_msg(turn_for(done, arg, 10 * US_PER_S), "waited in vain: %s", #done)

static inline bool
is_up(const void *arg)
{
    (void)arg;
    return w.up;
}

static inline bool
is_down(const void *arg)
{
    (void)arg;
    return !w.up;
}

static inline bool
is_all_up(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.up && st.links_up == st.links;
}

/* The clock has passed *arg. */
static inline bool
is_past(const void *arg)
{
    return clock_now_us() >= *(const int64_t *)arg;
}

/* Lets time pass until at_us, with a loop that turns and needs no event to end. */
static inline void
turn_until_us(int64_t at_us)
{
    while (clock_now_us() < at_us) {
        (void)turn_for(is_past, &at_us, (at_us - clock_now_us() + US_PER_MS) / w.slow);
    }
}

/* ---- Redis ---- */

/* Starts redis-server with more arguments (NULL ends them); returns when its log reports that it is ready. */
static inline void
redis_start(const char *const *more)
{
    const char *argv[32] = {"redis-server", "--port", "0",  "--unixsocket", w.sock, "--save", "",
                            "--appendonly", "no",     "--dir", w.dir};
    pid_t parent = getpid();
    char line[512];
    bool ready = false;
    FILE *out;
    int fds[2];

    for (int n = 11; more != NULL && *more != NULL; n++) {
        ck_assert_int_lt(n, 31);
        argv[n] = *more++;
    }
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    w.redis = fork();
    if (w.redis == 0) {
        dup2(fds[1], 1);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(1);
        }
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(fds[1]);
    out = fdopen(fds[0], "r");
    while (!ready && fgets(line, sizeof(line), out) != NULL) {
        ready = strstr(line, "ready to accept connections") != NULL;
    }
    ck_assert_msg(ready, "redis-server did not start: %s", line);
    fclose(out); /* Redis logs very little from here on, and ignores SIGPIPE */
}

static inline void
redis_kill(void)
{
    kill(w.redis, SIGKILL);
    ck_assert_int_eq(waitpid(w.redis, NULL, 0), w.redis);
    w.redis = 0;
    redisFree(w.cli);
    w.cli = NULL;
}

static inline void
redis_connect(void)
{
    w.cli = redisConnectUnix(w.sock);
    ck_assert_ptr_nonnull(w.cli);
    ck_assert_msg(w.cli->err == 0, "%s", w.cli->errstr);
}

/* Stops the process of Redis; returns when the kernel reports that it has stopped. */
static inline void
redis_stop(void)
{
    int status;

    kill(w.redis, SIGSTOP);
    ck_assert_int_eq(waitpid(w.redis, &status, WUNTRACED), w.redis);
    ck_assert(WIFSTOPPED(status));
}

static inline void
redis_cont(void)
{
    kill(w.redis, SIGCONT);
}

/*
 * Sends one command on the test's own connection, %s and %b as in hiredis; returns the reply as text (the elements of
 * an array, each with a blank behind it).
 */
static inline const char *
redis(const char *fmt, ...)
{
    static char text[8192];
    redisReply *r;
    va_list args;
    size_t n = 0;

    va_start(args, fmt);
    r = redisvCommand(w.cli, fmt, args);
    va_end(args);
    ck_assert_msg(r != NULL, "%s: %s", fmt, w.cli->errstr);
    text[0] = '\0';
    if (r->type == REDIS_REPLY_INTEGER) {
        snprintf(text, sizeof(text), "%lld", r->integer);
    } else if (r->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < r->elements && n < sizeof(text); i++) {
            if (r->element[i]->type == REDIS_REPLY_INTEGER) {
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%lld ", r->element[i]->integer);
            } else {
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", r->element[i]->str);
            }
        }
    } else if (r->type != REDIS_REPLY_NIL) {
        snprintf(text, sizeof(text), "%s", r->str);
    }
    freeReplyObject(r);
    return text;
}

static inline int64_t
redis_number(const char *text)
{
    return strtoll(text, NULL, 10);
}

/* Deletes locks and their auxiliary keys; the keys of epoch and membership stay. A FLUSHALL would be a loss of data. */
static inline void
redis_empty(void)
{
    redis("EVAL %s 0", "for _, key in ipairs(redis.call('KEYS', '*')) do"
                       "  local own = ' rlock:epoch rlock:members rlock:until rlock:changes rlock:left '"
                       "  if not own:find(' ' .. key .. ' ', 1, true) then redis.call('DEL', key) end "
                       "end");
}

/* The number of keys, without those and without the keys that a BREAK leaves. */
static inline int64_t
redis_keys(void)
{
    int64_t ended = redis_number(redis("EVAL %s 0", "return #redis.call('KEYS', 'rlock:ended:*')"));

    return redis_number(redis("DBSIZE")) - ended -
           redis_number(redis("EXISTS rlock:epoch rlock:members rlock:until rlock:changes rlock:left"));
}

/* How often a command has run, by INFO commandstats. */
static inline int64_t
redis_calls(const char *command)
{
    char want[64];
    const char *at;

    snprintf(want, sizeof(want), "cmdstat_%s:calls=", command);
    at = strstr(redis("INFO commandstats"), want);
    return at == NULL ? 0 : redis_number(at + strlen(want));
}

/* The number of registrations so far, by a command that no script of a lock runs. */
static inline int64_t
redis_beats(void)
{
    return redis_calls("zrangebyscore");
}

/* ---- the backend ---- */

/* A backend on w.conf with callbacks of its own; the caller closes it. */
static inline struct backend *
open_another(void (*post)(void *ctx, const struct core_event *ev), void (*state)(void *ctx, bool up))
{
    struct backend_env env = {.base = w.base,
                              .log = &w.log,
                              .metrics = &w.metrics,
                              .uuid = UUID,
                              .nonce = 1,
                              .secret = {0x0123456789abcdef, 0xfedcba9876543210},
                              .post = post,
                              .inspected = on_inspected,
                              .others_changed = on_others_changed,
                              .state = state};
    char error[160];
    struct backend *b = backend_open(&w.conf, &env, error);

    ck_assert_msg(b != NULL, "%s", error);
    return b;
}

static inline void
open_backend(void)
{
    w.b = open_another(on_post, on_state);
}

/* All links are up, that of subscriptions included, and their greetings are answered. */
static inline bool
is_settled(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.links_up == st.links && st.in_flight == 0;
}

static inline void
open_up(void)
{
    open_backend();
    turn_until(is_up, NULL);
    turn_until(is_all_up, NULL);
    turn_until(is_settled, NULL);
}

static inline struct core_op
op_on(const char *key, enum kind kind, uint64_t owner)
{
    return (struct core_op){.op = ++w.serial,
                            .queue = 7000 + w.serial,
                            .claim = 1000 + owner,
                            .key = slice_of(key),
                            .kind = kind,
                            .value = VALUE_UUID,
                            .owner = owner,
                            .holds = 1,
                            .limit = 1,
                            .declared = true,
                            .lease_us = LEASE_US};
}

/* In another epoch than *arg, and its grace period is over. */
static inline bool
is_granting_anew(const void *arg)
{
    struct backend_status st;

    backend_status(w.b, &st);
    return st.epoch != 0 && st.epoch != *(const uint64_t *)arg && !st.grace;
}

static inline uint64_t
epoch_now(void)
{
    struct backend_status st;

    backend_status(w.b, &st);
    return st.epoch;
}

/*
 * Hands an operation to the backend and spoils the key at once, since the backend must have copied it. Returns its
 * serial.
 */
static inline uint64_t
perform(const struct core_op *op, enum core_action_type verb)
{
    struct core_op given = *op;
    char key[600];

    memcpy(key, op->key.p, op->key.n);
    given.key.p = key;
    w.inside = true;
    backend_perform(w.b, &given, verb);
    w.inside = false;
    memset(key, '#', sizeof(key));
    return op->op;
}

static inline const struct core_done *
done_of(uint64_t op)
{
    const struct core_done *found = NULL;

    for (size_t i = 0; i < w.events_n; i++) {
        if (w.event[i].type == CORE_DONE && w.event[i].done.op == op) {
            ck_assert_msg(found == NULL, "two DONEs for one operation");
            found = &w.event[i].done;
        }
    }
    return found;
}

static inline bool
is_done(const void *op)
{
    return done_of(*(const uint64_t *)op) != NULL;
}

static inline struct core_done
await(uint64_t op)
{
    turn_until(is_done, &op);
    return *done_of(op);
}

/* One operation, alone in its turn, to its end. */
static inline struct core_done
run(const struct core_op *op, enum core_action_type verb)
{
    struct core_done done;
    uint64_t serial = perform(op, verb);

    flush();
    done = await(serial);
    ck_assert_uint_eq(done.claim, op->claim);
    return done;
}

/* The usual operations, by key and owner. */
static inline struct core_done
acquire(const char *key, enum kind kind, uint64_t owner)
{
    struct core_op op = op_on(key, kind, owner);

    return run(&op, CORE_ACQUIRE);
}

static inline struct core_done
release(const char *key, enum kind kind, uint64_t owner, int64_t expiry_ms)
{
    struct core_op op = op_on(key, kind, owner);

    op.holds = 0;
    op.expiry_ms = expiry_ms;
    return run(&op, CORE_RELEASE);
}

static inline struct core_done
extend(const char *key, enum kind kind, uint64_t owner, int64_t expiry_ms, int64_t lease_us, bool exact)
{
    struct core_op op = op_on(key, kind, owner);

    op.expiry_ms = expiry_ms;
    op.lease_us = lease_us;
    op.exact = exact;
    return run(&op, CORE_EXTEND);
}

#define must(done, wanted) ck_assert_int_eq((done).outcome, (wanted))

static inline size_t
count_events(enum core_event_type type, uint64_t lock)
{
    size_t n = 0;

    for (size_t i = 0; i < w.events_n; i++) {
        n += w.event[i].type == type && w.event[i].queue == lock;
    }
    return n;
}

/* ---- begin and end ---- */

/* Everything but Redis and the backend. */
static inline void
world_begin(void)
{
    const char *slow = getenv("RLOCKD_SLOW");

    memset(&w, 0, sizeof(w));
    signal(SIGPIPE, SIG_IGN);
    w.slow = slow != NULL && atoi(slow) > 0 ? atoi(slow) : 1;
    snprintf(w.dir, sizeof(w.dir), "/tmp/rlockd-test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w.dir));
    snprintf(w.sock, sizeof(w.sock), "%s/redis.sock", w.dir);
    snprintf(w.url, sizeof(w.url), "unix:%s", w.sock);
    w.base = event_base_new();
    w.patience = event_new(w.base, -1, 0, on_patience, NULL);
    w.null = open(getenv("RLOCKD_TEST_LOG") != NULL ? "/dev/stderr" : "/dev/null", O_WRONLY | O_CLOEXEC);
    w.log = (struct log){.level = LOG_DEBUG, .fd = w.null};
    w.conf = (struct backend_conf){.url = w.url,
                                   .timeout_us = 5 * US_PER_S,
                                   .connect_us = 5 * US_PER_S,
                                   .backoff_min_us = 10 * US_PER_MS,
                                   .backoff_max_us = 50 * US_PER_MS,
                                   .longest_lease_us = LEASE_US,
                                   .links = 1,
                                   .batch_max = 64};
}

static inline void
world_with_redis(void)
{
    world_begin();
    redis_start(NULL);
    redis_connect();
}

static inline void
world_up(void)
{
    world_with_redis();
    open_up();
}

static inline void
world_end(void)
{
    char log[128];

    backend_close(&w.b);
    event_free(w.patience);
    event_base_free(w.base);
    if (w.redis != 0) {
        redis_kill();
    }
    unlink(w.sock);
    snprintf(log, sizeof(log), "%s/redis.log", w.dir);
    unlink(log);
    ck_assert_int_eq(rmdir(w.dir), 0);
    close(w.null);
}

static inline int
world_run(const char *name, TCase *const *cases, size_t n)
{
    Suite *s = suite_create(name);
    SRunner *sr;
    int failed;

    for (size_t i = 0; i < n; i++) {
        tcase_set_timeout(cases[i], 60 * (getenv("RLOCKD_SLOW") != NULL ? atoi(getenv("RLOCKD_SLOW")) : 1));
        suite_add_tcase(s, cases[i]);
    }
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
