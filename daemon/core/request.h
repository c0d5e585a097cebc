/*
 * request.h -- one LOCK, UNLOCK, RENEW or BREAK that is not answered yet; private to daemon/core.
 */
#ifndef RLOCKD_CORE_REQUEST_H
#define RLOCKD_CORE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/core/core.h"
#include "daemon/core/times.h"

struct claim;
struct core_session;
struct lock;
struct multilock;
struct owner;

struct request {
    uint64_t id;
    enum core_event_type verb;
    struct core_session *session;
    struct owner *owner;
    struct claim *claim;    /* the claim it is about; counted in claim.refs. NULL: BREAK */
    struct lock *lock;      /* BREAK */
    struct list session_node; /* core_session.requests */
    struct list fifo_node;  /* owner.fifo; unlinked = runs out of order (TOKEN without OWNER, a second ONCE) */
    struct list claim_node; /* claim.requests, queue.breaks or core.to_rerun */
    struct list timing_out_node; /* queue.timing_out */
    struct list search_node; /* search.waits, search.roots */
    struct list old_wait_node; /* search.old_waits */
    struct timer timer;
    bool started;           /* request_run() has been called for it */
    bool waiting;           /* LOCK, not granted: counted in waiting_n of queue and core */
    bool blocking;          /* ... and no NOWAIT: in blocking_n of queue, session, user and core */
    bool once, full, fresh, shared, timing_out;
    uint32_t outcome_n;     /* queue.settle.outcome_n when it joined queue.timing_out */
    bool silent;            /* has no reply */
    bool other_holds;       /* the owner has received answers about other holds of the claim. Set for silent requests,
                               and for those of an MLOCK, which may become silent */
    bool cancelled;         /* by CANCEL: its position is not kept */
    bool crowded;           /* refused because of the requests behind it: TOO_MANY_REQUESTS in place of "not granted" */
    bool unanswered;        /* UNLOCK of some of the holds, which went unanswered: see STRAGGLER_RELEASE */
    uint64_t token;
    uint64_t serial;        /* given when it begins; names the wait to other daemons. Also the position of a claim that
                               is queued for it, unless the kind has tickets */
    uint64_t cycle;         /* hash of the cycle that was found; a cycle is believed when it is found twice */
    uint64_t trail_search;  /* number of the last search over several daemons that began here */
    struct map_node by_wait; /* core.trail_waits; its number is the serial */
    bool in_trail;          /* by_wait is in core.trail_waits: a trail names this wait */
    int64_t arrived_us, due_us, lease_us, spec_lease_us;
    int64_t next_trail_us;  /* next search for a deadlock over several daemons */
    struct multilock *multilock; /* one of several with one answer; NULL = by itself */
    uint32_t part;          /* its index there */
    int64_t lease_before_us; /* granted in a multilock for a claim that had a LEASE: that lease; the watchdog renews the
                               claim instead. 0 = it had none */
    bool renewed_until_complete; /* granted in a multilock with a LEASE: renewed until all of it is */
    bool last_exclusive;    /* UNLOCK: gives back the last exclusive hold, which claim.holds does not count any more */
    bool uncounted;         /* granted for a hold that was there already: there is nothing to give back */
};

#endif
