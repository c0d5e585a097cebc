/*
 * dirty.c -- the records that have changed in this step: the end of the step looks at each once.
 *
 * A function that changes a lock, an owner or a domain marks it here, and need not know what follows from the change:
 * so no lower floor calls a higher one.
 */
#include "daemon/core/dirty.h"

#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"

void
dirty_mark_lock(struct core *c, struct lock *l)
{
    if (!l->dirty) {
        l->dirty = true;
        *c->dirty_locks.end = l;
        c->dirty_locks.end = &l->dirty_next;
    }
}

/* RECLAIMED may be due. */
void
dirty_mark_domain(struct core *c, struct domain *d)
{
    if (d->epoch != 0 && !list_linked(&d->dirty_node)) {
        list_push_back(&c->dirty_domains, &d->dirty_node);
    }
}

void
dirty_mark_owner(struct core *c, struct owner *o)
{
    if (!list_linked(&o->dirty_node)) {
        list_push_back(&c->dirty_owners, &o->dirty_node);
    }
}
