/*
 * pieces.c -- a list of outboxes, of which the last one grows.
 */
#include "daemon/serve/pieces.h"

#include <stdlib.h>

#include "daemon/base/memory.h"

/* A piece of this size is full: with one value more, of usual length, it fits into a block of 64 or 256 KiB. */
enum { FIRST_BYTES = 62 * 1024, MORE_BYTES = 248 * 1024 };

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
    return !p->failed && (p->max == 0 || pieces_bytes(p) <= p->max);
}

struct outbox *
pieces_end(struct pieces *p)
{
    size_t full = list_alone(&p->list) ? FIRST_BYTES : MORE_BYTES;
    struct outbox *last = pieces_last(p);
    struct piece *more;

    p->failed = !pieces_whole(p);
    if (p->failed || (last != NULL && last->bytes.n < full)) {
        return p->failed ? NULL : last;
    }
    more = mem_alloc(sizeof(*more));
    p->bytes = pieces_bytes(p);
    outbox_init(&more->box);
    if (last != NULL) { /* at once, so that it is a mapping of its own: see keep_no_peak() of rlockd.c */
        (void)buf_space(&more->box.bytes, MORE_BYTES);
    }
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
