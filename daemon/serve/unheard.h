/*
 * unheard.h -- what of a client's requests is still run when it hears no answers any more.
 *
 * What the session has itself is given back by then, so a request for its own owner, or for its eyes, changes nothing.
 * What is for a named owner or by TOKEN is run, all of it: an UNLOCK without the LOCK before it would give back another
 * hold of that owner.
 */
#ifndef RLOCKD_SERVE_UNHEARD_H
#define RLOCKD_SERVE_UNHEARD_H

#include <stdbool.h>

#include "proto/reader.h"

/* True: the request would change nothing, for its session hears no answers. */
bool unheard_is_idle(const struct words *w);

#endif
