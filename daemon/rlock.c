/*
 * rlock.c -- the command line: options, and the verbs that send one request and print the reply.
 *
 * Sees nothing of the daemon but daemon/base: it is a client like any other and proves that the protocol is enough.
 */
#include "daemon/rlock.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/buf.h"
#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "daemon/rlock_client.h"
#include "daemon/version.h"

#define DEFAULT_ADDR "unix:/run/rlockd/rlockd.sock"
#define REPLY_US (10 * US_PER_S)
#define CONNECT_US (5 * US_PER_S)
#define KILL_AFTER_US (5 * US_PER_S)

static const char usage[] =
    "usage: rlock [-s unix:PATH|tcp:HOST:PORT] VERB ...\n"
    "\n"
    "  rlock run NAME [-n | -w DURATION] [-S | -N SLOTS] [--kind KIND] [--kill-after DURATION] -- COMMAND ...\n"
    "      lock NAME, run COMMAND, unlock. -n: do not wait. -w: wait for that long at most (30s, 500ms, 2m; a plain\n"
    "      number is seconds).\n"
    "      -S: share the lock with other runs that say -S. A run that is to have that lock alone says --kind rw,\n"
    "      unless a rule says rw for NAME: a run of another kind is refused while runs with -S have the lock.\n"
    "      -N: at most SLOTS runs at a time. --kind: the kind of lock; else -S means rw, -N means semaphore, and\n"
    "      without both the rules say it.\n"
    "      COMMAND sees RLOCK_NAME and RLOCK_TOKEN, and gets once each TERM, INT, HUP, QUIT, USR1, USR2, WINCH and\n"
    "      TSTP that reaches rlock or its process group. If the lease cannot be renewed, rlock ends COMMAND before\n"
    "      the lease is over (TERM, then KILL after --kill-after, 5s). COMMAND goes on while rlockd is restarted, for\n"
    "      10 s at most; a wait for NAME goes on for as long as -w says. When rlock is killed, all processes that\n"
    "      COMMAND has started are killed.\n"
    "  rlock ls [GLOB]\n"
    "      the locks the daemon knows\n"
    "  rlock tree [GLOB]\n"
    "      which owner waits for which, beginning with the owners that wait for nothing\n"
    "  rlock redis\n"
    "      the servers of Redis that the daemon knows, and why nothing is granted there\n"
    "  rlock ping\n"
    "      check that rlockd answers\n"
    "  rlock help\n"
    "      print this text\n"
    "\n"
    "  -s ADDRESS   default: $RLOCK_SOCKET, else " DEFAULT_ADDR "\n"
    "  RLOCK_PASSWORD in the environment, unless it is empty, is sent as AUTH.\n"
    "\n"
    "Exit status: of run, that of COMMAND (128+n when signal n ended it); 64 usage, 69 no daemon answers, or it\n"
    "refuses (standard error says why), 71 out of memory, 75 not granted in time, 79 the lock was lost, 126 COMMAND\n"
    "cannot be run, 127 COMMAND not found.\n";

static int
misused(const char *why)
{
    fprintf(stderr, "rlock: %s\nTry: rlock --help\n", why);
    return RLOCK_USAGE;
}

static int
misused_verb(const char *verb)
{
    static const char *const verbs[] = {"run", "ls", "tree", "redis", "ping", "help"};
    char why[160];

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verb, verbs[i]) == 0) {
            snprintf(why, sizeof(why), "%s takes other words", verb);
            return misused(why);
        }
    }
    if (*verb == '\0') {
        return misused("what shall be done? run, ls, tree, redis, ping or help");
    }
    snprintf(why, sizeof(why), "there is no verb '%.40s': run, ls, tree, redis, ping or help", verb);
    return misused(why);
}

/* Sends one request. NULL: an error is on stderr. The reply lives as long as the client. */
static const struct redisReply *
ask_once(struct client *c, const struct rlock_at *at, const char *const *words)
{
    const struct redisReply *v = NULL;

    if (client_open(c, at->addr, at->password, CONNECT_US) && client_send(c, words)) {
        v = client_wait(c, REPLY_US);
    }
    if (v == NULL) {
        fprintf(stderr, "rlock: cannot reach rlockd: %s\n", c->error);
    } else if (v->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "rlock: %s\n", v->str);
        v = NULL;
    }
    return v;
}

static int
ping(const struct rlock_at *at)
{
    struct client c;
    const struct redisReply *v = ask_once(&c, at, (const char *const[]){"PING", NULL});

    if (v != NULL) {
        printf("%s\n", v->str != NULL ? v->str : "");
    }
    client_close(&c);
    return v != NULL ? 0 : RLOCK_UNREACHABLE;
}

/* The columns of ls and the fields of LOCKS that they show. */
static const struct column {
    const char *head, *field;
    bool number;
    bool duration; /* the field is in milliseconds */
} columns[] = {
    {"NAME", "name", false, false},       {"KIND", "kind", false, false},     {"STATE", "state", false, false},
    {"OWNER", "owner", false, false},     {"TOKEN", "token", true, false},    {"HOLDS", "holds", true, false},
    {"LEFT", "lease_ms", true, true},      {"WAITERS", "waiters", true, false},
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* One cell as it is printed; the caller owns `out`. */
static void
print_cell(struct buf *out, const struct column *col, const struct redisReply *row)
{
    const struct redisReply *v = reply_field(row, col->field);

    buf_clear(out, SIZE_MAX);
    if (v == NULL || v->type == REDIS_REPLY_NIL) {
        buf_adds(out, "-");
    } else if (col->duration) {
        buf_printf(out, "%.1fs", (double)reply_number(v) / 1000);
    } else if (v->type == REDIS_REPLY_INTEGER) {
        buf_printf(out, "%lld", v->integer);
    } else {
        buf_add_escaped(out, reply_text(v));
    }
}

/* Prints a line of cells, or (print false) only widens the columns to them. */
static void
table_row(const struct redisReply *row, size_t width[COLUMNS], bool print)
{
    struct buf cell;

    buf_init(&cell, 0);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (row == NULL) {
            buf_clear(&cell, SIZE_MAX);
            buf_adds(&cell, columns[i].head);
        } else {
            print_cell(&cell, &columns[i], row);
        }
        if (!print) {
            width[i] = cell.n > width[i] ? cell.n : width[i];
        } else if (i + 1 == COLUMNS || columns[i].number) {
            printf("%*.*s%s", (int)width[i], (int)cell.n, cell.p, i + 1 == COLUMNS ? "\n" : "  ");
        } else {
            printf("%-*.*s  ", (int)width[i], (int)cell.n, cell.p);
        }
    }
    buf_fini(&cell);
}

static int
ls(const struct rlock_at *at, const char *glob)
{
    struct client c;
    const struct redisReply *v = ask_once(&c, at, (const char *const[]){"LOCKS", glob, NULL});
    size_t width[COLUMNS] = {0};

    for (int print = 0; v != NULL && print <= 1; print++) {
        table_row(NULL, width, print == 1);
        for (size_t i = 0; i < v->elements; i++) {
            table_row(v->element[i], width, print == 1);
        }
    }
    client_close(&c);
    return v != NULL ? 0 : RLOCK_UNREACHABLE;
}

/* The text of INFO, without its title and with the line ends of this side. */
static void
print_info(struct slice text)
{
    const char *p = memchr(text.p, '\n', text.n), *end = text.p + text.n;

    for (p = p == NULL ? end : p + 1; p < end; p++) {
        if (*p != '\r') {
            putchar(*p);
        }
    }
}

static int
tree(const struct rlock_at *at, const char *glob)
{
    struct client c;
    const struct redisReply *v = ask_once(&c, at, (const char *const[]){"INFO", "tree", glob, NULL});

    if (v != NULL) {
        print_info(reply_text(v));
    }
    client_close(&c);
    return v != NULL ? 0 : RLOCK_UNREACHABLE;
}

/* Of a line of INFO, the value behind "key:", or behind "b=" in "a=1,b=2". Empty: the line has no such key. */
static struct slice
value_in(struct slice line, const char *key, char end)
{
    size_t n = strlen(key);
    const char *at = memmem(line.p, line.n, key, n), *stop;

    if (at == NULL) {
        return (struct slice){"", 0};
    }
    at += n;
    stop = memchr(at, end, (size_t)(line.p + line.n - at));
    return (struct slice){at, (size_t)((stop != NULL ? stop : line.p + line.n) - at)};
}

static void
print_server(struct slice line)
{
    struct slice role = value_in(line, "role=", ','), address = value_in(line, "address=", ',');
    struct slice state = value_in(line, "state=", ','), rtt = value_in(line, "rtt_us=", ',');
    struct slice epoch = value_in(line, "epoch=", ','), votes = value_in(line, "votes=", ',');
    struct slice rounds = value_in(line, "second_rounds=", ','), slots = value_in(line, "slots=", ',');

    printf("%-8.*s  %-36.*s  %-20.*s  %7.*s  %-16.*s", (int)role.n, role.p, (int)address.n, address.p, (int)state.n,
           state.p, (int)rtt.n, rtt.p, (int)epoch.n, epoch.p);
    if (votes.n > 0) {
        printf("  votes %.*s, second rounds %.*s", (int)votes.n, votes.p, (int)rounds.n, rounds.p);
    }
    if (slots.n > 0) {
        printf("  %.*s slots", (int)slots.n, slots.p);
    }
    printf("\n");
}

static int
redis(const struct rlock_at *at)
{
    struct client c;
    const struct redisReply *v = ask_once(&c, at, (const char *const[]){"INFO", "redis", NULL});
    struct slice rest = v != NULL ? reply_text(v) : (struct slice){"", 0};

    if (v != NULL) {
        printf("%-8s  %-36s  %-20s  %7s  %s\n", "ROLE", "ADDRESS", "STATE", "RTT us", "EPOCH");
    }
    while (rest.n > 0) {
        struct slice line = value_in(rest, "", '\n'), refusal = value_in(line, "redis_refusal:", '\r');

        rest = (struct slice){rest.p + line.n, rest.n - line.n};
        rest = (struct slice){rest.p + (rest.n > 0), rest.n - (rest.n > 0)};
        line.n -= line.n > 0 && line.p[line.n - 1] == '\r';
        if (refusal.n > 0) {
            fprintf(stderr, "rlock: nothing is granted: %.*s\n", (int)refusal.n, refusal.p);
        } else if (memmem(line.p, line.n, ":role=", 6) != NULL) {
            print_server(line);
        }
    }
    client_close(&c);
    return v != NULL ? 0 : RLOCK_UNREACHABLE;
}

/* As people write it: a plain number is seconds here, as for flock(1) and sleep(1); on the wire it is milliseconds. */
static bool
take_duration(const char *text, int64_t *us)
{
    char seconds[24];
    int64_t n;

    if (number_parse(slice_of(text), &n)) {
        snprintf(seconds, sizeof(seconds), "%" PRId64 "s", n);
        text = seconds;
    }
    return duration_parse(slice_of(text), us);
}

/* Takes the duration of -w, as LOCK's WAIT takes it. False: it is none. */
static bool
take_wait(struct rlock_run *r, const char *text)
{
    int64_t us, n;

    r->wait = text;
    if (strcasecmp(text, "forever") == 0) {
        return true;
    }
    if (!take_duration(text, &us)) {
        return false;
    }
    if (number_parse(slice_of(text), &n)) {
        snprintf(r->wait_text, sizeof(r->wait_text), "%" PRId64 "s", n);
        r->wait = r->wait_text;
    }
    return true;
}

/* One option of run. NULL: accepted, else the error. */
static const char *
run_option(int opt, struct rlock_run *r)
{
    static const char no_duration[] = "a duration is like 500ms, 30s (or 30), 2m or 1h, and at most 365 days";
    int64_t n;

    switch (opt) {
    case 'n':
    case 'w':
        if (r->wait != NULL) {
            return "-n and -w exclude each other, and are given once";
        }
        return take_wait(r, opt == 'n' ? "0" : optarg) ? NULL : no_duration;
    case 'k':
        return take_duration(optarg, &r->kill_after_us) ? NULL : no_duration;
    case 'h':
        fputs(usage, stdout);
        exit(0);
    case 'S':
        r->shared = true;
        break;
    case 'N':
        r->limit = optarg;
        if (!number_parse(slice_of(optarg), &n) || n < 1) {
            return "-N takes a number above 0";
        }
        break;
    case 'K':
        r->kind = optarg; /* the daemon refuses other words */
        break;
    default:
        return "run cannot use that option"; /* getopt has printed why: unknown, or without its argument */
    }
    return r->shared && r->limit != NULL ? "-S and -N exclude each other" : NULL;
}

/* Takes the options of run from argv; stops at the first word that is none. False: an error is on stderr. */
static bool
run_options(int argc, char **argv, struct rlock_run *r)
{
    static const struct option options[] = {
        {"kill-after", required_argument, NULL, 'k'}, {"wait", required_argument, NULL, 'w'},
        {"nowait", no_argument, NULL, 'n'},           {"shared", no_argument, NULL, 'S'},
        {"slots", required_argument, NULL, 'N'},      {"kind", required_argument, NULL, 'K'},
        {"help", no_argument, NULL, 'h'},             {NULL, 0, NULL, 0},
    };
    int opt;

    while ((opt = getopt_long(argc, argv, "+hnw:k:SN:", options, NULL)) != -1) {
        const char *wrong = run_option(opt, r);

        if (wrong != NULL) {
            misused(wrong);
            return false;
        }
    }
    return true;
}

/* argv[0] is "run"; `title` is the whole command line. */
static int
run(const struct rlock_at *at, char *title, int argc, char **argv)
{
    struct rlock_run r = {.at = *at, .kill_after_us = KILL_AFTER_US, .title = title,
                          .title_bytes = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - title)};
    char program[] = "rlock run"; /* getopt writes this in front of its errors */
    bool behind_dashes;

    argv[0] = program;
    optind = 1;
    if (!run_options(argc, argv, &r)) {
        return RLOCK_USAGE;
    }
    if (optind >= argc) {
        return misused("run needs a name");
    }
    behind_dashes = strcmp(argv[optind - 1], "--") == 0;
    r.name = argv[optind];
    /* Options may follow the name, as they do in the manual; getopt starts again behind it. */
    argc -= optind;
    argv += optind;
    argv[0] = program;
    optind = 1;
    if (!run_options(argc, argv, &r)) {
        return RLOCK_USAGE;
    }
    if (r.name[0] == '\0') {
        return misused("run needs a name");
    }
    if (optind >= argc) {
        return misused(behind_dashes ? "run needs a name before --, and a command behind it" : "run needs a command");
    }
    r.command = argv + optind;
    if (r.kind == NULL && (r.shared || r.limit != NULL)) {
        r.kind = r.shared ? "rw" : "semaphore";
    }
    return rlock_run(&r);
}

/* An empty variable counts as unset. */
static const char *
from_environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    const char *from_env = from_environment("RLOCK_SOCKET");
    struct rlock_at at = {.addr = from_env != NULL ? from_env : DEFAULT_ADDR,
                          .password = from_environment("RLOCK_PASSWORD")};
    char *title = argv[0];
    const char *verb;
    int opt;

    while ((opt = getopt_long(argc, argv, "+s:hV", options, NULL)) != -1) {
        switch (opt) {
        case 's':
            at.addr = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            puts("rlock " RLOCKD_VERSION);
            return 0;
        default:
            return misused("what is that option?");
        }
    }
    argc -= optind;
    argv += optind;
    verb = argc > 0 ? argv[0] : "";
    if (strcmp(verb, "run") == 0) {
        return run(&at, title, argc, argv);
    }
    if (strcmp(verb, "ls") == 0 && argc <= 2) {
        return ls(&at, argc == 2 ? argv[1] : NULL);
    }
    if (strcmp(verb, "tree") == 0 && argc <= 2) {
        return tree(&at, argc == 2 ? argv[1] : NULL);
    }
    if (strcmp(verb, "redis") == 0 && argc == 1) {
        return redis(&at);
    }
    if (strcmp(verb, "ping") == 0 && argc == 1) {
        return ping(&at);
    }
    if (strcmp(verb, "help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    return misused_verb(verb);
}
