/*
 * glob.h -- name patterns: `*` any run (also of '/'), `?` one byte, `[a-z]` `[^a]` a set, `\` takes the
 * next byte as it is. Bytes, not text. Linear in pattern x name, no recursion, so a hostile pattern
 * cannot stall the loop.
 */
#ifndef RLOCKD_BASE_GLOB_H
#define RLOCKD_BASE_GLOB_H

#include <stdbool.h>

#include "daemon/base/slice.h"

bool glob_match(struct slice pattern, struct slice name);

#endif
