/*
 * graph.h -- the wait-for graph of this daemon at one time: owners, the locks that they wait for, and the holders;
 * private to daemon/core.
 *
 * An owner waits for one lock at a time, and a lock is held by owners: two sorts of nodes, so there are no more edges
 * than waits and holds, however many wait for how many. Building it, the fixpoint and the search for cycles take time
 * linear in what they visit, and can pause between any two steps of the core.
 *
 * A waiter waits until every holder of the lock has left, or, with permits (`any`), until one has. An owner is stuck
 * when its wait cannot end before a stuck owner leaves a lock; the greatest set of such owners is meant.
 */
#ifndef RLOCKD_CORE_GRAPH_H
#define RLOCKD_CORE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * G1  A record of the core that is in a graph carries its mark; the graph forgets it when it is freed.
 * G2  Of the holds of a lock, stuck_n count: those of owners that are stuck and, as far as is known, still hold it.
 * G3  A waiter for a lock that is `open` is not stuck. A lock is open when none of its holds counts; with `any`, when
 *     one of them does not.
 * G4  The path is made of owners that are stuck: each waits for a lock that the next one holds.
 */

struct core;
struct owner;
struct queue;
struct request;

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
    uint32_t lock;       /* the lock that the owner waits for; GRAPH_NONE: none, or one that is not held here */
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

void graph_begin(struct core *c, struct graph *g, enum graph_which which); /* an empty one */
void graph_clear(struct graph *g);                                         /* gives its memory back */
void graph_owner_freed(struct core *c, const struct owner *o);
void graph_queue_freed(struct core *c, const struct queue *q);

/* Adds the owner, and the wait of that request (NULL: the owner waits for nothing). */
uint32_t graph_add(struct graph *g, struct owner *o, const struct request *wait);

/*
 * Adds the owners that are reached, and finds the stuck ones. True: the steps have run out. False: it is complete.
 */
bool graph_grow(struct core *c, struct graph *g);

/* Compares the graph with the present records; an owner that has changed is not stuck. True, false: as above. */
void graph_verify_begin(struct graph *g);
bool graph_verify(struct core *c, struct graph *g);

/* Whether this wait, and this hold, are still there. */
bool graph_waits(const struct graph *g, uint32_t owner);
bool graph_holds(const struct core *c, const struct graph *g, uint32_t hold);

/* Notes that the owner is not stuck any more; that the hold has gone. The consequences follow in the next steps. */
void graph_unstick(struct graph *g, uint32_t owner);
void graph_drop_hold(struct graph *g, uint32_t hold);

enum graph_found { GRAPH_MORE, GRAPH_CYCLE, GRAPH_END };

/* Goes on towards a cycle of owners that are stuck. CYCLE: it is the path from *first on. END: no owner is stuck. */
enum graph_found graph_find(struct graph *g, size_t *first);

/* Cuts the path behind this index. */
void graph_cut(struct graph *g, size_t at);

/* Of the stuck owners the one that began to wait last. GRAPH_NONE: none is stuck; or there is work left, or a path. */
uint32_t graph_latest(struct graph *g);

/*
 * Whether a cycle goes through this owner; then the cycle is the path, and the owner its first. There must be no path
 * before.
 */
bool graph_through(struct graph *g, uint32_t owner);

#endif
