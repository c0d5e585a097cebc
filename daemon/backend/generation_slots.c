/*
 * generation_slots.c -- a slot: its node, its record, whether it grants or reclaims, and how long answers allow that.
 *
 * The node of a slot is the one that claims it with the highest config epoch (R10). A slot in use needs a record: the
 * daemon that finds the slot's bit clear at two anchors creates it, and all others expect the record. If a call finds
 * another record, the record is read; if it is missing, also when it is read again after LATER_US, it is lost (G4).
 */
#include "daemon/backend/generation_slots.h"

#include <string.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generation_table.h"
#include "daemon/backend/generations_private.h"

bool
generation_slot_is_intact(const struct generations *g, const struct generation_slot *s)
{
    const struct known_generation *e = s->generation != NO_INDEX ? &g->known[s->generation] : NULL;

    return e != NULL && s->node != NO_INDEX && e->origin == g->node[s->node].origin && e->since_us > s->open_us &&
           !s->record_lost;
}

static void
report(struct generations *g, enum generation_news news, uint16_t slot)
{
    const struct generation_slot *s = &g->slot[slot];

    if (s->used) {
        g->on_news(g->ctx, news, slot, s->generation != NO_INDEX ? g->known[s->generation].number : 0);
    }
}

/* ---- records ---- */

static void
queue(struct generations *g, uint16_t slot, enum record_state state, struct ring *r)
{
    struct generation_slot *s = &g->slot[slot];

    s->record = (uint8_t)state;
    if (!s->queued) { /* else pop() moves the slot from its present queue to the right one */
        s->queued = ring_push(r, slot);
    }
}

static void
send_record(struct generations *g, uint16_t slot, enum record_mode mode)
{
    g->slot[slot].mode = (uint8_t)mode;
    queue(g, slot, RECORD_TO_SEND, &g->records);
}

/*
 * While a slot is open, keys of its data may be missing at the node. A daemon that asks the node only after the slot
 * has closed would not notice that. So the record is spoiled: no verb expects a spoiled record. If the record has moved
 * to the other node already, no spoiling is needed: a daemon that still asks this node finds no record.
 */
static void
spoil(struct generations *g, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];

    if (!s->spoiled && s->generation != NO_INDEX) {
        send_record(g, slot, RECORD_MODE_SPOIL);
    }
    s->spoiled = true;
}

void
generation_slot_opens(struct generations *g, uint16_t slot, uint64_t node_us)
{
    struct generation_slot *s = &g->slot[slot];

    s->open = true;
    s->open_us = node_us;
    s->alone_us = is_of_its_node(g, s) ? 0 : s->alone_us;
    generation_marks_clear_late(g, slot);
    spoil(g, slot);
}

void
generation_slot_marked(struct generations *g, uint16_t slot, uint64_t node_us, bool spoils)
{
    struct generation_slot *s = &g->slot[slot];

    s->marked = true;
    s->open_us = node_us > s->open_us ? node_us : s->open_us;
    if (spoils) {
        spoil(g, slot);
    }
}

void
generation_slot_changed(struct generations *g, uint16_t slot)
{
    report(g, GENERATION_ASK_AGAIN, slot);
}

/* Takes the next slot with a record in that state from the queue; slots in another state move to their own queue. */
static bool
pop(struct generations *g, struct ring *r, enum record_state state, uint16_t *slot)
{
    for (unsigned n = r->n; n > 0; n--) {
        struct generation_slot *s;

        *slot = ring_pop(r);
        s = &g->slot[*slot];
        s->queued = false;
        if (s->record == state) {
            return true;
        }
        if (s->record == RECORD_NEEDS_BIT) {
            queue(g, *slot, RECORD_NEEDS_BIT, &g->bits);
        } else if (s->record == RECORD_TO_SEND) {
            queue(g, *slot, RECORD_TO_SEND, &g->records);
        } else if (s->record == RECORD_LATER) {
            queue(g, *slot, RECORD_LATER, &g->later);
        }
    }
    return false;
}

static void
take_known_record(struct generations *g, uint16_t slot, bool grants)
{
    struct generation_slot *s = &g->slot[slot];

    s->record = grants ? RECORD_GRANTS : RECORD_RECLAIMS;
    s->was_missing = false;
    report(g, grants ? GENERATION_OVER : GENERATION_ASK_AGAIN, slot);
}

/* A daemon lets a record grant only when the generation is over; perhaps this daemon does not know that yet. */
static void
take_granting_record(struct generations *g, uint16_t slot, struct known_generation *e)
{
    if (e->over) {
        take_known_record(g, slot, true);
    } else {
        g->slot[slot].record = RECORD_AHEAD;
        g->slot[slot].was_missing = false;
        generation_table_end_seen(g, e);
    }
}

/* The record of this generation is missing or spoiled: the slot needs another generation. */
static void
lose_record(struct generations *g, uint16_t slot)
{
    g->slot[slot].record_lost = true;
    g->slot[slot].record = RECORD_UNKNOWN;
    generation_begin_soon(g);
    report(g, GENERATION_ASK_AGAIN, slot);
}

/* The record is missing. The daemon that found its bit clear may be about to create it, so it is read once more. */
static void
take_missing_record(struct generations *g, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];

    if (s->was_missing) {
        lose_record(g, slot);
    } else {
        s->was_missing = true;
        queue(g, slot, RECORD_LATER, &g->later);
    }
}

void
generations_record_answered(struct generations *g, const struct generation_send *send, const struct record_answer *a)
{
    uint16_t slot = send->slot;
    struct generation_slot *s = &g->slot[slot];
    struct generation_node *n = &g->node[send->node];
    struct known_generation *e = s->generation != NO_INDEX ? &g->known[s->generation] : NULL;

    g->records_sent--;
    n->records_fail = a == NULL || a->refused;
    n->records_pause_us = n->records_fail ? n->records_pause_us : 0;
    if (s->record != RECORD_SENT || e == NULL) {
        return; /* the question was sent in another generation */
    }
    if ((send->mode == RECORD_MODE_SPOIL) != (s->mode == RECORD_MODE_SPOIL)) {
        return; /* the slot has opened or closed since, and another request is in flight */
    }
    if (s->mode == RECORD_MODE_SPOIL && (a == NULL || (a->refused && !a->redirected))) {
        send_record(g, slot, RECORD_MODE_SPOIL); /* the record may still be as the other daemons expect it */
    } else if (s->mode == RECORD_MODE_SPOIL) {
        s->record = RECORD_UNKNOWN;
    } else if (a == NULL) { /* the script may have run: read the record, for it is never created twice (G4) */
        send_record(g, slot, e->over && s->mode == RECORD_MODE_LET_GRANT ? RECORD_MODE_LET_GRANT : RECORD_MODE_READ);
    } else if (a->refused) { /* the script has not run, so a missing record would be no sign of a loss */
        send_record(g, slot, (enum record_mode)s->mode);
    } else if (a->number == e->number && a->spoiled) {
        lose_record(g, slot);
    } else if (a->number == e->number && a->grants) {
        take_granting_record(g, slot, e);
    } else if (a->number == e->number && e->over) {
        send_record(g, slot, RECORD_MODE_LET_GRANT);
    } else if (a->number == e->number) {
        take_known_record(g, slot, false);
    } else if (a->number > e->number) { /* the anchors know the later generation, unless all have lost it */
        g->highest = a->number > g->highest ? a->number : g->highest;
        ask_anchors(g);
        take_missing_record(g, slot);
    } else {
        take_missing_record(g, slot);
    }
}

/* A node that refuses record scripts is asked again after a pause, which doubles up to a beat. */
static bool
takes_records(struct generation_node *n, int64_t now_us)
{
    if (n->records_fail) {
        n->records_fail = false;
        n->records_pause_us = n->records_pause_us == 0 ? LATER_US : 2 * n->records_pause_us;
        n->records_pause_us = n->records_pause_us < GENERATION_BEAT_US ? n->records_pause_us : GENERATION_BEAT_US;
        n->records_due_us = now_us + n->records_pause_us;
    }
    return n->answered_us != 0 && (n->records_pause_us == 0 || now_us >= n->records_due_us);
}

/* A record waits while its node is down or refuses records, or has the data of another generation. */
void
generation_slot_next_record(struct generations *g, int64_t now_us, struct generation_send *out)
{
    uint16_t slot;

    for (unsigned n = g->records.n; n > 0 && g->records_sent < GENERATION_RECORDS_MAX; n--) {
        struct generation_slot *s;

        if (!pop(g, &g->records, RECORD_TO_SEND, &slot)) {
            return;
        }
        s = &g->slot[slot];
        if ((s->mode == RECORD_MODE_SPOIL) != generation_slot_is_open(s)) {
            s->record = RECORD_UNKNOWN; /* only the record of an open slot is spoiled, and nothing else is done to it */
            continue;
        }
        if (s->node == NO_INDEX || !takes_records(&g->node[s->node], now_us) ||
            (!generation_slot_is_open(s) && !generation_slot_is_intact(g, s))) {
            queue(g, slot, RECORD_TO_SEND, &g->records);
            continue;
        }
        s->record = RECORD_SENT;
        g->records_sent++;
        *out = (struct generation_send){.type = SEND_RECORD,
                                        .node = s->node,
                                        .slot = slot,
                                        .number = g->known[s->generation].number,
                                        .mode = (enum record_mode)s->mode};
        return;
    }
}

/* Reads the records that have waited for one tick at least. */
void
generation_slots_tick(struct generations *g, int64_t now_us)
{
    uint16_t slot;

    if (g->later.n == 0 || now_us < g->later_us) {
        return;
    }
    for (unsigned n = g->later_old_n; n > 0 && pop(g, &g->later, RECORD_LATER, &slot); n--) {
        send_record(g, slot, RECORD_MODE_READ);
    }
    g->later_old_n = g->later.n;
    g->later_us = now_us + LATER_US;
}

/* ---- bits ---- */

/* The anchor that all daemons ask first, so that one daemon finds all bits clear, and not each daemon some of them. */
static unsigned
first_anchor(const struct generations *g)
{
    unsigned i = 0;

    while (i < ANCHORS - 1 && g->anchor[i].status != ANCHOR_VOTES) {
        i++;
    }
    return i;
}

void
bit_query_begin(struct generations *g, int64_t now_us)
{
    struct bit_query *b = &g->bit_query;
    uint16_t slot;

    if (b->n > 0) {
        return;
    }
    while (b->n < BITS_MAX && pop(g, &g->bits, RECORD_NEEDS_BIT, &slot)) {
        struct generation_slot *s = &g->slot[slot];

        if (!generation_slot_is_intact(g, s)) {
            s->record = RECORD_UNKNOWN;
            continue;
        }
        s->record = RECORD_IN_QUERY;
        b->slot[b->n] = slot;
        b->number[b->n] = g->known[s->generation].number;
        b->clear[b->n] = b->set[b->n] = 0;
        b->n++;
    }
    if (b->n > 0) {
        b->serial++;
        b->to_ask = 1u << first_anchor(g);
        b->began_us = now_us;
        ask_anchor(g, first_anchor(g));
    }
}

/*
 * If the slot's bit was clear at two anchors, this daemon creates the record; if it was set at any, another daemon
 * does. False: more answers are needed.
 */
static bool
decide(struct generations *g, size_t i, bool timeout)
{
    struct bit_query *b = &g->bit_query;
    uint16_t slot = b->slot[i];
    struct generation_slot *s = &g->slot[slot];
    bool over;

    if (s->record != RECORD_IN_QUERY || g->known[s->generation].number != b->number[i]) {
        return true;
    }
    over = g->known[s->generation].over;
    if (b->set[i] > 0) {
        take_known_record(g, slot, over);
    } else if (b->clear[i] >= 2) {
        send_record(g, slot, over ? RECORD_MODE_CREATE_GRANT : RECORD_MODE_CREATE_RECLAIM);
    } else if (timeout) {
        queue(g, slot, RECORD_NEEDS_BIT, &g->bits);
    } else {
        return false;
    }
    return true;
}

static void
bit_query_end(struct generations *g, bool timeout)
{
    struct bit_query *b = &g->bit_query;
    bool all = true;

    for (size_t i = 0; i < b->n; i++) {
        all = decide(g, i, timeout) && all;
    }
    if (all) {
        b->n = 0;
    }
}

static void
ask_others(struct generations *g)
{
    g->bit_query.to_ask |= ALL_ANCHORS & ~g->bit_query.answered;
    for (unsigned i = 0; i < ANCHORS; i++) {
        if ((g->bit_query.to_ask & 1u << i) != 0) {
            ask_anchor(g, i);
        }
    }
}

void
bit_query_tick(struct generations *g, int64_t now_us)
{
    struct bit_query *b = &g->bit_query;

    if (b->n > 0 && now_us - b->began_us > GENERATION_BEAT_US) {
        b->answered = b->to_ask = 0;
        bit_query_end(g, true);
    } else if (b->n > 0 && b->answered == 0 && !has_two(b->to_ask) &&
               now_us - b->began_us > GENERATION_BEAT_US / 8) {
        ask_others(g); /* the first anchor does not answer */
    }
}

void
bit_query_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a)
{
    struct bit_query *b = &g->bit_query;

    if (a->bits_n != b->n || (b->answered & 1u << anchor) != 0) {
        return;
    }
    b->answered |= 1u << anchor;
    b->to_ask &= ~(1u << anchor);
    for (size_t i = 0; i < b->n; i++) {
        b->clear[i] += a->bit[i] == SLOT_BIT_WAS_CLEAR;
        b->set[i] += a->bit[i] == SLOT_BIT_WAS_SET;
    }
    bit_query_end(g, b->answered == ALL_ANCHORS);
    if (b->n > 0) {
        ask_others(g);
    } else {
        b->answered = b->to_ask = 0;
    }
}

/* ---- generations ---- */

void
generation_slot_enters(struct generations *g, uint16_t slot, uint16_t generation)
{
    struct generation_slot *s = &g->slot[slot];
    bool same = s->generation != NO_INDEX && g->known[s->generation].origin == g->known[generation].origin;

    s->alone_us = same && s->alone_us != 0 ? s->alone_us : g->known[generation].since_us; /* GM2 */
    s->generation = generation;
    s->record_lost = s->was_missing = false;
    s->record = RECORD_UNKNOWN;
    if (s->used) {
        s->reclaimed = false;
        g->known[generation].unreclaimed_n++;
        report(g, GENERATION_NEW, slot);
    }
}

static void
slot_reclaimed(struct generations *g, struct generation_slot *s)
{
    if (s->used && !s->reclaimed && s->generation != NO_INDEX) {
        s->reclaimed = true;
        g->known[s->generation].unreclaimed_n--;
    }
}

/* Two anchors name the generation now: see generation_table_is_named(). */
void
generation_slots_named(struct generations *g, uint16_t generation)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (g->slot[slot].generation == generation && g->slot[slot].record == RECORD_UNKNOWN) {
            report(g, GENERATION_ASK_AGAIN, (uint16_t)slot);
        }
    }
}

/*
 * In Redis a record may still reclaim. Its state here becomes GRANTS all the same: then the first call for the slot is
 * answered GRACE, and generations_record_differs() lets the record grant.
 */
void
generation_slots_over(struct generations *g, uint16_t generation)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct generation_slot *s = &g->slot[slot];

        if (s->generation == generation && s->used) {
            s->record = s->record == RECORD_RECLAIMS || s->record == RECORD_AHEAD ? RECORD_GRANTS : s->record;
            report(g, GENERATION_OVER, (uint16_t)slot);
        }
    }
}

/* ---- questions and reports ---- */

static void
begin_use(struct generations *g, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];

    if (!s->used) {
        s->used = true;
        s->reclaimed = s->generation != NO_INDEX; /* this daemon holds no lock there */
        if (s->generation != NO_INDEX) {
            report(g, GENERATION_NEW, slot);
        }
    }
}

static const char *
why_waits(const struct generations *g, const struct generation_slot *s, uint16_t node, int64_t now_us)
{
    int64_t fresh_us = GENERATION_FRESH_BEATS * GENERATION_BEAT_US;
    const struct generation_node *n = node < g->nodes_n ? &g->node[node] : NULL;

    if (n == NULL || n->answered_us == 0 || now_us - n->answered_us >= fresh_us) {
        return "the node has not reported what data it has";
    }
    if (s->node != node) {
        return "the node does not report that it owns the slot";
    }
    if (generation_slot_is_open(s)) {
        return "the slot is open";
    }
    if (g->registered_us == 0 || now_us - g->registered_us >= fresh_us) {
        return "fewer than two anchors vote";
    }
    if (!generation_slot_is_intact(g, s)) {
        return "the slot's data may be lost: a generation begins";
    }
    if (s->record != RECORD_RECLAIMS && s->record != RECORD_GRANTS) {
        return "the slot's record is being read";
    }
    return NULL;
}

void
generations_slot_state(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us, struct slot_state *out)
{
    struct generation_slot *s = &g->slot[slot];
    int64_t since_us;

    begin_use(g, slot);
    *out = (struct slot_state){.may = SLOT_WAITS,
                               .number = s->generation != NO_INDEX ? g->known[s->generation].number : 0};
    out->why = why_waits(g, s, node, now_us);
    if (s->node != node && node < g->nodes_n) {
        g->node[node].due_us = 0;
    }
    if (s->record == RECORD_UNKNOWN && generation_slot_is_intact(g, s) &&
        generation_table_is_named(&g->known[s->generation])) {
        queue(g, slot, RECORD_NEEDS_BIT, &g->bits);
    }
    if (out->why != NULL) {
        return;
    }
    since_us = g->node[node].answered_us < g->registered_us ? g->node[node].answered_us : g->registered_us;
    out->may = s->record == RECORD_GRANTS ? SLOT_GRANTS : SLOT_RECLAIMS;
    out->until_us = since_us + GENERATION_FRESH_BEATS * GENERATION_BEAT_US;
    record_value(out->number, s->record == RECORD_GRANTS, out->value);
}

uint64_t
generations_origin(const struct generations *g, uint16_t slot, uint16_t node)
{
    const struct generation_slot *s = &g->slot[slot];

    return s->node == node && generation_slot_is_intact(g, s) && !generation_slot_is_open(s) ? g->node[node].origin : 0;
}

void
generations_record_differs(struct generations *g, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];

    if (s->record == RECORD_RECLAIMS || s->record == RECORD_GRANTS) {
        send_record(g, slot, g->known[s->generation].over ? RECORD_MODE_LET_GRANT : RECORD_MODE_READ);
    }
}

void
generations_slot_opened(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us)
{
    struct generation_slot *s = &g->slot[slot];

    if (s->node == node && g->node[node].answered_us != 0) { /* the slot is open until a later question is answered */
        generation_slot_opens(g, slot, g->node[node].time_us + (uint64_t)(now_us - g->node[node].answered_us));
        g->node[node].digest = 0;
        g->node[node].valid_from_us = now_us;
    }
    if (node < g->nodes_n) {
        g->node[node].due_us = 0;
    }
}

void
generations_reclaimed(struct generations *g, uint16_t slot, uint64_t number)
{
    struct generation_slot *s = &g->slot[slot];

    if (s->generation == NO_INDEX || g->known[s->generation].number != number || s->reclaimed) {
        return;
    }
    slot_reclaimed(g, s);
    if (g->known[s->generation].unreclaimed_n == 0) {
        ask_anchors(g);
    }
}

void
generations_restore(struct generations *g, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];

    g->restored = true;
    if (!s->used) {
        s->used = true;
        s->reclaimed = false;
        if (s->generation != NO_INDEX) { /* unreclaimed_n counts used slots only: see generation_slot_enters() */
            g->known[s->generation].unreclaimed_n++;
            report(g, GENERATION_NEW, slot);
        }
    }
}
