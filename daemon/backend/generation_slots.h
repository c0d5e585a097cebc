/*
 * generation_slots.h -- the slots of a cluster in the generations: their records, the bits that anchors keep of them,
 * and the queues of slots whose bit or record is to be asked for; for the files of generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_SLOTS_H
#define RLOCKD_BACKEND_GENERATION_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations.h"
#include "daemon/backend/slot.h"

struct generations;

enum { NO_INDEX = 0xffff, BITS_MAX = 512, LATER_US = 100 * 1000 };

/* What is known of a slot's record in its generation. */
enum record_state {
    RECORD_UNKNOWN,  /* the next call for the slot puts it into `bits` */
    RECORD_NEEDS_BIT, /* in the queue `bits` */
    RECORD_IN_QUERY, /* the anchors are asked for its bit */
    RECORD_TO_SEND,  /* in the queue `records`, with slot.mode */
    RECORD_SENT,
    RECORD_LATER,    /* in the queue `later`: the daemon that creates it may not have done so yet */
    RECORD_RECLAIMS, /* the record reclaims: it was read, or its bit was set in this grace period */
    RECORD_AHEAD,    /* the record grants, but this daemon does not know that the generation is over */
    RECORD_GRANTS,
};

struct generation_slot {
    uint64_t floor;      /* the highest token of the slot that this daemon was given */
    uint64_t open_us;    /* when it was open last, by its node's clock; 0 = never */
    uint64_t alone_us;   /* if is_of_its_node(): since when the node has it alone, by its clock; 0 = unknown (GM2) */
    uint16_t generation, node; /* indices of generations.known, .node; NO_INDEX: none */
    uint8_t record;      /* enum record_state */
    uint8_t mode;        /* enum record_mode */
    bool used : 1;       /* this daemon has had calls for the slot, or may hold locks there: the core gets news of it */
    bool reclaimed : 1;  /* this daemon has reclaimed its locks in this generation */
    bool open : 1;       /* by its node's report ... */
    bool marked : 1;     /* ... and by that of another node: generation_marks.h */
    bool spoiled : 1;    /* its record has been spoiled, or there was none, since it is open */
    bool record_lost : 1; /* its record of this generation is missing or spoiled */
    bool was_missing : 1; /* a read has found no record of this generation */
    bool queued : 1;     /* in `bits` or `records` or `later` */
    bool proposed : 1;   /* it is in a proposal of this daemon */
};

struct ring {
    uint16_t slot[SLOTS];
    unsigned first, n;
};

struct bit_query {
    uint16_t slot[BITS_MAX];
    uint64_t number[BITS_MAX];
    uint8_t clear[BITS_MAX], set[BITS_MAX]; /* the numbers of anchors at which the bit was clear, and was set */
    size_t n;
    uint64_t serial;
    unsigned to_ask, answered; /* the anchors that are to be asked, and those that have answered; a bit each */
    int64_t began_us;
};

static inline bool
ring_push(struct ring *r, uint16_t slot)
{
    if (r->n == SLOTS) {
        return false;
    }
    r->slot[(r->first + r->n++) % SLOTS] = slot;
    return true;
}

static inline uint16_t
ring_pop(struct ring *r)
{
    uint16_t slot = r->slot[r->first];

    r->first = (r->first + 1) % SLOTS;
    r->n--;
    return slot;
}

static inline bool
generation_slot_is_open(const struct generation_slot *s)
{
    return s->open || s->marked;
}

/* The slot has the data of its generation. */
bool generation_slot_is_intact(const struct generations *g, const struct generation_slot *s);

/* `node_us`: by its node's clock. */
void generation_slot_opens(struct generations *g, uint16_t slot, uint64_t node_us);
void generation_slot_marked(struct generations *g, uint16_t slot, uint64_t node_us, bool spoils);

/* The answer of generations_slot_state() may have changed. */
void generation_slot_changed(struct generations *g, uint16_t slot);

/* `generation`: an index of generations.known. */
void generation_slot_enters(struct generations *g, uint16_t slot, uint16_t generation); /* another generation */
void generation_slots_named(struct generations *g, uint16_t generation);
void generation_slots_over(struct generations *g, uint16_t generation);
void generation_slots_tick(struct generations *g, int64_t now_us);
void bit_query_begin(struct generations *g, int64_t now_us);
void bit_query_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a);
void bit_query_tick(struct generations *g, int64_t now_us);
void generation_slot_next_record(struct generations *g, int64_t now_us, struct generation_send *out);

#endif
