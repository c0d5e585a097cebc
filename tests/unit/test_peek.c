/*
 * test_peek.c -- the daemon peeks at a session that is alone in its process, and reads after the answer: no byte is
 * lost or read twice, and a client that sleeps in recv() sleeps until its answer.
 */
#include <check.h>
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/house.h"

#include "daemon/serve/session_out.h"

/* ---- the calls of the daemon for one of its sockets, in their order: peek, read, write ---- */

static int noted = -1; /* the socket */
static char notes[32];
static int fails[2];   /* the errno of its next reads, 0 = success */
static unsigned looked_at;

static void
note(int fd, char what)
{
    size_t n = strlen(notes);

    if (fd == noted && n + 1 < sizeof(notes)) {
        notes[n] = what;
    }
}

ssize_t
recv(int fd, void *p, size_t n, int flags)
{
    note(fd, (flags & MSG_PEEK) != 0 ? 'l' : 'r');
    if (fd == noted && (flags & MSG_PEEK) == 0 && fails[0] != 0) {
        errno = fails[0];
        fails[0] = fails[1];
        fails[1] = 0;
        return -1;
    }
    return syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);
}

ssize_t
send(int fd, const void *p, size_t n, int flags)
{
    note(fd, 'w');
    return syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

int
poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    looked_at += (unsigned)n;
    return (int)syscall(SYS_poll, p, n, timeout_ms);
}

static void
note_down(const struct client *c)
{
    noted = c->s->fd;
    memset(notes, 0, sizeof(notes));
    looked_at = 0;
}

/* The recheck must not come before the next read, however slow the machine is. */
static void
not_looked_at(void)
{
    engine->recheck_us = CORE_FOREVER;
}

static bool
all_seen(void)
{
    return engine->recheck_us == CORE_FOREVER;
}

/* ---- the order ---- */

START_TEST(a_session_alone_is_read_behind_the_answer)
{
    struct client c = come();

    stop_the_clock(); /* otherwise a slow machine cuts the turn short */
    settle();
    note_down(&c);
    sends(&c, "PING\n");
    settle();
    ck_assert_str_eq(notes, "lwr");
    expect(&c, "+PONG\r\n");
    sends(&c, "LOCK a\n"); /* answered in a later turn */
    turn();
    not_looked_at();
    ck_assert_str_eq(notes, "lwrl");
    ck_assert_uint_eq(c.s->peeked, strlen("LOCK a\n"));
    settle();
    ck_assert_str_eq(notes, "lwrlwr");
    ck_assert_uint_eq(c.s->peeked, 0);
    expect(&c, ":101\r\n");
    ck_assert(wait_for(all_seen));
    ck_assert_str_eq(notes, "lwrlwr");
    noted = -1;
    leave(&c);
}
END_TEST

START_TEST(a_session_with_company_is_read_at_once)
{
    struct client c = come(), other;

    settle();
    note_down(&c);
    sends(&c, "LOCK a\n");
    turn();
    not_looked_at();
    other = come();
    settle();
    expect(&c, ":101\r\n");
    ck_assert_str_eq(notes, "lwr");
    sends(&c, "PING\n");
    settle();
    ck_assert_str_eq(notes, "lwrrw");
    expect(&c, "+PONG\r\n");
    leave(&other);
    sends(&c, "PING\n");
    settle();
    ck_assert_str_eq(notes, "lwrrwlwr");
    noted = -1;
    leave(&c);
}
END_TEST

/* The kernel's buffer is free again soon, though the request is not answered. */
START_TEST(a_waiting_session_alone_is_read_by_the_next_look)
{
    struct client c = come();

    sends(&c, "LOCK a\n");
    settle();
    expect(&c, ":101\r\n");
    ck_assert(wait_for(all_seen));
    note_down(&c);
    sends(&c, "LOCK a OWNER x\n");
    settle();
    ck_assert(wait_for(all_seen));
    settle();
    ck_assert_uint_eq(looked_at, 1);
    ck_assert_str_eq(notes, "lr");
    ck_assert_uint_eq(c.s->peeked, 0);
    noted = -1;
    leave(&c);
}
END_TEST

/* Such a client does not sleep until one answer comes. */
START_TEST(a_session_that_asks_for_more_is_read_at_once)
{
    struct client c = come();

    sends(&c, "LOCK a\n");
    settle();
    expect(&c, ":101\r\n");
    ck_assert(wait_for(all_seen));
    note_down(&c);
    sends(&c, "LOCK a OWNER x\nLOCK a OWNER y\n");
    turn();
    ck_assert_str_eq(notes, "lr");
    sends(&c, "LOCK a OWNER z\n");
    turn();
    ck_assert_str_eq(notes, "lrlr");
    sends(&c, "PI");
    turn();
    ck_assert_str_eq(notes, "lrlrlr");
    noted = -1;
    leave(&c);
}
END_TEST

/* ---- each byte is read once ---- */

START_TEST(pieces_are_read_once)
{
    static const char text[] = "ECHO one\nLOCK a\nECHO two\nUNLOCK a\nECHO three\n";
    struct client c = come();

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        char piece[] = {text[i], '\0'};

        sends(&c, piece);
        turn();
    }
    settle();
    expect(&c, "$3\r\none\r\n:101\r\n$3\r\ntwo\r\n:0\r\n$5\r\nthree\r\n");
    ck_assert_uint_eq(c.s->requests_n, 5);
    ck_assert_uint_eq(c.s->peeked, 0);
    leave(&c);
}
END_TEST

/* More bytes than one read takes, and more behind them. */
START_TEST(a_long_pipeline_is_read_once)
{
    enum { TIMES = ENGINE_SCRATCH_BYTES / 4 };
    struct client c = come();
    struct buf b;

    sends_times(&c, "PING\n", TIMES);
    buf_init(&b, 0);
    for (int i = 0; i < 100 && b.n < TIMES * 7; i++) {
        turn();
        receives(&c, &b);
        b.n--; /* the NUL */
    }
    ck_assert_uint_eq(b.n, TIMES * 7);
    ck_assert_uint_eq(c.s->requests_n, TIMES);
    buf_fini(&b);
    leave(&c);
}
END_TEST

/* ---- the end ---- */

static uint64_t dying;

static bool
has_died(void)
{
    return session_find(engine, dying) == NULL;
}

START_TEST(a_peer_that_hangs_up_with_something_unread_is_read_to_the_end)
{
    struct client c = come();

    sends(&c, "LOCK a\n");
    settle();
    expect(&c, ":101\r\n");
    sends(&c, "LOCK a OWNER x\n");
    turn();
    not_looked_at();
    ck_assert_uint_gt(c.s->peeked, 0);
    note_down(&c);
    sends(&c, "UNLOCK a\nPING\n");
    shutdown(c.fd, SHUT_WR);
    settle();
    ck_assert_ptr_null(strchr(notes, 'l'));
    noted = -1;
    expect(&c, ":102\r\n:0\r\n+PONG\r\n<end>");
    ck_assert_ptr_null(session_find(engine, c.id));
    close(c.fd);
}
END_TEST

START_TEST(a_peer_that_dies_with_something_unread_is_seen)
{
    struct client c = come();

    sends(&c, "LOCK a\n");
    settle();
    sends(&c, "LOCK a OWNER x\n");
    settle();
    ck_assert_uint_gt(c.s->peeked, 0);
    close(c.fd); /* the token was not read */
    dying = c.id;
    ck_assert(wait_for(has_died));
    ck_assert_uint_eq(redis->releases, 1);
}
END_TEST

/* Unread input at close() would be a reset to the other end. */
START_TEST(the_end_is_no_reset)
{
    struct client c = come();

    sends(&c, "LOCK a\nLOCK a OWNER x\n");
    settle();
    expect(&c, ":101\r\n");
    sends(&c, "QUIT\n");
    session_close(c.s, CLOSE_KILLED);
    settle();
    expect(&c, "<end>");
    close(c.fd);
}
END_TEST

START_TEST(an_interrupted_read_is_read_again)
{
    struct client c = come();

    note_down(&c);
    fails[0] = EINTR;
    sends(&c, "PING\n");
    settle();
    ck_assert_str_eq(notes, "lwrr");
    expect(&c, "+PONG\r\n");
    noted = -1;
    leave(&c);
}
END_TEST

/* The input would be handled a second time. */
START_TEST(input_that_peek_cannot_take_ends_the_session)
{
    for (unsigned i = 0; i < 2; i++) {
        struct client c = come();

        note_down(&c);
        fails[0] = EINTR;
        fails[1] = EIO;
        sends(&c, i == 0 ? "PING\n" : "LOCK"); /* after the answer, or because the request is incomplete */
        settle();
        ck_assert_ptr_null(session_find(engine, c.id));
        ck_assert_uint_eq(redis->acquires, 0);
        noted = -1;
        close(c.fd);
    }
}
END_TEST

/* ---- the purpose ---- */

/* Reads a value of /proc/PID/status. */
static void
status_of(pid_t pid, const char *key, char *value, size_t room)
{
    char path[64], line[128];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    value[0] = '\0';
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            snprintf(value, room, "%s", line + strlen(key));
        }
    }
    fclose(f);
}

/* How often the process went to sleep; it sleeps now, or is about to. */
static unsigned long
sleeps_of(pid_t pid)
{
    int64_t end_us = clock_now_us() + PATIENCE_US;
    char value[64];

    do {
        sched_yield();
        ck_assert_int_lt(clock_now_us(), end_us);
        status_of(pid, "State:\t", value, sizeof(value));
    } while (value[0] != 'S');
    status_of(pid, "voluntary_ctxt_switches:\t", value, sizeof(value));
    return strtoul(value, NULL, 10);
}

/* Waits for a byte, as a client with a blocking socket does. */
static _Noreturn void
sleep_for_answers(int fd)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        if (syscall(SYS_recvfrom, fd, &byte, 1, 0, NULL, NULL) <= 0) {
            _exit(0);
        }
    }
}

START_TEST(a_client_in_recv_sleeps_until_it_is_answered)
{
    struct client c = come();
    unsigned long before;
    pid_t sleeper;

    fcntl(c.fd, F_SETFL, 0);
    sleeper = fork();
    if (sleeper == 0) {
        sleep_for_answers(c.fd);
    }
    for (int i = 0; i < 20; i++) {
        sends(&c, "LOCK a OWNER x\n");
        before = sleeps_of(sleeper);
        turn();
        ck_assert_uint_eq(sleeps_of(sleeper), before);
        settle();
        sends(&c, "UNLOCK a OWNER x\n");
        settle();
        ck_assert_uint_gt(sleeps_of(sleeper), before);
    }
    kill(sleeper, SIGKILL);
    waitpid(sleeper, NULL, 0);
    leave(&c);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_session_alone_is_read_behind_the_answer,
        a_session_with_company_is_read_at_once,
        a_waiting_session_alone_is_read_by_the_next_look,
        a_session_that_asks_for_more_is_read_at_once,
        pieces_are_read_once,
        a_long_pipeline_is_read_once,
        a_peer_that_hangs_up_with_something_unread_is_read_to_the_end,
        a_peer_that_dies_with_something_unread_is_seen,
        the_end_is_no_reset,
        an_interrupted_read_is_read_again,
        input_that_peek_cannot_take_ends_the_session,
        a_client_in_recv_sleeps_until_it_is_answered,
    };
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));

    return house_run("unread", tc);
}
