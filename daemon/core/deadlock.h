/*
 * deadlock.h -- owners that wait for each other, here and over several daemons; private to daemon/core.
 */
#ifndef RLOCKD_CORE_DEADLOCK_H
#define RLOCKD_CORE_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/broadcast.h"
#include "daemon/core/core.h"

struct claim;
struct lock;
struct owner;
struct request;

/* The search that deadlock.c has put off; its graph is core.graph[GRAPH_JOB]. */
struct search {
    struct list waits; /* request.search_node: for the next search, in order of arrival */
    struct list roots; /* ... and those of this one that are not in the graph yet */
    struct list asks;  /* request.ask_node: waits that have become old */
    enum { SEARCH_NONE, SEARCH_GROW, SEARCH_VERIFY, SEARCH_FIND } phase;
    int64_t began_us, rest_until_us;
};

/* deadlock.c */
void deadlock_init(struct search *s);
bool deadlock_begins(struct core *c, struct request *r); /* true: answered, r has gone */
void deadlock_ask(struct core *c, struct request *r);    /* the wait has become old: other daemons are asked, too */
void deadlock_advance(struct core *c);                   /* does a slice of the searches that were put off */

/* trail.c */
void trail_begin(struct core *c, struct request *r); /* asks the other daemons */
void trail_received(struct core *c, enum broadcast_type what, struct slice text);

#endif
