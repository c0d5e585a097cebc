/*
 * actions.h -- the actions of the core: operations in Redis, replies, news for subscribers, records to keep.
 */
#ifndef RLOCKD_CORE_ACTIONS_H
#define RLOCKD_CORE_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/slice.h"
#include "daemon/core/answers.h"
#include "daemon/core/record.h"

enum core_action_type {
    CORE_ACQUIRE, /* operations: end in exactly one DONE with this op */
    CORE_EXTEND,
    CORE_RELEASE,
    CORE_BREAK_KEY,
    CORE_WATCH, /* no DONE: SUBSCRIBED when it is confirmed, UNSUBSCRIBED when it is not any more, and HINTs, until
                   UNWATCH */
    CORE_UNWATCH,
    CORE_WAITER_POLL, /* how many listen on the channels of these? No DONE: WAITERS_POLLED when it is known */
    CORE_REPLY,
    CORE_PUBLISH,
    CORE_KEEP, /* remember this of a claim, in place of what was known: before an acquire leaves, and when it changes */
    CORE_FORGET,    /* Redis has nothing of this claim any more, and nobody will come for it */
    CORE_KEEP_OWNER, /* remember this of a named owner: no session uses it any more, and it has claims */
    CORE_FORGET_OWNER, /* a session uses it again, or it has ended */
    CORE_BROADCAST, /* to all daemons on this Redis, this one too; each gets it as RECEIVED. May get lost */
    CORE_RECLAIMED, /* what is held in the domain is in this epoch, or is lost: this daemon needs no grace there */
};

/* A verb for the backend. */
struct core_op {
    uint64_t op;        /* serial of this operation */
    uint64_t lock;      /* id of the name's queue here: for HINT and the like. 0: it has no queue */
    uint64_t claim;     /* id of the owner's claim on it; in DONE */
    struct slice key;   /* in Redis */
    enum kind kind;
    enum value_format value;
    uint64_t owner;     /* decimal number behind the daemon's uuid */
    uint32_t holds;     /* count to be set: ACQUIRE 1.., RELEASE what is left of that sort. RELEASE of 0 that is not
                           `shared`, with `rest` 0: everything this owner has of it, its ticket too */
    uint32_t rest;      /* RELEASE: holds of the other sort, which stay */
    bool reentry;       /* ACQUIRE: only if this owner has it */
    bool reclaim;       /* ACQUIRE: held, and perhaps lost by Redis; may be done in a grace, which keeps others out */
    bool shared;        /* ACQUIRE, RELEASE with holds left: of the shared holds, not the exclusive ones */
    bool ticket;        /* ACQUIRE: take a ticket if the lock is taken (an owner that has one does not ask);
                          EXTEND: of the ticket, not of a hold */
    bool tracking;      /* WATCH: by client-side caching too */
    enum wakes wakes;   /* RELEASE, BREAK_KEY: waiters of another library that are woken as well */
    uint32_t limit;     /* ACQUIRE: permits in all */
    bool declared; /* ACQUIRE, BREAK_KEY: by the rules a key there is a lock of this kind, of any library; BREAK_KEY:
                           or it is held here */
    bool exact;         /* EXTEND: may also shorten. Every other operation on a key that is ours only lengthens its
                           expiry, so that one that runs late takes nothing away; a shortening one is guarded */
    int64_t lease_us;   /* ACQUIRE, EXTEND, RELEASE with holds left */
    uint64_t token_floor; /* every token given here so far is at most this */
    uint32_t replicas;  /* ACQUIRE: so many must acknowledge it before it is OK; 0 = none is asked */
    uint32_t reserve;   /* ACQUIRE: so many tokens behind the one it brings are for hand-offs of this name here */
    int64_t expiry_ms;  /* last stamp of this claim, 0 = none */
};

struct core_waiter_poll_name {
    struct slice key; /* in Redis */
    enum kind kind;
};

struct core_waiter_poll {
    uint64_t op; /* serial of this one; one at a time is asked for */
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
        struct core_record keep;             /* KEEP */
        struct core_owner_record keep_owner; /* KEEP_OWNER */
        uint64_t forget;                     /* FORGET: id of the claim; FORGET_OWNER: of the record */
        uint64_t epoch;                      /* RECLAIMED */
    };
};

#endif
