/*
 * generations.h -- whether the slots of a cluster still have their data, and until when leases may run
 * (R1 to R8 of proto/SCRIPTS.md). Pure: no link, no clock; answers go in, what to send next comes out.
 *
 * Each slot is in a generation: a number that rises, and the origin of the node whose data it is (process and line of
 * replication). Which one that is, is kept at three anchors, where every daemon registers. What is served by a node of
 * another origin, or had its slot open, or lost its record, is in no generation until a new one begins; which is over
 * when all members of two anchors have reclaimed their locks, or ran out.
 */
#ifndef RLOCKD_BACKEND_GENERATIONS_H
#define RLOCKD_BACKEND_GENERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"

/*
 * G1  A call may be sent to a node only where generations_slot() says so of that node, by what the same connection has
 *     answered to node.lua first, a redirected call too (R3).
 * G2  No deadline lies beyond generations_bound_us() (R2): that is the time of a registration that two anchors have
 *     answered, plus the longest lease; and what these answers name is taken in before it moves.
 * G3  A slot that is open, or was when last heard of, neither grants nor reclaims (R8); no generation begins for it.
 * G4  Of each slot the record is created by one daemon, once in a generation: which finds the slot's bit clear at two
 *     anchors (R6). A record that is not there though the bit was set is data that is lost.
 */

enum {
    GENERATION_BEAT_MS = 2000,  /* every anchor and every node is asked that often, and at once when there is news */
    GENERATION_FRESH_BEATS = 3, /* so old may be what is granted by */
    GENERATION_NODES_MAX = 512, /* as many masters */
    GENERATION_RECORDS_MAX = 64, /* record scripts in flight */
};

enum slot_may {
    SLOT_WAITS,    /* neither; `why` says so */
    SLOT_RECLAIMS, /* held locks are reclaimed, and nothing is granted */
    SLOT_GRANTS,
};

struct slot_state {
    enum slot_may may;
    const char *why;   /* WAITS: what for. A constant */
    int64_t until_us;  /* RECLAIMS, GRANTS: ask again then at the latest, or when told */
    uint64_t number;   /* of its generation: the epoch of its domain; 0: none is known */
    char word[32];     /* RECLAIMS, GRANTS: what the record has to be (ARGV epoch of the verbs, reclaims too) */
};

enum generation_news {
    GENERATION_NEW,   /* the slot's data may be lost: RECLAIM of the core with that number */
    GENERATION_OVER,  /* the slot grants: GRACE_OVER */
    GENERATION_ASKS,  /* generations_slot() may say something else now */
    GENERATION_BOUND, /* generations_bound_us() has moved; slot 0 */
};

/* Called from inside the functions below, which it must not call in turn. */
typedef void generations_tell_fn(void *ctx, enum generation_news news, uint16_t slot, uint64_t number);

/* What is to be sent. Each ends in one generations_..._answered() with an answer, or without. */
enum generation_send_type { SEND_NOTHING, SEND_REGISTER, SEND_NODE, SEND_RECORD };

struct generation_send {
    enum generation_send_type type;
    unsigned anchor;     /* REGISTER: to the owner of its slot (anchor_slot()), KEYS by anchor_words() */
    uint16_t node;       /* NODE, RECORD: where; of a record no other node will do */
    uint16_t slot;       /* RECORD */
    uint64_t number;     /* RECORD: ARGV of the script ... */
    enum record_mode mode; /* ... too */
};

struct generations;

/* `words` is what each registration says of this daemon; copied. `random` is of this daemon alone. */
struct generations *generations_new(const struct anchor_identity *words, uint64_t random, generations_tell_fn *tell,
                                    void *ctx);
void generations_free(struct generations **g);

/* The longest lease; only gets longer. Deadlines may use it when two anchors have heard of it. */
void generations_lease(struct generations *g, int64_t lease_us);
void generations_leave(struct generations *g); /* the next registrations leave */
void generations_reached(struct generations *g); /* a node can be asked now that could not before */

/* ---- slots ---- */

/* Locks may be held in the slot, by a state file: in the epoch that the process before knew, 0 = unknown. */
void generations_restore(struct generations *g, uint16_t slot, uint64_t epoch);

/* Of calls to that node. The first time for a slot it is in use from then on: its records, its news. */
void generations_slot(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us, struct slot_state *out);

/* A call was answered GRACE: its record is not what it was believed to be. */
void generations_differs(struct generations *g, uint16_t slot, int64_t now_us);

/* A call was answered ASK or TRYAGAIN by the node (R8). */
void generations_open(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us);

/* RECLAIMED of the core. */
void generations_reclaimed(struct generations *g, uint16_t slot, uint64_t number);

int64_t generations_bound_us(const struct generations *g); /* 0: no majority has answered yet */

uint64_t generations_number(const struct generations *g, uint16_t slot); /* 0: none is known */
bool generations_is_open(const struct generations *g, uint16_t slot);
bool generations_is_used(const struct generations *g, uint16_t slot);

/* What any daemon of the cluster has given, as far as the anchors have heard: no token may be lower. */
void generations_token(struct generations *g, uint64_t token);
uint64_t generations_floor(const struct generations *g);

const struct anchor_identity *generations_identity(const struct generations *g);

/* ---- nodes: what node.lua answers ---- */

/* The number of the node with that id of the cluster; GENERATION_NODES_MAX: there are too many. */
uint16_t generations_node(struct generations *g, const char id[NODE_ID_ROOM]);

/* A connection to it was lost, or made: nothing of it counts until it has answered anew. */
void generations_node_lost(struct generations *g, uint16_t node, int64_t now_us);

/* NULL: no answer. `sent_us`: when it was asked. False: it is no master, or another node than `node`. */
bool generations_node_answered(struct generations *g, uint16_t node, const struct node_answer *a, int64_t sent_us,
                               int64_t now_us);

/* ---- what to send ---- */

/* The next thing that is due; SEND_NOTHING: none is until generations_due_us(). */
void generations_next(struct generations *g, int64_t now_us, struct generation_send *out);
int64_t generations_due_us(const struct generations *g);

/* The registration that generations_next() asked for, by that node: what it says. Borrowed until the next call. */
const struct anchor_message *generations_message(struct generations *g, unsigned anchor, uint16_t node);

/* NULL: no answer, or an error. */
void generations_anchor_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a,
                                 int64_t sent_us, int64_t now_us);
void generations_record_answered(struct generations *g, uint16_t slot, const struct record_answer *a);

#endif
