/*
 * main.c -- rlsim: many seeds in several processes, with their counts added up; or the trace of one seed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim.h"

enum { SEED_S = 30 }; /* a seed that takes so much processor time for ten daemons hangs: SIGPROF ends its process */

/* Shared with a child, so that its counts are known even when it aborts. */
struct share {
    uint64_t next; /* its present seed */
    struct totals totals;
};

static double
seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- one process ---- */

/* One seed that notices the control is enough, in whichever process. */
static bool
is_noticed(const struct options *o, const struct share *share)
{
    for (int i = 0; i < o->jobs && o->control != CONTROL_NONE; i++) {
        if (share[i].totals.failed > 0) {
            return true;
        }
    }
    return false;
}

static void
run_seeds(const struct options *o, struct share *share, int job)
{
    const struct itimerval most = {.it_value = {.tv_sec = SEED_S * (1 + o->daemons / 10)}};
    struct share *sh = &share[job];
    uint64_t last = o->seed + o->seeds;

    while (sh->next < last && !is_noticed(o, share)) {
        bool failed;

        setitimer(ITIMER_PROF, &most, NULL);
        (void)world_run(sh->next, o, &sh->totals, &failed);
        sh->next += (uint64_t)o->jobs;
    }
}

static pid_t
begin_child(const struct options *o, struct share *share, int job)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        run_seeds(o, share, job);
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    return pid;
}

/* An abort (an assertion of the core) is a violation of the present seed; the child goes on with the next one. */
static void
run_children(const struct options *o, struct share *share)
{
    pid_t pid[64];

    for (int i = 0; i < o->jobs; i++) {
        share[i].next = o->seed + (uint64_t)i;
        pid[i] = begin_child(o, share, i);
    }
    for (int i = 0; i < o->jobs; i++) {
        int status = 0;

        while (waitpid(pid[i], &status, 0) == pid[i] && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            if (!o->quiet) {
                printf("seed %" PRIu64 ": aborted (%s %d)\n", share[i].next, WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            }
            share[i].totals.seeds++;
            share[i].totals.failed++;
            share[i].next += (uint64_t)o->jobs;
            if (o->control != CONTROL_NONE) {
                break;
            }
            pid[i] = begin_child(o, share, i);
        }
    }
}

static struct totals
run_all(const struct options *o)
{
    size_t bytes = sizeof(struct share) * (size_t)o->jobs;
    struct share *share = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct totals t = {0};

    if (share == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    run_children(o, share);
    for (int i = 0; i < o->jobs; i++) {
        const uint64_t *from = (const uint64_t *)(const void *)&share[i].totals;
        uint64_t *to = (uint64_t *)(void *)&t;

        for (size_t k = 0; k < sizeof(t) / sizeof(*to); k++) {
            to[k] += from[k];
        }
    }
    munmap(share, bytes);
    return t;
}

/* ---- the report ---- */

/*
 * So many worlds with all sorts of names show every fault and sight; those of one shape need so many worlds of the
 * shape.
 */
static bool
shows(const struct options *o, const struct totals *t, enum shape shape)
{
    uint64_t worlds = shape == SHAPE_CLUSTER ? 200 : 400; /* worlds of a cluster take ten times as long */
    bool enough = shape == SHAPE_STANDALONE ? t->seeds >= 1000 : t->shapes[shape] >= worlds;

    return enough && o->control == CONTROL_NONE && !o->one_kind && o->daemons == 0;
}

/* Returns how many never came, though they should have. */
static int
report(const struct options *o, const struct totals *t, double real_s)
{
    double virtual_s = (double)t->virtual_us / 1e6;
    int never = 0;

    printf("seeds %" PRIu64 ", %.2f virtual days, %" PRIu64 " events, %" PRIu64 " commands, %" PRIu64
           " script calls, %.1f s real\n",
           t->seeds, virtual_s / 86400, t->events, t->commands, t->scripts, real_s);
    printf("simulated : real %.0f, per core %.0f (%d processes)\n", virtual_s / real_s, virtual_s / real_s / o->jobs,
           o->jobs);
    for (int f = 0; f < FAULTS; f++) {
        bool missing = t->faults[f] == 0 && shows(o, t, fault_rows[f].shape) && (o->losses || !fault_rows[f].loss);

        printf("  %-38s %12" PRIu64 "%s\n", fault_rows[f].name, t->faults[f], missing ? "  NEVER HAPPENED" : "");
        never += missing;
    }
    for (int s = 0; s < SIGHTS; s++) {
        bool missing = t->sights[s] == 0 && shows(o, t, sight_rows[s].shape);

        printf("  (%-36s %12" PRIu64 ")%s\n", sight_rows[s].name, t->sights[s], missing ? "  NEVER HAPPENED" : "");
        never += missing;
    }
    printf("  %-38s %12" PRIu64 "\n", "excused: Redis's clock had jumped", t->excused);
    return never;
}

/* ---- modes ---- */

static int
run_many(const struct options *o)
{
    double begin_s = seconds();
    struct totals t = run_all(o);
    int never = report(o, &t, seconds() - begin_s);

    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", t.seeds - t.failed, t.failed + (uint64_t)never);
    return t.failed == 0 && never == 0 ? 0 : 1;
}

static int
run_one(const struct options *o)
{
    struct totals t = {0};
    bool failed;
    uint64_t hash = world_run(o->seed, o, &t, &failed);

    printf("seed %" PRIu64 ": trace hash %016" PRIx64 ", %" PRIu64 " events, %" PRIu64 " commands, %.1f s\n", o->seed,
           hash, t.events, t.commands, (double)t.virtual_us / 1e6);
    printf("%d passed, %d failed\n", !failed, failed);
    return failed;
}

/* Runs each seed twice: the second time its hash must be the same. */
static int
run_twice(const struct options *o)
{
    struct totals t = {0};
    int different = 0;
    uint64_t all = 0;

    for (uint64_t seed = o->seed; seed < o->seed + o->seeds; seed++) {
        bool failed;
        uint64_t first = world_run(seed, o, &t, &failed), again = world_run(seed, o, &t, &failed);

        if (first != again) {
            printf("seed %" PRIu64 ": trace hash %016" PRIx64 ", then %016" PRIx64 "\n", seed, first, again);
            different++;
        }
        all = all * UINT64_C(0x9e3779b97f4a7c15) + first;
    }
    printf("each of %" PRIu64 " seeds twice: hash of all traces %016" PRIx64 "\n", o->seeds, all);
    printf("%d passed, %d failed\n", (int)o->seeds - different, different);
    return different > 0;
}

/* Each control must be noticed. */
static int
run_controls(const struct options *o)
{
    int missed = 0;

    for (int c = 1; c < CONTROLS; c++) {
        struct options one = *o;
        struct totals t;

        one.control = (enum control)c;
        one.losses = c == CONTROL_LOSSES_NO_GRACE || c == CONTROL_VOTES_AT_ONCE ||
                     control_rows[c].shape == SHAPE_CLUSTER;
        one.quiet = true;
        t = run_all(&one);
        printf("control %-18s %-66s %s after %" PRIu64 " seeds\n", control_rows[c].name, control_rows[c].help,
               t.failed > 0 ? "noticed" : "NOT NOTICED", t.seeds);
        missed += t.failed == 0;
    }
    printf("%d passed, %d failed\n", CONTROLS - 1 - missed, missed);
    return missed > 0;
}

static int
usage(void)
{
    puts("rlsim [--seed S] [--seeds N|FIRST..LAST] [--jobs J] [--seconds VIRTUAL] [--kind KIND] [--daemons N]\n"
         "      [--shape standalone|sentinel|quorum|cluster]"
         " [--control NAME] [--controls] [--fleet] [--no-losses] [--twice] [--trace]");
    for (int c = 1; c < CONTROLS; c++) {
        printf("  --control %-18s %s\n", control_rows[c].name, control_rows[c].help);
    }
    return 2;
}

static enum control
control_of(const char *name)
{
    for (int c = 1; c < CONTROLS; c++) {
        if (strcmp(control_rows[c].name, name) == 0) {
            return (enum control)c;
        }
    }
    exit(usage());
}

static enum shape
shape_of(const char *name)
{
    for (int s = 0; s < SHAPES; s++) {
        if (strcmp(shape_names[s], name) == 0) {
            return (enum shape)s;
        }
    }
    exit(usage());
}

/* --seed and the following seeds, or FIRST..LAST. Anything else is 0 seeds, which main() refuses. */
static void
take_seeds(struct options *o, const char *text)
{
    char *end;

    o->seeds = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) == 0 && end > text) {
        uint64_t first = o->seeds, last = strtoull(end + 2, &end, 10);

        o->seed = first;
        o->seeds = last >= first ? last - first + 1 : 0;
    }
    o->seeds = *end == '\0' ? o->seeds : 0;
}

int
main(int argc, char **argv)
{
    struct options o = {.seed = 1, .seeds = 1, .jobs = 1, .virtual_us = 110 * US_PER_S, .losses = true};
    bool controls = false, fleet = false;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool takes = true;

        if (strcmp(argv[i], "--seed") == 0) {
            o.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            take_seeds(&o, value);
        } else if (strcmp(argv[i], "--jobs") == 0) {
            o.jobs = atoi(value);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            o.virtual_us = atoi(value) * US_PER_S;
        } else if (strcmp(argv[i], "--daemons") == 0) {
            o.daemons = atoi(value);
            o.daemons = o.daemons == 0 ? -1 : o.daemons;
        } else if (strcmp(argv[i], "--kind") == 0) {
            o.one_kind = kind_parse(slice_of(value), &o.kind);
            if (!o.one_kind) {
                return usage();
            }
        } else if (strcmp(argv[i], "--shape") == 0) {
            o.one_shape = true;
            o.shape = shape_of(value);
        } else if (strcmp(argv[i], "--control") == 0) {
            o.control = control_of(value);
        } else {
            takes = false;
            controls = controls || strcmp(argv[i], "--controls") == 0;
            fleet = fleet || strcmp(argv[i], "--fleet") == 0;
            o.losses = o.losses && strcmp(argv[i], "--no-losses") != 0;
            o.trace = o.trace || strcmp(argv[i], "--trace") == 0;
            o.self_check = o.self_check || strcmp(argv[i], "--twice") == 0;
            if (strcmp(argv[i], "--controls") != 0 && strcmp(argv[i], "--fleet") != 0 &&
                strcmp(argv[i], "--no-losses") != 0 && strcmp(argv[i], "--trace") != 0 &&
                strcmp(argv[i], "--twice") != 0) {
                return usage();
            }
        }
        i += takes;
    }
    if (o.jobs < 1 || o.jobs > 64 || o.virtual_us < US_PER_S || o.seeds < 1 || o.daemons < 0 ||
        o.daemons > DAEMONS_MAX) {
        return usage();
    }
    if (fleet) {
        return fleet_table(&o);
    }
    if (controls) {
        return run_controls(&o);
    }
    return o.self_check ? run_twice(&o) : o.seeds == 1 ? run_one(&o) : run_many(&o);
}
