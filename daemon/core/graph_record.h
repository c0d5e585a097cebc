/*
 * graph_record.h -- the nodes and edges of a wait-for graph (graph.h); private to daemon/core.
 */
#ifndef RLOCKD_CORE_GRAPH_RECORD_H
#define RLOCKD_CORE_GRAPH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct owner;
struct queue;

#define GRAPH_NONE UINT32_MAX

enum graph_which {
    GRAPH_EVENT, /* within one event */
    GRAPH_JOB,   /* over several steps */
    GRAPHS
};

/* The index of a record in a graph, if `serial` is that graph's. */
struct graph_mark {
    uint64_t serial;
    uint32_t index;
};

struct graph_owner {
    struct owner *owner; /* NULL: it was freed since */
    uint64_t wait;       /* request.serial */
    uint32_t lock;       /* the lock whose holders here the owner waits for; GRAPH_NONE: none */
    uint32_t next;       /* another waiter for the same lock */
    uint32_t hold;       /* the first of its holds, see graph_hold.next */
    uint32_t path_at;    /* its index on the path; GRAPH_NONE: it is not on the path */
    uint32_t reached_from, reached_by; /* graph_through(): the owner that it was reached from, by which hold */
    bool stuck;
};

struct graph_lock {
    struct queue *queue; /* NULL: it was freed since */
    uint32_t waiter;     /* the first of its waiters, see graph_owner.next */
    uint32_t hold, holds_n; /* its holds: the first in graph.hold, and how many */
    uint32_t stuck_n;
    uint32_t first_counting; /* graph_find(): no hold before this index counts; an index among the holds of the lock */
    uint64_t next_claim; /* the first holder that is not in the graph yet, if the steps ran out among the holders; 0 =
                            none */
    bool any, open;
    bool complete;       /* all its holders are in the graph */
};

struct graph_hold {
    uint64_t claim, token; /* identify the hold */
    uint32_t owner, lock;
    uint32_t next;         /* of the same owner */
    bool counts;
};

struct graph {
    enum graph_which which;
    uint64_t serial;
    struct graph_owner *owner; /* owned, as are the others */
    struct graph_lock *lock;
    struct graph_hold *hold;
    uint32_t *unstuck;           /* owners that are not stuck any more; settle() drops their holds */
    uint32_t *path, *path_hold; /* owners, each with the hold by which the path leads on from there */
    size_t owners_n, owners_room, locks_n, locks_room, holds_n, holds_room;
    size_t expanded_n;         /* locks whose holders are in it */
    size_t stuck_n;            /* owners */
    size_t unstuck_n, path_n;
    size_t find_at, verified_n;
    uint64_t steps, steps_end; /* records looked at since graph_begin(); and at how many this event stops */
};

#endif
