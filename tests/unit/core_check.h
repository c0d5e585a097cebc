/*
 * core_check.h -- the invariants of daemon/core/core.c, for the unit tests, the fuzz targets and the simulator.
 */
#ifndef RLOCKD_TESTS_CORE_CHECK_H
#define RLOCKD_TESTS_CORE_CHECK_H

#include "daemon/core/core.h"

/* Asserts those of them that the records show between two steps. Slow. */
void core_check(const struct core *c, int64_t now_us);

#endif
