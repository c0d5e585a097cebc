/*
 * bounds.h -- the numbers of the core; private to daemon/core.
 */
#ifndef RLOCKD_CORE_BOUNDS_H
#define RLOCKD_CORE_BOUNDS_H

#include "daemon/base/clock.h"

#define GRACE_MAX_US (3600 * US_PER_S) /* an owner, or its place, is waited for no longer; see keys.def */
#define LOST_US (600 * US_PER_S) /* so long, or for its lease, the end of a lease that was asked for is told */
#define LINGER_MAX_US (3600 * US_PER_S) /* far more than a rule may say */

enum {
    BACKOFF_MIN_US = 20 * 1000,  /* between attempts while Redis cannot answer ... */
    BACKOFF_MAX_US = 500 * 1000, /* ... doubled up to this, which is */
    BACKOFF_TIMES = 6,           /* after so many */
    TOGETHER = 64,               /* attempts of one name under way, at most */
    TICKETS_KEPT_MAX = 1024,           /* of one name, that are kept for nobody */
    CROWD = 64,                  /* behind more than these nobody who can not wait has a chance */
    EXPIRY_GAP_US = 5 * 1000, /* scripts/counter.lua takes stamps that are 2 ms apart for the same */
    YIELD_US = 5 * 1000,         /* others get so long to take a lock we let go to them */
    TICKET_MAX_US = 240 * 1000 * 1000, /* a place in Redis's queue lives for a lease, but no longer; see fair.lua */
    ASK_MAX_US = 30 * 1000 * 1000, /* between searches for a deadlock over several daemons */
    HANDOFF_ROOM = 1024,         /* tokens set aside for one run of hand-overs, at most */
    HANDOFF_PERMITS = 64,        /* of a kind with permits: where there are more of them, none is handed over */
    HOPS_MAX = 16,               /* owners in a cycle that is followed over several daemons */
    BROADCAST_BYTES = 8 * 1024,        /* of what one daemon tells the others at a time */
    SET_BACK_MAX_US = 120 * 1000 * 1000, /* for how long a guard that moved is waited for: no network keeps a command of
                                            a closed connection for longer */
    DRAIN_MAX_US = 2000 * 1000 * 1000, /* no drain lasts longer; see claim_deserted() */
    REACH_US = 20 * 1000,        /* a start that has something to free gives Redis so long to be reached */
    TWIN_BYTES = 8 * 1024,       /* of a key, with braces: more than a configuration allows */
    RENEW_TOGETHER = 64,         /* so many renewals are brought together before their time; a call has room for them */
    WINDOW_MAX = 8 * 1024,       /* no more operations of one sort are in flight at a time ... */
    WINDOW_US = 100,             /* ... nor than Redis answers in time if each takes it so long */
    WINDOW_OWED = 8,             /* releases that no request waits for: this part of a window */
    REVIEW_BITS = 3,
    REVIEW_LOST = 1, /* Redis may have lost what it had; */
    REVIEW_JUMPED = 2, /* a clock has jumped, or it was broken elsewhere: it may be gone */
    LOST_OF_OWNER = 1024,        /* such ends that an owner is still to be told; of more the oldest are forgotten ... */
    LOST_MAX = 16 * 1024,        /* ... and in all */
    CANCEL_MOST = 1024,          /* requests of an owner that a CANCEL looks at: it is done in one step */
};

#endif
