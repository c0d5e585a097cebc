/*
 * jobs.h -- work in slices: a turn looks at core_conf.slice records, and what is left of a job stays in core.jobs;
 * private to daemon/core.
 *
 * A job is part of the record that it is about, and ends with that record; a round over the claims of one lock has a
 * record of its own (rounds.c). Jobs have their turns one after the other. Events come between two slices: before an
 * event about a record that a job has not reached yet, claim_catch_up() or lock_catch_up() does the work of the job.
 */
#ifndef RLOCKD_CORE_JOBS_H
#define RLOCKD_CORE_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/job.h"
#include "daemon/core/state.h"

struct core;
struct domain;
struct lock;

enum { JOB_RECORDS = 64 }; /* records that a job looks at before the next job has its turn */

/* A pass over every lock of a domain. Of each sort there is one at a time: a new reason meanwhile begins it anew. */
enum walk_kind {
    WALK_REVIEW,  /* Redis may not have what is held: domain.review says why */
    WALK_GRANTING, /* Redis grants again */
    WALK_REACHED, /* Redis can be reached */
    WALK_DRAIN,   /* waiters are sent away */
    WALKS
};

struct walk {
    struct job job;
    enum walk_kind kind;
    struct list *next, *last; /* lock.all of the next lock, and of the last lock that was there when it began */
};

void job_init(struct job *j, enum job_kind kind);
void job_begin(struct core *c, struct job *j); /* harmless if it has begun */
void job_end(struct job *j);                   /* harmless if it has not */
uint32_t job_records_max(const struct core *c); /* records that may be looked at in one go */

void walk_init(struct walk *w, enum walk_kind kind);
void walk_begin(struct core *c, struct domain *d, enum walk_kind kind);
void walk_end(struct core *c, struct domain *d, struct walk *w); /* the last lock is done, or was freed */
void walks_leave(struct core *c, const struct lock *l); /* the lock is about to be freed */

/* the first domain with locks, `from` or above; or domains_n */
uint32_t domain_with_locks(const struct core *c, uint32_t from);

/* Whether there is something left of that part of the turn's slice. */
static inline bool
budget_has(const struct core *c, uint32_t left)
{
    return c->conf.slice == 0 || left > 0;
}

static inline void
budget_spend(uint32_t *left, uint32_t n)
{
    *left -= n < *left ? n : *left;
}

/* A job has work, and the slice has some left for it. */
static inline bool
jobs_may_run(const struct core *c)
{
    return !list_empty(&c->jobs) && budget_has(c, c->budget.records);
}

#endif
