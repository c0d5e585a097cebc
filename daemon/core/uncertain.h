/*
 * uncertain.h -- commands that went unanswered, and what the core may report and do about their claim; private to
 * daemon/core. uncertain_notes.h has what is noted of a claim.
 */
#ifndef RLOCKD_CORE_UNCERTAIN_H
#define RLOCKD_CORE_UNCERTAIN_H

#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/state.h"

/* uncertain.c */
void uncertain_raise_expiry_max(struct claim *cl, int64_t from_us, int64_t lease_us);
/* what: STRAGGLER_* */
void uncertain_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t guard_us);
void uncertain_add_renew(const struct core *c, struct claim *cl, int64_t lease_us, int64_t guard_us);
void uncertain_move_guards(struct core *c, int64_t back_us); /* Redis's clock was set back by so much */
void uncertain_answered(const struct core *c, struct claim *cl, const struct core_done *d);
void uncertain_hold_ends(const struct core *c, struct claim *cl, bool taking);
void uncertain_set_verify(struct core *c, struct claim *cl, unsigned verify); /* VERIFY_* */
int64_t uncertain_capped_lease_us(const struct core *c, const struct claim *cl, int64_t sent_us, int64_t lease_us);
int64_t uncertain_gone_from_us(const struct core *c, const struct claim *cl);

/* The end of the stragglers by the core's clock. A guard is by Redis's clock, and moves when that is set back. */
static inline int64_t
uncertain_stragglers_end_us(const struct core *c, const struct claim *cl)
{
    return cl->uncertain.guard_us + c->set_back_us;
}

/* True when one of the stragglers `what` (STRAGGLER_*) may still run. */
static inline bool
uncertain_has_stragglers(const struct core *c, const struct claim *cl, unsigned what)
{
    return (cl->uncertain.stragglers & what) != 0 && c->now_us < uncertain_stragglers_end_us(c, cl);
}

/*
 * No command that this process has sent until now has a later guard: a guard is op_timeout_us after its command, and
 * the rest is for clocks that differ. Commands of former processes may have later ones: see restore.c.
 */
static inline int64_t
uncertain_latest_guard_us(const struct core *c)
{
    return after_us(c->now_us, 2 * c->conf.op_timeout_us);
}

/* The longest time that a lease may last by another clock: clocks differ a little. */
static inline int64_t
uncertain_with_margin_us(int64_t lease_us)
{
    return lease_us + lease_us / 50 + 10 * US_PER_MS;
}

/* Questions about a claim of which an operation may yet run. */
enum uncertain_question {
    MAY_SAY_HELD,    /* to the owner, and serve requests about the claim? */
    MAY_HAND_OVER,   /* to another owner, without an operation in Redis? */
    MAY_ADD_HOLD,    /* that no command on its way takes away again? */
    MAY_ASSUME_GONE, /* when Redis reports that it does not have the claim? */
    MAY_REUSE_REDIS_OWNER, /* for the next hold of the owner? */
};

static inline bool
uncertain_allows(const struct core *c, const struct claim *cl, enum uncertain_question question)
{
    const struct uncertain *u = &cl->uncertain;

    switch (question) {
    case MAY_SAY_HELD:
        return u->verify == 0;
    case MAY_HAND_OVER:
        return u->verify == 0 && !u->release_unresolved && !uncertain_has_stragglers(c, cl, STRAGGLER_ANY);
    case MAY_ADD_HOLD:
        return !uncertain_has_stragglers(c, cl, STRAGGLER_RELEASE);
    case MAY_ASSUME_GONE:
        return !uncertain_has_stragglers(c, cl, STRAGGLER_ACQUIRE);
    case MAY_REUSE_REDIS_OWNER:
        return !u->release_unresolved && !uncertain_has_stragglers(c, cl, STRAGGLER_RENEW);
    }
    return false;
}

#endif
