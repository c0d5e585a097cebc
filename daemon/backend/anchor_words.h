/*
 * anchor_words.h -- the words of node.lua, anchor.lua and record.lua, and what their answers mean. No link, no clock.
 *
 * What the columns are stands in the scripts. What an answer points to lies in the reply, or in its own arrays.
 */
#ifndef RLOCKD_BACKEND_ANCHOR_WORDS_H
#define RLOCKD_BACKEND_ANCHOR_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

/* Two of them decide (R1). Their slots are spread so that each of three masters has one, as clusters are made. */
enum { ANCHORS = 3, ANCHOR_FORMERS = 4, ANCHOR_ENTRIES_MAX = 1000, NODE_ID_ROOM = 41 };

struct slot_range {
    uint16_t first, last;
};

/* A generation: from `since` by the clock of the node of that origin its slots are its; where no later one has them. */
struct generation_entry {
    uint64_t number, origin;
    uint64_t since_us;
    uint64_t version; /* of the anchor that says so, rising with each; 0: of none */
    const struct slot_range *range;
    size_t ranges_n;
};

struct anchor_identity {
    char uuid[37];
    uint64_t nonce, former[ANCHOR_FORMERS]; /* as in struct epoch */
    int64_t lease_us;
    bool strict; /* no anchors without data are believed before they were that for a lease */
};

/* What a registration says besides. Arrays are borrowed. */
struct anchor_message {
    bool leaving, holds;  /* holds: may hold locks, as a member that is not new */
    bool lists;           /* asks for the members and the bits, for an anchor that lost them (R7) */
    uint64_t birth;       /* of the anchor's data, as known; 0 = not */
    uint64_t version;     /* what it has told us, up to here */
    uint64_t reclaimed;   /* what we have reclaimed, of that (R5) */
    uint64_t suspect_us;  /* by the clock of its node: its slot was open then, its data is not what it was; 0 = never */
    int64_t longest_us;   /* lease of a member of any anchor */
    uint64_t floor;       /* the highest token that was given anywhere, as far as we know */
    const uint64_t *owner; /* config epochs of the nodes that have the anchors' slots, the highest that are known; 0 */
    const struct generation_entry *begin; /* `expected` is known of their slots; 0: to be told further, not begun */
    const uint64_t *expected;
    size_t begin_n;
    const uint16_t *slot; /* whose bits are set, with the number of their generation */
    const uint64_t *slot_number;
    size_t slots_n;
    struct slice brings[2]; /* the answers `list` of both others; {NULL, 0}: none */
    uint64_t brings_birth;  /* to data of that birth */
    bool brings_new;        /* both others have no data either, and never had */
};

enum anchor_status { ANCHOR_VOTES = 1, ANCHOR_ABSTAINS, ANCHOR_WANTS_LISTS, ANCHOR_DUPLICATE_UUID };
enum slot_bit { SLOT_BIT_WAS_CLEAR, SLOT_BIT_WAS_SET, SLOT_BIT_OTHER }; /* OTHER: it is in another generation there */

struct anchor_answer {
    int64_t time_us;
    enum anchor_status status;
    bool is_new;        /* it never had data, as far as it can know */
    uint64_t birth, version;
    uint64_t done;      /* of its generations, up to that version: all members have reclaimed (R5) */
    int64_t longest_us;
    uint64_t floor;
    uint64_t owner[ANCHORS]; /* the highest that members knew of: an old master's answers are known by it */
    struct generation_entry *entry; /* later than anchor_message.version, in order: the first ANCHOR_ENTRIES_MAX */
    size_t entries_n;
    enum slot_bit *bit; /* of each anchor_message.slot */
    size_t bits_n;
    struct slice list;  /* if asked for */
};

struct node_answer {
    int64_t time_us;
    bool master;
    char id[NODE_ID_ROOM];
    uint64_t origin, config_epoch;
    struct slot_range *range; /* slots that it says are its */
    size_t ranges_n;
    uint16_t *open;           /* slots that it gives away or gets */
    size_t open_n;
};

enum record_mode { RECORD_READ, RECORD_CREATE_RECLAIM, RECORD_CREATE_GRANT, RECORD_GRANT, RECORD_SPOIL };

struct record_answer {
    int64_t time_us;
    uint64_t number; /* 0: there is none */
    bool grants;
    bool spoiled;    /* the slot was open */
    bool refused;    /* an error instead: the script has written nothing */
};

uint16_t anchor_slot(unsigned anchor);
enum { ANCHOR_KEYS = 5, RECORD_KEY_ROOM = 24, ANCHOR_WORDS_MAX = 32 };

/* How the record of a slot is called: "rlock:{tag}:epoch". */
void record_key(const char *tag, char out[RECORD_KEY_ROOM]);

/* What the record is in a generation; what the verbs' ARGV epoch has to be. */
void record_word(uint64_t number, bool grants, char out[32]);

/* Words of the commands, by EVAL; `text` holds what had to be made up, and must outlive them. */
int node_words(struct slice *words);
int anchor_words(unsigned anchor, const struct anchor_identity *identity, const struct anchor_message *m,
                 struct buf *text, struct slice words[ANCHOR_WORDS_MAX]);
int record_words(struct slice key, uint64_t number, enum record_mode mode, struct buf *text, struct slice *words);

/* False: no answer of the script, nothing to free. An error is an answer about a record: `refused`. */
bool node_answer_take(const struct reply *r, struct node_answer *out);
bool anchor_answer_take(const struct reply *r, struct anchor_answer *out);
bool record_answer_take(const struct reply *r, struct record_answer *out);
void node_answer_free(struct node_answer *a);
void anchor_answer_free(struct anchor_answer *a);

#endif
