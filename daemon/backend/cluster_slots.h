/*
 * cluster_slots.h -- generations.h as the topology uses it: adds the clock and the longest lease of the daemon, and
 * wakes anchors.c after each report.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_SLOTS_H
#define RLOCKD_BACKEND_CLUSTER_SLOTS_H

#include "daemon/backend/anchors.h"
#include "daemon/backend/slot.h"

struct cluster_slots {
    struct anchors *anchors; /* owned */
    const struct backend_env *env;
    int64_t lease_us; /* the longest that this daemon renews */
};

/* env is borrowed, as is the ctx of io. */
void cluster_slots_init(struct cluster_slots *s, const struct backend_conf *conf, const struct backend_env *env,
                        const struct anchors_io *io);
void cluster_slots_fini(struct cluster_slots *s);

/* The longest lease that this daemon renews; only gets longer. */
void cluster_slots_set_lease(struct cluster_slots *s, int64_t lease_us);

/* Whether calls may go to the node (generations_slot_state()). `holds`: the operation is about a held lock. */
void cluster_slots_state(const struct cluster_slots *s, uint16_t slot, uint16_t node, bool holds,
                         struct slot_state *out);

/* Whether the registered lease ends later than one that is taken or renewed now (R2). */
bool cluster_slots_fresh(const struct cluster_slots *s, int64_t now_us);

/* A call was answered GRACE. */
void cluster_slots_record_differs(struct cluster_slots *s, uint16_t slot);

/* This daemon has reclaimed all its locks in the slot. */
void cluster_slots_reclaimed(struct cluster_slots *s, uint16_t slot, uint64_t number);

/* The node answers ASK or TRYAGAIN. */
void cluster_slots_opened(struct cluster_slots *s, uint16_t slot, uint16_t node);

/* Another daemon has begun the generation with that number. */
void cluster_slots_announced(struct cluster_slots *s, uint64_t number);

static inline struct generations *
generations_of(const struct cluster_slots *s)
{
    return anchors_generations(s->anchors);
}

static inline uint64_t
cluster_slots_number(const struct cluster_slots *s, uint16_t slot)
{
    return generations_number(generations_of(s), slot);
}

static inline bool
cluster_slots_is_open(const struct cluster_slots *s, uint16_t slot)
{
    return generations_is_open(generations_of(s), slot);
}

static inline bool
cluster_slots_used(const struct cluster_slots *s, uint16_t slot)
{
    return generations_is_used(generations_of(s), slot);
}

#endif
