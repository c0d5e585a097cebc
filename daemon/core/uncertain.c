/*
 * uncertain.c -- what went unanswered and may still run in Redis, and until when.
 */
#include "daemon/core/uncertain.h"

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/*
 * What sets that lease runs by from_us: so long at least, by clocks that differ a little, Redis may have the claim.
 * Never less than before.
 */
void
claim_lasts(struct claim *cl, int64_t from_us, int64_t lease_us)
{
    int64_t until_us = after_us(from_us, lease_us + lease_us / 50 + 10 * US_PER_MS);

    cl->unsure.redis_until_us = later(cl->unsure.redis_until_us, until_us);
}

/*
 * So long it may run. There is one time for all, the last one: what is reckoned with for too long makes others wait, or
 * needs one more RELEASE, and that is all. What can run no more is forgotten; but not a RENEW while a renewal is not
 * answered that it may have overtaken, see extended().
 */
void
claim_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t until_us)
{
    if (stragglers_end_us(c, cl) <= c->now_us) {
        cl->unsure.stragglers &= cl->renewal == RENEWAL_SENT ? STRAGGLER_RENEW : 0;
    }
    cl->unsure.stragglers |= what & STRAGGLER_ANY;
    cl->unsure.until_us = later(cl->unsure.until_us, until_us - c->set_back_us);
}

/*
 * A guard is a time by Redis's clock: when that is set back, what is under way, or was given up, may run as much later.
 * Each answer tells of Redis's clock, and this is heard before what the answer says. So an attempt is done with only
 * when Redis has answered something that was sent past its guard. What is set back behind that answer is not seen.
 */
void
guards_move(struct core *c, int64_t back_us)
{
    c->set_back_us += earlier(later(back_us, 0), SET_BACK_MAX_US);
}
