/*
 * graph.c -- the wait-for graph of this daemon, see graph.h.
 *
 * Owns its arrays; owners, queues and claims are the core's. Changes nothing there but the marks.
 */
#include "daemon/core/graph.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/waits.h"

enum { ROOM_MIN = 64 };

/* ---- its arrays ---- */

static size_t
larger_room(size_t room)
{
    return room > 0 ? 2 * room : ROOM_MIN;
}

/* Room for one more of each. */
static void
reserve(struct graph *g)
{
    if (g->owners_n == g->owners_room) {
        g->owners_room = larger_room(g->owners_room);
        g->owner = mem_array(g->owner, g->owners_room, sizeof(*g->owner));
        g->unstuck = mem_array(g->unstuck, g->owners_room, sizeof(*g->unstuck));
        g->path = mem_array(g->path, g->owners_room, sizeof(*g->path));
        g->path_hold = mem_array(g->path_hold, g->owners_room, sizeof(*g->path_hold));
    }
    if (g->locks_n == g->locks_room) {
        g->locks_room = larger_room(g->locks_room);
        g->lock = mem_array(g->lock, g->locks_room, sizeof(*g->lock));
    }
    if (g->holds_n == g->holds_room) {
        g->holds_room = larger_room(g->holds_room);
        g->hold = mem_array(g->hold, g->holds_room, sizeof(*g->hold));
    }
}

void
graph_begin(struct core *c, struct graph *g, enum graph_which which)
{
    g->which = which;
    g->serial = ++c->searches;
    g->owners_n = g->locks_n = g->holds_n = 0;
    g->expanded_n = g->unstuck_n = g->path_n = 0;
    g->find_at = g->verified_n = 0;
    g->stuck_n = 0;
    g->steps = g->steps_end = 0;
}

void
graph_clear(struct graph *g)
{
    free(g->owner);
    free(g->lock);
    free(g->hold);
    free(g->unstuck);
    free(g->path);
    free(g->path_hold);
    *g = (struct graph){.owner = NULL};
}

void
graph_owner_freed(struct core *c, const struct owner *o)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct graph *g = &c->graph[i];

        if (o->mark[i].serial == g->serial && g->serial != 0 && o->mark[i].index < g->owners_n) {
            g->owner[o->mark[i].index].owner = NULL;
        }
    }
}

void
graph_queue_freed(struct core *c, const struct queue *q)
{
    for (int i = 0; i < GRAPHS; i++) {
        struct graph *g = &c->graph[i];

        if (q->mark[i].serial == g->serial && g->serial != 0 && q->mark[i].index < g->locks_n) {
            g->lock[q->mark[i].index].queue = NULL;
        }
    }
}

/* ---- stuck owners ---- */

void
graph_cut(struct graph *g, size_t n)
{
    while (g->path_n > n) {
        g->owner[g->path[--g->path_n]].path_at = GRAPH_NONE;
    }
}

void
graph_unstick(struct graph *g, uint32_t owner)
{
    struct graph_owner *v = &g->owner[owner];

    if (v->stuck) {
        v->stuck = false;
        g->stuck_n--;
        g->unstuck[g->unstuck_n++] = owner;
        if (v->path_at != GRAPH_NONE) {
            graph_cut(g, v->path_at);
        }
    }
}

static void
open_lock(struct graph *g, struct graph_lock *l)
{
    l->open = true;
    for (uint32_t i = l->waiter; i != GRAPH_NONE; i = g->owner[i].next) {
        graph_unstick(g, i);
        g->steps++;
    }
}

void
graph_drop_hold(struct graph *g, uint32_t hold)
{
    struct graph_hold *h = &g->hold[hold];
    struct graph_lock *l = &g->lock[h->lock];

    if (!h->counts) {
        return;
    }
    h->counts = false;
    l->stuck_n--;
    if (!l->open && (l->any || l->stuck_n == 0)) {
        open_lock(g, l);
    }
}

/* Drops the holds of owners that are not stuck any more: they will give them back. False: the steps have run out. */
static bool
settle(struct graph *g)
{
    while (g->unstuck_n > 0 && g->steps < g->steps_end) {
        for (uint32_t i = g->owner[g->unstuck[--g->unstuck_n]].hold; i != GRAPH_NONE; i = g->hold[i].next) {
            graph_drop_hold(g, i);
            g->steps++;
        }
    }
    return g->unstuck_n == 0;
}

/* ---- building it ---- */

static uint32_t
lock_at(struct graph *g, struct lock *l)
{
    struct graph_mark *m = &l->queue->mark[g->which];

    if (m->serial != g->serial) {
        *m = (struct graph_mark){.serial = g->serial, .index = (uint32_t)g->locks_n++};
        g->lock[m->index] = (struct graph_lock){
            .queue = l->queue, .waiter = GRAPH_NONE, .any = policy(l)->any_makes_room};
    }
    return m->index;
}

uint32_t
graph_add(struct graph *g, struct owner *o, const struct request *wait)
{
    struct graph_mark *m = &o->mark[g->which];
    struct graph_owner *v;

    if (m->serial == g->serial) {
        return m->index;
    }
    reserve(g);
    *m = (struct graph_mark){.serial = g->serial, .index = (uint32_t)g->owners_n++};
    v = &g->owner[m->index];
    *v = (struct graph_owner){.owner = o, .lock = GRAPH_NONE, .next = GRAPH_NONE, .hold = GRAPH_NONE,
                              .path_at = GRAPH_NONE, .reached_from = GRAPH_NONE};
    if (wait != NULL && wait_is_for_holders(wait->claim->lock, wait_is_shared(wait))) {
        struct graph_lock *l;

        v->wait = wait->serial;
        v->lock = lock_at(g, wait->claim->lock);
        l = &g->lock[v->lock];
        v->next = l->waiter;
        l->waiter = m->index;
        v->stuck = !l->open;
        g->stuck_n += v->stuck;
    }
    return m->index;
}

/*
 * Adds a holder of the lock. False, with permits only: the holder is not stuck, or its hold is over; so its permit
 * comes back, and the other holders do not matter.
 */
static bool
add_hold(struct core *c, struct graph *g, uint32_t lock, const struct claim *cl)
{
    uint32_t owner;
    bool stuck;

    g->steps++;
    if (wait_hold_is_over(c, cl)) {
        return !g->lock[lock].any;
    }
    owner = graph_add(g, cl->owner, wait_of_owner(cl->owner));
    reserve(g);
    stuck = g->owner[owner].stuck;
    if (!stuck && g->lock[lock].any) {
        return false;
    }
    g->hold[g->holds_n] = (struct graph_hold){.claim = claim_id(cl),
                                              .token = cl->token,
                                              .owner = owner,
                                              .lock = lock,
                                              .next = g->owner[owner].hold,
                                              .counts = stuck};
    g->owner[owner].hold = (uint32_t)g->holds_n++;
    g->lock[lock].holds_n++;
    g->lock[lock].stuck_n += stuck;
    return true;
}

/* The holder with which add_holders() continues; NULL: that holder has left. */
static struct list *
next_holder(const struct core *c, const struct graph_lock *l)
{
    struct list *holders = &l->queue->lock->holders;
    struct map_node *n;
    struct claim *cl;

    if (l->next_claim == 0) {
        return holders->next;
    }
    n = map_find(&c->claims, l->next_claim);
    cl = n != NULL ? container_of(n, struct claim, by_id) : NULL;
    return cl != NULL && cl->state == CLAIM_HELD && cl->lock == l->queue->lock ? &cl->node : NULL;
}

/*
 * Adds the holders of the lock, as far as the steps go. False: there are more. If the holder to continue with has left:
 * with permits, one came back, so no waiter is stuck; with readers, all are added anew, and a hold that is added twice
 * is counted twice as well, which does no harm.
 */
static bool
add_holders(struct core *c, struct graph *g, uint32_t lock)
{
    struct list *head = &g->lock[lock].queue->lock->holders, *pos = next_holder(c, &g->lock[lock]);
    bool anew = pos == NULL; /* all in this step: no holder is left to continue with in the next one */

    if (anew && g->lock[lock].any) {
        return true;
    }
    for (pos = anew ? head->next : pos; pos != head; pos = pos->next) {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (g->steps >= g->steps_end && !anew) {
            g->lock[lock].next_claim = claim_id(cl);
            return false;
        }
        if (!add_hold(c, g, lock, cl)) {
            return true;
        }
    }
    g->lock[lock].complete = true;
    return true;
}

/* Adds all holders of the next lock. False: the steps have run out. */
static bool
expand(struct core *c, struct graph *g)
{
    uint32_t lock = (uint32_t)g->expanded_n;
    const struct queue *q = g->lock[lock].queue;
    struct graph_lock *l;

    if (g->lock[lock].next_claim == 0) {
        g->lock[lock].hold = (uint32_t)g->holds_n;
    }
    if (q != NULL && wait_is_for_holders(q->lock, false) && !add_holders(c, g, lock)) {
        return false;
    }
    l = &g->lock[lock];
    if (!l->open && (!l->complete || l->stuck_n == 0)) {
        open_lock(g, l);
    }
    g->expanded_n++;
    g->steps++;
    return true;
}

bool
graph_grow(struct core *c, struct graph *g)
{
    while (g->unstuck_n > 0 || g->expanded_n < g->locks_n) {
        if (g->steps >= g->steps_end || !settle(g) || (g->expanded_n < g->locks_n && !expand(c, g))) {
            return true;
        }
    }
    return false;
}

/* ---- the graph against the present records ---- */

bool
graph_waits(const struct graph *g, uint32_t owner)
{
    const struct graph_owner *v = &g->owner[owner];
    const struct request *r = v->owner != NULL ? wait_of_owner(v->owner) : NULL;

    return r != NULL && r->serial == v->wait && r->claim->lock->queue == g->lock[v->lock].queue &&
           wait_is_for_holders(r->claim->lock, wait_is_shared(r));
}

bool
graph_holds(const struct core *c, const struct graph *g, uint32_t hold)
{
    const struct graph_hold *h = &g->hold[hold];
    struct map_node *n = map_find(&c->claims, h->claim);
    const struct claim *cl = n != NULL ? container_of(n, struct claim, by_id) : NULL;

    return cl != NULL && cl->state == CLAIM_HELD && cl->token == h->token && cl->owner == g->owner[h->owner].owner &&
           cl->lock->queue == g->lock[h->lock].queue && !wait_hold_is_over(c, cl);
}

/* Verifies one record; the holds come first, then the locks, then the owners. */
static void
verify_one(struct core *c, struct graph *g, size_t at)
{
    if (at < g->holds_n) {
        if (g->hold[at].counts && !graph_holds(c, g, (uint32_t)at)) {
            graph_drop_hold(g, (uint32_t)at);
        }
        return;
    }
    at -= g->holds_n;
    if (at < g->locks_n) {
        struct graph_lock *l = &g->lock[at];

        if (!l->open && (l->queue == NULL || (l->any && l->queue->lock->held_n != l->holds_n))) {
            open_lock(g, l);
        }
        return;
    }
    at -= g->locks_n;
    if (g->owner[at].stuck && !graph_waits(g, (uint32_t)at)) {
        graph_unstick(g, (uint32_t)at);
    }
}

void
graph_verify_begin(struct graph *g)
{
    graph_cut(g, 0);
    g->verified_n = 0;
}

bool
graph_verify(struct core *c, struct graph *g)
{
    size_t n = g->holds_n + g->locks_n + g->owners_n;

    for (; g->verified_n < n && g->steps < g->steps_end; g->verified_n++, g->steps++) {
        verify_one(c, g, g->verified_n);
    }
    return g->verified_n < n || !settle(g);
}

/* ---- cycles ---- */

/* The first hold of the lock that belongs to an owner that is stuck. There is one. */
static uint32_t
first_stuck(struct graph *g, struct graph_lock *l)
{
    while (!g->hold[l->hold + l->first_counting].counts) {
        l->first_counting++;
        g->steps++;
        assert(l->first_counting < l->holds_n); /* G3 */
    }
    return l->hold + l->first_counting;
}

/* The next owner on the path; GRAPH_NONE: no owner is stuck any more. */
static uint32_t
next_on_path(struct graph *g)
{
    const struct graph_owner *v;
    uint32_t hold;

    if (g->path_n > 0) {
        v = &g->owner[g->path[g->path_n - 1]];
        assert(v->stuck && !g->lock[v->lock].open); /* G4 */
        hold = first_stuck(g, &g->lock[v->lock]);
        g->path_hold[g->path_n - 1] = hold;
        return g->hold[hold].owner;
    }
    while (g->find_at < g->owners_n && !g->owner[g->find_at].stuck) {
        g->find_at++;
    }
    return g->find_at < g->owners_n ? (uint32_t)g->find_at : GRAPH_NONE;
}

enum graph_found
graph_find(struct graph *g, size_t *first)
{
    while (g->steps < g->steps_end && settle(g)) {
        uint32_t next = next_on_path(g);

        g->steps++;
        if (next == GRAPH_NONE) {
            return GRAPH_END;
        }
        if (g->owner[next].path_at != GRAPH_NONE) {
            *first = g->owner[next].path_at;
            return GRAPH_CYCLE;
        }
        g->owner[next].path_at = (uint32_t)g->path_n;
        g->path[g->path_n++] = next;
    }
    return GRAPH_MORE;
}

uint32_t
graph_latest(struct graph *g)
{
    uint32_t latest = GRAPH_NONE;

    if (!settle(g) || g->path_n > 0) {
        return GRAPH_NONE;
    }
    g->steps += g->owners_n / 8; /* comparing adjacent numbers costs little */
    for (uint32_t i = 0; i < g->owners_n; i++) {
        if (g->owner[i].stuck && (latest == GRAPH_NONE || g->owner[i].wait > g->owner[latest].wait)) {
            latest = i;
        }
    }
    return latest;
}

/*
 * Searches breadth first from the owner `first` until a hold leads back to it: returns the owner that waits for that
 * hold, *hold. g->path gathers the owners that were reached.
 */
static uint32_t
reach(struct graph *g, uint32_t first, size_t *seen_n, uint32_t *hold)
{
    g->path[(*seen_n)++] = first;
    for (size_t at = 0; at < *seen_n; at++) {
        uint32_t from = g->path[at];
        const struct graph_lock *l = &g->lock[g->owner[from].lock];

        for (uint32_t i = l->hold; i < l->hold + l->holds_n; i++) {
            struct graph_owner *to = &g->owner[g->hold[i].owner];

            if (!g->hold[i].counts) {
                continue;
            }
            if (g->hold[i].owner == first) {
                *hold = i;
                return from;
            }
            if (to->reached_from == GRAPH_NONE) {
                to->reached_from = from;
                to->reached_by = i;
                g->path[(*seen_n)++] = g->hold[i].owner;
            }
        }
    }
    return GRAPH_NONE;
}

/* The search is breadth first, so the cycle is the shortest one. */
bool
graph_through(struct graph *g, uint32_t owner)
{
    size_t seen_n = 0, n = 0;
    uint32_t hold, last = reach(g, owner, &seen_n, &hold);

    g->steps += seen_n;
    for (uint32_t i = last; i != GRAPH_NONE; i = i != owner ? g->owner[i].reached_from : GRAPH_NONE) {
        g->unstuck[n] = i; /* g->unstuck is empty now: the cycle backwards, */
        g->path_hold[n++] = hold;
        hold = g->owner[i].reached_by;
    }
    for (size_t i = 0; i < seen_n; i++) {
        g->owner[g->path[i]].reached_from = GRAPH_NONE;
    }
    for (size_t i = 0; i < n; i++) { /* ... and forwards */
        g->path[i] = g->unstuck[n - 1 - i];
        g->owner[g->path[i]].path_at = (uint32_t)i;
    }
    for (size_t i = 0; i < n / 2; i++) {
        uint32_t other = g->path_hold[i];

        g->path_hold[i] = g->path_hold[n - 1 - i];
        g->path_hold[n - 1 - i] = other;
    }
    g->path_n = n;
    return n > 0;
}
