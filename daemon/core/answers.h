/*
 * answers.h -- replies to clients, and the news of locks for subscribers.
 */
#ifndef RLOCKD_CORE_ANSWERS_H
#define RLOCKD_CORE_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/slice.h"
#include "daemon/core/events.h"

enum core_answer {
    CORE_GRANTED,     /* token, and the fields of core_reply that name GRANTED */
    CORE_NOT_GRANTED, /* not in time */
    CORE_CANCELLED,   /* not granted: a CANCEL came first */
    CORE_LEFT,        /* UNLOCK: holds left; RENEW: ms left; BREAK: 1 if there was anything; CANCEL: waits
                         ended */
    CORE_NOT_HELD,
    CORE_STALE,
    CORE_WAS_LOST,
    CORE_WRONG_KIND,
    CORE_KEY_IN_USE, /* another name, which is in use, has the same key */
    CORE_DEADLOCK,
    CORE_TOO_MANY_WAITERS,
    CORE_TOO_MANY_LOCKS,
    CORE_LOCKS_FULL, /* limits.total_locks, or its user's share of these */
    CORE_TOO_MANY_OWNERS, /* core_conf.session_owners_max, or its user's share of it */
    CORE_TOO_MANY_REQUESTS, /* of one session, unanswered: this one was the oldest, and waited */
    CORE_DRAINING,
    CORE_UNAVAILABLE,
    CORE_REDIS_FULL,
    CORE_NO_REPLICAS,  /* too few replicas had the grant, which was given back: replicas, replicas_wanted */
    CORE_FORBIDDEN,    /* Redis's ACL keeps the daemon from the key */
    CORE_ANSWERS
};

/* One owner of a cycle: holds what the owner before it waits for, and waits for `name`. */
struct core_hop {
    struct slice daemon;     /* uuid; n == 0: this daemon */
    uint64_t owner;          /* id of the owner in its daemon; of a session's own owner, the id of the session, if that
                                is not unreachable */
    struct slice owner_name; /* n == 0: a session's own owner, or not known here */
    struct slice name;
};

struct core_reply {
    uint64_t session, id;
    enum core_answer answer;
    struct slice name;
    struct slice other; /* KEY_IN_USE: the name that has the key */
    uint64_t token;
    uint64_t owner;    /* redis_owner of the claim that the request is about; 0 = none */
    enum kind kind;
    uint32_t holds;
    int64_t left;      /* LEFT: see core_answer */
    int64_t lease_us;  /* GRANTED: until the deadline */
    int64_t waited_us; /* GRANTED */
    struct core_grant grant; /* GRANTED, LEFT: the grant that the answer relies on; each part has its own */
    bool left_is_ms;   /* LEFT: of a RENEW */
    uint32_t replicas; /* GRANTED, NO_REPLICAS: so many have acknowledged the grant ... */
    uint32_t replicas_wanted; /* ... of so many that the rule asks for; 0 = it asks for none */
    bool full;         /* core_request.full */
    /*
     * MLOCK GRANTED, MUNLOCK, MRENEW: one for each name, in the order they were asked for. MUNLOCK and MRENEW always
     * answer LEFT, and each part has its own answer. Another answer to MLOCK is that of the name it failed for.
     */
    const struct core_reply *part;
    size_t parts;
    const struct core_hop *hop;    /* DEADLOCK: the cycle, beginning with the owner of the request */
    size_t hops;
};

enum core_news {
    CORE_NEWS_GRANTED,
    CORE_NEWS_RELEASED,
    CORE_NEWS_LOST,
    CORE_NEWS_WANTED,
    CORE_NEWS_JEOPARDY, /* two thirds of the lease have passed without a confirmed renewal */
};

/* For lock:<name> and session:<id> subscribers, and for the log. */
struct core_publish {
    enum core_news news;
    struct slice name;
    uint64_t token;
    uint64_t owner;          /* redis_owner; WANTED: of the holder */
    struct slice owner_name; /* n == 0 for a session's own owner */
    uint64_t session;        /* that was granted the lock last */
    struct core_grant grant; /* GRANTED, WANTED, JEOPARDY: the event reports that it is held */
    const char *reason;      /* LOST, JEOPARDY: static text */
};

#define CORE_LEASE_OVER "lease over" /* the reason where the client had set the lease itself (LEASE, PX) */

#endif
