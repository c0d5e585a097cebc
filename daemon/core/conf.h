/*
 * conf.h -- the settings of the core, and of a name by the rules.
 */
#ifndef RLOCKD_CORE_CONF_H
#define RLOCKD_CORE_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/slice.h"

struct core_conf {
    int64_t op_timeout_us;   /* a Redis operation unanswered that long is UNKNOWN (redis.timeout) */
    int64_t max_poll_us;     /* a waiter asks Redis at least that often, whatever the PTTL is */
    int64_t deadlock_us;     /* a wait older than that asks other daemons about deadlocks; 0 = never */
    char daemon[40];         /* this daemon's uuid, as other daemons know it */
    int64_t handoff_time_us; /* the longest cohort while there are remote waiters: in time ... */
    uint32_t handoff_max;    /* ... and in grants */
    uint32_t waiters_max;    /* LOCKs that want to wait, in all */
    uint32_t session_waiters_max; /* ... of one session; 0 = as many as in all */
    uint32_t locks_max;      /* locks held or wanted by one owner */
    uint64_t total_locks_max; /* ... by all; 0 = no bound */
    uint64_t session_owners_max; /* named owners that sessions use, each counted for each session; 0 = no bound */
    uint32_t user_percent;   /* of waiters_max, total_locks_max and session_owners_max; see core_share_has_room() */
    uint32_t window;         /* operations of one sort in flight, see window.c; 0 = as many as Redis answers in time */
    uint32_t slice;          /* in one turn, each at most: records that jobs look at, timers that fire, claims that get
                                their turn in a window; 0 = no bound */
    uint32_t search_steps;   /* records that a search for deadlocks looks at in one step, for tests; 0 = the bounds of
                                deadlock.c */
    uint32_t domains;        /* sets of data in Redis of which each may be lost by itself; 0 = one. Never changes */
    bool one_link;           /* Redis runs all operations except renewals in the order in which the core sent them: SC3
                                of shard_calls.c, SR1 of shard_route.c */
    bool stores_checkpoints; /* there is a state file: STORE and DROP are wanted */
};

#define CORE_REPLICAS_MAX 15 /* more are not counted */

/* The settings of a name, by the rules and the request's own options. */
struct core_spec {
    enum kind kind;
    enum kind rule_kind;  /* the kind by the rules, if the request asks for another one; KINDS: not known */
    enum value_format value;
    uint32_t limit;       /* kinds with permits: so many holders at a time, 1.. */
    uint32_t replicas;    /* so many replicas of Redis must acknowledge a grant, 0 .. CORE_REPLICAS_MAX */
    int64_t linger_us;    /* how long a lock without waiters here stays cached; 0 = not at all */
    bool foreign_wait;    /* a key of another kind is waited for like one that is taken, instead of WRONG_KIND */
    bool tracking;        /* holders elsewhere publish no wake-up when they release the lock: WATCH by client-side
                             caching */
    enum wakes wakes;     /* waiters of another library that a release wakes as well */
    uint16_t domain;      /* number of the domain that the key is in; with one Redis 0 */
    bool declared;        /* the rules name that kind; a kind that only the request names proves nothing about a key */
    uint32_t waiters_max; /* waiters on this name, 0 = no limit but the global one */
    int64_t lease_us;     /* the watchdog's lease */
    int64_t owner_grace_us; /* a named owner without a session keeps the lock so long */
    int64_t queue_grace_us; /* ... and its position in the queue so long */
    struct slice key;     /* the key in Redis */
};

#endif
