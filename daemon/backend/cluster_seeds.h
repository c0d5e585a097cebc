/*
 * cluster_seeds.h -- the nodes that are asked for the map of a cluster; for cluster.c.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_SEEDS_H
#define RLOCKD_BACKEND_CLUSTER_SEEDS_H

#include "daemon/backend/backend_env.h"
#include "daemon/base/slice.h"

struct cluster;
struct cluster_seeds;

struct cluster_seeds_events {
    /* False: the answer is of no use, and another node is to be asked. */
    bool (*map)(struct cluster *c, struct slice text, const char *host);
    void (*version)(struct cluster *c, const char *version);
};

struct cluster_seeds *cluster_seeds_open(struct cluster *c, struct cluster_seeds_events events);
void cluster_seeds_close(struct cluster_seeds **s);

/*
 * Requests the map from the node of the seeds' link, and from the next master if that is up. If the link has failed, or
 * its last question got no useful answer, the link moves to the next node instead.
 */
void cluster_seeds_ask(struct cluster_seeds *s);
void cluster_seeds_login(struct cluster_seeds *s, const struct backend_conf *conf);
const char *cluster_seeds_error(const struct cluster_seeds *s);

/* Refuses the answer of that host as a map. The log gets a new reason, but four a minute at most. */
void cluster_seeds_refuse(struct cluster_seeds *s, const char *host, const char *error);

/* Why the last answer is no map; "" = it is one. */
const char *cluster_seeds_map_error(const struct cluster_seeds *s);

/* Why the version is not known, so that all nodes are taken for Redis 6; "" = it is, or no node has answered yet. */
const char *cluster_seeds_info_error(const struct cluster_seeds *s);

#endif
