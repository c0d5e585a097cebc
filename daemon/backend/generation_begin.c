/*
 * generation_begin.c -- which slots need a new generation (R4), and the proposals of new ones to the anchors.
 *
 * A slot needs a new generation when its data may not be that of its present one: its node has another origin, the slot
 * was open since, or its record was lost. All such slots of a node are in one proposal; the node's next proposal waits
 * until this one is answered. An anchor refuses a proposal if it knows a higher number for the slots than the proposal
 * expects: of many daemons that propose the same, the first one wins, and the others learn its number in the answer.
 */
#include <stdlib.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generation_table.h"
#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

/*
 * GB1 A daemon proposes a generation for a slot only by an answer of its node to a question that left after the daemon
 *     had learned of the slot's present generation. An earlier answer may show the data as it was before the change for
 *     which that generation has begun: the daemon would propose another one without a reason.
 * GB2 Before a daemon proposes, it waits for a random time, and then for the answer of an anchor, or for NEWS_US each
 *     of NEWS_ASKS_MAX that do not answer: daemons that notice one change at the same time join the generation that one
 *     of them has begun. The same anchor gets the proposal before the others do, which get it if that one has taken it,
 *     or has not answered for NEWS_US. So of several numbers for one change only one reaches the others, unless that
 *     anchor does not answer all daemons; then each anchor takes one number at most.
 * GB3 A grace period waits for all daemons, and a daemon may notice the change only by its next beat. So the daemon
 *     whose proposal was taken broadcasts the number. The other daemons register within SPREAD_US, each at a random
 *     time of its own, and only those that do not know the number yet. If the broadcast is lost, they do so at their
 *     beats.
 */

enum { NUMBER_BITS = 20, NEWS_ASKS_MAX = 2 };

#define PAUSE_US (100 * US_PER_MS)        /* the longest random time of GB2 */
#define NEWS_US (GENERATION_BEAT_US / 8) /* the wait for the answer of that anchor */
#define SPREAD_US (300 * US_PER_MS)      /* the longest random time of GB3 */

static bool
needs(const struct generations *g, const struct generation_slot *s)
{
    const struct generation_node *n = s->node != NO_INDEX ? &g->node[s->node] : NULL;

    return n != NULL && n->answered_us != 0 && n->time_us > s->open_us && !generation_slot_is_open(s) && !s->proposed &&
           !generation_slot_is_intact(g, s);
}

/* GB1 */
static bool
has_answered_since(const struct generations *g, const struct generation_slot *s)
{
    return s->generation == NO_INDEX || g->node[s->node].answered_us >= g->known[s->generation].named_us;
}

static void
add_slot(struct generations *g, struct generation_proposal *p, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];
    uint64_t number = s->generation != NO_INDEX ? g->known[s->generation].number : 1;

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

static uint64_t
draw(struct generations *g)
{
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return g->random;
}

/*
 * Numbers of different daemons differ, also when the clocks of nodes are behind: of two generations with one number and
 * different slots an anchor would take the first one only. The number is at most about a second above the node's clock,
 * or above the highest known number.
 */
static void
give_number(struct generations *g, struct generation_proposal *p, const struct generation_node *n)
{
    uint64_t above = n->time_us > g->highest ? n->time_us : g->highest;

    p->number = above + 1 + (draw(g) >> (64 - NUMBER_BITS));
    p->origin = n->origin;
    p->since_us = n->time_us;
}

/* True once two anchors have answered. */
bool
generation_begin_allowed(const struct generations *g)
{
    unsigned answered = 0;

    for (unsigned i = 0; i < ANCHORS; i++) {
        answered += g->anchor[i].answered;
    }
    return answered >= 2;
}

/* The anchor that is asked for news (GB2): the same for all daemons, unless it does not answer some of them. */
static unsigned
news_anchor(const struct generations *g)
{
    unsigned i = 0;

    while (i < ANCHORS - 1 && (g->anchor[i].silent || g->anchor[i].status != ANCHOR_VOTES)) {
        i++;
    }
    return i;
}

/* The nodes with slots that need a generation begin to wait (GB2); those whose answer is too old are asked (GB1). */
static void
begin_waits(struct generations *g, int64_t now_us)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct generation_slot *s = &g->slot[slot];
        struct generation_proposal *p = s->node != NO_INDEX ? &g->proposal[s->node] : NULL;

        if (p == NULL || p->live || p->due_us != 0 || !needs(g, s)) {
            continue;
        }
        if (has_answered_since(g, s)) {
            p->due_us = now_us + 1 + (int64_t)((draw(g) >> 32) % PAUSE_US);
        } else {
            g->node[s->node].due_us = 0;
        }
    }
}

/* GB2. If the anchor does not answer, another one is asked, and then none. */
static void
ask_news(struct generations *g, struct generation_proposal *p, int64_t now_us)
{
    if (p->news_asked_n > 0) {
        g->anchor[news_anchor(g)].silent = true;
    }
    p->news_asked_n++;
    p->news_asked_us = now_us;
    ask_anchor(g, news_anchor(g));
}

static void
ask_all(struct generations *g, struct generation_proposal *p)
{
    p->receivers = ALL_ANCHORS;
    ask_anchors(g);
}

static bool
is_news_late(const struct generation_proposal *p, int64_t now_us)
{
    return p->news_asked_n > 0 && !p->has_news && now_us - p->news_asked_us >= NEWS_US;
}

static bool
is_ready(const struct generation_proposal *p, int64_t now_us)
{
    return !p->live && (p->has_news || (p->news_asked_n == NEWS_ASKS_MAX && is_news_late(p, now_us)));
}

/* Proposes the slots of ready nodes that still need a generation. */
static void
propose(struct generations *g, int64_t now_us)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct generation_slot *s = &g->slot[slot];

        if (s->node != NO_INDEX && is_ready(&g->proposal[s->node], now_us) && needs(g, s) && has_answered_since(g, s)) {
            add_slot(g, &g->proposal[s->node], (uint16_t)slot);
        }
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct generation_proposal *p = &g->proposal[i];

        if (!is_ready(p, now_us)) {
            continue;
        }
        if (p->ranges_n == 0) {
            *p = (struct generation_proposal){.live = false}; /* another daemon has begun their generation */
            generation_begin_soon(g);
            continue;
        }
        p->live = true;
        p->began_us = now_us;
        p->receivers = 1u << news_anchor(g);
        give_number(g, p, &g->node[i]);
        ask_anchor(g, news_anchor(g));
    }
}

void
generation_begin_tick(struct generations *g, int64_t now_us)
{
    bool ready = false;

    if (!generation_begin_allowed(g)) {
        return;
    }
    if (g->begin_due) {
        g->begin_due = false;
        begin_waits(g, now_us);
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct generation_proposal *p = &g->proposal[i];

        if (!p->live && p->due_us != 0 && now_us >= p->due_us &&
            (p->news_asked_n == 0 || (p->news_asked_n < NEWS_ASKS_MAX && is_news_late(p, now_us)))) {
            ask_news(g, p, now_us);
        } else if (p->live && p->receivers != ALL_ANCHORS && now_us - p->began_us >= NEWS_US) {
            ask_all(g, p);
        }
        ready = ready || is_ready(p, now_us);
    }
    if (ready) {
        propose(g, now_us);
    }
}

int64_t
generation_begin_next_us(const struct generations *g)
{
    int64_t next_us = g->begin_due && generation_begin_allowed(g) ? 0 : INT64_MAX;

    for (unsigned i = 0; i < g->nodes_n; i++) {
        const struct generation_proposal *p = &g->proposal[i];
        int64_t its_us = p->live ? p->began_us + NEWS_US
                         : p->news_asked_n == 0 ? p->due_us
                         : p->has_news ? 0 : p->news_asked_us + NEWS_US;

        next_us = p->due_us != 0 && p->receivers != ALL_ANCHORS && its_us < next_us ? its_us : next_us;
    }
    return next_us;
}

void
generation_begin_append(struct generations *g, unsigned anchor)
{
    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct generation_proposal *p = &g->proposal[i];

        if (p->live && (p->receivers & ~p->answered & 1u << anchor) != 0) {
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
drop(struct generations *g, struct generation_proposal *p)
{
    for (size_t i = 0; i < p->ranges_n; i++) {
        for (unsigned slot = p->range[i].first; slot <= p->range[i].last; slot++) {
            g->slot[slot].proposed = false;
        }
    }
    free(p->range);
    *p = (struct generation_proposal){.live = false};
    generation_begin_soon(g); /* if no anchor took it, its slots still need a generation */
}

/* GB3 */
void
generations_announced(struct generations *g, uint64_t number, int64_t now_us)
{
    struct generation_anchor *a = &g->anchor[news_anchor(g)];
    int64_t due_us = now_us + (int64_t)((draw(g) >> 32) % SPREAD_US);

    if (!generation_table_has(g, number)) {
        a->due_us = due_us < a->due_us ? due_us : a->due_us;
        a->ask_again = a->asked; /* the registration in flight may have come before the generation */
    }
}

static void
report_begun(struct generations *g, struct generation_proposal *p)
{
    if (!p->reported && generation_table_has(g, p->number)) {
        p->reported = true;
        g->on_news(g->ctx, GENERATION_BEGUN, 0, p->number);
    }
}

/* A proposal waits at most one beat for the answer of the third anchor. */
void
generation_begin_answered(struct generations *g, unsigned anchor, bool answered, int64_t sent_us, int64_t now_us)
{
    unsigned from = news_anchor(g);

    for (unsigned i = 0; i < g->nodes_n; i++) {
        struct generation_proposal *p = &g->proposal[i];

        if (!p->live) {
            if (p->news_asked_us != 0 && answered && anchor == from && sent_us >= p->news_asked_us) {
                p->has_news = true;
            } else if (p->news_asked_us != 0 && !answered && anchor != from) {
                ask_anchor(g, from); /* this one may be the anchor that was asked before */
            }
            continue;
        }
        if (answered && (p->sent & 1u << anchor) != 0) {
            p->answered |= 1u << anchor;
            report_begun(g, p);
        }
        if ((p->sent & 1u << anchor) != 0 && p->receivers != ALL_ANCHORS &&
            (!answered || generation_table_has(g, p->number))) {
            ask_all(g, p);
        }
        p->sent &= ~(1u << anchor);
        if ((p->answered & p->receivers) == p->receivers || now_us - p->began_us > GENERATION_BEAT_US) {
            drop(g, p);
        }
    }
}
