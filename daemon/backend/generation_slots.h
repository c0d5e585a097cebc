/*
 * generation_slots.h -- the slots of a cluster in the generations: their records, the bits that anchors keep of them,
 * and the queues of slots whose bit or record is to be asked for; for the files of generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_SLOTS_H
#define RLOCKD_BACKEND_GENERATION_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/generations.h"

struct generations;

enum { SLOTS_N = 16384, NO_INDEX = 0xffff, BITS_MAX = 512, LATER_US = 100 * 1000 };

/* What is known of a slot's record in its generation. */
enum record_state {
    RECORD_UNKNOWN,  /* no call has needed the record yet */
    RECORD_NEEDS_BIT, /* in the queue `bits` */
    RECORD_IN_BATCH, /* the anchors are asked for its bit */
    RECORD_TO_SEND,  /* in the queue `records`, with slot.mode */
    RECORD_SENT,
    RECORD_LATER,    /* in the queue `later`: the daemon that creates it may not have done so yet */
    RECORD_RECLAIMS, /* the record reclaimed when it was last read */
    RECORD_GRANTS,
};

struct gslot {
    uint64_t open_us;    /* when it was open last, by its node's clock; 0 = never */
    uint16_t entry, node; /* NO_INDEX: none */
    uint8_t record;      /* enum record_state */
    uint8_t mode;        /* enum record_mode */
    bool used : 1;       /* this daemon has had calls for the slot: the core gets news of its generations */
    bool reclaimed : 1;  /* this daemon has reclaimed its locks in this generation */
    bool open : 1;
    bool spoiled : 1;    /* its record was lost in this generation */
    bool reread : 1;     /* its record was missing once */
    bool queued : 1;     /* in `bits` or `records` or `later` */
    bool proposed : 1;   /* it is in a proposal of this daemon */
};

struct ring {
    uint16_t slot[SLOTS_N];
    unsigned first, n;
};

struct batch {
    uint16_t slot[BITS_MAX];
    uint64_t number[BITS_MAX];
    uint8_t clear[BITS_MAX], set[BITS_MAX];
    size_t n;
    uint64_t serial;
    unsigned asks, asked; /* the anchors that are to be asked, and those that have answered; a bit each */
    int64_t began_us;
};

static inline bool
ring_push(struct ring *r, uint16_t slot)
{
    if (r->n == SLOTS_N) {
        return false;
    }
    r->slot[(r->first + r->n++) % SLOTS_N] = slot;
    return true;
}

static inline uint16_t
ring_pop(struct ring *r)
{
    uint16_t slot = r->slot[r->first];

    r->first = (r->first + 1) % SLOTS_N;
    r->n--;
    return slot;
}

bool slot_is_sound(const struct generations *g, const struct gslot *s); /* the slot has the data of its generation */
void slot_opens(struct generations *g, uint16_t slot, uint64_t node_us);
void slot_enters(struct generations *g, uint16_t slot, uint16_t entry); /* another generation */
void slots_over(struct generations *g, uint16_t entry);
void slots_tick(struct generations *g, int64_t now_us);
void batch_begin(struct generations *g, int64_t now_us);
void batch_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a);
void batch_tick(struct generations *g, int64_t now_us);
bool slot_next_record(struct generations *g, int64_t now_us, struct generation_send *out);

#endif
