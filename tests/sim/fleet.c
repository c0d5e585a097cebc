/*
 * fleet.c -- fleets of daemons in a world without faults except the measured ones: `rlsim --fleet`.
 *
 * In a cluster one master of three loses its data, and an anchor with it. Redis takes no time here; the cost of a call
 * is the number of commands that its script runs, and its bytes.
 */
#include <inttypes.h>

#include "daemon/backend/cluster_private.h"
#include "daemon/backend/generations_private.h"
#include "tests/sim/cluster.h"
#include "tests/sim/sim.h"

/*
 *   F1  a heartbeat costs Redis the same with 10 and with 1,000 members
 *   F2  a grace period in which all members are alive ends within a second
 *   F3  a grace period in which three members have died lasts a lease at most, in a cluster the registered one (R2 in
 *       SCRIPTS.md); and no other member gets their locks before the leases are over: that is S1
 *   F4  all daemons start at once, and each is served within a second
 *   F5  F2 holds for a change that ends no connection, too, and that each daemon by itself would notice by a heartbeat
 */

enum { DEAD = 3, LEASE_S = 8, REGISTERED_S = LEASE_S + GENERATION_FRESH_BEATS * GENERATION_BEAT_MS / 1000 };
enum { BEATS = 10, BEAT_S = 2 }; /* that are measured, one after the other */

#define STEP_US (5 * US_PER_MS)
#define NEVER_US (INT64_C(1) << 50)

struct figures {
    int64_t start_us, alive_us, dead_us;
    int64_t seen_us;    /* F5 */
    int64_t granted_us; /* of a name of the dead, from the loss on; NEVER_US: never */
    double messages, calls, bytes;                   /* of a heartbeat of one daemon */
    double reports;                                  /* messages of one daemon in a grace period with all alive */
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
    h->names = NAMES;
    h->sessions = DEAD;
    h->keeps = h->rates = false;
    h->strict = w->shape != SHAPE_CLUSTER; /* in a cluster `strict` would delay the first grant by a lease and a half */
    w->sentinels.lag_us = 10 * US_PER_MS;
    h->replicas = h->foreign = h->monitors = h->rush = 0;
    h->leased = h->nowait = h->named = h->many = 0;
    h->forever = 100000;
}

/* Two anchors know the daemon, and the slots of all names have their data, and no grace period. */
static bool
serves_slots(const struct daemon *d)
{
    const struct cluster *c = (const struct cluster *)(const void *)d->backend;
    const struct generations *g = generations_of(&c->slots);

    if (!cluster_slots_fresh(&c->slots, daemon_clock(d, d->world->now_us)) || g->in_grace_n > 0) {
        return false;
    }
    for (int i = 0; i < NAMES; i++) {
        const struct generation_slot *s = &g->slot[slot_of(slice_of(d->world->name[i].text))];

        if (!generation_slot_is_intact(g, s) || g->node[s->node].answered_us == 0 || !g->known[s->generation].over) {
            return false;
        }
    }
    return true;
}

/* Each living daemon is up, and may grant. */
static bool
all_serve(const struct world *w)
{
    for (int i = 0; i < w->habit.daemons; i++) {
        const struct daemon *d = &w->daemon[i];
        struct backend_status st;

        if (!d->alive) {
            continue;
        }
        backend_status(d->backend, &st);
        if (!st.up || (w->shape == SHAPE_CLUSTER ? !serves_slots(d) : st.grace || st.epoch == 0)) {
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

/* The server that will lose its data: in a cluster the master with the most names. */
static struct server *
loser(const struct world *w)
{
    return server_of(w, &w->name[name_find(w, SLICE_LIT("plain"))]);
}

/* The n-th name that this server has. */
static int
name_there(const struct world *w, int n)
{
    int i = -1;

    for (int found = -1; found < n;) {
        i++;
        found += server_of(w, &w->name[i]) == loser(w);
    }
    return i;
}

/* The server loses all data, and is back at once. */
static void
empty(struct world *w)
{
    struct server *s = loser(w);

    server_restart(s, NULL, false);
    s->down_until_us = w->now_us;
}

static void
ask_for(struct daemon *d, int n)
{
    daemon_begins(d);
    clients_open(d, &d->session[n]);
    clients_ask(d, &d->session[n], CORE_LOCK, name_there(d->world, n), (struct slice){NULL, 0});
}

/* The first daemons hold a name each, and die; then Redis loses its data, and another daemon asks for the names. */
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
        f->granted_us = core_totals(w->daemon[DEAD].core).held_claims == DEAD ? at_us - lost_us : NEVER_US;
        at_us += STEP_US;
        world_goes(w, at_us);
    }
}

/* Each daemon connects again at a different time, which is the time of its beats from then on. */
static void
spread_beats(struct world *w)
{
    int64_t at_us = w->now_us;

    for (int i = 0; i < w->habit.daemons; i++) {
        struct list *pos, *nxt;

        at_us += BEAT_S * US_PER_S / w->habit.daemons;
        world_goes(w, at_us);
        list_for_each_safe(pos, nxt, &loser(w)->conns)
        {
            struct conn *c = container_of(pos, struct conn, node);

            if (c->daemon == &w->daemon[i]) {
                conn_cut(c, true);
            }
        }
    }
    goes_on(w, 10 * US_PER_S);
}

/* The time from the moment at which the first daemon has noticed. */
static int64_t
joined_by_a_replica(struct world *w)
{
    int64_t at_us, end_us;

    spread_beats(w);
    at_us = w->now_us;
    end_us = at_us + 2 * BEAT_S * US_PER_S;
    server_new_line(loser(w));
    while (all_serve(w) && at_us < end_us) {
        at_us += STEP_US;
        world_goes(w, at_us);
    }
    return all_serve(w) ? NEVER_US : until_all_serve(w);
}

static struct figures
measure(const struct options *o, enum shape shape, int daemons, bool *failed)
{
    static struct world w;
    struct options one = *o;
    struct totals t = {0};
    struct figures f;

    one.fleet = true;
    one.one_shape = true;
    one.shape = shape;
    one.one_kind = true;
    one.kind = KIND_REENTRANT;
    one.daemons = daemons;
    world_begin(&w, o->seed, &one, &t);
    w.faults_on = false;
    w.trouble_us = NEVER_US; /* fleet.c checks the measured times itself */
    unschedule(&w, &w.act);
    for (int i = 0; i < NAMES; i++) {
        w.name[i].broken = false; /* S1 is asserted of all names */
    }
    f.start_us = until_all_serve(&w);
    goes_on(&w, 10 * US_PER_S);
    w.beats = (struct beats){0};
    goes_on(&w, BEATS * BEAT_S * US_PER_S);
    f.messages = (double)w.beats.n / (daemons * BEATS);
    f.calls = (double)w.beats.calls / (daemons * BEATS);
    f.bytes = (double)w.beats.bytes / (daemons * BEATS);
    empty(&w);
    w.beats = (struct beats){0};
    f.alive_us = until_all_serve(&w);
    f.reports = (double)w.beats.n / daemons;
    goes_on(&w, 10 * US_PER_S);
    f.seen_us = joined_by_a_replica(&w);
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

/* Bounds of the figures; `few`: figures of the smallest fleet. */
static bool
is_in_bounds(const struct figures *f, const struct figures *few, enum shape shape)
{
    int dead_s = shape == SHAPE_CLUSTER ? REGISTERED_S : LEASE_S;

    return f->start_us <= US_PER_S && f->alive_us <= US_PER_S && f->seen_us <= US_PER_S && f->calls > 0 &&
           f->messages <= few->messages * 1.1 && f->calls <= few->calls * 1.1 && f->bytes <= few->bytes * 1.1 &&
           f->reports <= few->reports * 2 &&
           f->dead_us <= (dead_s + 1) * US_PER_S && f->granted_us <= (dead_s + 2) * US_PER_S;
}

int
fleet_table(const struct options *o)
{
    static const int daemons[] = {10, 100, 1000};
    enum shape shape = o->one_shape ? o->shape : SHAPE_STANDALONE;
    int failed = 0, rows = 0;
    struct figures few;

    printf("%8s %9s %17s %9s %9s %14s %17s %13s %10s %18s\n", "daemons", "start, s", "a beat: messages", "commands",
           "bytes", "all alive, s", "messages of each", "by a beat, s", "3 dead, s", "names of dead, s");
    for (; rows < 3 && (o->daemons == 0 || daemons[rows] <= o->daemons); rows++) {
        bool broken;
        struct figures f = measure(o, shape, daemons[rows], &broken);

        few = rows == 0 ? f : few;
        broken = broken || !is_in_bounds(&f, &few, shape);
        failed += broken;
        printf("%8d %9.3f %17.2f %9.1f %9.0f %14.3f %17.1f %13.3f %10.3f %18.3f%s\n", daemons[rows],
               seconds(f.start_us), f.messages, f.calls, f.bytes, seconds(f.alive_us), f.reports, seconds(f.seen_us),
               seconds(f.dead_us), seconds(f.granted_us), broken ? "  FAILED" : "");
        fflush(stdout);
    }
    printf("%d passed, %d failed\n", rows - failed, failed);
    return failed > 0;
}
