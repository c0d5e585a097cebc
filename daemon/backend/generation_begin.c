/*
 * generation_begin.c -- which slots need a new generation (R4), and the proposals of new ones to the anchors.
 *
 * A slot needs a new generation when its data may not be that of its present one: its node has another origin, the slot
 * was open since, or its record was lost. All such slots of a node are in one proposal; the node's next proposal waits
 * until this one is answered. An anchor refuses a proposal if it knows a higher number for the slots than the proposal
 * expects: of many daemons that propose the same, the first one wins, and the others learn its number in the answer.
 */
#include <stdlib.h>

#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

enum { NUMBER_BITS = 20 };

static bool
needs(const struct generations *g, const struct gslot *s)
{
    const struct gnode *n = s->node != NO_INDEX ? &g->node[s->node] : NULL;

    return n != NULL && n->answered_us != 0 && n->time_us > s->open_us && !s->open && !s->proposed &&
           !slot_is_sound(g, s);
}

static void
add_slot(struct generations *g, struct proposal *p, uint16_t slot)
{
    struct gslot *s = &g->slot[slot];
    uint64_t number = s->entry != NO_INDEX ? g->entry[s->entry].number : 1;

    if (p->ranges_n > 0 && p->range[p->ranges_n - 1].last + 1 == slot) {
        p->range[p->ranges_n - 1].last = slot;
    } else {
        if ((p->ranges_n & (p->ranges_n - 1)) == 0) { /* the array is full at powers of two */
            p->range = mem_array(p->range, p->ranges_n == 0 ? 1 : 2 * p->ranges_n, sizeof(*p->range));
        }
        p->range[p->ranges_n++] = (struct slot_range){slot, slot};
    }
    p->expected = number > p->expected ? number : p->expected;
    s->proposed = true;
}

/*
 * Numbers of different daemons differ, also when the clocks of nodes are behind: of two generations with one number and
 * different slots an anchor would take the first one only. The number is at most a second ahead of the clock.
 */
static void
give_number(struct generations *g, struct proposal *p, const struct gnode *n)
{
    uint64_t above = n->time_us > g->highest ? n->time_us : g->highest;

    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    p->number = above + 1 + (g->random >> (64 - NUMBER_BITS));
    p->origin = n->origin;
    p->since_us = n->time_us;
}

/* True once two anchors have answered. */
bool
begin_may(const struct generations *g)
{
    unsigned answered = 0;

    for (unsigned i = 0; i < ANCHORS; i++) {
        answered += g->anchor[i].answered;
    }
    return answered >= 2;
}

void
begin_all(struct generations *g, int64_t now_us)
{
    if (!g->begin_due || !begin_may(g)) {
        return;
    }
    g->begin_due = false;
    for (unsigned slot = 0; slot < SLOTS_N; slot++) {
        const struct gslot *s = &g->slot[slot];
        struct proposal *p = s->node != NO_INDEX ? &g->proposal[s->node] : NULL;

        if (p != NULL && needs(g, s) && (!p->live || p->began_us == 0)) {
            p->live = true;
            add_slot(g, p, (uint16_t)slot);
        }
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct proposal *p = &g->proposal[i];

        if (p->live && p->began_us == 0) {
            p->began_us = now_us;
            give_number(g, p, &g->node[i]);
            ask_anchors(g);
        }
    }
}

void
begin_propose(struct generations *g, unsigned anchor)
{
    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct proposal *p = &g->proposal[i];

        if (p->live && p->began_us != 0 && (p->answered & 1u << anchor) == 0) {
            struct generation_entry e = {.number = p->number,
                                         .origin = p->origin,
                                         .since_us = p->since_us,
                                         .range = p->range,
                                         .ranges_n = p->ranges_n};

            message_add(g, &e, p->expected);
            p->sent |= 1u << anchor;
        }
    }
}

static void
drop(struct generations *g, struct proposal *p)
{
    for (size_t i = 0; i < p->ranges_n; i++) {
        for (unsigned slot = p->range[i].first; slot <= p->range[i].last; slot++) {
            g->slot[slot].proposed = false;
        }
    }
    free(p->range);
    *p = (struct proposal){.live = false};
    begin_due(g); /* if no anchor took it, its slots still need a generation */
}

/* A proposal waits at most one beat for the answer of the third anchor. */
void
begin_answered(struct generations *g, unsigned anchor, bool answered, int64_t now_us)
{
    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct proposal *p = &g->proposal[i];

        if (!p->live || p->began_us == 0) {
            continue;
        }
        if (answered && (p->sent & 1u << anchor) != 0) {
            p->answered |= 1u << anchor;
        }
        p->sent &= ~(1u << anchor);
        if (p->answered == (1u << ANCHORS) - 1 || now_us - p->began_us > GENERATION_BEAT_US) {
            drop(g, p);
        }
    }
}
