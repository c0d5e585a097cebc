/*
 * claim_index.c -- how claims are found: by id, by owner and lock, and by token.
 *
 * X1  A claim is in core.claims by its id. One of a kind that several may hold is in core.tokens as well, by its token; by
 *     its id while it has none, so that a token never needs memory.
 */
#include <assert.h>

#include "daemon/core/state.h"

bool
claim_index(struct core *c, struct claim *cl)
{
    uint64_t id = ++c->serial;

    if (!map_add(&c->claims, &cl->by_id, id)) {
        return false;
    }
    if (claim_front_bytes(cl->lock) > 0 && !map_add(&c->tokens, claim_token_node(cl), id)) {
        map_remove(&c->claims, &cl->by_id);
        return false;
    }
    return true;
}

void
claim_unindex(struct core *c, struct claim *cl)
{
    map_remove(&c->claims, &cl->by_id);
    if (claim_front_bytes(cl->lock) > 0) {
        map_remove(&c->tokens, claim_token_node(cl));
    }
}

void
pair_begin(struct pair *p, const struct lock *l, const struct owner *o)
{
    *p = (struct pair){.lock = l, .owner = o, .by_owner = o->claims_n <= l->claims_n};
    if (p->by_owner) {
        p->head[0] = &o->claims;
        p->heads_n = 1;
    } else {
        p->head[0] = &l->holders;
        p->head[1] = &l->queue->claims;
        p->head[2] = &l->rest;
        p->heads_n = 3;
    }
    p->next = p->head[0]->next;
}

struct claim *
pair_next(struct pair *p)
{
    for (;;) {
        struct claim *cl;

        while (p->next == p->head[p->at]) {
            if (++p->at == p->heads_n) {
                return NULL;
            }
            p->next = p->head[p->at]->next;
        }
        cl = p->by_owner ? container_of(p->next, struct claim, owner_node) : container_of(p->next, struct claim, node);
        p->next = p->next->next;
        if (cl->lock == p->lock && cl->owner == p->owner) {
            return cl;
        }
    }
}

struct claim *
claim_find(const struct lock *l, const struct owner *o)
{
    struct list *pos;
    struct pair p;

    if (o->claims_n > l->claims_n) {
        pair_begin(&p, l, o);
        return pair_next(&p);
    }
    for (pos = o->claims.next; pos != &o->claims; pos = pos->next) { /* what pair_next() would do, at half the price */
        struct claim *cl = container_of(pos, struct claim, owner_node);

        if (cl->lock == l) {
            return cl;
        }
    }
    return NULL;
}

struct claim *
claim_first(const struct list *home, unsigned states)
{
    for (struct list *pos = home->next; pos != home; pos = pos->next) {
        struct claim *cl = container_of(pos, struct claim, node);

        if (states & (1u << cl->state)) {
            return cl;
        }
    }
    return NULL;
}

/* Of a kind with permits an owner has one claim for each; of the others it has one at most. */
struct claim *
claim_newest_held(const struct lock *l, const struct owner *o, uint64_t token)
{
    struct claim *newest = NULL, *cl;
    struct pair p;

    pair_begin(&p, l, o);
    while ((cl = pair_next(&p)) != NULL) {
        if (cl->state == CLAIM_HELD && (token == 0 || cl->token == token) &&
            (newest == NULL || cl->token > newest->token)) {
            newest = cl;
        }
    }
    return newest;
}

/*
 * The claim that a LOCK is about; NULL when it needs one of its own. A permit is asked for anew each time, unless the
 * LOCK may only be a repetition (once), or the owner has a place that nobody waits in.
 */
struct claim *
claim_wanted(const struct lock *l, const struct owner *o, bool once)
{
    struct claim *kept = NULL, *cl;
    struct pair p;

    if (!lock_is(l, KIND_F_PERMITS)) {
        return claim_find(l, o);
    }
    pair_begin(&p, l, o);
    while ((cl = pair_next(&p)) != NULL) {
        bool busy = cl->refs > 0 || cl->state == CLAIM_HELD;

        if (cl->state == CLAIM_FREEING || cl->state == CLAIM_SWEEP) {
            continue;
        }
        if (busy && once) {
            return cl;
        }
        kept = busy || kept != NULL ? kept : cl;
    }
    return kept;
}

void
claim_set_token(struct core *c, struct claim *cl, uint64_t token)
{
    bool added = true;

    cl->token = token;
    if (claim_front_bytes(cl->lock) > 0) {
        map_remove(&c->tokens, claim_token_node(cl));
        added = map_add(&c->tokens, claim_token_node(cl), token != 0 ? token : claim_id(cl));
    }
    assert(added); /* where it was there is room */
}

static bool
stands_for(const struct claim *cl, uint64_t token)
{
    return cl->token == token && cl->state != CLAIM_QUEUED && cl->state != CLAIM_TRYING;
}

/* Whoever holds the name by it, or held it and does not know of the loss yet. */
struct claim *
claim_by_token(const struct core *c, const struct lock *l, uint64_t token)
{
    const struct list *lists[] = {&l->holders, &l->rest};
    struct list *pos, *nxt;

    if (claim_front_bytes(l) > 0) {
        for (struct map_node *n = map_find(&c->tokens, token); n != NULL; n = map_next(n)) {
            struct claim *cl = (struct claim *)(void *)(n + 1);

            if (cl->lock == l && stands_for(cl, token)) {
                return cl;
            }
        }
        return NULL;
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) { /* one holder, and those that are told of a loss */
        list_each(pos, nxt, lists[i])
        {
            struct claim *cl = container_of(pos, struct claim, node);

            if (stands_for(cl, token)) {
                return cl;
            }
        }
    }
    return NULL;
}
