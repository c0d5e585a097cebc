/*
 * lock_index.c -- how the record of a lock is made, and found: by its name, and by its key in Redis.
 *
 * Owns both tables. One key is one lock (I18): a request for which lock_conflict() finds a record must be refused
 * before lock_new(). A record whose key is its name is only in the table of names; other records have a second node,
 * which lies in front of them.
 */
#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/cursors.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/state.h"

static struct lock *
find_name(const struct core *c, struct slice name, uint64_t number)
{
    struct map_node *n = map_find(&c->by_name, number);

    while (n != NULL && !slice_eq(lock_name(container_of(n, struct lock, by_name)), name)) {
        n = map_next(n);
    }
    return n != NULL ? container_of(n, struct lock, by_name) : NULL;
}

struct lock *
lock_find(const struct core *c, struct slice name)
{
    return find_name(c, name, hash_bytes(&c->key, name.p, name.n));
}

struct lock *
lock_find_and_hash(const struct core *c, struct slice name, uint64_t *number)
{
    *number = hash_bytes(&c->key, name.p, name.n);
    return find_name(c, name, *number);
}

static struct lock *
of_key_node(struct map_node *n)
{
    return (struct lock *)(void *)(n + 1);
}

struct lock *
lock_find_by_key(const struct core *c, struct slice key)
{
    uint64_t number = hash_bytes(&c->key, key.p, key.n);
    struct lock *l = find_name(c, key, number);
    struct map_node *n;

    if (l != NULL && !l->has_key) {
        return l;
    }
    n = map_find(&c->by_key, number);
    while (n != NULL && !slice_eq(lock_key(of_key_node(n)), key)) {
        n = map_next(n);
    }
    return n != NULL ? of_key_node(n) : NULL;
}

/*
 * Auxiliary keys contain the lock's key in braces, unless the key has braces already (scripts/common.lua): so K and {K}
 * share them. Returns the twin of the key; n == 0: there is none.
 */
static struct slice
twin_of(struct slice key, char room[TWIN_BYTES])
{
    if (memchr(key.p, '{', key.n) == NULL && key.n + 2 <= TWIN_BYTES) {
        room[0] = '{';
        memcpy(room + 1, key.p, key.n);
        room[key.n + 1] = '}';
        return (struct slice){room, key.n + 2};
    }
    if (key.n > 2 && key.p[0] == '{' && memchr(key.p + 1, '{', key.n - 1) == NULL && key.p[key.n - 1] == '}') {
        return (struct slice){key.p + 1, key.n - 2};
    }
    return (struct slice){NULL, 0};
}

struct lock *
lock_sharing_aux_keys(const struct core *c, struct slice key)
{
    char room[TWIN_BYTES];
    struct slice twin = twin_of(key, room);
    struct lock *l = twin.n > 0 ? lock_find_by_key(c, twin) : NULL;

    return l != NULL && policy(l)->aux_keys ? l : NULL;
}

struct lock *
lock_conflict(const struct core *c, const struct core_request *rq)
{
    /* plain: each record's key is its name, so a record with this key would have this name, which has no record */
    bool plain = c->by_key.count == 0 && slice_eq(rq->name, rq->spec.key);
    struct lock *l = plain ? NULL : lock_find_by_key(c, rq->spec.key);

    return l == NULL && kind_policies[rq->spec.kind].aux_keys ? lock_sharing_aux_keys(c, rq->spec.key) : l;
}

/* The size of a lock record with so much text. */
static size_t
lock_bytes(size_t text_n)
{
    size_t whole = offsetof(struct lock, text) + text_n;

    return whole > sizeof(struct lock) ? whole : sizeof(struct lock);
}

static void
lock_give(struct core *c, struct lock *l)
{
    size_t prefix = lock_prefix_bytes(l->has_key);

    freelist_give(&c->freelist, (char *)l - prefix, prefix + lock_bytes(l->name_n + (l->has_key ? l->key_n : 0)));
}

/* Zeroed, with its name and its key. */
static struct lock *
lock_alloc(struct core *c, struct slice name, struct slice key)
{
    bool has_key = !slice_eq(name, key);
    size_t prefix = lock_prefix_bytes(has_key);
    char *block = freelist_take_zeroed(&c->freelist, prefix + lock_bytes(name.n + (has_key ? key.n : 0)));
    struct lock *l;

    l = (struct lock *)(void *)(block + prefix);
    assert(name.n <= UINT16_MAX && key.n <= UINT16_MAX);
    l->name_n = (uint16_t)name.n;
    l->key_n = (uint16_t)key.n;
    l->has_key = has_key;
    memcpy(l->text, name.p, name.n);
    memcpy(l->text + name.n, key.p, has_key ? key.n : 0);
    return l;
}

/* A lock has joined the domain, or left it: domain_with_locks() finds the domain by its bit. */
static void
note_domain(struct core *c, uint32_t i)
{
    uint64_t bit = UINT64_C(1) << i % 64;

    if (list_empty(&c->domain[i].locks)) {
        c->domain_has_locks[i / 64] &= ~bit;
    } else {
        c->domain_has_locks[i / 64] |= bit;
    }
}

struct lock *
lock_new(struct core *c, struct slice name, uint64_t number, const struct core_spec *spec)
{
    struct lock *l = lock_alloc(c, name, spec->key);

    l->kind = spec->kind;
    l->rule_kind = spec->rule_kind;
    l->value = spec->value;
    assert(spec->domain < c->domains_n);
    l->domain = spec->domain;
    l->domain_review = lock_domain(c, l)->review.number & ((1u << DOMAIN_REVIEW_BITS) - 1);
    list_init(&l->holders);
    list_init(&l->rest);
    l->queue = &c->empty_queue;
    map_add(&c->by_name, &l->by_name, number);
    if (l->has_key) {
        map_add(&c->by_key, lock_key_node(l), hash_bytes(&c->key, spec->key.p, spec->key.n));
    }
    list_push_back(&lock_domain(c, l)->locks, &l->all);
    if (lock_domain(c, l)->end_bookmark != NULL) {
        cursors_join(c, l);
    }
    note_domain(c, l->domain);
    c->locks_n++;
    return l;
}

void
lock_delete(struct core *c, struct lock *l)
{
    map_remove(&c->by_name, &l->by_name);
    if (l->has_key) {
        map_remove(&c->by_key, lock_key_node(l));
    }
    list_remove(&l->all);
    note_domain(c, l->domain);
    c->locks_n--;
    lock_give(c, l);
}
