/*
 * domains.c -- the table of the domains, and the iteration over all locks, domain by domain.
 *
 * The table has its length for the core's life: one record with one Redis, one for each slot in a cluster.
 */
#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/domain.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

void
domains_init(struct core *c, uint32_t n)
{
    assert(n >= 1 && n <= DOMAINS_MAX);
    c->domains_n = n;
    c->domain = mem_array(NULL, n, sizeof(*c->domain));
    c->domain_has_locks = mem_zalloc((n + 63) / 64 * sizeof(*c->domain_has_locks));
    for (uint32_t i = 0; i < n; i++) {
        struct domain *d = &c->domain[i];

        *d = (struct domain){.epoch = 0};
        list_init(&d->locks);
        list_init(&d->dirty_node);
        for (int kind = 0; kind < WALKS; kind++) {
            walk_init(&d->walk[kind], (enum walk_kind)kind);
        }
    }
}

void
domains_fini(struct core *c)
{
    free(c->domain_has_locks);
    c->domain_has_locks = NULL;
    free(c->domain);
    c->domain = NULL;
    c->domains_n = 0;
}

struct lock *
domains_next_lock(const struct core *c, const struct lock *l)
{
    uint32_t i;

    if (l != NULL && l->all.next != &lock_domain(c, l)->locks) {
        return container_of(l->all.next, struct lock, all);
    }
    i = domain_with_locks(c, l != NULL ? l->domain + 1u : 0);
    return i < c->domains_n ? container_of(c->domain[i].locks.next, struct lock, all) : NULL;
}
