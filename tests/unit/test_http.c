/*
 * test_http.c -- the pages for probes and Prometheus, over a real socket.
 */
#include <errno.h>
#include <sys/un.h>

#include "tests/unit/house.h"

#include "daemon/serve/drain.h"
#include "daemon/serve/http.h"
#include "daemon/serve/listener.h"

static char dir[64], path[96];
static struct http *http;

static void
move_in(void)
{
    char addr[112], error[160] = "";
    struct listening on;

    build();
    snprintf(dir, sizeof(dir), "/tmp/rlockd-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/http.sock", dir);
    snprintf(addr, sizeof(addr), "unix:%s", path);
    http = listening_open(&on, addr, 0600, error) ? http_serve(engine, &on, error) : NULL;
    ck_assert_msg(http != NULL, "%s", error);
    ck_assert_str_eq(http_addr(http), addr);
}

static void
move_out(void)
{
    http_close(&http);
    take_down();
    ck_assert_int_eq(rmdir(dir), 0); /* the socket is gone already */
}

static struct client
call(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct client c = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    ck_assert_int_eq(connect(c.fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_int_eq(fcntl(c.fd, F_SETFL, O_NONBLOCK), 0);
    return c;
}

/* Appends all that the server sends for the request, until it closes. */
static void
ask(const char *request, struct buf *answer)
{
    int64_t end_us = clock_now_us() + PATIENCE_US;
    struct client c = call();

    sends(&c, request);
    buf_clear(answer, 0);
    buf_add(answer, "", 1);
    while (strstr(answer->p, "<end>") == NULL) {
        ck_assert_msg(clock_now_us() < end_us, "no answer to %s: %s", request, answer->p);
        settle();
        answer->n--; /* the NUL */
        receives(&c, answer);
    }
    close(c.fd);
    settle();
}

static void
must_answer(const char *request, const char *status, const char *text)
{
    struct buf b;

    buf_init(&b, 0);
    ask(request, &b);
    ck_assert_msg(strstr(b.p, status) != NULL, "%s: %s", request, b.p);
    ck_assert_msg(strstr(b.p, text) != NULL, "%s: %s", request, b.p);
    buf_fini(&b);
}

START_TEST(health_is_that_it_answers)
{
    must_answer("GET /healthz HTTP/1.0\r\n\r\n", " 200 ", "ok\n");
    must_answer("GET /healthz?x=1 HTTP/1.0\r\n\r\n", " 200 ", "ok\n");
    must_answer("GET /other HTTP/1.0\r\n\r\n", " 404 ", "/readyz");
}
END_TEST

START_TEST(ready_names_the_cause)
{
    redis->env.state(redis->env.ctx, false);
    must_answer("GET /readyz HTTP/1.0\r\n\r\n", " 503 ", "redis: down");
    redis->env.state(redis->env.ctx, true);
    must_answer("GET /readyz HTTP/1.0\r\n\r\n", " 200 ", "ok");
    drain_start(engine, 0);
    must_answer("GET /readyz HTTP/1.0\r\n\r\n", " 503 ", "draining");
}
END_TEST

START_TEST(metrics_show_every_counter)
{
    static const char *const names[] = {
#define METRIC(id, help) "\nrlockd_" #id "_total ",
#include "daemon/base/metrics.def"
#undef METRIC
        "\nrlockd_locks_held 1\n",    "\nrlockd_waiters 1\n", "\nrlockd_sessions 2\n", "\nrlockd_upstream_up 1\n",
        "\nrlockd_requests_total 2\n", "\nrlockd_grants_total 1\n", "\nrlockd_build_info{version=",
    };
    struct client holder = come(), waiter = come();
    size_t i;

    redis->env.state(redis->env.ctx, true);
    sends(&holder, "LOCK a-name-of-the-clients\n");
    settle();
    sends(&waiter, "LOCK a-name-of-the-clients\n");
    settle();
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        must_answer("GET /metrics HTTP/1.0\r\n\r\n", " 200 ", names[i]);
    }
    {
        struct buf b;

        buf_init(&b, 0);
        ask("GET /metrics HTTP/1.0\r\n\r\n", &b);
        ck_assert_ptr_null(strstr(b.p, "a-name")); /* no names, whose number has no bound */
        buf_fini(&b);
    }
    leave(&waiter);
    leave(&holder);
}
END_TEST

START_TEST(nothing_but_looking)
{
    char big[9000];

    must_answer("\r\n\r\n", " 400 ", "");
    must_answer("GET\r\n\r\n", " 400 ", "");
    must_answer("POST /metrics HTTP/1.0\r\nContent-Length: 0\r\n\r\n", " 501 ", "");
    must_answer("GET /metrics HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", " 413 ", "");
    memset(big, 'x', sizeof(big));
    memcpy(big, "GET /healthz HTTP/1.0\r\nX: ", 26);
    memcpy(big + sizeof(big) - 5, "\r\n\r\n", 5);
    must_answer(big, " 400 ", "");
}
END_TEST

START_TEST(head_has_no_body)
{
    struct buf b;

    buf_init(&b, 0);
    ask("HEAD /healthz HTTP/1.0\r\n\r\n", &b);
    ck_assert_ptr_nonnull(strstr(b.p, "Content-Length: 3\r\n"));
    ck_assert_ptr_nonnull(strstr(b.p, "\r\n\r\n<end>"));
    buf_fini(&b);
}
END_TEST

/* Whether the server has kept this connection. */
static bool
is_open(const struct client *c)
{
    char byte;

    return recv(c->fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

/* With too many connections the one that was silent longest is closed, and a new caller is always answered. */
START_TEST(so_many_at_a_time)
{
    struct client c[80];
    size_t i, open = 0;

    for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        c[i] = call();
        settle();
        if (i == 40) {
            sends(&c[0], "GET"); /* now the second one has been silent longest */
            settle();
        }
    }
    for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        open += is_open(&c[i]);
    }
    ck_assert_uint_eq(open, 64);
    ck_assert(is_open(&c[0]) && !is_open(&c[1]) && !is_open(&c[16]) && is_open(&c[17]) && is_open(&c[79]));
    must_answer("GET /healthz HTTP/1.0\r\n\r\n", " 200 ", "ok\n");
    for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        close(c[i].fd);
    }
    settle();
    must_answer("GET /healthz HTTP/1.0\r\n\r\n", " 200 ", "ok\n");
}
END_TEST

/* Many callers come in the same turn as a first one: its request was not read yet, and is answered all the same. */
START_TEST(a_crowd_behind_a_request)
{
    struct client first = call(), c[80];
    struct buf b;
    size_t i;

    sends(&first, "GET /healthz HTTP/1.0\r\n\r\n");
    for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        c[i] = call();
    }
    settle();
    buf_init(&b, 0);
    receives(&first, &b);
    ck_assert_msg(strstr(b.p, " 200 ") != NULL, "%s", b.p);
    buf_fini(&b);
    close(first.fd);
    for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        close(c[i].fd);
    }
    settle();
}
END_TEST

/* A socket passed by systemd, and the end of the server while a caller is connected. */
START_TEST(a_passed_socket)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char error[160] = "";
    struct listening on;
    struct client c;
    int fd;

    http_close(&http);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert(!listening_adopt(&on, dup(fd), error)); /* it does not listen */
    ck_assert_str_ne(error, "");
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_msg(listening_adopt(&on, fd, error) && (http = http_serve(engine, &on, error)) != NULL, "%s", error);
    must_answer("GET /healthz HTTP/1.0\r\n\r\n", " 200 ", "ok\n");
    c = call();
    settle();
    ck_assert(is_open(&c));
    http_close(&http);
    ck_assert(!is_open(&c));
    close(c.fd);
    ck_assert_int_eq(unlink(path), 0); /* the socket file belongs to its maker */
}
END_TEST

/* A caller that sends a byte now and then keeps its connection for ten seconds and no longer. */
START_TEST(a_caller_that_trickles_is_sent_away)
{
#ifdef RLOCKD_TEST_CLOCK
    const char *request = "GET /healthz HTTP/1.0\r\n";
    struct client c = call();
    int i;

    settle();
    for (i = 0; i < 5; i++) {
        ck_assert_msg(is_open(&c), "after %d s", 2 * i);
        clock_advance_us(2 * US_PER_S);
        ck_assert_int_eq(send(c.fd, request + i, 1, MSG_NOSIGNAL), 1);
        settle();
    }
    ck_assert(!is_open(&c));
    close(c.fd);
#endif
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        health_is_that_it_answers,
        ready_names_the_cause,
        metrics_show_every_counter,
        nothing_but_looking,
        head_has_no_body,
        so_many_at_a_time,
        a_crowd_behind_a_request,
        a_passed_socket,
        a_caller_that_trickles_is_sent_away,
    };
    TCase *tc = tcase_create("http");
    size_t i;

    tcase_add_checked_fixture(tc, move_in, move_out);
    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    return house_run("http", tc);
}
