/*
 * test_resolver.c -- which name server is asked after a change of resolv.conf, while lookups of before are pending.
 */
#define RESOLV_CONF resolv_conf

static char resolv_conf[64]; /* the test's own */

#include "daemon/backend/resolver.c"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "suite.h"

#ifdef RLOCKD_TEST_CLOCK

static struct event_base *base;
static struct resolver *r;
static int server[2]; /* sockets of name servers that never answer */

static int
bind_server(struct sockaddr_in *at)
{
    socklen_t n = sizeof(*at);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)at, &n), 0);
    return fd;
}

/* resolv.conf names this server from now on. */
static void
configure(int i)
{
    struct sockaddr_in at;
    socklen_t n = sizeof(at);
    FILE *f = fopen(resolv_conf, "w");

    ck_assert_int_eq(getsockname(server[i], (struct sockaddr *)&at, &n), 0);
    fprintf(f, "nameserver 127.0.0.1:%d\n", ntohs(at.sin_port));
    fclose(f);
}

static bool
is_asked(int i)
{
    char bytes[512];
    bool asked = false;

    for (int turns = 0; turns < 50; turns++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
        while (recv(server[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
            asked = true;
        }
    }
    return asked;
}

static void
on_found(void *ctx, const char *error)
{
    (void)ctx;
    (void)error;
    ck_abort_msg("no answer");
}

static void
world_begin(void)
{
    struct sockaddr_in at;

    snprintf(resolv_conf, sizeof(resolv_conf), "/tmp/test_resolver.%d", (int)getpid());
    base = event_base_new();
    for (int i = 0; i < 2; i++) {
        server[i] = bind_server(&at);
    }
    configure(0);
    r = resolver_new(base);
}

static void
world_end(void)
{
    resolver_free(&r);
    resolver_run_until_freed(base);
    event_base_free(base);
    close(server[0]);
    close(server[1]);
    unlink(resolv_conf);
}

/* Many links look hosts up, so that some lookup is always pending. */
START_TEST(a_change_applies_while_a_lookup_is_pending)
{
    struct addresses to[3] = {{0}, {0}, {0}};
    struct lookup *q[3];

    q[0] = resolver_ask(r, "redis.example", 6379, &to[0], on_found, NULL);
    ck_assert(is_asked(0));
    configure(1);
    clock_advance_us(READ_US);
    q[1] = resolver_ask(r, "redis.example", 6379, &to[1], on_found, NULL);
    ck_assert(is_asked(1));
    q[2] = resolver_ask(r, "redis.example", 6379, &to[2], on_found, NULL);
    ck_assert_ptr_eq(q[1]->dns, q[2]->dns); /* the files were read just now */
    ck_assert_ptr_ne(q[0]->dns, q[1]->dns);
    for (int i = 0; i < 3; i++) {
        resolver_cancel(&q[i]);
    }
}
END_TEST

/* A lookup of before the change ends in its own time, and what it used with it. */
START_TEST(the_end_of_an_earlier_lookup_ends_no_later_one)
{
    struct addresses to[2] = {{0}, {0}};
    struct lookup *q[2];

    q[0] = resolver_ask(r, "redis.example", 6379, &to[0], on_found, NULL);
    configure(1);
    clock_advance_us(READ_US);
    q[1] = resolver_ask(r, "redis.example", 6379, &to[1], on_found, NULL);
    resolver_cancel(&q[0]);
    ck_assert(is_asked(1));
    ck_assert_uint_eq(q[1]->dns->lookups_n, 1);
    resolver_cancel(&q[1]);
    (void)is_asked(1);
    ck_assert_uint_eq(r->dns->lookups_n, 0);
}
END_TEST

#endif

int
main(void)
{
#ifdef RLOCKD_TEST_CLOCK
    const TTest *const tests[] = {
        a_change_applies_while_a_lookup_is_pending,
        the_end_of_an_earlier_lookup_ends_no_later_one,
    };

    return suite_main_with("resolver", tests, sizeof(tests) / sizeof(tests[0]), world_begin, world_end);
#else
    return 0;
#endif
}
