/*
 * restore.h -- the records that the process before us has left; private to daemon/core.
 */
#ifndef RLOCKD_CORE_RESTORE_H
#define RLOCKD_CORE_RESTORE_H

#include "daemon/core/core.h"

struct claim;
struct lock;

/* restore.c */
void restore(struct core *c, struct core_restored *a);

#endif
