/*
 * bounds.h -- the bounds and times of the core; private to daemon/core.
 */
#ifndef RLOCKD_CORE_BOUNDS_H
#define RLOCKD_CORE_BOUNDS_H

#include "daemon/base/clock.h"

#define GRACE_MAX_US (3600 * US_PER_S) /* the longest owner grace and queue grace; see keys.def */
#define LOST_US (600 * US_PER_S) /* how long the loss of a lease that a request had set is kept for its owner; or for
                                    that lease, if it is longer */
#define LINGER_MAX_US (3600 * US_PER_S) /* far more than a rule may say */

enum {
    BACKOFF_MIN_US = 20 * 1000,  /* between attempts while Redis cannot answer ... */
    BACKOFF_MAX_US = 500 * 1000, /* ... doubled up to this, which is */
    BACKOFF_TIMES = 6,           /* after so many */
    TOGETHER = 64,               /* attempts of one name under way, at most */
    POSITIONS_KEPT_MAX = 1024,   /* positions of one name that are kept without a request */
    CROWD = 64,                  /* requests in a queue: a NOWAIT behind more than these fails at once */
    EXPIRY_GAP_US = 5 * 1000,    /* scripts/counter.lua takes stamps that are 2 ms apart for the same */
    YIELD_US = 5 * 1000,         /* how long a lock that was released for remote waiters is left to them */
    TICKET_MAX_US = 240 * 1000 * 1000, /* a ticket lives for a lease, but no longer; see fair.lua */
    ASK_MAX_US = 30 * 1000 * 1000, /* between searches for a deadlock over several daemons */
    RESERVE_MAX = 1024,          /* tokens that are reserved for the hand-offs of one cohort, at most */
    HANDOFF_PERMITS = 64,        /* a lock with more permits than these is never handed over */
    HOPS_MAX = 16,               /* owners in a cycle that is followed over several daemons */
    BROADCAST_BYTES = 8 * 1024,  /* one message to the other daemons, at most */
    SET_BACK_MAX_US = 120 * 1000 * 1000, /* the longest delay of a guard by a clock that was set back: no network keeps
                                            a command of a closed connection for longer */
    DRAIN_MAX_US = 2000 * 1000 * 1000, /* no drain lasts longer; see claim_abandoned() */
    REACH_US = 20 * 1000,        /* how long restored claims wait for Redis before their first operation */
    TWIN_BYTES = 8 * 1024,       /* of a key, with braces: more than a configuration allows */
    RENEW_TOGETHER = 64,         /* renewals that leave early beside one that is due; a call has room for them */
    WINDOW_MAX = 8 * 1024,       /* no more operations of one sort are in flight at a time ... */
    WINDOW_US = 100,             /* ... nor than Redis answers in time if each takes so long */
    WINDOW_BACKGROUND_PART = 8,  /* ... of releases that no request waits for, one part in so many */
    REVIEW_BITS = 3,
    REVIEW_LOST = 1,             /* Redis may have lost what it had; */
    REVIEW_JUMPED = 2,           /* a clock has jumped, or another daemon broke the name: the hold may be gone */
    LOST_OWNER_MAX = 1024,       /* unreported losses of one owner; the oldest are forgotten first ... */
    LOST_MAX = 16 * 1024,        /* ... and in all */
    CANCEL_MAX = 1024,           /* requests of an owner that a CANCEL looks at: it is done in one step */
};

#endif
