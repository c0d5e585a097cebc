/*
 * claim_index.h -- how claims are found: by id, by token, by lock and owner; private to daemon/core.
 */
#ifndef RLOCKD_CORE_CLAIM_INDEX_H
#define RLOCKD_CORE_CLAIM_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/core/claim.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"

struct core;

/* claim_index.c */
/* An owner's claims to one name with permits: the permits that it holds, waits for or gives back. */
struct permit_set {
    struct map_node by_pair; /* core.permit_sets; its number is a keyed hash of both */
    const struct lock *lock;
    const struct owner *owner;
    struct list held;        /* permit.node, by rising tokens */
    struct list others;
    struct heap ends;        /* permit.end: deadlines of those that are held */
    uint32_t held_n, claims_n;
};
/* NULL: the owner has no claim on the lock, or the lock has no permits. */
struct permit_set *permit_set_find(const struct core *c, const struct lock *l, const struct owner *o);
/* the number of permits that its owner holds beside `but` */
int64_t permit_set_held_beside(const struct core *c, const struct claim *but);
struct claim *permit_set_first_end(struct claim *of); /* the held permit of its owner that ends first; NULL: none */
void permit_set_moved(struct claim *cl, bool was_held); /* the state of the claim has changed */
void permit_set_swapped(struct claim *a, struct claim *b); /* two claims have exchanged their owners */
void permit_set_deadline(struct claim *cl); /* HELD: the deadline may have changed */
/*
 * Iterates over the claims of one owner on one lock (one at most, except of kinds with permits), on the shorter of both
 * lists: a hot name has many claims, but most owners have few. The caller may move the claim that
 * claim_iter_next() has returned, and no other.
 */
struct claim_iter {
    const struct lock *lock;
    const struct owner *owner;
    const struct list *head[3]; /* lists that have all of them */
    struct list *next;
    int at, heads_n;
    bool by_owner;
};
void claim_iter_begin(struct claim_iter *p, const struct lock *l, const struct owner *o);
struct claim *claim_iter_next(struct claim_iter *p); /* NULL: no more */
struct claim *claim_find(const struct core *c, const struct lock *l, const struct owner *o);
void claim_index(struct core *c, struct claim *cl); /* gives it its id */
void claim_unindex(struct core *c, struct claim *cl);
void claim_set_token(struct core *c, struct claim *cl, uint64_t token);
struct claim *claim_by_token(const struct core *c, const struct lock *l, uint64_t token); /* NULL: no claim has it */
/* the first on the list in one of these states; NULL: none */
struct claim *claim_first(const struct list *list, unsigned states);
/* NULL: a new one is needed */
struct claim *claim_to_join(const struct core *c, const struct lock *l, const struct owner *o, bool once);
/* the claim by which the owner holds the lock, of permits the newest; NULL: it does not hold it */
struct claim *claim_newest_held(const struct core *c, const struct lock *l, const struct owner *o);

/*
 * Claims of a lock with several holders are found by their tokens: by a node that lies in front of the record. Its
 * number is the token; of a claim without a token the claim's id, so that every claim has a node in the table.
 */
static inline struct map_node *
claim_token_node(struct claim *cl)
{
    return (struct map_node *)(void *)cl - 1;
}

/* What lies in front of the claim of a permit; its last member is that node. */
struct permit {
    struct permit_set *set;
    struct list node;     /* permit_set.held, permit_set.others */
    struct heap_node end; /* HELD: permit_set.ends */
    struct map_node token;
};

static inline struct permit *
claim_permit(struct claim *cl)
{
    return (struct permit *)(void *)cl - 1;
}

static inline struct claim *
permit_claim(struct permit *p)
{
    return (struct claim *)(void *)(p + 1);
}

static inline size_t
claim_prefix_bytes(const struct lock *l)
{
    size_t node = lock_allows_several(l) ? sizeof(struct map_node) : 0;

    return policy(l)->claim_each ? sizeof(struct permit) : node;
}

#endif
