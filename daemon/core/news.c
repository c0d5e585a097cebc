/*
 * news.c -- the events of a claim (granted, released, jeopardy, lost, wanted) for the sessions that subscribe to them.
 */
#include "daemon/core/news.h"

#include "daemon/core/act.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"

void
news_publish(struct core *c, const struct claim *cl, enum core_news news, const char *reason)
{
    struct core_action a; /* only the member of the union that `type` names is set */

    a.type = CORE_PUBLISH;
    a.publish = (struct core_publish){.news = news,
                                      .name = lock_name(cl->lock),
                                      .token = cl->token,
                                      .owner = cl->redis_owner,
                                      .owner_name = {cl->owner->name, cl->owner->name_n},
                                      .session = cl->hold.session,
                                      .reason = reason};
    if (news != CORE_NEWS_RELEASED && news != CORE_NEWS_LOST) {
        a.publish.grant =
            (struct core_grant){.claim = claim_id(cl), .token = cl->token, .deadline_us = cl->hold.deadline_us};
    }
    core_act(c, &a);
}
