/*
 * call_item.h -- one operation on its way: a name of a script call.
 */
#ifndef RLOCKD_BACKEND_CALL_ITEM_H
#define RLOCKD_BACKEND_CALL_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_ops.h"
#include "daemon/base/freelist.h"
#include "daemon/base/list.h"

/* In the order in which a turn sends them: SC3 of shard_calls.c. */
enum call_verb { VERB_RELEASE, VERB_CLEAR, VERB_ACQUIRE, VERB_RENEW, VERBS };

/* One operation on its way; the key follows the struct. */
struct item {
    struct list node;   /* in a batch or in call.items */
    struct core_op op;  /* op.key points behind the item */
    uint64_t epoch;     /* the known epoch of the domain when the core asked for the operation */
    enum call_verb verb;
    uint16_t domain;    /* of the key: continuity.h */
    unsigned home;      /* shard_route.c */
    bool alone;         /* must not share a call with other items: denied.h, one_key */
    bool one_key, asking; /* for an open slot: as in struct call */
    uint8_t hops;       /* refusals by nodes of a cluster */
    int64_t parked_us;  /* when the item was parked first: cluster_park.c; 0 = never */
    int64_t again_us;   /* while its slot is open, it is sent again at this time at the earliest */
};

struct item *item_new(struct freelist *s, const struct core_op *op);

/* Removes the item from its list, and frees it. */
void item_free(struct freelist *s, struct item *it);

#endif
