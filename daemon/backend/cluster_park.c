/*
 * cluster_park.c -- where the items of a cluster go: to the master of their slot, to another node, or nowhere yet.
 *
 * P1  Nothing is sent to a node but by what cluster_rules_slot() says of it. MOVED is no reason to: the item is parked,
 *     the map is asked for, and when the slot is known to be elsewhere the item goes there.
 * P2  ASK is followed by forms with one key alone (script_forms.h), which grant nothing. What has no such form waits.
 * P3  A reclaim never goes again by itself: it is DOWN, and the core asks again.
 * P4  An item is parked for as long as a call may take (redis.timeout), in all; then it is DOWN. How many there are is
 *     bounded as for a shard: an operation and a renewal for each claim.
 */
#include "daemon/backend/cluster_private.h"
#include "daemon/backend/address.h"
#include "daemon/backend/redirect.h"
#include "daemon/base/clock.h"

#define PARK_US (100 * US_PER_MS) /* between looks at what is parked */

static void
end(struct cluster *c, struct item *it)
{
    deferred_item(&c->down, it);
}

static void
park(struct cluster *c, struct item *it)
{
    int64_t now_us = clock_now_us();

    it->parked_us = it->parked_us != 0 ? it->parked_us : now_us;
    if (it->op.reclaim || now_us >= it->parked_us + c->conf.timeout_us) {
        end(c, it);
        return;
    }
    list_remove(&it->node);
    list_push_back(&c->parked, &it->node);
    cluster_wake(c, PARK_US);
}

/* Whether it takes a lock, or breaks one: it is about none that is held here, and has to wait where a slot is open. */
static bool
takes(const struct item *it)
{
    return it->verb == VERB_ACQUIRE || it->verb == VERB_CLEAR;
}

/* ---- where it goes ---- */

void
cluster_dispatch(struct cluster *c, struct item *it)
{
    struct cluster_master *m = c->master_of[it->domain];
    struct slot_state state;

    if (m == NULL) {
        park(c, it);
        return;
    }
    cluster_rules_slot(&c->rules, it->domain, m->number, !takes(it) || it->op.reclaim, &state);
    it->epoch = it->epoch != 0 ? it->epoch : state.number; /* asked for before any was known */
    if (state.may == SLOT_WAITS && (takes(it) || !cluster_rules_is_open(&c->rules, it->domain))) {
        park(c, it);
    } else {
        shard_take(m->shard, it);
    }
}

/* The slot is open at the master, which may lack some of its keys: calls name one key alone. */
static void
in_open_slot(struct cluster_master *m, struct item *it, const struct redirect *to)
{
    struct cluster *c = m->cluster;
    bool one_key = script_forms_text(&c->forms, it->verb, it->op.kind, true) != NULL;
    struct cluster_master *at = to != NULL ? cluster_master_of(c, cluster_map_at(&c->map, to->host, to->port)) : m;

    cluster_rules_open(&c->rules, it->domain, m->number);
    cluster_wake(c, PARK_US);
    if (!one_key || at == NULL || (it->one_key && to == NULL)) {
        it->one_key = it->asking = false;
        park(c, it);
        return;
    }
    it->one_key = true;
    it->asking = to != NULL;
    shard_take(at->shard, it);
}

void
cluster_elsewhere(struct cluster_master *m, struct item *it, struct slice error)
{
    struct cluster *c = m->cluster;
    struct redirect to;
    bool is_redirect = redirect_parse(error, m->address->host, &to);

    c->env.metrics->redirects++;
    if (it->op.reclaim || ++it->hops > CLUSTER_HOPS_MAX) {
        end(c, it);
    } else if (is_redirect && to.ask) {
        in_open_slot(m, it, &to);
    } else if (error.n > 8 && memcmp(error.p, "TRYAGAIN", 8) == 0) {
        in_open_slot(m, it, NULL);
    } else {
        it->one_key = it->asking = false;
        c->map_outdated = true;
        park(c, it);
    }
}

void
cluster_unpark(struct cluster *c)
{
    struct list moving;

    list_init(&moving); /* those that wait on come back to the list */
    list_move_all(&moving, &c->parked);
    while (!list_empty(&moving)) {
        cluster_dispatch(c, container_of(moving.next, struct item, node));
    }
}

void
cluster_park_forget(struct cluster *c)
{
    while (!list_empty(&c->parked)) {
        item_free(&c->freelist, container_of(c->parked.next, struct item, node));
    }
}
