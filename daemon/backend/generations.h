/*
 * generations.h -- whether the slots of a cluster still have their data, and until when leases may run
 * (R1 to R10 of proto/SCRIPTS.md). Pure: no link, no clock; answers go in, what to send next comes out
 * (generation_sends.h).
 *
 * Each slot is in a generation: a number that rises, and the origin (process, line of replication, config epoch) of the
 * node whose data it is. Three anchors, where every daemon registers, keep the generation of each slot. A slot needs a
 * new generation when a node of another origin serves it, when it was open, or when its record is lost. A generation is
 * over (the slot grants again) when all members of two anchors have reclaimed their locks, or their leases have ended.
 */
#ifndef RLOCKD_BACKEND_GENERATIONS_H
#define RLOCKD_BACKEND_GENERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"

/*
 * G1  A call, redirected or not, is sent to a node only if generations_slot_state() allows it for that node, from what
 *     node.lua answered on the same connection (R3). In an open slot renewals and releases need no such leave (R8).
 * G2  No deadline lies beyond generations_bound_us() (R2): the time of a registration that two anchors have answered,
 *     plus the lease in it, less 1 % and 2 ms. The generations that these answers name are taken in before the bound
 *     moves.
 * G3  A slot that is open, by the last answer of its node or of another one (generation_marks.h), neither grants nor
 *     reclaims (R8), and no generation begins there.
 * G4  The record of a slot is created once in a generation, by the daemon that finds the slot's bit clear at two
 *     anchors (R6). If the bit was set and the record is missing, the slot has lost data.
 */

enum {
    GENERATION_BEAT_MS = 2000,   /* between two messages to an anchor or node; news leaves at once */
    GENERATION_FRESH_BEATS = 3,  /* the age up to which answers of a node, and of two anchors, allow calls */
    GENERATION_NODES_MAX = 512,  /* masters */
    GENERATION_RECORDS_MAX = 64, /* record scripts in flight */
};

enum slot_may {
    SLOT_WAITS,    /* neither grants nor reclaims; `why` names the reason */
    SLOT_RECLAIMS, /* held locks are reclaimed, and nothing is granted */
    SLOT_GRANTS,
};

struct slot_state {
    enum slot_may may;
    const char *why;   /* WAITS: a static text */
    int64_t until_us;  /* RECLAIMS, GRANTS: ask again at this time, or earlier on GENERATION_ASK_AGAIN */
    uint64_t number;   /* of the slot's generation: the epoch of its domain; 0: unknown */
    char value[32];    /* RECLAIMS, GRANTS: the value that the record must have (ARGV `epoch` of every verb) */
};

enum generation_news {
    GENERATION_NEW,   /* the slot's data may be lost: the core gets RECLAIM with that number */
    GENERATION_OVER,  /* the slot grants: the core gets GRACE_OVER */
    GENERATION_ASK_AGAIN,  /* the answer of generations_slot_state() may have changed */
    GENERATION_BOUND, /* generations_bound_us() has moved; slot 0 */
    GENERATION_BEGUN, /* this daemon has begun the generation: the others must learn its number; slot 0 */
};

/* Called inside the functions below, and must call none of them. */
typedef void generations_news_fn(void *ctx, enum generation_news news, uint16_t slot, uint64_t number);

struct generations;

/* `identity` identifies this daemon in each registration; copied. `random` differs from daemon to daemon. */
struct generations *generations_new(const struct anchor_identity *identity, uint64_t random,
                                    generations_news_fn *on_news, void *ctx);
void generations_free(struct generations **g);

/* The lease to register (R1), which never becomes shorter. Deadlines may use it once two anchors have answered it. */
void generations_set_lease(struct generations *g, int64_t lease_us);
void generations_leave(struct generations *g); /* the next registrations take this daemon off the members */
void generations_reached(struct generations *g); /* the connection to a node is up */

/* ---- slots ---- */

/* The process before this one may have left locks in the slot: they are to be reclaimed, whatever their epoch was. */
void generations_restore(struct generations *g, uint16_t slot);

/* Whether calls for the slot may go to the node. The first time puts the slot in use: it gets a record, and news. */
void generations_slot_state(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us,
                            struct slot_state *out);

/* A call was answered GRACE: the slot's record differs from slot_state.value. */
void generations_record_differs(struct generations *g, uint16_t slot);

/* A call was answered ASK or TRYAGAIN by the node (R8). */
void generations_slot_opened(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us);

/* The core has reclaimed its locks of the slot in the generation with that number. */
void generations_reclaimed(struct generations *g, uint16_t slot, uint64_t number);

/* The origin of the slot's generation; 0: the slot is open or at another node, or needs another generation. */
uint64_t generations_origin(const struct generations *g, uint16_t slot, uint16_t node);

int64_t generations_bound_us(const struct generations *g); /* 0: no two anchors have answered yet */
uint64_t generations_number(const struct generations *g, uint16_t slot); /* 0: unknown */
bool generations_is_open(const struct generations *g, uint16_t slot);
bool generations_is_used(const struct generations *g, uint16_t slot);
bool generations_in_grace(const struct generations *g); /* a generation of some slots is not over */

/*
 * generations_token(): this daemon was given a token of the slot. generations_floor(): new tokens must be larger. It is
 * the larger of two: the highest known token of the slot, and the highest one of all slots, as known at the end of the
 * slot's grace period (while that lasts: as known now). Later tokens of other slots do not count: the fastest of the
 * masters' clocks makes them.
 */
void generations_token(struct generations *g, uint16_t slot, uint64_t token);
uint64_t generations_floor(const struct generations *g, uint16_t slot);
const struct anchor_identity *generations_identity(const struct generations *g);

/* ---- nodes: what node.lua answers ---- */

/* The index of the node with that cluster id, which no other node gets while the topology keeps the index. */
uint16_t generations_node_index(struct generations *g, const char id[NODE_ID_ROOM]); /* GENERATION_NODES_MAX: no room */
void generations_node_keep(struct generations *g, uint16_t node, bool keep);
bool generations_node_answers(const struct generations *g, uint16_t node, int64_t now_us); /* it has answered lately */
bool generations_slots_moved(struct generations *g); /* since the last call a used slot got another node, or none */

/* A connection to the node was lost or made: its earlier answers do not count. */
void generations_node_lost(struct generations *g, uint16_t node, int64_t now_us);

/* The nodes are those of another cluster: known config epochs, owners of slots and answers of anchors do not count. */
void generations_other_cluster(struct generations *g, int64_t now_us);

#endif
