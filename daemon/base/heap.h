/*
 * heap.h -- intrusive min-heap of deadlines.
 *
 * Nodes with equal deadlines are ordered by the time of arming, so that the same events always fire in the same order.
 * The heap owns only its array of slots; nodes live in their records. libevent's timers do not serve: the core has
 * neither clock nor libevent, and libevent leaves the order of equal deadlines open.
 */
#ifndef RLOCKD_BASE_HEAP_H
#define RLOCKD_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAP_MAX = 1 << 27 }; /* nodes */

/* The deadline is in the array only (heap_at()), to keep nodes small: a million records have one each. */
struct heap_node {
    uint32_t pos : 28; /* index in the array plus 1; 0 = not in the heap */
    uint32_t what : 4; /* for the owner of the record */
};

/* Contains all that the order depends on, so that moving a node reads no other record. */
struct heap_slot {
    int64_t at_us;
    uint64_t seq; /* order of arming, breaks ties */
    struct heap_node *node;
};

struct heap {
    struct heap_slot *slot; /* owned array; the nodes are borrowed */
    size_t count, room;
    uint64_t seq;
};

void heap_init(struct heap *h);
void heap_fini(struct heap *h);

/* Inserts or moves the node. More than HEAP_MAX nodes end the process, as exhausted memory does. */
void heap_set(struct heap *h, struct heap_node *n, int64_t at_us);

/* Harmless when the node is not in the heap. */
void heap_remove(struct heap *h, struct heap_node *n);

/* The earliest node, or NULL. */
struct heap_node *heap_min(const struct heap *h);

/* The earliest deadline; INT64_MAX: the heap is empty. */
static inline int64_t
heap_min_at(const struct heap *h)
{
    return h->count > 0 ? h->slot[0].at_us : INT64_MAX;
}

/* The deadline of a node, which must be in the heap. */
static inline int64_t
heap_at(const struct heap *h, const struct heap_node *n)
{
    return h->slot[n->pos - 1].at_us;
}

#endif
