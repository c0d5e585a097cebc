/*
 * test_listener.c -- addresses, stale and foreign socket files, adopted sockets, real connections.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/house.h"

#include "daemon/serve/listener.h"
#include "daemon/serve/session_out.h"

static char dir[64], path[96], addr[112];

static void
move_in(void)
{
    build();
    snprintf(dir, sizeof(dir), "/tmp/rlockd-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/sub/l.sock", dir);
    snprintf(addr, sizeof(addr), "unix:%s", path);
}

static void
move_out(void)
{
    char sub[96];

    take_down();
    (void)unlink(path);
    snprintf(sub, sizeof(sub), "%s/sub", dir);
    (void)rmdir(sub);
    ck_assert_int_eq(rmdir(dir), 0);
}

static struct listener *
listener_open(struct engine *e, const char *at, char error[160])
{
    struct listening on;

    return listening_open(&on, at, (unsigned)e->conf->socket_mode, error) ? listener_serve(e, &on, error) : NULL;
}

static struct listener *
listener_adopt(struct engine *e, int fd, char error[160])
{
    struct listening on;

    return listening_adopt(&on, fd, error) ? listener_serve(e, &on, error) : NULL;
}

static struct listener *
must_open(const char *where)
{
    char error[160] = "";
    struct listener *l = listener_open(engine, where, error);

    ck_assert_msg(l != NULL, "%s", error);
    return l;
}

static void
must_refuse(const char *where, const char *why)
{
    char error[160] = "";

    ck_assert_ptr_null(listener_open(engine, where, error));
    ck_assert_msg(strstr(error, why) != NULL, "%s: \"%s\", want \"%s\"", where, error, why);
}

/* A client that has connected; -1: no listener. */
static int
call(const struct sockaddr *to, socklen_t n)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    if (connect(fd, to, n) != 0) {
        close(fd);
        return -1;
    }
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int
call_path(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    return call((struct sockaddr *)&un, sizeof(un));
}

START_TEST(a_unix_socket_serves_with_its_mode_and_goes_with_us)
{
    struct listener *l = must_open(addr); /* makes the missing directory, too */
    struct client c = {.fd = -1};
    struct stat st;

    ck_assert_str_eq(listener_addr(l), addr);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0660);
    c.fd = call_path();
    ck_assert_int_ge(c.fd, 0);
    settle();
    ck_assert_uint_eq(engine->sessions_n, 1);
    sends(&c, "PING\n");
    settle();
    expect(&c, "+PONG\r\n");
    c.s = container_of(engine->sessions.next, struct session, node);
    ck_assert_int_eq(c.s->pid, getpid());
    ck_assert_uint_eq(c.s->uid, getuid());
    listener_close(&l);
    ck_assert_int_eq(lstat(path, &st), -1);
    sends(&c, "PING\n"); /* a session that is open stays */
    settle();
    expect(&c, "+PONG\r\n");
    close(c.fd);
    settle();
}
END_TEST

START_TEST(a_stale_socket_is_replaced_and_a_live_one_is_not)
{
    struct listener *l = must_open(addr);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd;

    must_refuse(addr, "already running");
    listener_close(&l);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    close(fd); /* as after the kill of a daemon: the file is there, and no process listens */
    l = must_open(addr);
    listener_close(&l);
}
END_TEST

/* A daemon that has bound its socket and does not listen yet looks like a killed one; its lock shows the difference. */
START_TEST(a_socket_between_bind_and_listen_is_not_replaced)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct path_lock lock;
    struct stat was, is;
    char file[128], error[160];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(file, sizeof(file), "%s/sub", dir);
    ck_assert_int_eq(mkdir(file, 0700), 0);
    snprintf(file, sizeof(file), "%s.lock", path);
    ck_assert_msg(path_lock_take(&lock, file, error), "%s", error);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_int_eq(lstat(path, &was), 0);
    snprintf(error, sizeof(error), "already running: process %ld has it", (long)getpid());
    must_refuse(addr, error);
    ck_assert_int_eq(lstat(path, &is), 0);
    ck_assert_uint_eq(is.st_ino, was.st_ino);
    close(fd);
    path_lock_release(&lock);
    ck_assert_int_eq(lstat(file, &is), -1);
}
END_TEST

/* The file may be removed and made anew between open() and flock(): only a lock on the file at the path counts. */
START_TEST(a_lock_on_a_removed_file_locks_nothing)
{
    struct path_lock first, second;
    char file[128], error[160];

    snprintf(file, sizeof(file), "%s/x.lock", dir);
    ck_assert(path_lock_take(&first, file, error));
    ck_assert(!path_lock_take(&second, file, error));
    path_lock_release(&second); /* which has no lock */
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_msg(path_lock_take(&second, file, error), "%s", error);
    path_lock_release(&first); /* now the second one has locked the file */
    ck_assert(!path_lock_take(&first, file, error));
    path_lock_release(&second);
    ck_assert_int_eq(access(file, F_OK), -1);
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_left_alone)
{
    struct listener *l = must_open(addr);
    struct stat st;
    int fd;

    listener_close(&l);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    must_refuse(addr, strerror(EEXIST));
    ck_assert_int_eq(lstat(path, &st), 0);
    must_refuse(addr, strerror(EEXIST)); /* and no lock was left */
}
END_TEST

START_TEST(another_daemons_socket_is_not_removed)
{
    struct listener *l = must_open(addr);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(unlink(path), 0);
    must_refuse(addr, "already running: process "); /* this daemon still has the name */
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0); /* by a program that takes no lock */
    listener_close(&l);
    ck_assert_int_eq(lstat(path, &st), 0);
    close(fd);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(tcp_finds_a_free_port_and_reports_it)
{
    struct listener *l = must_open("tcp:127.0.0.1:0");
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct client c = {.fd = -1};
    unsigned port = 0;

    ck_assert_int_eq(sscanf(listener_addr(l), "tcp:127.0.0.1:%u", &port), 1);
    ck_assert_uint_gt(port, 0);
    must_refuse(listener_addr(l), strerror(EADDRINUSE));
    in.sin_port = htons((uint16_t)port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c.fd = call((struct sockaddr *)&in, sizeof(in));
    ck_assert_int_ge(c.fd, 0);
    sends(&c, "PING\n");
    settle();
    expect(&c, "+PONG\r\n");
    close(c.fd);
    settle();
    listener_close(&l);
    ck_assert_int_eq(call((struct sockaddr *)&in, sizeof(in)), -1);
}
END_TEST

/* The number of TCP sockets for which the kernel has this timeout of a vanished peer. */
static int
count_dead_peer(int64_t us)
{
    struct list *node;
    int n = 0;

    for (node = engine->sessions.next; node != &engine->sessions; node = node->next) {
        unsigned ms = 0;
        socklen_t size = sizeof(ms);

        ck_assert_int_eq(getsockopt(container_of(node, struct session, node)->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms,
                                    &size), 0);
        n += ms == us / US_PER_MS;
    }
    return n;
}

/* A new dead_peer is set on open connections as well, on a slice of them in each turn, also if one closes meanwhile. */
START_TEST(a_reload_sets_sockets_in_slices)
{
    enum { CALLS = 300, SLICE = 256 };
    struct listener *l = must_open("tcp:127.0.0.1:0");
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct conf now = *conf;
    int fd[CALLS];
    unsigned port;

    ck_assert_int_eq(sscanf(listener_addr(l), "tcp:127.0.0.1:%u", &port), 1);
    in.sin_port = htons((uint16_t)port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CALLS; i++) {
        fd[i] = call((struct sockaddr *)&in, sizeof(in));
        ck_assert_int_ge(fd[i], 0);
        settle();
    }
    ck_assert_int_eq(count_dead_peer(conf->dead_peer_us), CALLS);
    now.dead_peer_us += 7 * US_PER_S;
    engine_reload(engine, &now);
    ck_assert_int_eq(count_dead_peer(now.dead_peer_us), SLICE);
    session_close(container_of(engine->peer_at, struct session, node), CLOSE_QUIT);
    ck_assert(!engine_turn(engine));
    ck_assert_int_eq(count_dead_peer(now.dead_peer_us), CALLS - 1);
    ck_assert_ptr_null(engine->peer_at);
    engine_reload(engine, conf);
    for (int i = 0; i < CALLS; i++) {
        close(fd[i]);
    }
    settle();
    listener_close(&l);
}
END_TEST

START_TEST(the_same_over_ipv6)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct client c = {.fd = -1};
    char error[160] = "", peer[96];
    struct listener *l = listener_open(engine, "tcp:[::1]:0", error);
    struct session *s;
    unsigned port = 0;

    if (l == NULL) {
        return; /* a machine without IPv6 */
    }
    ck_assert_int_eq(sscanf(listener_addr(l), "tcp:[::1]:%u", &port), 1);
    in.sin6_port = htons((uint16_t)port);
    c.fd = call((struct sockaddr *)&in, sizeof(in));
    ck_assert_int_ge(c.fd, 0);
    sends(&c, "PING\n");
    settle();
    expect(&c, "+PONG\r\n");
    s = container_of(engine->sessions.next, struct session, node);
    ck_assert_int_eq(sscanf(s->peer, "[::1]:%u", &port), 1);
    snprintf(peer, sizeof(peer), "[::1]:%u", port);
    ck_assert_str_eq(s->peer, peer);
    close(c.fd);
    settle();
    listener_close(&l);
}
END_TEST

/* Calls the port at that address of this machine; the peer is shown as that text and its port. */
static void
must_serve(const struct sockaddr *to, socklen_t n, const char *host)
{
    struct client c = {.fd = call(to, n)};
    char peer[64];

    ck_assert_int_ge(c.fd, 0);
    sends(&c, "PING\n");
    settle();
    expect(&c, "+PONG\r\n");
    snprintf(peer, sizeof(peer), "%s:", host);
    ck_assert_msg(strncmp(container_of(engine->sessions.next, struct session, node)->peer, peer, strlen(peer)) == 0,
                  "not from %s", peer);
    close(c.fd);
    settle();
}

START_TEST(a_star_means_every_address_of_both_families)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct listener *l = must_open("tcp:*:0");
    unsigned port = 0;

    if (sscanf(listener_addr(l), "tcp:0.0.0.0:%u", &port) == 1) { /* a machine without IPv6? */
        ck_assert_int_lt(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
    } else {
        ck_assert_int_eq(sscanf(listener_addr(l), "tcp:[::]:%u", &port), 1);
        in6.sin6_port = htons((uint16_t)port);
        must_serve((struct sockaddr *)&in6, sizeof(in6), "[::1]");
    }
    in4.sin_port = htons((uint16_t)port);
    must_serve((struct sockaddr *)&in4, sizeof(in4), "127.0.0.1");
    listener_close(&l);
}
END_TEST

/* Not the half that is left, of the other family. */
START_TEST(a_star_is_refused_where_one_family_is_taken)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    socklen_t n = sizeof(in6);
    int one = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char where[32];

    if (fd < 0) {
        return; /* a machine without IPv6 */
    }
    ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in6, n), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in6, &n), 0);
    snprintf(where, sizeof(where), "tcp:*:%u", (unsigned)ntohs(in6.sin6_port));
    must_refuse(where, "in use");
    close(fd);
}
END_TEST

START_TEST(bad_addresses_are_refused_with_a_reason)
{
    must_refuse("udp:127.0.0.1:1", "not unix:PATH or tcp:HOST:PORT");
    must_refuse("tcp:127.0.0.1", "not HOST:PORT");
    must_refuse("tcp:127.0.0.1:", "not HOST:PORT");
    must_refuse("tcp:127.0.0.1:http", "");
    must_refuse("tcp:[::1:0", "");
    must_refuse("unix:", "empty or too long");
    must_refuse("unix:/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/"
                "0123456789/0123456789",
                "empty or too long");
    must_refuse("unix:/proc/no/such/place", "");
}
END_TEST

START_TEST(a_passed_socket_is_adopted_and_its_path_stays)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct listener *l = must_open(addr);
    char error[160] = "";
    struct stat st;
    int fd, call_fd;

    listener_close(&l);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    ck_assert_ptr_null(listener_adopt(engine, dup(fd), error)); /* it does not listen */
    ck_assert_int_eq(listen(fd, 1), 0);
    l = listener_adopt(engine, fd, error);
    ck_assert_msg(l != NULL, "%s", error);
    ck_assert_str_eq(listener_addr(l), addr);
    call_fd = call_path();
    settle();
    ck_assert_uint_eq(engine->sessions_n, 1);
    close(call_fd);
    settle();
    listener_close(&l);
    ck_assert_int_eq(lstat(path, &st), 0);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_unix_socket_serves_with_its_mode_and_goes_with_us,
        a_stale_socket_is_replaced_and_a_live_one_is_not,
        a_socket_between_bind_and_listen_is_not_replaced,
        a_lock_on_a_removed_file_locks_nothing,
        a_file_that_is_no_socket_is_left_alone,
        another_daemons_socket_is_not_removed,
        tcp_finds_a_free_port_and_reports_it,
        the_same_over_ipv6,
        a_star_means_every_address_of_both_families,
        a_star_is_refused_where_one_family_is_taken,
        a_reload_sets_sockets_in_slices,
        bad_addresses_are_refused_with_a_reason,
        a_passed_socket_is_adopted_and_its_path_stays,
    };
    TCase *tc = tcase_create("listener");
    size_t i;

    tcase_add_checked_fixture(tc, move_in, move_out);
    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    return house_run("listener", tc);
}
