/*
 * generation_table.c -- the generations that the anchors have named. A slot is in the one with the highest number.
 *
 * A generation without slots is removed. A slot leaves an unreclaimed generation only for a later one, which takes over
 * the earlier one's versions at the anchors (from[]): until this daemon has reclaimed the later generation, it reports
 * the earlier one to no anchor as reclaimed.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

enum { FORWARD_MAX = 256 };

static uint16_t
find(const struct generations *g, uint64_t number)
{
    for (size_t i = 0; i < g->entries_n; i++) {
        if (g->entry[i].live && g->entry[i].number == number) {
            return (uint16_t)i;
        }
    }
    return NO_INDEX;
}

/* At most one generation for each slot is live, and one more inside table_take(). */
static uint16_t
add(struct generations *g, const struct generation_entry *e, int64_t now_us)
{
    size_t i = 0;

    while (i < g->entries_n && g->entry[i].live) {
        i++;
    }
    if (i == g->entries_room) {
        g->entries_room = g->entries_room == 0 ? 16 : 2 * g->entries_room;
        g->entry = mem_array(g->entry, g->entries_room, sizeof(*g->entry));
    }
    g->entries_n = i == g->entries_n ? i + 1 : g->entries_n;
    g->entry[i] = (struct gentry){.number = e->number,
                                  .origin = e->origin,
                                  .since_us = e->since_us,
                                  .live = true,
                                  .named_us = now_us};
    g->open_entries_n++;
    return (uint16_t)i;
}

static uint64_t
lower(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The slot leaves for the generation `to`; if it is not reclaimed, `to` takes over the versions. */
static void
leave(struct generations *g, const struct gslot *s, struct gentry *to)
{
    struct gentry *e = &g->entry[s->entry];

    if (s->used && !s->reclaimed) {
        e->unreclaimed_n--;
        for (unsigned i = 0; i < ANCHORS; i++) {
            to->from[i] = lower(to->from[i], lower(e->version[i], e->from[i]));
        }
    }
    if (--e->slots_n == 0) {
        g->open_entries_n -= !e->over;
        e->live = false;
    }
}

/* The slot is in a later generation already. If it is not reclaimed there, generation `e` is not reclaimed either. */
static void
carry_over(struct generations *g, const struct gslot *s, unsigned anchor, const struct generation_entry *e)
{
    struct gentry *later = &g->entry[s->entry];

    if (s->used && !s->reclaimed && later->number > e->number) {
        later->from[anchor] = lower(later->from[anchor], e->version);
    }
}

void
table_take(struct generations *g, unsigned anchor, const struct generation_entry *e, int64_t now_us)
{
    uint16_t at = find(g, e->number);
    struct gentry *to;

    g->highest = e->number > g->highest ? e->number : g->highest;
    if (at == NO_INDEX) {
        at = add(g, e, now_us);
    }
    to = &g->entry[at];
    to->version[anchor] = e->version;
    for (size_t i = 0; i < e->ranges_n; i++) {
        for (unsigned slot = e->range[i].first; slot <= e->range[i].last; slot++) {
            struct gslot *s = &g->slot[slot];

            if (s->entry != NO_INDEX && g->entry[s->entry].number >= e->number) {
                carry_over(g, s, anchor, e);
                continue;
            }
            if (s->entry != NO_INDEX) {
                leave(g, s, to);
            }
            to->slots_n++;
            slot_enters(g, (uint16_t)slot, at);
        }
    }
    if (to->slots_n == 0) {
        g->open_entries_n -= !to->over;
        to->live = false;
    }
    begin_due(g);
}

void
table_forget(struct generations *g, unsigned anchor)
{
    for (size_t i = 0; i < g->entries_n; i++) {
        g->entry[i].version[anchor] = g->entry[i].from[anchor] = 0;
    }
}

void
table_over(struct generations *g, struct gentry *e)
{
    if (!e->over) {
        e->over = true;
        g->open_entries_n--;
        slots_over(g, (uint16_t)(e - g->entry));
    }
}

/*
 * Once all members of an anchor have reported a generation, that stays true: a daemon that registers there later learns
 * of the generation first. So the answers of two anchors need not be of the same time.
 */
void
table_done(struct generations *g, unsigned anchor, uint64_t done)
{
    if (g->open_entries_n == 0) {
        return;
    }
    for (size_t i = 0; i < g->entries_n; i++) {
        struct gentry *e = &g->entry[i];

        if (!e->live || e->over || e->version[anchor] == 0 || e->version[anchor] > done) {
            continue;
        }
        e->done |= 1u << anchor;
        if ((e->done & (e->done - 1)) != 0) {
            table_over(g, e);
        }
    }
}

void
table_forget_done(struct generations *g, unsigned anchor)
{
    for (size_t i = 0; i < g->entries_n; i++) {
        g->entry[i].done &= ~(1u << anchor);
    }
}

uint64_t
table_reclaimed(const struct generations *g, unsigned anchor)
{
    uint64_t back = g->anchor[anchor].version;

    for (size_t i = 0; i < g->entries_n; i++) {
        const struct gentry *e = &g->entry[i];
        uint64_t held = e->live && e->unreclaimed_n > 0 ? lower(e->version[anchor], e->from[anchor]) : 0;

        if (held != 0 && held - 1 < back) {
            back = held - 1;
        }
    }
    return back;
}

/*
 * The anchor does not know the generation, although it has answered since we learned of it. (The daemon that begins a
 * generation names it to all three anchors, so this is rare.) An anchor that has just lost its data gets the generation
 * at once, because it is to vote soon; but not before we have all generations that it does know.
 */
static bool
is_lacking(const struct generations *g, unsigned anchor, const struct gentry *e)
{
    const struct ganchor *a = &g->anchor[anchor];

    return e->live && e->version[anchor] == 0 && a->answered && !a->has_more &&
           (a->answered_us > e->named_us || a->status != ANCHOR_VOTES);
}

bool
table_lacks(const struct generations *g, unsigned anchor)
{
    bool lacks = false;

    for (size_t i = 0; i < g->entries_n; i++) {
        lacks = lacks || is_lacking(g, anchor, &g->entry[i]);
    }
    return lacks;
}

void
message_add(struct generations *g, const struct generation_entry *e, uint64_t expected)
{
    struct anchor_message *m = &g->message;
    size_t used = 0;

    for (size_t i = 0; i < m->begin_n; i++) {
        used += g->begin[i].ranges_n;
    }
    if (m->begin_n == g->begin_room) {
        g->begin_room = g->begin_room == 0 ? 8 : 2 * g->begin_room;
        g->begin = mem_array(g->begin, g->begin_room, sizeof(*g->begin));
        g->expected = mem_array(g->expected, g->begin_room, sizeof(*g->expected));
    }
    if (used + e->ranges_n > g->ranges_room) {
        g->ranges_room = 2 * (used + e->ranges_n);
        g->ranges = mem_array(g->ranges, g->ranges_room, sizeof(*g->ranges));
    }
    memcpy(g->ranges + used, e->range, e->ranges_n * sizeof(*e->range));
    g->begin[m->begin_n] = *e;
    g->expected[m->begin_n++] = expected;
}

/*
 * A message has FORWARD_MAX generations at most. Each daemon begins at a random entry, and its next message goes on
 * where this one ends: so an anchor that has lost many generations gets different parts from different daemons.
 * One walk over the slots counts the ranges of all generations, a second one writes them.
 */
void
table_forward(struct generations *g, unsigned anchor)
{
    struct slot_range *range;
    size_t *at, total = 0;

    if (!table_lacks(g, anchor)) {
        return;
    }
    at = mem_zalloc((2 * g->entries_n + 1) * sizeof(*at)); /* for each: its number of ranges, the index of the next */
    for (unsigned slot = 0; slot < SLOTS_N; slot++) {
        uint16_t e = g->slot[slot].entry;

        if (e != NO_INDEX && (slot == 0 || g->slot[slot - 1].entry != e)) {
            at[2 * e]++;
        }
    }
    for (size_t i = 0; i < g->entries_n; i++) {
        at[2 * i + 1] = total;
        total += at[2 * i];
    }
    range = mem_array(NULL, total, sizeof(*range));
    for (unsigned slot = 0; slot < SLOTS_N; slot++) {
        uint16_t e = g->slot[slot].entry;

        if (e == NO_INDEX) {
            continue;
        }
        if (slot == 0 || g->slot[slot - 1].entry != e) {
            range[at[2 * e + 1]++].first = (uint16_t)slot;
        }
        range[at[2 * e + 1] - 1].last = (uint16_t)slot;
    }
    for (size_t k = 0; k < g->entries_n && g->message.begin_n < FORWARD_MAX; k++) {
        size_t i = g->forward_at++ % g->entries_n;
        const struct gentry *e = &g->entry[i];

        if (is_lacking(g, anchor, e)) {
            struct generation_entry out = {.number = e->number,
                                           .origin = e->origin,
                                           .since_us = e->since_us,
                                           .range = range + at[2 * i + 1] - at[2 * i],
                                           .ranges_n = at[2 * i]};

            message_add(g, &out, 0);
        }
    }
    free(range);
    free(at);
}
