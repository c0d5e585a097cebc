/*
 * claim_state.h -- the states of a claim, and what only some of them have; private to daemon/core.
 */
#ifndef RLOCKD_CORE_CLAIM_STATE_H
#define RLOCKD_CORE_CLAIM_STATE_H

#include <stdint.h>

enum claim_state {
    CLAIM_IDLE,    /* lock.rest:    nothing in Redis, not queued; freed when no request refers to it */
    CLAIM_QUEUED,  /* queue.claims: waits for its turn; without requests its position is kept for a while */
    CLAIM_TRYING,  /* queue.claims: its acquire is in flight */
    CLAIM_HELD,    /* lock.holders: granted, now < deadline */
    CLAIM_CACHED,  /* lock.rest:    given back, but Redis keeps it for the next request here, until linger_until_us */
    CLAIM_RELEASING, /* lock.rest: its release is in flight, or is still to be sent, perhaps again */
    CLAIM_STRAGGLING, /* lock.rest: released, but an old attempt may still run until uncertain.guard_us */
    CLAIM_LOST,    /* lock.rest:    was held, was lost; the loss is not reported yet */
    CLAIM_STATES
};

#define CLAIM_IN(s) (1u << CLAIM_##s) /* a set of states */

/* On the list queue.claims. */
#define CLAIM_IN_QUEUE (CLAIM_IN(QUEUED) | CLAIM_IN(TRYING))

/* Its owner does not have it, or not any more, while Redis may still have it. */
#define CLAIM_LEAVING (CLAIM_IN(CACHED) | CLAIM_IN(RELEASING) | CLAIM_IN(STRAGGLING))

/* What only some states have: the members of one union of struct claim. */
struct claim_queued {
    uint64_t position;       /* number in the queue here; kept while kept_until_us lies ahead */
    uint64_t checkpoint_order; /* with a checkpoint_rank: the position when the claim got that rank, as its checkpoint
                                  has it; see checkpoint_store() */
    int64_t tried_us;        /* TRYING: since when */
    int64_t kept_until_us;   /* the position is kept without requests until then; 0 = it is not. Of a claim in any
                                state: claim_kept_until_us() */
    uint32_t ticket_life_us; /* Redis drops the ticket after so long without a renewal; TICKET_MAX_US at most */
};

struct claim_hold {
    int64_t deadline_us;     /* the core reports the claim as held only before this time */
    uint64_t session;        /* the session that was granted the lock; kept until the end of the hold is published */
    int64_t unrenewed_us;    /* the deadline if the RENEW in flight turns out not to have run */
    int64_t jeopardy_us;     /* with watchdog: when two thirds of the lease are over */
    int64_t op_lease_us;     /* the lease that the operation in flight asks for; an attempt asks for claim.lease_us */
};

struct claim_cached {
    int64_t deadline_us;     /* Redis keeps the lock for this daemon until then */
    uint64_t session;
    int64_t linger_until_us;
};

#endif
