/*
 * told.h -- the grants that owners were told of; private to daemon/core.
 */
#ifndef RLOCKD_CORE_TOLD_H
#define RLOCKD_CORE_TOLD_H

#include <stdbool.h>

#include "daemon/core/core.h"

struct core;

/* told.c */
void claim_untold(struct core *c, const struct core_grant *g, bool told); /* lost; told: its owner knows */

#endif
