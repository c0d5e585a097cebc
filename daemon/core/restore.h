/*
 * restore.h -- restores the checkpoints that the former process left; private to daemon/core.
 */
#ifndef RLOCKD_CORE_RESTORE_H
#define RLOCKD_CORE_RESTORE_H

#include "daemon/core/core.h"

struct claim;
struct lock;

/* restore.c */
void restore(struct core *c, struct core_restored *rs);

#endif
