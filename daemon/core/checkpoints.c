/*
 * checkpoints.c -- the checkpoint of a claim in the state file, from which the next process restores the claim
 * (restore.c).
 *
 * Each claim that Redis may have something of, and each position and unreported loss of a named owner, has one
 * checkpoint: STORE stores or replaces it, DROP drops it. The checkpoint is stored before an acquire can leave, and
 * dropped when the next process would have nothing to restore. claim_arm(), with which nearly every change of a claim
 * ends, calls checkpoint_store(), and so do the other changes. checkpoint_store() compares checksums: a needless call
 * costs next to nothing, and core_check() finds a missing one.
 */
#include <assert.h>
#include <string.h>

#include "daemon/core/act.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"

/*
 * At most so many claims of an owner are searched for one with a checkpoint. More are not needed: if a claim has no
 * checkpoint, its request waits behind an older request, and the claims of older requests are in front.
 */
enum { SEARCH_MAX = 64 };

static bool
is_named(const struct claim *cl)
{
    return cl->owner->name != NULL && !cl->owner->ending;
}

static enum core_checkpoint_state
state_of(const struct claim *cl)
{
    switch (cl->state) {
    case CLAIM_QUEUED:
        assert(uncertain_may_be_in_redis(cl) || !cl->has_ticket);
        return uncertain_may_be_in_redis(cl) || is_named(cl) ? CORE_CHECKPOINT_QUEUED : CORE_CHECKPOINT_NOTHING;
    case CLAIM_TRYING:
        return CORE_CHECKPOINT_QUEUED;
    case CLAIM_HELD:
        return CORE_CHECKPOINT_HELD;
    case CLAIM_CACHED:
    case CLAIM_RELEASING:
    case CLAIM_STRAGGLING:
        return CORE_CHECKPOINT_RELEASING;
    case CLAIM_LOST:
        return is_named(cl) ? CORE_CHECKPOINT_LOST : CORE_CHECKPOINT_NOTHING;
    case CLAIM_IDLE:
    case CLAIM_STATES:
        break;
    }
    return CORE_CHECKPOINT_NOTHING;
}

/* The shortest lease that a RENEW without an answer may still set. */
static int64_t
shrinks_to(const struct claim *cl)
{
    int64_t pending_us = uncertain_shrink_lease_us(cl);
    int64_t asked_us = cl->op != 0 && cl->op_verb == CORE_EXTEND ? cl->hold.op_lease_us : 0;

    return pending_us == 0 || asked_us == 0 ? pending_us + asked_us : earlier(pending_us, asked_us);
}

/*
 * HELD: for how long Redis may have the claim after its deadline: a re-entry or a RENEW to a longer lease may have run
 * without an answer, or may be in flight. The one in flight was sent before the deadline.
 */
static int64_t
outlasts_deadline_us(const struct claim *cl)
{
    int64_t asked_us = cl->op != 0 ? uncertain_with_margin_us(cl->hold.op_lease_us) : 0;

    return later(asked_us, uncertain_expiry_max_us(cl) - cl->hold.deadline_us);
}

static enum checkpoint_rank
rank_of(const struct claim *cl, enum core_checkpoint_state state)
{
    return state != CORE_CHECKPOINT_QUEUED ? RANK_NONE : cl->has_ticket ? RANK_TICKET : RANK_WAITING;
}

/*
 * No field depends on the time at which the checkpoint is made, or the comparison would be of no use. So a straggler
 * whose time is over is still in the checkpoint, and the next process may ask Redis once more, which does no harm.
 */
static void
describe(const struct claim *cl, enum core_checkpoint_state state, struct core_checkpoint_part *p)
{
    bool held = state == CORE_CHECKPOINT_HELD, queued = state == CORE_CHECKPOINT_QUEUED;
    bool reclaiming = cl->op != 0 && cl->op_reclaim;
    bool attempted = (uncertain_stragglers(cl) & STRAGGLER_ACQUIRE) || cl->state == CLAIM_TRYING || reclaiming;

    memset(p, 0, sizeof(*p)); /* the gaps, too, because checkpoints are compared by their bytes */
    p->claim = claim_id(cl);
    p->redis_owner = cl->redis_owner;
    p->state = (uint8_t)state;
    p->named = is_named(cl);
    p->lease_us = cl->lease_us;
    p->expiry_ms = cl->expiry_ms;
    p->acquire_unresolved = attempted || (queued && uncertain_may_be_in_redis(cl) && !cl->has_ticket);
    if (queued) {
        p->order = cl->queued.checkpoint_order;
        p->has_ticket = cl->has_ticket;
        p->ticket_life_us = cl->queued.ticket_life_us;
        return;
    }
    /* the end was published: the next process has nothing to publish */
    p->token = cl->end_published && !cl->lost ? 0 : cl->token;
    p->lost = cl->lost;
    p->deadline_us = state == CORE_CHECKPOINT_RELEASING ? uncertain_expiry_max_us(cl) : 0;
    if (held) {
        p->deadline_us = cl->hold.deadline_us;
        p->granted_us = cl->since_us;
        p->holds = cl->holds;
        p->shared = cl->shared;
        p->watchdog = cl->watchdog;
        p->fresh = cl->fresh;
        p->shrink_lease_us = shrinks_to(cl);
        p->outlasts_us = outlasts_deadline_us(cl);
        p->partial = (uncertain_stragglers(cl) & STRAGGLER_RELEASE) || (cl->op != 0 && cl->op_verb == CORE_RELEASE);
    }
}

/* Never 0. */
static uint64_t
sum_of(const struct core *c, const struct core_checkpoint_part *p)
{
    return hash_bytes(&c->key, p, sizeof(*p)) | 1;
}

static void
store(struct core *c, struct claim *cl, enum core_checkpoint_state state)
{
    enum checkpoint_rank rank = rank_of(cl, state);
    const struct lock *l = cl->lock;
    struct core_action a = {.type = CORE_STORE};
    uint64_t sum;

    if (rank != cl->checkpoint_rank) {
        /*
         * Later changes of the position are not recorded: when other claims are let in before this one, the checkpoints
         * of all claims behind them would have to change.
         */
        cl->checkpoint_rank = rank;
        cl->queued.checkpoint_order = rank == RANK_NONE ? cl->queued.checkpoint_order : cl->queued.position;
    }
    describe(cl, state, &a.store.part);
    sum = sum_of(c, &a.store.part);
    if (sum == cl->checkpoint_sum) {
        return;
    }
    cl->checkpoint_sum = sum;
    a.store.name = lock_name(l);
    a.store.key = lock_key(l);
    a.store.owner = (struct slice){cl->owner->name, cl->owner->name_n};
    a.store.kind = l->kind;
    a.store.value = l->value;
    a.store.limit = l->limit;
    a.store.owner_grace_us = later(l->owner_grace_us, cl->owner->owner_grace_us);
    a.store.queue_grace_us = l->queue_grace_us;
    core_act(c, &a);
}

/*
 * The owner's grace is in no checksum, because it concerns all claims of the owner: the next process takes the longest
 * grace among their checkpoints. So whenever the grace may be in none of them any more, or in none yet, one is stored
 * anew. False: the claim has no checkpoint.
 */
static bool
store_anew(struct core *c, struct claim *cl)
{
    enum core_checkpoint_state state = cl->checkpoint_sum != 0 ? state_of(cl) : CORE_CHECKPOINT_NOTHING;

    if (state == CORE_CHECKPOINT_NOTHING) {
        return false;
    }
    cl->checkpoint_sum = 1;
    store(c, cl, state);
    return true;
}

void
checkpoint_grace_raised(struct core *c, struct claim *cl)
{
    (void)store_anew(c, cl); /* a claim without a checkpoint gets one before its request is answered */
}

/* The checkpoint of the claim goes, which may be the only one with the grace of its owner. */
static void
hand_on_grace(struct core *c, const struct claim *cl)
{
    const struct owner *o = cl->owner;
    struct list *pos, *nxt;
    int n = 0;

    if (!is_named(cl)) {
        return;
    }
    list_for_each_safe(pos, nxt, &o->claims)
    {
        struct claim *other = container_of(pos, struct claim, owner_node);

        if (++n > SEARCH_MAX ||
            (other != cl && (other->lock->owner_grace_us >= o->owner_grace_us || store_anew(c, other)))) {
            return;
        }
    }
}

void
checkpoint_drop(struct core *c, struct claim *cl)
{
    if (cl->checkpoint_sum != 0) {
        cl->checkpoint_sum = 0;
        cl->checkpoint_rank = RANK_NONE;
        core_act(c, &(struct core_action){.type = CORE_DROP, .drop = claim_id(cl)});
        hand_on_grace(c, cl);
    }
}

void
checkpoint_store(struct core *c, struct claim *cl)
{
    enum core_checkpoint_state state = c->conf.stores_checkpoints ? state_of(cl) : CORE_CHECKPOINT_NOTHING;

    if (state == CORE_CHECKPOINT_NOTHING) {
        checkpoint_drop(c, cl);
    } else {
        store(c, cl, state);
    }
}

void
checkpoint_check(const struct core *c, const struct claim *cl)
{
    enum core_checkpoint_state state = c->conf.stores_checkpoints ? state_of(cl) : CORE_CHECKPOINT_NOTHING;
    struct core_checkpoint_part p;

    if (state == CORE_CHECKPOINT_NOTHING) {
        assert(cl->checkpoint_sum == 0);
        return;
    }
    describe(cl, state, &p);
    assert(rank_of(cl, state) == cl->checkpoint_rank && sum_of(c, &p) == cl->checkpoint_sum);
}
