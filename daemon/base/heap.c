/*
 * heap.c -- intrusive min-heap of deadlines. A node has four children, which lie side by side: the heap is half as deep
 * as a binary one.
 *
 * Owns the array, never the nodes. Invariants:
 *
 * H1  slot[i].node->pos == i + 1 for every i < count; pos == 0 for nodes that are not in the heap.
 * H2  No slot is due before its parent: (at_us, seq) rises from root to leaf.
 * H3  seq is never used twice, so the order is total.
 */
#include "daemon/base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"

enum { CHILDREN = 4 };

void
heap_init(struct heap *h)
{
    *h = (struct heap){.slot = NULL};
}

void
heap_fini(struct heap *h)
{
    size_t i;

    for (i = 0; i < h->count; i++) {
        h->slot[i].node->pos = 0;
    }
    free(h->slot);
    heap_init(h);
}

static void
double_room(struct heap *h)
{
    size_t room = h->room > 0 ? 2 * h->room : 16;

    if (room > HEAP_MAX) {
        mem_exhausted(room * sizeof(*h->slot));
    }
    h->slot = mem_array(h->slot, room, sizeof(*h->slot));
    h->room = room;
}

static bool
before(const struct heap_slot *a, const struct heap_slot *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void
put(struct heap *h, size_t i, const struct heap_slot *s)
{
    h->slot[i] = *s;
    s->node->pos = (uint32_t)i + 1;
}

/* The earliest child of i; `count` when there is none. */
static size_t
first_child(const struct heap *h, size_t i)
{
    size_t at = CHILDREN * i + 1, last = at + CHILDREN < h->count ? at + CHILDREN : h->count;
    const struct heap_slot *first = &h->slot[at], *end = &h->slot[last];

    if (at >= h->count) {
        return h->count;
    }
    for (const struct heap_slot *s = first + 1; s < end; s++) {
        first = before(s, first) ? s : first;
    }
    return (size_t)(first - h->slot);
}

/* Overwrites slot i, and puts s where H2 holds. */
static void
settle(struct heap *h, size_t i, struct heap_slot s)
{
    size_t child;

    while (i > 0 && before(&s, &h->slot[(i - 1) / CHILDREN])) {
        put(h, i, &h->slot[(i - 1) / CHILDREN]);
        i = (i - 1) / CHILDREN;
    }
    while ((child = first_child(h, i)) < h->count && before(&h->slot[child], &s)) {
        put(h, i, &h->slot[child]);
        i = child;
    }
    put(h, i, &s);
}

void
heap_set(struct heap *h, struct heap_node *n, int64_t at_us)
{
    if (n->pos == 0) {
        if (h->count == h->room) {
            double_room(h);
        }
        n->pos = (uint32_t)++h->count;
    } else {
        assert(n->pos <= h->count && h->slot[n->pos - 1].node == n);
    }
    settle(h, n->pos - 1, (struct heap_slot){at_us, ++h->seq, n});
}

void
heap_remove(struct heap *h, struct heap_node *n)
{
    size_t i;

    if (n->pos == 0) {
        return;
    }
    assert(n->pos <= h->count && h->slot[n->pos - 1].node == n);
    i = n->pos - 1;
    n->pos = 0;
    if (i != --h->count) {
        settle(h, i, h->slot[h->count]);
    }
}

struct heap_node *
heap_min(const struct heap *h)
{
    return h->count > 0 ? h->slot[0].node : NULL;
}
