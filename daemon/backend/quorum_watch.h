/*
 * quorum_watch.h -- events and answers of all nodes, combined: subscriptions, hints, broadcasts, waiter polls,
 * LOCKINFO; for quorum.c, quorum_ops.c and quorum_watch.c.
 */
#ifndef RLOCKD_BACKEND_QUORUM_WATCH_H
#define RLOCKD_BACKEND_QUORUM_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/quorum_ops.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"

struct quorum;
struct quorum_op;

struct quorum_watch {
    struct map_node by_queue;
    struct timer timer;
    uint64_t queue;
    uint32_t subscribed, hinted; /* a bit for each node */
    uint32_t taken; /* nodes whose key was another owner's at the last attempt, and that hint when it is released */
    uint32_t unable; /* nodes that could not vote at the last attempt, and have not hinted or subscribed since */
    int64_t again_us; /* QW4: the last attempt is repeated then */
    bool reported;  /* the core knows that a majority is subscribed */
    struct {
        int64_t hint_us;  /* the last hint; 0 = none */
        int64_t since_us; /* the node is subscribed, or is not, since then */
    } node[];
};

void quorum_watch_op(struct quorum *qu, const struct core_op *op, bool on);
void quorum_core_event(void *ctx, const struct core_event *ev);
void quorum_watch_due(struct quorum *qu, struct quorum_watch *w);
void quorum_watch_refused(struct quorum *qu, const struct quorum_op *o); /* an attempt has failed */
void quorum_watch_granted(struct quorum *qu, const struct quorum_op *o);
void quorum_waiter_poll(struct backend *b, const struct core_waiter_poll *p);
void quorum_inspect(struct backend *b, uint64_t id, struct slice key);
void quorum_inspected(void *ctx, uint64_t id, const struct inspected_key *found);
void quorum_watches_free(struct quorum *qu);

#endif
