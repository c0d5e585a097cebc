/*
 * test_replication.c -- what a master answers about its settings, over a Redis of the test.
 */
#include "daemon/backend/replication.h"

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

#define DOWN_AFTER_MS 5000
#define BOUNDED "*4\r\n$21\r\nmin-replicas-to-write\r\n$1\r\n1\r\n$20\r\nmin-replicas-max-lag\r\n$1\r\n3\r\n"

static struct event_base *base;
static struct log silent;
static struct metrics metrics;
static struct freelist freelist;
static struct backend_env env;
static struct backend_conf conf;
static struct link_address *address;
static struct redis_link *l;
static struct replication replication;
static bool up;

/* ---- a Redis ---- */

static struct {
    struct evconnlistener *listener;
    struct bufferevent *conn; /* the latest one */
    char path[64];
    const char *settings; /* its answer to CONFIG GET */
} server;

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct evbuffer *in = bufferevent_get_input(bev), *out = bufferevent_get_output(bev);
    char *line;

    (void)ctx;
    while ((line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL) {
        if (strcmp(line, "CONFIG") == 0) {
            evbuffer_add_printf(out, "%s", server.settings);
        } else if (strcmp(line, "INFO") == 0) {
            evbuffer_add_printf(out, "$13\r\nrole:master\r\n\r\n");
        } else if (strcmp(line, "PING") == 0 || strcmp(line, "CLIENT") == 0) {
            evbuffer_add_printf(out, "+OK\r\n");
        }
        free(line);
    }
}

static void
on_accept(struct evconnlistener *from, evutil_socket_t fd, struct sockaddr *at, int n, void *ctx)
{
    (void)from;
    (void)at;
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
on_greet(void *ctx, struct redis_link *link)
{
    (void)ctx;
    replication_greet(&replication, link);
}

static void
on_state(void *ctx, struct redis_link *link, bool is_up)
{
    (void)ctx;
    (void)link;
    up = is_up;
}

static void
forget(link_reply_fn *fn, void *arg)
{
    (void)fn;
    (void)arg;
}

/* Connects, and is greeted with this answer. */
static void
greet(const char *settings)
{
    if (up) {
        link_reconnect(l, "again");
    }
    server.settings = settings;
    for (up = false; !up;) {
        event_base_loop(base, EVLOOP_ONCE);
    }
}

static void
world_begin(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char url[80], error[160];

    memset(&server, 0, sizeof(server));
    up = false;
    base = event_base_new();
    log_init(&silent);
    silent.fd = -1;
    env = (struct backend_env){.base = base, .log = &silent, .metrics = &metrics, .freelist = &freelist};
    conf = (struct backend_conf){.timeout_us = US_PER_S, .connect_us = US_PER_S, .backoff_min_us = 10 * US_PER_MS,
                                 .backoff_max_us = 50 * US_PER_MS};
    snprintf(server.path, sizeof(server.path), "/tmp/test_replication.%d", (int)getpid());
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", server.path);
    server.listener = evconnlistener_new_bind(base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 8, (struct sockaddr *)&at,
                                              sizeof(at));
    ck_assert_ptr_nonnull(server.listener);
    snprintf(url, sizeof(url), "unix:%s", server.path);
    address = address_parse(url, NULL, NULL, error);
    replication_init(&replication, &env, address);
    l = link_open(address, &conf, &env, NULL, false, (struct link_callbacks){.greet = on_greet, .state = on_state});
}

static void
world_end(void)
{
    link_close(&l, forget);
    evconnlistener_free(server.listener);
    if (server.conn != NULL) {
        bufferevent_free(server.conn);
    }
    unlink(server.path);
    address_free(address);
    freelist_clear(&freelist);
    event_base_free(base);
}

START_TEST(a_refusal_is_named_until_an_answer_comes)
{
    greet("-NOPERM this user has no permissions to run the 'config|get' command\r\n");
    ck_assert(!replication_bounded(&replication, DOWN_AFTER_MS));
    ck_assert_str_eq(replication.unbounded, "CONFIG GET is refused: allow it (+config|get)");
    greet(BOUNDED);
    ck_assert(replication_bounded(&replication, DOWN_AFTER_MS));
}
END_TEST

/* Redis runs a script: the settings are what they were, and no right is missing. */
START_TEST(a_busy_redis_refuses_nothing)
{
    greet("-BUSY Redis is busy running a script.\r\n");
    ck_assert(!replication_bounded(&replication, DOWN_AFTER_MS));
    ck_assert_str_eq(replication.unbounded, "the settings of Redis are not known");
    ck_assert(!replication.logged);
    greet(BOUNDED);
    greet("-BUSY Redis is busy running a script.\r\n");
    ck_assert(replication_bounded(&replication, DOWN_AFTER_MS));
    ck_assert_int_eq(replication.asked_us, 0); /* the next tick asks */
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_refusal_is_named_until_an_answer_comes,
        a_busy_redis_refuses_nothing,
    };

    return suite_main_with("replication", tests, sizeof(tests) / sizeof(tests[0]), world_begin, world_end);
}
