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

#include "daemon/core/graph_record.h"

/*
 * G1  A record of the core that is in a graph carries the graph's mark; when the record is freed, the graph drops it.
 * G2  A hold counts if its owner is stuck and, as far as is known, still has it; graph_lock.stuck_n is the number of
 *     holds of the lock that count.
 * G3  A waiter for a lock that is `open` is not stuck. A lock is open when none of its holds counts; with `any`, when
 *     one of them does not.
 * G4  The path is made of owners that are stuck: each waits for a lock that the next one holds.
 */

struct core;
struct owner;
struct queue;
struct request;

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

/* Note that the owner is not stuck any more, or that the hold has gone; later calls find out what follows. */
void graph_unstick(struct graph *g, uint32_t owner);
void graph_drop_hold(struct graph *g, uint32_t hold);

enum graph_found { GRAPH_MORE, GRAPH_CYCLE, GRAPH_END };

/* Goes on towards a cycle of owners that are stuck. CYCLE: it is the path from *first on. END: no owner is stuck. */
enum graph_found graph_find(struct graph *g, size_t *first);

/* Shortens the path to n owners. */
void graph_cut(struct graph *g, size_t n);

/* Of the stuck owners the one that began to wait last. GRAPH_NONE: none is stuck; or there is work left, or a path. */
uint32_t graph_latest(struct graph *g);

/*
 * Whether a cycle goes through this owner; then the cycle is the path, and the owner its first. There must be no path
 * before.
 */
bool graph_through(struct graph *g, uint32_t owner);

#endif
