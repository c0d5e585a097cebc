/*
 * delivery.h -- the grants that answers rely on; private to daemon/core.
 */
#ifndef RLOCKD_CORE_DELIVERY_H
#define RLOCKD_CORE_DELIVERY_H

#include "daemon/core/core.h"

struct core;

/* delivery.c */
void delivery_loss_reported(struct core *c, const struct core_grant *g); /* LOSS_REPORTED */
void delivery_failed(struct core *c, const struct core_grant *g);        /* UNDELIVERED */

#endif
