/*
 * turns.c -- claims whose turn it is: by their timer, in a window, or because an event is about them.
 */
#include "daemon/core/locks.h"

#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/jobs.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/news.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"
#include "daemon/core/uncertain.h"
#include "daemon/core/uncertain_notes.h"
#include "daemon/core/window.h"

/* The owner has ended: the claim is given back, as by an UNLOCK of all its holds; a position and a loss are dropped. */
static void
claim_owner_ends(struct core *c, struct claim *cl)
{
    cl->lost = false;
    if (cl->state != CLAIM_HELD) {
        claim_clear_kept_until(cl);
    } else if (handoff_to_next(c, cl, NULL)) {
        serve_claim(c, cl); /* for its next owner */
        return;
    } else if (handoff_cache(c, cl, NULL)) {
        return;
    }
    if (cl->state == CLAIM_HELD || (cl->state == CLAIM_QUEUED && uncertain_may_be_in_redis(cl))) {
        op_release(c, cl, NULL);
    } else if (cl->state == CLAIM_QUEUED || cl->state == CLAIM_LOST) {
        claim_set_token(c, cl, 0);
        claim_move(c, cl, CLAIM_IDLE);
    }
    claim_arm(c, cl);
}

static void
held_timer(struct core *c, struct claim *cl)
{
    if (cl->owner->ending) { /* the owner's job is still due */
        claim_owner_ends(c, cl);
        return;
    }
    if (c->now_us >= cl->hold.deadline_us) {
        end_lapsed(c, cl);
        return;
    }
    if (cl->watchdog && !cl->jeopardy && c->now_us >= cl->hold.jeopardy_us) {
        cl->jeopardy = true;
        c->metrics->jeopardies++;
        news_publish(c, cl, CORE_NEWS_JEOPARDY, "not renewed yet");
        if (uncertain_to_verify(cl) == 0 && (cl->retry_us == 0 || cl->retry_us > c->now_us) &&
            cl->renew_us > c->now_us) {
            claim_arm(c, cl); /* only JEOPARDY was due */
            return;
        }
    }
    if (uncertain_to_verify(cl) != 0) {
        serve_claim(c, cl);
    } else if (cl->retry_us != 0 && cl->retry_us <= c->now_us) {
        cl->retry_us = 0;
        serve_claim(c, cl);
    } else {
        assert(cl->watchdog);
        if (!cl->renewal_sent && !claim_busy(cl)) {
            op_renew_in_turn(c, cl);
        }
    }
    claim_arm(c, cl);
}

/* Every path must re-arm the timer by claim_arm(), except the review, after which the timer fires once more. */
void
claim_timer(struct core *c, struct claim *cl)
{
    /* the review may change time and state */
    if (cl->lock->domain_review != lock_domain(c, cl->lock)->review.number || cl->review_n != cl->lock->reviews_n) {
        lock_catch_up(c, cl->lock);
        reclaim_review(c, cl);
        return;
    }
    switch (cl->state) {
    case CLAIM_QUEUED:
        if (list_empty(&cl->requests) && claim_kept_until_us(cl) <= c->now_us) { /* no request came back for it */
            position_give_up(c, cl);
        } else { /* perhaps a little early: see renew_slack_us() */
            assert(cl->has_ticket && !cl->renewal_sent);
            op_renew_in_turn(c, cl);
        }
        claim_arm(c, cl);
        break;
    case CLAIM_HELD:
        held_timer(c, cl);
        break;
    case CLAIM_CACHED:
        op_release(c, cl, NULL);
        break;
    case CLAIM_RELEASING:
        op_release(c, cl, claim_op_request(cl));
        break;
    case CLAIM_STRAGGLING: /* a straggler may have taken the lock; none can run now unless Redis's clock was set back */
        if (!uncertain_allows(c, cl, MAY_ASSUME_GONE)) {
            claim_arm(c, cl);
        } else {
            op_release(c, cl, NULL);
        }
        break;
    case CLAIM_LOST:
        end_loss_expired(c, cl);
        break;
    case CLAIM_TRYING: /* its position is kept no longer; what the attempt brings is given back */
    case CLAIM_IDLE:
    case CLAIM_STATES:
        claim_arm(c, cl);
        break;
    }
}

/* True when the timer is due, and no slice has come to it yet. */
static bool
is_due(const struct core *c, const struct timer *t)
{
    return t->node.pos != 0 && heap_at(&c->timers, &t->node) <= c->now_us;
}

void
claim_catch_up(struct core *c, struct claim *cl)
{
    lock_catch_up(c, cl->lock);
    if (cl->review_n != cl->lock->reviews_n) {
        reclaim_review(c, cl);
    }
    if (job_is_pending(&cl->owner->job)) {
        claim_owner_ends(c, cl);
    }
    if (cl->state == CLAIM_HELD && claim_is_broken(cl)) {
        end_lapsed(c, cl);
    } else if (is_due(c, &cl->timer)) {
        claim_timer(c, cl);
    }
}

/*
 * The claim's turn in its window has come: a release is sent now, or Redis is asked about what is to be verified. A
 * renewal is not sent here, because a RENEW may come first: the timer, which is due, sends it.
 */
static void
take_turn(struct core *c, struct claim *cl)
{
    window_leave(c, cl);
    if (cl->state == CLAIM_RELEASING) {
        op_release(c, cl, claim_op_request(cl));
    } else if (uncertain_to_verify(cl) != 0) {
        claim_timer(c, cl);
    } else {
        claim_arm(c, cl);
    }
}

/* Gives back the memory of a window's heap, if very many claims have waited in it and none does now. */
static void
trim_heap(struct heap *waiting)
{
    if (waiting->count == 0 && waiting->room > WINDOW_MAX) {
        heap_fini(waiting);
    }
}

/*
 * Gives claims that wait in windows their turns, one window after the other, as many as the slice allows, and from each
 * window no more than it had room for at the start. They come before the timers, of which a hundred thousand may be due
 * as well.
 */
void
windows_advance(struct core *c)
{
    uint32_t left[WINDOWS], taken;

    if (c->awaiting_window_n == 0) {
        return;
    }
    for (int i = 0; i < WINDOWS; i++) {
        uint32_t most = window_size(c, (enum window_sort)i);

        left[i] = c->window[i].n < most ? most - c->window[i].n : 0;
    }
    do {
        taken = 0;
        for (int i = 0; i < WINDOWS; i++) {
            struct heap_node *first = heap_min(&c->window[i].waiting);

            if (first != NULL && left[i] > 0 && budget_has(c, c->budget.from_windows)) {
                left[i]--;
                taken++;
                budget_spend(&c->budget.from_windows, 1);
                take_turn(c, container_of(first, struct claim, window_node));
                trim_heap(&c->window[i].waiting);
            }
        }
    } while (taken > 0);
}
