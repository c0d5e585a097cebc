/*
 * unreachable.h -- which requests of a client still run when it receives no replies any more.
 *
 * The session's own locks are released in any case: requests for its own owner, or that only read, change nothing.
 * Requests for a named owner or by TOKEN run, all of them: an UNLOCK without the LOCK before it would release another
 * hold of that owner.
 */
#ifndef RLOCKD_SERVE_UNREACHABLE_H
#define RLOCKD_SERVE_UNREACHABLE_H

#include <stdbool.h>

#include "proto/reader.h"

/* True: the request would change nothing now that its session receives no replies. */
bool unreachable_changes_nothing(const struct words *w);

#endif
