/*
 * outcomes.c -- what the answers of Redis mean for a claim.
 *
 * The lease of an OK counts from the clock that was read before the operation was sent. UNKNOWN is an outcome like the
 * others: after an acquire that may have run, the same owner asks again (and Redis finds it as the holder), or the
 * claim is released; a release that may have run is sent again, and GONE_IN_REDIS then means that it was done. An
 * operation that is DOWN has not run (of a quorum: see CORE_DOWN), and is sent again later.
 */
#include <assert.h>

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
#include "daemon/core/locks.h"
#include "daemon/core/news.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"
#include "daemon/core/window.h"

/*
 * Redis has granted the lock while another claim here was held: so Redis has lost that hold. Of kinds with one holder,
 * only those with tickets send an attempt while the lock is held here.
 */
static void
lose_others(struct core *c, struct lock *l)
{
    while (policy(l)->tickets && !list_empty(&l->holders)) {
        end_by_loss(c, container_of(l->holders.next, struct claim, node), "gone in Redis", true);
    }
}

static void
take_expiry(const struct core *c, struct claim *cl, const struct core_done *d)
{
    if (d->expiry_ms != 0) {
        cl->expiry_ms = d->expiry_ms;
        cl->expiry_learned_us = c->now_us;
    }
}

/* The request for which the attempt was sent has gone, and the next one wants the other sort of hold. */
static bool
is_wrong_sort(const struct claim *cl)
{
    return claim_wants_shared(cl) != cl->op_shared;
}

static void
grant(struct core *c, struct claim *cl, const struct core_done *d, int64_t deadline_us)
{
    struct lock *l = cl->lock;
    int64_t tried_us = cl->queued.tried_us;

    lose_others(c, l);
    claim_move(c, cl, CLAIM_HELD);
    cl->hold.deadline_us = deadline_us;
    cl->has_ticket = false;
    claim_end_renewal(c, cl); /* a renewal in flight was of the ticket: its outcome does not concern the hold */
    claim_set_token(c, cl, d->token);
    cl->reserve = d->reserve_denied ? 0 : cl->reserve;
    cl->replicas = d->replicas;
    l->queue->last_failure = CORE_NOT_GRANTED;
    l->queue->taken_until_us = 0;
    l->queue->failed_n = 0;
    attempt_succeeded(l);
    grant_claim(c, cl, tried_us, d->sent_us);
    serve_claim(c, cl); /* the repetitions that waited with it */
}

/* QUEUED again, and Redis may have granted it the lock: A8 of attempts.c. */
static void
ask_first(struct claim *cl)
{
    if (!policy(cl->lock)->tickets && cl->lock->queue->lone_attempt) {
        cl->lock->queue->asks_first = claim_id(cl);
    }
}

static void
acquire_ok(struct core *c, struct claim *cl, const struct core_done *d)
{
    int64_t deadline_us = core_deadline_us(d->sent_us, cl->lease_us);
    bool broken = uncertain_broken_since_sent(cl), tickets = policy(cl->lock)->tickets;

    uncertain_set_in_redis(cl, true); /* Redis has the claim, until it is given back */
    cl->expiry_ms = 0; /* an expiry known so far is that of an earlier hold */
    take_expiry(c, cl, d);
    uncertain_raise_expiry_max(cl, c->now_us, cl->lease_us);
    if (list_empty(&cl->requests) || is_wrong_sort(cl)) {
        attempt_succeeded(cl->lock);
        c->metrics->unclaimed++;
        op_release(c, cl, NULL);
    } else if (broken && !tickets) {
        claim_move(c, cl, CLAIM_QUEUED); /* the grant may have been broken: the next attempt, at once, finds out */
        ask_first(cl);
        claim_arm(c, cl);
        attempt_succeeded(cl->lock);
    } else if (broken && d->token < cl->lock->queue->broken_token) { /* asking again would take another ticket */
        op_release(c, cl, NULL);
        attempt_failed(c, cl->lock, d);
    } else if (c->now_us >= deadline_us) {
        claim_move(c, cl, CLAIM_QUEUED); /* too late to be reported; asking again renews it */
        ask_first(cl);
        claim_arm(c, cl);
        attempt_failed(c, cl->lock, d);
    } else {
        grant(c, cl, d, deadline_us);
    }
}

/*
 * Redis has granted the lock, and too few replicas have acknowledged the grant: it is not reported, but released. The
 * requests that wait in the claim ask again when that is done, before others: attempts.c, A7.
 */
static void
acquire_shortfall(struct core *c, struct claim *cl, const struct core_done *d)
{
    struct queue *q = cl->lock->queue;

    q->replicas = (uint8_t)d->replicas;
    q->replicas_wanted = (uint8_t)d->replicas_wanted;
    c->metrics->replica_shortfalls++;
    uncertain_set_in_redis(cl, true);
    cl->expiry_ms = 0;
    take_expiry(c, cl, d);
    uncertain_raise_expiry_max(cl, c->now_us, cl->lease_us);
    op_release(c, cl, NULL);
    cl->shortfall = true; /* until it leaves RELEASING: claim_move() */
    q->shortfalls_n++;
    attempt_failed(c, cl->lock, d);
}

/* TAKEN, of a kind with tickets: whether this claim has one now, and whether others may need one. */
static void
note_ticket(struct core *c, struct claim *cl, const struct core_done *d)
{
    struct lock *l = cl->lock;

    if (cl->has_ticket && !d->has_ticket) {
        claim_put_last(c, cl);
    } else if (d->has_ticket && !cl->has_ticket) {
        claim_put_by_ticket(c, cl);
        claim_end_renewal(c, cl); /* one in flight was of the former ticket: its outcome does not concern this one */
        /* Redis has taken the ticket for this lease at most */
        cl->renew_us = d->sent_us + earlier(cl->queued.ticket_life_us, cl->lease_us) / 3;
    }
    cl->has_ticket = d->has_ticket;
    uncertain_set_in_redis(cl, uncertain_may_be_in_redis(cl) || cl->has_ticket);
    /* If this claim could get no ticket, others can not either: none is asked for until the next attempt. */
    l->queue->ticketless = cl->has_ticket || !cl->op_ticket;
}

static void
acquire_done(struct core *c, struct claim *cl, const struct core_done *d)
{
    struct lock *l = cl->lock;

    cl->op = 0;
    if (c->draining) { /* the drain may not have reached this claim yet */
        while (!list_empty(&cl->requests)) {
            refusal_by_drain(c, cl);
        }
    }
    if (d->outcome == CORE_OK) {
        acquire_ok(c, cl, d);
        return;
    }
    if (d->outcome == CORE_SHORTFALL) {
        acquire_shortfall(c, cl, d);
        return;
    }
    if (d->outcome == CORE_UNKNOWN) {
        c->metrics->unknowns++;
        uncertain_set_in_redis(cl, true);
        uncertain_add_straggler(c, cl, STRAGGLER_ACQUIRE, d->guard_us);
        uncertain_raise_expiry_max(cl, later(c->now_us, d->guard_us), cl->lease_us);
    } else if (d->outcome == CORE_TAKEN && uncertain_allows(c, cl, MAY_ASSUME_GONE)) {
        uncertain_set_in_redis(cl, false); /* held elsewhere, and no attempt of this claim is left under way */
    }
    claim_move(c, cl, CLAIM_QUEUED);
    if (d->outcome == CORE_TAKEN && policy(l)->tickets) {
        note_ticket(c, cl, d);
    } else if (d->outcome == CORE_FOREIGN || d->outcome == CORE_DENIED) {
        l->queue->ticketless = false;
    } else if (d->outcome == CORE_UNKNOWN && cl->op_ticket) {
        claim_put_by_ticket(c, cl); /* Redis may have given it a ticket: it asks again before any other claim takes
                                       one */
    } else if (d->outcome == CORE_UNKNOWN) {
        ask_first(cl);
    }
    if (list_empty(&cl->requests)) {
        position_give_up(c, cl);
    } else if (uncertain_may_be_in_redis(cl) && is_wrong_sort(cl)) {
        op_release(c, cl, NULL);
    }
    claim_arm(c, cl);
    if ((d->outcome == CORE_FOREIGN && !l->foreign_wait) || d->outcome == CORE_DENIED || d->denied) {
        refusal_of_waiters(c, l, d->outcome == CORE_FOREIGN ? CORE_WRONG_KIND : CORE_FORBIDDEN, REFUSED_MAX);
        l->queue->failed = false; /* the waiters that are left ask now */
        l->queue->retry_us = l->queue->yield_until_us;
        dirty_mark_lock(c, l);
    } else {
        attempt_failed(c, l, d);
    }
}

/*
 * Redis has set the expiry to `lease_us`, or left a later one. A later deadline is taken over; an earlier one only if
 * the request asked for it (exactly).
 */
static void
extended(struct core *c, struct claim *cl, const struct core_done *d, int64_t lease_us, bool exactly)
{
    int64_t deadline_us = core_deadline_us(d->sent_us, uncertain_capped_lease_us(c, cl, d->sent_us, lease_us));

    cl->hold.deadline_us = exactly ? deadline_us : later(cl->hold.deadline_us, deadline_us);
    grant_plan_renewal(c, cl, d->sent_us);
    take_expiry(c, cl, d);
    cl->failed_n = 0;
    uncertain_raise_expiry_max(cl, c->now_us, lease_us);
}

/* A RENEW may have run, or may run until guard_us: from now on the lease may be as short as that RENEW asked. */
static void
perhaps_shortened(struct core *c, struct claim *cl, const struct core_done *d)
{
    int64_t deadline_us = core_deadline_us(d->sent_us, cl->hold.op_lease_us), renew_us;

    cl->hold.deadline_us = deadline_us < cl->hold.deadline_us ? deadline_us : cl->hold.deadline_us;
    renew_us = d->sent_us + (cl->hold.deadline_us - d->sent_us) / 3; /* the watchdog must not come too late now */
    cl->renew_us = earlier(cl->renew_us, renew_us);
    cl->hold.jeopardy_us = earlier(cl->hold.jeopardy_us, d->sent_us + 2 * (renew_us - d->sent_us));
    uncertain_add_renew(c, cl, cl->hold.op_lease_us, d->guard_us);
}

/* Counts one hold more, or one less. serve_unlock() has already taken the last exclusive hold off the count. */
static void
count_hold(struct claim *cl)
{
    uint32_t *n = cl->op_shared ? &cl->shared : &cl->holds;

    if (cl->op_verb == CORE_ACQUIRE) {
        ++*n;
    } else {
        *n -= *n > 0;
    }
}

/* The operation has succeeded: answers the request for which it was sent, unless that has gone (r NULL). */
static void
held_ok(struct core *c, struct claim *cl, struct request *r, const struct core_done *d)
{
    switch (cl->op_verb) {
    case CORE_ACQUIRE:
        extended(c, cl, d, cl->hold.op_lease_us, false);
        if (cl->op_reclaim) {
            c->metrics->reclaims++;
            cl->replicas = 0; /* the replicas of this Redis were not asked */
            cl->reserve = d->reserve_denied ? 0 : cl->reserve;
            uncertain_set_verify(c, cl,
                                 uncertain_to_verify(cl) & ~(unsigned)(cl->op_shared ? VERIFY_SHARED : VERIFY_HOLDS));
        }
        if (r != NULL) {
            count_hold(cl);
            if (!cl->watchdog && (r->lease_us == 0 || r->multilock != NULL)) {
                cl->watchdog = true;
                r->lease_before_us = r->multilock != NULL ? cl->lease_us : 0;
                cl->lease_us = r->lease_us != 0 ? r->lease_us : r->spec_lease_us;
                r->renewed_until_complete = r->lease_us != 0;
            }
            request_grant(c, r);
        }
        break;
    case CORE_RELEASE:
        extended(c, cl, d, cl->hold.op_lease_us, false);
        count_hold(cl);
        if (r != NULL) {
            request_finish(c, r, CORE_LEFT, claim_holds(cl));
        }
        dirty_mark_lock(c, cl->lock); /* a writer that only reads now lets other readers in */
        break;
    default: /* EXTEND */
        cl->lease_us = cl->watchdog ? cl->lease_us : cl->hold.op_lease_us;
        extended(c, cl, d, cl->hold.op_lease_us, true);
        if (r != NULL) {
            request_finish(c, r, CORE_LEFT, later(0, cl->hold.deadline_us - c->now_us) / US_PER_MS);
        }
        break;
    }
}

/* In a quorum a majority of the nodes has the key no longer than deadline_max_us: the deadline and jeopardy move. */
static void
cap_deadline(struct core *c, struct claim *cl, const struct core_done *d)
{
    if (d->deadline_max_us != 0 && cl->state == CLAIM_HELD && d->deadline_max_us < cl->hold.deadline_us) {
        cl->hold.deadline_us = d->deadline_max_us;
        cl->hold.jeopardy_us = earlier(cl->hold.jeopardy_us, d->deadline_max_us - cl->lease_us / 3);
        claim_arm(c, cl);
    }
}

/* HELD: the answer to a re-entry, to the release of one of several holds, to a RENEW or to a reclaim. */
static void
held_done(struct core *c, struct claim *cl, const struct core_done *d)
{
    struct request *r = claim_op_request(cl);

    c->window[WINDOW_RECLAIM].n -= cl->op_reclaim;
    cl->op = 0;
    cl->op_for_request = false;
    switch (d->outcome) {
    case CORE_OK:
        held_ok(c, cl, r, d);
        break;
    case CORE_GONE_IN_REDIS:
    case CORE_FOREIGN:
    case CORE_TAKEN: /* with two sorts of holds Redis may have the other sort: it is given back as well */
        end_by_loss(c, cl, cl->op_reclaim ? "lost by Redis" : "gone in Redis",
                    d->outcome != CORE_TAKEN || !policy(cl->lock)->two_sorts);
        return;
    case CORE_UNKNOWN:
        c->metrics->unknowns++;
        if (cl->op_reclaim) {
            uncertain_add_straggler(c, cl, STRAGGLER_ACQUIRE, d->guard_us);
        }
        if (cl->op_verb == CORE_EXTEND) {
            perhaps_shortened(c, cl, d);
        } else if (cl->op_verb == CORE_RELEASE && policy(cl->lock)->two_sorts) {
            /* the release may run at any later time, and must not meet a hold of the other sort */
            uncertain_add_taking(cl);
        }
        uncertain_raise_expiry_max(cl, later(c->now_us, d->guard_us), cl->hold.op_lease_us);
        claim_back_off(c, cl);
        if (cl->op_verb == CORE_RELEASE) {
            uncertain_add_straggler(c, cl, STRAGGLER_RELEASE, d->guard_us);
            if (r != NULL) {
                r->unanswered = true;
            }
        }
        break;
    case CORE_DOWN:
    case CORE_DENIED:
    case CORE_FULL:
    case CORE_GRACE:
    case CORE_SHORTFALL: /* replicas are asked for new grants only */
        if (cl->op_verb == CORE_EXTEND) {
            cl->hold.deadline_us = cl->hold.unrenewed_us;
            cap_deadline(c, cl, d); /* some nodes of a quorum may have run it */
        }
        claim_back_off(c, cl);
        break;
    }
    if (d->outcome != CORE_OK && r != NULL && r->timing_out) { /* held_ok() has answered the request of an OK */
        request_finish(c, r, CORE_UNAVAILABLE, 0);
    }
    if (cl->retry_us == 0 || list_empty(&cl->requests)) {
        serve_claim(c, cl);
    }
    claim_arm(c, cl);
}

static void
release_done(struct core *c, struct claim *cl, const struct core_done *d)
{
    struct request *r = claim_op_request(cl);
    bool gone = d->outcome == CORE_GONE_IN_REDIS || d->outcome == CORE_FOREIGN || d->outcome == CORE_TAKEN;
    bool over = c->now_us >= uncertain_gone_from_us(c, cl) && !policy(cl->lock)->tickets;

    cl->op = 0;
    c->window[cl->op_background ? WINDOW_BACKGROUND : WINDOW_UNLOCK].n--;
    cl->lock->releases_sent_n--;
    if (d->outcome == CORE_UNKNOWN) {
        c->metrics->unknowns++;
        uncertain_add_release(cl); /* also after the end of the lease: the release may yet run */
    }
    if (d->outcome == CORE_OK || d->outcome == CORE_GRACE || gone || over) {
        bool lost = gone && r != NULL && !uncertain_release_unresolved(cl);

        c->metrics->releases += d->outcome == CORE_OK;
        if (lost) {
            c->metrics->lost++;
            news_publish(c, cl, CORE_NEWS_LOST, "gone in Redis");
        }
        if (r != NULL) {
            request_finish(c, r, lost ? CORE_WAS_LOST : CORE_LEFT, permit_set_held_beside(c, cl));
        }
        attempt_after_release(c, cl->lock, d);
        end_gone_in_redis(c, cl, !lost);
        return;
    }
    claim_back_off(c, cl);
    claim_arm(c, cl);
}

/*
 * The ticket's renewal is answered: the ticket lives on, or the claim has to take a new one behind all others. TRYING:
 * the answer to the attempt shows whether there is a ticket.
 */
static void
ticket_renewed(struct core *c, struct claim *cl, const struct core_done *d)
{
    if (d->outcome == CORE_OK) {
        cl->renew_us = later(c->now_us, d->sent_us + cl->queued.ticket_life_us / 3);
    } else if (d->outcome == CORE_UNKNOWN || d->outcome == CORE_DOWN || d->outcome == CORE_FULL ||
               d->outcome == CORE_GRACE || d->outcome == CORE_DENIED) {
        cl->renew_us = after_us(c->now_us, US_PER_S);
    } else if (cl->state == CLAIM_QUEUED && cl->has_ticket) {
        cl->has_ticket = false;
        claim_put_last(c, cl);
    }
    claim_arm(c, cl);
}

/* The answer to the renewal: of a lease by the watchdog, or of a ticket. A release may have waited for it. */
static void
renew_done(struct core *c, struct claim *cl, const struct core_done *d)
{
    claim_end_renewal(c, cl);
    if (cl->state == CLAIM_RELEASING && cl->op == 0 && cl->retry_us == 0) {
        take_expiry(c, cl, d);
        op_release(c, cl, claim_op_request(cl)); /* the release waited for this answer */
        return;
    }
    if (cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING) {
        ticket_renewed(c, cl, d);
        return;
    }
    if (cl->state != CLAIM_HELD) {
        return;
    }
    if (d->outcome == CORE_OK) {
        unsigned verify = uncertain_to_verify(cl);

        c->metrics->renewals++;
        extended(c, cl, d, cl->renew.lease_us, false);
        uncertain_set_verify(c, cl, verify & VERIFY_AGAIN ? verify : verify & VERIFY_LOST);
    } else {
        int64_t pause_us = cl->lease_us / 30;

        c->metrics->renewals_failed++;
        if (d->outcome == CORE_GONE_IN_REDIS || d->outcome == CORE_FOREIGN || d->outcome == CORE_TAKEN) {
            end_by_loss(c, cl, "gone in Redis", true);
            return;
        }
        if (d->outcome == CORE_UNKNOWN) {
            c->metrics->unknowns++;
            uncertain_raise_expiry_max(cl, later(c->now_us, d->guard_us), cl->renew.lease_us);
        }
        pause_us = later(pause_us, 50 * US_PER_MS);
        cl->renew_us = after_us(c->now_us, pause_us < US_PER_S ? pause_us : US_PER_S);
        cl->retry_us = uncertain_to_verify(cl) != 0 ? cl->renew_us : cl->retry_us;
    }
    serve_claim(c, cl);
}

void
outcome_arrives(struct core *c, struct claim *cl, const struct core_done *d)
{
    bool renewed = cl->renewal_sent && d->op == cl->renew.op;

    if (d->op == 0 || !(renewed || d->op == cl->op)) {
        return;
    }
    uncertain_answered(c, cl, d);
    cap_deadline(c, cl, d);
    if (renewed) {
        renew_done(c, cl, d);
    } else {
        switch (cl->state) {
        case CLAIM_TRYING:
            acquire_done(c, cl, d);
            break;
        case CLAIM_HELD:
            held_done(c, cl, d);
            break;
        case CLAIM_RELEASING:
            release_done(c, cl, d);
            break;
        default: /* these states have no operation in flight */
            assert(false);
        }
    }
    if (d->outcome == CORE_OK) { /* the deadline may be a new one */
        cap_deadline(c, cl, d);
    }
}
