/*
 * epochs.h -- Redis may have lost what it had: a new epoch, or a clock that has jumped; private to daemon/core.
 */
#ifndef RLOCKD_CORE_EPOCHS_H
#define RLOCKD_CORE_EPOCHS_H

#include <stdint.h>

struct core;

/* epochs.c */
void reclaim_begin(struct core *c, uint64_t epoch);   /* Redis may have lost all that is held */
void reclaim_confirm(struct core *c);                 /* a clock has jumped: is all that is held still there? */
void reclaim_end(struct core *c);                     /* of a step in an epoch: says so when all is asserted */

#endif
