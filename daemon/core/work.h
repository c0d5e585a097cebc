/*
 * work.h -- the work of a step: timers that are due, jobs in slices, and dirty records; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WORK_H
#define RLOCKD_CORE_WORK_H

#include <stdbool.h>

#include "daemon/core/jobs.h"

struct core;

/* work.c */
void walk_finish(struct core *c, struct walk *w);       /* in this step, however long it takes */
void jobs_run(struct core *c);                 /* as much as is left of this turn's slice */
void catch_up(struct core *c); /* what is due, and what comes of it */
void work_dirty(struct core *c); /* what is dirty */
void work_requests(struct core *c); /* with requests that what has just happened left behind */

#endif
