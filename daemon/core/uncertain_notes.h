/*
 * uncertain_notes.h -- what is noted of a claim's unanswered commands; private to daemon/core. Only this header and
 * uncertain.[ch] read or write the fields of struct uncertain (scripts/arrows).
 */
#ifndef RLOCKD_CORE_UNCERTAIN_NOTES_H
#define RLOCKD_CORE_UNCERTAIN_NOTES_H

#include "daemon/core/claim.h"

/* ---- what is noted of a claim ---- */

/* VERIFY_*: what Redis has to confirm; 0: nothing. */
static inline unsigned
uncertain_to_verify(const struct claim *cl)
{
    return cl->uncertain.verify;
}

/* STRAGGLER_*, also those whose time is over. */
static inline unsigned
uncertain_stragglers(const struct claim *cl)
{
    return cl->uncertain.stragglers;
}

/* The lease that a straggling RENEW sets, also if its time is over; 0: there is none. */
static inline int64_t
uncertain_shrink_lease_us(const struct claim *cl)
{
    return cl->uncertain.stragglers & STRAGGLER_RENEW ? cl->uncertain.shrink_lease_us : 0;
}

static inline int64_t
uncertain_expiry_max_us(const struct claim *cl)
{
    return cl->uncertain.expiry_max_us;
}

static inline bool
uncertain_may_be_in_redis(const struct claim *cl)
{
    return cl->uncertain.may_be_in_redis;
}

static inline bool
uncertain_release_unresolved(const struct claim *cl)
{
    return cl->uncertain.release_unresolved;
}

static inline bool
uncertain_release_may_have_run(const struct claim *cl)
{
    return cl->uncertain.release_may_have_run;
}

static inline bool
uncertain_broken_since_sent(const struct claim *cl)
{
    return cl->uncertain.broken_since_sent;
}

/* ---- what is to be noted ---- */

static inline void
uncertain_set_in_redis(struct claim *cl, bool may_be)
{
    cl->uncertain.may_be_in_redis = may_be;
}

/* A command that takes something from Redis, but not the release of all holds, may have run, or may yet run. */
static inline void
uncertain_add_taking(struct claim *cl)
{
    cl->uncertain.release_unresolved = true;
}

/* The release of all holds may have run. */
static inline void
uncertain_add_release(struct claim *cl)
{
    cl->uncertain.release_unresolved = cl->uncertain.release_may_have_run = true;
}

/* Redis has nothing of the claim any more, and the next hold has a redis_owner that no straggler names. */
static inline void
uncertain_hold_is_gone(struct claim *cl)
{
    cl->uncertain.release_unresolved = cl->uncertain.release_may_have_run = false;
    cl->uncertain.stragglers &= ~(unsigned)STRAGGLER_RENEW;
}

static inline void
uncertain_set_broken(struct claim *cl, bool broken)
{
    cl->uncertain.broken_since_sent = broken;
}

/* An operation leaves: it is sent after every BREAK that the core has learned of. */
static inline void
uncertain_operation_leaves(struct claim *cl)
{
    uncertain_set_broken(cl, false);
}

/* A renewal leaves: its answer proves what the answer to the one before did not prove. */
static inline void
uncertain_renewal_leaves(struct claim *cl)
{
    cl->uncertain.verify &= ~(unsigned)VERIFY_AGAIN;
}

#endif
