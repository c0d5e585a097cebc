/*
 * test_rlock_client.c -- the connection of the command line: no call lasts longer than the time that it was given, and
 * no connection longer than its daemon.
 */
#undef fail /* a macro of Check */
#include "daemon/rlock_client.c"

#include "daemon/base/memory.h"
#include "tests/unit/suite.h"

/* No time is left, as after a stop of the process before the call. */
START_TEST(no_time_is_not_for_ever)
{
    static const int64_t over_us[] = {0, -1, -5 * US_PER_S};

    for (size_t i = 0; i < sizeof(over_us) / sizeof(over_us[0]); i++) {
        struct client c;
        int ends[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        client_init(&c);
        c.fd = ends[0];
        alarm(10);
        ck_assert_ptr_null(client_wait(&c, over_us[i]));
        ck_assert_str_eq(c.error, "no answer: Connection timed out");
        alarm(0);
        client_close(&c);
        close(ends[1]);
    }
}
END_TEST

/* The queue of the listening socket is full, so connect() waits; without time it must not. */
START_TEST(no_time_to_connect)
{
    char dir[] = "/tmp/rlock-client.XXXXXX", addr[80];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd[8];
    struct client c;
    size_t n = 0;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
    snprintf(addr, sizeof(addr), "unix:%s/s", dir);
    ck_assert_int_eq(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    do {
        ck_assert_uint_lt(n, sizeof(fd) / sizeof(fd[0]));
        fd[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    } while (connect(fd[n++], (const struct sockaddr *)&at, sizeof(at)) == 0);
    ck_assert_int_eq(errno, EAGAIN);
    for (int64_t us = -US_PER_S; us <= 0; us += US_PER_S) {
        alarm(10);
        ck_assert(!client_open(&c, addr, NULL, us));
        ck_assert_ptr_nonnull(strstr(c.error, "Connection timed out"));
        alarm(0);
        client_close(&c);
    }
    while (n > 0) {
        close(fd[--n]);
    }
    close(listener);
    unlink(at.sun_path);
    rmdir(dir);
}
END_TEST

static int
option(int fd, int level, int name)
{
    int value = -1;
    socklen_t n = sizeof(value);

    ck_assert_int_eq(getsockopt(fd, level, name, &value, &n), 0);
    return value;
}

/* `rlock run` waits for the lock without sending anything: only the kernel can notice that the host has vanished. */
START_TEST(a_host_that_vanishes)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0), silent_s;
    struct client c;
    char addr[40];

    ck_assert_int_eq(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    snprintf(addr, sizeof(addr), "tcp:127.0.0.1:%d", ntohs(at.sin_port));
    ck_assert(client_open(&c, addr, NULL, US_PER_S));
    ck_assert_int_eq(option(c.fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    silent_s = option(c.fd, IPPROTO_TCP, TCP_KEEPIDLE) +
               option(c.fd, IPPROTO_TCP, TCP_KEEPINTVL) * option(c.fd, IPPROTO_TCP, TCP_KEEPCNT);
    ck_assert_int_le(silent_s, 12);
    ck_assert_int_eq(option(c.fd, IPPROTO_TCP, TCP_USER_TIMEOUT), silent_s * 1000);
    client_close(&c);
    close(listener);
}
END_TEST

static void *
no_memory(const redisReadTask *task, char *text, size_t n)
{
    (void)task;
    (void)text;
    (void)n;
    return NULL;
}

/* A failed allocation is no bad reply of the daemon: the process ends. */
START_TEST(out_of_memory)
{
    const struct redisReply *v;
    struct client c;

    client_init(&c);
    c.functions.createString = no_memory;
    ck_assert_int_eq(redisReaderFeed(c.reader, "+OK\r\n", 5), REDIS_OK);
    (void)client_next(&c, &v);
}
END_TEST

/* hiredis reports an array that create_array() refuses as a failed allocation: the reply is bad. */
START_TEST(an_array_that_no_rlockd_sends)
{
    const struct redisReply *v;
    struct client c;

    client_init(&c);
    ck_assert_int_eq(redisReaderFeed(c.reader, "*5000000\r\n", 10), REDIS_OK);
    ck_assert_int_eq(client_next(&c, &v), CLIENT_BAD);
    ck_assert_str_eq(c.error, "the reply is not rlockd's");
    client_close(&c);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {no_time_is_not_for_ever, no_time_to_connect, a_host_that_vanishes,
                            an_array_that_no_rlockd_sends};
    Suite *s = suite_create("rlock's connection");
    TCase *t = tcase_create("all");

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(t, tests[i]);
    }
    if (getenv("CK_FORK") == NULL) { /* the test ends its process; valgrind runs all tests in one process */
        tcase_add_exit_test(t, out_of_memory, MEMORY_STATUS);
    }
    suite_add_tcase(s, t);
    return suite_run(s);
}
