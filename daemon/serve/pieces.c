/*
 * pieces.c -- a list of outboxes, of which the last one grows.
 */
#include "daemon/serve/pieces.h"

#include <stdlib.h>

enum {
    FULL_BYTES = 63 * 1024 /* nothing is begun behind them: with the next value a block is about 64 KiB */
};

struct piece {
    struct list node; /* pieces.list */
    struct outbox box;
};

static struct piece *
piece_of(struct list *node)
{
    return container_of(node, struct piece, node);
}

void
pieces_init(struct pieces *p, size_t bytes_max)
{
    *p = (struct pieces){.max = bytes_max};
    list_init(&p->list);
}

void
pieces_fini(struct pieces *p)
{
    struct outbox box;

    while (pieces_shift(p, &box)) {
        outbox_fini(&box);
    }
}

struct outbox *
pieces_last(const struct pieces *p)
{
    return list_empty(&p->list) ? NULL : &piece_of(p->list.prev)->box;
}

size_t
pieces_bytes(const struct pieces *p)
{
    const struct outbox *last = pieces_last(p);

    return p->bytes + (last != NULL ? last->bytes.n : 0);
}

bool
pieces_whole(const struct pieces *p)
{
    const struct outbox *last = pieces_last(p);

    return !p->failed && (last == NULL || !last->bytes.failed) && (p->max == 0 || pieces_bytes(p) <= p->max);
}

struct outbox *
pieces_end(struct pieces *p)
{
    struct outbox *last = pieces_last(p);
    struct piece *more;

    p->failed = !pieces_whole(p);
    if (p->failed || (last != NULL && last->bytes.n < FULL_BYTES)) {
        return p->failed ? NULL : last;
    }
    more = malloc(sizeof(*more));
    if (more == NULL) {
        p->failed = true;
        return NULL;
    }
    p->bytes = pieces_bytes(p);
    outbox_init(&more->box);
    list_push_back(&p->list, &more->node);
    return &more->box;
}

bool
pieces_shift(struct pieces *p, struct outbox *out)
{
    struct piece *first;

    if (list_empty(&p->list)) {
        return false;
    }
    first = piece_of(p->list.next);
    *out = first->box;
    list_remove(&first->node);
    free(first);
    p->bytes -= list_empty(&p->list) ? 0 : out->bytes.n;
    return true;
}

void
pieces_move(struct pieces *to, struct pieces *from)
{
    if (!list_empty(&from->list)) {
        to->bytes = pieces_bytes(to) + from->bytes;
        list_move_all(&to->list, &from->list);
    }
    from->bytes = 0;
}
