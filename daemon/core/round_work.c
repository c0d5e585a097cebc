/*
 * round_work.c -- what rounds do with each claim, at once or in slices; the rounds themselves are in rounds.c.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/locks.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

enum { REVIEWS = 1 << CLAIM_REVIEW_BITS };

static void (*const round_does[ROUNDS])(struct core *c, struct claim *cl) = {
    [ROUND_REVIEW] = reclaim_review,
    [ROUND_GRANTING] = reclaim_redis_grants,
    [ROUND_REACHED] = reclaim_redis_reached,
    [ROUND_DRAIN] = refusal_by_drain,
};

/* The next claim. False: there is none. */
static bool
next_claim(struct core *c, struct round *rd)
{
    struct claim *cl;

    round_find_list(rd);
    if (rd->next == NULL) {
        return false;
    }
    cl = container_of(rd->next, struct claim, node);
    if (rd->kind != ROUND_DRAIN || list_empty(&cl->requests) || list_alone(&cl->requests)) {
        round_move_on(rd); /* else the round comes to this claim again, for its next request */
    }
    round_does[rd->kind](c, cl); /* frees no lock: that is for the end of the step */
    return true;
}

bool
round_next(struct core *c, struct round *rd)
{
    if (next_claim(c, rd)) {
        return true;
    }
    dirty_mark_lock(c, rd->lock);
    round_free(c, rd);
    return false;
}

/* Runs the round to its end. */
static void
at_once(struct core *c, struct round *rd)
{
    while (next_claim(c, rd)) {
    }
}

/* Begins a round; a pending one begins anew. */
void
round_run(struct core *c, struct lock *l, enum round_kind kind)
{
    struct round *rd = round_find(c, l, kind), short_round;

    if (rd != NULL) {
        rd->list_index = round_first_list(kind);
        rd->next = NULL;
        rd->begun_n++;
        return;
    }
    rd = round_is_needed(c, l) ? freelist_take(&c->freelist, sizeof(*rd)) : NULL;
    if (rd != NULL) {
        round_begin(c, rd, l, kind);
        job_begin(c, &rd->job);
        return;
    }
    round_begin(c, &short_round, l, kind);
    at_once(c, &short_round);
    round_end(c, &short_round);
}

void
round_review(struct core *c, struct lock *l, unsigned why)
{
    struct round *rd = round_find(c, l, ROUND_REVIEW);

    if (rd != NULL && rd->begun_n + 2u >= REVIEWS) { /* the numbers of reviews wrap around */
        at_once(c, rd);
        round_free(c, rd);
    }
    l->reviews_n = (l->reviews_n + 1u) % REVIEWS;
    l->review_why |= why & (REVIEW_LOST | REVIEW_SUSPECT);
    round_run(c, l, ROUND_REVIEW);
}
