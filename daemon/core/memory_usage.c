/*
 * memory_usage.c -- how much memory the records of a lock and of a session take. Changes nothing.
 *
 * The count has the blocks of the records, with what the allocator adds to each, and their part of the tables: an array
 * grows by doubling, and counts whole.
 */
#include <malloc.h>

#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/lock.h"
#include "daemon/core/owners.h"
#include "daemon/core/state.h"
#include "daemon/core/view.h"

static size_t
block(void *p)
{
    return malloc_usable_size(p) + sizeof(size_t);
}

/* The part of one record in the table. */
static size_t
map_share(const struct map *m)
{
    return m->room * sizeof(struct map_node *) / m->count;
}

/* The part of one armed timer. */
static size_t
timer_share(const struct core *c)
{
    return c->timers.count > 0 ? c->timers.room * sizeof(struct heap_slot) / c->timers.count : 0;
}

static size_t
memory_of_claim(const struct core *c, struct claim *cl)
{
    size_t prefix = claim_prefix_bytes(cl->lock);

    return block((char *)cl - prefix) + map_share(&c->claims) + (prefix > 0 ? map_share(&c->tokens) : 0) +
           timer_share(c);
}

static size_t
memory_of_lock(const struct core *c, struct lock *l)
{
    size_t n = block((char *)l - lock_prefix_bytes(l->has_key)) + map_share(&c->by_name);
    struct list *pos, *nxt;

    n += l->has_key ? map_share(&c->by_key) : 0;
    n += lock_has_queue(l) ? block(l->queue) + map_share(&c->queues) + timer_share(c) : 0;
    list_for_each_safe(pos, nxt, &l->holders)
    {
        n += memory_of_claim(c, container_of(pos, struct claim, node));
    }
    return n;
}

/* A name with more holders than these is not counted: it is no usual lock, and may have any number of holders. */
enum { HOLDERS_MAX = 16 };

struct core_memory
core_memory_of_locks(const struct core *c, size_t most)
{
    struct core_memory w = {0, 0};

    for (struct lock *l = domains_next_lock(c, NULL); l != NULL && most > 0; l = domains_next_lock(c, l), most--) {
        if (l->held_n > 0 && l->held_n <= HOLDERS_MAX) {
            w.n++;
            w.bytes += memory_of_lock(c, l);
        }
    }
    return w;
}

size_t
core_memory_of_session(struct core *c, uint64_t session)
{
    struct core_session *s = core_session_find(c, session);

    return s != NULL ? block(s) + block(s->owner) + map_share(&c->sessions) + timer_share(c) : 0;
}
