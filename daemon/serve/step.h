/*
 * step.h -- one step of the core, at the time it is now; and the settings of a name by the rules.
 */
#ifndef RLOCKD_SERVE_STEP_H
#define RLOCKD_SERVE_STEP_H

#include <stddef.h>

#include "daemon/base/slice.h"
#include "daemon/core/core.h"

struct engine;

/* One event into the core. */
void engine_step(struct engine *e, const struct core_event *ev);

/*
 * Fills the spec of a name from the rules; its key is in engine.key until the next of these calls.
 */
void engine_spec(struct engine *e, struct slice name, struct core_spec *spec);

/* The same for the names of all these requests at once. */
void engine_specs(struct engine *e, struct core_request *rq, size_t n);

#endif
