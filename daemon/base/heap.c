/*
 * heap.c -- intrusive binary min-heap of deadlines.
 *
 * Owns the array, never the nodes. Invariants:
 *
 * H1  node[i]->pos == i + 1 for every i < count; pos == 0 for nodes that are out.
 * H2  No node is due before its parent: (at_us, seq) rises from root to leaf.
 * H3  seq is never used twice, so the order is total.
 */
#include "daemon/base/heap.h"

#include <assert.h>
#include <stdlib.h>

void
heap_init(struct heap *h)
{
    *h = (struct heap){.node = NULL};
}

void
heap_fini(struct heap *h)
{
    size_t i;

    for (i = 0; i < h->count; i++) {
        h->node[i]->pos = 0;
    }
    free(h->node);
    heap_init(h);
}

bool
heap_reserve(struct heap *h, size_t room)
{
    size_t want = h->room > 0 ? h->room : 16;
    struct heap_node **node;

    if (room <= h->room) {
        return true;
    }
    if (room > SIZE_MAX / sizeof(*node) / 2) {
        return false;
    }
    while (want < room) {
        want *= 2;
    }
    node = realloc(h->node, want * sizeof(*node));
    if (node == NULL) {
        return false;
    }
    h->node = node;
    h->room = want;
    return true;
}

static bool
before(const struct heap_node *a, const struct heap_node *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void
put(struct heap *h, size_t i, struct heap_node *n)
{
    h->node[i] = n;
    n->pos = i + 1;
}

/* Moves n, now at i, to where H2 holds again. */
static void
settle(struct heap *h, size_t i, struct heap_node *n)
{
    size_t child;

    while (i > 0 && before(n, h->node[(i - 1) / 2])) {
        put(h, i, h->node[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    while ((child = 2 * i + 1) < h->count) {
        if (child + 1 < h->count && before(h->node[child + 1], h->node[child])) {
            child++;
        }
        if (!before(h->node[child], n)) {
            break;
        }
        put(h, i, h->node[child]);
        i = child;
    }
    put(h, i, n);
}

void
heap_set(struct heap *h, struct heap_node *n, int64_t at_us)
{
    n->at_us = at_us;
    n->seq = ++h->seq;
    if (n->pos == 0) {
        assert(h->count < h->room);
        h->count++;
        put(h, h->count - 1, n);
    }
    assert(n->pos <= h->count && h->node[n->pos - 1] == n);
    settle(h, n->pos - 1, n);
}

void
heap_remove(struct heap *h, struct heap_node *n)
{
    size_t i;
    struct heap_node *last;

    if (n->pos == 0) {
        return;
    }
    assert(n->pos <= h->count && h->node[n->pos - 1] == n);
    i = n->pos - 1;
    n->pos = 0;
    last = h->node[--h->count];
    if (last != n) {
        settle(h, i, last);
    }
}

struct heap_node *
heap_min(const struct heap *h)
{
    return h->count > 0 ? h->node[0] : NULL;
}
