/*
 * standalone.h -- the topology of one shard, for backend.c's table.
 */
#ifndef RLOCKD_BACKEND_STANDALONE_H
#define RLOCKD_BACKEND_STANDALONE_H

#include "daemon/backend/backend_ops.h"

extern const struct backend_ops standalone_ops;

#endif
