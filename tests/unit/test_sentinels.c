/*
 * test_sentinels.c -- the list of sentinels, over sentinels of the test: one is listed, the other one is discovered.
 */
#include "daemon/backend/sentinels.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/base/freelist.h"
#include "suite.h"

#ifdef RLOCKD_TEST_CLOCK

enum { FAKES = 2, CONNECTIONS = 16 };

/* A sentinel that knows the other one by its present port. */
static struct fake {
    struct evconnlistener *listener; /* NULL: it is down */
    struct bufferevent *conn[CONNECTIONS];
    size_t conns_n;
    char id[41];
    int port;
} fake[FAKES];

static struct event_base *base;
static struct log silent;
static struct metrics metrics;
static struct freelist freelist;
static struct backend_env env;
static struct backend_conf conf;
static struct link_address *template;
static struct sentinels *ss;
static int named; /* the port of the master, by both */
static int replica[4]; /* ports of the replicas that both list; 0 = no further one */
static bool replica_down;

/* ---- sentinels ---- */

static void
answer_replicas(struct evbuffer *out)
{
    const char *flags = replica_down ? "s_down" : "slave";
    int n = 0;

    while (replica[n] != 0) {
        n++;
    }
    evbuffer_add_printf(out, "*%d\r\n", n);
    for (int i = 0; i < n; i++) {
        evbuffer_add_printf(out, "*6\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$4\r\n%d\r\n", replica[i]);
        evbuffer_add_printf(out, "$5\r\nflags\r\n$%zu\r\n%s\r\n", strlen(flags), flags);
    }
}

static void
answer(struct fake *f, struct evbuffer *out, const char *first, const char *second)
{
    const struct fake *o = &fake[f == &fake[0]];
    char port[8];

    if (strcmp(first, "SUBSCRIBE") == 0) {
        evbuffer_add_printf(out, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    } else if (strcmp(second, "MYID") == 0) {
        evbuffer_add_printf(out, "$40\r\n%s\r\n", f->id);
    } else if (strcmp(second, "SENTINELS") == 0) {
        snprintf(port, sizeof(port), "%d", o->port);
        evbuffer_add_printf(out, "*1\r\n*6\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n");
        evbuffer_add_printf(out, "$4\r\nport\r\n$%zu\r\n%s\r\n", strlen(port), port);
        evbuffer_add_printf(out, "$5\r\nrunid\r\n$40\r\n%s\r\n", o->id);
    } else if (strcmp(second, "GET-MASTER-ADDR-BY-NAME") == 0) {
        evbuffer_add_printf(out, "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n%d\r\n", named);
    } else if (strcmp(second, "REPLICAS") == 0) {
        answer_replicas(out);
    } else if (strcmp(first, "SENTINEL") == 0) {
        evbuffer_add_printf(out, "*0\r\n");
    } else {
        evbuffer_add_printf(out, "+OK\r\n");
    }
}

/* Each command is whole: the links write them so, and they are short. */
static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    char *line;

    while ((line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL) {
        char word[2][64] = {"", ""};

        for (int i = 0, n = atoi(line + 1); i < n; i++) {
            char *text;

            free(evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF));
            text = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF);
            ck_assert_ptr_nonnull(text);
            if (i < 2) {
                snprintf(word[i], sizeof(word[i]), "%s", text);
            }
            free(text);
        }
        free(line);
        answer(ctx, bufferevent_get_output(bev), word[0], word[1]);
    }
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int n, void *ctx)
{
    struct fake *f = ctx;
    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);

    (void)l;
    (void)from;
    (void)n;
    ck_assert_uint_lt(f->conns_n, CONNECTIONS);
    f->conn[f->conns_n++] = bev;
    bufferevent_setcb(bev, on_read, NULL, NULL, f);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
}

static void
stop(struct fake *f)
{
    if (f->listener != NULL) {
        evconnlistener_free(f->listener);
        f->listener = NULL;
    }
    while (f->conns_n > 0) {
        bufferevent_free(f->conn[--f->conns_n]);
    }
}

/* Starts at a port of the kernel's choice. */
static void
start(struct fake *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);

    f->listener = evconnlistener_new_bind(base, on_accept, f, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, 8,
                                          (struct sockaddr *)&at, sizeof(at));
    ck_assert_ptr_nonnull(f->listener);
    ck_assert_int_eq(getsockname(evconnlistener_get_fd(f->listener), (struct sockaddr *)&at, &n), 0);
    f->port = ntohs(at.sin_port);
}

/* ---- the daemon's list ---- */

static void
on_changed(void *ctx)
{
    (void)ctx;
}

static unsigned
answering(void)
{
    struct sentinel_verdict v;

    sentinels_verdict(ss, &v);
    return v.answering_n;
}

static size_t
listed(void)
{
    struct backend_node node[BACKEND_NODES_MAX];

    return sentinels_nodes(ss, node, BACKEND_NODES_MAX);
}

/* "port state" of each row that is a replica, one behind the other; no port is there twice. */
static const char *
replicas(void)
{
    static char text[256];
    struct backend_node node[BACKEND_NODES_MAX];
    size_t n = sentinels_nodes(ss, node, BACKEND_NODES_MAX);

    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (strcmp(node[i].role, "replica") == 0) {
            const char *port = strrchr(node[i].address, ':') + 1;
            size_t at = strlen(text);

            ck_assert_msg(strstr(text, port) == NULL, "%s, %s", text, port);
            snprintf(text + at, sizeof(text) - at, "%s%s %s", at > 0 ? ", " : "", port, node[i].state);
        }
    }
    return text;
}

static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    *(bool *)ctx = true;
}

/* Lets the loop run for that time. */
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
until_answering(unsigned n)
{
    for (int i = 0; answering() != n; i++) {
        ck_assert_msg(i < 1500, "%u sentinels answer", answering());
        run_ms(20);
    }
}

static void
until_replicas(const char *text)
{
    for (int i = 0; strcmp(replicas(), text) != 0; i++) {
        ck_assert_msg(i < 1500, "%s", replicas());
        run_ms(20);
    }
}

static void
world_begin(void)
{
    struct sentinel_url url = {.listed_n = 1, .listed[0].host = "127.0.0.1", .master = "m"};

    memset(replica, 0, sizeof(replica));
    replica_down = false;
    named = 6379;
    base = event_base_new();
    log_init(&silent);
    silent.fd = -1;
    env = (struct backend_env){.base = base, .log = &silent, .metrics = &metrics, .freelist = &freelist};
    conf = (struct backend_conf){.timeout_us = US_PER_S, .connect_us = US_PER_S, .backoff_min_us = 10 * US_PER_MS,
                                 .backoff_max_us = 50 * US_PER_MS};
    for (int i = 0; i < FAKES; i++) {
        memset(fake[i].id, 'a' + i, 40);
        start(&fake[i]);
    }
    url.listed[0].port = fake[0].port;
    template = address_unknown("m", NULL, NULL, 0, false);
    ss = sentinels_open(&url, &conf, &env, template, on_changed, NULL);
    until_answering(2);
    ck_assert_uint_eq(listed(), 2);
}

static void
world_end(void)
{
    sentinels_close(&ss);
    for (int i = 0; i < FAKES; i++) {
        stop(&fake[i]);
    }
    address_free(template);
    freelist_clear(&freelist);
    run_ms(1);
    event_base_free(base);
}

/* A container that is started anew has its id, from its file, and another address, which the other sentinels report. */
START_TEST(a_sentinel_with_a_new_address_is_asked_there)
{
    stop(&fake[1]);
    start(&fake[1]);
    clock_advance_us(10 * US_PER_S); /* the others are asked for once more */
    run_ms(1500);
    until_answering(2);
    ck_assert_uint_eq(listed(), 3);
    for (int i = 0; i < 7; i++) { /* the former address is forgotten after a minute, and the new one stays */
        clock_advance_us(9 * US_PER_S);
        run_ms(1200);
    }
    until_answering(2);
    ck_assert_uint_eq(listed(), 2);
}
END_TEST

/* A listed sentinel stays in the list, even if another one reports it at another address. */
START_TEST(a_listed_sentinel_with_a_new_address_is_asked_there)
{
    stop(&fake[0]);
    start(&fake[0]);
    clock_advance_us(10 * US_PER_S);
    run_ms(1500);
    until_answering(2);
    clock_advance_us(10 * US_PER_S);
    run_ms(1200);
    until_answering(2);
    ck_assert_uint_eq(listed(), 3);
}
END_TEST

/* Each server has one row after a switch, although the sentinels' list of replicas is from before it. */
START_TEST(a_switch_lists_each_server_once)
{
    replica[0] = 6381;
    replica[1] = 6382;
    address_move(template, "127.0.0.1", 6380);
    clock_advance_us(10 * US_PER_S);
    until_replicas("6381 up, 6382 up");
    sentinels_switched(ss, "127.0.0.1", 6380);
    address_move(template, "127.0.0.1", 6381);
    ck_assert_str_eq(replicas(), "6382 up, 6380 down");
    replica[0] = 6380;
    replica_down = true;
    clock_advance_us(10 * US_PER_S);
    until_replicas("6380 down, 6382 down");
    replica_down = false;
    clock_advance_us(10 * US_PER_S);
    until_replicas("6380 up, 6382 up");
    replica[0] = 6382; /* it was listed, so its place is known: a sentinel that forgets it then has the last word */
    replica[1] = 0;
    clock_advance_us(10 * US_PER_S);
    until_replicas("6382 up");
}
END_TEST

START_TEST(a_former_master_that_no_sentinel_lists_is_forgotten)
{
    address_move(template, "127.0.0.1", 6381);
    sentinels_switched(ss, "127.0.0.1", 6380);
    for (int i = 0; i < 5; i++) {
        clock_advance_us(9 * US_PER_S);
        run_ms(1200);
        ck_assert_str_eq(replicas(), "6380 down");
    }
    clock_advance_us(20 * US_PER_S);
    until_replicas("");
}
END_TEST

START_TEST(a_former_master_that_is_the_master_again_is_no_replica)
{
    sentinels_switched(ss, "127.0.0.1", 6380);
    address_move(template, "127.0.0.1", 6380);
    ck_assert_str_eq(replicas(), "");
}
END_TEST

/* The list of replicas changes with the master, so it is asked for at once, and not ten seconds after the last one. */
START_TEST(another_master_is_a_reason_to_ask_for_its_replicas)
{
    int64_t until_us = clock_now_us() + 9 * US_PER_S;

    replica[0] = 6381;
    named = 6381;
    while (strcmp(replicas(), "6381 up") != 0) {
        ck_assert_int_lt(clock_now_us(), until_us);
        run_ms(20);
    }
}
END_TEST

#endif

int
main(void)
{
#ifdef RLOCKD_TEST_CLOCK
    const TTest *const tests[] = {
        a_sentinel_with_a_new_address_is_asked_there,
        a_listed_sentinel_with_a_new_address_is_asked_there,
        a_switch_lists_each_server_once,
        a_former_master_that_no_sentinel_lists_is_forgotten,
        a_former_master_that_is_the_master_again_is_no_replica,
        another_master_is_a_reason_to_ask_for_its_replicas,
    };

    return suite_main_with("sentinels", tests, sizeof(tests) / sizeof(tests[0]), world_begin, world_end);
#else
    return 0;
#endif
}
