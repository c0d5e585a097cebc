/*
 * heap.h -- intrusive min-heap of deadlines.
 *
 * Ties are broken by the order of arming, so that the same events always fire
 * in the same order. The heap owns only its array of slots; nodes live in
 * their records.
 */
#ifndef RLOCKD_BASE_HEAP_H
#define RLOCKD_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t at_us; /* when it is due */
    uint32_t pos;  /* 1-based place in the array; 0 = not in the heap */
    uint32_t what; /* of use to who owns the record: the heap does not look at it */
};

/* What the order depends on lies in the array, so that no record is looked at to find the place of another. */
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

/* Makes room for `room` nodes in all; false when out of memory (nothing changed). */
bool heap_reserve(struct heap *h, size_t room);

/* Inserts or moves. Room must have been reserved for a node that is not in yet (asserted). */
void heap_set(struct heap *h, struct heap_node *n, int64_t at_us);

/* Harmless when the node is not in the heap. */
void heap_remove(struct heap *h, struct heap_node *n);

/* The earliest node, or NULL. */
struct heap_node *heap_min(const struct heap *h);

#endif
