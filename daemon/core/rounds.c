/*
 * rounds.c -- something is done with every claim of one lock, which may have very many.
 *
 * A lock with few claims is done at once; one with more than fit into a job's turn has a round of its own among the
 * jobs. What an event is about is seen to when it is met, as with all jobs: see claim_meet().
 *
 * O1  The cursor stands at a claim on one of the lists, and is moved on when that one leaves it (rounds_leave()). Who
 *     comes to the end of a list meanwhile is seen to as well; twice does no harm. Who goes further to the front takes
 *     a cursor that it meets with it (rounds_swap()). Who comes to a list from another one had an event of its own,
 *     and was met.
 * O2  A review counts the lock's turn on, and a claim is of that turn when it was reviewed; new ones are. lock.why says
 *     what for, until all claims are of the last turn: a round that begins anew takes over the reasons.
 * O3  Of a lock there is one round of each sort. Without memory for one it is done at once: then its record is on the
 *     stack, is in core.rounds until lock_round() returns, and is no job.
 */
#include "daemon/core/rounds.h"

#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/dirty.h"
#include "daemon/core/jobs.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"

enum { HOMES = 3, TURNS = 1 << TURN_BITS };

static void (*const round_does[ROUNDS])(struct core *c, struct claim *cl) = {
    [ROUND_REVIEW] = claim_review,
    [ROUND_WAKE] = claim_granting,
    [ROUND_REACHED] = claim_reached,
    [ROUND_DRAIN] = claim_drain,
};

static struct list *
home_of(const struct round *rd)
{
    struct lock *l = rd->lock;
    struct list *homes[HOMES] = {&l->holders, &l->rest, &l->queue->claims};

    return homes[rd->home];
}

/* To the first of the lists, from this one on, that has a claim. */
static void
find_home(struct round *rd)
{
    while (rd->at == NULL && rd->home < HOMES) {
        struct list *home = home_of(rd);

        rd->at = list_empty(home) ? NULL : home->next;
        rd->home += rd->at == NULL;
    }
}

static void
move_on(struct round *rd)
{
    rd->at = rd->at->next != home_of(rd) ? rd->at->next : NULL;
    rd->home += rd->at == NULL;
}

/* Only who is in the queue waits. */
static int
first_home(enum round_kind kind)
{
    return kind == ROUND_DRAIN ? HOMES - 1 : 0;
}

static void
begin(struct core *c, struct round *rd, struct lock *l, enum round_kind kind)
{
    *rd = (struct round){.lock = l, .kind = kind, .home = first_home(kind)};
    job_init(&rd->job, JOB_ROUND);
    list_push_back(&c->rounds, &rd->node);
    l->rounded = true;
}

static struct round *
round_find(const struct core *c, const struct lock *l, enum round_kind kind)
{
    struct list *pos, *nxt;

    if (l->rounded) {
        list_for_each_safe(pos, nxt, &c->rounds)
        {
            struct round *rd = container_of(pos, struct round, node);

            if (rd->lock == l && rd->kind == kind) {
                return rd;
            }
        }
    }
    return NULL;
}

static void
end(struct core *c, struct round *rd)
{
    struct lock *l = rd->lock;
    bool others = false;

    job_end(&rd->job);
    list_remove(&rd->node);
    l->why = rd->kind == ROUND_REVIEW ? 0 : l->why;
    for (int i = 0; i < ROUNDS; i++) {
        others = others || round_find(c, l, (enum round_kind)i) != NULL;
    }
    l->rounded = others;
}

/* The next claim. False: there is none. */
static bool
step(struct core *c, struct round *rd)
{
    struct claim *cl;

    find_home(rd);
    if (rd->at == NULL) {
        return false;
    }
    cl = container_of(rd->at, struct claim, node);
    if (rd->kind != ROUND_DRAIN || list_empty(&cl->requests) || list_alone(&cl->requests)) {
        move_on(rd); /* else it has more than one request, and is drained of them one by one */
    }
    round_does[rd->kind](c, cl); /* frees no lock: that is for the end of the step */
    return true;
}

static void
round_free(struct core *c, struct round *rd)
{
    assert(job_stands(&rd->job)); /* O3: else it is not ours to free */
    end(c, rd);
    freelist_give(&c->freelist, rd, sizeof(*rd));
}

bool
round_goes(struct core *c, struct round *rd)
{
    if (step(c, rd)) {
        return true;
    }
    lock_wake(c, rd->lock);
    round_free(c, rd);
    return false;
}

/* All that is left of it, or all there is. */
static void
at_once(struct core *c, struct round *rd)
{
    while (step(c, rd)) {
    }
}

/* More than one job may look at in its turn. */
bool
lock_is_long(const struct core *c, const struct lock *l)
{
    return l->claims_n > job_share(c);
}

/* A round that stands begins anew. */
void
lock_round(struct core *c, struct lock *l, enum round_kind kind)
{
    struct round *rd = round_find(c, l, kind), now;

    if (rd != NULL) {
        rd->home = first_home(kind);
        rd->at = NULL;
        rd->begun_n++;
        return;
    }
    rd = lock_is_long(c, l) ? freelist_take(&c->freelist, sizeof(*rd)) : NULL;
    if (rd != NULL) {
        begin(c, rd, l, kind);
        job_begin(c, &rd->job);
        return;
    }
    begin(c, &now, l, kind);
    at_once(c, &now);
    end(c, &now);
}

void
lock_review(struct core *c, struct lock *l, unsigned why)
{
    struct round *rd = round_find(c, l, ROUND_REVIEW);

    if (rd != NULL && rd->begun_n + 2u >= TURNS) { /* turns come round */
        at_once(c, rd);
        round_free(c, rd);
    }
    l->turn = (l->turn + 1u) % TURNS;
    l->why |= why & (REVIEW_LOST | REVIEW_JUMPED);
    lock_round(c, l, ROUND_REVIEW);
}

bool
lock_has_round(const struct core *c, const struct lock *l, enum round_kind kind)
{
    return round_find(c, l, kind) != NULL;
}

bool
rounds_review(const struct core *c)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->rounds)
    {
        if (container_of(pos, struct round, node)->kind == ROUND_REVIEW) {
            return true;
        }
    }
    return false;
}

void
rounds_leave(struct core *c, const struct claim *cl)
{
    struct list *pos, *nxt;

    if (!cl->lock->rounded) {
        return;
    }
    list_for_each_safe(pos, nxt, &c->rounds)
    {
        struct round *rd = container_of(pos, struct round, node);

        if (rd->at == &cl->node) {
            move_on(rd);
        }
    }
}

void
rounds_swap(struct core *c, struct claim *cl, const struct claim *before)
{
    struct list *pos, *nxt;

    if (!cl->lock->rounded) {
        return;
    }
    list_for_each_safe(pos, nxt, &c->rounds)
    {
        struct round *rd = container_of(pos, struct round, node);

        if (rd->at == &before->node) {
            rd->at = &cl->node;
        }
    }
}

void
rounds_end(struct core *c, const struct lock *l)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct round *rd = round_find(c, l, (enum round_kind)i);

        if (rd != NULL) {
            round_free(c, rd);
        }
    }
}
