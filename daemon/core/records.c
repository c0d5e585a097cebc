/*
 * records.c -- the record of a claim in the state file, from which the next process restores the claim (restore.c).
 *
 * Each claim that Redis may have something of, and each kept position of a named owner, has one record: KEEP stores or
 * replaces it, FORGET drops it. The record is stored before an acquire can leave, and dropped when Redis has nothing
 * left. claim_arm(), with which nearly every change of a claim ends, calls record_keep(), and so do the other changes.
 * record_keep() compares checksums: a needless call costs next to nothing, and core_check() finds a missing one.
 *
 * No field depends on the time at which the record is made, or the comparison would be of no use. So a straggler whose
 * time is over is still in the record, and the next process may ask Redis once more, which does no harm.
 */
#include <assert.h>
#include <string.h>

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"

static bool
is_named(const struct claim *cl)
{
    return cl->owner->name != NULL && !cl->owner->ending;
}

static enum core_record_state
state_of(const struct claim *cl)
{
    switch (cl->state) {
    case CLAIM_QUEUED:
        assert(claim_acquire_unresolved(cl) || !cl->has_ticket);
        return claim_acquire_unresolved(cl) || is_named(cl) ? CORE_RECORD_QUEUED : CORE_RECORD_NOTHING;
    case CLAIM_TRYING:
        return CORE_RECORD_QUEUED;
    case CLAIM_HELD:
        return CORE_RECORD_HELD;
    case CLAIM_CACHED:
    case CLAIM_RELEASING:
    case CLAIM_STRAGGLING:
        return CORE_RECORD_RELEASING;
    case CLAIM_LOST:
        return is_named(cl) ? CORE_RECORD_LOST : CORE_RECORD_NOTHING;
    case CLAIM_IDLE:
    case CLAIM_STATES:
        break;
    }
    return CORE_RECORD_NOTHING;
}

/* The shortest lease that a RENEW without an answer may still set. */
static int64_t
shrinks_to(const struct claim *cl)
{
    int64_t pending_us = claim_shrink_lease_us(cl);
    int64_t asked_us = cl->op != 0 && cl->op_verb == CORE_EXTEND ? cl->hold.op_lease_us : 0;

    return pending_us == 0 || asked_us == 0 ? pending_us + asked_us : earlier(pending_us, asked_us);
}

static enum record_rank
rank_of(const struct claim *cl, enum core_record_state state)
{
    return state != CORE_RECORD_QUEUED ? RECORD_UNRANKED : cl->has_ticket ? RECORD_TICKET : RECORD_WAITING;
}

static void
describe(const struct claim *cl, enum core_record_state state, struct core_record_part *p)
{
    bool held = state == CORE_RECORD_HELD, queued = state == CORE_RECORD_QUEUED;
    bool reclaiming = cl->op != 0 && cl->op_reclaim;
    bool attempted = (claim_stragglers(cl) & STRAGGLER_ACQUIRE) || cl->state == CLAIM_TRYING || reclaiming;

    memset(p, 0, sizeof(*p)); /* the gaps, too, because records are compared by their bytes */
    p->claim = claim_id(cl);
    p->redis_owner = cl->redis_owner;
    p->state = (uint8_t)state;
    p->named = is_named(cl);
    p->lease_us = cl->lease_us;
    p->expiry_ms = cl->expiry_ms;
    p->acquire_unresolved = attempted || (queued && claim_acquire_unresolved(cl) && !cl->has_ticket);
    if (queued) {
        p->order = cl->queued.record_order;
        p->has_ticket = cl->has_ticket;
        p->ticket_life_us = cl->queued.ticket_life_us;
        return;
    }
    /* the end was published: the next process has nothing to publish */
    p->token = cl->end_published && !cl->lost ? 0 : cl->token;
    p->lost = cl->lost;
    if (held) {
        p->deadline_us = cl->hold.deadline_us;
        p->granted_us = cl->since_us;
        p->holds = cl->holds;
        p->shared = cl->shared;
        p->watchdog = cl->watchdog;
        p->fresh = cl->fresh;
        p->shrink_lease_us = shrinks_to(cl);
        p->partial = (claim_stragglers(cl) & STRAGGLER_RELEASE) || (cl->op != 0 && cl->op_verb == CORE_RELEASE);
    }
}

/* Never 0. */
static uint64_t
sum_of(const struct core *c, const struct core_record_part *p)
{
    return hash_bytes(&c->key, p, sizeof(*p)) | 1;
}

void
record_forget(struct core *c, struct claim *cl)
{
    if (cl->record_sum != 0) {
        cl->record_sum = 0;
        cl->record_rank = RECORD_UNRANKED;
        core_act(c, &(struct core_action){.type = CORE_FORGET, .forget = claim_id(cl)});
    }
}

static void
keep(struct core *c, struct claim *cl, enum core_record_state state)
{
    enum record_rank rank = rank_of(cl, state);
    const struct lock *l = cl->lock;
    struct core_action a = {.type = CORE_KEEP};
    uint64_t sum;

    if (rank != cl->record_rank) {
        /*
         * Later changes of the position are not recorded: when other claims are let in before this one, the records of
         * all claims behind them would have to change.
         */
        cl->record_rank = rank;
        cl->queued.record_order = rank == RECORD_UNRANKED ? cl->queued.record_order : cl->queued.position;
    }
    describe(cl, state, &a.keep.part);
    sum = sum_of(c, &a.keep.part);
    if (sum == cl->record_sum) {
        return;
    }
    cl->record_sum = sum;
    a.keep.name = lock_name(l);
    a.keep.key = lock_key(l);
    a.keep.owner = (struct slice){cl->owner->name, cl->owner->name_n};
    a.keep.kind = l->kind;
    a.keep.value = l->value;
    a.keep.limit = l->limit;
    a.keep.owner_grace_us = later(l->owner_grace_us, cl->owner->owner_grace_us);
    a.keep.queue_grace_us = l->queue_grace_us;
    core_act(c, &a);
}

void
record_keep(struct core *c, struct claim *cl)
{
    enum core_record_state state = c->conf.keeps_records ? state_of(cl) : CORE_RECORD_NOTHING;

    if (state == CORE_RECORD_NOTHING) {
        record_forget(c, cl);
    } else {
        keep(c, cl, state);
    }
}

void
record_check(const struct core *c, const struct claim *cl)
{
    enum core_record_state state = c->conf.keeps_records ? state_of(cl) : CORE_RECORD_NOTHING;
    struct core_record_part p;

    if (state == CORE_RECORD_NOTHING) {
        assert(cl->record_sum == 0);
        return;
    }
    describe(cl, state, &p);
    assert(rank_of(cl, state) == cl->record_rank && sum_of(c, &p) == cl->record_sum);
}
