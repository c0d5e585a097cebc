/*
 * generation_node.h -- the record of a node: its last answer, and the slots that it reports open without owning them
 * (generation_marks.c); for the files of generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_NODE_H
#define RLOCKD_BACKEND_GENERATION_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"
#include "daemon/backend/slot.h"

struct slot_marks {
    uint8_t bit[SLOTS / 8];
    uint8_t late[SLOTS / 8]; /* GM5: those that count no more */
    int64_t since_us;        /* since when all answers of the node, with its present origin, have had marks */
};

struct generation_node {
    char id[NODE_ID_ROOM];
    uint64_t origin, config_epoch;
    uint64_t time_us;  /* the node's clock in its last answer */
    uint64_t digest;   /* of the last answer; an answer with another digest is taken in */
    int64_t answered_us;   /* when the last answered question left; 0 = no answer counts */
    int64_t due_us;
    int64_t records_due_us; /* the node gets no record script before this time ... */
    int64_t records_pause_us; /* ... because it refused the last one, or did not answer; 0: it did answer */
    bool records_fail;      /* the last record script has failed; takes_records() turns that into a pause */
    int64_t valid_from_us;  /* an answer to an earlier question shows only that the node is up */
    bool asked;
    bool kept; /* generations_node_keep() */
    struct slot_marks *marks; /* owned: the slots that the node reports open and does not own; NULL: none */
};

#endif
