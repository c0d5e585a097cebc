/*
 * actions.h -- the actions of the core: operations in Redis, replies, news for subscribers, checkpoints to store.
 */
#ifndef RLOCKD_CORE_ACTIONS_H
#define RLOCKD_CORE_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/slice.h"
#include "daemon/core/answers.h"
#include "daemon/core/checkpoint.h"

enum core_action_type {
    CORE_ACQUIRE, /* operations: each of these ends in exactly one DONE with this op */
    CORE_EXTEND,
    CORE_RELEASE,
    CORE_BREAK_KEY,
    CORE_WATCH, /* no DONE: SUBSCRIBED when it is confirmed, UNSUBSCRIBED when it is not any more, and HINTs, until
                   UNWATCH */
    CORE_UNWATCH,
    CORE_WAITER_POLL, /* how many subscribers have the channels of these locks? No DONE: WAITERS_POLLED answers */
    CORE_REPLY,
    CORE_PUBLISH,
    CORE_STORE, /* store this checkpoint of a claim, in place of the former one: before an acquire leaves, and at each
                  change */
    CORE_DROP,      /* drop the checkpoint: nothing of the claim is to be restored; or a hand-off changes its
                       owner, and a STORE follows */
    CORE_STORE_OWNER, /* store the end of a named owner's grace: it has claims, and no session uses it any more */
    CORE_DROP_OWNER, /* drop that end: a session uses the owner again, or the owner has ended */
    CORE_BROADCAST, /* to all daemons on this Redis, this one too; each gets it as RECEIVED. May get lost */
    CORE_RECLAIMED, /* each hold of the domain is reclaimed in this epoch, or lost: this daemon needs no grace period
                       there */
};

/* A verb for the backend. */
struct core_op {
    uint64_t op;        /* serial of this operation */
    uint64_t queue;     /* id of the queue of the name here, for HINT, SUBSCRIBED, UNSUBSCRIBED. 0: it has none */
    uint64_t claim;     /* id of the claim; of BREAK_KEY, that of the queue. The DONE repeats it */
    struct slice key;   /* in Redis */
    enum kind kind;
    enum value_format value;
    uint64_t owner;     /* claim.redis_owner: the decimal number behind the daemon's uuid */
    uint32_t holds;     /* count to set: ACQUIRE 1.., RELEASE the holds that stay, of one sort: see `shared`. RELEASE
                           of 0, not `shared`, with `other_sort` 0: gives all of this owner back, its ticket too */
    uint32_t other_sort; /* RELEASE: holds of the other sort, which stay */
    bool reentry;       /* ACQUIRE, EXTEND: only if this owner has the key already */
    bool reclaim;       /* ACQUIRE: of a hold that Redis may have lost; allowed in a grace period */
    uint64_t token;     /* ACQUIRE, `reclaim`: the token of the hold */
    bool shared;        /* ACQUIRE, RELEASE with holds left: of the shared holds, not the exclusive ones */
    bool ticket;        /* ACQUIRE: take a ticket if the lock is taken (an owner that has one does not ask);
                          EXTEND: of the ticket, not of a hold */
    bool tracking;      /* WATCH: by client-side caching too */
    enum wakes wakes;   /* RELEASE, BREAK_KEY: waiters of another library that are woken as well */
    uint32_t limit;     /* ACQUIRE: permits in all */
    bool declared; /* ACQUIRE, BREAK_KEY: the rules say that the key is a lock of this kind, whatever library made it.
                      BREAK_KEY: set also if a claim here holds it */
    bool exact;         /* EXTEND: may shorten the expiry, and is guarded. No other operation moves the expiry of
                           a key of this daemon to an earlier time, however late it runs */
    int64_t lease_us;   /* ACQUIRE, EXTEND, RELEASE with holds left */
    uint64_t token_floor; /* every token given here so far is at most this */
    uint32_t replicas;  /* ACQUIRE: so many must acknowledge it before it is OK; 0 = none is asked */
    uint32_t reserve;   /* ACQUIRE: tokens to reserve behind the granted one, for hand-offs here */
    int64_t expiry_ms;  /* the last expiry of the key that Redis reported for this claim; 0 = none */
};

struct core_waiter_poll_name {
    struct slice key; /* in Redis */
    enum kind kind;
};

struct core_waiter_poll {
    uint64_t op; /* serial of this poll; one poll is in flight at a time */
    const struct core_waiter_poll_name *name;
    size_t n;    /* 1 .. CORE_WAITER_POLL_MAX */
};

struct core_action {
    enum core_action_type type;
    uint16_t domain;          /* RECLAIMED: its number */
    union {
        struct core_op op;                   /* ACQUIRE EXTEND RELEASE BREAK_KEY WATCH UNWATCH */
        struct core_waiter_poll waiter_poll; /* WAITER_POLL */
        struct core_reply reply;
        struct core_publish publish;
        struct slice broadcast;              /* BROADCAST */
        struct core_checkpoint store;        /* STORE */
        struct core_owner_checkpoint store_owner; /* STORE_OWNER */
        uint64_t drop;                       /* DROP: id of the claim; DROP_OWNER: of the checkpoint */
        uint64_t epoch;                      /* RECLAIMED */
    };
};

/* Where actions go; must not call back into the core. */
struct core_sink {
    void (*act)(void *ctx, const struct core_action *a);
    void *ctx;
};

#endif
