/*
 * sentinel.h -- the topology of a master that sentinels name, for backend.c's table.
 */
#ifndef RLOCKD_BACKEND_SENTINEL_H
#define RLOCKD_BACKEND_SENTINEL_H

#include "daemon/backend/backend_ops.h"

extern const struct backend_ops sentinel_ops;

#endif
