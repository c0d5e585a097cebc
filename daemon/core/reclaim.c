/*
 * reclaim.c -- what is held, when there is doubt that Redis still has it.
 *
 * Redis has lost data (RECLAIM): every claim that is held asks for its holds anew, as they are, with its old token. In
 * the grace that begins then Redis grants nothing else, so nobody can have come between. What somebody else has all the
 * same is lost, and so is what could not be asserted before its deadline. When no doubt is left, RECLAIMED says so.
 *
 * A clock has jumped (SUSPECT): Redis may have dropped keys early. Every claim asks whether it is still there. So do
 * those of a name that was broken at another daemon.
 *
 * While there is doubt about a claim nothing is served for it: whoever asks waits for what Redis says. What was asked
 * for before, and what a bundle waited for beside it, is answered all the same: it was ours then, as far as we knew.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/handoff.h"
#include "daemon/core/jobs.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/locks.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "daemon/core/window.h"

_Static_assert(VERIFY_AGAIN < 1u << VERIFY_BITS, "no doubt is cut off");

void
claim_verify(struct core *c, struct claim *cl, unsigned verify)
{
    c->unverified_n -= (cl->verify & VERIFY_LOST) != 0;
    c->unverified_n += (verify & VERIFY_LOST) != 0;
    cl->verify = verify & ((1u << VERIFY_BITS) - 1);
}

void
claim_settle(struct core *c, struct claim *cl)
{
    if (claim_busy(cl) || cl->retry_us > c->now_us) {
        return;
    }
    if (cl->verify & VERIFY_LOST) {
        if (claim_may_leave(c, cl, WINDOW_RECLAIM)) {
            claim_reassert(c, cl, (cl->verify & VERIFY_HOLDS) == 0);
        }
    } else if (cl->renewal != RENEWAL_SENT) {
        claim_renew_in_turn(c, cl);
    }
}

/*
 * HELD: in doubt from now on. Redis is asked in turn (window.c); or, if something is under way, when that is answered.
 */
static void
verify(struct core *c, struct claim *cl, unsigned why)
{
    claim_verify(c, cl, why);
    claim_waits_not(c, cl); /* for a renewal: another operation may come first now */
    cl->retry_us = 0;
    if (!claim_busy(cl) && cl->renewal == RENEWAL_NONE) {
        claim_waits(c, cl, why & VERIFY_LOST ? WINDOW_RECLAIM : WINDOW_RENEW);
    }
    claim_arm(c, cl);
}

/*
 * Redis may have lost data: what is held is asserted anew. What is being given back was held until then: that Redis
 * does not have it any more is no loss to its owner.
 */
static void
reassert(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD) {
        verify(c, cl, (cl->holds > 0 ? VERIFY_HOLDS : 0) | (cl->shared > 0 ? VERIFY_SHARED : 0));
    } else {
        cl->release_unresolved = cl->release_unresolved || (CLAIM_LEAVING & (1u << cl->state));
    }
}

/*
 * Redis may not have it any more: nothing is served for who holds it before that is confirmed. A renewal in flight may
 * have found it there before that.
 */
static void
suspect(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD) {
        verify(c, cl, cl->verify | VERIFY_EXISTS | (cl->renewal == RENEWAL_SENT ? VERIFY_AGAIN : 0));
    }
}

void
claim_review(struct core *c, struct claim *cl)
{
    unsigned why = cl->lock->why;

    if (cl->turn_n == cl->lock->turn) {
        return;
    }
    cl->turn_n = cl->lock->turn;
    if (why & REVIEW_LOST) {
        reassert(c, cl);
    }
    if (why & REVIEW_JUMPED) {
        suspect(c, cl);
    }
}

void
lock_suspect(struct core *c, struct lock *l)
{
    lock_linger_ends(c, l);
    lock_review(c, l, REVIEW_JUMPED);
}

/* Who is in doubt asks now, whatever pause it was to make. */
void
claim_granting(struct core *c, struct claim *cl)
{
    if (cl->state == CLAIM_HELD) {
        cl->retry_us = cl->verify != 0 ? 0 : cl->retry_us;
        claim_arm(c, cl);
    }
}

static void
try_now(struct core *c, struct lock *l)
{
    if (!list_empty(&l->queue->claims)) {
        l->queue->again = l->queue->trying_n > 0;
        l->queue->retry_us = l->queue->yield_until_us;
        l->queue->failed_n = 0;
        lock_wake(c, l);
    }
}

/* ... and who waits tries. */
void
lock_granting(struct core *c, struct lock *l)
{
    lock_round(c, l, ROUND_WAKE);
    try_now(c, l);
}

/* The review that is going on, where it has not been yet; of a lock with very many claims they come behind it. */
void
lock_join_review(struct core *c, struct lock *l)
{
    l->review = c->review.number & ((1u << REVIEW_BITS) - 1);
    lock_linger_ends(c, l);
    lock_review(c, l, (c->review.lost ? REVIEW_LOST : 0) | (c->review.jumped ? REVIEW_JUMPED : 0));
    if (c->review.lost) {
        try_now(c, l);
    }
}

/*
 * Every lock is reviewed, as soon as something happens to it. One that begins before the last one has ended takes over
 * its reasons: what was reviewed is reviewed for both. Their numbers come round, so of very many in a row one is ended
 * first.
 */
static void
review(struct core *c, bool lost)
{
    const struct job *j = &c->walk[WALK_REVIEW].job;
    unsigned numbers = 1u << REVIEW_BITS;

    if (c->review.begun_n + 2 >= numbers) {
        walk_finish(c, WALK_REVIEW);
    }
    if (!job_stands(j)) {
        c->review.lost = c->review.jumped = false;
        c->review.begun_n = 0;
    }
    c->review.lost |= lost;
    c->review.jumped |= !lost;
    c->review.begun_n++;
    c->review.number = (c->review.number + 1) % numbers;
    walk_begin(c, WALK_REVIEW);
}

void
reclaim_begin(struct core *c, uint64_t epoch)
{
    c->epoch = epoch;
    review(c, true);
}

void
reclaim_confirm(struct core *c)
{
    review(c, false);
}

void
reclaim_end(struct core *c)
{
    struct core_action a = {.type = CORE_RECLAIMED};

    if (c->epoch != 0 && c->unverified_n == 0 && !job_stands(&c->walk[WALK_REVIEW].job) && !rounds_review(c)) {
        a.epoch = c->epoch;
        c->epoch = 0;
        core_act(c, &a);
    }
}
