/*
 * generations_private.h -- what the files of generations.h share.
 *
 *   generations.c         the anchors: the next message to each, and the meaning of its answers
 *   generation_nodes.c    the nodes: the slots of each, and whether these are open
 *   generation_table.c    the known generations, and which of them a slot is in
 *   generation_slots.c    a slot: its node, its record, whether it grants or reclaims
 *   generation_begin.c    which slots need a new generation
 */
#ifndef RLOCKD_BACKEND_GENERATIONS_PRIVATE_H
#define RLOCKD_BACKEND_GENERATIONS_PRIVATE_H

#include "daemon/backend/generation_slots.h"
#include "daemon/backend/generations.h"
#include "daemon/base/buf.h"
#include "daemon/base/clock.h"

#define GENERATION_BEAT_US (GENERATION_BEAT_MS * US_PER_MS)

struct gentry {
    uint64_t number, origin, since_us;
    uint64_t version[ANCHORS]; /* the generation's version at the anchor; 0 = the anchor has not named it */
    uint64_t from[ANCHORS];    /* the lowest version of earlier generations that left it unreclaimed slots; 0 = none */
    unsigned slots_n;
    unsigned unreclaimed_n; /* slots in which this daemon has still to reclaim locks */
    unsigned done;          /* a bit for each anchor whose members have all reclaimed this generation */
    bool live, over;
    int64_t named_us;       /* when an anchor named it first */
};

struct gnode {
    char id[NODE_ID_ROOM];
    uint64_t origin, config_epoch;
    uint64_t time_us;  /* the node's clock in its last answer */
    uint64_t digest;   /* of the last answer; an answer with another digest is taken in */
    int64_t answered_us;   /* when the last answered question left; 0 = no answer counts */
    int64_t due_us;
    int64_t records_due_us; /* the node gets no record script before this time ... */
    int64_t records_pause_us; /* ... because it refused the last one, or did not answer; 0: it did answer */
    bool records_fail;      /* a record script has failed since the last look at what is due */
    int64_t valid_from_us;  /* an answer to an earlier question shows only that the node is up */
    bool asked;
};

struct proposal {
    uint64_t number, expected, origin, since_us;
    struct slot_range *range; /* owned */
    size_t ranges_n;
    unsigned sent, answered; /* the anchors that it was sent to, and those that have answered it; a bit each */
    int64_t began_us;
    bool live;
};

struct ganchor {
    uint64_t birth, version, done;
    enum anchor_status status;
    bool answered, is_new;
    bool has_more;       /* the last answer left later generations out */
    uint64_t new_birth;  /* the birth in the anchor's last answer with `is_new`; 0: there was none */
    bool asked;          /* a registration is in flight ... */
    bool again;          /* ... and lacks some news: the next one leaves at once */
    uint16_t node;       /* the receiver of the last registration ... */
    uint64_t epoch;      /* ... and its config epoch */
    uint64_t ok_epoch;   /* the config epoch of the node whose answer was the last that counts */
    int64_t due_us, asked_us;
    int64_t sent_lease_us; /* the lease in the last registration */
    unsigned waits;      /* answers since the last new generation, while a generation is not over */
    int64_t ok_us, ok_lease_us; /* when the last registration that counts left, and the lease in it */
    int64_t answered_us;    /* when the last answered registration left */
    uint64_t sent_batch; /* batch.serial that the registration in flight asks for */
    uint64_t sent_lists; /* the birth of the anchor for which it asks for a list; 0: it asks for none */
    bool brings;         /* the last registration has the lists of both other anchors */
    struct buf list;     /* the anchor's members and bits, if has_list */
    bool has_list;
};

struct generations {
    struct anchor_identity identity;
    uint64_t random;
    generations_news_fn *on_news;
    void *ctx;
    bool leaving, restored;
    int64_t longest_us;
    int64_t bound_us, registered_us;
    struct ganchor anchor[ANCHORS];
    uint64_t owner[ANCHORS]; /* config epochs: see struct anchor_message */
    struct gnode *node; /* owned, nodes_n of them */
    unsigned nodes_n;
    struct gentry *entry; /* owned, entries_n records, of which some are not live */
    size_t entries_n, entries_room;
    size_t open_entries_n; /* live generations that are not over */
    size_t forward_at;  /* the first entry that the next message forwards */
    uint64_t floor;     /* the highest known token */
    uint64_t highest;   /* the highest known number of a generation */
    struct gslot slot[SLOTS_N];
    struct ring bits, records, later;
    unsigned later_old_n; /* slots of `later` that have waited for a whole tick */
    int64_t later_us;
    unsigned records_sent;
    struct batch batch;
    struct proposal *proposal; /* owned, one for each node */
    bool begin_due;     /* slots may need a generation */
    int lists_for;         /* the anchor that wants lists; -1 = none */
    struct anchor_message message;
    struct generation_entry *begin; /* owned: the array of message.begin, and ... */
    uint64_t *expected;             /* ... that of message.expected */
    size_t begin_room;
    struct slot_range *ranges; /* owned: the ranges of `begin` */
    size_t ranges_room;
};

/* Slots may need a generation. */
static inline void
begin_due(struct generations *g)
{
    g->begin_due = true;
}

/* The anchor gets a registration at once, or, if one is in flight, as soon as that is answered. */
static inline void
ask_anchor(struct generations *g, unsigned i)
{
    g->anchor[i].due_us = 0;
    g->anchor[i].again = g->anchor[i].asked;
}

static inline void
ask_anchors(struct generations *g)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        ask_anchor(g, i);
    }
}

/* generation_table.c */
void table_take(struct generations *g, unsigned anchor, const struct generation_entry *e, int64_t now_us);
void table_forget(struct generations *g, unsigned anchor); /* the anchor has lost its data: forgets its versions */
void table_done(struct generations *g, unsigned anchor, uint64_t done);
void table_forget_done(struct generations *g, unsigned anchor); /* a former master has reported `done` */
void table_over(struct generations *g, struct gentry *e);
uint64_t table_reclaimed(const struct generations *g, unsigned anchor); /* we have reclaimed up to this version */
/* Appends the generations that the anchor lacks to message.begin. */
void table_forward(struct generations *g, unsigned anchor);
void message_add(struct generations *g, const struct generation_entry *e, uint64_t expected);
bool table_lacks(const struct generations *g, unsigned anchor);

/* generation_begin.c */
bool begin_may(const struct generations *g);
void begin_all(struct generations *g, int64_t now_us);
void begin_propose(struct generations *g, unsigned anchor); /* appends our proposals to message.begin */
void begin_answered(struct generations *g, unsigned anchor, bool answered, int64_t now_us);

#endif
