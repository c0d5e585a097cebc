/*
 * test_session_limits.c -- what the daemon does not let a session do: bad framing, too much, too long, without AUTH.
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

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "PING\nLOCK a\n*1\r\n$x\r\nPING\n");
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
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

    sends(&c, "POST / HTTP/1.1\r\nHost: x\r\n\r\nLOCK a\r\n");
    sends(&d, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    settle();
    expect(&c, "<end>");
    ck_assert_ptr_null(session_find(engine, d.id));
    ck_assert_uint_eq(redis->acquires, 0);
    close(c.fd);
    close(d.fd);
}
END_TEST

START_TEST(output_that_is_not_read_ends_the_session)
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
    ck_assert_ptr_nonnull(session_find(engine, c.id)); /* held up, not closed: the client may only be slow */
    ck_assert_uint_lt(session_find(engine, c.id)->out.bytes.n, 4096 + 64);
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
    sends(&c, "COMMAND DOCS\nCOMMAND DOCS\nPING done\n");
    buf_init(&b, 0);
    for (i = 0; i < 1000 && ends == 0; i++) {
        turn();
        receives(&c, &b);
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
    struct buf b;
    int i, limit = limits[_i];

    conf->limit_pipeline = limit;
    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a\n");
    sends_times(&c, "PING\n", 3 * limit);
    settle();
    ck_assert_uint_eq(c.s->slots_n, (unsigned)limit);
    ck_assert_uint_eq(c.s->requests_n, (unsigned)limit);
    shutdown(c.fd, SHUT_WR); /* EOF is noticed without a read: all requests are answered */
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_int_eq(memcmp(b.p, "$-1\r\n", 5), 0);
    for (i = 0; i < 3 * limit; i++) {
        ck_assert_int_eq(memcmp(b.p + 5 + 7 * i, "+PONG\r\n", 7), 0);
    }
    ck_assert_str_eq(b.p + 5 + 7 * i, "<end>");
    buf_fini(&b);
    close(c.fd);
    leave(&holder);
}
END_TEST

START_TEST(reading_goes_on_when_there_are_fewer)
{
    struct client holder = come(), c = come();

    conf->limit_pipeline = 4;
    sends(&holder, "LOCK a\nLOCK b\n");
    settle();
    sends(&c, "LOCK a\nPING\nLOCK b\nPING\nPING\nPING\nPING\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 4);
    sends(&holder, "UNLOCK a\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 6);
    ck_assert_uint_eq(c.s->slots_n, 4);
    sends(&holder, "UNLOCK b\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 7);
    ck_assert_uint_eq(c.s->slots_n, 0);
    leave(&c);
    leave(&holder);
}
END_TEST

/* ---- a connection with several owners ---- */

/* How many times `what` is in the text. */
static int
times(const char *text, const char *what)
{
    int n = 0;

    for (text = strstr(text, what); text != NULL; text = strstr(text + 1, what)) {
        n++;
    }
    return n;
}

#define CROWDED "-LIMIT too many requests of this connection wait behind this one\r\n"

/* The UNLOCK of the lock stands behind as many requests as the connection may have. */
START_TEST(a_shared_connection_never_locks_itself_out)
{
    static const int limits[] = {1, 4, 256, 1024};
    struct client c = come();
    char line[64];
    struct buf b;
    int i, limit = limits[_i], more = 5;

    conf->limit_pipeline = limit;
    sends(&c, "LOCK hot OWNER o0\n");
    settle();
    buf_init(&b, 0);
    for (i = 1; i <= limit + more; i++) {
        snprintf(line, sizeof(line), "LOCK hot OWNER o%d\n", i);
        buf_adds(&b, line);
    }
    ck_assert_int_eq(send(c.fd, b.p, b.n, MSG_NOSIGNAL), (ssize_t)b.n);
    settle();
    ck_assert_uint_eq(c.s->slots_n, (unsigned)limit); /* the oldest ones get LIMIT at once ... */
    buf_clear(&b, 0);
    receives(&c, &b);
    ck_assert_int_eq(strncmp(b.p, ":101\r\n" CROWDED, 6 + strlen(CROWDED)), 0);
    ck_assert_int_eq(times(b.p, CROWDED), more);
    sends(&c, "UNLOCK hot OWNER o0\n"); /* ... and this is read */
    settle();
    buf_clear(&b, 0);
    receives(&c, &b);
    ck_assert_int_eq(times(b.p, CROWDED), 1);
    ck_assert_int_eq(times(b.p, ":10"), limit > 1); /* of those that are left, the first waiter gets it */
    ck_assert_uint_eq(c.s->requests_n, (unsigned)(limit + more + 2));
    ck_assert_uint_eq(engine->metrics.limited, (unsigned)more + 1);
    buf_fini(&b);
    leave(&c);
}
END_TEST

/*
 * An MLOCK that gives way releases its names; a request behind its owner's wait on another connection gives way, too.
 */
START_TEST(every_waiting_request_gives_way)
{
    struct client other = come(), c = come();

    conf->limit_pipeline = 2;
    sends(&other, "LOCK yours\n");
    settle();
    expect(&other, ":101\r\n");
    sends(&c, "MLOCK 2 free yours OWNER m\nPING\nPING\n");
    settle();
    expect(&c, "-LIMIT too many requests of this connection wait behind this one: \"yours\"\r\n+PONG\r\n+PONG\r\n");
    sends(&other, "LOCK free NOWAIT\nLOCK hot\n"); /* the name was released */
    settle();
    expect(&other, ":103\r\n:104\r\n");
    sends(&other, "LOCK yours OWNER x\n");
    sends(&c, "LOCK hot OWNER x\nPING\n");
    settle();
    expect(&c, ""); /* it has not begun: x waits for another lock on the other connection */
    sends(&c, "PING\n");
    settle();
    expect(&c, CROWDED "+PONG\r\n+PONG\r\n");
    leave(&c);
    leave(&other);
}
END_TEST

/* Requests that wait for Redis only do not give way, however much input is left. */
START_TEST(a_request_at_redis_does_not_give_way)
{
    struct client c = come();

    conf->limit_pipeline = 2;
    sends(&c, "LOCK a OWNER o1\nLOCK b OWNER o2\nLOCK c OWNER o3\nLOCK d OWNER o4\n");
    turn();
    ck_assert_uint_eq(c.s->requests_n, 2);
    settle();
    expect(&c, ":101\r\n:102\r\n:103\r\n:104\r\n");
    leave(&c);
}
END_TEST

/* ---- memory ---- */

/* Large requests, and large replies, behind a wait: their memory is bounded, whichever they are. */
START_TEST(requests_behind_a_wait_are_bounded)
{
    static const char *const large[] = {"PING ", "MUNLOCK 1 "}; /* a request that is kept; a reply that is kept */
    struct client holder = come(), c = come();
    size_t kib = 64, sent = 0;
    char line[4096];

    conf->limit_pipeline_bytes = (int64_t)kib * 1024;
    memset(line, 'x', sizeof(line));
    memcpy(line, large[_i], strlen(large[_i]));
    line[_i == 0 ? sizeof(line) - 1 : 500] = '\n';
    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a\n");
    for (int i = 0; i < 20000; i++) {
        ssize_t n = send(c.fd, line, _i == 0 ? sizeof(line) : 501, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0) {
            turn();
            n = send(c.fd, line, _i == 0 ? sizeof(line) : 501, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        if (n < 0) {
            break;
        }
        sent += (size_t)n;
    }
    settle();
    ck_assert_uint_gt(sent, kib * 1024);
    ck_assert_uint_ge(c.s->slots_bytes, kib * 1024 - 8192);
    ck_assert_uint_le(c.s->slots_bytes, kib * 1024 + 16384); /* one request more, at most */
    sends(&holder, "UNLOCK a\n");
    settle();
    ck_assert_uint_eq(c.s->slots_bytes, 0);
    leave(&c);
    leave(&holder);
}
END_TEST

/* ---- which connections are accepted ---- */

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

/* Bytes that are no request count as well. */
START_TEST(before_auth_little_is_skipped)
{
    static const char *const skipped[] = {"\n", "\r\n", "*0\r\n", "*-1\r\n"};
    const char *one = skipped[_i];
    int most;
    struct client a, b;
    struct buf received;

    require_auth();
    a = come();
    b = come();
    most = (int)((size_t)conf->auth_bytes / strlen(one));
    sends_times(&a, one, most);
    sends(&a, "AUTH sesame\n");
    sends_times(&a, one, 2 * most);
    sends(&a, "LOCK x\n");
    for (int i = 0; i <= most; i++) { /* each is read alone */
        ck_assert_ptr_nonnull(session_find(engine, b.id));
        sends(&b, one);
        settle();
    }
    expect(&a, "+OK\r\n:101\r\n");
    ck_assert_ptr_null(session_find(engine, b.id));
    buf_init(&received, 0);
    receives(&b, &received);
    ck_assert_ptr_nonnull(strstr(received.p, "-ERR Protocol error: too much before AUTH"));
    buf_fini(&received);
    close(b.fd);
    leave(&a);
}
END_TEST

START_TEST(before_auth_little_is_taken)
{
    struct client a, b, c;
    struct buf received;
    char line[512];

    require_auth();
    a = come();
    b = come();
    c = come();
    sends(&a, "LOCK x\nAUTH sesame\nLOCK x\n");
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    sends(&b, line);
    sends_times(&c, "PING 1234\n", 40);
    settle();
    expect(&a, "-NOAUTH Authentication required.\r\n+OK\r\n:101\r\n");
    ck_assert_ptr_null(session_find(engine, b.id)); /* one line that is too long */
    ck_assert_ptr_null(session_find(engine, c.id)); /* many short ones */
    buf_init(&received, 0);
    receives(&c, &received);
    ck_assert_ptr_nonnull(strstr(received.p, "-ERR Protocol error: "));
    buf_fini(&received);
    sends(&a, "PING ");
    sends(&a, line); /* the usual limits hold now */
    sends(&a, "\n");
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

START_TEST(a_session_that_does_not_log_in_is_closed)
{
    struct client slow, fine;

    require_auth();
    conf->auth_timeout_us = 20 * US_PER_MS;
    slow = come();
    fine = come();
    sends(&fine, "AUTH sesame\n");
    settle();
    ck_assert(wait_for(one_session_left));
    ck_assert_ptr_null(session_find(engine, slow.id));
    expect(&slow, "<end>");
    expect(&fine, "+OK\r\n");
    close(slow.fd);
    leave(&fine);
}
END_TEST

START_TEST(a_session_that_quits_without_reading_is_closed_in_the_end)
{
    struct client c = come(), other = come();

    conf->dead_peer_us = 20 * US_PER_MS;
    ck_assert_int_eq(setsockopt(c.s->fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
    sends(&c, "COMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nCOMMAND DOCS\nQUIT\n");
    ck_assert(wait_for(one_session_left));
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.output_overflows, 1);
    close(c.fd);
    leave(&other);
}
END_TEST

static bool
no_session_left(void)
{
    return engine->sessions_n == 0;
}

START_TEST(a_lost_lock_closes_the_session_by_rule)
{
    struct client c;

    conf->locks.lease_us = 60 * US_PER_MS;
    conf->locks.on_loss = CONF_LOSS_CLOSE;
    redis->extends = CORE_GONE_IN_REDIS;
    c = come();
    sends(&c, "LOCK a\n");
    settle();
    expect(&c, ":101\r\n");
    ck_assert(wait_for(no_session_left));
    expect(&c, "<end>");
    ck_assert_uint_eq(engine->metrics.lost, 1);
    close(c.fd);
}
END_TEST

/* The kernel's timeout for the peer of a session's socket, in milliseconds. */
static int
user_timeout_ms(const struct session *s)
{
    int ms = 0;
    socklen_t n = sizeof(ms);

    ck_assert_int_eq(getsockopt(s->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &n), 0);
    return ms;
}

START_TEST(a_reload_reaches_open_sessions)
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
        output_that_is_not_read_ends_the_session,
        one_large_reply_may_drain,
        reading_goes_on_when_there_are_fewer,
        every_waiting_request_gives_way,
        a_request_at_redis_does_not_give_way,
        too_many_sessions_are_refused_in_words,
        before_auth_little_is_taken,
        a_session_that_does_not_log_in_is_closed,
        a_session_that_quits_without_reading_is_closed_in_the_end,
        a_lost_lock_closes_the_session_by_rule,
        a_reload_reaches_open_sessions,
    };
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));

    tcase_add_loop_test(tc, before_auth_little_is_skipped, 0, 4);
    tcase_add_loop_test(tc, too_many_unanswered_requests_are_not_read, 0, 2);
    tcase_add_loop_test(tc, a_shared_connection_never_locks_itself_out, 0, 4);
    tcase_add_loop_test(tc, requests_behind_a_wait_are_bounded, 0, 2);
    return house_run("session limits", tc);
}
