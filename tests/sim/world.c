/*
 * world.c -- one seed: the heap of events, and the turns of the daemons.
 *
 * A turn of a daemon is all its events at one moment: then it sends the gathered operations to Redis, as engine_turn()
 * does.
 */
#include "tests/sim/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_US = 100 * 1000 };

void
schedule(struct world *w, struct happening *h, int64_t at_us)
{
    if (h->node.pos == 0) {
        w->heap_n++;
    }
    heap_set(&w->heap, &h->node, at_us < w->now_us ? w->now_us : at_us);
}

void
unschedule(struct world *w, struct happening *h)
{
    w->heap_n -= h->node.pos != 0;
    heap_remove(&w->heap, &h->node);
}

void
note(struct world *w, uint64_t a, uint64_t b)
{
    uint64_t h = w->hash ^ a * UINT64_C(0x9e3779b97f4a7c15);

    h = (h ^ h >> 29) + b;
    w->hash = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

void
trace(const struct world *w, const char *subject, const char *fmt, ...)
{
    va_list ap;

    if (w->traced) {
        printf("%12.6f %-8s ", (double)w->now_us / 1e6, subject);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        putchar('\n');
    }
}

/* The first violation ends the seed: later ones prove nothing. */
void
violated(struct world *w, const char *invariant, const char *fmt, ...)
{
    va_list ap;

    if (w->failed) {
        return;
    }
    w->failed = true;
    if (!w->options->quiet) {
        printf("seed %" PRIu64 " at %.6f s: %s violated: ", w->seed, (double)w->now_us / 1e6, invariant);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        putchar('\n');
    }
}

/* ---- names ---- */

static const struct {
    const char *text;
    enum kind kind;
    bool broken;
} all_names[NAMES] = {
    {"plain", KIND_REENTRANT, false}, {"simple", KIND_SIMPLE, false},      {"count", KIND_COUNTER, false},
    {"fair", KIND_FAIR, false},       {"rw", KIND_RW, false},              {"permits", KIND_SEMAPHORE, false},
    {"fenced", KIND_FENCED, false},   {"plain-2", KIND_REENTRANT, false},  {"fair-2", KIND_FAIR, false},
    {"broken", KIND_REENTRANT, true}, {"broken-rw", KIND_RW, true},        {"broken-p", KIND_SEMAPHORE, true},
};

/* The names of a seed: the first habit.names of them in an order of its own. */
static void
draw_names(struct world *w)
{
    int order[NAMES];

    for (int i = 0; i < NAMES; i++) {
        order[i] = i;
    }
    for (int i = NAMES - 1; i > 0; i--) {
        int j = (int)below(w, i + 1), other = order[i];

        order[i] = order[j];
        order[j] = other;
    }
    for (int i = 0; i < NAMES; i++) {
        struct name *n = &w->name[i];

        n->text = all_names[order[i]].text;
        n->kind = w->options->one_kind ? w->options->kind : masters_kind(w, all_names[order[i]].kind, i);
        n->broken = all_names[order[i]].broken;
        n->domain = w->shape == SHAPE_CLUSTER ? i : 0;
        n->limit = (kind_rows[n->kind].flags & KIND_F_PERMITS) != 0 ? (uint32_t)between(w, 1, 3) : 1;
    }
}

int
name_find(const struct world *w, struct slice text)
{
    for (int i = 0; i < NAMES; i++) {
        if (slice_eq(text, slice_of(w->name[i].text))) {
            return i;
        }
    }
    abort();
}

/* ---- daemons ---- */

static void *
many(int n, size_t size)
{
    void *p = calloc((size_t)n, size);

    if (p == NULL) {
        abort();
    }
    return p;
}

static void
make_daemons(struct world *w)
{
    w->daemons_n = w->habit.daemons > DAEMONS ? w->habit.daemons : DAEMONS;
    w->daemon = many(w->daemons_n, sizeof(w->daemon[0]));
    w->in_turn = many(w->daemons_n, sizeof(w->in_turn[0]));
    for (int d = 0; d < w->daemons_n; d++) {
        struct daemon *dm = &w->daemon[d];

        dm->world = w;
        dm->index = d;
        dm->timer = (struct happening){.type = HAPPENS_CORE, .daemon = dm};
        snprintf(dm->name, sizeof(dm->name), "daemon-%d", d);
        snprintf(dm->clients, sizeof(dm->clients), "client-%d", d);
    }
    for (int i = 0; i < NAMES; i++) {
        w->name[i].odd = many(w->daemons_n, sizeof(w->name[i].odd[0]));
        w->name[i].ear = many(w->daemons_n, sizeof(w->name[i].ear[0]));
    }
}

/* ---- the run ---- */

void
world_begin(struct world *w, uint64_t seed, const struct options *o, struct totals *t)
{
    memset(w, 0, sizeof(*w));
    w->options = o;
    w->totals = t;
    w->seed = seed;
    w->rng = seed * UINT64_C(0xd1342543de82ef95) + 1;
    w->hash = seed;
    w->traced = o->trace;
    w->faults_on = true;
    w->now_us = US_PER_S;
    heap_init(&w->heap);
    draw_habits(w);
    draw_names(w);
    make_daemons(w);
    w->calm_us = w->now_us + o->virtual_us * 2 / 3;
    w->end_us = w->now_us + o->virtual_us;
    w->act = (struct happening){.type = HAPPENS_ACT};
    w->tick = (struct happening){.type = HAPPENS_TICK};
    w->loss = (struct happening){.type = HAPPENS_LOSS};
    w->doom = (struct happening){.type = HAPPENS_DOOM};
    w->rush.h = (struct happening){.type = HAPPENS_RUSH};
    servers_open(w);
    nature_begin(w);
    for (int d = 0; d < w->daemons_n; d++) {
        if (d < w->habit.daemons && &w->daemon[d] != w->newcomer) {
            daemon_start(&w->daemon[d]);
        }
    }
    schedule(w, &w->act, w->now_us + 50 * US_PER_MS);
    schedule(w, &w->tick, w->now_us + TICK_US);
}

void
world_end(struct world *w)
{
    for (int d = 0; d < w->daemons_n; d++) {
        if (w->daemon[d].alive) {
            daemon_stop(&w->daemon[d]);
        }
        state_free(&w->daemon[d]);
    }
    net_free(w);
    servers_close(w);
    unschedule(w, &w->act);
    unschedule(w, &w->tick);
    unschedule(w, &w->loss);
    unschedule(w, &w->doom);
    unschedule(w, &w->rush.h);
    if (heap_min(&w->heap) != NULL && !w->failed) {
        violated(w, "R1", "something is left in the heap of a world that has ended");
    }
    heap_fini(&w->heap);
    for (int i = 0; i < NAMES; i++) {
        free(w->name[i].odd);
        free(w->name[i].ear);
    }
    free(w->in_turn);
    free(w->daemon);
}

static void
act(struct world *w)
{
    int64_t think_us = w->habit.think_us / w->habit.busy;

    if (!w->leaving) {
        clients_act(w);
    }
    schedule(w, &w->act, w->now_us + 1 + below(w, 2 * think_us));
}

static void
tick(struct world *w)
{
    if (w->faults_on && w->now_us >= w->calm_us) {
        nature_rests(w);
    }
    nature_ticks(w);
    if (!w->faults_on && !w->leaving) {
        check_calm(w);
    }
    masters_check(w);
    foreign_tick(w);
    check_ours(w);
    check_released(w);
    rush_ticks(w);
    schedule(w, &w->tick, w->now_us + TICK_US);
}

static void
happens(struct world *w, struct happening *h)
{
    struct daemon *d = h->daemon;

    if (d != NULL) {
        loop_enter(d);
        w->in_turn[d->index] = true;
        if (d->unwritten) { /* it goes on where it stopped */
            replies_write(d);
        }
    }
    switch (h->type) {
    case HAPPENS_EVENT:
        loop_event(h);
        break;
    case HAPPENS_CONNECT:
        loop_connected(h);
        break;
    case HAPPENS_THERE:
        net_there(h);
        break;
    case HAPPENS_BACK:
        net_back(h);
        break;
    case HAPPENS_CORE:
        break; /* due events are done at the end of the turn */
    case HAPPENS_ACT:
        act(w);
        break;
    case HAPPENS_TICK:
        tick(w);
        break;
    case HAPPENS_LOSS:
        nature_loses(w);
        break;
    case HAPPENS_DOOM:
        clients_doom(w);
        break;
    case HAPPENS_SYNC:
        replica_syncs(h);
        break;
    case HAPPENS_RUSH:
        rush_goes_on(w);
        break;
    }
}

/* Ends the turns of daemons that have no more events at this moment. */
static void
end_turns(struct world *w)
{
    struct heap_node *next = heap_min(&w->heap);
    const struct daemon *more = NULL;

    if (next != NULL && heap_at(&w->heap, next) == w->now_us) {
        more = container_of(next, struct happening, node)->daemon;
    }
    for (int i = 0; i < w->habit.daemons; i++) {
        struct daemon *d = &w->daemon[i];

        if (w->in_turn[i] && d != more) {
            w->in_turn[i] = false;
            if (d->alive && w->now_us >= d->paused_until_us) {
                loop_enter(d);
                daemon_turn_end(d);
            }
        }
    }
}

void
world_goes(struct world *w, int64_t until_us)
{
    while (!w->failed) {
        struct heap_node *first = heap_min(&w->heap);
        struct happening *h;

        if (first == NULL || heap_at(&w->heap, first) > until_us) {
            break;
        }
        w->now_us = heap_at(&w->heap, first);
        h = container_of(first, struct happening, node);
        if (h->daemon != NULL && w->now_us < h->daemon->paused_until_us) {
            schedule(w, h, h->daemon->paused_until_us);
            continue;
        }
        unschedule(w, h);
        w->totals->events++;
        note(w, (uint64_t)w->now_us, (uint64_t)h->type << 8 | (h->daemon != NULL ? (uint64_t)h->daemon->index + 1 : 0));
        happens(w, h);
        end_turns(w);
    }
}

uint64_t
world_run(uint64_t seed, const struct options *o, struct totals *t, bool *failed)
{
    static struct world w;
    int64_t begin_us;

    world_begin(&w, seed, o, t);
    begin_us = w.now_us;
    world_goes(&w, w.end_us);
    if (!w.failed) { /* all sessions go, and nothing may be left */
        for (int d = 0; d < w.habit.daemons; d++) {
            clients_leave(&w.daemon[d]);
        }
        w.leaving = true;
        world_goes(&w, w.end_us + 6 * US_PER_S);
        check_left_behind(&w);
        world_goes(&w, w.end_us + 20 * US_PER_S);
    }
    if (!w.failed) {
        check_end(&w);
    }
    t->seeds++;
    t->shapes[w.shape]++;
    t->virtual_us += (uint64_t)(w.now_us - begin_us);
    world_end(&w);
    t->failed += w.failed;
    *failed = w.failed;
    return w.hash;
}
