/*
 * claim_index.c -- how claims are found: by id, by owner and lock, and by token.
 *
 * X1  A claim is in core.claims by its id. One of a kind that several may hold is in core.tokens as well, by its token;
 *     by its id while it has none.
 * X2  Each permit is in the set of its owner and its lock (core.permit_sets): HELD in `held`, which is in the order of
 *     tokens, and in `ends`; else in `others`. So however many permits of a name one owner holds, a LOCK or UNLOCK
 *     looks only at those that it waits for, gives back or has lost; at all of them while ended leases, or a BREAK, are
 *     still to be worked off: permit_set_held_beside().
 */
#include "daemon/core/claim_index.h"

#include <assert.h>

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"

/* ---- permits ---- */

static uint64_t
pair_of(const struct core *c, const struct lock *l, const struct owner *o)
{
    const uint64_t ids[] = {l->by_name.number, o->id};

    return hash_bytes(&c->key, ids, sizeof(ids));
}

struct permit_set *
permit_set_find(const struct core *c, const struct lock *l, const struct owner *o)
{
    struct map_node *n;

    if (!policy(l)->claim_each) {
        return NULL;
    }
    for (n = map_find(&c->permit_sets, pair_of(c, l, o)); n != NULL; n = map_next(n)) {
        struct permit_set *set = container_of(n, struct permit_set, by_pair);

        if (set->lock == l && set->owner == o) {
            return set;
        }
    }
    return NULL;
}

static struct permit_set *
permit_set_new(struct core *c, const struct claim *cl)
{
    struct permit_set *set = freelist_take_zeroed(&c->freelist, sizeof(*set));

    map_add(&c->permit_sets, &set->by_pair, pair_of(c, cl->lock, cl->owner));
    set->lock = cl->lock;
    set->owner = cl->owner;
    list_init(&set->held);
    list_init(&set->others);
    heap_init(&set->ends);
    return set;
}

static void
permit_set_free_empty(struct core *c, struct permit_set *set)
{
    if (set->claims_n == 0) {
        map_remove(&c->permit_sets, &set->by_pair);
        heap_fini(&set->ends);
        freelist_give(&c->freelist, set, sizeof(*set));
    }
}

static void
permit_set_join(struct core *c, struct claim *cl)
{
    struct permit_set *set = permit_set_find(c, cl->lock, cl->owner);

    set = set != NULL ? set : permit_set_new(c, cl);
    set->claims_n++;
    claim_permit(cl)->set = set;
    claim_permit(cl)->end = (struct heap_node){.what = 0};
    list_push_back(&set->others, &claim_permit(cl)->node);
}

/* Takes the permit off its list and its heap; permit_set_put() puts it onto those that its state names. */
static void
permit_set_take_off(struct claim *cl, bool held)
{
    struct permit *p = claim_permit(cl);

    p->set->held_n -= held;
    list_remove(&p->node);
    heap_remove(&p->set->ends, &p->end);
}

static void
permit_set_put(struct claim *cl)
{
    struct permit *p = claim_permit(cl);
    struct list *pos = &p->set->held;

    if (cl->state != CLAIM_HELD) {
        list_push_back(&p->set->others, &p->node);
        return;
    }
    /* only a restored permit joins in front of others, and one that is handed over, until it has its new token */
    while (cl->token != 0 && pos->prev != &p->set->held &&
           permit_claim(container_of(pos->prev, struct permit, node))->token > cl->token) {
        pos = pos->prev;
    }
    list_insert_before(pos, &p->node);
    heap_set(&p->set->ends, &p->end, cl->hold.deadline_us);
    p->set->held_n++;
}

/* NULL: the kind has no permits: an owner has one claim on a name at most. */
static struct permit *
permit_of(struct claim *cl)
{
    return policy(cl->lock)->claim_each ? claim_permit(cl) : NULL;
}

void
permit_set_moved(struct claim *cl, bool was_held)
{
    if (permit_of(cl) != NULL && (was_held || cl->state == CLAIM_HELD)) {
        permit_set_take_off(cl, was_held);
        permit_set_put(cl);
    }
}

void
permit_set_swapped(struct claim *a, struct claim *b)
{
    if (permit_of(a) != NULL) {
        struct permit_set *of_a = claim_permit(a)->set;

        permit_set_take_off(a, a->state == CLAIM_HELD);
        permit_set_take_off(b, b->state == CLAIM_HELD);
        claim_permit(a)->set = claim_permit(b)->set;
        claim_permit(b)->set = of_a;
        permit_set_put(a);
        permit_set_put(b);
    }
}

void
permit_set_deadline(struct claim *cl)
{
    struct permit *p = permit_of(cl);

    if (p != NULL && heap_at(&p->set->ends, &p->end) != cl->hold.deadline_us) {
        heap_set(&p->set->ends, &p->end, cl->hold.deadline_us);
    }
}

/* Looks at each permit only while the timer of an ended lease, or the job of a BREAK, is still due. */
int64_t
permit_set_held_beside(const struct core *c, const struct claim *but)
{
    const struct permit_set *set = permit_set_find(c, but->lock, but->owner);
    struct list *pos, *nxt;
    int64_t n = 0;

    if (set == NULL) {
        return 0;
    }
    if (heap_min_at(&set->ends) > c->now_us && !job_is_pending(&but->lock->queue->break_job)) {
        return (int64_t)set->held_n - (but->state == CLAIM_HELD);
    }
    list_for_each_safe(pos, nxt, &set->held)
    {
        const struct claim *cl = permit_claim(container_of(pos, struct permit, node));

        n += cl != but && claim_is_held(cl, c->now_us);
    }
    return n;
}

struct claim *
permit_set_first_end(struct claim *of)
{
    struct permit *p = permit_of(of);
    struct heap_node *n = p != NULL ? heap_min(&p->set->ends) : NULL;

    return n != NULL ? permit_claim(container_of(n, struct permit, end)) : NULL;
}

/* ---- all of them ---- */

void
claim_index(struct core *c, struct claim *cl)
{
    uint64_t id = ++c->serial;

    map_add(&c->claims, &cl->by_id, id);
    if (claim_prefix_bytes(cl->lock) > 0) {
        map_add(&c->tokens, claim_token_node(cl), id);
    }
    if (permit_of(cl) != NULL) {
        permit_set_join(c, cl);
    }
}

void
claim_unindex(struct core *c, struct claim *cl)
{
    struct permit *p = permit_of(cl);

    map_remove(&c->claims, &cl->by_id);
    if (claim_prefix_bytes(cl->lock) > 0) {
        map_remove(&c->tokens, claim_token_node(cl));
    }
    if (p != NULL) {
        struct permit_set *set = p->set;

        permit_set_take_off(cl, cl->state == CLAIM_HELD);
        set->claims_n--;
        permit_set_free_empty(c, set);
    }
}

void
claim_iter_begin(struct claim_iter *p, const struct lock *l, const struct owner *o)
{
    *p = (struct claim_iter){.lock = l, .owner = o, .by_owner = o->claims_n <= l->claims_n};
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
claim_iter_next(struct claim_iter *p)
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

/* Of several permits one that is held; else one whose loss is still to be reported to its owner. */
static struct claim *
find_permit(const struct permit_set *set)
{
    struct list *pos, *nxt;

    if (!list_empty(&set->held)) {
        return permit_claim(container_of(set->held.next, struct permit, node));
    }
    list_for_each_safe(pos, nxt, &set->others)
    {
        struct claim *cl = permit_claim(container_of(pos, struct permit, node));

        if (cl->lost || cl->state == CLAIM_LOST) {
            return cl;
        }
    }
    return permit_claim(container_of(set->others.next, struct permit, node));
}

struct claim *
claim_find(const struct core *c, const struct lock *l, const struct owner *o)
{
    struct list *pos;
    struct claim_iter p;

    if (policy(l)->claim_each) {
        const struct permit_set *set = permit_set_find(c, l, o);

        return set != NULL ? find_permit(set) : NULL;
    }
    if (o->claims_n > l->claims_n) {
        claim_iter_begin(&p, l, o);
        return claim_iter_next(&p);
    }
    /* as claim_iter_next() does, at half the cost */
    for (pos = o->claims.next; pos != &o->claims; pos = pos->next) {
        struct claim *cl = container_of(pos, struct claim, owner_node);

        if (cl->lock == l) {
            return cl;
        }
    }
    return NULL;
}

struct claim *
claim_first(const struct list *list, unsigned states)
{
    for (struct list *pos = list->next; pos != list; pos = pos->next) {
        struct claim *cl = container_of(pos, struct claim, node);

        if (states & (1u << cl->state)) {
            return cl;
        }
    }
    return NULL;
}

/* Of a kind with permits an owner has one claim for each; of the others it has one at most. */
struct claim *
claim_newest_held(const struct core *c, const struct lock *l, const struct owner *o)
{
    const struct permit_set *set = permit_set_find(c, l, o);
    struct claim *cl = NULL;

    if (set != NULL) {
        cl = list_empty(&set->held) ? NULL : permit_claim(container_of(set->held.prev, struct permit, node));
    } else if (!policy(l)->claim_each) {
        cl = claim_find(c, l, o);
    }
    return cl != NULL && cl->state == CLAIM_HELD ? cl : NULL;
}

/*
 * The claim that a LOCK joins; NULL: it needs a new claim. With permits each LOCK asks for a new one, unless it may be
 * a repetition or is `fresh` (once: either), or the owner has a claim without requests: a kept position, or a loss that
 * is to be reported.
 */
struct claim *
claim_to_join(const struct core *c, const struct lock *l, const struct owner *o, bool once)
{
    const struct permit_set *set = permit_set_find(c, l, o);
    struct claim *without_requests = NULL;
    struct list *pos, *nxt;

    if (!policy(l)->claim_each) {
        return claim_find(c, l, o);
    }
    if (set == NULL) {
        return NULL;
    }
    if (once && !list_empty(&set->held)) {
        return permit_claim(container_of(set->held.next, struct permit, node));
    }
    list_for_each_safe(pos, nxt, &set->others)
    {
        struct claim *cl = permit_claim(container_of(pos, struct permit, node));

        if (cl->state == CLAIM_RELEASING || cl->state == CLAIM_STRAGGLING) {
            continue;
        }
        if (cl->refs > 0 && once) {
            return cl;
        }
        without_requests = cl->refs > 0 || without_requests != NULL ? without_requests : cl;
    }
    return without_requests;
}

void
claim_set_token(struct core *c, struct claim *cl, uint64_t token)
{
    cl->token = token;
    if (claim_prefix_bytes(cl->lock) > 0) {
        map_remove(&c->tokens, claim_token_node(cl));
        map_add(&c->tokens, claim_token_node(cl), token != 0 ? token : claim_id(cl));
    }
    permit_set_moved(cl, cl->state == CLAIM_HELD);
}

static bool
stands_for(const struct claim *cl, uint64_t token)
{
    return cl->token == token && cl->state != CLAIM_QUEUED && cl->state != CLAIM_TRYING;
}

/* The claim of the grant with this token: held, being given back, or lost, and the loss is still to be reported. */
struct claim *
claim_by_token(const struct core *c, const struct lock *l, uint64_t token)
{
    const struct list *lists[] = {&l->holders, &l->rest};
    struct list *pos, *nxt;

    if (claim_prefix_bytes(l) > 0) {
        for (struct map_node *n = map_find(&c->tokens, token); n != NULL; n = map_next(n)) {
            struct claim *cl = (struct claim *)(void *)(n + 1);

            if (cl->lock == l && stands_for(cl, token)) {
                return cl;
            }
        }
        return NULL;
    }
    /* one holder; in `rest` what is given back or lost, and claims whose owners have to finish other requests first */
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_for_each_safe(pos, nxt, lists[i])
        {
            struct claim *cl = container_of(pos, struct claim, node);

            if (stands_for(cl, token)) {
                return cl;
            }
        }
    }
    return NULL;
}
