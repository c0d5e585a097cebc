/*
 * test_backend_loss.c -- a Redis that does not answer, answers late, answers nonsense, dies, or refuses the login.
 *
 * Between the backend and Redis stands a proxy in the same loop, which can keep replies back, swallow them, make some
 * up, and cut connections.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "daemon/base/buf.h"
#include "redis_world.h"

#define TIMEOUT_US (400 * US_PER_MS * w.slow)

/* ---- the proxy ---- */

#define PAIRS_MAX 256

struct pair {
    struct bufferevent *client, *server; /* NULL: cut */
    bool attempted;                      /* a script of a lock was sent there */
    bool held;                           /* its replies are kept back, whatever `px.replies` is */
};

static struct {
    struct evconnlistener *listener;
    char sock[96];
    int port;
    enum { PASS, HOLD, SWALLOW, REFUSE } replies;
    struct pair pair[PAIRS_MAX];
    size_t pairs_n;      /* accepted in all */
    const char *made_up; /* sent instead of the first reply to a lock's script that would be swallowed; NULL = none */
    size_t made_up_n;
    struct bufferevent *asked; /* the connection that got it */
} px;

static void
cut(struct pair *p)
{
    if (p->client != NULL) {
        bufferevent_free(p->client);
        bufferevent_free(p->server);
        *p = (struct pair){0};
    }
}

static void
on_proxy_end(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) {
        cut(arg);
    }
}

static void
on_request(struct bufferevent *bev, void *arg)
{
    struct pair *p = arg;
    struct evbuffer *in = bufferevent_get_input(bev);

    p->attempted = p->attempted || evbuffer_search(in, "EVALSHA", 7, NULL).pos >= 0;
    bufferevent_write_buffer(p->server, in);
}

static void
on_reply(struct bufferevent *bev, void *arg)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    struct pair *p = arg;

    if (p->held) {
        return;
    }
    if (px.replies == PASS) {
        bufferevent_write_buffer(p->client, in);
    } else if (px.replies == SWALLOW) {
        evbuffer_drain(in, evbuffer_get_length(in));
        if (px.made_up != NULL && p->attempted) {
            px.asked = p->client;
            bufferevent_write(p->client, px.made_up, px.made_up_n);
            px.made_up = NULL;
        }
    }
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int n, void *arg)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct pair *p;

    (void)l;
    (void)addr;
    (void)n;
    (void)arg;
    ck_assert_uint_lt(px.pairs_n, PAIRS_MAX);
    p = &px.pair[px.pairs_n++];
    if (px.replies == REFUSE) {
        close(fd);
        return;
    }
    p->client = bufferevent_socket_new(w.base, fd, BEV_OPT_CLOSE_ON_FREE);
    p->server = bufferevent_socket_new(w.base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(p->client, on_request, NULL, on_proxy_end, p);
    bufferevent_setcb(p->server, on_reply, NULL, on_proxy_end, p);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%.90s", w.sock);
    bufferevent_enable(p->client, EV_READ | EV_WRITE);
    bufferevent_enable(p->server, EV_READ | EV_WRITE);
    bufferevent_socket_connect(p->server, (struct sockaddr *)&sun, sizeof(sun));
}

/* From now on; replies that were kept back are sent when they may pass. */
static void
replies(int how)
{
    px.replies = how;
    for (size_t i = 0; i < px.pairs_n; i++) {
        if (px.pair[i].server != NULL) {
            on_reply(px.pair[i].server, &px.pair[i]);
        }
    }
}

static void
cut_all(void)
{
    for (size_t i = 0; i < px.pairs_n; i++) {
        cut(&px.pair[i]);
    }
}

static void
proxy_begin(bool tcp)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(sin);

    memset(&px, 0, sizeof(px));
    snprintf(px.sock, sizeof(px.sock), "%s/proxy.sock", w.dir);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%.90s", px.sock);
    px.listener = evconnlistener_new_bind(w.base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, -1,
                                          tcp ? (struct sockaddr *)&sin : (struct sockaddr *)&sun,
                                          tcp ? (int)sizeof(sin) : (int)sizeof(sun));
    ck_assert_ptr_nonnull(px.listener);
    if (tcp) {
        ck_assert_int_eq(getsockname(evconnlistener_get_fd(px.listener), (struct sockaddr *)&sin, &n), 0);
        px.port = ntohs(sin.sin_port);
    }
    if (tcp) {
        snprintf(w.url, sizeof(w.url), "redis://127.0.0.1:%d", px.port);
    } else {
        snprintf(w.url, sizeof(w.url), "unix:%s", px.sock);
    }
}

static void
nowhere(void)
{
    world_begin();
    memset(&px, 0, sizeof(px));
}

static void
proxied(void)
{
    world_with_redis();
    proxy_begin(false);
    w.conf.timeout_us = TIMEOUT_US;
    open_up();
}

static void
all_end(void)
{
    cut_all();
    if (px.listener != NULL) {
        evconnlistener_free(px.listener);
        unlink(px.sock);
    }
    world_end();
}

/* ---- small helpers ---- */

static bool
exists(const void *key)
{
    return redis_number(redis("EXISTS %s", (const char *)key)) == 1;
}

/* Turns, until the test's own connection finds the key. */
static void
turn_until_exists(const char *key)
{
    for (int n = 0; !exists(key); n++) {
        ck_assert_int_lt(n, 100000);
        event_base_loop(w.base, EVLOOP_NONBLOCK);
        flush();
    }
}

static uint64_t
send_op(const struct core_op *op, enum core_action_type verb)
{
    uint64_t serial = perform(op, verb);

    flush();
    return serial;
}

/* ---- Redis is away from the start, and later ---- */

START_TEST(down_is_reported_in_a_later_turn)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    static const enum core_action_type verbs[] = {CORE_ACQUIRE, CORE_EXTEND, CORE_RELEASE, CORE_BREAK_KEY};

    open_backend();
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        op.op = ++w.serial;
        perform(&op, verbs[i]);
        ck_assert(!backend_idle(w.b));
        ck_assert_ptr_null(done_of(op.op));
        must(await(op.op), CORE_DOWN);
        ck_assert(backend_idle(w.b));
    }
    w.inside = true;
    backend_inspect(w.b, 9, SLICE_LIT("k"));
    w.inside = false;
    while (w.seen_n == 0) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    ck_assert(!w.seen.ok);
    ck_assert_uint_eq(w.seen_id, 9);
    ck_assert_uint_eq(w.ups + w.downs, 0);
}
END_TEST

START_TEST(comes_up_when_redis_does)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    struct backend_status st;

    open_backend();
    perform(&op, CORE_WATCH);
    must(acquire("k", KIND_REENTRANT, 1), CORE_DOWN);
    (void)turn_for(is_up, NULL, 100 * US_PER_MS);
    backend_status(w.b, &st);
    ck_assert(!st.up);
    ck_assert_str_ne(st.last_error, "");
    redis_start(NULL);
    redis_connect();
    turn_until(is_all_up, NULL);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    while (count_events(CORE_SUBSCRIBED, op.queue) == 0) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    backend_status(w.b, &st);
    ck_assert_str_eq(st.last_error, "");
    ck_assert_uint_eq(w.ups, 1);
}
END_TEST

START_TEST(a_killed_redis_comes_back)
{
    struct core_done d, before;
    char run_id[48];
    struct backend_status st;
    uint64_t epoch;

    redis_start(NULL);
    redis_connect();
    open_up();
    backend_status(w.b, &st);
    memcpy(run_id, st.run_id, sizeof(run_id));
    before = acquire("k", KIND_REENTRANT, 1);
    epoch = epoch_now();
    redis_kill();
    d = acquire("k", KIND_REENTRANT, 1);
    ck_assert(d.outcome == CORE_UNKNOWN || d.outcome == CORE_DOWN);
    turn_until(is_down, NULL);
    must(acquire("k", KIND_REENTRANT, 1), CORE_DOWN);
    redis_start(NULL);
    redis_connect();
    turn_until(is_all_up, NULL);
    turn_until(is_granting_anew, &epoch);
    d = acquire("k", KIND_REENTRANT, 1);
    must(d, CORE_OK);
    ck_assert_uint_gt(d.token, before.token); /* although Redis has lost all of them */
    backend_status(w.b, &st);
    ck_assert_str_ne(st.run_id, run_id);
    ck_assert_uint_eq(w.downs, 1);
    ck_assert_uint_eq(w.ups, 2);
}
END_TEST

START_TEST(pauses_between_attempts_grow)
{
    int64_t began_us;

    proxy_begin(false);
    px.replies = REFUSE;
    w.conf.backoff_min_us = 40 * US_PER_MS;
    w.conf.backoff_max_us = 10 * US_PER_S;
    began_us = clock_now_us();
    open_backend();
    while (px.pairs_n < 3 * 4) { /* for each of three links: pauses of at least 20, 40 and 80 ms, less the jitter */
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    ck_assert_int_ge(clock_now_us() - began_us, 100 * US_PER_MS);
}
END_TEST

/* ---- lost replies ---- */

START_TEST(a_lost_reply_is_unknown)
{
    for (int k = 0; k < KINDS; k++) {
        const char *key = kind_rows[k].name;
        struct core_op op = op_on(key, (enum kind)k, 1);
        struct core_done d;
        int64_t now_us;

        replies(SWALLOW);
        send_op(&op, CORE_ACQUIRE);
        turn_until_exists(key); /* the script has run */
        ck_assert_ptr_null(done_of(op.op));
        cut_all();
        d = await(op.op);
        now_us = clock_now_us();
        must(d, CORE_UNKNOWN);
        ck_assert_int_le(d.sent_us, now_us);
        ck_assert_int_gt(d.guard_us, d.sent_us);
        ck_assert_int_lt(d.guard_us, d.sent_us + 2 * TIMEOUT_US);
        replies(PASS);
        turn_until(is_all_up, NULL);
        d = acquire(key, (enum kind)k, 1); /* the same claim finds itself, but not in a counter */
        must(d, k == KIND_COUNTER ? CORE_TAKEN : CORE_OK);
    }
    ck_assert_str_eq(redis("HVALS reentrant"), "1 ");
    ck_assert_str_eq(redis("HVALS rw"), "write 1 ");
    ck_assert_str_eq(redis("GET semaphore"), "0"); /* one permit, taken once */
}
END_TEST

START_TEST(a_late_reply_is_swallowed)
{
    uint64_t lost = w.metrics.redis_disconnects;
    struct core_op op = op_on("late", KIND_REENTRANT, 1);
    struct core_done d;

    replies(HOLD);
    send_op(&op, CORE_ACQUIRE);
    d = await(op.op);
    must(d, CORE_UNKNOWN);
    ck_assert_int_ge(clock_now_us() - d.sent_us, TIMEOUT_US);
    ck_assert_int_ge(d.guard_us, d.sent_us + TIMEOUT_US / 2); /* the clock was read a little earlier for the guard */
    replies(PASS);
    /* If the late reply were taken for the reply to this attempt, the outcome would be OK. */
    redis("SET other x PX 60000");
    must(acquire("other", KIND_SIMPLE, 2), CORE_TAKEN);
    must(acquire("mine", KIND_SIMPLE, 2), CORE_OK);
    ck_assert_uint_eq(w.metrics.redis_disconnects, lost);
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 0);
}
END_TEST

START_TEST(silence_ends_the_link)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    replies(HOLD);
    send_op(&op, CORE_ACQUIRE);
    must(await(op.op), CORE_UNKNOWN);
    turn_until(is_down, NULL);
    ck_assert_int_ge(clock_now_us() - done_of(op.op)->sent_us, 2 * TIMEOUT_US);
    replies(PASS);
    turn_until(is_all_up, NULL);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

START_TEST(each_of_many_operations_is_answered_once)
{
    enum { N = 1500 };
    uint64_t op[N];
    size_t reported = 0;

    replies(HOLD);
    for (int i = 0; i < N; i++) {
        char key[16];
        struct core_op o;

        snprintf(key, sizeof(key), "k%d", i);
        o = op_on(key, (enum kind)(i % KINDS), (uint64_t)i);
        op[i] = perform(&o, i % 5 == 0 ? CORE_RELEASE : i % 7 == 0 ? CORE_EXTEND : CORE_ACQUIRE);
        if (i % 100 == 0) {
            flush();
            event_base_loop(w.base, EVLOOP_NONBLOCK);
        }
        if (i == N / 2) {
            cut_all();
        }
    }
    flush();
    for (int i = 0; i < N; i++) {
        enum core_outcome o = await(op[i]).outcome; /* done_of() proves that there is only one */

        ck_assert(o == CORE_UNKNOWN || o == CORE_DOWN);
    }
    for (size_t i = 0; i < w.events_n; i++) {
        reported += w.event[i].type == CORE_DONE;
    }
    ck_assert_uint_eq(reported, N);
    ck_assert(backend_idle(w.b));
}
END_TEST

START_TEST(killed_connections_come_back)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    struct core_done d;

    ck_assert_int_gt(redis_number(redis("CLIENT KILL TYPE normal SKIPME yes")), 0);
    send_op(&op, CORE_ACQUIRE); /* the loop has not noticed the loss yet */
    d = await(op.op);
    ck_assert(d.outcome == CORE_UNKNOWN || d.outcome == CORE_DOWN);
    turn_until(is_all_up, NULL);
    ck_assert_uint_eq(w.downs, 1);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

static bool
has_lost(const void *n)
{
    return w.metrics.redis_disconnects >= *(const uint64_t *)n;
}

/* An idle connection asks now and then; one that gets no answer is given up. The subscriptions come back, too. */
START_TEST(an_idle_link_notices)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    uint64_t lost = w.metrics.redis_disconnects;

    perform(&op, CORE_WATCH);
    flush();
    while (count_events(CORE_SUBSCRIBED, op.queue) == 0) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    lost += 3; /* each link by itself */
    redis_stop();
    turn_until(has_lost, &lost);
    ck_assert(!w.up);
    redis_cont();
    turn_until(is_all_up, NULL);
    while (count_events(CORE_SUBSCRIBED, op.queue) < 2) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
}
END_TEST

START_TEST(closing_forgets_operations_in_flight)
{
    size_t before = w.events_n;

    for (int i = 0; i < 100; i++) {
        char key[16];
        struct core_op op;

        snprintf(key, sizeof(key), "k%d", i);
        op = op_on(key, (enum kind)(i % KINDS), 1);
        perform(&op, CORE_ACQUIRE);
        perform(&op, CORE_WATCH);
        backend_inspect(w.b, 1, op.key);
        if (i == 50) {
            flush();
        }
    }
    backend_close(&w.b);
    ck_assert_ptr_null(w.b);
    for (int i = 0; i < 10; i++) {
        event_base_loop(w.base, EVLOOP_NONBLOCK);
    }
    ck_assert_uint_eq(w.events_n + w.seen_n, before);
}
END_TEST

/*
 * Redis loses its data behind an attempt, and an answer on another link shows that first: the old answer counts for
 * nothing.
 */
START_TEST(an_answer_from_another_epoch_is_none)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    uint64_t epoch = epoch_now();
    struct pair *p = px.pair;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    while (!p->attempted) {
        p++;
    }
    p->held = true;
    send_op(&op, CORE_ACQUIRE);
    turn_until_exists("k");
    redis("FLUSHALL");
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_GRACE); /* by the link of renewals */
    turn_until(is_granting_anew, &epoch);
    ck_assert_ptr_null(done_of(op.op));
    p->held = false;
    on_reply(p->server, p);
    turn_until(is_done, &op.op);
    must(*done_of(op.op), CORE_UNKNOWN);
    ck_assert_int_gt(done_of(op.op)->guard_us, 0);
    must(acquire("k", KIND_REENTRANT, 2), CORE_OK);
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

/*
 * A few operations gather behind a call in flight, because one call for all of them is cheaper; when there are many,
 * they leave at once.
 */
START_TEST(few_gather_and_many_leave)
{
    struct core_op op[17];
    struct backend_status st;
    char key[17][8];

    replies(HOLD);
    for (int i = 0; i < 17; i++) {
        snprintf(key[i], sizeof(key[i]), "g%d", i);
        op[i] = op_on(key[i], KIND_REENTRANT, (uint64_t)i + 1);
        send_op(&op[i], CORE_ACQUIRE);
        backend_status(w.b, &st);
        ck_assert_uint_eq(st.queued, i == 0 || i == 16 ? 0 : (size_t)i);
    }
    turn_until_exists("g16");
    replies(PASS);
}
END_TEST

/* An operation that has not left has not run: it is answered DOWN and does not wait for a reconnect. */
START_TEST(a_batch_is_down_with_its_link)
{
    struct core_op op[4] = {op_on("k", KIND_REENTRANT, 1), op_on("l", KIND_REENTRANT, 2), op_on("m", KIND_SIMPLE, 3),
                            op_on("n", KIND_SIMPLE, 4)};

    replies(HOLD);
    send_op(&op[0], CORE_ACQUIRE);
    send_op(&op[1], CORE_ACQUIRE);
    send_op(&op[2], CORE_RELEASE);
    send_op(&op[3], CORE_BREAK_KEY);
    turn_until_exists("k");
    cut_all();
    turn_until(is_down, NULL);
    must(await(op[0].op), CORE_UNKNOWN);
    for (int i = 1; i < 4; i++) {
        must(await(op[i].op), CORE_DOWN);
    }
    ck_assert(backend_idle(w.b));
    ck_assert(!exists("l"));
    replies(PASS);
    turn_until(is_all_up, NULL);
    must(acquire("l", KIND_REENTRANT, 2), CORE_OK);
}
END_TEST

/* A call that is given up does not delay the operations behind it. */
START_TEST(a_batch_leaves_when_a_call_is_given_up)
{
    struct core_op op[2] = {op_on("k", KIND_REENTRANT, 1), op_on("l", KIND_REENTRANT, 2)};

    replies(HOLD);
    send_op(&op[0], CORE_ACQUIRE);
    send_op(&op[1], CORE_ACQUIRE);
    must(await(op[0].op), CORE_UNKNOWN);
    turn_until_exists("l");
    must(await(op[1].op), CORE_UNKNOWN);
    ck_assert_int_ge(done_of(op[1].op)->sent_us, done_of(op[0].op)->sent_us + TIMEOUT_US);
    ck_assert_int_gt(done_of(op[1].op)->guard_us, done_of(op[1].op)->sent_us + TIMEOUT_US / 2);
    replies(PASS);
}
END_TEST

START_TEST(a_batch_of_another_epoch_is_down)
{
    struct core_op op[2] = {op_on("k", KIND_REENTRANT, 1), op_on("x", KIND_REENTRANT, 1)};
    uint64_t epoch = epoch_now();
    struct pair *p = px.pair;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    while (!p->attempted) {
        p++;
    }
    p->held = true;
    send_op(&op[0], CORE_ACQUIRE);
    turn_until_exists("k");
    op[1].holds = 0;
    send_op(&op[1], CORE_RELEASE);
    redis("FLUSHALL");
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_GRACE);
    turn_until(is_granting_anew, &epoch);
    ck_assert_ptr_null(done_of(op[1].op));
    redis("HSET x " UUID ":1 1");
    p->held = false;
    on_reply(p->server, p);
    must(await(op[0].op), CORE_UNKNOWN);
    must(await(op[1].op), CORE_DOWN);
    ck_assert(exists("x"));
}
END_TEST

/* ---- zombies: a Redis that stood still runs what a closed connection had sent ---- */

static void
direct(void)
{
    nowhere();
    redis_start(NULL);
    redis_connect();
    w.conf.timeout_us = TIMEOUT_US;
    open_up();
}

START_TEST(a_zombie_does_nothing_past_its_guard)
{
    struct core_op op[KINDS + 4];
    struct core_done held, freed, twice;
    int64_t guard_us = 0, runs;

    twice = acquire("twice", KIND_RW, 1);
    must(twice, CORE_OK);
    held = acquire("held", KIND_REENTRANT, 1);
    freed = acquire("freed", KIND_REENTRANT, 1);
    must(held, CORE_OK);
    must(freed, CORE_OK);
    must(acquire("theirs", KIND_REENTRANT, 2), CORE_OK);
    runs = redis_calls("evalsha");
    redis_stop();
    for (int k = 0; k < KINDS; k++) {
        op[k] = op_on(kind_rows[k].name, (enum kind)k, 1);
        send_op(&op[k], CORE_ACQUIRE);
    }
    op[KINDS] = op_on("held", KIND_REENTRANT, 1); /* it shortens the lease */
    op[KINDS].exact = true;
    op[KINDS].lease_us = US_PER_S;
    send_op(&op[KINDS], CORE_EXTEND);
    op[KINDS + 1] = op_on("twice", KIND_RW, 1); /* it gives up writing and goes on reading */
    op[KINDS + 1].holds = 0;
    op[KINDS + 1].other_sort = 1;
    send_op(&op[KINDS + 1], CORE_RELEASE);
    op[KINDS + 2] = op_on("freed", KIND_REENTRANT, 1);
    op[KINDS + 2].holds = 0;
    send_op(&op[KINDS + 2], CORE_RELEASE);
    op[KINDS + 3] = op_on("theirs", KIND_REENTRANT, 1); /* a BREAK; it is not meant for a later holder */
    send_op(&op[KINDS + 3], CORE_BREAK_KEY);
    for (int i = 0; i < KINDS + 4; i++) {
        struct core_done d = await(op[i].op);

        must(d, CORE_UNKNOWN);
        if (i != KINDS + 2) {
            ck_assert_int_ge(d.guard_us, d.sent_us + TIMEOUT_US / 2);
            guard_us = d.guard_us > guard_us ? d.guard_us : guard_us;
        }
    }
    turn_until(is_down, NULL); /* the connections are closed */
    turn_until_us(guard_us);
    redis_cont();
    turn_until(is_all_up, NULL);
    ck_assert_int_ge(redis_calls("evalsha") - runs, KINDS + 4); /* the scripts did run */
    for (int k = 0; k < KINDS; k++) {
        ck_assert_str_eq(redis("EXISTS %s", kind_rows[k].name), "0");
    }
    ck_assert_int_gt(redis_number(redis("PTTL held")), 5000);
    ck_assert_str_eq(redis("HGET twice mode"), "write"); /* a release of some holds has a guard: these may be new */
    ck_assert_str_eq(redis("EXISTS theirs"), "1");
    ck_assert_str_eq(redis("EXISTS freed"), "0"); /* a release of all holds has none: our key is freed, late or not */
}
END_TEST

START_TEST(a_short_pause_is_only_slow)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    redis_stop();
    send_op(&op, CORE_ACQUIRE);
    for (int i = 0; i < 10; i++) {
        event_base_loop(w.base, EVLOOP_NONBLOCK);
    }
    ck_assert_ptr_null(done_of(op.op));
    redis_cont();
    must(await(op.op), CORE_OK);
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/* Our clock stood still, or Redis's was set: the guard is too early by the difference, which the refusal reports. */
START_TEST(a_clock_that_jumped_is_learned_again)
{
    struct backend_status before, after;
    struct core_done d;

    backend_status(w.b, &before);
    clock_advance_us(-10 * US_PER_S);
    d = acquire("k", KIND_REENTRANT, 1);
    must(d, CORE_OK); /* refused once, learned, and sent again */
    backend_status(w.b, &after);
    ck_assert_int_lt(llabs(after.offset_us - before.offset_us - 10 * US_PER_S), US_PER_S);
}
END_TEST

/* By the time of the refusal the release of the claim may have run: a reclaim behind it would keep the name. */
START_TEST(a_reclaim_refused_for_its_guard_is_not_sent_again)
{
    struct core_op again = op_on("k", KIND_REENTRANT, 1), gives = op_on("k", KIND_REENTRANT, 1);

    clock_advance_us(-10 * US_PER_S);
    again.reclaim = true;
    perform(&again, CORE_ACQUIRE);
    gives.holds = 0;
    perform(&gives, CORE_RELEASE);
    flush();
    must(await(gives.op), CORE_GONE_IN_REDIS);
    must(await(again.op), CORE_DOWN);
    ck_assert(!exists("k"));
}
END_TEST
#endif

/* ---- replies of Redis ---- */

/* Error replies, and whether the link is kept. */
static const struct {
    const char *reply;
    enum core_outcome outcome;
    bool dropped;
} errors[] = {
    {"-LOADING Redis is loading the dataset in memory\r\n", CORE_DOWN, false},
    {"-READONLY You can't write against a read only replica. script: 8a, on @user_script:1.\r\n", CORE_DOWN, true},
    {"-BUSY Redis is busy running a script.\r\n", CORE_DOWN, false},
    {"-MASTERDOWN Link with MASTER is down\r\n", CORE_DOWN, false},
    {"-CLUSTERDOWN The cluster is down\r\n", CORE_DOWN, false},
    {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", CORE_DOWN, false},
    {"-NOREPLICAS Not enough good replicas to write.\r\n", CORE_DOWN, false},
    {"-MISCONF Redis is configured to save RDB snapshots\r\n", CORE_DOWN, false},
    {"-MOVED 3999 127.0.0.1:6381\r\n", CORE_DOWN, false},
    {"-ASK 3999 127.0.0.1:6381\r\n", CORE_DOWN, false},
    {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", CORE_DOWN, false},
    {"-NOAUTH Authentication required.\r\n", CORE_DOWN, true},
    {"-NOPERM this user has no permissions to run the 'evalsha' command\r\n", CORE_UNKNOWN, false},
    {"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", CORE_UNKNOWN, false},
    {"-EXECABORT Transaction discarded because of previous errors.\r\n", CORE_UNKNOWN, false},
    {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", CORE_FULL, false},
    {"-ERR something\r\n", CORE_UNKNOWN, false},
    {"-OOMPH\r\n", CORE_UNKNOWN, false},
    {"-\r\n", CORE_UNKNOWN, false},
};

/* An acquire that gets this reply instead of its own. No beat may be in flight, which would get it. */
static struct core_done
acquire_answered(const char *reply, size_t n)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    turn_until(is_settled, NULL);
    replies(SWALLOW);
    px.made_up = reply;
    px.made_up_n = n;
    send_op(&op, CORE_ACQUIRE);
    turn_until(is_done, &op.op);
    replies(PASS);
    return *done_of(op.op);
}

/* So many connections have ended since the backend was opened. */
static bool
have_ended(const void *arg)
{
    return w.metrics.redis_disconnects >= *(const uint64_t *)arg;
}

START_TEST(outcomes_of_errors_of_redis)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        uint64_t ended = w.metrics.redis_disconnects + errors[i].dropped;
        struct core_done d = acquire_answered(errors[i].reply, strlen(errors[i].reply));

        ck_assert_msg(d.outcome == errors[i].outcome, "%s", errors[i].reply);
        turn_until(have_ended, &ended);
        turn_until(is_all_up, NULL);
        redis("DEL k");
        must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
        redis("DEL k");
        ck_assert_uint_eq(w.metrics.redis_disconnects, ended);
    }
    ck_assert_uint_eq(w.downs, 0); /* the other link is up all the time */
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 0);
}
END_TEST

/* Replies that no script gives; a correct one has the time and four numbers for the one name. */
static const char *const nonsense[] = {
    ":1\r\n",
    "+OK\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*1\r\n:1\r\n",
    "*4\r\n:1\r\n:1\r\n:2\r\n:3\r\n",
    "*5\r\n:1\r\n:1\r\n:2\r\n+3\r\n:1\r\n",
    "*5\r\n$1\r\n1\r\n:1\r\n:2\r\n:3\r\n:1\r\n",
    "*5\r\n:1\r\n:0\r\n:2\r\n:3\r\n:1\r\n",
    "*5\r\n:1\r\n:8\r\n:2\r\n:3\r\n:1\r\n",
    "*5\r\n:1\r\n:-1\r\n:2\r\n:3\r\n:1\r\n",
    "*5\r\n:1\r\n:1\r\n:2\r\n*0\r\n:1\r\n",
    "*5\r\n:1\r\n:1\r\n:2\r\n:3\r\n:0\r\n",
    "*5\r\n:1\r\n:1\r\n:2\r\n:3\r\n:2\r\n",
    "*9\r\n:1\r\n:1\r\n:2\r\n:3\r\n:1\r\n:1\r\n:2\r\n:3\r\n:1\r\n",
    "*4097\r\n",
    "*2147483647\r\n",
    "*99999999999999999999\r\n",
    "$99999999999999999999\r\n",
    "$-2\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    ":12x\r\n",
};

START_TEST(nonsense_ends_the_link)
{
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        uint64_t wrong = w.metrics.redis_protocol_errors;
        uint64_t ended = w.metrics.redis_disconnects + 1;
        struct core_done d = acquire_answered(nonsense[i], strlen(nonsense[i]));

        ck_assert_msg(d.outcome == CORE_UNKNOWN, "%s", nonsense[i]);
        ck_assert_int_gt(d.guard_us, 0);
        turn_until(have_ended, &ended);
        turn_until(is_all_up, NULL);
        ck_assert_msg(w.metrics.redis_disconnects == ended, "%s", nonsense[i]);
        ck_assert_msg(w.metrics.redis_protocol_errors == wrong + 1, "%s", nonsense[i]);
    }
    redis("DEL k");
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

START_TEST(a_reply_to_nothing_ends_the_link)
{
    uint64_t ended = 1;

    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    acquire_answered("-ERR so that the link is known\r\n", 32);
    bufferevent_write(px.asked, "+OK\r\n", 5);
    turn_until(have_ended, &ended);
    turn_until(is_all_up, NULL);
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 1);
}
END_TEST

/*
 * Sends a reply that begins with `head` and goes on with `chunk` again and again; returns the number of chunks until
 * the link is given up.
 */
static size_t
flood(char *head, const char *chunk, size_t n)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    size_t sent = 0;

    replies(SWALLOW);
    px.made_up = head;
    px.made_up_n = strlen(head);
    send_op(&op, CORE_ACQUIRE);
    while (px.made_up != NULL) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    while (w.metrics.redis_disconnects == 0 && sent < 32 && px.asked != NULL) {
        bufferevent_write(px.asked, chunk, n);
        sent++;
        while (w.metrics.redis_disconnects == 0 && evbuffer_get_length(bufferevent_get_output(px.asked)) > 0) {
            event_base_loop(w.base, EVLOOP_ONCE);
        }
    }
    ck_assert_uint_eq(w.metrics.redis_disconnects, 1);
    return sent;
}

/* A length that is only announced takes no memory, and a long reply ends the link before it takes much. */
START_TEST(a_huge_reply_is_not_taken_in)
{
    static char megabyte[1 << 20];
    char head[] = "$536870912\r\n";

    memset(megabyte, 'x', sizeof(megabyte));
    ck_assert_uint_lt(flood(head, megabyte, sizeof(megabyte)), 8);
}
END_TEST

/* A reply of many complete arrays ends the link as well: the limit counts all that belongs to the reply. */
START_TEST(a_reply_without_end_is_not_taken_in)
{
    char head[] = "*4096\r\n";
    struct buf b;

    buf_init(&b, 0);
    buf_adds(&b, "*1024\r\n");
    for (int i = 0; i < 1024; i++) {
        buf_printf(&b, "$1000\r\n%01000d\r\n", i);
    }
    ck_assert_uint_lt(flood(head, b.p, b.n), 8);
    buf_fini(&b);
}
END_TEST

/* A call that got NOSCRIPT has not run: it is sent again, with the text of the script, and is still one attempt. */
START_TEST(noscript_goes_again)
{
    struct core_op op = op_on("k", KIND_SIMPLE, 1);
    struct core_done d;
    int64_t before_us;

    redis("SCRIPT FLUSH");
    redis("CONFIG RESETSTAT");
    before_us = clock_now_us();
    d = run(&op, CORE_ACQUIRE);
    must(d, CORE_OK);
    ck_assert_int_ge(d.sent_us, before_us);
    ck_assert_int_eq(redis_calls("eval") - redis_beats(), 1);
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

/* ---- the door ---- */

static void
door(const char *const *args)
{
    redis_start(args);
    redis_connect();
}

START_TEST(password_and_db)
{
    static const char *const args[] = {"--requirepass", "s3cret@:/", NULL};
    char url[160];

    door(args);
    ck_assert_str_eq(redis("AUTH s3cret@:/"), "OK");
    w.conf.password = "s3cret@:/";
    open_up();
    must(acquire("in0", KIND_SIMPLE, 1), CORE_OK);
    ck_assert_str_eq(redis("EXISTS in0"), "1");
    backend_close(&w.b);
    w.up = false;

    snprintf(url, sizeof(url), "unix:%s?db=3", w.sock);
    w.conf.url = url;
    open_up();
    must(acquire("in3", KIND_SIMPLE, 1), CORE_OK);
    ck_assert_str_eq(redis("EXISTS in3"), "0");
    redis("SELECT 3");
    ck_assert_str_eq(redis("EXISTS in3"), "1");
}
END_TEST

START_TEST(user_and_password)
{
    door(NULL);
    redis("ACL SETUSER locks on >pass1 ~* &* +@all");
    redis("ACL SETUSER default off");
    w.conf.user = "locks";
    w.conf.password = "pass1";
    open_up();
    must(acquire("k", KIND_SIMPLE, 1), CORE_OK);
    ck_assert_ptr_nonnull(strstr(redis("ACL LIST"), "locks"));
}
END_TEST

START_TEST(a_wrong_password_is_reported_and_tried_again)
{
    static const char *const args[] = {"--requirepass", "right", NULL};
    struct backend_status st;

    door(args);
    redis("AUTH right");
    w.conf.password = "wrong";
    open_backend();
    ck_assert(!turn_for(is_up, NULL, 150 * US_PER_MS));
    backend_status(w.b, &st);
    ck_assert_ptr_nonnull(strstr(st.last_error, "WRONGPASS"));
    must(acquire("k", KIND_SIMPLE, 1), CORE_DOWN);
    redis("CONFIG SET requirepass wrong");
    turn_until(is_all_up, NULL);
    must(acquire("k", KIND_SIMPLE, 1), CORE_OK);
}
END_TEST

START_TEST(no_password_where_one_is_wanted)
{
    static const char *const args[] = {"--requirepass", "right", NULL};
    struct backend_status st;

    door(args);
    open_backend();
    ck_assert(!turn_for(is_up, NULL, 150 * US_PER_MS));
    backend_status(w.b, &st);
    ck_assert_ptr_nonnull(strstr(st.last_error, "NOAUTH"));
}
END_TEST

START_TEST(tcp_by_number_and_by_name)
{
    static const char *const forms[] = {"redis://127.0.0.1:%d", "redis://localhost:%d", "redis://u:p@127.0.0.1:%d/2"};
    char url[128];

    door(NULL);
    proxy_begin(true);
    redis("ACL SETUSER u on >p ~* &* +@all");
    w.conf.url = url;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const char *at = strchr(forms[i], '%');

        snprintf(url, sizeof(url), "%.*s%d%s", (int)(at - forms[i]), forms[i], px.port, at + 2);
        open_up();
        must(acquire("k", KIND_SIMPLE, 1 + i), i == 1 ? CORE_TAKEN : CORE_OK);
        backend_close(&w.b);
        w.up = false;
    }
    redis("SELECT 2");
    ck_assert_str_eq(redis("EXISTS k"), "1");
}
END_TEST

START_TEST(too_long_a_quorum_is_refused)
{
    struct backend_env env = {.base = w.base, .log = &w.log, .metrics = &w.metrics, .uuid = UUID,
                              .post = on_post, .inspected = on_inspected, .state = on_state};
    char url[2048] = "quorum:", error[160] = "";

    w.conf.url = url;
    for (int i = 0; i < 10; i++) {
        snprintf(url + strlen(url), sizeof(url) - strlen(url), "%sunix:/%d", i > 0 ? "," : "", i);
    }
    ck_assert_ptr_null(backend_open(&w.conf, &env, error));
    ck_assert_str_eq(error, "quorum: at most 9 URLs");
    snprintf(url, sizeof(url), "quorum:unix:/%01100d,unix:/b,unix:/c", 0);
    ck_assert_ptr_null(backend_open(&w.conf, &env, error));
    ck_assert_str_eq(error, "quorum: a URL has more than 1023 bytes");
}
END_TEST

START_TEST(bad_urls_are_refused)
{
    static const char *const bad[] = {
        "",       "http://x",           "unix:",          "redis://",         "redis://:6379",      "redis://h:0",
        "redis://h:65536", "redis://h:6379/x", "redis://h:port", "redisss://h:6379", "unix:/x?db=", "unix:/x?db=-1",
        "unix:/x?foo=1",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct backend_env env = {.base = w.base, .log = &w.log, .metrics = &w.metrics, .uuid = UUID,
                                  .post = on_post, .inspected = on_inspected, .state = on_state};
        char error[160] = "";

        w.conf.url = bad[i];
        ck_assert_msg(backend_open(&w.conf, &env, error) == NULL, "%s", bad[i]);
        ck_assert_str_ne(error, "");
    }
}
END_TEST

static void
none_attempted(void)
{
    for (size_t i = 0; i < px.pairs_n; i++) {
        px.pair[i].attempted = false;
    }
}

/* The connection that carried scripts since none_attempted(). */
static struct pair *
attempting_daemon(void)
{
    struct pair *p = px.pair;

    while (!p->attempted) {
        ck_assert_uint_lt(p - px.pair, px.pairs_n);
        p++;
    }
    return p;
}

static bool
has_attempted(const void *arg)
{
    return ((const struct pair *)arg)->attempted;
}

static bool
is_seen(const void *arg)
{
    return w.seen_n == *(const unsigned *)arg;
}

static bool
has_one_away(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.links_up < st.links;
}

/* The link of renewals does not answer, or is away: renewals go by another link. */
START_TEST(renewals_go_by_another_link)
{
    struct pair *p;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    none_attempted();
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK);
    p = attempting_daemon();
    p->held = true;
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_UNKNOWN);
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK);
    redis("CONFIG SET maxclients 1"); /* no connection can be made */
    turn_until(has_one_away, NULL);
    for (int i = 0; i < 3; i++) {
        must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK);
    }
    must(acquire("y", KIND_REENTRANT, 1), CORE_OK);
    redis("CONFIG SET maxclients 1000");
    turn_until(is_all_up, NULL);
    none_attempted();
    must(acquire("z", KIND_REENTRANT, 1), CORE_OK);
    p = attempting_daemon();
    p->attempted = false;
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK);
    ck_assert(!p->attempted); /* renewals go by their own link again */
    ck_assert_uint_eq(w.downs, 0); /* Redis was up all the time */
}
END_TEST

/* The link of locks is lost and cannot be made: all verbs go by the link of renewals, until it is back. */
START_TEST(names_go_by_another_link)
{
    struct core_op again = op_on("x", KIND_REENTRANT, 1), clear = op_on("y", KIND_REENTRANT, 1);
    struct backend_status st;
    struct pair *p;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    p = attempting_daemon();
    redis("CONFIG SET maxclients 1");
    cut(p);
    turn_until(has_one_away, NULL);
    none_attempted();
    backend_status(w.b, &st);
    ck_assert(st.up);
    ck_assert_str_eq(st.links_away, "locks");
    ck_assert_str_ne(st.last_error, "");
    again.reclaim = true;
    must(await(send_op(&again, CORE_ACQUIRE)), CORE_OK);
    must(acquire("y", KIND_REENTRANT, 1), CORE_OK);
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK);
    must(release("x", KIND_REENTRANT, 1, 0), CORE_OK);
    must(await(send_op(&clear, CORE_BREAK_KEY)), CORE_OK);
    ck_assert_int_eq(redis_keys(), 1); /* the token clock */
    p = attempting_daemon();
    redis("CONFIG SET maxclients 1000");
    turn_until(is_all_up, NULL);
    none_attempted();
    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    ck_assert(!p->attempted); /* home again */
    ck_assert_uint_eq(w.downs, 0);
    backend_status(w.b, &st);
    ck_assert_str_eq(st.links_away, "");
}
END_TEST

/* Operations that gathered behind a call have not run: they go by another link, in their order. */
START_TEST(a_batch_moves_when_its_link_closes)
{
    struct core_op op[5] = {op_on("k", KIND_REENTRANT, 1), op_on("l", KIND_REENTRANT, 2), op_on("m", KIND_REENTRANT, 3),
                            op_on("m", KIND_REENTRANT, 4), op_on("x", KIND_REENTRANT, 1)};
    struct pair *p;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    p = attempting_daemon();
    p->held = true;
    for (int i = 0; i < 4; i++) {
        send_op(&op[i], CORE_ACQUIRE);
    }
    op[4].holds = 0;
    send_op(&op[4], CORE_RELEASE);
    turn_until_exists("k");
    ck_assert(!exists("l"));
    redis("CONFIG SET maxclients 1");
    cut(p);
    must(await(op[0].op), CORE_UNKNOWN);
    must(await(op[1].op), CORE_OK);
    must(await(op[2].op), CORE_OK); /* the first to ask has it */
    must(await(op[3].op), CORE_TAKEN);
    must(await(op[4].op), CORE_OK);
    ck_assert(!exists("x"));
    ck_assert(backend_idle(w.b));
    redis("CONFIG SET maxclients 1000");
    turn_until(is_all_up, NULL);
}
END_TEST

/*
 * The home link of `op` is cut, another link sends `op`, its reply is kept back, and the home link is up again. Returns
 * the other link. Calls from then on are marked.
 */
static struct pair *
sent_abroad(const struct core_op *op)
{
    struct pair *abroad;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    redis("CONFIG SET maxclients 1");
    cut(attempting_daemon());
    turn_until(has_one_away, NULL);
    none_attempted();
    must(acquire("y", KIND_REENTRANT, 1), CORE_OK);
    abroad = attempting_daemon();
    redis("CONFIG SET maxclients 1000");
    abroad->held = true;
    send_op(op, CORE_ACQUIRE);
    turn_until_exists("k");
    turn_until(is_all_up, NULL);
    none_attempted();
    return abroad;
}

/* The home link is up again: an operation does not overtake what its name has in flight on another link. */
START_TEST(a_name_stays_abroad_while_it_is_in_flight)
{
    struct core_op op[2] = {op_on("k", KIND_REENTRANT, 1), op_on("k", KIND_REENTRANT, 2)};
    struct pair *abroad = sent_abroad(&op[0]);

    send_op(&op[1], CORE_ACQUIRE);
    must(await(op[0].op), CORE_UNKNOWN);
    turn_until(has_attempted, abroad); /* what had gathered leaves now, and not before */
    abroad->held = false;
    on_reply(abroad->server, abroad);
    must(await(op[1].op), CORE_TAKEN);
    none_attempted();
    must(release("k", KIND_REENTRANT, 1, 0), CORE_OK);
    ck_assert(!abroad->attempted);
}
END_TEST

/* An operation does not overtake what has been given up on the other link either, as it may still run. */
START_TEST(a_name_stays_abroad_while_a_reply_is_owed)
{
    struct core_op op[2] = {op_on("k", KIND_REENTRANT, 1), op_on("k", KIND_REENTRANT, 2)};
    struct pair *abroad = sent_abroad(&op[0]);

    must(await(op[0].op), CORE_UNKNOWN);
    ck_assert(!abroad->attempted);
    send_op(&op[1], CORE_ACQUIRE);
    turn_until(has_attempted, abroad);
    abroad->held = false;
    on_reply(abroad->server, abroad);
    must(await(op[1].op), CORE_TAKEN);
    none_attempted();
    must(release("k", KIND_REENTRANT, 1, 0), CORE_OK);
    ck_assert(!abroad->attempted);
}
END_TEST

/*
 * Waits for the answer to a question that goes by the first link: all that left by that link before has been answered,
 * too.
 */
static void
ask_at_home(void)
{
    const unsigned n = w.seen_n + 1;

    w.inside = true;
    backend_inspect(w.b, n, SLICE_LIT("k"));
    w.inside = false;
    turn_until(is_seen, &n);
    ck_assert(w.seen.ok);
}

/*
 * With one link of locks, Redis receives the operations on all names in one order, whichever link carries them. While
 * one name is in flight abroad, the other names are sent neither by their home link, which is up again, although they
 * were never abroad; nor abroad, however many they are. So this state ends under load, too, and all names go home
 * together.
 */
START_TEST(names_keep_one_order)
{
    enum { N = 20 };
    struct core_op op = op_on("k", KIND_REENTRANT, 1), many[N];
    struct pair *abroad = sent_abroad(&op);
    char key[N][8];

    for (int i = 0; i < N; i++) {
        snprintf(key[i], sizeof(key[i]), "z%d", i);
        many[i] = op_on(key[i], KIND_REENTRANT, 1);
        send_op(&many[i], CORE_ACQUIRE);
    }
    ask_at_home();
    for (const struct pair *p = px.pair; p < px.pair + px.pairs_n; p++) {
        ck_assert(!p->attempted || (p == abroad && done_of(op.op) != NULL)); /* the latter: given up by now */
    }
    abroad->held = false;
    on_reply(abroad->server, abroad);
    for (int i = 0; i < N; i++) {
        must(await(many[i].op), CORE_OK);
    }
    ck_assert(!abroad->attempted || await(op.op).outcome == CORE_UNKNOWN);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/* Redis's clock is set back while an attempt is unanswered: it may run later by as much, and the core learns that. */
START_TEST(a_guard_moves_with_redis_clock)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    struct pair *p = px.pair;
    int64_t back_us = TIMEOUT_US / 2;
    const struct core_event *ev = w.event;
    struct core_done d;

    must(acquire("x", KIND_REENTRANT, 1), CORE_OK);
    while (!p->attempted) {
        p++;
    }
    p->held = true;
    send_op(&op, CORE_ACQUIRE);
    turn_until_exists("k");
    clock_advance_us(back_us); /* the same, as seen by the daemon */
    must(extend("x", KIND_REENTRANT, 1, 0, LEASE_US, false), CORE_OK); /* by the link of renewals */
    while (ev < w.event + w.events_n && ev->type != CORE_CLOCK_BACK) {
        ev++;
    }
    ck_assert_ptr_ne(ev, w.event + w.events_n);
    ck_assert_int_ge(ev->back_us, back_us * 9 / 10);
    ck_assert_int_le(ev->back_us, back_us * 11 / 10);
    d = await(op.op);
    must(d, CORE_UNKNOWN);
    ck_assert_int_ge(d.guard_us, d.sent_us + TIMEOUT_US / 2 + ev->back_us);
    ck_assert_int_ge(d.guard_us, d.sent_us + TIMEOUT_US + back_us);
}
END_TEST
#endif

int
main(void)
{
    const TTest *const alone[] = {
        down_is_reported_in_a_later_turn,
        comes_up_when_redis_does,
        a_killed_redis_comes_back,
        pauses_between_attempts_grow,
        password_and_db,
        user_and_password,
        a_wrong_password_is_reported_and_tried_again,
        no_password_where_one_is_wanted,
        tcp_by_number_and_by_name,
        bad_urls_are_refused,
        too_long_a_quorum_is_refused,
    };
    const TTest *const behind_proxy[] = {
        a_lost_reply_is_unknown,
        a_late_reply_is_swallowed,
        silence_ends_the_link,
        each_of_many_operations_is_answered_once,
        killed_connections_come_back,
        closing_forgets_operations_in_flight,
        an_answer_from_another_epoch_is_none,
        few_gather_and_many_leave,
        a_batch_is_down_with_its_link,
        a_batch_leaves_when_a_call_is_given_up,
        a_batch_of_another_epoch_is_down,
        outcomes_of_errors_of_redis,
        nonsense_ends_the_link,
        a_reply_to_nothing_ends_the_link,
        a_huge_reply_is_not_taken_in,
        a_reply_without_end_is_not_taken_in,
        renewals_go_by_another_link,
        names_go_by_another_link,
        a_batch_moves_when_its_link_closes,
        a_name_stays_abroad_while_it_is_in_flight,
        a_name_stays_abroad_while_a_reply_is_owed,
        names_keep_one_order,
#ifdef RLOCKD_TEST_CLOCK
        a_guard_moves_with_redis_clock,
#endif
    };
    const TTest *const on_redis[] = {
        an_idle_link_notices,
        a_zombie_does_nothing_past_its_guard,
        a_short_pause_is_only_slow,
        noscript_goes_again,
#ifdef RLOCKD_TEST_CLOCK
        a_clock_that_jumped_is_learned_again,
        a_reclaim_refused_for_its_guard_is_not_sent_again,
#endif
    };
    TCase *tc[] = {tcase_create("alone"), tcase_create("behind a proxy"), tcase_create("on Redis")};

    tcase_add_checked_fixture(tc[0], nowhere, all_end);
    tcase_add_checked_fixture(tc[1], proxied, all_end);
    tcase_add_checked_fixture(tc[2], direct, all_end);
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        tcase_add_test(tc[0], alone[i]);
    }
    for (size_t i = 0; i < sizeof(behind_proxy) / sizeof(behind_proxy[0]); i++) {
        tcase_add_test(tc[1], behind_proxy[i]);
    }
    for (size_t i = 0; i < sizeof(on_redis) / sizeof(on_redis[0]); i++) {
        tcase_add_test(tc[2], on_redis[i]);
    }
    return world_run("backend_loss", tc, sizeof(tc) / sizeof(tc[0]));
}
