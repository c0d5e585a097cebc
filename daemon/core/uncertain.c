/*
 * uncertain.c -- commands that went unanswered and may still run in Redis, and until when.
 */
#include "daemon/core/uncertain.h"

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/* Raises redis_until_us: the command that sets this lease runs at from_us at the latest, and clocks differ a little. */
void
claim_raise_redis_until(struct claim *cl, int64_t from_us, int64_t lease_us)
{
    int64_t until_us = after_us(from_us, lease_us + lease_us / 50 + 10 * US_PER_MS);

    cl->uncertain.redis_until_us = later(cl->uncertain.redis_until_us, until_us);
}

/*
 * Notes that an operation may run until until_us. All stragglers have one end, the latest: to reckon with one for too
 * long makes others wait, or costs one more RELEASE, no more. Stragglers whose time is over are forgotten, except a
 * RENEW, as long as a renewal that it may have overtaken is unanswered: see extended().
 */
void
claim_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t until_us)
{
    if (stragglers_end_us(c, cl) <= c->now_us) {
        cl->uncertain.stragglers &= cl->renewal == RENEWAL_SENT ? STRAGGLER_RENEW : 0;
    }
    cl->uncertain.stragglers |= what & STRAGGLER_ANY;
    cl->uncertain.until_us = later(cl->uncertain.until_us, until_us - c->set_back_us);
}

/*
 * A guard is a time by Redis's clock. When that clock is set back, operations under way, and those that were given up,
 * may run as much later. Each answer tells Redis's clock, and this event comes before the DONE of the answer. So an
 * attempt is over only when Redis has answered a command that was sent past its guard. A clock that is set back after
 * that answer is not noticed.
 */
void
guards_move(struct core *c, int64_t back_us)
{
    c->set_back_us += earlier(later(back_us, 0), SET_BACK_MAX_US);
}
