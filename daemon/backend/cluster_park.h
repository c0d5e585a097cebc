/*
 * cluster_park.h -- where items go: to the master of their slot, or parked until that may be asked.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_PARK_H
#define RLOCKD_BACKEND_CLUSTER_PARK_H

#include "daemon/backend/cluster_private.h"

/* Sends the item to the master of its slot, or parks it until that master may be asked. */
void cluster_dispatch(struct cluster *c, struct item *it);

/* A node has refused to run the item with MOVED, ASK, TRYAGAIN or CLUSTERDOWN. */
void cluster_redirected(struct cluster_master *m, struct item *it, struct slice error);

/* Dispatches the parked items again; those that have waited too long are DOWN. */
void cluster_unpark(struct cluster *c);
void cluster_park_forget(struct cluster *c);

#endif
