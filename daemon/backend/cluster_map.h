/*
 * cluster_map.h -- which node of a cluster owns which slot, from the answers to CLUSTER NODES. Pure: no link, no clock.
 *
 * CLUSTER NODES is used because in all versions its answer has the config epoch of each node, which orders maps.
 * SHARDS (7.0) and SLOTS lack it.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_MAP_H
#define RLOCKD_BACKEND_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/sentinel_url.h"
#include "daemon/backend/slot.h"

/*
 * CM1 A slot goes from its owner to another node only if that node's config epoch is higher than the slot's (R10),
 *     or if the owner's own answer gives the slot away. So the map of an old master that is cut off does not win. The
 *     slot's config epoch is the highest of its owners so far: if an owner has given a slot away, an outdated answer
 *     that names this owner does not undo that. The owner's own answer does, if the config epoch of the present owner
 *     is lower.
 * CM2 A slot without an owner in an answer keeps its owner.
 * CM3 An answer without any known node is of another cluster. It replaces the whole map if the caller allows that;
 *     otherwise it is refused. An answer without slots is refused, too: its node is in no cluster.
 * CM4 The known address of a node stays while the answering node cannot reach that node.
 * CM5 The claimant of a slot is the node that has the slot by the latest answer, and is reached, but must not get it
 *     (CM1), while the answer does not name the owner at all: the cluster has forgotten it, or does not know it yet.
 */

enum { CLUSTER_NODES_MAX = 512, CLUSTER_ID_ROOM = 41, CLUSTER_NO_OWNER = 0xffff };

struct cluster_node {
    char id[CLUSTER_ID_ROOM];
    char host[HOST_ROOM];
    char name[HOST_ROOM];          /* the host name that the node announces; "" = none. Redirections may use it */
    int port;           /* 0: clients cannot reach the node */
    uint64_t epoch;     /* the node's config epoch in the latest answer */
    bool master, failed; /* failed: the asked node reports or suspects it */
    bool reached;        /* the asked node is connected to it, or is it */
    unsigned slots_n;   /* slots that the node owns by this map */
};

struct cluster_map {
    struct cluster_node *node; /* owned; nodes_n nodes, which each answer may order anew */
    size_t nodes_n;
    uint16_t owner[SLOTS]; /* index of a node, or CLUSTER_NO_OWNER */
    uint64_t epoch[SLOTS]; /* the highest config epoch of the slot's owners so far */
    uint16_t claimant[SLOTS]; /* CM5: the index of a node, or CLUSTER_NO_OWNER */
    unsigned claimants_n;
};

/* A set of slots. */
struct slot_set {
    uint64_t bits[SLOTS / 64];
};

static inline void
slot_set_add(struct slot_set *s, uint16_t slot)
{
    s->bits[slot / 64] |= UINT64_C(1) << slot % 64;
}

static inline bool
slot_set_has(const struct slot_set *s, uint16_t slot)
{
    return (s->bits[slot / 64] >> slot % 64 & 1) != 0;
}

/* What an answer has changed. */
struct cluster_news {
    struct slot_set moved; /* slots with a new owner */
    char myself[CLUSTER_ID_ROOM]; /* the asked node */
    unsigned moved_n;
    bool other_cluster;    /* CM3 */
};

/* The node at an address that a redirection names. NULL: no known node is there. */
const struct cluster_node *cluster_map_at(const struct cluster_map *m, const char *host, int port);

void cluster_map_init(struct cluster_map *m);
void cluster_map_fini(struct cluster_map *m);

struct cluster_asked {
    const char *host; /* of the asked node */
    bool secure;   /* by TLS: a host name that a node announces is used, since its certificate is for that name */
    bool replaces; /* the answer may be of another cluster (CM3) */
};

/*
 * Takes in the answer of the asked node. False with a message, and nothing has changed: the text is no answer, is
 * refused, or has more than CLUSTER_NODES_MAX nodes.
 */
bool cluster_map_take(struct cluster_map *m, struct slice text, const struct cluster_asked *asked,
                      struct cluster_news *news, char error[160]);

#endif
