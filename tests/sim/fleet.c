/*
 * fleet.c -- fleets of daemons in a world where nothing goes wrong but what is measured: `rlsim --fleet`.
 *
 *   F1  a heartbeat costs Redis the same with 10 and with 1,000 members
 *   F2  a grace period in which all members are alive ends within a second
 *   F3  ... with three that have died it lasts a lease at most; and what they hold nobody else gets before their leases
 *       are over: that is S1
 *   F4  all daemons start at once, and each is served within a second
 *
 * Redis takes no time here; what a call costs it is counted in commands that its script runs, and in bytes.
 */
#include <inttypes.h>

#include "tests/sim/sim.h"

enum { DEAD = 3, LEASE_S = 8 };

#define STEP_US (5 * US_PER_MS)
#define NEVER_US (INT64_C(1) << 50)

struct figures {
    int64_t start_us, alive_us, dead_us, granted_us; /* granted: a name of the dead, behind the loss; NEVER_US: never */
    double calls, bytes;                             /* of a heartbeat */
};

void
fleet_draw(struct world *w)
{
    struct habit *h = &w->habit;

    memset(w->rate, 0, sizeof(w->rate));
    h->lease_us = LEASE_S * US_PER_S;
    h->delay_us = 250;
    h->poll_us = US_PER_S;
    h->links = 1;
    h->names = h->sessions = DEAD;
    h->keeps = h->rates = false;
    h->strict = true;
    h->replicas = h->strangers = h->monitors = h->rush = 0;
    h->leased = h->nowait = h->named = h->many = 0;
    h->forever = 100000;
}

/* Each that lives is up, and may grant. */
static bool
all_serve(const struct world *w)
{
    for (int i = 0; i < w->habit.daemons; i++) {
        struct backend_status st;

        if (!w->daemon[i].alive) {
            continue;
        }
        backend_status(w->daemon[i].backend, &st);
        if (!st.up || st.grace || st.epoch == 0) {
            return false;
        }
    }
    return true;
}

static int64_t
until_all_serve(struct world *w)
{
    int64_t since_us = w->now_us, at_us = since_us;

    do {
        at_us += STEP_US;
        world_goes(w, at_us);
    } while (!w->failed && !all_serve(w) && at_us < since_us + 60 * US_PER_S);
    return all_serve(w) ? at_us - since_us : NEVER_US;
}

static void
goes_on(struct world *w, int64_t for_us)
{
    world_goes(w, w->now_us + for_us);
}

/* Redis has lost everything, and is back at once. */
static void
empty(struct world *w)
{
    server_restart(w->master, NULL, false);
    w->master->down_until_us = w->now_us;
}

static void
ask_for(struct daemon *d, int name)
{
    daemon_begins(d);
    clients_open(d, &d->session[name]);
    clients_ask(d, &d->session[name], CORE_LOCK, name, (struct slice){NULL, 0});
}

/* The first daemons hold a name each, and die; then Redis loses its data, and another one asks for the names. */
static void
three_die(struct world *w, struct figures *f)
{
    int64_t lost_us, at_us;

    for (int i = 0; i < DEAD; i++) {
        ask_for(&w->daemon[i], i);
    }
    goes_on(w, 3 * US_PER_S);
    for (int i = 0; i < DEAD; i++) {
        w->daemon[i].back_us = NEVER_US;
        daemon_stop(&w->daemon[i]);
    }
    empty(w);
    lost_us = w->now_us;
    for (int i = 0; i < DEAD; i++) {
        ask_for(&w->daemon[DEAD], i);
    }
    f->dead_us = until_all_serve(w);
    at_us = lost_us + f->dead_us;
    f->granted_us = NEVER_US;
    while (!w->failed && f->granted_us == NEVER_US && at_us < lost_us + 60 * US_PER_S) {
        f->granted_us = core_totals(w->daemon[DEAD].core).held == DEAD ? at_us - lost_us : NEVER_US;
        at_us += STEP_US;
        world_goes(w, at_us);
    }
}

static struct figures
measure(const struct options *o, int daemons, bool *failed)
{
    static struct world w;
    struct options one = *o;
    struct totals t = {0};
    struct figures f;

    one.fleet = true;
    one.one_shape = true;
    one.shape = SHAPE_STANDALONE;
    one.one_kind = true;
    one.kind = KIND_REENTRANT;
    one.daemons = daemons;
    world_begin(&w, o->seed, &one, &t);
    w.faults_on = false;
    w.trouble_us = NEVER_US; /* what is measured is checked here */
    unschedule(&w, &w.act);
    for (int i = 0; i < DEAD; i++) {
        w.name[i].broken = false; /* S1 is asserted of all */
    }
    f.start_us = until_all_serve(&w);
    goes_on(&w, 10 * US_PER_S);
    w.beats = (struct beats){0};
    goes_on(&w, 20 * US_PER_S);
    f.calls = w.beats.n == 0 ? 0 : (double)w.beats.calls / (double)w.beats.n;
    f.bytes = w.beats.n == 0 ? 0 : (double)w.beats.bytes / (double)w.beats.n;
    empty(&w);
    f.alive_us = until_all_serve(&w);
    goes_on(&w, 10 * US_PER_S);
    three_die(&w, &f);
    *failed = w.failed;
    world_end(&w);
    return f;
}

static double
seconds(int64_t us)
{
    return (double)us / US_PER_S;
}

int
fleet_table(const struct options *o)
{
    static const int daemons[] = {10, 100, 1000};
    int failed = 0, rows = 0;
    double few = 0;

    printf("%8s %12s %14s %14s %14s %14s %20s\n", "daemons", "start, s", "a beat: calls", "... bytes", "all alive, s",
           "3 dead, s", "names of dead, s");
    for (; rows < 3 && (o->daemons == 0 || daemons[rows] <= o->daemons); rows++) {
        bool broken;
        struct figures f = measure(o, daemons[rows], &broken);

        few = rows == 0 ? f.calls : few;
        broken = broken || f.start_us > US_PER_S || f.alive_us > US_PER_S || f.calls == 0 || f.calls > few * 1.1 ||
                 f.dead_us > (LEASE_S + 1) * US_PER_S || f.granted_us > (LEASE_S + 2) * US_PER_S;
        failed += broken;
        printf("%8d %12.3f %14.2f %14.1f %14.3f %14.3f %20.3f%s\n", daemons[rows], seconds(f.start_us), f.calls,
               f.bytes, seconds(f.alive_us), seconds(f.dead_us), seconds(f.granted_us), broken ? "  FAILED" : "");
    }
    printf("%d passed, %d failed\n", rows - failed, failed);
    return failed > 0;
}
