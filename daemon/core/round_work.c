/*
 * round_work.c -- what rounds do with each claim, at once or in slices; the rounds themselves are in rounds.c.
 */
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/dirty.h"
#include "daemon/core/jobs.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/requests.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

enum { REVIEWS = 1 << REVIEWS_BITS };

static void (*const round_does[ROUNDS])(struct core *c, struct claim *cl) = {
    [ROUND_REVIEW] = claim_review,
    [ROUND_WAKE] = claim_redis_grants,
    [ROUND_REACHED] = claim_redis_reached,
    [ROUND_DRAIN] = claim_drain,
};

/* The next claim. False: there is none. */
static bool
step(struct core *c, struct round *rd)
{
    struct claim *cl;

    round_find_home(rd);
    if (rd->at == NULL) {
        return false;
    }
    cl = container_of(rd->at, struct claim, node);
    if (rd->kind != ROUND_DRAIN || list_empty(&cl->requests) || list_alone(&cl->requests)) {
        round_move_on(rd); /* else it has more than one request, and is drained of them one by one */
    }
    round_does[rd->kind](c, cl); /* frees no lock: that is for the end of the step */
    return true;
}

bool
round_next(struct core *c, struct round *rd)
{
    if (step(c, rd)) {
        return true;
    }
    lock_wake(c, rd->lock);
    round_free(c, rd);
    return false;
}

/* Runs the round to its end. */
static void
at_once(struct core *c, struct round *rd)
{
    while (step(c, rd)) {
    }
}

/* Begins a round; a pending one begins anew. */
void
lock_round(struct core *c, struct lock *l, enum round_kind kind)
{
    struct round *rd = round_find(c, l, kind), now;

    if (rd != NULL) {
        rd->home = round_first_home(kind);
        rd->at = NULL;
        rd->begun_n++;
        return;
    }
    rd = lock_is_long(c, l) ? freelist_take(&c->freelist, sizeof(*rd)) : NULL;
    if (rd != NULL) {
        round_begin(c, rd, l, kind);
        job_begin(c, &rd->job);
        return;
    }
    round_begin(c, &now, l, kind);
    at_once(c, &now);
    round_end(c, &now);
}

void
lock_review(struct core *c, struct lock *l, unsigned why)
{
    struct round *rd = round_find(c, l, ROUND_REVIEW);

    if (rd != NULL && rd->begun_n + 2u >= REVIEWS) { /* the numbers of reviews wrap around */
        at_once(c, rd);
        round_free(c, rd);
    }
    l->reviews_n = (l->reviews_n + 1u) % REVIEWS;
    l->review_why |= why & (REVIEW_LOST | REVIEW_JUMPED);
    lock_round(c, l, ROUND_REVIEW);
}
