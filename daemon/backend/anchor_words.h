/*
 * anchor_words.h -- the words of node.lua, anchor.lua and record.lua, and the meaning of the answers. No link or clock.
 *
 * proto/SCRIPTS.md explains the arguments. An answer points into its reply and into arrays that it owns.
 */
#ifndef RLOCKD_BACKEND_ANCHOR_WORDS_H
#define RLOCKD_BACKEND_ANCHOR_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

/* Two of three anchors decide (R1). Their slots are spread so that each master of a new cluster of three has one. */
enum { ANCHORS = 3, ANCHOR_FORMER_NONCES = 4, ANCHOR_ENTRIES_MAX = 1000, NODE_ID_ROOM = 41 };

/*
 * Numbers of generations, and the clocks of nodes from which they are made, are below this bound: so Lua's doubles are
 * exact, also for the next number. As a time in us it is in the year 2112. A higher number in Redis is not rlockd's.
 */
#define GENERATION_NUMBER_END (UINT64_C(1) << 52)

struct slot_range {
    uint16_t first, last;
};

/* A generation and its slots. It has begun at `since_us`, by the clock of the node with that origin. */
struct generation_entry {
    uint64_t number, origin;
    uint64_t since_us;
    uint64_t version; /* the anchor's count of generations when it took this one in; 0: it is not from an anchor */
    const struct slot_range *range;
    size_t ranges_n;
};

struct anchor_identity {
    char uuid[37];
    uint64_t nonce, former_nonce[ANCHOR_FORMER_NONCES]; /* former_nonce: of earlier processes; 0 = none */
    int64_t lease_us;
    bool strict; /* no anchor without data counts as new (R7) */
};

/* The changing part of a registration. Arrays are borrowed. */
struct anchor_message {
    bool leaving, holds;  /* holds: this daemon may hold locks */
    bool asks_list;       /* asks for members and bits, to bring them to an anchor that has lost them (R7) */
    uint64_t birth;       /* the known birth of the anchor's data; 0 = unknown */
    uint64_t version;     /* this daemon knows the anchor's generations up to this version ... */
    uint64_t reclaimed;   /* ... and has reclaimed its locks in those up to this one (R5) */
    uint64_t suspect_us;  /* when the anchor's slot was open last, by its node's clock: data may be lost; 0 = never */
    int64_t longest_us;   /* the longest lease of a member of any anchor */
    uint64_t floor;       /* the highest known token */
    const uint64_t *owner_epoch; /* for each anchor the highest known config epoch of its slot's node; 0 = unknown */
    const struct generation_entry *generation; /* proposals, and generations that this anchor lacks ... */
    const uint64_t *expected; /* ... for each the highest number that its slots may have now; 0: it has begun already */
    size_t generations_n;
    const uint16_t *slot; /* the slots whose bits the anchor sets, if they are in the generation slot_number */
    const uint64_t *slot_number;
    size_t slots_n;
    struct slice lists[2];  /* the lists of both other anchors; {NULL, 0}: none */
    uint64_t lists_birth;   /* the birth for which they are brought */
    bool all_new;           /* both other anchors never had data */
};

enum anchor_status { ANCHOR_VOTES = 1, ANCHOR_ABSTAINS, ANCHOR_WANTS_LISTS, ANCHOR_DUPLICATE_UUID };
enum slot_bit { SLOT_BIT_WAS_CLEAR, SLOT_BIT_WAS_SET, SLOT_BIT_OTHER }; /* OTHER: the slot is in another generation */

struct anchor_answer {
    int64_t time_us;
    enum anchor_status status;
    bool is_new;        /* the anchor has no sign that it ever had data */
    uint64_t birth, version;
    uint64_t done;      /* all members have reclaimed their locks in the generations up to this version (R5) */
    int64_t longest_us;
    uint64_t floor;
    uint64_t owner_epoch[ANCHORS]; /* the highest that members knew: answers of a former master have a lower one */
    struct generation_entry *entry; /* the first ANCHOR_ENTRIES_MAX generations later than anchor_message.version */
    size_t entries_n;
    enum slot_bit *bit; /* for each anchor_message.slot */
    size_t bits_n;
    struct slice list;  /* members and bits, if the message asked for lists */
};

struct node_answer {
    int64_t time_us;
    bool master;
    char id[NODE_ID_ROOM];
    uint64_t origin, config_epoch;
    struct slot_range *range; /* the slots that the node reports as its own */
    size_t ranges_n;
    uint16_t *open;           /* the slots that the node is giving away or getting */
    size_t open_n;
};

/* What record.lua does: see its head. */
enum record_mode {
    RECORD_MODE_READ,
    RECORD_MODE_CREATE_RECLAIM,
    RECORD_MODE_CREATE_GRANT,
    RECORD_MODE_LET_GRANT,
    RECORD_MODE_SPOIL,
};

struct record_answer {
    int64_t time_us;
    uint64_t number; /* 0: the slot has no record */
    bool grants;
    bool spoiled;    /* the slot was open */
    bool refused;    /* Redis has answered an error: the script has written nothing */
    bool redirected; /* refused by MOVED or ASK: this node has no record of the slot */
};

uint16_t anchor_slot(unsigned anchor);
enum { ANCHOR_KEYS = 5, RECORD_KEY_ROOM = 24, ANCHOR_WORDS_MAX = 32 };

/* The key of a slot's record: "rlock:{tag}:epoch". */
void record_key(const char *tag, char out[RECORD_KEY_ROOM]);

/* The value of a slot's record in a generation (record.lua), which every verb names as ARGV `epoch`. */
void record_value(uint64_t number, bool grants, char out[32]);

/* The words of the commands, by EVAL. `text` holds the derived ones, and must outlive the words. */
int node_words(struct slice *words);
int anchor_words(unsigned anchor, const struct anchor_identity *identity, const struct anchor_message *m,
                 struct buf *text, struct slice words[ANCHOR_WORDS_MAX]);
int record_words(struct slice key, uint64_t number, enum record_mode mode, struct buf *text, struct slice *words);

/* False: the reply is no answer of the script, and there is nothing to free. An error may be one (`refused`). */
bool node_answer_take(const struct reply *r, struct node_answer *out);
bool anchor_answer_take(const struct reply *r, struct anchor_answer *out);
bool record_answer_take(const struct reply *r, struct record_answer *out);
void node_answer_free(struct node_answer *a);
void anchor_answer_free(struct anchor_answer *a);

#endif
