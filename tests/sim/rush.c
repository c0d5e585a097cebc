/*
 * rush.c -- a rush for one name: sessions of one daemon, and some of the others, lock and unlock it as fast as they can
 * for some tens of milliseconds, which makes runs of hand-offs. By chance a fault of the seed strikes in the middle of
 * it, so that faults also come within runs and not only between them.
 */
#include "tests/sim/sim.h"

static bool
is_handed(const struct name *n)
{
    return (kind_rows[n->kind].flags & KIND_F_HANDOFF) != 0;
}

static int
handed_name(struct world *w)
{
    int from = (int)below(w, w->habit.names);

    for (int i = 0; i < w->habit.names; i++) {
        int name = (from + i) % w->habit.names;

        if (is_handed(&w->name[name])) {
            return name;
        }
    }
    return -1;
}

/* A fault of this seed that comes by itself, mostly one that ends a run. */
static enum fault
draw_strike(struct world *w)
{
    static const enum fault hard[] = {FAULT_DAEMON_CRASH,   FAULT_DAEMON_DIES,    FAULT_DAEMON_PAUSE,
                                      FAULT_REDIS_PAUSE,    FAULT_LINK_CUT,       FAULT_RESTART_CLEAN,
                                      FAULT_FAILOVER_CLEAN, FAULT_FAILOVER_LOSSY, FAULT_RESTART_EMPTY,
                                      FAULT_FLUSHALL};
    bool any = chance(w, 30000);
    int n = any ? FAULT_DENIED : (int)(sizeof(hard) / sizeof(hard[0])), from = (int)below(w, n);

    for (int i = 0; i < n; i++) {
        enum fault f = any ? (enum fault)((from + i) % n) : hard[(from + i) % n];

        if (fault_rows[f].drawn == DRAWN_TICK && w->rate[f] > 0) {
            return f;
        }
    }
    return FAULTS;
}

static int
at_most(int n, int most)
{
    return n < most ? n : most;
}

void
rush_ticks(struct world *w)
{
    struct rush *r = &w->rush;
    int64_t for_us;

    if (w->leaving || r->h.node.pos != 0 || !chance(w, (uint32_t)w->habit.rush)) {
        return;
    }
    r->name = handed_name(w);
    if (r->name < 0) {
        return;
    }
    for_us = between(w, 20, chance(w, 20000) ? 1500 : 150) * US_PER_MS;
    r->daemon = &w->daemon[below(w, w->habit.busy)];
    r->here = at_most((int)between(w, 2, 10), w->habit.sessions);
    r->elsewhere = at_most((int)between(w, 0, 2), w->habit.sessions);
    r->plain = chance(w, 80000);
    r->pace_us = for_us / between(w, 30, 200);
    r->until_us = w->now_us + for_us;
    r->strike = w->faults_on && chance(w, 50000) ? draw_strike(w) : FAULTS;
    r->strike_us = w->now_us + below(w, for_us);
    sight(w, SIGHT_RUSH);
    trace(w, "rush", "for %s at daemon-%d: %d, elsewhere %d, for %lld us", w->name[r->name].text, r->daemon->index,
          r->here, r->elsewhere, (long long)for_us);
    schedule(w, &r->h, w->now_us);
}

/* The holder gives the lock back, and asks for it again at once. */
static void
session_rushes(struct daemon *d, struct session *s, int name)
{
    struct slice empty_queue = {NULL, 0};

    if (!s->open) {
        clients_open(d, s);
    } else if (s->asked_n == 0 && !s->eof) {
        if (s->held[name] > 0) {
            s->held[name]--;
            clients_ask(d, s, CORE_UNLOCK, name, empty_queue);
        }
        clients_ask(d, s, CORE_LOCK, name, empty_queue);
    }
}

static void
daemon_rushes(struct daemon *d, int sessions)
{
    struct world *w = d->world;

    if (!d->alive || w->now_us < d->paused_until_us || sessions == 0) {
        return;
    }
    daemon_begins(d);
    for (int i = 0; i < sessions && !w->failed; i++) {
        if (w->now_us >= d->session[i].paused_until_us && chance(w, 50000)) {
            session_rushes(d, &d->session[i], w->rush.name);
        }
    }
}

void
rush_goes_on(struct world *w)
{
    struct rush *r = &w->rush;
    struct habit usual = w->habit;

    if (w->leaving) {
        return;
    }
    if (r->strike != FAULTS && w->faults_on && w->now_us >= r->strike_us) {
        w->totals->faults[r->strike]++;
        w->harm_us = w->now_us;
        nature_strikes(r->daemon, r->strike);
        r->strike = FAULTS;
    }
    if (r->plain) {
        w->habit.named = w->habit.leased = w->habit.nowait = 0;
        w->habit.shared = 10000;
    }
    for (int i = 0; i < w->habit.busy; i++) {
        daemon_rushes(&w->daemon[i], r->daemon->index == i ? r->here : r->elsewhere);
    }
    w->habit = usual;
    if (w->now_us < r->until_us) {
        schedule(w, &r->h, w->now_us + 1 + below(w, 2 * r->pace_us));
    }
}
