/*
 * rounds.c -- passes over every claim of one lock, which may have very many.
 *
 * A lock with few claims is done at once; a lock with more claims than a job may look at in one go has a round of its
 * own among the jobs. A claim that an event is about catches up first, as with all jobs: claim_catch_up().
 */
#include "daemon/core/rounds.h"

#include <assert.h>

#include "daemon/core/claim.h"
#include "daemon/core/dirty.h"
#include "daemon/core/jobs.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

/*
 * R1  A round is at a claim on one of the lists, and moves on when that claim leaves its list (rounds_leave()). Claims
 *     that join the end of a list meanwhile are done as well; doing one twice is harmless. A claim that moves in front
 *     of the claim at which the round is takes the round along (rounds_swap()). A claim that changes its list had an
 *     event of its own, and has caught up.
 * R2  A review has the next number, lock.reviews_n, and a claim takes the number when it is reviewed, or made.
 *     lock.review_why has the reasons until all claims have the last number: a round that begins anew takes them over.
 * R3  Of a lock there is one round of each sort. A short list is done at once: the record of such a round is on the
 *     stack, is in core.rounds until round_run() returns, and is no job.
 */

enum { LISTS = 3 };

static struct list *
list_of(const struct round *rd)
{
    struct lock *l = rd->lock;
    struct list *lists[LISTS] = {&l->holders, &l->rest, &l->queue->claims};

    return lists[rd->list_index];
}

/* Moves to the first of the lists, from this one on, that has a claim. */
void
round_find_list(struct round *rd)
{
    while (rd->next == NULL && rd->list_index < LISTS) {
        struct list *list = list_of(rd);

        rd->next = list_empty(list) ? NULL : list->next;
        rd->list_index += rd->next == NULL;
    }
}

void
round_move_on(struct round *rd)
{
    rd->next = rd->next->next != list_of(rd) ? rd->next->next : NULL;
    rd->list_index += rd->next == NULL;
}

/* A drain concerns requests that wait, and only claims in the queue have such requests. */
int
round_first_list(enum round_kind kind)
{
    return kind == ROUND_DRAIN ? LISTS - 1 : 0;
}

void
round_begin(struct core *c, struct round *rd, struct lock *l, enum round_kind kind)
{
    *rd = (struct round){.lock = l, .kind = kind, .list_index = round_first_list(kind)};
    job_init(&rd->job, JOB_ROUND);
    list_push_back(&c->rounds, &rd->node);
    l->has_round = true;
}

struct round *
round_find(const struct core *c, const struct lock *l, enum round_kind kind)
{
    struct list *pos, *nxt;

    if (l->has_round) {
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

void
round_end(struct core *c, struct round *rd)
{
    struct lock *l = rd->lock;
    bool others = false;

    job_end(&rd->job);
    list_remove(&rd->node);
    if (rd->kind == ROUND_REVIEW) {
        l->review_why = 0;
        dirty_mark_domain(c, lock_domain(c, l));
    }
    for (int i = 0; i < ROUNDS; i++) {
        others = others || round_find(c, l, (enum round_kind)i) != NULL;
    }
    l->has_round = others;
}

void
round_free(struct core *c, struct round *rd)
{
    assert(job_is_pending(&rd->job)); /* R3: else the round was freed when it ended */
    round_end(c, rd);
    freelist_give(&c->freelist, rd, sizeof(*rd));
}

/* The lock has more claims than a job may look at in one go. */
bool
round_is_needed(const struct core *c, const struct lock *l)
{
    return l->claims_n > job_records_max(c);
}

bool
round_is_pending(const struct core *c, const struct lock *l, enum round_kind kind)
{
    return round_find(c, l, kind) != NULL;
}

bool
rounds_review_pending(const struct core *c, const struct domain *d)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->rounds)
    {
        const struct round *rd = container_of(pos, struct round, node);

        if (rd->kind == ROUND_REVIEW && lock_domain(c, rd->lock) == d) {
            return true;
        }
    }
    return false;
}

void
rounds_leave(struct core *c, const struct claim *cl)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->rounds)
    {
        struct round *rd = container_of(pos, struct round, node);

        if (rd->next == &cl->node) {
            round_move_on(rd);
        }
    }
}

void
rounds_swap(struct core *c, struct claim *cl, const struct claim *before)
{
    struct list *pos, *nxt;

    if (!cl->lock->has_round) {
        return;
    }
    list_for_each_safe(pos, nxt, &c->rounds)
    {
        struct round *rd = container_of(pos, struct round, node);

        if (rd->next == &before->node) {
            rd->next = &cl->node;
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
