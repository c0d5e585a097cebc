/*
 * act.h -- the one way by which an action leaves the core; private to daemon/core.
 */
#ifndef RLOCKD_CORE_ACT_H
#define RLOCKD_CORE_ACT_H

#include "daemon/core/actions.h"
#include "daemon/core/state.h"

static inline void
core_act(struct core *c, const struct core_action *a)
{
    if (c->sink.act != NULL) {
        c->sink.act(c->sink.ctx, a);
    }
}

#endif
