/*
 * cluster_masters.h -- the shards of a cluster's masters.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_MASTERS_H
#define RLOCKD_BACKEND_CLUSTER_MASTERS_H

#include "daemon/backend/cluster_private.h"

/* Opens shards for new masters of the map, and gives slots to shards. */
void cluster_masters_follow(struct cluster *c);

/* Whether a master of the map went down so recently that another node may still replace it. */
bool cluster_masters_lost(const struct cluster *c, int64_t now_us);

/* Requests the node timeout of each master again if it is old; if `strict`, refuses grants where it is no bound. */
void cluster_masters_check(struct cluster *c);

/* The variants of the scripts have changed: all shards connect anew. */
void cluster_masters_reload_scripts(struct cluster *c);

/* Closes former masters that have nothing in flight; `all`: closes all masters. */
void cluster_masters_close(struct cluster *c, bool all);

/* The number of anchors whose slots this master owns. */
unsigned cluster_master_anchors(const struct cluster *c, const struct cluster_master *m);
struct cluster_master *cluster_master_of(const struct cluster *c, const struct cluster_node *node); /* NULL: none */

#endif
