/*
 * generations_private.h -- what the files of generations.h share.
 *
 *   generations.c         the anchors: the next message to each, and the meaning of its answers
 *   generation_nodes.c    the nodes: the slots of each, and whether these are open
 *   generation_marks.h    slots that a node reports open although another node owns them
 *   generation_table.h    the known generations, and which of them a slot is in
 *   generation_slots.c    a slot: its node, its record, whether it grants or reclaims
 *   generation_begin.c    which slots need a new generation
 */
#ifndef RLOCKD_BACKEND_GENERATIONS_PRIVATE_H
#define RLOCKD_BACKEND_GENERATIONS_PRIVATE_H

#include "daemon/backend/generation_records.h"
#include "daemon/backend/generation_slots.h"
#include "daemon/backend/generations.h"
#include "daemon/base/clock.h"

#define GENERATION_BEAT_US (GENERATION_BEAT_MS * US_PER_MS)

struct generations {
    struct anchor_identity identity;
    uint64_t random; /* the state of a generator of random bits, for numbers of new generations and for pauses */
    generations_news_fn *on_news;
    void *ctx;
    bool leaving, restored;
    bool moved;         /* see generations_slots_moved() */
    int64_t registered_us; /* when the last registrations that two anchors answered left; 0: none count */
    int64_t bound_us;      /* no deadline lies beyond it (G2) */
    struct generation_anchor anchor[ANCHORS];
    uint64_t owner_epoch[ANCHORS]; /* config epochs: see struct anchor_message */
    struct generation_node *node; /* owned, nodes_n of them */
    unsigned nodes_n;
    unsigned marking_n; /* nodes with a mark */
    struct known_generation *known; /* owned, known_n records, of which some are not live */
    size_t known_n, known_room;
    size_t in_grace_n; /* live generations that are not over */
    size_t forward_at;  /* the first of `known` that the next message forwards */
    uint64_t floor;     /* the highest known token */
    uint64_t highest;   /* the highest known number of a generation */
    struct generation_slot slot[SLOTS];
    struct ring bits, records, later;
    unsigned later_old_n; /* slots of `later` that have waited for a whole tick */
    int64_t later_us;   /* when the next tick is due: generation_slots_tick() */
    unsigned records_sent;
    struct bit_query bit_query;
    struct generation_proposal *proposal; /* owned, one for each node */
    bool begin_due;     /* slots may need a generation */
    int lists_for;         /* the anchor that wants lists; -1 = none */
    struct anchor_message message;
    struct generation_entry *outgoing; /* owned: the array of message.generation, and ... */
    uint64_t *expected;             /* ... that of message.expected */
    size_t outgoing_room;
    struct slot_range *ranges; /* owned: the ranges of `outgoing` */
    size_t ranges_room;
};

/* ---- generation_begin.c ---- */

bool generation_begin_allowed(const struct generations *g);

/* Asks anchors for news, and makes proposals, when these are due; generation_begin_append() puts them into messages. */
void generation_begin_tick(struct generations *g, int64_t now_us);

/* Appends this daemon's proposals to message.generation. */
void generation_begin_append(struct generations *g, unsigned anchor);
void generation_begin_answered(struct generations *g, unsigned anchor, bool answered, int64_t sent_us, int64_t now_us);
int64_t generation_begin_next_us(const struct generations *g); /* when generation_begin_tick() has something to do */

/* ---- all of them ---- */

/* R7: if one anchor has lost a member, the answer of another one has its lease. */
static inline int64_t
generations_longest_us(const struct generations *g)
{
    int64_t us = g->identity.lease_us;

    for (unsigned i = 0; i < ANCHORS; i++) {
        us = g->anchor[i].longest_us > us ? g->anchor[i].longest_us : us;
    }
    return us;
}

/* The slot is in a generation of its node's present data. */
static inline bool
is_of_its_node(const struct generations *g, const struct generation_slot *s)
{
    return s->generation != NO_INDEX && s->node != NO_INDEX &&
           g->known[s->generation].origin == g->node[s->node].origin;
}

/* A set of anchors has a bit for each. */
enum { ALL_ANCHORS = (1 << ANCHORS) - 1 };

/* Whether the set has two anchors at least. */
static inline bool
has_two(unsigned anchors)
{
    return (anchors & (anchors - 1)) != 0;
}

/* GM5: keys may have gone to any node. */
static inline void
generation_marks_clear_late(struct generations *g, uint16_t slot)
{
    for (unsigned i = 0; i < g->nodes_n && g->marking_n > 0; i++) {
        if (g->node[i].marks != NULL) {
            g->node[i].marks->late[slot / 8] &= (uint8_t)~(1u << slot % 8);
        }
    }
}

/* Slots may need a generation. */
static inline void
generation_begin_soon(struct generations *g)
{
    g->begin_due = true;
}

/* The anchor gets a registration at once, or, if one is in flight, as soon as that is answered. */
static inline void
ask_anchor(struct generations *g, unsigned i)
{
    g->anchor[i].due_us = 0;
    g->anchor[i].ask_again = g->anchor[i].asked;
}

static inline void
ask_anchors(struct generations *g)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        ask_anchor(g, i);
    }
}

#endif
