/*
 * work.h -- the work of a step: timers that are due, jobs in slices, and dirty records; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WORK_H
#define RLOCKD_CORE_WORK_H

#include <stdbool.h>

#include "daemon/core/jobs.h"

struct core;

/* work.c */
/* does the rest of the walk in this step, however long it is */
void work_finish_walk(struct core *c, struct walk *w);
void work_jobs(struct core *c); /* as much as is left of this turn's slice */
void work_catch_up(struct core *c); /* does what is due, and the work that follows from it */
void work_dirty(struct core *c); /* advances dirty owners and locks */
void work_requests(struct core *c); /* requests whose claim is gone in Redis, and dirty multilocks */

#endif
