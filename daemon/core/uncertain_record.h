/*
 * uncertain_record.h -- the record of commands that went unanswered, one in each claim; private to daemon/core.
 */
#ifndef RLOCKD_CORE_UNCERTAIN_RECORD_H
#define RLOCKD_CORE_UNCERTAIN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* What Redis has to confirm before the core reports a HELD claim as held again; uncertain.verify. */
enum {
    VERIFY_HOLDS = 1,   /* Redis may have lost the exclusive holds: they are reclaimed */
    VERIFY_SHARED = 2,  /* ... the shared ones */
    VERIFY_EXISTS = 4,  /* a clock has jumped, or another daemon broke the name: is the hold still there? */
    VERIFY_AGAIN = 8,   /* ... the renewal in flight may have run before that, so its answer proves nothing */
    VERIFY_LOST = VERIFY_HOLDS | VERIFY_SHARED,
    VERIFY_BITS = 4,
};

/* Operations without an answer that may still run, until uncertain.guard_us; see uncertain_add_straggler(). */
enum {
    STRAGGLER_ACQUIRE = 1, /* an acquire may yet take the key in Redis */
    STRAGGLER_RENEW = 2,   /* the expiry may yet be set to shrink_lease_us, also of the next hold of the redis_owner */
    STRAGGLER_RELEASE = 4, /* HELD: a hold may yet be taken away, for the UNLOCK that is `unanswered` */
    STRAGGLER_ANY = 7,
    STRAGGLER_BITS = 3,
    SHRINK_BITS = 48, /* four years: no lease lasts longer than one */
};

/*
 * What is uncertain about a claim: operations that may still run, or have run without an answer. uncertain_allows() of
 * uncertain.h decides what these forbid; uncertain_notes.h and uncertain.[ch] alone read and write the fields
 * (scripts/arrows).
 *
 * release_may_have_run is never set without release_unresolved. Three things set release_unresolved alone: a RENEW that
 * was overtaken; a release of some holds; the release of a restored claim whose checkpoint was not RELEASING. Then the
 * release of all holds has not been sent, and need not wait for the end of the expiry: see release_from_us().
 */
struct uncertain {
    int64_t expiry_max_us;                 /* after this time Redis cannot have this claim, by the core's clock */
    int64_t guard_us;                      /* the latest guard of the stragglers, by Redis's clock:
                                              uncertain_stragglers_end_us() */
    int64_t shrink_lease_us : SHRINK_BITS; /* STRAGGLER_RENEW: the lease that the RENEW sets */
    unsigned stragglers : STRAGGLER_BITS;  /* STRAGGLER_* */
    unsigned verify : VERIFY_BITS;         /* HELD: VERIFY_*; nothing else is served before it is 0 */
    bool may_be_in_redis : 1;              /* Redis has this claim or its ticket, or may have it */
    bool release_unresolved : 1;           /* a command that takes something from Redis may have run, or may yet run: a
                                              release of all holds or of some, or a RENEW. GONE_IN_REDIS then means that
                                              the release was done, and the next hold needs another redis_owner */
    bool release_may_have_run : 1;         /* ... and it was a release of all holds: see release_from_us() */
    bool broken_since_sent : 1;            /* the name was broken since the acquire was sent: the OK proves nothing */
};

#endif
