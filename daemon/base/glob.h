/*
 * glob.h -- patterns of bytes: `*` matches any run (also of '/'), `?` one byte, `[a-z]` and `[^a]` a byte of a set, and
 * `\` makes the next byte literal.
 *
 * Clients choose pattern and name, so no pair may be slow (fnmatch(3) promises no bound). No recursion, no
 * backtracking: each element of the pattern is read once and costs name / 64 steps; a set costs at most one step for
 * each byte of the name, and one for each byte value in its ranges. So the slowest pair of a pattern and a name of 512
 * bytes takes some microseconds, or about a hundred if the pattern is all sets.
 */
#ifndef RLOCKD_BASE_GLOB_H
#define RLOCKD_BASE_GLOB_H

#include <stdbool.h>

#include "daemon/base/slice.h"

#define GLOB_NAME_MAX 4415 /* bytes: more than the channel of the longest name (limits.name_bytes, 4 KiB at most) */

/* The name has GLOB_NAME_MAX bytes at most. */
bool glob_match(struct slice pattern, struct slice name);

#endif
