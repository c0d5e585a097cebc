/*
 * window.c -- how many operations of a sort are in flight, and which claim is next.
 *
 * Renewals, releases and the reclaims of a grace come by the hundred thousand: leases that were taken together, a
 * session that ends with all it held, a Redis that has lost its data. If all were sent at once, the last ones would be
 * given up unanswered, be sent again on top of that, and the link would be dropped for its silence. So no more are in
 * flight than Redis answers in time; the other claims wait on a list, unarmed, in order.
 *
 * Each sort has a window of its own, so that none holds up another: a renewal never waits for releases. Those that no
 * request waits for have the smallest one; what is sent next to them is answered soon.
 */
#include "daemon/core/state.h"

uint32_t
window_size(const struct core *c, enum window_sort sort)
{
    int64_t n = earlier(c->conf.op_timeout_us / WINDOW_US, WINDOW_MAX);

    if (c->conf.window != 0) {
        return c->conf.window;
    }
    return (uint32_t)later(sort == WINDOW_RELEASE ? n / WINDOW_OWED : n, RENEW_TOGETHER);
}

static bool
has_room(const struct core *c, enum window_sort sort)
{
    return c->window[sort].n < window_size(c, sort);
}

/*
 * While a renewal is in flight the claim is on no list: what comes of that renewal asks again, see renew_done() and
 * held_next_us().
 */
bool
claim_may_leave(struct core *c, struct claim *cl, enum window_sort sort)
{
    if (has_room(c, sort)) {
        claim_waits_not(cl);
        return true;
    }
    if (cl->renewal == RENEWAL_NONE) {
        cl->renewal = RENEWAL_WAITS;
        list_push_back(&c->window[sort].waiting, &cl->turn_node);
    }
    return false;
}

void
claim_waits_not(struct claim *cl)
{
    if (cl->renewal == RENEWAL_WAITS) {
        cl->renewal = RENEWAL_NONE;
        list_remove(&cl->turn_node);
    }
}

enum window_sort
claim_release_sort(const struct claim *cl, const struct request *r)
{
    bool wanted = cl->lock->queue->waiting_n > 0 || cl->lock->outside || !list_empty(&cl->requests);

    return r != NULL || wanted ? WINDOW_UNLOCK : WINDOW_RELEASE;
}

/* Looks at the first few only: of a name with very many permits one that comes back is as good as another. */
void
lock_releases_sooner(struct core *c, struct lock *l)
{
    struct list *pos, *nxt;
    int looked = 0;

    if (l->freeing_n == l->releasing_n || !has_room(c, WINDOW_UNLOCK)) {
        return;
    }
    list_each(pos, nxt, &l->rest)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (++looked > TOGETHER) {
            return;
        }
        if (cl->state == CLAIM_FREEING && cl->renewal == RENEWAL_WAITS) { /* on either list */
            claim_waits_not(cl);
            claim_release(c, cl, claim_op_request(cl));
        }
    }
}

bool
windows_open(const struct core *c)
{
    for (int i = 0; i < WINDOWS; i++) {
        if (!list_empty(&c->window[i].waiting) && has_room(c, (enum window_sort)i)) {
            return true;
        }
    }
    return false;
}

/* Those that are HELD or QUEUED have their timers due once more. As many as this turn's slice has. */
void
windows_go_on(struct core *c)
{
    for (int i = 0; i < WINDOWS; i++) {
        struct list *waiting = &c->window[i].waiting;
        uint32_t most = window_size(c, (enum window_sort)i);

        for (uint32_t n = c->window[i].n; n < most && !list_empty(waiting) && slice_has(c, c->left.timers); n++) {
            struct claim *cl = container_of(waiting->next, struct claim, turn_node);

            slice_spend(&c->left.timers, 1);
            claim_waits_not(cl);
            if (cl->state == CLAIM_FREEING) {
                claim_release(c, cl, claim_op_request(cl));
            } else {
                claim_arm(c, cl);
            }
        }
    }
}
