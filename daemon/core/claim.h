/*
 * claim.h -- one owner's interest in one lock, from the first request to the last release; private to daemon/core.
 *
 * One record, not a lease and an interest: of 172 functions that read a claim 53 read both halves (every outcome, the
 * timer, the records), and two records that point to each other would bring a held lock (492 bytes) above its bound of
 * 512. A split would save exchange() of handoff.c and little else.
 */
#ifndef RLOCKD_CORE_CLAIM_H
#define RLOCKD_CORE_CLAIM_H

#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/core/core.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain_record.h"

enum claim_state {
    CLAIM_IDLE,    /* lock.rest:    nothing in Redis, not queued; freed when no request refers to it */
    CLAIM_QUEUED,  /* queue.claims: waits for its turn; without requests its position is kept for a while */
    CLAIM_TRYING,  /* queue.claims: its acquire is in flight */
    CLAIM_HELD,    /* lock.holders: granted, now < deadline */
    CLAIM_CACHED,  /* lock.rest:    given back, but Redis keeps it for the next request here, until linger_until_us */
    CLAIM_RELEASING, /* lock.rest: its release is in flight, or to be tried again */
    CLAIM_STRAGGLING, /* lock.rest: released, but an old attempt may still run until uncertain.until_us */
    CLAIM_LOST,    /* lock.rest:    was held, was lost, its owner does not know yet */
    CLAIM_STATES
};

#define CLAIM_IN(s) (1u << CLAIM_##s) /* a set of states */

/* Given back by its owner, while Redis may still have it. */
#define CLAIM_LEAVING (CLAIM_IN(CACHED) | CLAIM_IN(RELEASING) | CLAIM_IN(STRAGGLING))

enum {
    RESERVE_BITS = 11,  /* see claim.reserve ... */
    FAILED_BITS = 3,    /* ... and claim.failed_n */
    REVIEWS_BITS = 3,
    REPLICA_BITS = 4, /* CORE_REPLICAS_MAX */
};

/* The renewal in flight, beside the operation. */
struct claim_renewal {
    uint64_t op;
    int64_t lease_us; /* that it asks for */
};

/*
 * What only some states have. RELEASING reads kept_until_us, wherever it comes from: claim_move() clears it when a
 * claim was HELD.
 */
struct claim_queued {
    uint64_t position;       /* number in the queue here; kept while kept_until_us lies ahead */
    uint64_t record_order;   /* ranked: its position in its record, among those of its record_rank */
    int64_t tried_us;        /* TRYING: since when */
    int64_t kept_until_us;   /* the position is kept without requests until then; 0 = it is not */
    uint32_t ticket_life_us; /* Redis drops the ticket after so long without a renewal; TICKET_MAX_US at most */
};

struct claim_hold {
    int64_t deadline_us;     /* the core says "held" only before this time */
    uint64_t session;        /* the session that was granted the lock; until the end of the hold is published */
    int64_t unrenewed_us;    /* the deadline if the RENEW in flight turns out not to have run */
    int64_t jeopardy_us;     /* with watchdog: two thirds of the lease are over */
    int64_t op_lease_us;     /* the lease that the operation in flight asks for; an attempt asks for claim.lease_us */
};

struct claim_cached {
    int64_t deadline_us;     /* Redis keeps the lock for this daemon until then */
    uint64_t session;
    int64_t linger_until_us;
};

struct claim {
    struct map_node by_id;  /* core.claims; its number is the claim's id */
    struct lock *lock;
    struct owner *owner;
    uint64_t redis_owner;   /* behind the daemon's uuid in Redis: that of the owner; a fresh one while an earlier
                               release may still run, so that the release never takes back a later grant */
    struct list node;       /* on the list that the state names */
    struct list owner_node; /* owner.claims */
    struct list requests;   /* request.claim_node. QUEUED, TRYING: LOCKs that wait together; HELD, RELEASING: in order,
                               the first is being served */
    struct timer timer;     /* what comes next in this state, see claim_arm() */
    uint32_t holds;         /* exclusive ones, and all of kinds that have no other */
    uint32_t shared;        /* shared ones */
    uint32_t refs;          /* requests that name this claim, run or not */
    enum claim_state state : 8;
    enum core_action_type op_verb : 8;
    unsigned reserve : RESERVE_BITS; /* tokens behind its own that are reserved for hand-offs; TRYING: once it is
                                        granted. Of several permits only the reserve of the newest counts: H3 of
                                        handoff.c */
    unsigned failed_n : FAILED_BITS; /* failed operations in a row, BACKOFF_TIMES at most; see claim_put_off() */
    /*
     * of the lease or ticket, beside `op`. WAITS: the claim is in a window (window.c), for its renewal or for its next
     * operation
     */
    enum renewal { RENEWAL_NONE, RENEWAL_WAITS, RENEWAL_SENT } renewal : 2;
    enum record_rank { RECORD_UNRANKED, RECORD_WAITING, RECORD_TICKET } record_rank : 2; /* see record_order */
    unsigned review_n : REVIEWS_BITS; /* lock.reviews_n at its last review */
    unsigned replicas : REPLICA_BITS; /* HELD, CACHED: so many are known to have acknowledged it */
    bool op_for_request : 1; /* the operation is for the first of the requests, see claim_op_request() */
    bool op_shared : 1;     /* the operation is about the shared holds */
    bool op_ticket : 1;     /* the operation asks for a ticket, too */
    bool op_reclaim : 1;    /* the operation is a reclaim */
    bool op_background : 1; /* RELEASING: the release in flight is of WINDOW_BACKGROUND, else of WINDOW_UNLOCK */
    bool has_ticket : 1; /* kinds with tickets: Redis has one of this claim; QUEUED, TRYING, and RELEASING until it is
                            gone */
    bool fresh : 1;         /* granted to a LOCK that said so */
    bool watchdog : 1;      /* the core renews the lease */
    bool not_twice : 1;     /* kinds whose expiry proves ownership: a release may have run; see claim_release() */
    bool lost : 1;          /* RELEASING, STRAGGLING: its owner is still to be told LOST */
    bool end_published : 1; /* RELEASING, STRAGGLING: the end of the hold was published: no news of its release
                               follows */
    bool jeopardy : 1;      /* HELD: JEOPARDY was published */
    bool has_cursor : 1;    /* QUEUED, TRYING: a core_cursor may go on with it: see cursors_pass() */

    uint64_t op;            /* operation in flight; 0 = none */
    union {
        struct heap_node window_node; /* RENEWAL_WAITS: window.waiting; window_node.what: of which window_sort */
        struct claim_renewal renew;   /* RENEWAL_SENT */
        struct list lost_node;        /* LOST: owner.lost */
    };
    uint64_t record_sum;    /* checksum of the record that was kept last; 0 = none was */
    uint64_t token;
    int64_t since_us;       /* QUEUED, TRYING: since when it waits; HELD: when it was granted */
    union {
        struct claim_queued queued; /* QUEUED, TRYING; RELEASING and STRAGGLING, when they come from there */
        struct claim_hold hold;     /* HELD; RELEASING, STRAGGLING and LOST, when they come from there */
        struct claim_cached cached; /* CACHED; begins as the hold that it was */
    };
    int64_t lease_us;       /* of the watchdog, or the last explicit one */
    int64_t renew_us;       /* HELD with watchdog, QUEUED with a ticket: next renewal */
    int64_t retry_us;       /* HELD, RELEASING: an operation failed, and is sent again then; 0 = none failed */
    struct uncertain uncertain;
    int64_t expiry_ms;      /* when Redis drops the key, by its clock, ms */
    int64_t expiry_learned_us; /* when Redis reported it */
};

#endif
