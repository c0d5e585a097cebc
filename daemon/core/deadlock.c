/*
 * deadlock.c -- waits inside this daemon that could never end: found when they begin, or a little later.
 *
 * The graph (graph.c): an owner waits for one name at a time (order.c, O1), and a name is held by owners. A waiter
 * needs every holder of the name to give it back, so one holder that waits for the waiter, directly or through others,
 * makes the wait hopeless: a plain cycle, with one holder or with several readers. A reader behind a writer that waits
 * needs what the writer needs. A waiter for a permit needs only one of the holders: its wait is hopeless when every
 * holder is stuck, which only a daemon that has all holders can find.
 * Cycles over several daemons are found by trail.c.
 */
#include "daemon/core/requests.h"

#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/graph.h"
#include "daemon/core/owner.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/waits.h"

/*
 * When a wait begins, a search finds out whether the wait closes a cycle. Most chains are short, and the search ends
 * within the event. A search that takes more than SEARCH_STEPS is left to the job: one search for all waits that were
 * put off before it begins, in slices of JOB_STEPS, one in each CORE_TIME step, so a graph of any size is walked once
 * for all of them. The wait that closes a cycle is the last one of the cycle to begin, so a search that begins with it,
 * or later, sees the whole cycle. After a search the job rests for as long as the search took.
 *
 * D1  A wait is answered DEADLOCK only after a comparison with the present records: the waits and holds of its cycle,
 *     and with permits whatever makes their holders stuck. If the graph has at most NOW_MAX records, one step compares
 *     them all. In a larger graph, each wait and each hold was seen both before and after one moment, so at that moment
 *     all of them existed.
 * D2  A request on search.waits or search.roots waits; a request that ends is on neither.
 */

enum {
    SEARCH_STEPS = 512,  /* records looked at within one event */
    OLD_WAIT_STEPS = 64, /* ... when a wait has become old */
    OLD_WAITS_MAX = 16,  /* searches for old waits in one slice; each looks at OLD_WAIT_STEPS records, and before that
                            at the claims of its owner, up to the first that is held */
    JOB_STEPS = 4096,    /* records looked at in one slice of the job: about half a millisecond */
    NOW_MAX = 8 * 1024,  /* ... before a cycle is answered, in one step: D1 */
    MEMORY_OWNERS_MAX = 4096, /* owners for which the job keeps its memory */
};

/* ---- within one event ---- */

static uint64_t
steps_max(const struct core *c, uint64_t most)
{
    return c->conf.search_steps != 0 && c->conf.search_steps < most ? c->conf.search_steps : most;
}

/* The cycle is the path; its first owner is the one that waits by r. */
static void
answer(struct core *c, const struct graph *g, struct request *r)
{
    struct core_hop hop[HOPS_MAX];
    size_t hops = g->path_n < HOPS_MAX ? g->path_n : HOPS_MAX; /* the answer names no more of a longer cycle */

    hop[0] = wait_hop(r->owner, r->claim->lock);
    for (size_t i = 1; i < hops; i++) {
        const struct graph_owner *v = &g->owner[g->path[i]];

        hop[i] = wait_hop(v->owner, g->lock[v->lock].queue->lock);
    }
    request_deadlock(c, r, hop, hops);
}

/*
 * r begins to wait, or has waited for long: if that can never end, answers it; then true. An owner with one claim holds
 * nothing, so no wait leads to it. A search of more than `most` steps is left to the job.
 */
static bool
find_cycle(struct core *c, struct request *r, uint64_t most)
{
    struct graph *g = &c->graph[GRAPH_EVENT];

    if (r->owner->claims_n < 2 || !wait_is_for_holders(r->claim->lock, wait_is_shared(r))) {
        return false;
    }
    graph_begin(c, g, GRAPH_EVENT);
    g->steps_end = steps_max(c, most);
    (void)graph_add(g, r->owner, r);
    if (graph_grow(c, g)) {
        list_remove(&r->search_node);
        list_push_back(&c->search.waits, &r->search_node);
        return false;
    }
    if (!g->owner[0].stuck || !graph_through(g, 0)) {
        return false;
    }
    answer(c, g, r);
    return true;
}

bool
deadlock_ends_wait(struct core *c, struct request *r)
{
    return find_cycle(c, r, SEARCH_STEPS);
}

/* ---- the job ---- */

void
deadlock_init(struct search *s)
{
    list_init(&s->waits);
    list_init(&s->roots);
    list_init(&s->old_waits);
}

static void
search_begin(struct core *c, struct search *s)
{
    graph_begin(c, &c->graph[GRAPH_JOB], GRAPH_JOB);
    list_move_all(&s->roots, &s->waits); /* waits that begin later belong to the next search */
    s->began_us = c->now_us;
    s->phase = SEARCH_GROW;
}

static void
search_end(struct core *c, struct search *s)
{
    assert(list_empty(&s->roots));
    if (c->graph[GRAPH_JOB].owners_room > MEMORY_OWNERS_MAX) {
        graph_clear(&c->graph[GRAPH_JOB]);
    }
    s->phase = SEARCH_NONE;
    s->rest_until_us = after_us(c->now_us, c->now_us - s->began_us);
}

/* Grows the graph from all waits. True: there is more to be done. */
static bool
grow(struct core *c, struct search *s, struct graph *g)
{
    while (!list_empty(&s->roots)) {
        struct request *r = container_of(s->roots.next, struct request, search_node);

        if (g->steps >= g->steps_end) {
            return true;
        }
        g->steps++;
        list_remove(&r->search_node);
        if (wait_of_owner(r->owner) == r) {
            (void)graph_add(g, r->owner, r);
        }
    }
    return graph_grow(c, g);
}

/*
 * D1: compares n waits and holds of the cycle, which begins at index `first` of the path, from index `at` on. False:
 * one of them has ended, and leaves the graph.
 */
static bool
cycle_lasts(struct core *c, struct graph *g, size_t first, size_t at, size_t n)
{
    for (; n > 0; n--, at = at + 1 < g->path_n ? at + 1 : first) {
        g->steps++;
        if (!graph_waits(g, g->path[at])) {
            graph_unstick(g, g->path[at]);
            return false;
        }
        if (!graph_holds(c, g, g->path_hold[at])) {
            graph_drop_hold(g, g->path_hold[at]);
            graph_cut(g, at + 1);
            return false;
        }
    }
    return true;
}

/* The path from `first` on is a cycle: the owner that began to wait last has closed it, and is the victim. */
static void
answer_last(struct core *c, struct graph *g, size_t first)
{
    size_t n = g->path_n - first, hops = n < HOPS_MAX ? n : HOPS_MAX, victim = first;
    struct core_hop hop[HOPS_MAX];
    uint32_t owner;

    for (size_t i = first + 1; i < g->path_n; i++) {
        victim = g->owner[g->path[i]].wait > g->owner[g->path[victim]].wait ? i : victim;
    }
    g->steps += n / 8; /* comparing adjacent numbers costs little */
    if (!cycle_lasts(c, g, first, victim, n <= NOW_MAX ? n : hops)) {
        return;
    }
    for (size_t i = 0; i < hops; i++) {
        const struct graph_owner *v = &g->owner[g->path[first + (victim - first + i) % n]];

        hop[i] = wait_hop(v->owner, g->lock[v->lock].queue->lock);
    }
    owner = g->path[victim];
    request_deadlock(c, wait_of_owner(g->owner[owner].owner), hop, hops);
    graph_unstick(g, owner);
}

/*
 * Answers the cycles, one after the other. True: there may be more of them. With permits a cycle need not go through
 * the wait that has closed it; if the graph is not large, the search looks for a cycle that does.
 */
static bool
find(struct core *c, struct graph *g, bool small)
{
    enum graph_found found = GRAPH_CYCLE;

    while (found == GRAPH_CYCLE) {
        uint32_t latest = small ? graph_latest(g) : GRAPH_NONE;
        size_t first = 0;

        if (latest == GRAPH_NONE || !graph_through(g, latest)) {
            found = graph_find(g, &first);
        }
        if (found == GRAPH_CYCLE) {
            answer_last(c, g, first);
        }
    }
    return found == GRAPH_MORE;
}

/* Does one slice. If the graph is small, the slice compares all of it with the present records before an answer: D1. */
static void
advance_job(struct core *c)
{
    struct search *s = &c->search;
    struct graph *g = &c->graph[GRAPH_JOB];
    bool small;

    if (s->phase == SEARCH_NONE && !list_empty(&s->waits) && c->now_us >= s->rest_until_us) {
        search_begin(c, s);
    }
    if (s->phase == SEARCH_NONE) {
        return;
    }
    g->steps_end = g->steps + steps_max(c, JOB_STEPS);
    if (s->phase == SEARCH_GROW && !grow(c, s, g)) {
        s->phase = SEARCH_VERIFY;
    }
    if (s->phase == SEARCH_VERIFY && g->stuck_n == 0) {
        search_end(c, s);
        return;
    }
    small = s->phase != SEARCH_GROW && g->owners_n + g->holds_n <= NOW_MAX;
    g->steps_end = small ? g->steps + 16 * NOW_MAX : g->steps_end;
    if (s->phase == SEARCH_FIND && small) { /* a later slice of the answers: D1 needs another comparison */
        graph_verify_begin(g);
        s->phase = SEARCH_VERIFY;
    }
    if (s->phase == SEARCH_VERIFY && !graph_verify(c, g)) {
        s->phase = SEARCH_FIND;
    }
    if (s->phase == SEARCH_FIND && !find(c, g, small)) {
        search_end(c, s);
    }
}

/* ---- a wait has become old ---- */

static bool
holds_something(const struct owner *o)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &o->claims)
    {
        if (container_of(pos, struct claim, owner_node)->state == CLAIM_HELD) {
            return true;
        }
    }
    return false;
}

/* Searches here, then at other daemons; not for an owner that holds nothing, for which no owner can wait. */
static void
search_for_old_wait(struct core *c, struct request *r)
{
    if (holds_something(r->owner) && wait_of_owner(r->owner) == r && !find_cycle(c, r, OLD_WAIT_STEPS)) {
        trail_begin(c, r);
    }
}

/* The search waits for the next CORE_TIME: timers that are due, such as renewals, must not wait for it. */
void
deadlock_old_wait(struct core *c, struct request *r)
{
    list_remove(&r->old_wait_node);
    list_push_back(&c->search.old_waits, &r->old_wait_node);
}

/* ---- slices ---- */

void
deadlock_advance(struct core *c)
{
    struct search *s = &c->search;

    for (int n = 0; n < OLD_WAITS_MAX && !list_empty(&s->old_waits); n++) {
        struct request *r = container_of(s->old_waits.next, struct request, old_wait_node);

        list_remove(&r->old_wait_node);
        search_for_old_wait(c, r); /* may answer r, and other requests */
    }
    advance_job(c);
}
