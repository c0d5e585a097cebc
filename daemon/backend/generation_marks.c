/*
 * generation_marks.c -- slots that a node reports open although another node owns them.
 *
 * A master that starts with data from before a slot left it keeps the keys of the slot, and reports the slot as
 * `importing`. `redis-cli --cluster fix` then moves these keys to the owner, where they replace newer ones, and closes
 * the slot at the former master; the owner never reports the slot open. Or fix makes the former master the owner again,
 * and the other node reports the slot until its keys have moved.
 */
#include "daemon/backend/generation_marks.h"

#include <stdlib.h>

#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

/*
 * GM2  A mark counts only while the node that reports it may have keys of locks: for MARK_LEASES times the longest
 *      lease since the owner has had the slot alone. So a mark that is never removed does not stop a slot for ever. The
 *      owner has had the slot alone since the beginning of a generation, a time that all daemons know; generations that
 *      follow with the same origin leave the time as it is.
 *
 * A former master may serve for half of the longest lease beside the owner (R7), and the last lock that it renews ends
 * a lease later. Its record of a lock that has ended (common.lua) lives for two leases.
 */
enum { MARK_LEASES = 2 };

#define SPOIL_US (2 * GENERATION_BEAT_US)

/* The node is not the owner, reports the slot as open, and its mark is not late. */
static bool
reports(const struct generation_node *n, const struct generation_node *owner, uint16_t slot)
{
    const struct slot_marks *m = n != owner ? n->marks : NULL;

    return m != NULL && (m->bit[slot / 8] & ~m->late[slot / 8] & 1u << slot % 8) != 0;
}

/*
 * When the slot was last reported open, by its owner's clock; 0: no other node reports it. The time is that at which
 * the answered question left, because the slot may have been closed at any time since. A later time would make each
 * daemon begin a generation of its own. For a node whose connection is lost it is the time of the owner's last answer:
 * the node may still report the slot open.
 */
static uint64_t
last_seen(const struct generations *g, uint16_t slot, const struct generation_node *owner)
{
    uint64_t seen_us = 0;

    for (unsigned i = 0; i < g->nodes_n; i++) {
        const struct generation_node *n = &g->node[i];
        uint64_t us = owner->time_us;

        if (!reports(n, owner, slot)) {
            continue;
        }
        if (n->answered_us != 0 && owner->answered_us != 0) {
            us += (uint64_t)(n->answered_us - owner->answered_us);
        }
        seen_us = us > seen_us ? us : seen_us;
    }
    return seen_us;
}

/*
 * GM4  The record of the slot is spoiled when the mark has been there for SPOIL_US: a daemon that does not reach the
 *      node gets no grants then. By that time all that reach it have asked it. A daemon that found the record spoiled
 *      before it knew of the mark would begin a generation, and until the slot closes holders could not reclaim, and
 *      therefore not renew, their locks in it.
 */
static bool
are_known_to_all(const struct generations *g, uint16_t slot, const struct generation_node *owner)
{
    for (unsigned i = 0; i < g->nodes_n; i++) {
        const struct generation_node *n = &g->node[i];

        if (reports(n, owner, slot) && n->answered_us >= n->marks->since_us + SPOIL_US) {
            return true;
        }
    }
    return false;
}

/*
 * GM5  A mark that came too late, or stayed too long (GM2), does not count under a later owner either, unless the slot
 *      was open by its owner's report meanwhile, or the node that reports the mark has another origin.
 */
static void
set_late(struct generations *g, uint16_t slot, const struct generation_node *owner)
{
    for (unsigned i = 0; i < g->nodes_n; i++) {
        if (reports(&g->node[i], owner, slot)) {
            g->node[i].marks->late[slot / 8] |= (uint8_t)(1u << slot % 8);
        }
    }
}

static void
closes(struct generations *g, uint16_t slot, struct generation_node *owner)
{
    g->slot[slot].marked = false;
    g->slot[slot].spoiled = g->slot[slot].open && g->slot[slot].spoiled;
    if (owner != NULL) {
        owner->due_us = 0; /* a generation needs an answer of the owner that is later than the last report */
    }
    generation_begin_soon(g);
}

/*
 * GM1  While a mark counts, the slot is open, whatever its owner reports. The two reports are kept apart: the slot
 *      closes when neither is left, so they do not open and close it by turns.
 * GM3  The slot closes when the node has answered without the mark, or is no master any more, or when the mark has
 *      ceased to count. Then a generation begins, as in any slot that was open. A node whose connection is lost keeps
 *      its marks: it may be moving keys all the same.
 */
void
generation_marks_check(struct generations *g, uint16_t slot)
{
    struct generation_slot *s = &g->slot[slot];
    struct generation_node *owner = s->node != NO_INDEX ? &g->node[s->node] : NULL;
    bool was = s->marked, may_count;
    uint64_t seen_us, until_us;

    if (g->marking_n == 0 && !was) {
        return;
    }
    seen_us = owner != NULL ? last_seen(g, slot, owner) : 0;
    may_count = seen_us != 0 && s->alone_us != 0 && is_of_its_node(g, s); /* else a generation begins first */
    until_us = s->alone_us + MARK_LEASES * (uint64_t)generations_longest_us(g);
    if (may_count && seen_us < until_us && owner->time_us < until_us) {
        generation_slot_marked(g, slot, seen_us, are_known_to_all(g, slot, owner));
    } else if (was) {
        closes(g, slot, owner);
    }
    if (may_count && !s->marked && !s->open) {
        set_late(g, slot, owner);
    }
    if (s->marked != was) {
        generation_slot_changed(g, slot);
    }
}

void
generation_marks_check_all(struct generations *g)
{
    for (unsigned slot = 0; slot < SLOTS && g->marking_n > 0; slot++) {
        generation_marks_check(g, (uint16_t)slot);
    }
}

/* The slots that the node reports open and does not own. A late mark that was in the answer before, too, stays late. */
static struct slot_marks *
marks_of(const struct node_answer *a, const struct slot_marks *before, int64_t now_us)
{
    bool owns[SLOTS] = {false};
    struct slot_marks *marks = NULL;

    for (size_t i = 0; i < a->ranges_n && a->open_n > 0; i++) {
        for (unsigned slot = a->range[i].first; slot <= a->range[i].last; slot++) {
            owns[slot] = true;
        }
    }
    for (size_t i = 0; i < a->open_n; i++) {
        if (!owns[a->open[i]]) {
            marks = marks == NULL ? mem_zalloc(sizeof(*marks)) : marks;
            marks->bit[a->open[i] / 8] |= (uint8_t)(1u << a->open[i] % 8);
        }
    }
    if (marks != NULL) {
        marks->since_us = before != NULL ? before->since_us : now_us;
    }
    for (unsigned i = 0; i < SLOTS / 8 && marks != NULL && before != NULL; i++) {
        marks->late[i] = marks->bit[i] & before->late[i];
    }
    return marks;
}

static void
replace(struct generations *g, uint16_t node, struct slot_marks *marks)
{
    struct generation_node *n = &g->node[node];
    struct slot_marks *was = n->marks;

    n->marks = marks;
    g->marking_n += (unsigned)(marks != NULL) - (unsigned)(was != NULL);
    for (unsigned slot = 0; slot < SLOTS && (was != NULL || marks != NULL); slot++) {
        if ((((was != NULL ? was->bit[slot / 8] : 0) | (marks != NULL ? marks->bit[slot / 8] : 0)) & 1u << slot % 8) !=
            0) {
            generation_marks_check(g, (uint16_t)slot);
        }
    }
    free(was);
}

void
generation_marks_take(struct generations *g, uint16_t node, const struct node_answer *a, bool same_origin)
{
    replace(g, node, marks_of(a, same_origin ? g->node[node].marks : NULL, g->node[node].answered_us));
}

void
generation_marks_drop(struct generations *g, uint16_t node)
{
    replace(g, node, NULL);
}
