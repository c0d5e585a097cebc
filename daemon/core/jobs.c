/*
 * jobs.c -- work that is too long for one step: the list of jobs, and the walks over the locks of a domain.
 *
 * J1  A job takes its records from the front of a list until none is left there that it concerns; a walk moves on when
 *     the lock that is next is freed (walks_leave()), a round when the claim that is next leaves its list
 *     (rounds_leave()). So no record is left out, whatever happens between two slices; walks and rounds may do one
 *     twice, which is harmless.
 * J2  No event sees a record in the state before its job: an owner that has ended has no requests (owner_end()), and
 *     claim_catch_up() and lock_catch_up() do what the job would do.
 * J3  A job looks at JOB_RECORDS records, then the next job has its turn.
 */
#include "daemon/core/jobs.h"

#include "daemon/core/claim.h"
#include "daemon/core/dirty.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

void
job_init(struct job *j, enum job_kind kind)
{
    list_init(&j->node);
    j->kind = kind;
}

void
job_begin(struct core *c, struct job *j)
{
    if (!job_is_pending(j)) {
        list_push_back(&c->jobs, &j->node);
    }
}

void
job_end(struct job *j)
{
    list_remove(&j->node);
}

uint32_t
job_records_max(const struct core *c)
{
    return c->conf.slice == 0 ? UINT32_MAX : c->conf.slice < JOB_RECORDS ? c->conf.slice : JOB_RECORDS;
}

/* ---- walks ---- */

void
walk_init(struct walk *w, enum walk_kind kind)
{
    w->kind = kind;
    job_init(&w->job, JOB_WALK);
}

void
walk_begin(struct core *c, struct domain *d, enum walk_kind kind)
{
    struct walk *w = &d->walk[kind];

    if (!list_empty(&d->locks)) {
        w->next = d->locks.next;
        w->last = d->locks.prev;
        job_begin(c, &w->job);
    }
}

void
walk_end(struct core *c, struct domain *d, struct walk *w)
{
    job_end(&w->job);
    if (w->kind == WALK_REVIEW) {
        dirty_mark_domain(c, d);
    }
}

void
walks_leave(struct core *c, const struct lock *l)
{
    struct domain *d = lock_domain(c, l);

    for (int i = 0; i < WALKS && !list_empty(&c->jobs); i++) {
        struct walk *w = &d->walk[i];

        if (!job_is_pending(&w->job)) {
            continue;
        }
        if (w->next == &l->all && w->last == &l->all) {
            walk_end(c, d, w);
        } else if (w->next == &l->all) {
            w->next = l->all.next;
        } else if (w->last == &l->all) {
            w->last = l->all.prev;
        }
    }
}

uint32_t
domain_with_locks(const struct core *c, uint32_t from)
{
    while (from < c->domains_n) {
        uint64_t has = c->domain_has_locks[from / 64] >> from % 64;

        if (has != 0) {
            return from + (uint32_t)__builtin_ctzll(has);
        }
        from += 64 - from % 64;
    }
    return c->domains_n;
}
