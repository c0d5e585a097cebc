/*
 * epochs.c -- Redis may have lost what it had: a new epoch, or a clock that has jumped. Every lock is reviewed.
 */
#include "daemon/core/epochs.h"

#include "daemon/core/bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/jobs.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "daemon/core/work.h"

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
