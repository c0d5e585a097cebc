/*
 * claim.h -- one owner's interest in one lock, from the first request to the last release; private to daemon/core.
 *
 * One record, not a lease and an interest: a third of the functions that read a claim read both halves (every outcome,
 * the timer, the checkpoints), and with two records that point to each other a held lock would need more than 512
 * bytes (lock.h). To keep that bound, fields that no claim has at the same time share memory, in two unions. The
 * comment of each member says when the union has it.
 */
#ifndef RLOCKD_CORE_CLAIM_H
#define RLOCKD_CORE_CLAIM_H

#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/core/claim_state.h"
#include "daemon/core/core.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain_record.h"

enum {
    RESERVE_BITS = 11,  /* see claim.reserve ... */
    FAILED_BITS = 3,    /* ... and claim.failed_n */
    CLAIM_REVIEW_BITS = 3,
    REPLICA_BITS = 4, /* CORE_REPLICAS_MAX */
};

/* The renewal in flight, beside the operation. */
struct claim_renewal {
    uint64_t op;
    int64_t lease_us; /* that it asks for */
};

struct claim {
    struct map_node by_id;  /* core.claims; its number is the claim's id */
    struct lock *lock;
    struct owner *owner;
    uint64_t redis_owner;   /* behind the daemon's uuid in Redis: that of the owner; a fresh one while an earlier
                               release may still run, so that the release never takes back a later grant */
    struct list node;       /* on the list that the state names */
    struct list owner_node; /* owner.claims */
    struct list requests;   /* request.claim_node. QUEUED, TRYING: LOCKs that wait together; HELD, RELEASING,
                               STRAGGLING: in order, see claim_op_request() */
    struct timer timer;     /* what comes next in this state, see claim_arm() */
    uint32_t holds;         /* exclusive ones, and all of kinds that have no other */
    uint32_t shared;        /* shared ones */
    uint32_t refs;          /* requests whose `claim` this is, begun or not */
    enum claim_state state : 8;
    enum core_action_type op_verb : 8;
    unsigned reserve : RESERVE_BITS; /* tokens behind its own that are reserved for hand-offs; TRYING: those that it
                                        asks for. Of several permits only the reserve of the newest counts: H3 of
                                        handoff.c */
    unsigned failed_n : FAILED_BITS; /* failed operations in a row, BACKOFF_TIMES at most; see claim_back_off() */
    enum checkpoint_rank { RANK_NONE, RANK_WAITING, RANK_TICKET } checkpoint_rank : 2; /* see checkpoint_order */
    unsigned review_n : CLAIM_REVIEW_BITS; /* lock.reviews_n at its last review */
    unsigned replicas : REPLICA_BITS; /* HELD, CACHED: so many are known to have acknowledged it */

    /* of the renewal; at most one of the two is set */
    bool awaits_window : 1; /* waits in a window (window.c) for the turn of its renewal, or of its next operation */
    bool renewal_sent : 1;  /* a renewal of its lease or ticket is in flight, beside `op` */

    /* of the operation in flight */
    bool op_for_request : 1; /* it is for the first of the requests, see claim_op_request() */
    bool op_shared : 1;     /* it is about the shared holds */
    bool op_ticket : 1;     /* it asks for a ticket, too */
    bool op_reclaim : 1;    /* it is a reclaim */
    bool op_background : 1; /* RELEASING: it is of WINDOW_BACKGROUND, else of WINDOW_UNLOCK */

    /* of the position */
    bool has_ticket : 1;    /* kinds with tickets: Redis has its ticket; QUEUED, TRYING, RELEASING until it is gone */
    bool counted_kept : 1;  /* QUEUED, TRYING: counted in queue.kept_n and core.kept_n; see count_kept() */
    bool has_cursor : 1;    /* QUEUED, TRYING: it has a bookmark: K1 of cursors.c */
    bool shortfall : 1;     /* RELEASING: too few replicas have acknowledged its grant */
    bool was_queued : 1;    /* RELEASING, STRAGGLING: it came from QUEUED or TRYING, and still has `queued`; else it
                               came from HELD or CACHED. claim_move() alone sets it */

    /* of the hold */
    bool fresh : 1;         /* granted to a LOCK that was `fresh` */
    bool watchdog : 1;      /* the core renews the lease */
    bool jeopardy : 1;      /* HELD: JEOPARDY was published */
    bool lost : 1;          /* RELEASING, STRAGGLING: LOST is still to be reported to its owner */
    bool end_published : 1; /* CACHED, RELEASING, STRAGGLING: the hold's end was published; its release will not be */

    uint64_t op;            /* operation in flight; 0 = none */
    union {
        struct heap_node window_node; /* awaits_window: window.waiting; window_node.what: the window_sort */
        struct claim_renewal renew;   /* renewal_sent */
        struct list lost_node;        /* LOST: owner.lost */
    };
    uint64_t checkpoint_sum; /* checksum of the checkpoint that was stored last; 0 = none was */
    uint64_t token;
    int64_t since_us;       /* QUEUED, TRYING: since when it waits; HELD: when it was granted */
    union {
        struct claim_queued queued; /* claim_has_position(): QUEUED, TRYING; was_queued: RELEASING, STRAGGLING, too */
        struct claim_hold hold;     /* HELD; RELEASING, STRAGGLING and LOST, when they come from there */
        struct claim_cached cached; /* CACHED; its first fields are those of `hold`, with their values */
    };
    int64_t lease_us;       /* of the watchdog, or the last explicit one */
    int64_t renew_us;       /* HELD with watchdog, QUEUED with a ticket: next renewal */
    int64_t retry_us;       /* RELEASING: when the release is sent; HELD: when its requests are served again, unless
                               another one comes first; 0 = no such time. LOST: when the loss expires */
    struct uncertain uncertain;
    int64_t expiry_ms;      /* when Redis drops the key, by its clock, ms */
    int64_t expiry_learned_us; /* when Redis reported it */
};

static inline uint64_t
claim_id(const struct claim *cl)
{
    return cl->by_id.number;
}

/* Holds of either sort. */
static inline uint32_t
claim_holds(const struct claim *cl)
{
    return cl->holds + cl->shared;
}

/* The union has `queued`: the claim has a position, or may get its former one back when its release is done. */
static inline bool
claim_has_position(const struct claim *cl)
{
    return (CLAIM_IN_QUEUE & (1u << cl->state)) ||
           (cl->was_queued && (cl->state == CLAIM_RELEASING || cl->state == CLAIM_STRAGGLING));
}

/* Until when the position is kept without requests; 0: it is not kept, or there is none. */
static inline int64_t
claim_kept_until_us(const struct claim *cl)
{
    return claim_has_position(cl) ? cl->queued.kept_until_us : 0;
}

/* The position, if there is one, is not kept without requests any more. */
static inline void
claim_clear_kept_until(struct claim *cl)
{
    if (claim_has_position(cl)) {
        cl->queued.kept_until_us = 0;
    }
}

/* A renewal is in flight, or the claim waits in a window. */
static inline bool
claim_renewal_pending(const struct claim *cl)
{
    return cl->awaits_window || cl->renewal_sent;
}

#endif
