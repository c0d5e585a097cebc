/*
 * load.c -- one load generator for all locks.
 *
 *     load --proto rlockd|classic|redisson|redisson-del|setnx --at unix:PATH|tcp:HOST:PORT [options]
 *     load hold|wait|idle|killed ...            see load_scale.c
 *     load hist <NUMBERS                        the histogram alone, for its test
 *
 * N clients lock and unlock in closed loops; the result is one line of JSON. load.h explains the words used here.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

static const struct option longs[] = {
    {"proto", required_argument, NULL, 'p'},    {"at", required_argument, NULL, 'a'},
    {"redis", required_argument, NULL, 'r'},    {"clients", required_argument, NULL, 'n'},
    {"pipeline", required_argument, NULL, 'P'}, {"processes", no_argument, NULL, 'f'},
    {"hot", no_argument, NULL, 'h'},            {"seconds", required_argument, NULL, 's'},
    {"warm", required_argument, NULL, 'w'},     {"retry", required_argument, NULL, 't'},
    {"prefix", required_argument, NULL, 'x'},   {"cpu", required_argument, NULL, 'c'},
    {"inline", no_argument, NULL, 'i'},         {"option", required_argument, NULL, 'o'},
    {"one-owner", no_argument, NULL, '1'},
    {NULL, 0, NULL, 0},
};

static void
usage(void)
{
    char names[128];

    proto_names(names, sizeof(names));
    die("usage: load --proto NAME --at ADDRESS [--clients N] [--pipeline P] [--processes] [--hot] [--seconds S]\n"
        "            [--warm S] [--retry MS] [--prefix P] [--inline] [--option WORDS] [--one-owner]\n"
        "            [--redis ADDRESS] [--cpu LABEL=PID]...\n"
        "protocols: %s", names);
}

static void
take(struct options *o, int c)
{
    switch (c) {
    case 'p': o->proto = proto_find(optarg); break;
    case 'a': o->at = optarg; break;
    case 'r': o->redis = optarg; break;
    case 'n': o->clients = (unsigned)atoi(optarg); break;
    case 'P': o->pipeline = (unsigned)atoi(optarg); break;
    case 'f': o->processes = true; break;
    case 'h': o->hot = true; break;
    case 's': o->seconds = atof(optarg); break;
    case 'w': o->warm = atof(optarg); break;
    case 't': o->retry_ms = (unsigned)atoi(optarg); break;
    case 'x': o->prefix = optarg; break;
    case 'i': o->inlined = true; break;
    case 'o': o->option = optarg; break;
    case '1': o->one_owner = true; break;
    case 'c':
        if (o->cpu_n == sizeof(o->cpu) / sizeof(o->cpu[0]) || strchr(optarg, '=') == NULL) {
            usage();
        }
        o->cpu[o->cpu_n++] = optarg;
        break;
    default: usage();
    }
}

static struct options
parse(int argc, char **argv)
{
    struct options o = {.clients = 1, .pipeline = 1, .seconds = 1, .warm = 0.2, .prefix = "bench", .option = ""};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        take(&o, c);
    }
    if (o.proto == NULL || o.at == NULL || optind != argc || o.clients == 0 || o.pipeline == 0 ||
        (o.hot && o.pipeline > 1)) {
        usage();
    }
    return o;
}

/* ---- the run ---- */

struct run {
    struct options o;
    struct board *board;
    struct result *result; /* of each worker */
    uint64_t *counts;      /* of each client */
    unsigned workers;
    int redis, start[2];
    double cpu[8], load_cpu;
    struct redis_counts before, after;
};

static void *
shared(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? need(NULL) : p;
}

static void
start_workers(struct run *run)
{
    unsigned i;

    if (pipe(run->start) < 0) {
        die("pipe: %s", strerror(errno));
    }
    for (i = 0; i < run->workers; i++) {
        struct worker w = {.o = &run->o, .board = run->board, .result = &run->result[i], .first = i,
                           .n = run->o.processes ? 1 : run->o.clients, .counts = &run->counts[i]};
        pid_t pid = fork();

        if (pid < 0) {
            die("fork: %s", strerror(errno));
        }
        if (pid == 0) {
            close(run->start[1]);
            worker_run(&w, run->start[0]);
        }
        run->result[i].pid = pid;
    }
    close(run->start[0]);
}

/* Dies when a worker has died. */
static void
reap(struct run *run, bool all)
{
    unsigned i;
    int status;

    for (i = 0; i < run->workers; i++) {
        pid_t pid = run->result[i].pid;

        if (pid > 0 && waitpid(pid, &status, all ? 0 : WNOHANG) == pid) {
            run->result[i].pid = 0;
            if (status != 0) {
                die("a worker ended with status %d", status);
            }
        }
    }
}

static void
sleep_until(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Adds (sign 1) or subtracts (-1) the processor time of the processes until now. */
static void
add_cpu(struct run *run, double sign)
{
    unsigned i;

    for (i = 0; i < run->o.cpu_n; i++) {
        run->cpu[i] += sign * cpu_of((pid_t)atoi(strchr(run->o.cpu[i], '=') + 1));
    }
    for (i = 0; i < run->workers; i++) {
        if (run->result[i].pid > 0) {
            run->load_cpu += sign * cpu_of(run->result[i].pid);
        }
    }
}

static void
carry_out(struct run *run)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int64_t begin;

    start_workers(run);
    while (run->board->ready < run->workers) {
        reap(run, false);
        nanosleep(&pause, NULL); /* between two looks: `ready` counts in shared memory, which wakes no process */
    }
    if (run->redis >= 0) {
        redis_counts(run->redis, &run->before);
    }
    begin = now_ns() + (int64_t)(run->o.warm * 1e9);
    run->board->begin = begin;
    run->board->end = begin + (int64_t)(run->o.seconds * 1e9);
    close(run->start[1]);
    sleep_until(begin);
    add_cpu(run, -1);
    sleep_until(run->board->end);
    add_cpu(run, 1);
    reap(run, true);
    if (run->redis >= 0) {
        redis_counts(run->redis, &run->after);
    }
}

/* ---- the result ---- */

static void
print_counts(const struct run *run, uint64_t pairs)
{
    uint64_t min = UINT64_MAX, max = 0;
    double mean = (double)pairs / run->o.clients;
    unsigned i;

    for (i = 0; i < run->o.clients; i++) {
        min = run->counts[i] < min ? run->counts[i] : min;
        max = run->counts[i] > max ? run->counts[i] : max;
    }
    printf("\"share\": {\"min\": %llu, \"mean\": %.3f, \"max\": %llu}, ", (unsigned long long)min, mean,
           (unsigned long long)max);
}

static void
print_redis(const struct run *run)
{
    if (run->redis >= 0) {
        printf("\"redis\": {\"scripts\": %llu, \"commands\": %llu, \"script_us\": %.0f}, ",
               (unsigned long long)(run->after.scripts - run->before.scripts),
               (unsigned long long)(run->after.commands - run->before.commands),
               run->after.script_us - run->before.script_us);
    }
}

static void
print_result(const struct run *run)
{
    const struct options *o = &run->o;
    static struct hist pair, lock;
    uint64_t requests = 0, pairs = 0, refused = 0;
    unsigned i;

    for (i = 0; i < run->workers; i++) {
        hist_merge(&pair, &run->result[i].pair);
        hist_merge(&lock, &run->result[i].lock);
        requests += run->result[i].requests;
        pairs += run->result[i].pairs;
        refused += run->result[i].refused;
    }
    printf("{\"proto\": \"%s\", \"clients\": %u, \"pipeline\": %u, \"processes\": %u, \"hot\": %s, \"seconds\": %g, ",
           o->proto->name, o->clients, o->pipeline, run->workers, o->hot ? "true" : "false", o->seconds);
    printf("\"pairs_per_s\": %.1f, \"whole\": {\"pairs\": %llu, \"requests\": %llu, \"refused\": %llu}, ",
           (double)pair.n / o->seconds, (unsigned long long)pairs, (unsigned long long)requests,
           (unsigned long long)refused);
    print_counts(run, pair.n);
    print_redis(run);
    printf("\"cpu\": {");
    for (i = 0; i < o->cpu_n; i++) {
        printf("\"%.*s\": %.6f, ", (int)strcspn(o->cpu[i], "="), o->cpu[i], run->cpu[i]);
    }
    printf("\"load\": %.6f}, ", run->load_cpu);
    hist_print("pair_us", &pair);
    printf(", ");
    hist_print("lock_us", &lock);
    printf("}\n");
}

static int
hist_main(void)
{
    static struct hist h;
    unsigned long long v;

    while (scanf("%llu", &v) == 1) {
        hist_add(&h, v);
    }
    printf("{");
    hist_print("hist", &h);
    printf("}\n");
    return 0;
}

int
main(int argc, char **argv)
{
    struct rlimit files;
    struct run run = {.redis = -1};

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (argc > 1 && strcmp(argv[1], "hist") == 0) {
        return hist_main();
    }
    if (argc > 1 && argv[1][0] != '-') {
        return scale_main(argc - 1, argv + 1);
    }
    run.o = parse(argc, argv);
    run.workers = run.o.processes ? run.o.clients : 1;
    run.board = shared(sizeof(*run.board));
    run.result = shared(run.workers * sizeof(*run.result));
    run.counts = shared(run.o.clients * sizeof(*run.counts));
    proto_prepare(&run.o);
    if (run.o.redis != NULL) {
        run.redis = net_connect(run.o.redis);
    }
    carry_out(&run);
    print_result(&run);
    return 0;
}
