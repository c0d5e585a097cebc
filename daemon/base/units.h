/*
 * units.h -- durations, sizes and whole numbers as people write them.
 */
#ifndef RLOCKD_BASE_UNITS_H
#define RLOCKD_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

#define DURATION_FOREVER INT64_MAX

/* "1500" (ms), "30us", "250ms", "5s", "2m", "1h" -> us. False for any other text, and for more than 365 days. */
bool duration_parse(struct slice s, int64_t *us);

/* The shortest exact form: "30us", "250ms", "5s", "2m", "1h", "forever". Writes at most 24 bytes with the NUL. */
void duration_print(int64_t us, char out[24]);

/* "4096", "16KiB", "1MiB", "1GiB" -> bytes. */
bool size_parse(struct slice s, int64_t *bytes);
void size_print(int64_t bytes, char out[24]);

/* Decimal digits only, at most INT64_MAX. */
bool number_parse(struct slice s, int64_t *n);

#endif
