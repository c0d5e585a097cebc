/*
 * standalone.h -- the topology of one shard, for backend.c's table; and what every topology begins with.
 */
#ifndef RLOCKD_BACKEND_STANDALONE_H
#define RLOCKD_BACKEND_STANDALONE_H

#include "daemon/backend/backend.h"

struct backend {
    const struct backend_ops *ops;
};

extern const struct backend_ops standalone_ops;

#endif
