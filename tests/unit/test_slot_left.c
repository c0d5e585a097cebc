/*
 * test_slot_left.c -- a node of a cluster ends subscriptions while the daemon ends some itself.
 */
#include "daemon/backend/link.h"

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
static struct backend_env env;
static struct backend_conf conf;
static struct link_address *address;
static struct redis_link *sub;
static unsigned answered_n, left_n;
static char left[8]; /* the channel of the last message */

/* ---- a node, whose answers to SUNSUBSCRIBE come from the test ---- */

static struct {
    struct evconnlistener *listener;
    struct bufferevent *conn; /* the latest one */
    char path[64];
    unsigned asked; /* SUNSUBSCRIBEs */
} server;

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct evbuffer *in = bufferevent_get_input(bev), *out = bufferevent_get_output(bev);
    char *line;

    (void)ctx;
    while ((line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL) {
        if (strcmp(line, "PING") == 0 || strcmp(line, "CLIENT") == 0) {
            evbuffer_add_printf(out, "+OK\r\n");
        }
        server.asked += strcmp(line, "SUNSUBSCRIBE") == 0;
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
on_greet(void *ctx, struct redis_link *l)
{
    (void)ctx;
    (void)l;
}

static void
on_state(void *ctx, struct redis_link *l, bool up)
{
    (void)ctx;
    (void)l;
    (void)up;
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    (void)ctx;
    ck_assert_int_eq(what->type, REPLY_INT);
    snprintf(left, sizeof(left), "%.*s", (int)channel.n, channel.p);
    left_n++;
}

static void
on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    (void)arg;
    (void)r;
    (void)sent_us;
    answered_n += result == LINK_ANSWERED;
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
    answered_n = left_n = 0;
    base = event_base_new();
    log_init(&silent);
    silent.fd = -1;
    env = (struct backend_env){.base = base, .log = &silent, .metrics = &metrics, .freelist = &freelist};
    conf = (struct backend_conf){.timeout_us = 5 * US_PER_S, .connect_us = US_PER_S,
                                 .backoff_min_us = 10 * US_PER_MS, .backoff_max_us = 50 * US_PER_MS};
    snprintf(server.path, sizeof(server.path), "/tmp/test_slot_left.%d", (int)getpid());
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", server.path);
    server.listener = evconnlistener_new_bind(base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 8, (struct sockaddr *)&at,
                                              sizeof(at));
    ck_assert_ptr_nonnull(server.listener);
    snprintf(url, sizeof(url), "unix:%s", server.path);
    address = address_parse(url, NULL, NULL, error);
    sub = link_open(address, &conf, &env, NULL, true,
                    (struct link_callbacks){.greet = on_greet, .state = on_state, .message = on_message});
    for (int i = 0; !link_up(sub); i++) {
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

/* The daemon ends its subscription to `a`, and the node says this. */
static void
leaves_a(const char *said)
{
    const struct slice word[2] = {SLICE_LIT("SUNSUBSCRIBE"), SLICE_LIT("a")};

    ck_assert(link_send(sub, 2, word, on_answer, NULL));
    for (int i = 0; server.asked == 0; i++) {
        ck_assert_int_lt(i, 200);
        run_ms(10);
    }
    bufferevent_write(server.conn, said, strlen(said));
    for (int i = 0; answered_n == 0; i++) {
        ck_assert_int_lt(i, 200);
        run_ms(10);
    }
}

#define LEFT(channel) "*3\r\n$12\r\nsunsubscribe\r\n$1\r\n" channel "\r\n:0\r\n"

START_TEST(an_answer_is_no_message)
{
    leaves_a(LEFT("a"));
    ck_assert_uint_eq(left_n, 0);
}
END_TEST

/* The slot of `b` has left before the node has read the command. */
START_TEST(a_message_is_no_answer_to_a_command_about_another_channel)
{
    leaves_a(LEFT("b") LEFT("a"));
    ck_assert_uint_eq(left_n, 1);
    ck_assert_str_eq(left, "b");
    ck_assert_uint_eq(link_in_flight(sub), 0);
    ck_assert(link_up(sub));
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        an_answer_is_no_message,
        a_message_is_no_answer_to_a_command_about_another_channel,
    };

    return suite_main_with("slot_left", tests, sizeof(tests) / sizeof(tests[0]), world_begin, world_end);
}
