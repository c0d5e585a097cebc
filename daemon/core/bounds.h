/*
 * bounds.h -- the bounds and times that several files of the core share; private to daemon/core.
 */
#ifndef RLOCKD_CORE_BOUNDS_H
#define RLOCKD_CORE_BOUNDS_H

#include "daemon/base/clock.h"

#define GRACE_MAX_US (3600 * US_PER_S) /* the longest owner grace and queue grace; see keys.def */
/* how long the loss of a lease that a request had set stays unreported; or as long as that lease, if longer */
#define UNREPORTED_LOSS_US (600 * US_PER_S)
#define LINGER_MAX_US (3600 * US_PER_S) /* far more than a rule may set */
/* no drain lasts longer: an hour (drain_timeout in keys.def) and its last answers; see position_abandoned() */
#define DRAIN_MAX_US (3660 * US_PER_S)

enum {
    BACKOFF_MIN_US = 20 * 1000,  /* between attempts while Redis cannot answer ... */
    BACKOFF_MAX_US = 500 * 1000, /* ... doubled with each failure up to this ... */
    BACKOFF_TIMES = 6,           /* ... which it has reached after so many failures */
    ATTEMPTS_MAX = 64,           /* attempts of one name under way, at most */
    POSITIONS_KEPT_MAX = 1024,   /* positions of one name that are kept without a request */
    NOWAIT_BEHIND_MAX = 64,      /* a NOWAIT behind more claims than these fails at once; of kinds with several
                                    holders, behind 16 times as many */
    EXPIRY_GAP_US = 5 * 1000,    /* between the expiries of two owners; counter.lua takes those within 2 ms for one */
    YIELD_US = 5 * 1000,         /* how long a lock that was released for remote waiters is left to them */
    TICKET_MAX_US = 240 * 1000 * 1000, /* a ticket lives for a lease, and for this at most; see fair.lua */
    TRAIL_PAUSE_MAX_US = 30 * 1000 * 1000, /* between searches for a deadlock over several daemons */
    RESERVE_MAX = 1024,          /* tokens that are reserved for the hand-offs of one cohort, at most */
    HANDOFF_PERMITS = 64,        /* a lock with more permits than these is never handed over */
    HOPS_MAX = 16,               /* owners in a cycle that is followed over several daemons */
    BROADCAST_BYTES = 8 * 1024,  /* one message to the other daemons, at most */
    SET_BACK_MAX_US = 120 * 1000 * 1000, /* the longest delay of a guard by a clock that was set back: no network keeps
                                            a command of a closed connection for longer */
    RESTORE_PAUSE_US = 20 * 1000, /* how long restored claims wait for Redis before their first operation */
    TWIN_BYTES = 8 * 1024,       /* the longest twin of a key, see lock_index.c: no configuration allows such a key */
    RENEW_EARLY_MAX = 64,        /* renewals that leave early beside one that is due; a call has room for them */
    WINDOW_MAX = 8 * 1024,       /* operations of one sort in flight at a time, at most ... */
    WINDOW_US = 100,             /* ... and no more than Redis answers in time if it needs so long for each */
    WINDOW_BACKGROUND_PART = 8,  /* ... of releases that no request waits for, an eighth */
    DOMAIN_REVIEW_BITS = 3,      /* of the number of a domain's review: it wraps around, see epochs.c */
    REVIEW_LOST = 1,             /* Redis may have lost what it had; */
    REVIEW_SUSPECT = 2,          /* a clock has jumped, or another daemon broke the name: the hold may be gone */
    UNREPORTED_OWNER_MAX = 1024, /* unreported losses of one owner, see end_loss_unreported() ... */
    UNREPORTED_MAX = 16 * 1024,  /* ... and of all */
    CANCEL_MAX = 1024,           /* requests of an owner that a CANCEL looks at: it is done in one step */
};

#endif
