/*
 * fake_redis.h -- a Redis of the test at a Unix socket, and the link of the backend that talks to it.
 *
 * The test defines fake_line(), which answers. Server and link run in one loop, in real time.
 */
#ifndef RLOCKD_TESTS_FAKE_REDIS_H
#define RLOCKD_TESTS_FAKE_REDIS_H

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
#include "daemon/backend/link.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"
#include "suite.h"

static struct {
    struct evconnlistener *listener;
    struct bufferevent *conn; /* the latest one */
    char dir[64], path[80];
    bool pings_to_line; /* fake_line() gets each PING, too */
} fake;

static struct log silent;
static struct metrics metrics;
static struct freelist freelist;
static struct backend_env env;
static struct backend_conf conf;
static struct link_address *address;
static struct redis_link *l;

/* Gets a line of the link, without its end, that is neither PING nor CLIENT; its answer goes to `out`. */
static void fake_line(const char *line, struct evbuffer *out);

static void
fake_read(struct bufferevent *bev, void *ctx)
{
    struct evbuffer *in = bufferevent_get_input(bev), *out = bufferevent_get_output(bev);
    char *line;

    (void)ctx;
    while ((line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL) {
        if ((strcmp(line, "PING") == 0 && !fake.pings_to_line) || strcmp(line, "CLIENT") == 0) {
            evbuffer_add_printf(out, "+OK\r\n");
        } else {
            fake_line(line, out);
        }
        free(line);
    }
}

static void
fake_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int n, void *ctx)
{
    (void)listener;
    (void)from;
    (void)n;
    (void)ctx;
    if (fake.conn != NULL) {
        bufferevent_free(fake.conn);
    }
    fake.conn = bufferevent_socket_new(env.base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(fake.conn, fake_read, NULL, NULL, NULL);
    bufferevent_enable(fake.conn, EV_READ | EV_WRITE);
}

static inline void
fake_says(const char *bytes)
{
    bufferevent_write(fake.conn, bytes, strlen(bytes));
}

/* Runs the loop until the condition is true, for some seconds at most. */
#define RUN_UNTIL(condition)                                             \
    for (int turns_ = 0; !(condition); turns_++) {                       \
        ck_assert_msg(turns_ < 1000, "not within time: %s", #condition); \
        run_ms(10);                                                      \
    }

static void
run_ended(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    *(bool *)ctx = true;
}

static void
run_ms(int ms)
{
    bool over = false;
    struct event *end = event_new(env.base, -1, 0, run_ended, &over);

    event_add(end, &(struct timeval){ms / 1000, ms % 1000 * 1000});
    while (!over) {
        event_base_loop(env.base, EVLOOP_ONCE);
    }
    event_free(end);
}

/* The test opens the link `l` to `address`; fake_end() closes it. */
static void
fake_begin(const char *name, int64_t timeout_us)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char url[96], error[160];

    memset(&fake, 0, sizeof(fake));
    log_init(&silent);
    silent.fd = -1;
    env = (struct backend_env){.base = event_base_new(), .log = &silent, .metrics = &metrics, .freelist = &freelist};
    conf = (struct backend_conf){.timeout_us = timeout_us, .connect_us = US_PER_S, .backoff_min_us = 10 * US_PER_MS,
                                 .backoff_max_us = 50 * US_PER_MS};
    snprintf(fake.dir, sizeof(fake.dir), "/tmp/%s.XXXXXX", name);
    ck_assert_ptr_nonnull(mkdtemp(fake.dir));
    snprintf(fake.path, sizeof(fake.path), "%s/redis", fake.dir);
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", fake.path);
    fake.listener = evconnlistener_new_bind(env.base, fake_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 8,
                                            (struct sockaddr *)&at, sizeof(at));
    ck_assert_ptr_nonnull(fake.listener);
    snprintf(url, sizeof(url), "unix:%s", fake.path);
    address = address_parse(url, NULL, NULL, error);
}

static void
fake_forget(link_reply_fn *fn, void *arg)
{
    (void)fn;
    (void)arg;
}

static void
fake_end(void)
{
    link_close(&l, fake_forget);
    evconnlistener_free(fake.listener);
    if (fake.conn != NULL) {
        bufferevent_free(fake.conn);
    }
    unlink(fake.path);
    rmdir(fake.dir);
    address_free(address);
    freelist_clear(&freelist);
    event_base_free(env.base);
}

#endif
