/*
 * rounds.h -- work over the claims of one lock that has many: in slices, as jobs are; private to daemon/core.
 */
#ifndef RLOCKD_CORE_ROUNDS_H
#define RLOCKD_CORE_ROUNDS_H

#include <stdbool.h>

#include "daemon/base/list.h"
#include "daemon/core/job.h"

struct claim;
struct core;
struct domain;
struct lock;

/* Rounds: work on every claim of a lock that has many. */
enum round_kind {
    ROUND_REVIEW,  /* Redis may not have what is held: lock.review_why says why */
    ROUND_GRANTING, /* Redis grants again */
    ROUND_REACHED, /* Redis can be reached */
    ROUND_DRAIN,   /* waiters are sent away */
    ROUNDS
};

struct round {
    struct job job;
    struct list node;    /* core.rounds */
    struct lock *lock;
    enum round_kind kind;
    unsigned begun_n;    /* how often it began anew */
    int list_index;      /* 0: lock.holders, 1: lock.rest, 2: queue.claims */
    struct list *next;   /* claim.node, on that list; NULL: the first one there, or there is none */
};

/* the lock has more claims than a job may look at in one go */
bool round_is_needed(const struct core *c, const struct lock *l);
bool round_is_pending(const struct core *c, const struct lock *l, enum round_kind kind);
bool rounds_review_pending(const struct core *c, const struct domain *d); /* one reviews a lock of the domain */
void rounds_leave(struct core *c, const struct claim *cl);      /* the claim leaves its list; of a lock with a round */
/* The claim is about to go in front of the one before it on its list. */
void rounds_swap(struct core *c, struct claim *cl, const struct claim *before);
void rounds_end(struct core *c, const struct lock *l);          /* the lock is about to be freed */

void round_begin(struct core *c, struct round *rd, struct lock *l, enum round_kind kind);
void round_end(struct core *c, struct round *rd);
void round_free(struct core *c, struct round *rd);
struct round *round_find(const struct core *c, const struct lock *l, enum round_kind kind); /* NULL: none is pending */
int round_first_list(enum round_kind kind);
void round_find_list(struct round *rd); /* to the first of the lists, from this one on, that has a claim */
void round_move_on(struct round *rd);

#endif
