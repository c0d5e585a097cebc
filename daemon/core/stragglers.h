/*
 * stragglers.h -- what went unanswered and may still run in Redis; private to daemon/core.
 */
#ifndef RLOCKD_CORE_STRAGGLERS_H
#define RLOCKD_CORE_STRAGGLERS_H

#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/state.h"

/* stragglers.c */
void claim_lasts(struct claim *cl, int64_t from_us, int64_t lease_us); /* in Redis, perhaps; never less than before */
/* LATE_*, one more */
void claim_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t until_us);
void guards_move(struct core *c, int64_t back_us); /* Redis's clock was set back by so much */

/* By our clock: so long what is `late` may still run. A guard is by Redis's clock, and moves when that is set back. */
static inline int64_t
stragglers_end_us(const struct core *c, const struct claim *cl)
{
    return cl->stragglers_until_us + c->set_back_us;
}

/* One of these, LATE_*, may still run. */
static inline bool
claim_has_stragglers(const struct core *c, const struct claim *cl, unsigned what)
{
    return (cl->stragglers & what) != 0 && c->now_us < stragglers_end_us(c, cl);
}

/* What was sent until now, also by the process before this one, can run until then, by clocks that differ a little. */
static inline int64_t
stragglers_until_us(const struct core *c)
{
    return after_us(c->now_us, 2 * c->conf.op_timeout_us);
}

#endif
