/*
 * generation_table.c -- the generations that the anchors have named. A slot is in the one with the highest number.
 *
 * A generation without slots is removed. A slot leaves an unreclaimed generation only for a later one, which takes over
 * the earlier one's versions at the anchors (inherited[]): until this daemon has reclaimed the later generation, it
 * reports the earlier one to no anchor as reclaimed.
 */
#include "daemon/backend/generation_table.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

enum { FORWARD_MAX = 256 };

#define FORWARD_US (GENERATION_BEAT_US / 8)

static uint16_t
find(const struct generations *g, uint64_t number)
{
    for (size_t i = 0; i < g->known_n; i++) {
        if (g->known[i].live && g->known[i].number == number) {
            return (uint16_t)i;
        }
    }
    return NO_INDEX;
}

bool
generation_table_has(const struct generations *g, uint64_t number)
{
    return find(g, number) != NO_INDEX;
}

/* At most one generation for each slot is live, and one more inside generation_table_take(). */
static uint16_t
add(struct generations *g, const struct generation_entry *e, int64_t now_us)
{
    size_t i = 0;

    while (i < g->known_n && g->known[i].live) {
        i++;
    }
    if (i == g->known_room) {
        g->known_room = g->known_room == 0 ? 16 : 2 * g->known_room;
        g->known = mem_array(g->known, g->known_room, sizeof(*g->known));
    }
    g->known_n = i == g->known_n ? i + 1 : g->known_n;
    g->known[i] = (struct known_generation){.number = e->number,
                                  .origin = e->origin,
                                  .since_us = e->since_us,
                                  .live = true,
                                  .named_us = now_us};
    g->in_grace_n++;
    return (uint16_t)i;
}

/* The lower version; 0 is none. */
static uint64_t
lower(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The slot leaves for the generation `to`; if it is not reclaimed, `to` takes over the versions. */
static void
leave(struct generations *g, const struct generation_slot *s, struct known_generation *to)
{
    struct known_generation *e = &g->known[s->generation];

    if (s->used && !s->reclaimed) {
        e->unreclaimed_n--;
        for (unsigned i = 0; i < ANCHORS; i++) {
            to->inherited[i] = lower(to->inherited[i], lower(e->version[i], e->inherited[i]));
        }
    }
    if (--e->slots_n == 0) {
        g->in_grace_n -= !e->over;
        e->live = false;
    }
}

/* The slot is in a later generation already. If it is not reclaimed there, generation `e` is not reclaimed either. */
static void
carry_over(struct generations *g, const struct generation_slot *s, unsigned anchor, const struct generation_entry *e)
{
    struct known_generation *later = &g->known[s->generation];

    if (s->used && !s->reclaimed && later->number > e->number) {
        later->inherited[anchor] = lower(later->inherited[anchor], e->version);
    }
}

/*
 * A slot's bit is asked for only when two anchors have named the generation: an anchor that does not know it has no bit
 * of it. If only one anchor knew it, a daemon would find one bit clear, and set it. When it asks again, it would find
 * that bit set, and would take the record to be created by another daemon.
 */
bool
generation_table_is_named(const struct known_generation *e)
{
    unsigned n = 0;

    for (unsigned i = 0; i < ANCHORS; i++) {
        n += e->version[i] != 0;
    }
    return n >= 2;
}

bool
generation_table_take(struct generations *g, unsigned anchor, const struct generation_entry *e, int64_t now_us)
{
    uint16_t at = find(g, e->number);
    bool is_new = at == NO_INDEX, was_named;
    struct known_generation *to;

    g->highest = e->number > g->highest ? e->number : g->highest;
    if (at == NO_INDEX) {
        at = add(g, e, now_us);
    }
    to = &g->known[at];
    was_named = generation_table_is_named(to);
    to->version[anchor] = e->version;
    for (size_t i = 0; i < e->ranges_n; i++) {
        for (unsigned slot = e->range[i].first; slot <= e->range[i].last; slot++) {
            struct generation_slot *s = &g->slot[slot];

            if (s->generation != NO_INDEX && g->known[s->generation].number >= e->number) {
                carry_over(g, s, anchor, e);
                continue;
            }
            if (s->generation != NO_INDEX) {
                leave(g, s, to);
            }
            to->slots_n++;
            generation_slot_enters(g, (uint16_t)slot, at);
        }
    }
    if (to->slots_n == 0) {
        g->in_grace_n -= !to->over;
        to->live = false;
    }
    if (to->live && !was_named && generation_table_is_named(to)) {
        generation_slots_named(g, at);
    }
    generation_begin_soon(g);
    return is_new && to->live;
}

void
generation_table_forget(struct generations *g, unsigned anchor)
{
    for (size_t i = 0; i < g->known_n; i++) {
        g->known[i].version[anchor] = g->known[i].inherited[anchor] = 0;
    }
}

void
generation_table_over(struct generations *g, struct known_generation *e)
{
    if (!e->over) {
        e->over = true;
        e->floor = g->floor;
        g->in_grace_n--;
        generation_slots_over(g, (uint16_t)(e - g->known));
    }
}

/*
 * Once all members of an anchor have reported a generation, that stays true: a daemon that registers there later learns
 * of the generation first. So the answers of two anchors need not be of the same time.
 */
void
generation_table_done(struct generations *g, unsigned anchor, uint64_t done)
{
    if (g->in_grace_n == 0) {
        return;
    }
    for (size_t i = 0; i < g->known_n; i++) {
        struct known_generation *e = &g->known[i];

        if (!e->live || e->over || e->version[anchor] == 0 || e->version[anchor] > done) {
            continue;
        }
        e->done |= 1u << anchor;
        if (has_two(e->done)) {
            generation_table_over(g, e);
        }
    }
}

/*
 * The slot with that record may have granted by tokens above all that this daemon knows. The daemon that found the
 * generation over learned that from two anchors, to which all members had sent their highest tokens. Of any two anchors
 * one is among these: so this daemon knows the tokens when two have answered registrations that it sends from now on.
 * It does not wait for `done` of the anchors: that may wait for locks of this daemon, whose reclaims expect another
 * record.
 */
void
generation_table_end_seen(struct generations *g, struct known_generation *e)
{
    if (!e->end_seen) {
        e->end_seen = true;
        for (unsigned i = 0; i < ANCHORS; i++) {
            e->in_flight |= g->anchor[i].asked ? 1u << i : 0;
        }
    }
    ask_anchors(g);
}

void
generation_table_registered(struct generations *g, unsigned anchor, bool votes)
{
    for (size_t i = 0; i < g->known_n && g->in_grace_n > 0; i++) {
        struct known_generation *e = &g->known[i];

        if (!e->live || e->over || !e->end_seen) {
            continue;
        }
        e->answered |= votes && (e->in_flight & 1u << anchor) == 0 ? 1u << anchor : 0;
        e->in_flight &= ~(1u << anchor);
        if (has_two(e->answered)) {
            generation_table_over(g, e);
        }
    }
}

void
generation_table_forget_done(struct generations *g, unsigned anchor)
{
    for (size_t i = 0; i < g->known_n; i++) {
        g->known[i].done &= ~(1u << anchor);
        g->known[i].answered &= ~(1u << anchor);
    }
}

uint64_t
generation_table_reclaimed(const struct generations *g, unsigned anchor)
{
    uint64_t version = g->anchor[anchor].version;

    for (size_t i = 0; i < g->known_n; i++) {
        const struct known_generation *e = &g->known[i];
        uint64_t unreclaimed = e->live && e->unreclaimed_n > 0 ? lower(e->version[anchor], e->inherited[anchor]) : 0;

        if (unreclaimed != 0 && unreclaimed - 1 < version) {
            version = unreclaimed - 1;
        }
    }
    return version;
}

/*
 * The anchor does not know the generation, although it has answered FORWARD_US after this daemon learned of it. The
 * daemon that begins a generation proposes it to all three anchors, so this is rare. The proposal must come first: no
 * other message clears the bits of the slots, and without that all daemons would take the records to be created. An
 * anchor that has just lost its data gets the generation at once, because it is to vote soon; but not before this
 * daemon has all generations that the anchor does know.
 */
static bool
is_lacking(const struct generations *g, unsigned anchor, const struct known_generation *e)
{
    const struct generation_anchor *a = &g->anchor[anchor];

    return e->live && e->version[anchor] == 0 && a->answered && !a->has_more &&
           (a->answered_us > e->named_us + FORWARD_US || a->status != ANCHOR_VOTES);
}

bool
generation_table_lacks(const struct generations *g, unsigned anchor)
{
    bool lacks = false;

    for (size_t i = 0; i < g->known_n; i++) {
        lacks = lacks || is_lacking(g, anchor, &g->known[i]);
    }
    return lacks;
}

void
message_add(struct generations *g, const struct generation_entry *e, uint64_t expected)
{
    struct anchor_message *m = &g->message;
    size_t used = 0;

    for (size_t i = 0; i < m->generations_n; i++) {
        used += g->outgoing[i].ranges_n;
    }
    if (m->generations_n == g->outgoing_room) {
        g->outgoing_room = g->outgoing_room == 0 ? 8 : 2 * g->outgoing_room;
        g->outgoing = mem_array(g->outgoing, g->outgoing_room, sizeof(*g->outgoing));
        g->expected = mem_array(g->expected, g->outgoing_room, sizeof(*g->expected));
    }
    if (used + e->ranges_n > g->ranges_room) {
        g->ranges_room = 2 * (used + e->ranges_n);
        g->ranges = mem_array(g->ranges, g->ranges_room, sizeof(*g->ranges));
    }
    memcpy(g->ranges + used, e->range, e->ranges_n * sizeof(*e->range));
    g->outgoing[m->generations_n] = *e;
    g->expected[m->generations_n++] = expected;
}

/* The ranges of one known generation, in an array of those of all. */
struct part {
    size_t n, end; /* end: the index behind its last range */
};

static bool
begins_range(const struct generations *g, unsigned slot)
{
    return slot == 0 || g->slot[slot - 1].generation != g->slot[slot].generation;
}

/*
 * The ranges of all known generations; part[i]: those of the i-th one. One walk over the slots counts them, a second
 * one writes them. The caller owns the array.
 */
static struct slot_range *
ranges_of_all(const struct generations *g, struct part *part)
{
    struct slot_range *range;
    size_t total = 0;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (g->slot[slot].generation != NO_INDEX && begins_range(g, slot)) {
            part[g->slot[slot].generation].n++;
        }
    }
    for (size_t i = 0; i < g->known_n; i++) {
        part[i].end = total; /* as long as it has no range in the array */
        total += part[i].n;
    }
    range = mem_array(NULL, total, sizeof(*range));
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct part *p;

        if (g->slot[slot].generation == NO_INDEX) {
            continue;
        }
        p = &part[g->slot[slot].generation];
        if (begins_range(g, slot)) {
            range[p->end++].first = (uint16_t)slot;
        }
        range[p->end - 1].last = (uint16_t)slot;
    }
    return range;
}

/*
 * A message has FORWARD_MAX generations at most. Each daemon begins at a random entry, and its next message goes on
 * where this one ends: so an anchor that has lost many generations gets different parts from different daemons.
 */
void
generation_table_forward(struct generations *g, unsigned anchor)
{
    struct slot_range *range;
    struct part *part;

    if (!generation_table_lacks(g, anchor)) {
        return;
    }
    part = mem_zalloc((g->known_n + 1) * sizeof(*part));
    range = ranges_of_all(g, part);
    for (size_t k = 0; k < g->known_n && g->message.generations_n < FORWARD_MAX; k++) {
        size_t i = g->forward_at++ % g->known_n;
        const struct known_generation *e = &g->known[i];

        if (is_lacking(g, anchor, e)) {
            struct generation_entry out = {.number = e->number,
                                           .origin = e->origin,
                                           .since_us = e->since_us,
                                           .range = range + part[i].end - part[i].n,
                                           .ranges_n = part[i].n};

            message_add(g, &out, 0);
        }
    }
    free(range);
    free(part);
}
