/*
 * round_work.h -- what a round does with each claim of a lock; private to daemon/core.
 */
#ifndef RLOCKD_CORE_ROUND_WORK_H
#define RLOCKD_CORE_ROUND_WORK_H

#include <stdbool.h>

#include "daemon/core/rounds.h"

struct core;
struct lock;

/* does the work of one claim; false: none was left, and rd is freed */
bool round_next(struct core *c, struct round *rd);
void round_run(struct core *c, struct lock *l, enum round_kind kind); /* at once, or as a job ... */
void round_review(struct core *c, struct lock *l, unsigned why);        /* ROUND_REVIEW, for REVIEW_* */

#endif
