/*
 * uncertain.c -- commands that went unanswered and may still run in Redis, and until when.
 */
#include "daemon/core/uncertain.h"

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/* Raises expiry_max_us: the command that sets this lease runs at from_us at the latest, and clocks differ a little. */
void
uncertain_raise_expiry_max(struct claim *cl, int64_t from_us, int64_t lease_us)
{
    int64_t expiry_max_us = after_us(from_us, lease_us + lease_us / 50 + 10 * US_PER_MS);

    cl->uncertain.expiry_max_us = later(cl->uncertain.expiry_max_us, expiry_max_us);
}

/*
 * Notes that an operation may run until guard_us. All stragglers of a claim have one end, the latest: a straggler that
 * counts for too long only makes others wait, or costs one more RELEASE. Stragglers whose time is over are forgotten,
 * except a RENEW while a renewal that it may have overtaken is unanswered: see extended().
 */
void
uncertain_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t guard_us)
{
    if (stragglers_end_us(c, cl) <= c->now_us) {
        cl->uncertain.stragglers &= cl->renewal_sent ? STRAGGLER_RENEW : 0;
    }
    cl->uncertain.stragglers |= what & STRAGGLER_ANY;
    cl->uncertain.guard_us = later(cl->uncertain.guard_us, guard_us - c->set_back_us);
}

/*
 * A guard is a time by Redis's clock. When that clock is set back, operations under way, and those that were given up,
 * may run later by as much. Each answer contains the time by Redis's clock, and CLOCK_BACK comes before the DONE of the
 * answer. So an attempt is over only when Redis has answered a command that was sent after its guard. Nothing notices a
 * clock that is set back after that answer.
 */
void
uncertain_move_guards(struct core *c, int64_t back_us)
{
    c->set_back_us += earlier(later(back_us, 0), SET_BACK_MAX_US);
}
