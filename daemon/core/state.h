/*
 * state.h -- the record of the core, and how its records belong together; private to daemon/core.
 *
 *   session  --<  session_owner  >--  owner  --<  claim  >--  lock
 *        \______________ request ______/
 *
 * This header and the headers of the core that it includes, except job.h, declare no functions: each function that
 * works on the record is declared by the header of its file or floor.
 */
#ifndef RLOCKD_CORE_STATE_H
#define RLOCKD_CORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/freelist.h"
#include "daemon/base/hash.h"
#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"
#include "daemon/core/actions.h"
#include "daemon/core/bounds.h"
#include "daemon/core/conf.h"
#include "daemon/core/events.h"
#include "daemon/core/graph_record.h"
#include "daemon/core/job.h"
#include "daemon/core/queue.h"
#include "daemon/core/window_record.h"

struct domain;
struct metrics;

/* A message to all daemons: broadcast.c. */
struct broadcast {
    size_t n;
    bool fits;
    char text[BROADCAST_BYTES];
};

/* The search for deadlocks that deadlock.c has put off. Its graph is core.graph[GRAPH_JOB]. */
struct search {
    struct list waits; /* request.search_node: for the next search, in order of arrival */
    struct list roots; /* ... and those of the present search that are not in the graph yet */
    struct list old_waits; /* request.old_wait_node: waits that have become old */
    enum { SEARCH_NONE, SEARCH_GROW, SEARCH_VERIFY, SEARCH_FIND } phase;
    int64_t began_us, rest_until_us;
};

/* The poll for remote waiters of locks that stay here: waiter_polls.c. */
struct waiter_poll {
    struct timer timer; /* the next poll; or the time limit of the one in flight */
    struct list todo;   /* queue.waiter_poll_node: what this pass has still to look at, from the front ... */
    struct list seen;   /* ... and what it has looked at, with which the next pass begins */
    uint64_t op;        /* in flight; 0 = none */
    uint64_t claim[CORE_WAITER_POLL_MAX]; /* ids of claims: the poll asks about their locks */
    size_t n;
    int64_t sent_us;    /* when the last poll was sent */
    uint64_t stays_n;   /* count_stays() of waiter_polls.c when the last poll was sent */
};

/*
 * No lock, claim or owner in use is freed in the middle of a step. A lock or owner that has changed is put on
 * core.dirty_locks or core.dirty_owners; the end of the step looks at each once, does what has become possible, and
 * frees empty records. So such a record outlives the function that was given it. A request is freed where it ends:
 * request_grant(), request_finish(), request_deadlock() and request_drop() free theirs (one granted to an MLOCK stays).
 */
struct core {
    struct core_conf conf;
    struct hash_key key;
    struct metrics *metrics;
    struct core_sink sink;
    int64_t now_us;         /* of this step */
    uint64_t serial;        /* ids of everything */
    uint64_t turn;          /* of the loop, see core_end_turn() */
    int64_t set_back_us;    /* by which Redis's clock was set back: all CLOCK_BACK, each SET_BACK_MAX_US at most */
    uint64_t token_max;     /* highest token ever seen */
    bool stepping, draining;
    struct window window[WINDOWS];
    uint64_t awaiting_window_n; /* claims that wait in a window for their turn */
    struct heap timers;
    struct map sessions;    /* by id */
    struct map users;       /* by key */
    struct map owners;      /* by a keyed hash of the name */
    struct map session_owners;
    struct map trail_waits;
    struct map claims;
    struct map tokens;      /* claim_token_node() */
    struct map permit_sets; /* permit_set.by_pair */
    struct map by_name;     /* locks */
    struct map by_key;      /* locks whose key is not their name: lock_key_node(). The others are found by name */
    struct map queues;      /* of locks that have one */
    struct domain *domain;  /* by number */
    uint32_t domains_n;
    uint64_t *domain_has_locks; /* owned: a bit for each domain */
    struct map bookmarks;   /* bookmark.by_record: of cursors.c */
    struct queue empty_queue; /* of all locks without waiters: never written */
    struct {
        struct lock *first, **end;
    } dirty_locks;          /* lock.dirty_next: first come, first served */
    struct list dirty_owners;
    struct list dirty_domains; /* domain.dirty_node */
    struct list dirty_multilocks; /* multilock.dirty_node */
    struct list to_rerun;   /* request.claim_node: the claim is gone in Redis; run again once it has its new state */
    struct list owners_with_losses; /* owner.losses_node */
    struct list jobs;       /* job.node: what a step has left for the next one, in the order of their turns */
    struct list rounds;     /* round.node */
    struct slice_budget budget; /* of this turn's slice, if that has a bound */
    struct freelist freelist; /* of all records but sessions, users and multilocks */
    struct waiter_poll waiter_poll;
    uint64_t searches;      /* graph.serial */
    struct graph graph[GRAPHS];
    struct search search;
    struct broadcast broadcast; /* the message that is being made */
    uint32_t lost_n;        /* sum of owner.lost_n */
    uint32_t waiting_n;     /* LOCK requests that are not granted */
    uint32_t blocking_n;    /* ... and want to wait */
    uint32_t kept_n;        /* sum of queue.kept_n */
    uint64_t sessions_n, owners_n, held_n, releasing_n, locks_n;
};

#endif
