/*
 * call.h -- script calls: operations of one verb and one kind as one EVALSHA, and its answer as outcomes.
 *
 * No link, no clock: words in, outcomes out. scripts/common.lua explains the columns and the numbers.
 */
#ifndef RLOCKD_BACKEND_CALL_H
#define RLOCKD_BACKEND_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_env.h"
#include "daemon/backend/continuity.h"
#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "daemon/base/list.h"

enum call_verb { VERB_RELEASE, VERB_CLEAR, VERB_ACQUIRE, VERB_RENEW, VERBS }; /* in the order they leave a turn */

/* One operation on its way; the key follows the struct. */
struct item {
    struct list node;   /* in a batch or in call.items */
    struct core_op op;  /* op.key points behind the item */
    uint64_t epoch;     /* of Redis, as we knew it when it was asked for */
    enum call_verb verb;
    uint16_t domain;    /* of the key: continuity.h */
    unsigned home;      /* shard_route.c */
    bool alone;         /* it must not share a call with others: denied.h */
    bool one_key, asking; /* of a slot that is open: as in struct call */
    uint8_t hops;       /* nodes of a cluster that have sent it on */
    int64_t parked_us;  /* since when it waits for a node that may be asked: cluster_park.c; 0 = it never had to */
};

/*
 * Scripts that are no verb of a kind: of LOCKINFO, of membership.h, replicas.h, anchor_words.h, quorum_admit.c,
 * bundle.h.
 */
enum other_script {
    OTHER_LOOK,
    OTHER_PRESENCE,
    OTHER_REPLICAS,
    OTHER_NODE,
    OTHER_ANCHOR,
    OTHER_RECORD,
    OTHER_QUORUM,
    OTHER_BUNDLE,
    OTHERS,
};

/* Keys of our own that all names of a Redis with one domain share. */
#define CALL_CLOCK_KEY "rlock:clock"
#define CALL_EPOCH_KEY "rlock:epoch"

/* The names of one script call. */
struct call {
    struct list node; /* in a bundle: bundle.h */
    struct list items;
    size_t n;
    enum call_verb verb;
    enum kind kind;
    uint16_t domain;  /* of every name of it */
    bool partial;     /* RELEASE: every name of it leaves some holds */
    bool reclaim;     /* ACQUIRE: every name of it is held, and reclaimed */
    bool alone;       /* of one name, which must not share a call with others */
    bool denied;      /* of one name: the ACL has ended its script at a key that it made */
    bool one_key;     /* of one name, whose key alone is named: script_forms.h */
    bool asking;      /* behind ASKING: the node has the slot open, and does not own it yet */
    bool whole;       /* EVAL with the text instead of EVALSHA */
    int64_t guard_us; /* by our clock: past it the script does nothing; 0 = none */
    int64_t slack_us; /* the error of that estimate when the call was sent */
    int64_t back_us;  /* shard.back_us then */
    bool again;       /* was STALE once, and is asked with a better offset */
    uint64_t epoch;   /* of Redis, as we knew it when it was sent */
    void *shard;      /* whose it is; borrowed */
    unsigned link;    /* index of the link it goes to */
};

/* The sender of a call, with what it knows of Redis at that time; borrowed. */
struct call_sender {
    const char *text;              /* of its script: script_forms.h; needed for a whole one only */
    const char *sha;               /* digest of its script; not needed for a whole one */
    const char *uuid;              /* the daemon's */
    const struct hash_key *secret; /* that values are derived from */
    int64_t offset_us;             /* Redis's clock minus ours */
    uint64_t floor;                /* every token given elsewhere, as far as it is known, is at most this */
    struct continuity_keys keys;   /* of the domain */
    bool proposes;                 /* backend_conf.proposes */
    struct slice epoch;            /* what rlock:epoch has to be: as it is while Redis grants; to reclaim, in a grace */
};

/* As a Redis that is no node of a cluster runs it; see script_forms.h. */
const char *call_script_text(enum call_verb verb, enum kind kind);
const char *call_other_text(enum other_script script);

enum call_verb call_verb_of(enum core_action_type action);

struct item *item_new(struct freelist *s, const struct core_op *op);

/* Off its list, too. */
void item_free(struct freelist *s, struct item *it);

/* The channel on which a release of the key wakes waiters: Redisson's naming. Appended to `out`. */
void call_channel(enum kind kind, struct slice key, struct buf *out);

/*
 * The words of the command. `text` holds what had to be made up, and must outlive the words; returns their number, at
 * most LINK_WORDS_MAX.
 */
int call_words(const struct call *c, const struct call_sender *sender, struct buf *text, struct slice *words);

/* How the holder of the name is written in Redis: by the owner, or for a kind that is a string by its value. */
void call_put_holder(const struct core_op *op, const struct call_sender *sender, struct buf *text);

/*
 * Whether the reply has the shape of an answer to the call; time_us is TIME of Redis then. Only of such a reply may
 * the following be asked.
 */
bool call_answer_ok(const struct call *c, const struct reply *r, int64_t *time_us);

/* Where in an answer the next item has its outcome; zeroed: the first. */
struct call_position {
    size_t row;
    int64_t in_row;
};

/* The guard had passed when it ran, for all its names alike: nothing was done. */
bool call_is_stale(const struct reply *r);

/* The outcome of the next item, in their order; fills done but for claim, op, sent_us and guard_us. */
void call_outcome(const struct call *c, const struct reply *r, struct call_position *at, struct core_done *done);

/* What an error reply means for every name of the call: DOWN (has not run), FULL, or UNKNOWN. See call_is_denied(). */
enum core_outcome call_error(struct slice text, bool *drop_link);
bool call_is_noscript(const struct reply *r);

/* A node of a cluster has not run it: the slot is another node's, or is being moved, or no node serves it. */
bool call_is_elsewhere(struct slice error);

/* One of its keys is none that the ACL lets us use: nothing has run. */
bool call_is_denied(const struct reply *r);

/* The ACL keeps a key from us that the script has made from one of them: it has ended there, and some of it has run. */
bool call_is_denied_inside(const struct reply *r);

#endif
