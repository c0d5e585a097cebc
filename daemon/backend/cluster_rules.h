/*
 * cluster_rules.h -- the topology's questions and reports about its slots (anchors.h), with our leases and our clock.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_RULES_H
#define RLOCKD_BACKEND_CLUSTER_RULES_H

#include "daemon/backend/anchors.h"
#include "daemon/backend/slot.h"

struct cluster_rules {
    struct anchors *anchors; /* owned */
    const struct backend_env *env;
    int64_t lease_us; /* the longest that this daemon renews */
};

/* env is borrowed, as is the ctx of io. */
void cluster_rules_init(struct cluster_rules *r, const struct backend_conf *conf, const struct backend_env *env,
                        const struct anchors_io *io);
void cluster_rules_fini(struct cluster_rules *r);

/* The longest lease that this daemon renews; only gets longer. */
void cluster_rules_lease(struct cluster_rules *r, int64_t lease_us);

/* Whether calls may go to the node (generations_slot()). `holds`: the operation is about a held lock. */
void cluster_rules_slot(struct cluster_rules *r, uint16_t slot, uint16_t node, bool holds, struct slot_state *out);

/* Whether the registered lease ends later than one that is taken or renewed now (R2). */
bool cluster_rules_fresh(const struct cluster_rules *r, int64_t now_us);

/* A call was answered GRACE. */
void cluster_rules_differs(struct cluster_rules *r, uint16_t slot);

/* This daemon has reclaimed all its locks in the slot. */
void cluster_rules_reclaimed(struct cluster_rules *r, uint16_t slot, uint64_t number);

/* The node answers ASK or TRYAGAIN. */
void cluster_rules_open(struct cluster_rules *r, uint16_t slot, uint16_t node);

/* A token was given, by any slot of any node. */
void cluster_rules_token(struct cluster_rules *r, uint64_t token);

static inline struct generations *
rules_of(const struct cluster_rules *r)
{
    return anchors_generations(r->anchors);
}

static inline uint64_t
cluster_rules_number(const struct cluster_rules *r, uint16_t slot)
{
    return generations_number(rules_of(r), slot);
}

static inline bool
cluster_rules_is_open(const struct cluster_rules *r, uint16_t slot)
{
    return generations_is_open(rules_of(r), slot);
}

static inline bool
cluster_rules_used(const struct cluster_rules *r, uint16_t slot)
{
    return generations_is_used(rules_of(r), slot);
}

#endif
