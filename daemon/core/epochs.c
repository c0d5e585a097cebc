/*
 * epochs.c -- a new epoch of a domain, or a clock that has jumped: every lock of the domain is reviewed.
 */
#include "daemon/core/work.h"

#include "daemon/core/act.h"
#include "daemon/core/bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/domain.h"
#include "daemon/core/jobs.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"

/*
 * Begins a review of every lock of the domain: a walk reaches each lock, or an event about the lock comes first. A
 * review that begins before the last one has ended takes over its reasons, so each lock is reviewed for both. The
 * numbers of reviews wrap around, so when too many have begun in a row, the walk is finished before the next begins.
 */
static void
review(struct core *c, struct domain *d, bool lost)
{
    struct walk *w = &d->walk[WALK_REVIEW];
    struct review *rv = &d->review;
    unsigned numbers = 1u << DOMAIN_REVIEW_BITS;

    if (rv->begun_n + 2 >= numbers) {
        work_finish_walk(c, w);
    }
    if (!job_is_pending(&w->job)) {
        rv->lost = rv->jumped = false;
        rv->begun_n = 0;
    }
    rv->lost |= lost;
    rv->jumped |= !lost;
    rv->begun_n++;
    rv->number = (rv->number + 1) % numbers;
    walk_begin(c, d, WALK_REVIEW);
}

void
epochs_reclaim(struct core *c, struct domain *d, uint64_t epoch)
{
    d->epoch = epoch;
    dirty_mark_domain(c, d); /* where nothing is held RECLAIMED is due at once */
    review(c, d, true);
}

void
epochs_suspect(struct core *c, struct domain *d)
{
    review(c, d, false);
}

void
epochs_report(struct core *c)
{
    while (!list_empty(&c->dirty_domains)) {
        struct domain *d = container_of(c->dirty_domains.next, struct domain, dirty_node);
        struct core_action a = {.type = CORE_RECLAIMED, .domain = (uint16_t)(d - c->domain), .epoch = d->epoch};

        list_remove(&d->dirty_node);
        if (d->epoch != 0 && d->unverified_n == 0 && !job_is_pending(&d->walk[WALK_REVIEW].job) &&
            !rounds_review_pending(c, d)) {
            d->epoch = 0;
            core_act(c, &a);
        }
    }
}
