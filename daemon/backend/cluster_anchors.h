/*
 * cluster_anchors.h -- why nothing is granted in any slot while fewer than two of the three anchors vote (R1, R7).
 */
#ifndef RLOCKD_BACKEND_CLUSTER_ANCHORS_H
#define RLOCKD_BACKEND_CLUSTER_ANCHORS_H

#include "daemon/backend/cluster_private.h"

/* Whether fewer than two anchors vote; `why`: how many do not answer, or abstain, and for how long at most. */
bool cluster_anchors_too_few_vote(const struct cluster *c, char why[160]);

/* Called by the timer: logs the reason when it has lasted for ANCHORS_WAIT_US, and its end. */
void cluster_anchors_log(struct cluster *c);

#endif
