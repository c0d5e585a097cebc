/*
 * generations_private.h -- what the files of generations.h share.
 *
 *   generations.c         the anchors: what each is told, and what its answers mean
 *   generation_table.c    the generations that are known, and which of them a slot is in
 *   generation_slots.c    a slot: its node, its record, what it may
 *   generation_begin.c    which slots need a new generation
 */
#ifndef RLOCKD_BACKEND_GENERATIONS_PRIVATE_H
#define RLOCKD_BACKEND_GENERATIONS_PRIVATE_H

#include "daemon/backend/generations.h"
#include "daemon/base/buf.h"
#include "daemon/base/clock.h"

enum { SLOTS_N = 16384, NOBODY = 0xffff, BITS_MAX = 512, LATER_US = 100 * 1000 };
#define GENERATION_BEAT_US (GENERATION_BEAT_MS * US_PER_MS)

/* What is known of a slot's record in its generation. */
enum record_is {
    RECORD_UNKNOWN,  /* it is not needed yet */
    RECORD_NEEDS_BIT, /* in the queue `bits` */
    RECORD_IN_BATCH, /* the anchors are asked for its bit */
    RECORD_TO_SEND,  /* in the queue `records`, with slot.mode */
    RECORD_SENT,
    RECORD_LATER,    /* in the queue `later`: whoever creates it may not have come to it */
    RECORD_RECLAIMS, /* as far as we know */
    RECORD_GRANTS,
};

struct gslot {
    uint64_t open_us;    /* by its node's clock: it was open then; 0 = never */
    uint16_t entry, node; /* NOBODY: none */
    uint8_t record;      /* enum record_is */
    uint8_t mode;        /* enum record_mode */
    bool used : 1;       /* here: the core has heard of its generation */
    bool reclaimed : 1;  /* in its generation */
    bool open : 1;
    bool spoiled : 1;    /* its record was lost in this generation */
    bool reread : 1;     /* it was not there, once */
    bool queued : 1;     /* in `bits` or `records` or `later` */
    bool proposed : 1;   /* a generation that is to begin has it */
};

struct gentry {
    uint64_t number, origin, since_us;
    uint64_t at[ANCHORS];   /* its version there; 0 = it is not there, as far as we know */
    uint64_t from[ANCHORS]; /* versions of those before it that it has taken unreclaimed slots from: the lowest; 0 */
    unsigned slots_n;       /* in it */
    unsigned unreclaimed_n;
    unsigned done;          /* anchors that say so, a bit each */
    bool live, over;
    int64_t heard_us;       /* when it came to be known */
};

struct gnode {
    char id[NODE_ID_ROOM];
    uint64_t origin, config_epoch;
    uint64_t time_us;  /* its clock, in the last answer */
    uint64_t digest;   /* of that answer */
    int64_t heard_us;  /* when the last answer was asked for; 0 = nothing of it counts */
    int64_t due_us;
    int64_t again_us;  /* answers to what was asked before count for no more than that it is there */
    bool asked;
};

struct proposal {
    uint64_t number, expected, origin, since_us;
    struct slot_range *range; /* owned */
    size_t ranges_n;
    unsigned sent, answered; /* anchors, a bit each */
    int64_t began_us;
    bool live;
};

struct ganchor {
    uint64_t birth, version, done;
    enum anchor_status status;
    bool heard, is_new;
    bool asked;          /* a registration is in flight */
    int64_t due_us, asked_us;
    int64_t sent_lease_us;
    unsigned waits;      /* answers since the last new generation, while some are not over */
    int64_t ok_us, ok_lease_us; /* the last registration that counts was sent then, with that lease */
    int64_t heard_us;    /* the last one that was answered at all was sent then */
    uint64_t sent_batch; /* the one in flight says this of `batch` */
    bool sent_lists;
    struct buf list;     /* its members and bits, if has_list */
    bool has_list;
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
    unsigned asks, asked; /* anchors that are to be asked, and have answered; a bit each */
    int64_t began_us;
};

struct generations {
    struct anchor_identity who;
    uint64_t random;
    generations_tell_fn *tell;
    void *ctx;
    bool leaving, restored;
    int64_t longest_us;
    int64_t bound_us, registered_us;
    struct ganchor anchor[ANCHORS];
    struct gnode *node; /* owned, nodes_n of them */
    unsigned nodes_n;
    struct gentry *entry; /* owned, entries_n of them, some of which do not live */
    size_t entries_n, entries_room;
    size_t open_entries_n; /* that are not over */
    uint64_t floor;     /* of tokens */
    uint64_t highest;   /* number that was seen anywhere */
    struct gslot slot[SLOTS_N];
    struct ring bits, records, later;
    unsigned later_old_n; /* of `later`: they have waited for one tick */
    int64_t later_us;
    unsigned records_sent;
    struct batch batch;
    struct proposal *proposal; /* owned, one for each node */
    bool begin_due;     /* slots may need a generation */
    int wanted;         /* the anchor that wants lists; -1 = none */
    struct anchor_message message;
    struct generation_entry *out; /* owned: message.begin, and ... */
    uint64_t *expected;
    size_t out_room;
    struct slot_range *ranges; /* owned: what they point to */
    size_t ranges_room;
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

/* Slots may need a generation. */
static inline void
begin_due(struct generations *g)
{
    g->begin_due = true;
}

/* At once. */
static inline void
ask_anchors(struct generations *g)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        g->anchor[i].due_us = 0;
    }
}

/* generation_table.c */
void table_take(struct generations *g, unsigned anchor, const struct generation_entry *e, int64_t now_us);
void table_lost(struct generations *g, unsigned anchor);          /* it has told us nothing yet */
void table_done(struct generations *g, unsigned anchor, uint64_t done);
void table_over(struct generations *g, struct gentry *e);
uint64_t table_back(const struct generations *g, unsigned anchor); /* what is reclaimed here, in its versions */
/* The generations that the anchor lacks, into message.begin; the ranges behind those that stand there already. */
void table_further(struct generations *g, unsigned anchor);
void message_add(struct generations *g, const struct generation_entry *e, uint64_t expected);
bool table_lacks(const struct generations *g, unsigned anchor);

/* generation_slots.c */
bool slot_is_sound(const struct generations *g, const struct gslot *s); /* its generation is that of its data */
void slot_opens(struct generations *g, uint16_t slot, uint64_t node_us);
void slot_enters(struct generations *g, uint16_t slot, uint16_t entry); /* another generation */
void slot_reclaimed(struct generations *g, struct gslot *s);
void slots_over(struct generations *g, uint16_t entry);
void slots_tick(struct generations *g, int64_t now_us);
void batch_begin(struct generations *g, int64_t now_us);
void batch_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a);
void batch_tick(struct generations *g, int64_t now_us);
bool slot_next_record(struct generations *g, struct generation_send *out);

/* generation_begin.c */
bool begin_may(const struct generations *g);
void begin_all(struct generations *g, int64_t now_us);
void begin_say(struct generations *g, unsigned anchor); /* into message.begin */
void begin_answered(struct generations *g, unsigned anchor, bool answered, int64_t now_us);

#endif
