/*
 * cluster.h -- the topology of a Redis Cluster: a shard for each master, and each key at the one that owns its slot.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_H
#define RLOCKD_BACKEND_CLUSTER_H

#include "daemon/backend/backend_ops.h"

extern const struct backend_ops cluster_ops;

#endif
