/*
 * peers.c -- a map of members. Owns its records; PEERS_MAX at most; `overflow` says that not all are known.
 */
#include "daemon/backend/peers.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/list.h"
#include "daemon/base/memory.h"

struct peer {
    struct map_node node;
    char uuid[PEERS_UUID_BYTES];
    unsigned round;
    int64_t lease_ms;
    uint64_t version;
};

void
peers_init(struct peers *p, const struct hash_key *key)
{
    *p = (struct peers){.key = *key};
}

static void
drop(struct peers *p, struct peer *who)
{
    p->longest_stale = p->longest_stale || who->lease_ms == p->longest_ms;
    map_remove(&p->by_uuid, &who->node);
    free(who);
}

void
peers_fini(struct peers *p)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &p->by_uuid) {
        drop(p, container_of(n, struct peer, node));
    }
    map_fini(&p->by_uuid);
}

size_t
peers_count(const struct peers *p)
{
    return p->by_uuid.count;
}

/* The longest lease of all, when one of those has gone, or has become shorter. */
static void
settle(struct peers *p)
{
    struct map_node *n, *nxt;

    if (!p->longest_stale) {
        return;
    }
    p->longest_stale = false;
    p->longest_ms = 0;
    map_for_each_safe(n, nxt, &p->by_uuid) {
        const struct peer *who = container_of(n, struct peer, node);

        p->longest_ms = who->lease_ms > p->longest_ms ? who->lease_ms : p->longest_ms;
    }
}

static struct peer *
find(const struct peers *p, struct slice uuid, uint64_t number)
{
    struct map_node *n = map_find(&p->by_uuid, number);

    while (n != NULL && memcmp(container_of(n, struct peer, node)->uuid, uuid.p, PEERS_UUID_BYTES) != 0) {
        n = map_next(n);
    }
    return n == NULL ? NULL : container_of(n, struct peer, node);
}

static struct peer *
add(struct peers *p, struct slice uuid, uint64_t number)
{
    struct peer *who;

    if (peers_count(p) >= PEERS_MAX) {
        p->overflow = true;
        return NULL;
    }
    who = mem_zalloc(sizeof(*who));
    memcpy(who->uuid, uuid.p, PEERS_UUID_BYTES);
    map_add(&p->by_uuid, &who->node, number);
    return who;
}

void
peers_put(struct peers *p, struct slice uuid, int64_t lease_ms, uint64_t version)
{
    uint64_t number = hash_bytes(&p->key, uuid.p, PEERS_UUID_BYTES);
    struct peer *who = find(p, uuid, number);

    p->last = version > p->last ? version : p->last;
    who = who == NULL ? add(p, uuid, number) : who;
    if (who == NULL) {
        return;
    }
    who->round = p->round;
    if (version >= who->version) {
        p->longest_stale = p->longest_stale || (who->lease_ms == p->longest_ms && lease_ms < who->lease_ms);
        p->longest_ms = lease_ms > p->longest_ms ? lease_ms : p->longest_ms;
        who->lease_ms = lease_ms;
        who->version = version;
    }
    settle(p);
}

void
peers_remove(struct peers *p, struct slice uuid, uint64_t version)
{
    struct peer *who = find(p, uuid, hash_bytes(&p->key, uuid.p, PEERS_UUID_BYTES));

    if (who != NULL && who->version < version) {
        drop(p, who);
        settle(p);
    }
}

void
peers_begin(struct peers *p)
{
    p->round++;
    p->overflow = false;
}

void
peers_end(struct peers *p, uint64_t version)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &p->by_uuid) {
        struct peer *who = container_of(n, struct peer, node);

        if (who->round != p->round && who->version <= version) {
            drop(p, who);
        }
    }
    settle(p);
}

int64_t
peers_longest_ms(const struct peers *p)
{
    return p->longest_ms;
}

void
peers_print(const struct peers *p, struct buf *out)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &p->by_uuid) {
        buf_add(out, container_of(n, struct peer, node)->uuid, PEERS_UUID_BYTES);
    }
}
