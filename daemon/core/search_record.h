/*
 * search_record.h -- the search for deadlocks that deadlock.c has put off; private to daemon/core.
 */
#ifndef RLOCKD_CORE_SEARCH_RECORD_H
#define RLOCKD_CORE_SEARCH_RECORD_H

#include <stdint.h>

#include "daemon/base/list.h"

/* Its graph is core.graph[GRAPH_JOB]. */
struct search {
    struct list waits; /* request.search_node: for the next search, in order of arrival */
    struct list roots; /* ... and those of the present search that are not in the graph yet */
    struct list asks;  /* request.ask_node: waits that have become old */
    enum { SEARCH_NONE, SEARCH_GROW, SEARCH_VERIFY, SEARCH_FIND } phase;
    int64_t began_us, rest_until_us;
};

#endif
