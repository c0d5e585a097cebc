/*
 * told.c -- the grants that owners were told of: whether they still stand, and what could not be told in time.
 */
#include "daemon/core/told.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/leases.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"

enum core_standing
core_standing(const struct core *c, const struct core_grant *g, int64_t now_us, int64_t *until_us)
{
    struct map_node *found = map_find(&c->claims, g->claim);
    const struct claim *cl = found != NULL ? container_of(found, struct claim, by_id) : NULL;

    if (cl == NULL || cl->token != g->token) {
        return CORE_ENDED;
    }
    if (claim_is_held(cl, now_us)) {
        *until_us = cl->hold.deadline_us;
        return CORE_STANDS;
    }
    return cl->state == CLAIM_HELD || cl->state == CLAIM_LOST || cl->lost ? CORE_LOST_UNTOLD : CORE_ENDED;
}

/* The answer that granted it was late. It may have ended since, and its claim may have another owner. */
void
claim_untold(struct core *c, const struct core_grant *g, bool told)
{
    struct map_node *found = map_find(&c->claims, g->claim);
    struct claim *cl = found != NULL ? container_of(found, struct claim, by_id) : NULL;

    if (cl == NULL || cl->token != g->token) {
        return;
    }
    if (told) {
        claim_told_over(c, cl);
    } else if (g->counted && cl->state == CLAIM_HELD && !cl->owner->ending) {
        if (claim_holds(cl) > 1) { /* its owner was told of the others */
            request_give_back(c, cl, g->shared);
        } else {
            claim_lose(c, cl, "granted too late to be told", false);
        }
    }
}
