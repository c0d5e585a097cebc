/*
 * events.h -- the events of the core: requests, outcomes, messages and changes of the backend.
 */
#ifndef RLOCKD_CORE_EVENTS_H
#define RLOCKD_CORE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/slice.h"
#include "daemon/core/conf.h"
#include "daemon/core/checkpoint.h"

#define CORE_FOREVER INT64_MAX
#define CORE_MULTILOCK_MAX 64 /* names in one MLOCK */
#define CORE_WAITER_POLL_MAX 128 /* names in one WAITER_POLL */

enum core_event_type {
    CORE_LOCK,
    CORE_UNLOCK,
    CORE_RENEW,
    CORE_MLOCK,    /* several LOCKs of one owner, all or none; all fail when the wait of the one that waits is over */
    CORE_MUNLOCK,  /* several UNLOCKs: each name by itself */
    CORE_MRENEW,   /* several RENEWs: each name by itself */
    CORE_BREAK,    /* take the name from its holders */
    CORE_CANCEL,   /* end the owner's waits for the name; the answer is LEFT with their number; cancel.c */
    CORE_USE,      /* the session uses the owner, if there is one of that name; no answer */
    CORE_CROWDED,  /* the session has as many requests unanswered as it may: the oldest is refused if it waits, or has
                      not begun, and the session acts for named owners, too */
    CORE_EOF,      /* the session sends nothing more: its waits end */
    CORE_UNREACHABLE, /* no answer reaches the session any more: its own owner releases all once its requests end */
    CORE_SESSION_GONE, /* the session has ended */
    CORE_LOSS_REPORTED, /* the loss of this grant has been reported to its owner */
    CORE_UNDELIVERED, /* the answer with this grant is too late to be sent: the hold that it counted is taken back. If
                         that was the only one, LOST is reported to the owner */
    CORE_DONE,     /* an operation has an outcome */
    CORE_HINT,     /* a watched name has changed in Redis */
    CORE_SUBSCRIBED, /* the watch of a name is confirmed (again): try now */
    CORE_UNSUBSCRIBED, /* until SUBSCRIBED comes (again), Redis does not count this daemon as a subscriber */
    CORE_WAITERS_POLLED, /* the answer to a WAITER_POLL */
    CORE_RECEIVED, /* a broadcast of another daemon, or of this one: broadcast.c */
    CORE_RECLAIM,  /* Redis may have lost the domain: whatever is held there is reclaimed; ends in one RECLAIMED */
    CORE_GRACE_OVER, /* Redis grants again there: waiters try now */
    CORE_SUSPECT,  /* a clock has jumped: Redis has to confirm each hold there before the core reports it as held */
    CORE_CLOCK_BACK, /* Redis's clock was set back: earlier guards end later by as much */
    CORE_RESTORE,  /* before the first session: the checkpoints that the former process left; see core_restored */
    CORE_REACHED,  /* Redis can be reached (again) there: releases and verifications that were put off are sent now, and
                      renewals that are due soon */
    CORE_TIME,     /* nothing but the time */
    CORE_DRAIN,    /* no new grants from now on; waiters are sent away */
};

/* A request about a lock. `id` is the session's own number for it, echoed in the reply. */
struct core_request {
    uint64_t session, id;
    struct slice name;     /* 1..limit bytes, checked by the caller */
    struct slice owner;    /* n == 0: the session is the owner */
    struct core_spec spec; /* LOCK and BREAK */
    int64_t wait_us;       /* LOCK: 0 = NOWAIT, CORE_FOREVER = without an end */
    int64_t lease_us;      /* LOCK: 0 = renewed by the watchdog; RENEW: the new lease */
    int64_t owner_grace_us; /* LOCK: the owner keeps what it has at least so long without a session */
    uint64_t token;        /* UNLOCK, RENEW: 0 = none given */
    bool once;             /* LOCK: adds no hold if its owner holds the lock, no wait if it waits already */
    bool fresh;            /* LOCK: not granted to an owner that holds the lock already, whatever its kind; a loss that
                              was not reported yet is cleared, and is not the answer */
    bool shared;           /* LOCK: together with others that want it shared; UNLOCK: give a shared hold back */
    bool full;             /* FULL: the reply is to have all fields; echoed in core_reply.full */
};

enum core_outcome {
    CORE_OK,
    CORE_TAKEN,   /* held elsewhere: pttl_us */
    CORE_GONE_IN_REDIS, /* EXTEND, RELEASE, ACQUIRE with `reentry`: Redis does not have this claim (any more) */
    CORE_UNKNOWN, /* may have run, may yet run until guard_us */
    CORE_DOWN,    /* has not run and will not; ask again later. (On nodes of a quorum it may have run: the backend
                     releases what an attempt took there; for a RENEW see deadline_max_us) */
    CORE_FOREIGN, /* the key is of another kind */
    CORE_DENIED,  /* Redis's ACL keeps the daemon from the key: has not run and will not */
    CORE_FULL,    /* Redis is out of memory; nothing was written */
    CORE_SHORTFALL, /* acquire: has run, but too few replicas have acknowledged it in time */
    CORE_GRACE,   /* a grace period: nothing was done; pttl_us: until its end */
};

/* A grant that an answer relies on. claim 0 = none. */
struct core_grant {
    uint64_t claim, token;
    int64_t deadline_us;
    bool counted;     /* the answer reports that one hold more was counted ... */
    bool shared;      /* ... a shared one */
};

/*
 * The outcome of one operation; `claim` and `op` are those of the action (`claim` of a BREAK_KEY: the id of the queue).
 */
struct core_done {
    uint64_t claim, op;
    enum core_outcome outcome;
    int64_t sent_us;    /* the clock, read before the first byte of the operation was queued for the socket */
    int64_t deadline_max_us; /* the deadline is at most this, whatever was reported before; 0 = no such bound */
    int64_t guard_us;   /* UNKNOWN ACQUIRE, EXTEND, BREAK_KEY, RELEASE with holds left: from then on it cannot run */
    int64_t pttl_us;    /* TAKEN, FOREIGN: until the expiry, -1 = none; GRACE: until the end of the grace period */
    uint64_t token;     /* ACQUIRE OK, BREAK_KEY OK */
    int64_t expiry_ms;  /* SHORTFALL, and OK of ACQUIRE, EXTEND, RELEASE with holds left: when Redis drops the key, ms
                           of its clock; BREAK_KEY OK: 1 if there was a key, else 0 */
    int64_t remote_subscribers; /* RELEASE OK: subscribers that received the wake-up, this daemon among them */
    int64_t holders;    /* TAKEN, kinds with several holders: their number in Redis; 0 = not reported */
    bool has_ticket;    /* TAKEN, kinds with tickets: this owner has one in Redis now */
    uint32_t replicas, replicas_wanted; /* ACQUIRE OK, SHORTFALL: how many have acknowledged it, of how many */
    bool reserve_denied; /* ACQUIRE OK: no tokens are set aside behind it */
    bool remains;       /* BREAK_KEY OK: some nodes of a quorum may still have the holders' keys */
    bool denied;        /* UNKNOWN: the ACL ended the script at a key that the script derived, and would end it again */
};

/* The answer to a WAITER_POLL. It may never come: nothing waits for it. */
struct core_waiters_polled {
    uint64_t op;                /* of the WAITER_POLL */
    const int64_t *subscribers; /* on the channel of each name, in the order of the poll; this daemon is one of them */
    size_t n;                   /* as many as there were names */
};

struct core_event {
    enum core_event_type type;
    uint16_t domain; /* RECLAIM GRACE_OVER SUSPECT REACHED: its number; with one Redis 0 */
    union {
        struct core_request request; /* LOCK UNLOCK RENEW BREAK CANCEL USE */
        struct {                     /* MLOCK MUNLOCK MRENEW */
            const struct core_request *request; /* of one session, id and owner; each name once */
            size_t n;                /* 1 .. CORE_MULTILOCK_MAX */
        } multilock;
        struct slice received;       /* RECEIVED: the text of a BROADCAST of some daemon */
        uint64_t session;            /* EOF UNREACHABLE SESSION_GONE */
        struct {
            uint64_t session, id;    /* CROWDED: its oldest request without an answer */
        } oldest;
        uint64_t queue;              /* HINT SUBSCRIBED UNSUBSCRIBED: core_op.queue of the WATCH */
        uint64_t epoch;              /* RECLAIM: number of the epoch that begins; rising */
        int64_t back_us;             /* CLOCK_BACK: by so much, relative to the core's clock */
        struct core_grant grant;     /* LOSS_REPORTED UNDELIVERED */
        struct core_done done;       /* DONE */
        struct core_waiters_polled polled; /* WAITERS_POLLED */
        struct core_restored *restore; /* RESTORE */
    };
};

#endif
