/*
 * generation_sends.h -- what generations.h asks anchors and nodes, and what these answer; for the sender of the
 * requests.
 */
#ifndef RLOCKD_BACKEND_GENERATION_SENDS_H
#define RLOCKD_BACKEND_GENERATION_SENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"

struct generations;

/* A request to be sent. Each one ends in one call of generations_..._answered(), with NULL if there is no answer. */
enum generation_send_type { SEND_NOTHING, SEND_REGISTER, SEND_NODE, SEND_RECORD };

struct generation_send {
    enum generation_send_type type;
    unsigned anchor;     /* REGISTER: the anchor; the receiver is the owner of anchor_slot() */
    uint16_t node;       /* NODE, RECORD: the node to ask; a RECORD must not be redirected to another one */
    uint16_t slot;       /* RECORD */
    uint64_t number;       /* RECORD: ARGV of record.lua ... */
    enum record_mode mode; /* ... and the mode */
};

/* The next request that is due; SEND_NOTHING: none is due before generations_due_us(). */
void generations_next(struct generations *g, int64_t now_us, struct generation_send *out);
int64_t generations_due_us(const struct generations *g);

/* The registration that generations_next() asked for, to be sent to that node. Borrowed until the next call. */
const struct anchor_message *generations_message(struct generations *g, unsigned anchor, uint16_t node);

/* The anchor's node answers, but with a config epoch below the known one, so that its answers do not count. */
bool generations_anchor_is_low(const struct generations *g, unsigned anchor, int64_t now_us);

/* An anchor abstains if it has lost its data, or never had any (R7), and in an answer that leaves generations out. */
struct anchor_votes {
    unsigned silent, abstaining; /* silent: no answer for GENERATION_FRESH_BEATS that counts */
    int64_t wait_us;             /* until two anchors vote, at the latest; INT64_MAX: unknown */
};

/* Whether calls are allowed by registrations that two anchors have answered (R2). If not, `out` has the reason. */
bool generations_two_vote(const struct generations *g, int64_t now_us, struct anchor_votes *out);

/* Another daemon has begun the generation with that number. The message may get lost: see GB3 in generation_begin.c. */
void generations_announced(struct generations *g, uint64_t number, int64_t now_us);

/* a NULL: no answer, or an error. sent_us: when the question left. False: the node is no master, or not `node`. */
bool generations_node_answered(struct generations *g, uint16_t node, const struct node_answer *a, int64_t sent_us,
                               int64_t now_us);

/* a NULL: no answer, or an error. */
void generations_anchor_answered(struct generations *g, unsigned anchor, const struct anchor_answer *a,
                                 int64_t sent_us, int64_t now_us);

/* `send`: the request; the slot may be at another node by now. a NULL: no answer; errors are `refused`. */
void generations_record_answered(struct generations *g, const struct generation_send *send,
                                 const struct record_answer *a);

#endif
