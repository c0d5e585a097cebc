/*
 * test_session_limits.c -- what a session may not do: bad framing, too much, too long, without AUTH.
 */
#include <check.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/house.h"

/* ---- bad input ---- */

START_TEST(bad_framing_is_answered_behind_the_rest_then_closed)
{
    struct client holder = come(), c = come();
    struct buf b;

    say(&holder, "LOCK a\n");
    settle();
    say(&c, "PING\nLOCK a\n*1\r\n$x\r\nPING\n");
    settle();
    buf_init(&b, 0);
    hear(&c, &b);
    ck_assert_ptr_eq(strstr(b.p, "+PONG\r\n$-1\r\n-ERR Protocol error: "), b.p);
    ck_assert_ptr_nonnull(strstr(b.p, "\r\n<end>"));
    buf_fini(&b);
    ck_assert_uint_eq(engine->metrics.protocol_errors, 1);
    close(c.fd);
    leave(&holder);
}
END_TEST

START_TEST(a_browser_gets_no_answer)
{
    struct client c = come(), d = come();

    say(&c, "POST / HTTP/1.1\r\nHost: x\r\n\r\nLOCK a\r\n");
    say(&d, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    settle();
    expect(&c, "<end>");
    ck_assert_ptr_null(session_find(engine, d.id));
    ck_assert_uint_eq(redis->acquires, 0);
    close(c.fd);
    close(d.fd);
}
END_TEST

START_TEST(output_that_nobody_reads_ends_the_session)
{
    struct client c = come();
    int i;

    conf->limit_output_bytes = 4096;
    conf->dead_peer_us = 3600 * US_PER_S; /* under valgrind on a busy machine this takes longer than the usual 10 s */
    for (i = 0; i < 100000; i++) {
        if (send(c.fd, "PING abcdefghijklmnopqrstuvwxyz\n", 32, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            turn();
        }
    }
    settle();
    ck_assert_ptr_nonnull(session_find(engine, c.id)); /* held up, not closed: it may only be slow */
    ck_assert_uint_lt(session_find(engine, c.id)->out.n, 4096 + 64);
#ifdef RLOCKD_TEST_CLOCK
    clock_advance_us(conf->dead_peer_us + US_PER_S);
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.output_overflows, 1);
#endif
    close(c.fd);
}
END_TEST

START_TEST(one_large_reply_may_drain)
{
    struct client c = come();
    struct buf b;
    int i, ends = 0;

    conf->limit_output_bytes = 4096;
    ck_assert_int_eq(setsockopt(c.s->fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
    say(&c, "COMMAND DOCS\nCOMMAND DOCS\nPING done\n");
    buf_init(&b, 0);
    for (i = 0; i < 1000 && ends == 0; i++) {
        turn();
        hear(&c, &b);
        b.n--; /* the NUL: more follows */
        ends = b.n >= 10 && memcmp(b.p + b.n - 10, "$4\r\ndone\r\n", 10) == 0;
    }
    ck_assert_int_eq(ends, 1);
    ck_assert_uint_gt(b.n, 3 * 4096);
    buf_fini(&b);
    ck_assert_uint_eq(engine->metrics.output_overflows, 0);
    leave(&c);
}
END_TEST

START_TEST(too_many_unanswered_requests_are_not_read)
{
    static const int limits[] = {4, 256}; /* in the middle of a turn's requests, and at its end */
    struct client holder = come(), c = come();
    char line[64];
    struct buf b;
    int i, limit = limits[_i];

    conf->limit_pipeline = limit;
    say(&holder, "LOCK a\n");
    settle();
    buf_init(&b, 0);
    for (i = 0; i < 3 * limit; i++) {
        snprintf(line, sizeof(line), "LOCK a OWNER o%d\n", i);
        buf_adds(&b, line);
    }
    ck_assert_int_eq(send(c.fd, b.p, b.n, MSG_NOSIGNAL), (ssize_t)b.n);
    settle();
    ck_assert_uint_eq(c.s->slots_n, (unsigned)limit);
    ck_assert_uint_eq(c.s->requests_n, (unsigned)limit);
    shutdown(c.fd, SHUT_WR); /* heard, although we do not read: all of them end, also those not read yet */
    settle();
    buf_clear(&b, 0);
    hear(&c, &b);
    for (i = 0; i < 3 * limit; i++) {
        ck_assert_int_eq(memcmp(b.p + 5 * i, "$-1\r\n", 5), 0);
    }
    ck_assert_str_eq(b.p + 5 * i, "<end>");
    buf_fini(&b);
    close(c.fd);
    leave(&holder);
}
END_TEST

START_TEST(reading_goes_on_at_half)
{
    struct client holder = come(), c = come();

    conf->limit_pipeline = 4;
    say(&holder, "LOCK a\nLOCK b\nLOCK c\nLOCK d\n");
    settle();
    say(&c, "LOCK a OWNER p\nLOCK b OWNER q\nLOCK c OWNER r\nLOCK d OWNER s\nPING\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 4);
    say(&holder, "UNLOCK a\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 4);
    say(&holder, "UNLOCK b\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 5);
    leave(&c);
    leave(&holder);
}
END_TEST

/* ---- who may come in ---- */

START_TEST(too_many_sessions_are_refused_in_words)
{
    struct client a, b;

    conf->limit_sessions = 1;
    a = come();
    b = come();
    ck_assert_ptr_null(b.s);
    expect(&b, "-ERR max number of clients reached\r\n<end>");
    ck_assert_uint_eq(engine->metrics.connections_refused, 1);
    close(b.fd);
    leave(&a);
    b = come();
    ck_assert_ptr_nonnull(b.s);
    leave(&b);
}
END_TEST

static void
require_auth(void)
{
    conf->auth_password = strdup("sesame");
    conf->auth_unix = true;
}

START_TEST(before_auth_little_is_taken)
{
    struct client a, b, c;
    struct buf heard;
    char line[512];

    require_auth();
    a = come();
    b = come();
    c = come();
    say(&a, "LOCK x\nAUTH sesame\nLOCK x\n");
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    say(&b, line);
    say_times(&c, "PING 1234\n", 40);
    settle();
    expect(&a, "-NOAUTH Authentication required.\r\n+OK\r\n:101\r\n");
    ck_assert_ptr_null(session_find(engine, b.id)); /* one line that is too long */
    ck_assert_ptr_null(session_find(engine, c.id)); /* many short ones */
    buf_init(&heard, 0);
    hear(&c, &heard);
    ck_assert_ptr_nonnull(strstr(heard.p, "-ERR Protocol error: "));
    buf_fini(&heard);
    say(&a, "PING ");
    say(&a, line); /* the usual limits hold now */
    say(&a, "\n");
    settle();
    ck_assert_ptr_nonnull(session_find(engine, a.id));
    close(b.fd);
    close(c.fd);
    leave(&a);
}
END_TEST

static bool
one_session_left(void)
{
    return engine->sessions_n == 1;
}

START_TEST(who_does_not_log_in_is_closed)
{
    struct client slow, fine;

    require_auth();
    conf->auth_timeout_us = 20 * US_PER_MS;
    slow = come();
    fine = come();
    say(&fine, "AUTH sesame\n");
    settle();
    ck_assert(wait_for(one_session_left));
    ck_assert_ptr_null(session_find(engine, slow.id));
    expect(&slow, "<end>");
    expect(&fine, "+OK\r\n");
    close(slow.fd);
    leave(&fine);
}
END_TEST

START_TEST(who_quits_without_reading_is_closed_in_the_end)
{
    struct client c = come(), other = come();

    conf->dead_peer_us = 20 * US_PER_MS;
    ck_assert_int_eq(setsockopt(c.s->fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
    say(&c, "COMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nQUIT\n");
    ck_assert(wait_for(one_session_left));
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.output_overflows, 1);
    close(c.fd);
    leave(&other);
}
END_TEST

static bool
nobody_left(void)
{
    return engine->sessions_n == 0;
}

START_TEST(a_lost_lock_closes_where_the_rule_says_so)
{
    struct client c;

    conf->locks.lease_us = 60 * US_PER_MS;
    conf->locks.on_loss = CONF_LOSS_CLOSE;
    redis->extends = CORE_GONE_IN_REDIS;
    c = come();
    say(&c, "LOCK a\n");
    settle();
    expect(&c, ":101\r\n");
    ck_assert(wait_for(nobody_left));
    expect(&c, "<end>");
    ck_assert_uint_eq(engine->metrics.lost, 1);
    close(c.fd);
}
END_TEST

/* The kernel's patience with the peer of a session's socket, in milliseconds. */
static int
user_timeout_ms(const struct session *s)
{
    int ms = 0;
    socklen_t n = sizeof(ms);

    ck_assert_int_eq(getsockopt(s->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &n), 0);
    return ms;
}

START_TEST(a_reload_reaches_who_is_here_already)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int on = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct client c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    socklen_t n = sizeof(addr);

    ck_assert_int_eq(bind(on, (struct sockaddr *)&addr, n), 0);
    ck_assert_int_eq(listen(on, 1), 0);
    ck_assert_int_eq(getsockname(on, (struct sockaddr *)&addr, &n), 0);
    ck_assert_int_eq(connect(c.fd, (struct sockaddr *)&addr, n), 0);
    c.s = session_open(engine, accept4(on, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), false, "tcp:test");
    c.id = c.s->id;
    ck_assert_int_eq(user_timeout_ms(c.s), 10000);
    conf->dead_peer_us = 20 * US_PER_S;
    engine_reload(engine, conf);
    ck_assert_int_eq(user_timeout_ms(c.s), 20000);
    leave(&c);
    close(on);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        bad_framing_is_answered_behind_the_rest_then_closed,
        a_browser_gets_no_answer,
        output_that_nobody_reads_ends_the_session,
        one_large_reply_may_drain,
        reading_goes_on_at_half,
        too_many_sessions_are_refused_in_words,
        before_auth_little_is_taken,
        who_does_not_log_in_is_closed,
        who_quits_without_reading_is_closed_in_the_end,
        a_lost_lock_closes_where_the_rule_says_so,
        a_reload_reaches_who_is_here_already,
    };
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));

    tcase_add_loop_test(tc, too_many_unanswered_requests_are_not_read, 0, 2);
    return house_run("session limits", tc);
}
