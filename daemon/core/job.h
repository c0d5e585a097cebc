/*
 * job.h -- the record of a job, which is work in slices: jobs.h; private to daemon/core.
 */
#ifndef RLOCKD_CORE_JOB_H
#define RLOCKD_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"

enum job_kind {
    JOB_OWNER, /* owner.job: the owner has ended, its claims are given back */
    JOB_SESSION, /* core_session.job: the session has gone, its named owners have one session less */
    JOB_BREAK, /* queue.break_job: the name was broken, its holders lose it */
    JOB_SETTLE, /* queue.settle.job: an outcome is known, and answers the requests that do not wait longer */
    JOB_WALK,  /* walk.job: a walk over every lock of a domain */
    JOB_ROUND, /* round.job: a round over every claim of a lock */
};

struct job {
    struct list node; /* core.jobs */
    enum job_kind kind;
};

/* Records that may yet be looked at in this turn. */
struct slice_budget {
    uint32_t timers, records, from_windows; /* from_windows: claims that waited in a window, see windows_advance() */
};

static inline bool
job_is_pending(const struct job *j)
{
    return list_linked(&j->node);
}

#endif
