/*
 * cluster_epochs.h -- masters whose config epoch is below the known one of their slots (R10): what an admin can do.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_EPOCHS_H
#define RLOCKD_BACKEND_CLUSTER_EPOCHS_H

#include "daemon/backend/cluster_private.h"

/* Whether the slot is not served for that reason; `why`: the text, with the remedy. */
bool cluster_epochs_slot_is_low(const struct cluster *c, uint16_t slot, char why[160]);

/* The same of any slot or anchor. */
bool cluster_epochs_any_is_low(const struct cluster *c, char why[160]);

/* Logs the reason once; after slots have moved, once more. */
void cluster_epochs_log(struct cluster *c, bool moved);

#endif
