/*
 * single.h -- the topology of one node, for backend.c's table; and what every topology begins with.
 */
#ifndef RLOCKD_BACKEND_SINGLE_H
#define RLOCKD_BACKEND_SINGLE_H

#include "daemon/backend/backend.h"

struct backend {
    const struct backend_ops *ops;
};

extern const struct backend_ops single_ops;

#endif
