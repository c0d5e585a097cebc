/*
 * refusals.c -- requests that wait for a lock, and are refused: by the outcome of an attempt, or by a drain.
 */
#include "daemon/core/ends.h"

#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/queue.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

void
refusal_of_waiters(struct core *c, struct lock *l, enum core_answer answer, uint32_t most)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        for (; !list_empty(&cl->requests); most--) {
            if (most == 0) {
                return;
            }
            request_finish(c, container_of(cl->requests.next, struct request, claim_node), answer, 0);
        }
    }
}

void
refusal_by_drain(struct core *c, struct claim *cl)
{
    struct request *r = list_empty(&cl->requests) ? NULL : container_of(cl->requests.next, struct request, claim_node);

    if (r != NULL && (cl->state == CLAIM_QUEUED || cl->state == CLAIM_TRYING)) {
        request_finish(c, r, CORE_DRAINING, 0);
    }
}
