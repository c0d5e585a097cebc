/*
 * lock_room.c -- the holders of a lock here, the room beside them, and the next claim in its queue.
 */
#include "daemon/core/lock_room.h"

#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

/*
 * The first claim in the queue that has requests. Positions that are kept without a request are skipped: at most
 * POSITIONS_KEPT_MAX of them. If no request waits, they are not looked at: a client that polls with ever new owners
 * leaves one position with each request.
 */
struct claim *
lock_next_claim(const struct lock *l)
{
    struct list *pos, *nxt;

    if (l->queue->waiting_n == 0) {
        return NULL;
    }
    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        if (!list_empty(&cl->requests)) {
            return cl;
        }
    }
    return NULL;
}

/*
 * Whether the first claim in this state (there is one) is exclusive. (An exclusive holder is the only one. A claim that
 * is RELEASING what an attempt may have got counts as shared: an attempt beside it is TAKEN at worst.)
 */
static bool
is_exclusive(const struct list *list, unsigned state)
{
    return claim_first(list, state)->holds > 0;
}

/* Whether the holders here leave no room for one more. */
bool
lock_is_full(const struct lock *l, bool shared)
{
    return l->held_n >= lock_holders_max(l) && !(shared && !is_exclusive(&l->holders, CLAIM_IN(HELD)));
}

/*
 * Whether the holders and the releases here (with permits, the attempts as well) leave room for one more. `behind`: a
 * release is in the way only until it is sent.
 */
bool
lock_has_room(const struct lock *l, bool shared, bool behind)
{
    uint32_t leaving = l->releasing_n - (behind ? l->releases_sent_n : 0);

    if (lock_has_limit(l)) {
        return l->held_n + leaving + l->queue->trying_n < l->limit;
    }
    return !lock_is_full(l, shared) && (leaving == 0 || (shared && !is_exclusive(&l->rest, CLAIM_IN(RELEASING))));
}

bool
lock_has_one_token(const struct core *c, const struct lock *l)
{
    const struct claim *cl = claim_first(&l->holders, CLAIM_IN(HELD));

    return cl != NULL && !lock_has_limit(l) && cl->holds > 0 && claim_is_held(cl, c->now_us);
}

struct claim *
lock_newest_holder(const struct lock *l)
{
    struct claim *newest = NULL;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->holders)
    {
        struct claim *cl = container_of(pos, struct claim, node);

        newest = newest == NULL || cl->token > newest->token ? cl : newest;
    }
    return newest;
}

struct claim *
lock_cached_claim(const struct lock *l)
{
    return claim_first(&l->rest, CLAIM_IN(CACHED));
}

void
lock_end_reserve(struct lock *l)
{
    struct list *lists[] = {&l->holders, &l->queue->claims}; /* also claims that are TRYING may have a reserve */
    struct list *pos, *nxt;

    if (!l->has_reserve) { /* no walk over very many claims at each change of the limit */
        return;
    }
    l->has_reserve = false;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_for_each_safe(pos, nxt, lists[i])
        {
            container_of(pos, struct claim, node)->reserve = 0;
        }
    }
}
