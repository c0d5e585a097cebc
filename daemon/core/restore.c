/*
 * restore.c -- the first step of a process takes over what the former process had in Redis (records.c).
 *
 * Sessions ended with their process: what they held, waited for or were about to get is given back at once, by the
 * number they had in Redis, and as insistently as any release. Named owners have their owner grace: their holds keep
 * the token, and are renewed from now on; leases that ended meanwhile are reported LOST; their positions stay, before
 * all new requests. The owner grace begins with the first process that has not seen the owner.
 *
 * Nothing is said to be held before Redis has confirmed it (reclaim.c): the name may have been broken, or the data
 * lost. The backend knows the epoch in which all holds were; if Redis is in another one now, a RECLAIM follows.
 */
#include "daemon/core/restore.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_room.h"
#include "daemon/core/locks.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"

/*
 * Commands that the former process had on their way to Redis may still run: an acquire is given back like any that went
 * unanswered, and a RENEW or a release of some holds is a straggler for as long as it could be on its way.
 *
 * A restored claim passes through the states that it had passed through, so that nothing here is allowed that claims.c
 * forbids; and it keeps its id, because values and permits are derived from the id.
 */

static bool
waits_on(const struct core_record *k)
{
    const struct core_record_part *p = &k->part;

    return p->state == CORE_RECORD_QUEUED && (k->queue_grace_us > 0 || k->owner_grace_us > 0);
}

/* Whether the owner of the record may come back for the claim; else an owner that has ended gets it. */
static bool
is_expected(const struct core_record *k)
{
    const struct core_record_part *p = &k->part;
    bool held = p->state == CORE_RECORD_HELD && p->token != 0 && p->holds + p->shared > 0;

    return k->owner.n > 0 && p->named && (held || waits_on(k) || p->state == CORE_RECORD_LOST || p->lost);
}

/* The lock of the record. NULL: the name or the key is in use as another lock. */
static struct lock *
lock_of(struct core *c, const struct core_record *k)
{
    struct core_request rq = {.name = k->name,
                              .spec = {.kind = k->kind,
                                       .rule_kind = KINDS,
                                       .value = k->value,
                                       .limit = k->limit,
                                       .domain = k->domain,
                                       .declared = k->declared,
                                       .wakes = k->wakes,
                                       .key = k->key,
                                       .owner_grace_us = k->owner_grace_us,
                                       .queue_grace_us = k->queue_grace_us}};
    struct lock *l;

    if (lock_get(c, &rq, false, &l) != CORE_GRANTED || l->value != k->value ||
        !slice_eq(k->key, lock_key(l))) {
        return NULL;
    }
    return l;
}

/* Makes the claim, QUEUED, with all that the record says. */
static struct claim *
claim_of(struct core *c, const struct core_record *k)
{
    const struct core_record_part *p = &k->part;
    struct owner *o = owner_restore(c, is_expected(k) ? k->owner : (struct slice){NULL, 0});
    struct lock *l = lock_of(c, k);
    uint64_t serial = c->serial;
    struct claim *cl;

    if (l == NULL) {
        return NULL;
    }
    c->serial = p->claim - 1; /* the claim keeps its id */
    cl = claim_new(c, l, o);
    c->serial = serial;
    cl->redis_owner = p->number;
    claim_set_token(c, cl, p->token);
    cl->lease_us = p->lease_us;
    cl->queued.ticket_life_us = short_us(p->ticket_life_us, TICKET_MAX_US);
    cl->expiry_ms = p->expiry_ms;
    cl->since_us = p->granted_us != 0 ? earlier(p->granted_us, c->now_us) : c->now_us;
    claim_raise_redis_until(cl, later(c->now_us, p->deadline_us), p->lease_us);
    if (p->acquire_unresolved) {
        claim_add_straggler(c, cl, STRAGGLER_ACQUIRE, stragglers_until_us(c));
    }
    cl->queued.position = ++c->serial;
    cl->record_sum = 1; /* a record is stored, though not the one of now */
    claim_move(c, cl, CLAIM_QUEUED);
    return cl;
}

/* RELEASING: is given back as soon as Redis can be reached. */
static void
as_releasing(struct core *c, struct claim *cl, const struct core_record_part *p)
{
    claim_move(c, cl, CLAIM_RELEASING);
    cl->lost = cl->end_published = p->lost && !cl->owner->ending;
    cl->uncertain.release_unresolved = true; /* the former process may have begun the release */
    cl->not_twice = p->state == CORE_RECORD_RELEASING;
    cl->retry_us = after_us(c->now_us, REACH_US);
}

static void
as_queued(struct core *c, struct claim *cl, const struct core_record_part *p)
{
    /* A claim that Redis may have granted is in the way of others: it is kept for the queue grace only. */
    const struct lock *l = cl->lock;
    int64_t grace_us = p->acquire_unresolved ? l->queue_grace_us : later(l->queue_grace_us, l->owner_grace_us);

    cl->has_ticket = p->has_ticket;
    cl->uncertain.acquire_unresolved = p->has_ticket || p->acquire_unresolved;
    cl->queued.kept_until_us = after_us(c->now_us, grace_us);
    cl->renew_us = after_us(c->now_us, REACH_US);
    if (grace_us == 0) {
        claim_give_up_position(c, cl);
    }
}

static void
as_held(struct core *c, struct claim *cl, const struct core_record_part *p)
{
    claim_move(c, cl, CLAIM_TRYING);
    claim_move(c, cl, CLAIM_HELD);
    cl->holds = p->holds;
    cl->shared = p->shared;
    cl->hold.deadline_us = p->deadline_us;
    cl->watchdog = p->watchdog;
    cl->fresh = p->fresh;
    cl->renew_us = cl->retry_us = after_us(c->now_us, REACH_US);
    cl->hold.jeopardy_us = cl->hold.deadline_us - cl->lease_us / 3;
    /* whatever has happened meanwhile: Redis says first whether it is still there */
    claim_set_verify(c, cl, VERIFY_EXISTS);
    if (p->shrink_lease_us != 0) {
        cl->uncertain.shrink_lease_us = p->shrink_lease_us;
        claim_add_straggler(c, cl, STRAGGLER_RENEW, stragglers_until_us(c));
    }
    if (p->partial) {
        claim_add_straggler(c, cl, STRAGGLER_RELEASE, stragglers_until_us(c));
        cl->uncertain.release_unresolved = policy(cl->lock)->two_sorts;
    }
}

static bool
has_room(const struct lock *l, const struct core_record_part *p)
{
    return lock_has_limit(l) || !lock_is_full(l, p->holds == 0);
}

/* Restores one claim. False: impossible, so its lease has to end. */
static bool
restore_one(struct core *c, struct core_restored *a, const struct core_record *k)
{
    const struct core_record_part *p = &k->part;
    struct claim *cl = claim_of(c, k);

    if (cl == NULL) {
        return false;
    }
    if (cl->owner->ending || p->state == CORE_RECORD_RELEASING) {
        a->freed++;
        as_releasing(c, cl, p);
    } else if (p->state == CORE_RECORD_QUEUED) {
        a->positions++;
        as_queued(c, cl, p);
    } else if (p->state == CORE_RECORD_HELD && has_room(cl->lock, p)) {
        a->held++;
        as_held(c, cl, p);
        if (cl->hold.deadline_us <= c->now_us) {
            a->held--;
            a->lost++;
            claim_lose(c, cl, cl->watchdog ? "not renewed while no daemon ran" : CORE_LEASE_OVER, false);
        }
    } else {
        a->lost++;
        claim_move(c, cl, CLAIM_TRYING);
        claim_move(c, cl, CLAIM_HELD);
        cl->watchdog = true; /* reported however late, because the time of the loss is unknown */
        claim_keep_loss(c, cl);
    }
    claim_arm(c, cl);
    while (c->dirty_locks.first != NULL) { /* now, so that there are never as many queues as locks */
        lock_advance(c);                    /* ... and perhaps no such lock or claim any more */
    }
    return true;
}

/* Claims with a ticket stand before those that have none (I11). */
static int
by_order(const void *left, const void *right)
{
    const struct core_record_part *l = left, *r = right; /* the first member of what is sorted */

    if (l->has_ticket != r->has_ticket) {
        return l->has_ticket ? -1 : 1;
    }
    if (l->order != r->order) {
        return l->order < r->order ? -1 : 1;
    }
    return l->token < r->token ? -1 : l->token > r->token; /* so do permits of one owner: permit_set_put() */
}

/*
 * All named owners begin their owner grace now, as if their last session had just ended; an owner whose grace began in
 * a former process has the rest of it only. Our records are stored before the former ones are dropped.
 */
static void
begin_grace(struct core *c, const struct core_restored *a)
{
    struct map_node *n, *next;

    for (size_t i = 0; i < a->owners_n; i++) {
        const struct core_owner_record *k = &a->owner[i];
        struct owner *o = owner_find(c, k->name);

        if (o != NULL) {
            o->until_us = o->until_us != 0 ? earlier(o->until_us, k->until_us) : k->until_us;
        }
    }
    map_for_each_safe(n, next, &c->owners)
    {
        struct owner *o = container_of(n, struct owner, by_name);
        int64_t until_us = after_us(c->now_us, o->grace_us);

        owner_begin_grace(c, o, o->until_us != 0 ? earlier(o->until_us, until_us) : until_us);
    }
    for (size_t i = 0; i < a->owners_n; i++) {
        core_act(c, &(struct core_action){.type = CORE_FORGET_OWNER, .forget = a->owner[i].id});
    }
}

void
restore(struct core *c, struct core_restored *a)
{
    assert(c->serial == 0 && c->sessions_n == 0);
    c->serial = a->serial;
    c->token_max = a->token;
    if (a->n > 0) {
        qsort(a->kept, a->n, sizeof(a->kept[0]), by_order);
    }
    for (size_t i = 0; i < a->n; i++) {
        const struct core_record_part *p = &a->kept[i].part;

        c->serial = p->claim > c->serial ? p->claim : c->serial;
        c->serial = p->number > c->serial ? p->number : c->serial;
        c->token_max = p->token > c->token_max ? p->token : c->token_max;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (!restore_one(c, a, &a->kept[i])) {
            a->failed++;
            core_act(c, &(struct core_action){.type = CORE_FORGET, .forget = a->kept[i].part.claim});
        }
    }
    begin_grace(c, a);
}
