/*
 * cluster_map.h -- which node of a cluster owns which slot, from the answers to CLUSTER NODES. Pure: no link, no clock.
 *
 * CLUSTER NODES is used because in all versions its answer has the config epoch of each node, which orders maps, and
 * the open slots of the asked node. SHARDS (7.0) and SLOTS lack them.
 *
 * CM1 A slot never goes to a node with a lower config epoch than that of the node it is taken from (R10): so
 *     the map of an old master that is cut off does not win. Of the same owner the highest one counts. Only the owner
 *     itself may say that it is not the slot's any more, whatever the epochs.
 * CM2 A slot that an answer gives to nobody stays where it is.
 * CM3 An answer that names none of the nodes that are known is of another cluster. It replaces the whole map where the
 *     caller allows that; else it is refused. So is an answer without any slot: that node is in no cluster (yet, or any
 *     more).
 * CM4 The address of a node stays as it is known while the answering node cannot reach it.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_MAP_H
#define RLOCKD_BACKEND_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/sentinel_url.h"
#include "daemon/backend/slot.h"

enum { CLUSTER_NODES_MAX = 512, CLUSTER_ID_ROOM = 41, CLUSTER_NO_OWNER = 0xffff };

struct cluster_node {
    char id[CLUSTER_ID_ROOM];
    char host[SENTINEL_HOST_ROOM];
    char name[SENTINEL_HOST_ROOM]; /* the host name that it announces; "" = none. Redirections may say it */
    int port;           /* 0: it has none that clients could use */
    uint64_t epoch;     /* its config epoch, as the latest answer has it */
    bool master, failed; /* failed: the asked node reports or suspects it */
    bool reached;        /* the asked node is connected to it, or is it */
    unsigned slots_n;   /* that it owns by this map */
};

struct cluster_map {
    struct cluster_node *node; /* owned; nodes_n nodes, which each answer may order anew */
    size_t nodes_n;
    uint16_t owner[SLOTS]; /* index of a node, or CLUSTER_NO_OWNER */
    uint64_t epoch[SLOTS]; /* config epoch of the owner */
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
    struct slot_set open;  /* slots that the asked node is giving away or getting */
    char myself[CLUSTER_ID_ROOM]; /* the asked node */
    unsigned moved_n;
    bool other_cluster;    /* CM3 */
};

/* Whom a redirection to that address means; NULL: no node that is known. */
const struct cluster_node *cluster_map_at(const struct cluster_map *m, const char *host, int port);

void cluster_map_init(struct cluster_map *m);
void cluster_map_fini(struct cluster_map *m);

/*
 * Takes in the answer of a node that was reached as asked.host; `secure`: by TLS, where a host name that the node
 * announces is what its certificate names, and used; `replaces`: CM3. False with a message, and nothing has changed: it
 * is no answer, is refused, or has more than CLUSTER_NODES_MAX nodes.
 */
struct cluster_asked {
    const char *host;
    bool secure, replaces;
};

bool cluster_map_take(struct cluster_map *m, struct slice text, const struct cluster_asked *asked,
                      struct cluster_news *news, char error[160]);

#endif
