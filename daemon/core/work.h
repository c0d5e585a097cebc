/*
 * work.h -- the work of a step: timers that are due, jobs in slices, and dirty records; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WORK_H
#define RLOCKD_CORE_WORK_H

#include <stdbool.h>

#include "daemon/core/jobs.h"

struct core;

/* work.c */
void walk_finish(struct core *c, struct walk *w);       /* does the rest of the walk in this step, however long it is */
void jobs_run(struct core *c);                 /* as much as is left of this turn's slice */
void catch_up(struct core *c); /* does what is due, and the work that follows from it */
void work_dirty(struct core *c); /* advances dirty owners and locks */
void work_requests(struct core *c); /* requests whose claim was freed, and dirty multilocks */

#endif
