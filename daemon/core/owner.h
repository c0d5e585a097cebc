/*
 * owner.h -- the records of users, sessions and owners; private to daemon/core.
 *
 * user     the limits that sessions share
 * session  one connection of a client
 * owner    holds locks: a session itself, or an OWNER id that any session may act for
 */
#ifndef RLOCKD_CORE_OWNER_H
#define RLOCKD_CORE_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"
#include "daemon/core/graph_record.h"
#include "daemon/core/job.h"

/* The user that sessions belong to, see users.c. */
struct user {
    struct map_node by_key; /* core.users */
    uint64_t refs;        /* sessions and owners */
    uint32_t sessions_n;
    uint32_t blocking_n;  /* requests of its sessions that are `blocking` */
    uint64_t claims_n;    /* of its owners */
    uint64_t session_owners_n; /* of its sessions */
};

struct core_session {
    uint64_t id;
    struct user *user;     /* NULL: none */
    struct owner *owner;   /* its own owner; NULL once the session has gone; exchanged by owner_release_early() */
    struct list requests;  /* request.session_node, in order of arrival */
    struct list session_owners; /* session_owner.session_node */
    uint64_t session_owners_n;  /* on that list */
    struct job job;        /* pending: the session has gone, and some session_owners are left */
    uint32_t blocking_n;   /* requests that are `blocking` */
    struct map_node by_id; /* core.sessions, until it has gone */
};

/*
 * A named owner that a session has used. A named owner lives while it has requests or claims; the record goes with the
 * owner or with the session. There are core_conf.session_owners_max at most, see session_owner_add(). Each takes 64
 * bytes, and 8 to 16 in the table.
 */
struct session_owner {
    struct map_node by_pair; /* core.session_owners; its number is a keyed hash of both ids */
    struct core_session *session;
    struct owner *owner;
    struct list session_node, owner_node;
};

struct owner {
    uint64_t id;          /* never changes */
    uint64_t redis_owner; /* of its claims, see claim.redis_owner */
    char *name;           /* owned, NUL not counted; NULL: a session's own owner */
    size_t name_n;
    uint64_t session;     /* id of the session that acted for it last */
    struct user *user;    /* of the session that used it first; NULL: none */
    struct list fifo;     /* request.fifo_node: requests begin in this order, see order.c */
    struct list claims;   /* claim.owner_node */
    struct list unreleased; /* ending: by claim.owner_node, its claims that its job still has to give back */
    struct job job;       /* ... as long as there are some */
    uint32_t owner_grace_us; /* the longest of its claims' locks, and of its LOCKs, since it last had no claim */
    uint32_t claims_n;    /* on both lists */
    struct list lost;     /* claim.lost_node: LOST, with a lease that a request had set; the oldest first */
    struct list losses_node; /* core.owners_with_losses: there are some */
    uint32_t lost_n;
    uint32_t non_locks_n; /* requests on fifo that are no LOCKs */
    uint32_t cached_n;    /* claims of it that are CACHED: given back, so they count for the owner no more */
    struct list session_owners; /* session_owner.owner_node; named owners only */
    struct list dirty_node; /* in core.dirty_owners */
    struct timer timer;   /* named, no session left: the end of its grace */
    int64_t owner_grace_until_us; /* ... that STORE_OWNER has stored; 0 = none */
    bool unreachable;     /* the own owner of an unreachable session: releases all once its requests end */
    bool ending;          /* releases what it has, takes no request any more */
    struct graph_mark mark[GRAPHS];
    struct map_node by_name; /* core.owners, a keyed hash; named owners that are not ending */
};

#endif
