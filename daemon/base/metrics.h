/*
 * metrics.h -- the counters of one daemon, handed to every room that counts.
 */
#ifndef RLOCKD_BASE_METRICS_H
#define RLOCKD_BASE_METRICS_H

#include <stdint.h>

struct metrics {
#define METRIC(id, help) uint64_t id;
#include "daemon/base/metrics.def"
#undef METRIC
};

#endif
