/*
 * members.c -- a map of members. Owns its records; MEMBERS_MAX at most; `overflow`: not all are known.
 */
#include "daemon/backend/members.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/list.h"
#include "daemon/base/memory.h"

struct member {
    struct map_node node;
    char uuid[MEMBERS_UUID_BYTES];
    unsigned round;
    int64_t lease_ms;
    uint64_t version;
};

void
members_init(struct members *p, const struct hash_key *key)
{
    *p = (struct members){.key = *key};
}

static void
drop(struct members *p, struct member *m)
{
    p->longest_stale = p->longest_stale || m->lease_ms == p->longest_ms;
    map_remove(&p->by_uuid, &m->node);
    free(m);
}

void
members_fini(struct members *p)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &p->by_uuid) {
        drop(p, container_of(n, struct member, node));
    }
    map_fini(&p->by_uuid);
}

size_t
members_count(const struct members *p)
{
    return p->by_uuid.count;
}

/* Finds the longest lease anew, if the member that had it has gone, or has a shorter one now. */
static void
update_longest(struct members *p)
{
    struct map_node *n, *nxt;

    if (!p->longest_stale) {
        return;
    }
    p->longest_stale = false;
    p->longest_ms = 0;
    map_for_each_safe(n, nxt, &p->by_uuid) {
        const struct member *m = container_of(n, struct member, node);

        p->longest_ms = m->lease_ms > p->longest_ms ? m->lease_ms : p->longest_ms;
    }
}

static struct member *
find(const struct members *p, struct slice uuid, uint64_t hash)
{
    struct map_node *n = map_find(&p->by_uuid, hash);

    while (n != NULL && memcmp(container_of(n, struct member, node)->uuid, uuid.p, MEMBERS_UUID_BYTES) != 0) {
        n = map_next(n);
    }
    return n == NULL ? NULL : container_of(n, struct member, node);
}

static struct member *
add(struct members *p, struct slice uuid, uint64_t hash)
{
    struct member *m;

    if (members_count(p) >= MEMBERS_MAX) {
        p->overflow = true;
        return NULL;
    }
    m = mem_zalloc(sizeof(*m));
    memcpy(m->uuid, uuid.p, MEMBERS_UUID_BYTES);
    map_add(&p->by_uuid, &m->node, hash);
    return m;
}

void
members_put(struct members *p, struct slice uuid, int64_t lease_ms, uint64_t version)
{
    uint64_t hash = hash_bytes(&p->key, uuid.p, MEMBERS_UUID_BYTES);
    struct member *m = find(p, uuid, hash);

    p->last = version > p->last ? version : p->last;
    m = m == NULL ? add(p, uuid, hash) : m;
    if (m == NULL) {
        return;
    }
    m->round = p->round;
    if (version >= m->version) {
        p->longest_stale = p->longest_stale || (m->lease_ms == p->longest_ms && lease_ms < m->lease_ms);
        p->longest_ms = lease_ms > p->longest_ms ? lease_ms : p->longest_ms;
        m->lease_ms = lease_ms;
        m->version = version;
    }
    update_longest(p);
}

void
members_remove(struct members *p, struct slice uuid, uint64_t version)
{
    struct member *m = find(p, uuid, hash_bytes(&p->key, uuid.p, MEMBERS_UUID_BYTES));

    if (m != NULL && m->version < version) {
        drop(p, m);
        update_longest(p);
    }
}

void
members_begin(struct members *p)
{
    p->round++;
    p->overflow = false;
}

void
members_end(struct members *p, uint64_t version)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &p->by_uuid) {
        struct member *m = container_of(n, struct member, node);

        if (m->round != p->round && m->version <= version) {
            drop(p, m);
        }
    }
    update_longest(p);
}

int64_t
members_longest_ms(const struct members *p)
{
    return p->longest_ms;
}

void
members_print(const struct members *p, struct buf *out)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &p->by_uuid) {
        buf_add(out, container_of(n, struct member, node)->uuid, MEMBERS_UUID_BYTES);
    }
}
