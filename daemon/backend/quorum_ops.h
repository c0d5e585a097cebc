/*
 * quorum_ops.h -- the operations of the core on all nodes of a quorum, and their errands to single nodes; for quorum.c
 * and quorum_*.c.
 */
#ifndef RLOCKD_BACKEND_QUORUM_OPS_H
#define RLOCKD_BACKEND_QUORUM_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/tally.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"

struct quorum;
struct quorum_entry;
struct quorum_node;

enum quorum_op_type {
    QUORUM_ATTEMPT, /* an ACQUIRE on which the nodes vote */
    QUORUM_CONFIRM, /* EXTEND, re-entry, reclaim, RELEASE of some holds */
    QUORUM_RELEASE,
    QUORUM_SWEEP, /* a RELEASE for which the core does not wait */
    QUORUM_REPAIR, /* an attempt at a node that lacks the owner's key, for which the core does not wait */
    QUORUM_CHECK,  /* an EXTEND that moves no expiry, for which the core does not wait (O7) */
    QUORUM_BREAK,
};

/* One operation on all nodes. */
struct quorum_op {
    struct list node;    /* in quorum.new_ops, until the verb has returned */
    struct quorum_entry *entry;
    struct timer timer;
    struct core_op op;   /* the core's operation; the key is the entry's */
    enum core_action_type verb;
    enum quorum_op_type type;
    uint64_t incarnation; /* of the entry when the operation began */
    uint64_t token;      /* the proposed token */
    uint64_t least_token; /* BREAK: the smallest token in an answer; 0 = none */
    uint32_t reserve;
    bool reported;       /* the core has got the outcome */
    bool asked;          /* all nodes were asked, and the verb has returned */
    uint32_t asked_again; /* nodes that were asked a second time because a clock was set, a bit each */
    unsigned refs_n;     /* errands, and callers that keep the record */
    int64_t asked_us;    /* when the operation began */
    int64_t guard_us;    /* the latest guard of an errand */
    int64_t expiry_ms, remote_subscribers;
    struct tally tally;
};

/* One operation on one node. */
struct errand {
    struct list node;
    struct map_node by_serial; /* core_op.op of the shard's operation */
    struct quorum_op *op;
    struct quorum_node *to;
    enum core_action_type verb;
    bool is_write_back;
    uint64_t token;            /* ACQUIRE: the proposed token; a write-back: the token to be reached; 0 = none */
    bool was_clean;            /* part.clean when the errand was sent */
    bool of_other;             /* RELEASE: of a key that another claim has set */
};

/* ---- quorum_ask.c ---- */

void quorum_perform_op(struct quorum *qu, const struct core_op *op, enum core_action_type verb);

/* ---- quorum_ops.c ---- */

struct quorum_op *quorum_op_new(struct quorum *qu, struct quorum_entry *entry, const struct core_op *op,
                                enum core_action_type verb, enum quorum_op_type type);

/* Releases the owner's key on the nodes that may have it; on this node. */
void quorum_sweep(struct quorum *qu, struct quorum_entry *entry);
void quorum_sweep_node(struct quorum *qu, struct quorum_entry *entry, unsigned node);

void quorum_answered(struct quorum *qu, struct errand *e, const struct core_done *done);
void quorum_answer_unsent(struct quorum *qu); /* answers the errands that were not sent */
void quorum_entry_due(struct quorum *qu, struct quorum_entry *entry); /* its timer */
void quorum_op_due(struct quorum *qu, struct quorum_op *o); /* its timer */
void quorum_op_asked(struct quorum *qu, struct quorum_op *o); /* the verb has returned */
void quorum_ops_free(struct quorum *qu);

#endif
