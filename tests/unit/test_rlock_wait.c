/*
 * test_rlock_wait.c -- `rlock run` before its command begins: the daemon keeps its connections, and answers late or
 * never.
 */
#undef fail /* a macro of Check */
#include <assert.h>

#include "daemon/rlock_client.c"
#include "daemon/rlock_hold.c"
#include "daemon/rlock_run.c"

#include "tests/unit/suite.h"

/* No command runs here. */
void
child_signal(const struct child *c, int sig)
{
    (void)c;
    (void)sig;
}

void
child_continue(const struct child *c)
{
    (void)c;
}

enum child_news
child_poll(struct child *c)
{
    (void)c;
    return CHILD_ENDED;
}

int
child_start(struct child *c, char **command, const char *name, int64_t token, const sigset_t *mask)
{
    (void)c;
    (void)command;
    (void)name;
    (void)token;
    (void)mask;
    return RLOCK_NO_EXEC;
}

void
descendants_adopt(void)
{
}

void
descendants_signal_kill(void)
{
}

bool
descendants_reap(void)
{
    return true;
}

bool
descendants_kill(void)
{
    return true;
}

#ifdef RLOCKD_TEST_CLOCK
enum { LEAPS_MAX = 500 };

/* Time passes by leaps, each of which ends a poll(). */
static struct {
    int leap_s, passed_s, n;
    int answer_fd; /* where an answer comes in the same moment; -1 = nowhere */
    const char *answer;
} leaps;

static void
on_alarm(int sig)
{
    (void)sig;
    leaps.passed_s += leaps.leap_s;
    assert(leaps.n++ < LEAPS_MAX); /* else rlock waits for ever */
    clock_advance_us(leaps.leap_s * US_PER_S);
    if (leaps.answer_fd >= 0) {
        (void)!write(leaps.answer_fd, leaps.answer, strlen(leaps.answer));
    }
}

/* 0: no more time passes. */
static void
let_time_pass(int leap_s, int answer_fd, const char *answer)
{
    const struct itimerval every = {{0, leap_s > 0 ? 20000 : 0}, {0, leap_s > 0 ? 20000 : 0}};
    struct sigaction on = {.sa_handler = on_alarm};

    if (leap_s > 0) {
        leaps.leap_s = leap_s;
        leaps.passed_s = leaps.n = 0;
        leaps.answer_fd = answer_fd;
        leaps.answer = answer;
    }
    ck_assert_int_eq(sigaction(SIGALRM, &on, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
}

struct silent {
    struct run r;
    struct rlock_run want;
    int ends[2][2]; /* of the connections; [1]: the daemon's */
};

static void
connected(struct silent *t, const char *wait)
{
    struct client *c[] = {&t->r.lock, &t->r.events};
    sigset_t none;

    *t = (struct silent){.want = {.name = "x", .owner = "o", .wait = wait}};
    t->r = (struct run){.want = &t->want, .deadline_us = NEVER, .reported_us = NEVER, .confirm_us = NEVER,
                        .retry_us = NEVER, .is_unix = true};
    sigemptyset(&none);
    t->r.signals = signalfd(-1, &none, SFD_CLOEXEC | SFD_NONBLOCK);
    hold_set_grace(&t->r);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends[i]), 0);
        client_init(c[i]);
        c[i]->fd = t->ends[i][0];
    }
}

static void
closed(struct silent *t)
{
    client_close(&t->r.lock);
    client_close(&t->r.events);
    close(t->r.signals);
    close(t->ends[0][1]);
    close(t->ends[1][1]);
}

/* A daemon that was stopped (SIGSTOP) keeps its connections: only time ends the wait. */
START_TEST(a_daemon_that_is_stopped)
{
    static const struct {
        const char *wait;
        int least_s;
    } rows[] = {{"0s", 60}, {"5s", 65}, {"2m", 180}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct silent t;

        connected(&t, rows[i].wait);
        let_time_pass(20, -1, NULL);
        ck_assert_int_eq(await_lock(&t.r), RLOCK_UNREACHABLE);
        let_time_pass(0, -1, NULL);
        ck_assert_int_ge(leaps.passed_s, rows[i].least_s);
        ck_assert_int_le(leaps.passed_s, rows[i].least_s + 40);
        closed(&t);
    }
}
END_TEST

/* The time ends while rlock itself is stopped: an answer that has come meanwhile counts. */
START_TEST(an_answer_that_comes_while_rlock_is_stopped)
{
    struct silent t;

    connected(&t, "0s");
    let_time_pass(3600, t.ends[0][1], "$-1\r\n");
    ck_assert_int_eq(await_lock(&t.r), RLOCK_BUSY);
    let_time_pass(0, -1, NULL);
    closed(&t);
}
END_TEST

/*
 * The grant is confirmed, in an answer that takes longer than the lease: another owner may have the lock when it comes.
 */
START_TEST(a_confirmation_that_comes_too_late)
{
    static const struct {
        int leap_s, end;
    } rows[] = {{1, 0}, {4, RLOCK_LOST}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct silent t;

        connected(&t, NULL);
        t.r.token = 7;
        t.r.lease_us = 3 * US_PER_S;
        t.r.asked_us = clock_now_us() - US_PER_S;
        t.r.deadline_us = t.r.reported_us = t.r.asked_us + t.r.lease_us;
        t.r.confirm_us = clock_now_us();
        let_time_pass(rows[i].leap_s, t.ends[0][1],
                      "*4\r\n$5\r\ntoken\r\n:7\r\n$8\r\nlease_ms\r\n:3000\r\n");
        ck_assert_int_eq(confirm(&t.r), rows[i].end);
        let_time_pass(0, -1, NULL);
        closed(&t);
    }
}
END_TEST
#endif

int
main(void)
{
#ifdef RLOCKD_TEST_CLOCK
    const TTest *tests[] = {a_daemon_that_is_stopped, an_answer_that_comes_while_rlock_is_stopped,
                            a_confirmation_that_comes_too_late};

    return suite_main("rlock's wait", tests, sizeof(tests) / sizeof(tests[0]));
#else
    return 0;
#endif
}
