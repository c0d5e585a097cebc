/*
 * rng.c -- dice, and the draws of a seed at its beginning: its faults, and how busy clients and daemons are.
 */
#include <string.h>

#include "tests/sim/cluster.h"
#include "tests/sim/sim.h"

const struct fault_row fault_rows[FAULTS] = {
#define FAULT(id, name, when, rate) [FAULT_##id] = {name, DRAWN_##when, rate, false, SHAPE_STANDALONE},
#define LOSS(id, name, when, rate) [FAULT_##id] = {name, DRAWN_##when, rate, true, SHAPE_STANDALONE},
#define OF_SHAPE(id, shape, name, when, rate) [FAULT_##id] = {name, DRAWN_##when, rate, false, SHAPE_##shape},
#include "tests/sim/faults.def"
#undef FAULT
#undef LOSS
#undef OF_SHAPE
};

const struct sight_row sight_rows[SIGHTS] = {
#define SIGHT(id, name) [SIGHT_##id] = {name, SHAPE_STANDALONE},
#define SIGHT_OF_SHAPE(id, shape, name) [SIGHT_##id] = {name, SHAPE_##shape},
#include "tests/sim/sights.def"
#undef SIGHT
#undef SIGHT_OF_SHAPE
};

const char *const shape_names[SHAPES] = {"standalone", "sentinel", "quorum", "cluster"};

const struct control_row control_rows[CONTROLS] = {
    [CONTROL_NONE] = {"none", "", SHAPE_STANDALONE},
#define CONTROL(id, name, help) [CONTROL_##id] = {name, help, SHAPE_STANDALONE},
#define CONTROL_OF_SHAPE(id, shape, name, help) [CONTROL_##id] = {name, help, SHAPE_##shape},
#include "tests/sim/controls.def"
#undef CONTROL
#undef CONTROL_OF_SHAPE
};

/* splitmix64 */
uint64_t
draw(struct world *w)
{
    uint64_t z = w->rng += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t
below(struct world *w, int64_t n)
{
    return (int64_t)(draw(w) % (uint64_t)n);
}

int64_t
between(struct world *w, int64_t low, int64_t high)
{
    return low + below(w, high - low + 1);
}

bool
chance(struct world *w, uint32_t per_100k)
{
    return per_100k > 0 && below(w, 100000) < per_100k;
}

bool
fault(struct world *w, enum fault f)
{
    bool hit = w->faults_on && chance(w, w->rate[f]);

    w->totals->faults[f] += hit;
    w->harm_us = hit ? w->now_us : w->harm_us;
    return hit;
}

void
sight(struct world *w, enum sight s)
{
    w->totals->sights[s]++;
}

/*
 * Half of the faults are left out, so that the frequent ones do not hide the others; some seeds have none. Others have
 * one or two, and those seldom: then the traces of a fault show, since all else is quiet.
 */
static void
draw_rates(struct world *w)
{
    bool calm = chance(w, 5000), losses = w->options->losses && chance(w, 50000), few = chance(w, 15000);

    for (int f = 0; f < FAULT_DENIED; f++) { /* for the others see draw_apart() */
        const struct fault_row *row = &fault_rows[f];
        int64_t rate = row->rate > 0 ? between(w, 1, row->rate) : 0;
        bool on = chance(w, few ? 4000 : 40000);

        w->rate[f] = on && !calm && (!row->loss || losses) ? (uint32_t)rate : 0;
        w->rate[f] = few && row->drawn == DRAWN_TICK ? w->rate[f] / 2 : w->rate[f];
    }
}

static void
draw_people(struct world *w)
{
    struct habit *h = &w->habit;

    h->lock = (int)between(w, 20000, 70000);
    h->unlock = (int)between(w, 50000, 95000);
    h->renew = (int)between(w, 0, 15000);
    h->many = chance(w, 40000) ? (int)between(w, 1000, 20000) : 0;
    h->gone = (int)between(w, 200, 4000);
    h->eof = (int)between(w, 0, 1000);
    h->shared = (int)between(w, 20000, 90000);
    h->named = chance(w, 60000) ? (int)between(w, 5000, 60000) : 0;
    h->leased = (int)between(w, 0, 50000);
    h->nowait = (int)between(w, 5000, 40000);
    h->forever = (int)between(w, 10000, 60000);
    h->burst = chance(w, 50000) ? (int)between(w, 1000, 30000) : 0;
    h->foreign = chance(w, 30000) || w->rate[FAULT_LOST_TO_OTHER] > 0 ? (int)between(w, 10, 1000) : 0;
}

/*
 * By dice of their own, so that all other seeds stay the same. A seed with rushes mostly has default settings, and a
 * network that answers before a turn that is left to others is over.
 */
static void
draw_apart(struct world *w)
{
    struct habit *h = &w->habit;
    uint64_t usual = w->rng;
    bool fails_over = w->rate[FAULT_FAILOVER_CLEAN] > 0 || w->rate[FAULT_FAILOVER_LOSSY] > 0;

    w->rng = ~w->seed;
    h->rush = chance(w, 25000) ? (int)between(w, 500, 3000) : 0;
    if (h->rush > 0) {
        h->handoff_us = chance(w, 60000) ? 10 * US_PER_MS : h->handoff_us;
        h->handoffs = chance(w, 60000) ? 64 : h->handoffs;
        h->delay_us = chance(w, 70000) ? between(w, 30, 500) : h->delay_us;
    }
    if (w->options->losses && fails_over && chance(w, 25000)) {
        w->rate[FAULT_FAILBACK] = (uint32_t)between(w, 100, 2000);
    }
    h->monitors = chance(w, 5000) ? (int)between(w, 1, 2) : 0;
    w->rate[FAULT_DENIED] = chance(w, 5000) ? (uint32_t)between(w, 100, 1000) : 0;
    if (w->options->losses && h->daemons > 1 && chance(w, 5000)) { /* no other faults: see newcomer_comes() */
        memset(w->rate, 0, sizeof(w->rate));
        w->rate[FAULT_NEWCOMER] = 100000;
        w->rng = usual;
        return;
    }
    w->rate[FAULT_NO_LINKS] = chance(w, 15000) ? (uint32_t)between(w, 200, 2000) : 0;
    h->replicas = chance(w, 12000) ? (int)between(w, 1, 3) : 0;
    w->rate[FAULT_SHORTFALL] = h->replicas > 0 ? (uint32_t)between(w, 500, 20000) : 0;
    w->rng = usual;
}

/* By dice of its own, so that worlds of one Redis stay the same. */
static void
draw_shape(struct world *w)
{
    enum shape of = control_rows[w->options->control].shape;
    uint64_t usual = w->rng;

    w->rng = w->seed * UINT64_C(0x2545f4914f6cdd1d) + 77;
    w->shape = chance(w, 15000) ? SHAPE_SENTINEL : chance(w, 12500) ? SHAPE_QUORUM : SHAPE_STANDALONE;
    w->shape = w->options->one_shape ? w->options->shape : w->shape;
    w->shape = of != SHAPE_STANDALONE ? of : w->shape;
    w->rng = usual;
}

void
draw_habits(struct world *w)
{
    static const int64_t think_ms[] = {200, 400, 800, 1600, 3200};
    struct habit *h = &w->habit;

    draw_shape(w);
    draw_rates(w);
    h->daemons = (int)between(w, 1, DAEMONS);
    h->daemons = w->options->daemons > 0 ? w->options->daemons : h->daemons;
    h->busy = h->daemons < DAEMONS ? h->daemons : DAEMONS;
    h->sessions = (int)between(w, 1, SESSIONS);
    h->names = (int)between(w, 1, NAMES);
    h->links = (int)between(w, 1, 2);
    h->think_us = think_ms[below(w, 5)] * US_PER_MS;
    h->delay_us = between(w, 30, 2000);
    h->lease_us = between(w, 2000, 12000) * US_PER_MS;
    h->poll_us = between(w, 1000, 6000) * US_PER_MS;
    h->owner_grace_us = chance(w, 30000) ? 0 : between(w, 100, 3000) * US_PER_MS;
    h->queue_grace_us = chance(w, 30000) ? 0 : between(w, 100, 2000) * US_PER_MS;
    h->handoff_us = chance(w, 30000) ? 10 * US_PER_MS : between(w, 1, 30000) * US_PER_MS;
    h->linger_us = chance(w, 30000) ? between(w, 1, 2000) * US_PER_MS : 0;
    h->handoffs = chance(w, 20000) ? 0 : (int)between(w, 2, 64);
    draw_people(w);
    draw_apart(w);
    h->strict = w->options->losses || chance(w, 30000);
    h->keeps = chance(w, 65000);
    h->rates = fault(w, FAULT_CLOCK_RATE);
    if (w->options->control == CONTROL_DRIFT_0 || w->options->control == CONTROL_RATES) {
        h->rates = true;
    }
    if (w->options->control == CONTROL_LEASE_FROM_REPLY) { /* makes the control visible */
        h->leased = 90000;
        h->unlock = 10000;
        h->think_us = 200 * US_PER_MS;
        w->rate[FAULT_SLOW] = fault_rows[FAULT_SLOW].rate;
    }
    if (w->options->fleet) {
        fleet_draw(w);
    } else if (w->shape == SHAPE_SENTINEL) {
        watched_draw(w);
    } else if (w->shape == SHAPE_QUORUM) {
        masters_draw(w);
    } else if (w->shape == SHAPE_CLUSTER) {
        cluster_draw(w);
    }
}
