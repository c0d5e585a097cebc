/*
 * uncertain.c -- commands that went unanswered and may still run in Redis, and until when.
 */
#include "daemon/core/uncertain.h"

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain_notes.h"

_Static_assert(VERIFY_AGAIN < 1u << VERIFY_BITS, "uncertain.verify has a bit for each VERIFY_*");

/* Raises expiry_max_us: the command that sets this lease runs at from_us at the latest. */
void
uncertain_raise_expiry_max(struct claim *cl, int64_t from_us, int64_t lease_us)
{
    int64_t expiry_max_us = after_us(from_us, uncertain_with_margin_us(lease_us));

    cl->uncertain.expiry_max_us = later(cl->uncertain.expiry_max_us, expiry_max_us);
}

/*
 * Notes that an operation may run until guard_us. All stragglers of a claim have one end, the latest: a straggler that
 * counts for too long only makes others wait, or costs one more RELEASE. Stragglers whose time is over are cleared,
 * except a RENEW while a renewal that it may have overtaken is unanswered: see uncertain_capped_lease_us().
 */
void
uncertain_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t guard_us)
{
    if (uncertain_stragglers_end_us(c, cl) <= c->now_us) {
        cl->uncertain.stragglers &= cl->renewal_sent ? STRAGGLER_RENEW : 0;
    }
    cl->uncertain.stragglers |= what & STRAGGLER_ANY;
    cl->uncertain.guard_us = later(cl->uncertain.guard_us, guard_us - c->set_back_us);
}

/* A RENEW to this lease may run until guard_us. Of several the shortest lease counts. */
void
uncertain_add_renew(const struct core *c, struct claim *cl, int64_t lease_us, int64_t guard_us)
{
    bool shorter = uncertain_has_stragglers(c, cl, STRAGGLER_RENEW) && cl->uncertain.shrink_lease_us < lease_us;

    cl->uncertain.shrink_lease_us = shorter ? cl->uncertain.shrink_lease_us : lease_us;
    uncertain_add_straggler(c, cl, STRAGGLER_RENEW, guard_us);
}

/*
 * The lease that Redis keeps to, when a command of sent_us has asked for lease_us: while an unanswered RENEW to a
 * shorter lease may still run, that one.
 */
int64_t
uncertain_capped_lease_us(const struct core *c, const struct claim *cl, int64_t sent_us, int64_t lease_us)
{
    bool capped = (cl->uncertain.stragglers & STRAGGLER_RENEW) && sent_us < uncertain_stragglers_end_us(c, cl) &&
                  cl->uncertain.shrink_lease_us < lease_us;

    return capped ? cl->uncertain.shrink_lease_us : lease_us;
}

/*
 * From then on Redis cannot have a hold of the claim, whatever has run; it may have its ticket. A straggling attempt
 * may run later than its guard: Redis's clock may have been set back.
 */
int64_t
uncertain_gone_from_us(const struct core *c, const struct claim *cl)
{
    int64_t late_us = cl->uncertain.stragglers & STRAGGLER_ACQUIRE
                          ? after_us(uncertain_stragglers_end_us(c, cl), SET_BACK_MAX_US)
                          : 0;

    return later(cl->uncertain.expiry_max_us, late_us);
}

/*
 * An answer to a command that was sent before the stragglers' end does not rule them out: an attempt may have run
 * after that command, so the stragglers last until now at least. A command sent later has seen the effect of all.
 */
void
uncertain_answered(const struct core *c, struct claim *cl, const struct core_done *d)
{
    bool answered = d->outcome != CORE_UNKNOWN && d->outcome != CORE_DOWN && d->outcome != CORE_DENIED;
    bool only_one_in_flight = cl->op == 0 || !cl->renewal_sent; /* else the other outcome still needs them */

    if (cl->uncertain.stragglers != 0 && answered && only_one_in_flight &&
        d->sent_us >= uncertain_stragglers_end_us(c, cl)) {
        cl->uncertain.stragglers = 0;
    } else if ((cl->uncertain.stragglers & STRAGGLER_ACQUIRE) && d->sent_us < uncertain_stragglers_end_us(c, cl)) {
        cl->uncertain.guard_us = later(cl->uncertain.guard_us, after_us(c->now_us, 1) - c->set_back_us);
    }
}

/*
 * The hold ends: what takes something from it, and is in flight (taking) or a straggler, must not meet the next hold.
 */
void
uncertain_hold_ends(const struct core *c, struct claim *cl, bool taking)
{
    if (taking || uncertain_has_stragglers(c, cl, STRAGGLER_RELEASE)) {
        uncertain_add_taking(cl);
    }
    cl->uncertain.stragglers &= ~(unsigned)STRAGGLER_RELEASE;
}

/* HELD: what Redis has to confirm from now on. */
void
uncertain_set_verify(struct core *c, struct claim *cl, unsigned verify)
{
    struct domain *d = lock_domain(c, cl->lock);

    d->unverified_n -= (cl->uncertain.verify & VERIFY_LOST) != 0;
    d->unverified_n += (verify & VERIFY_LOST) != 0;
    if (d->unverified_n == 0) {
        dirty_mark_domain(c, d);
    }
    cl->uncertain.verify = verify & ((1u << VERIFY_BITS) - 1);
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
