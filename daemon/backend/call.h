/*
 * call.h -- script calls: operations of one verb and one kind as one EVALSHA, and its answer as outcomes.
 *
 * No link, no clock: words in, outcomes out. proto/SCRIPTS.md explains the arguments and the outcomes.
 */
#ifndef RLOCKD_BACKEND_CALL_H
#define RLOCKD_BACKEND_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_env.h"
#include "daemon/backend/call_item.h"
#include "daemon/backend/continuity.h"
#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "daemon/base/list.h"

/*
 * Scripts that are no verb of a kind: for inspect.h, membership.h, replicas.h, anchor_words.h, quorum_admit.c,
 * bundle.h.
 */
enum other_script {
    OTHER_INSPECT,
    OTHER_MEMBERSHIP,
    OTHER_REPLICAS,
    OTHER_NODE,
    OTHER_ANCHOR,
    OTHER_RECORD,
    OTHER_QUORUM,
    OTHER_BUNDLE,
    OTHERS,
};

/* The first two keys of each call to a Redis with one domain: all its names share them. */
#define CALL_CLOCK_KEY "rlock:clock"
#define CALL_EPOCH_KEY "rlock:epoch"

/* The names of one script call. */
struct call {
    struct list node; /* in a bundle: bundle.h */
    struct list items;
    size_t n;
    enum call_verb verb;
    enum kind kind;
    uint16_t domain;  /* of every name */
    bool partial;     /* RELEASE: every name keeps some holds */
    bool reclaim;     /* ACQUIRE: every name is reclaimed */
    bool alone;       /* has one name, which must not share a call */
    bool denied;      /* has one name; the ACL ended the script at a key that the script derived */
    bool one_key;     /* has one name, and names no key but that one: script_variants.h */
    bool asking;      /* follows ASKING: the slot is moving to this node */
    bool of_quorum;   /* at a node of a quorum: scripts/clocks.lua; names in a row have the same token */
    bool with_text;   /* EVAL with the text instead of EVALSHA */
    int64_t guard_us; /* by the daemon's clock: later the script does nothing; 0 = none */
    int64_t slack_us; /* the error of the estimate of Redis's clock when the call was sent */
    int64_t back_us;  /* shard.back_us, the backward jumps of Redis's clock, when the call was sent */
    bool was_stale;   /* it ran past its guard once, and was sent again with a better offset */
    uint64_t epoch;   /* the known epoch of the domain when the call was sent */
    void *shard;      /* the sender; borrowed */
    unsigned link;    /* index of the link that it is sent by */
};

/* What the sender of a call has learned from Redis, and its settings; borrowed. */
struct call_sender {
    const char *text;              /* of the script (script_variants.h), if the call is with it */
    const char *sha;               /* digest of the script, if it is not */
    const char *uuid;              /* the daemon's */
    const struct hash_key *secret; /* for derived values */
    int64_t offset_us;             /* Redis's clock minus the daemon's */
    uint64_t floor;                /* continuity_floor() of the domain; of a bundle's domains the highest one */
    struct continuity_keys keys;   /* of the domain */
    struct slice epoch;            /* the value that the epoch's key must have: continuity_epoch_value() */
};

/* The plain text of a script; script_variants.h has the other variants. */
const char *call_script_text(enum call_verb verb, enum kind kind);

/* The text for nodes of a quorum (scripts/clocks.lua); NULL: the plain text serves. */
const char *call_quorum_text(enum call_verb verb, enum kind kind);

const char *call_other_text(enum other_script script);

enum call_verb call_verb_of(enum core_action_type action);

/* Appends the channel on which a release of the key wakes waiters, as Redisson names it. */
void call_channel(enum kind kind, struct slice key, struct buf *out);

/*
 * The words of the command; returns their number, at most LINK_WORDS_MAX. `text` holds the derived ones, and must
 * outlive the words.
 */
int call_words(const struct call *c, const struct call_sender *sender, struct buf *text, struct slice *words);

/* Appends the word by which Redis knows the holder of the name: the owner, or the value of a kind that is a string. */
void call_put_holder(const struct core_op *op, const struct call_sender *sender, struct buf *text);

/*
 * Whether the reply is an answer to the call; sets time_us to Redis's TIME. call_is_stale() and call_outcome() take
 * only such a reply.
 */
bool call_answer_ok(const struct call *c, const struct reply *r, int64_t *time_us);

/* The position of an item's outcome in an answer; zeroed: of the first item. */
struct call_position {
    size_t row;
    int64_t in_row;
};

/* The call ran past its guard, which all its names share: nothing was done. */
bool call_is_stale(const struct reply *r);

/* The outcome of the item at that position, which moves on. Fills `done` except claim, op, sent_us and guard_us. */
void call_outcome(const struct call *c, const struct reply *r, struct call_position *at, struct core_done *done);

/* What an error reply means for every name of the call: DOWN (has not run), FULL, or UNKNOWN. See call_is_denied(). */
enum core_outcome call_error(struct slice text, bool *drop_link);
bool call_is_noscript(const struct reply *r);

/* The node has not run the call: another node has the slot, or the slot is moving, or no node serves it. */
bool call_is_redirected(struct slice error);

/* The ACL forbids one of the call's keys: nothing has run. */
bool call_is_denied(const struct reply *r);

/* The ACL forbids a key that the script derived from a call's key: the script has ended there, and has run in part. */
bool call_is_denied_inside(const struct reply *r);

#endif
