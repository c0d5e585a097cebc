/*
 * delivery.c -- the grants that answers rely on: their state right before the bytes leave, and what follows when an
 * answer was late.
 */
#include "daemon/core/requests.h"

#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/owner.h"
#include "daemon/core/state.h"

/* The claim of the grant; NULL: it has ended, or was granted anew since. */
static struct claim *
claim_of_grant(const struct core *c, const struct core_grant *g)
{
    struct map_node *found = map_find(&c->claims, g->claim);
    struct claim *cl = found != NULL ? container_of(found, struct claim, by_id) : NULL;

    return cl != NULL && cl->token == g->token ? cl : NULL;
}

enum core_grant_state
core_grant_state(const struct core *c, const struct core_grant *g, int64_t now_us, int64_t *deadline_us)
{
    const struct claim *cl = claim_of_grant(c, g);

    if (cl == NULL) {
        return CORE_GRANT_ENDED;
    }
    if (claim_is_held(cl, now_us)) {
        *deadline_us = cl->hold.deadline_us;
        return CORE_GRANT_HELD;
    }
    return cl->state == CLAIM_HELD || cl->state == CLAIM_LOST || cl->lost ? CORE_GRANT_LOST : CORE_GRANT_ENDED;
}

void
delivery_loss_reported(struct core *c, const struct core_grant *g)
{
    struct claim *cl = claim_of_grant(c, g);

    if (cl != NULL) {
        end_known_to_owner(c, cl);
    }
}

/* The answer was late: takes back the hold that it counted, unless the claim has ended since or has another owner. */
void
delivery_failed(struct core *c, const struct core_grant *g)
{
    struct claim *cl = claim_of_grant(c, g);

    if (cl != NULL && g->counted && cl->state == CLAIM_HELD && !cl->owner->ending) {
        if (claim_holds(cl) > 1) { /* its owner has received answers about the others */
            request_give_back(c, cl, g->shared);
        } else {
            end_by_loss(c, cl, "granted too late to be reported", false);
        }
    }
}
