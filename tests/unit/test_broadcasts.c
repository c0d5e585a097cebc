/*
 * test_broadcasts.c -- a subscription to broadcasts whose answer comes late, over a Redis of the test.
 */
#include "daemon/backend/broadcasts.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/backend/address.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"
#include "suite.h"

static struct event_base *base;
static struct log silent;
static struct metrics metrics;
static struct freelist freelist;
static struct shard_events events;
static struct backend_env env;
static struct backend_conf conf;
static struct link_address *address;
static struct redis_link *sub;
static struct broadcasts broadcasts;
static unsigned subscribed_n;

/* ---- a Redis, which keeps its answer to the first SUBSCRIBE ---- */

static struct {
    struct evconnlistener *listener;
    struct bufferevent *conn; /* the latest one */
    char path[64];
    unsigned asked; /* SUBSCRIBEs */
} server;

#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$16\r\nrlock:deadlock:0\r\n:1\r\n"

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct evbuffer *in = bufferevent_get_input(bev), *out = bufferevent_get_output(bev);
    char *line;

    (void)ctx;
    while ((line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL) {
        if (strcmp(line, "SUBSCRIBE") == 0 && server.asked++ > 0) {
            evbuffer_add_printf(out, "%s", SUBSCRIBED);
        } else if (strcmp(line, "PING") == 0 || strcmp(line, "CLIENT") == 0) {
            evbuffer_add_printf(out, "+OK\r\n");
        }
        free(line);
    }
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int n, void *ctx)
{
    (void)l;
    (void)from;
    (void)n;
    (void)ctx;
    if (server.conn != NULL) {
        bufferevent_free(server.conn);
    }
    server.conn = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(server.conn, on_read, NULL, NULL, NULL);
    bufferevent_enable(server.conn, EV_READ | EV_WRITE);
}

/* ---- the link ---- */

static void
on_subscribed(void *ctx)
{
    (void)ctx;
    subscribed_n++;
}

static void
on_greet(void *ctx, struct redis_link *l)
{
    (void)ctx;
    (void)l;
}

static void
on_state(void *ctx, struct redis_link *l, bool up)
{
    (void)ctx;
    if (up) {
        broadcasts_subscribe(&broadcasts, l, on_subscribed, NULL);
    }
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    (void)ctx;
    (void)channel;
    (void)what;
}

static void
forget(link_reply_fn *fn, void *arg)
{
    (void)fn;
    (void)arg;
}

static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    *(bool *)ctx = true;
}

static void
run_ms(int ms)
{
    bool over = false;
    struct event *end = event_new(base, -1, 0, on_end, &over);

    event_add(end, &(struct timeval){ms / 1000, ms % 1000 * 1000});
    while (!over) {
        event_base_loop(base, EVLOOP_ONCE);
    }
    event_free(end);
}

static void
world_begin(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char url[80], error[160];

    memset(&server, 0, sizeof(server));
    subscribed_n = 0;
    base = event_base_new();
    log_init(&silent);
    silent.fd = -1;
    env = (struct backend_env){.base = base, .log = &silent, .metrics = &metrics, .freelist = &freelist};
    conf = (struct backend_conf){.timeout_us = 400 * US_PER_MS, .connect_us = US_PER_S,
                                 .backoff_min_us = 10 * US_PER_MS, .backoff_max_us = 50 * US_PER_MS};
    snprintf(server.path, sizeof(server.path), "/tmp/test_broadcasts.%d", (int)getpid());
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", server.path);
    server.listener = evconnlistener_new_bind(base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 8, (struct sockaddr *)&at,
                                              sizeof(at));
    ck_assert_ptr_nonnull(server.listener);
    snprintf(url, sizeof(url), "unix:%s", server.path);
    address = address_parse(url, NULL, NULL, error);
    broadcasts_init(&broadcasts, &env, &events, address, NULL);
    sub = link_open(address, &conf, &env, NULL, true,
                    (struct link_callbacks){.greet = on_greet, .state = on_state, .message = on_message});
    for (int i = 0; server.asked == 0; i++) {
        ck_assert_int_lt(i, 200);
        run_ms(10);
    }
}

static void
world_end(void)
{
    link_close(&sub, forget);
    evconnlistener_free(server.listener);
    if (server.conn != NULL) {
        bufferevent_free(server.conn);
    }
    unlink(server.path);
    address_free(address);
    freelist_clear(&freelist);
    event_base_free(base);
}

/* The answer comes between one timeout and two, when the link would stay. */
static void
answered_late(const char *what)
{
    run_ms(600);
    if (server.asked == 1) {
        bufferevent_write(server.conn, what, strlen(what));
    }
    for (int i = 0; subscribed_n == 0; i++) {
        ck_assert_msg(i < 200, "not subscribed");
        run_ms(10);
    }
    ck_assert_uint_eq(server.asked, 2);
    ck_assert(link_up(sub));
}

/* Redis stood still in a script, and refuses what came meanwhile. */
START_TEST(a_late_refusal_is_asked_again)
{
    answered_late("-BUSY\r\n");
}
END_TEST

START_TEST(a_late_success_is_asked_again)
{
    answered_late(SUBSCRIBED);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_late_refusal_is_asked_again,
        a_late_success_is_asked_again,
    };

    return suite_main_with("broadcasts", tests, sizeof(tests) / sizeof(tests[0]), world_begin, world_end);
}
