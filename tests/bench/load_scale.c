/*
 * load_scale.c -- subcommands with large numbers: see load.h for the words, README.md for the figures.
 *
 *     load idle --at A --clients N            N sessions that locked once and do nothing
 *     load hold --at A --clients C --names N  N held locks with names of 32 bytes, by C sessions
 *     load wait --at A --clients C --names N  N owners on C sessions wait for one name; each unlocks it after its grant
 *     load killed --at A --also B --rounds R --settle MS
 *                                             kills the holder at A; the time until the waiter at B has the lock
 * Each prints a line of JSON when it is ready. All but `killed` then stay until standard input ends; `wait` first
 * serves the queue when a line comes, and prints another line.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

enum { DEPTH = 64, EVENTS = 256, NAME_BYTES = 32 };

struct scale {
    const char *at, *also, *prefix;
    unsigned clients, names, rounds, settle_ms;
    int epoll;
};

/*
 * A session: it has sent `sent` of its `want` requests, and `got` were granted; `first` is the number of its first
 * name.
 */
struct holder {
    struct conn conn;
    unsigned first, want, sent, got, freed;
};

static const struct option longs[] = {
    {"at", required_argument, NULL, 'a'},      {"also", required_argument, NULL, 'b'},
    {"clients", required_argument, NULL, 'n'}, {"names", required_argument, NULL, 'N'},
    {"rounds", required_argument, NULL, 'r'},  {"settle", required_argument, NULL, 's'},
    {"prefix", required_argument, NULL, 'x'},  {NULL, 0, NULL, 0},
};

static struct scale
parse(int argc, char **argv)
{
    struct scale s = {.clients = 1, .names = 1, .rounds = 1, .settle_ms = 5, .prefix = "held"};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'a': s.at = optarg; break;
        case 'b': s.also = optarg; break;
        case 'n': s.clients = (unsigned)atoi(optarg); break;
        case 'N': s.names = (unsigned)atoi(optarg); break;
        case 'r': s.rounds = (unsigned)atoi(optarg); break;
        case 's': s.settle_ms = (unsigned)atoi(optarg); break;
        case 'x': s.prefix = optarg; break;
        default: die("see the head of load_scale.c");
        }
    }
    if (s.at == NULL || s.clients == 0) {
        die("see the head of load_scale.c");
    }
    return s;
}

/* Waits until standard input has a line or ends; true for a line. */
static bool
line_came(void)
{
    char line[64];

    fflush(stdout);
    return fgets(line, sizeof(line), stdin) != NULL;
}

static double
since(int64_t began)
{
    return (double)(now_ns() - began) / 1e9;
}

static void
ask_number(int fd, const char *verb, const char *name)
{
    const char *words[] = {verb, name};

    free(net_ask(fd, 2, words, NULL));
}

/* ---- idle ---- */

static int
idle_main(const struct scale *s)
{
    int64_t began = now_ns();
    char name[64];
    unsigned i;

    for (i = 0; i < s->clients; i++) {
        int fd = net_connect(s->at);

        snprintf(name, sizeof(name), "bench/%s/%06u", s->prefix, i);
        ask_number(fd, "LOCK", name);
        ask_number(fd, "UNLOCK", name);
    }
    printf("{\"idle\": %u, \"seconds\": %.3f}\n", s->clients, since(began));
    while (line_came()) {
    }
    return 0;
}

/* ---- many requests over many sessions ---- */

static struct holder *
holders(struct scale *s)
{
    struct holder *h = need(calloc(s->clients, sizeof(*h)));
    unsigned i, first = 0;

    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (i = 0; i < s->clients; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &h[i]};

        conn_init(&h[i].conn, s->at, NULL);
        h[i].first = first;
        h[i].want = s->names / s->clients + (i < s->names % s->clients ? 1 : 0);
        first += h[i].want;
        if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, h[i].conn.fd, &e) < 0) {
            die("epoll_ctl: %s", strerror(errno));
        }
    }
    return h;
}

/* Requests are short, so a socket takes all of them, sooner or later. */
static void
flush(struct conn *c)
{
    while (!conn_flush(c)) {
        (void)poll(&(struct pollfd){.fd = c->fd, .events = POLLOUT}, 1, -1);
    }
}

/* Waits for answers, and calls `answer` for each. */
static void
turn(struct scale *s, void (*answer)(struct scale *s, struct holder *h, const struct reply *r))
{
    struct epoll_event events[EVENTS];
    struct reply r;
    int i, n = epoll_wait(s->epoll, events, EVENTS, 30000);

    if (n <= 0) {
        die("nothing has come for 30 s");
    }
    for (i = 0; i < n; i++) {
        struct holder *h = events[i].data.ptr;
        size_t at = 0, took;

        if (conn_fill(&h->conn, false)) {
            while ((took = reply_parse(h->conn.in + at, h->conn.in_n - at, &r)) > 0) {
                if (r.type != ':') {
                    die("an answer was %c%.*s", r.type, (int)r.n, r.text);
                }
                answer(s, h, &r);
                at += took;
            }
            conn_took(&h->conn, at);
            flush(&h->conn);
        }
    }
}

/* ---- hold ---- */

static void
ask_held(struct scale *s, struct holder *h)
{
    char line[128];

    while (h->sent < h->want && h->sent - h->got < DEPTH) {
        int n = snprintf(line, sizeof(line), "LOCK bench/%s/", s->prefix);
        int digits = NAME_BYTES - (n - 5);

        n += snprintf(line + n, sizeof(line) - (size_t)n, "%0*u\r\n", digits, h->first + h->sent);
        conn_put(&h->conn, line, (size_t)n);
        h->sent++;
    }
}

static void
got_held(struct scale *s, struct holder *h, const struct reply *r)
{
    (void)r;
    h->got++;
    ask_held(s, h);
}

static unsigned
sum_got(const struct scale *s, const struct holder *h)
{
    unsigned i, sum = 0;

    for (i = 0; i < s->clients; i++) {
        sum += h[i].got;
    }
    return sum;
}

static int
hold_main(struct scale *s)
{
    struct holder *h = holders(s);
    int64_t began = now_ns();
    double took;
    unsigned i;

    for (i = 0; i < s->clients; i++) {
        ask_held(s, &h[i]);
        flush(&h[i].conn);
    }
    while (sum_got(s, h) < s->names) {
        turn(s, got_held);
    }
    took = since(began);
    printf("{\"held\": %u, \"seconds\": %.3f, \"per_s\": %.1f}\n", s->names, took, s->names / took);
    while (line_came()) {
    }
    return 0;
}

/* ---- wait ---- */

/* VERB for the k-th owner of this session. */
static void
ask_as_owner(struct scale *s, struct holder *h, const char *verb, unsigned k)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "%s bench/%s OWNER w%07u\r\n", verb, s->prefix, h->first + k);

    conn_put(&h->conn, line, (size_t)n);
}

/* A token is a grant of the next of this session's owners; a 0 means that one has unlocked. */
static void
got_turn(struct scale *s, struct holder *h, const struct reply *r)
{
    if (r->number == 0) {
        h->freed++;
    } else {
        ask_as_owner(s, h, "UNLOCK", h->got++);
    }
}

static int
wait_main(struct scale *s)
{
    struct holder *h = holders(s);
    int fd = net_connect(s->at);
    char line[128];
    int64_t began;
    unsigned i, j, freed;

    snprintf(line, sizeof(line), "bench/%s", s->prefix);
    ask_number(fd, "LOCK", line);
    began = now_ns();
    for (i = 0; i < s->clients; i++) {
        for (j = 0; j < h[i].want; j++) {
            ask_as_owner(s, &h[i], "LOCK", j);
        }
        flush(&h[i].conn);
    }
    printf("{\"sent\": %u, \"seconds\": %.3f}\n", s->names, since(began));
    if (!line_came()) {
        return 0;
    }
    began = now_ns();
    snprintf(line, sizeof(line), "bench/%s", s->prefix);
    ask_number(fd, "UNLOCK", line);
    do {
        turn(s, got_turn);
        for (i = freed = 0; i < s->clients; i++) {
            freed += h[i].freed;
        }
    } while (freed < s->names);
    printf("{\"served\": %u, \"seconds\": %.3f, \"per_s\": %.1f}\n", sum_got(s, h), since(began), freed / since(began));
    while (line_came()) {
    }
    return 0;
}

/* ---- killed ---- */

/* A process that holds the name until it is killed. */
static pid_t
holder(const struct scale *s, const char *name)
{
    int ready[2];
    char c;
    pid_t pid;

    if (pipe(ready) < 0 || (pid = fork()) < 0) {
        die("%s", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ask_number(net_connect(s->at), "LOCK", name);
        if (write(ready[1], "", 1) == 1) {
            pause();
        }
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1) {
        die("the holder did not get the lock");
    }
    close(ready[0]);
    return pid;
}

static int
killed_main(const struct scale *s)
{
    static struct hist h;
    const char *name = "bench/killed";
    int fd = net_connect(s->also != NULL ? s->also : s->at);
    char line[64], answer[64];
    unsigned i;

    snprintf(line, sizeof(line), "LOCK %s\r\n", name);
    for (i = 0; i < s->rounds; i++) {
        pid_t pid = holder(s, name);
        /*
         * The pause is the workload: the holder lives for this time while the waiter waits. No event shows that the
         * holder's daemon knows of a waiter at another daemon; and the random part keeps the KILL out of step with the
         * timers of both.
         */
        long us = (long)s->settle_ms * 1000 + random() % 3000;
        struct timespec settle = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
        int64_t began;

        if (write(fd, line, strlen(line)) != (ssize_t)strlen(line)) {
            die("write: %s", strerror(errno));
        }
        nanosleep(&settle, NULL); /* the pause is the workload: how long the holder has the lock before its KILL */
        began = now_ns();
        kill(pid, SIGKILL);
        if (read(fd, answer, sizeof(answer)) <= 1 || answer[0] != ':') {
            die("the waiter was not granted");
        }
        hist_add(&h, (uint64_t)(now_ns() - began));
        waitpid(pid, NULL, 0);
        ask_number(fd, "UNLOCK", name);
    }
    printf("{");
    hist_print("us", &h);
    printf("}\n");
    return 0;
}

int
scale_main(int argc, char **argv)
{
    struct scale s = parse(argc, argv);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strcmp(argv[0], "idle") == 0) {
        return idle_main(&s);
    }
    if (strcmp(argv[0], "hold") == 0) {
        return hold_main(&s);
    }
    if (strcmp(argv[0], "wait") == 0) {
        return wait_main(&s);
    }
    if (strcmp(argv[0], "killed") == 0) {
        return killed_main(&s);
    }
    die("no subcommand %s", argv[0]);
}
