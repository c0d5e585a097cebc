/*
 * work.h -- the floor "step" of core.h: the work of a step, new epochs, restored checkpoints; private to daemon/core.
 */
#ifndef RLOCKD_CORE_WORK_H
#define RLOCKD_CORE_WORK_H

#include <stdint.h>

#include "daemon/core/core.h"
#include "daemon/core/jobs.h"

struct core;
struct domain;

/* work.c */
/* does the rest of the walk in this step, however long it is */
void work_finish_walk(struct core *c, struct walk *w);
void work_jobs(struct core *c); /* as much as is left of this turn's slice */
void work_catch_up(struct core *c); /* does what is due, and the work that follows from it */
void work_dirty(struct core *c); /* advances dirty owners and locks */
void work_requests(struct core *c); /* requests whose claim is gone in Redis, and dirty multilocks */

/* epochs.c */
void epochs_reclaim(struct core *c, struct domain *d, uint64_t epoch); /* Redis may have lost all that is held there */
void epochs_suspect(struct core *c, struct domain *d); /* a clock has jumped: Redis may not have the holds of the domain
                                                          any more */
void epochs_report(struct core *c);                   /* at the end of a step: RECLAIMED for each domain whose holds
                                                         are all reclaimed */

/* restore.c: the checkpoints that the former process left */
void restore(struct core *c, struct core_restored *rs);

#endif
