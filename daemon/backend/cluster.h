/*
 * cluster.h -- the topology of a Redis Cluster: a shard for each master; the owner of a key's slot has the key.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_H
#define RLOCKD_BACKEND_CLUSTER_H

#include "daemon/backend/backend_ops.h"

extern const struct backend_ops cluster_ops;

#endif
