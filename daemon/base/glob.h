/*
 * glob.h -- name patterns: `*` any run (also of '/'), `?` one byte, `[a-z]` `[^a]` a set, `\` takes the
 * next byte as it is. Bytes, not text. No recursion, no step back: each element of the pattern is looked at once and
 * costs name / 64 steps, a set at most one for each byte of the name. So with patterns and names of 512 bytes the
 * slowest pair takes a few microseconds, or some tens if the pattern is all sets.
 */
#ifndef RLOCKD_BASE_GLOB_H
#define RLOCKD_BASE_GLOB_H

#include <stdbool.h>

#include "daemon/base/slice.h"

#define GLOB_NAME_MAX 4415 /* bytes: the longest name (limits.name_bytes, 4 KiB at most), as a channel, and some */

/* The name has GLOB_NAME_MAX bytes at most. */
bool glob_match(struct slice pattern, struct slice name);

#endif
