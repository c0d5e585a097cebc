/*
 * restore.c -- the first step of a process takes over what the former process had in Redis (checkpoints.c).
 *
 * Sessions ended with their process: what they held, waited for or were about to get is released at once, by the
 * redis_owner they had, and each release is tried again like any other. Named owners have their owner grace: their
 * holds keep the token, and the watchdog renews its leases again; leases that ended meanwhile are reported as LOST;
 * their positions stay, before all new requests. The owner grace begins with the first process in which no session uses
 * the owner.
 *
 * Nothing is reported as held before Redis has confirmed it (reclaim.c): the name may have been broken, or the data
 * lost. The backend knows the epoch in which all holds were; if Redis is in another one now, a RECLAIM follows.
 */
#include "daemon/core/work.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/core/act.h"
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/dirty.h"
#include "daemon/core/ends.h"
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
#include "daemon/core/uncertain_notes.h"

/*
 * Commands that the former process had on their way to Redis may still run: an acquire, a RENEW or a release of some
 * holds is a straggler for as long as it could be on its way, by the redis.timeout of that process.
 *
 * A restored claim passes through the states that it had passed through, so that nothing here is allowed that claims.c
 * forbids; and it keeps its id, because values and permits are derived from the id.
 */

/* No command of a former process has a later guard; see uncertain_latest_guard_us(). */
static int64_t
former_guard_us(const struct core *c, const struct core_restored *rs)
{
    int64_t timeout_us = later(rs->op_timeout_us, c->conf.op_timeout_us);

    return after_us(after_us(c->now_us, timeout_us), timeout_us);
}

static bool
keeps_position(const struct core_checkpoint *cp)
{
    const struct core_checkpoint_part *p = &cp->part;

    return p->state == CORE_CHECKPOINT_QUEUED && (cp->queue_grace_us > 0 || cp->owner_grace_us > 0);
}

/* Whether the owner of the checkpoint may come back for the claim; else the claim has an owner that has ended. */
static bool
is_expected(const struct core_checkpoint *cp)
{
    const struct core_checkpoint_part *p = &cp->part;
    bool held = p->state == CORE_CHECKPOINT_HELD && p->token != 0 && p->holds + p->shared > 0;

    return cp->owner.n > 0 && p->named && (held || keeps_position(cp) || p->state == CORE_CHECKPOINT_LOST || p->lost);
}

/* The lock of the checkpoint. NULL: the name or the key is in use as another lock. */
static struct lock *
lock_of(struct core *c, const struct core_checkpoint *cp)
{
    struct core_request rq = {.name = cp->name,
                              .spec = {.kind = cp->kind,
                                       .rule_kind = KINDS,
                                       .value = cp->value,
                                       .limit = cp->limit,
                                       .domain = cp->domain,
                                       .declared = cp->declared,
                                       .wakes = cp->wakes,
                                       .key = cp->key,
                                       .queue_grace_us = cp->queue_grace_us}};
    struct lock *l;

    if (lock_get(c, &rq, false, &l) != CORE_GRANTED || l->value != cp->value ||
        !slice_eq(cp->key, lock_key(l))) {
        return NULL;
    }
    return l;
}

/*
 * A re-entry or a RENEW without an answer may have asked for a longer lease than that of the claim. What the checkpoint
 * says of that has its margin already: with one more for each restart, a release could be retried for very long.
 */
static void
restore_expiry_max(const struct core *c, struct claim *cl, const struct core_checkpoint_part *p)
{
    int64_t from_us = later(c->now_us, p->deadline_us);

    if (p->state == CORE_CHECKPOINT_RELEASING && p->deadline_us != 0) {
        uncertain_raise_expiry_max(cl, p->deadline_us, 0);
        return;
    }
    uncertain_raise_expiry_max(cl, from_us, p->lease_us);
    if (p->state == CORE_CHECKPOINT_HELD) {
        uncertain_raise_expiry_max(cl, after_us(from_us, p->outlasts_us), 0);
    }
}

/* Makes the claim, QUEUED, with all that the checkpoint has. */
static struct claim *
claim_of(struct core *c, const struct core_restored *rs, const struct core_checkpoint *cp)
{
    const struct core_checkpoint_part *p = &cp->part;
    struct owner *o = owner_restore(c, is_expected(cp) ? cp->owner : (struct slice){NULL, 0});
    struct lock *l = lock_of(c, cp);
    uint64_t serial = c->serial;
    struct claim *cl;

    if (l == NULL) {
        return NULL;
    }
    c->serial = p->claim - 1; /* the claim keeps its id */
    cl = claim_new(c, l, o);
    c->serial = serial;
    (void)owner_raise_grace(o, l, cp->owner_grace_us); /* of the owner alone: it may have requested a longer one */
    cl->redis_owner = p->redis_owner;
    claim_set_token(c, cl, p->token);
    cl->lease_us = p->lease_us;
    cl->queued.ticket_life_us =
        p->state == CORE_CHECKPOINT_QUEUED ? clamp_us(p->ticket_life_us, TICKET_MAX_US) : 0;
    cl->expiry_ms = p->expiry_ms;
    cl->since_us = p->granted_us != 0 ? earlier(p->granted_us, c->now_us) : c->now_us;
    restore_expiry_max(c, cl, p);
    if (p->acquire_unresolved) {
        uncertain_add_straggler(c, cl, STRAGGLER_ACQUIRE, former_guard_us(c, rs));
    }
    cl->queued.position = ++c->serial;
    cl->checkpoint_sum = 1; /* a checkpoint is stored, though not that of the present state */
    claim_move(c, cl, CLAIM_QUEUED);
    return cl;
}

/* RELEASING: is given back as soon as Redis can be reached. */
static void
as_releasing(struct core *c, struct claim *cl, const struct core_checkpoint_part *p)
{
    claim_move(c, cl, CLAIM_RELEASING);
    cl->lost = cl->end_published = p->lost && !cl->owner->ending;
    uncertain_add_taking(cl);
    if (p->state == CORE_CHECKPOINT_RELEASING) { /* the former process may have begun the release */
        uncertain_add_release(cl);
    }
    cl->retry_us = after_us(c->now_us, RESTORE_PAUSE_US);
}

/* Claims come in the order of their positions: the first ones are kept, as many as position_may_be_kept() allows. */
static void
as_queued(struct core *c, struct core_restored *rs, struct claim *cl, const struct core_checkpoint *cp)
{
    const struct core_checkpoint_part *p = &cp->part;
    /* A claim that Redis may have granted is in the way of others: it is kept for the queue grace only. */
    int64_t queue_us = cl->lock->queue_grace_us;
    int64_t kept_us = p->acquire_unresolved ? queue_us : later(queue_us, clamp_us(cp->owner_grace_us, GRACE_MAX_US));

    if (position_may_be_kept(c, cl->lock)) {
        rs->positions++;
    } else {
        rs->released++;
        kept_us = 0;
    }
    cl->has_ticket = p->has_ticket;
    uncertain_set_in_redis(cl, p->has_ticket || p->acquire_unresolved);
    cl->queued.kept_until_us = after_us(c->now_us, kept_us);
    cl->renew_us = after_us(c->now_us, RESTORE_PAUSE_US);
    if (kept_us == 0) {
        position_give_up(c, cl);
    }
}

static void
as_held(struct core *c, const struct core_restored *rs, struct claim *cl, const struct core_checkpoint_part *p)
{
    claim_move(c, cl, CLAIM_TRYING);
    claim_move(c, cl, CLAIM_HELD);
    cl->holds = p->holds;
    cl->shared = p->shared;
    cl->hold.deadline_us = p->deadline_us;
    cl->watchdog = p->watchdog;
    cl->fresh = p->fresh;
    cl->renew_us = cl->retry_us = after_us(c->now_us, RESTORE_PAUSE_US);
    cl->hold.jeopardy_us = cl->hold.deadline_us - cl->lease_us / 3;
    /* whatever has happened meanwhile: Redis has to confirm first that it is still there */
    uncertain_set_verify(c, cl, VERIFY_EXISTS);
    if (p->shrink_lease_us != 0) {
        uncertain_add_renew(c, cl, p->shrink_lease_us, former_guard_us(c, rs));
    }
    if (p->partial) {
        uncertain_add_straggler(c, cl, STRAGGLER_RELEASE, former_guard_us(c, rs));
        if (policy(cl->lock)->two_sorts) {
            uncertain_add_taking(cl);
        }
    }
}

static bool
has_room(const struct lock *l, const struct core_checkpoint_part *p)
{
    return lock_has_limit(l) || !lock_is_full(l, p->holds == 0);
}

/* Restores one claim. False: it cannot be restored, and stays in Redis until its lease ends. */
static bool
restore_one(struct core *c, struct core_restored *rs, const struct core_checkpoint *cp)
{
    const struct core_checkpoint_part *p = &cp->part;
    struct claim *cl = claim_of(c, rs, cp);

    if (cl == NULL) {
        return false;
    }
    if (cl->owner->ending || p->state == CORE_CHECKPOINT_RELEASING) {
        rs->released++;
        as_releasing(c, cl, p);
    } else if (p->state == CORE_CHECKPOINT_QUEUED) {
        as_queued(c, rs, cl, cp);
    } else if (p->state == CORE_CHECKPOINT_HELD && has_room(cl->lock, p)) {
        rs->held++;
        as_held(c, rs, cl, p);
        if (cl->hold.deadline_us <= c->now_us) {
            rs->held--;
            rs->lost++;
            end_by_loss(c, cl, cl->watchdog ? "not renewed while no daemon ran" : CORE_LEASE_OVER, false);
        }
    } else {
        rs->lost++;
        claim_move(c, cl, CLAIM_TRYING);
        claim_move(c, cl, CLAIM_HELD);
        cl->watchdog = true; /* reported however late, because the time of the loss is unknown */
        end_loss_unreported(c, cl);
    }
    claim_arm(c, cl);
    /* now, and not at the end of the step, or each lock would have a queue by then; may free the lock and the claim */
    while (c->dirty_locks.first != NULL) {
        lock_advance(c);
    }
    return true;
}

/* Claims with a ticket come before those that have none (I11). */
static int
by_order(const void *left, const void *right)
{
    const struct core_checkpoint_part *l = left, *r = right; /* the first member of what is sorted */

    if (l->has_ticket != r->has_ticket) {
        return l->has_ticket ? -1 : 1;
    }
    if (l->order != r->order) {
        return l->order < r->order ? -1 : 1;
    }
    return l->token < r->token ? -1 : l->token > r->token; /* the order in which permit_set_put() wants permits */
}

/*
 * All named owners begin their owner grace now, as if their last session had just ended; an owner whose grace began in
 * a former process has the rest of it only. The checkpoints of this process are stored before the former ones are
 * dropped.
 */
static void
begin_grace(struct core *c, const struct core_restored *rs)
{
    struct map_node *n, *next;

    for (size_t i = 0; i < rs->owners_n; i++) {
        const struct core_owner_checkpoint *cp = &rs->owner[i];
        struct owner *o = owner_find(c, cp->name);

        if (o != NULL) {
            o->owner_grace_until_us = o->owner_grace_until_us != 0
                ? earlier(o->owner_grace_until_us, cp->owner_grace_until_us) : cp->owner_grace_until_us;
        }
    }
    map_for_each_safe(n, next, &c->owners)
    {
        struct owner *o = container_of(n, struct owner, by_name);
        int64_t whole_us = after_us(c->now_us, o->owner_grace_us);

        owner_begin_grace(c, o, o->owner_grace_until_us != 0 ? earlier(o->owner_grace_until_us, whole_us) : whole_us);
    }
    for (size_t i = 0; i < rs->owners_n; i++) {
        core_act(c, &(struct core_action){.type = CORE_DROP_OWNER, .drop = rs->owner[i].id});
    }
}

void
restore(struct core *c, struct core_restored *rs)
{
    assert(c->serial == 0 && c->sessions_n == 0);
    c->serial = rs->serial;
    c->token_max = rs->token;
    if (rs->n > 0) {
        qsort(rs->checkpoint, rs->n, sizeof(rs->checkpoint[0]), by_order);
    }
    for (size_t i = 0; i < rs->n; i++) {
        const struct core_checkpoint_part *p = &rs->checkpoint[i].part;

        c->serial = p->claim > c->serial ? p->claim : c->serial;
        c->serial = p->redis_owner > c->serial ? p->redis_owner : c->serial;
        c->token_max = p->token > c->token_max ? p->token : c->token_max;
    }
    for (size_t i = 0; i < rs->n; i++) {
        if (!restore_one(c, rs, &rs->checkpoint[i])) {
            rs->failed++;
            core_act(c, &(struct core_action){.type = CORE_DROP, .drop = rs->checkpoint[i].part.claim});
        }
    }
    begin_grace(c, rs);
}
