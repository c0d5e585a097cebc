/*
 * chunks.c -- a list of outboxes, of which the last one grows.
 */
#include "daemon/serve/chunks.h"

#include <stdlib.h>

#include "daemon/base/memory.h"

/* From this size on a chunk is full: even with one more value of usual length it fits into 64 or 256 KiB. */
enum { FIRST_BYTES = 62 * 1024, MORE_BYTES = 248 * 1024 };

struct chunk {
    struct list node; /* chunks.list */
    struct outbox box;
};

static struct chunk *
chunk_of(struct list *node)
{
    return container_of(node, struct chunk, node);
}

void
chunks_init(struct chunks *p, size_t bytes_max)
{
    *p = (struct chunks){.max = bytes_max};
    list_init(&p->list);
}

void
chunks_fini(struct chunks *p)
{
    struct outbox box;

    while (chunks_shift(p, &box)) {
        outbox_fini(&box);
    }
}

struct outbox *
chunks_last(const struct chunks *p)
{
    return list_empty(&p->list) ? NULL : &chunk_of(p->list.prev)->box;
}

size_t
chunks_bytes(const struct chunks *p)
{
    const struct outbox *last = chunks_last(p);

    return p->bytes + (last != NULL ? last->bytes.n : 0);
}

bool
chunks_whole(const struct chunks *p)
{
    return !p->failed && (p->max == 0 || chunks_bytes(p) <= p->max);
}

struct outbox *
chunks_end(struct chunks *p)
{
    size_t full = list_alone(&p->list) ? FIRST_BYTES : MORE_BYTES;
    struct outbox *last = chunks_last(p);
    struct chunk *more;

    p->failed = !chunks_whole(p);
    if (p->failed || (last != NULL && last->bytes.n < full)) {
        return p->failed ? NULL : last;
    }
    more = mem_alloc(sizeof(*more));
    p->bytes = chunks_bytes(p);
    outbox_init(&more->box);
    if (last != NULL) { /* at once, so that it is a mapping of its own: see keep_no_peak() of rlockd.c */
        (void)buf_space(&more->box.bytes, MORE_BYTES);
    }
    list_push_back(&p->list, &more->node);
    return &more->box;
}

bool
chunks_shift(struct chunks *p, struct outbox *out)
{
    struct chunk *first;

    if (list_empty(&p->list)) {
        return false;
    }
    first = chunk_of(p->list.next);
    *out = first->box;
    list_remove(&first->node);
    free(first);
    p->bytes -= list_empty(&p->list) ? 0 : out->bytes.n;
    return true;
}

void
chunks_move(struct chunks *to, struct chunks *from)
{
    if (!list_empty(&from->list)) {
        to->bytes = chunks_bytes(to) + from->bytes;
        list_move_all(&to->list, &from->list);
    }
    from->bytes = 0;
}
