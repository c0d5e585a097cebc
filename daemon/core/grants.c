/*
 * grants.c -- a claim is granted, by Redis or by a hand-off; when its lease is renewed next (grant_plan_renewal()).
 */
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/lock.h"
#include "daemon/core/news.h"
#include "daemon/core/owner.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"
#include "daemon/core/times.h"

/* Plans renewal and jeopardy, for a deadline that counts from sent_us. */
void
grant_plan_renewal(const struct core *c, struct claim *cl, int64_t sent_us)
{
    int64_t third_us = (cl->hold.deadline_us - sent_us) / 3;

    cl->renew_us = later(c->now_us, sent_us + third_us);
    cl->hold.jeopardy_us = sent_us + 2 * third_us;
    cl->jeopardy = false;
}

/* Requests that wait in the claim are answered by it now, not by the outcome of another attempt. */
static void
stop_timing_out(struct claim *cl)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &cl->requests)
    {
        list_remove(&container_of(pos, struct request, claim_node)->timing_out_node);
    }
}

/*
 * The claim is held. Its attempt began at tried_us, its deadline counts from sent_us (a hand-off: now). The first
 * request is answered; serve_claim() answers those that joined it.
 */
void
grant_claim(struct core *c, struct claim *cl, int64_t tried_us, int64_t sent_us)
{
    struct lock *l = cl->lock;
    struct request *first = container_of(cl->requests.next, struct request, claim_node);

    cl->holds = !first->shared;
    cl->shared = first->shared;
    cl->hold.session = first->session->id;
    cl->fresh = first->fresh;
    c->metrics->grants_waited += tried_us > cl->since_us;
    cl->since_us = c->now_us;
    first->renewed_until_complete = first->multilock != NULL && first->lease_us != 0;
    cl->watchdog = first->lease_us == 0 || first->renewed_until_complete;
    cl->lease_us = first->lease_us == 0 ? first->spec_lease_us : cl->lease_us;
    grant_plan_renewal(c, cl, sent_us);
    cl->failed_n = 0;
    l->cohort_since_us = l->cohort_passes == 0 ? c->now_us : l->cohort_since_us;
    l->cohort_passes++;
    news_publish(c, cl, CORE_NEWS_GRANTED, NULL);
    request_grant(c, first); /* the claim stays HELD: a multilock gives back only later, in multilocks_advance() */
    stop_timing_out(cl);
    timing_out_settle(c, l, SETTLE_FULL, CORE_NOT_GRANTED);
}
