/*
 * generation_slots.c -- a slot: its node, its record, and whether it grants or reclaims.
 *
 * The node of a slot is the one that claims it with the highest config epoch (R10). A slot in use needs a record: the
 * daemon that finds the slot's bit clear at two anchors creates it, and all others expect the record. If a call finds
 * another record, the record is read; if it is missing, it is read again after LATER_US, and then counts as lost (G4).
 */
#include "daemon/backend/generation_slots.h"

#include <string.h>

#include "daemon/backend/generations_private.h"

bool
slot_is_sound(const struct generations *g, const struct gslot *s)
{
    const struct gentry *e = s->entry != NO_INDEX ? &g->entry[s->entry] : NULL;

    return e != NULL && s->node != NO_INDEX && e->origin == g->node[s->node].origin && e->since_us > s->open_us &&
           !s->spoiled;
}

static void
report(struct generations *g, enum generation_news news, uint16_t slot)
{
    const struct gslot *s = &g->slot[slot];

    if (s->used) {
        g->on_news(g->ctx, news, slot, s->entry != NO_INDEX ? g->entry[s->entry].number : 0);
    }
}

/* ---- records ---- */

static void
queue(struct generations *g, uint16_t slot, enum record_state is, struct ring *r)
{
    struct gslot *s = &g->slot[slot];

    s->record = (uint8_t)is;
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
void
slot_opens(struct generations *g, uint16_t slot, uint64_t node_us)
{
    struct gslot *s = &g->slot[slot];
    bool was = s->open;

    s->open = true;
    s->open_us = node_us;
    if (!was && s->entry != NO_INDEX) {
        send_record(g, slot, RECORD_SPOIL);
    }
}

/* Takes the next slot in state `is` from the queue; slots in another state move to their own queue. */
static bool
pop(struct generations *g, struct ring *r, enum record_state is, uint16_t *slot)
{
    for (unsigned n = r->n; n > 0; n--) {
        struct gslot *s = &g->slot[*slot = ring_pop(r)];

        s->queued = false;
        if (s->record == is) {
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
record_known(struct generations *g, uint16_t slot, bool grants)
{
    struct gslot *s = &g->slot[slot];

    s->record = grants ? RECORD_GRANTS : RECORD_RECLAIMS;
    s->reread = false;
    report(g, grants ? GENERATION_OVER : GENERATION_ASKS, slot);
}

static void
spoil(struct generations *g, uint16_t slot)
{
    g->slot[slot].spoiled = true;
    g->slot[slot].record = RECORD_UNKNOWN;
    begin_due(g);
    report(g, GENERATION_ASKS, slot);
}

/* The record is missing. The daemon that found its bit clear may be about to create it, so it is read once more. */
static void
record_missing(struct generations *g, uint16_t slot)
{
    struct gslot *s = &g->slot[slot];

    if (s->reread) {
        spoil(g, slot);
    } else {
        s->reread = true;
        queue(g, slot, RECORD_LATER, &g->later);
    }
}

void
generations_record_answered(struct generations *g, uint16_t slot, const struct record_answer *a)
{
    struct gslot *s = &g->slot[slot];
    struct gentry *e = s->entry != NO_INDEX ? &g->entry[s->entry] : NULL;

    g->records_sent--;
    if (s->node != NO_INDEX) {
        g->node[s->node].records_fail = a == NULL || a->refused;
        g->node[s->node].records_pause_us = a == NULL || a->refused ? g->node[s->node].records_pause_us : 0;
    }
    if (s->record != RECORD_SENT || e == NULL) {
        return; /* the question was sent in another generation */
    }
    if (s->mode == RECORD_SPOIL) {
        s->record = RECORD_UNKNOWN;
    } else if (a == NULL) { /* the script may have run: read the record, for it is never created twice (G4) */
        send_record(g, slot, e->over && s->mode == RECORD_GRANT ? RECORD_GRANT : RECORD_READ);
    } else if (a->refused) { /* the script has not run, so a missing record would be no sign of a loss */
        send_record(g, slot, (enum record_mode)s->mode);
    } else if (a->number == e->number && a->spoiled) {
        spoil(g, slot);
    } else if (a->number == e->number && a->grants) {
        table_over(g, e); /* a daemon lets a record grant only when the generation is over */
        record_known(g, slot, true);
    } else if (a->number == e->number && e->over) {
        send_record(g, slot, RECORD_GRANT);
    } else if (a->number == e->number) {
        record_known(g, slot, false);
    } else if (a->number > e->number) { /* the anchors know the later generation, unless all have lost it */
        g->highest = a->number > g->highest ? a->number : g->highest;
        ask_anchors(g);
        record_missing(g, slot);
    } else {
        record_missing(g, slot);
    }
}

/* A node that refuses record scripts is asked again after a pause, which doubles up to a beat. */
static bool
takes_records(struct gnode *n, int64_t now_us)
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
bool
slot_next_record(struct generations *g, int64_t now_us, struct generation_send *out)
{
    uint16_t slot;

    for (unsigned n = g->records.n; n > 0 && g->records_sent < GENERATION_RECORDS_MAX; n--) {
        struct gslot *s;

        if (!pop(g, &g->records, RECORD_TO_SEND, &slot)) {
            return false;
        }
        s = &g->slot[slot];
        if (s->mode == RECORD_SPOIL ? !s->open : s->open) {
            s->record = RECORD_UNKNOWN; /* only the record of an open slot is spoiled, and nothing else is done to it */
            continue;
        }
        if (s->node == NO_INDEX || !takes_records(&g->node[s->node], now_us) || (!s->open && !slot_is_sound(g, s))) {
            queue(g, slot, RECORD_TO_SEND, &g->records);
            continue;
        }
        s->record = RECORD_SENT;
        g->records_sent++;
        *out = (struct generation_send){.type = SEND_RECORD,
                                        .node = s->node,
                                        .slot = slot,
                                        .number = g->entry[s->entry].number,
                                        .mode = (enum record_mode)s->mode};
        return true;
    }
    return false;
}

/* Reads the records that have waited for one tick at least. */
void
slots_tick(struct generations *g, int64_t now_us)
{
    uint16_t slot;

    if (g->later.n == 0 || now_us < g->later_us) {
        return;
    }
    for (unsigned n = g->later_old_n; n > 0 && pop(g, &g->later, RECORD_LATER, &slot); n--) {
        send_record(g, slot, RECORD_READ);
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
batch_begin(struct generations *g, int64_t now_us)
{
    struct batch *b = &g->batch;
    uint16_t slot;

    if (b->n > 0) {
        return;
    }
    while (b->n < BITS_MAX && pop(g, &g->bits, RECORD_NEEDS_BIT, &slot)) {
        struct gslot *s = &g->slot[slot];

        if (!slot_is_sound(g, s)) {
            s->record = RECORD_UNKNOWN;
            continue;
        }
        s->record = RECORD_IN_BATCH;
        b->slot[b->n] = slot;
        b->number[b->n] = g->entry[s->entry].number;
        b->clear[b->n] = b->set[b->n] = 0;
        b->n++;
    }
    if (b->n > 0) {
        b->serial++;
        b->asks = 1u << first_anchor(g);
        b->began_us = now_us;
        ask_anchor(g, first_anchor(g));
    }
}

/* The slot's bit was clear at two anchors: this daemon creates the record. It was set at any: another daemon does. */
static bool
decide(struct generations *g, size_t i, bool timeout)
{
    struct batch *b = &g->batch;
    uint16_t slot = b->slot[i];
    struct gslot *s = &g->slot[slot];
    bool over;

    if (s->record != RECORD_IN_BATCH || g->entry[s->entry].number != b->number[i]) {
        return true;
    }
    over = g->entry[s->entry].over;
    if (b->set[i] > 0) {
        record_known(g, slot, over);
    } else if (b->clear[i] >= 2) {
        send_record(g, slot, over ? RECORD_CREATE_GRANT : RECORD_CREATE_RECLAIM);
    } else if (timeout) {
        queue(g, slot, RECORD_NEEDS_BIT, &g->bits);
    } else {
        return false;
    }
    return true;
}

static void
batch_end(struct generations *g, bool timeout)
{
    struct batch *b = &g->batch;
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
    g->batch.asks |= ((1u << ANCHORS) - 1) & ~g->batch.asked;
    for (unsigned i = 0; i < ANCHORS; i++) {
        if ((g->batch.asks & 1u << i) != 0) {
            ask_anchor(g, i);
        }
    }
}

void
batch_tick(struct generations *g, int64_t now_us)
{
    struct batch *b = &g->batch;

    if (b->n > 0 && now_us - b->began_us > GENERATION_BEAT_US) {
        b->asked = b->asks = 0;
        batch_end(g, true);
    } else if (b->n > 0 && b->asked == 0 && (b->asks & (b->asks - 1)) == 0 &&
               now_us - b->began_us > GENERATION_BEAT_US / 8) {
        ask_others(g); /* the first anchor does not answer */
    }
}

void
batch_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a)
{
    struct batch *b = &g->batch;

    if (a->bits_n != b->n || (b->asked & 1u << anchor) != 0) {
        return;
    }
    b->asked |= 1u << anchor;
    b->asks &= ~(1u << anchor);
    for (size_t i = 0; i < b->n; i++) {
        b->clear[i] += a->bit[i] == SLOT_BIT_WAS_CLEAR;
        b->set[i] += a->bit[i] == SLOT_BIT_WAS_SET;
    }
    batch_end(g, b->asked == (1u << ANCHORS) - 1);
    if (b->n > 0) {
        ask_others(g);
    } else {
        b->asked = b->asks = 0;
    }
}

/* ---- generations ---- */

void
slot_enters(struct generations *g, uint16_t slot, uint16_t entry)
{
    struct gslot *s = &g->slot[slot];

    s->entry = entry;
    s->spoiled = s->reread = false;
    s->record = RECORD_UNKNOWN;
    if (s->used) {
        s->reclaimed = false;
        g->entry[entry].unreclaimed_n++;
        report(g, GENERATION_NEW, slot);
    }
}

static void
slot_reclaimed(struct generations *g, struct gslot *s)
{
    if (s->used && !s->reclaimed && s->entry != NO_INDEX) {
        s->reclaimed = true;
        g->entry[s->entry].unreclaimed_n--;
    }
}

/* The first daemon that calls lets the record grant: see generations_differs(). */
void
slots_over(struct generations *g, uint16_t entry)
{
    for (unsigned slot = 0; slot < SLOTS_N; slot++) {
        struct gslot *s = &g->slot[slot];

        if (s->entry == entry && s->used) {
            s->record = s->record == RECORD_RECLAIMS ? RECORD_GRANTS : s->record;
            report(g, GENERATION_OVER, (uint16_t)slot);
        }
    }
}

/* ---- questions and reports ---- */

static void
begin_use(struct generations *g, uint16_t slot)
{
    struct gslot *s = &g->slot[slot];

    if (!s->used) {
        s->used = true;
        s->reclaimed = s->entry != NO_INDEX; /* this daemon holds no lock there */
        if (s->entry != NO_INDEX) {
            report(g, GENERATION_NEW, slot);
        }
    }
}

static const char *
why_waits(const struct generations *g, const struct gslot *s, uint16_t node, int64_t now_us)
{
    int64_t fresh_us = GENERATION_FRESH_BEATS * GENERATION_BEAT_US;
    const struct gnode *n = node < g->nodes_n ? &g->node[node] : NULL;

    if (n == NULL || n->answered_us == 0 || now_us - n->answered_us >= fresh_us) {
        return "the node has not said what data it has";
    }
    if (s->node != node) {
        return "the node does not say that it owns the slot";
    }
    if (s->open) {
        return "the slot is open";
    }
    if (g->registered_us == 0 || now_us - g->registered_us >= fresh_us) {
        return "two of three anchors have not answered";
    }
    if (!slot_is_sound(g, s)) {
        return "the slot's data may be lost: a generation begins";
    }
    if (s->record != RECORD_RECLAIMS && s->record != RECORD_GRANTS) {
        return "the slot's record is being read";
    }
    return NULL;
}

void
generations_slot(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us, struct slot_state *out)
{
    struct gslot *s = &g->slot[slot];
    int64_t since_us;

    begin_use(g, slot);
    *out = (struct slot_state){.may = SLOT_WAITS, .number = s->entry != NO_INDEX ? g->entry[s->entry].number : 0};
    out->why = why_waits(g, s, node, now_us);
    if (s->node != node && node < g->nodes_n) {
        g->node[node].due_us = 0;
    }
    if (s->record == RECORD_UNKNOWN && slot_is_sound(g, s)) {
        queue(g, slot, RECORD_NEEDS_BIT, &g->bits);
    }
    if (out->why != NULL) {
        return;
    }
    since_us = g->node[node].answered_us < g->registered_us ? g->node[node].answered_us : g->registered_us;
    out->may = s->record == RECORD_GRANTS ? SLOT_GRANTS : SLOT_RECLAIMS;
    out->until_us = since_us + GENERATION_FRESH_BEATS * GENERATION_BEAT_US;
    record_word(out->number, s->record == RECORD_GRANTS, out->word);
}

void
generations_differs(struct generations *g, uint16_t slot, int64_t now_us)
{
    struct gslot *s = &g->slot[slot];

    (void)now_us;
    if (s->record == RECORD_RECLAIMS || s->record == RECORD_GRANTS) {
        send_record(g, slot, g->entry[s->entry].over ? RECORD_GRANT : RECORD_READ);
    }
}

void
generations_open(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us)
{
    struct gslot *s = &g->slot[slot];

    if (s->node == node && g->node[node].answered_us != 0) { /* the slot is open until a later question is answered */
        slot_opens(g, slot, g->node[node].time_us + (uint64_t)(now_us - g->node[node].answered_us));
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
    struct gslot *s = &g->slot[slot];

    if (s->entry == NO_INDEX || g->entry[s->entry].number != number || s->reclaimed) {
        return;
    }
    slot_reclaimed(g, s);
    if (g->entry[s->entry].unreclaimed_n == 0) {
        ask_anchors(g);
    }
}

void
generations_restore(struct generations *g, uint16_t slot, uint64_t epoch)
{
    struct gslot *s = &g->slot[slot];

    (void)epoch; /* held locks are reclaimed, whatever their epoch was */
    g->restored = true;
    if (!s->used) {
        s->used = true;
        s->reclaimed = false;
        if (s->entry != NO_INDEX) { /* unreclaimed_n counts used slots only: see slot_enters() */
            g->entry[s->entry].unreclaimed_n++;
            report(g, GENERATION_NEW, slot);
        }
    }
}
