/*
 * quorum.h -- the topology of N independent masters, a majority of which has to agree; for backend.c's table.
 */
#ifndef RLOCKD_BACKEND_QUORUM_H
#define RLOCKD_BACKEND_QUORUM_H

#include "daemon/backend/backend_ops.h"

extern const struct backend_ops quorum_ops;

#endif
