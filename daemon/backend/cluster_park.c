/*
 * cluster_park.c -- where the items of a cluster go: to the master of their slot, to another node, or nowhere yet.
 */
#include "daemon/backend/cluster_private.h"

#include "daemon/backend/address.h"
#include "daemon/backend/cluster_masters.h"
#include "daemon/backend/redirect.h"
#include "daemon/base/clock.h"

/*
 * CP1 An item is sent to a node only if cluster_slots_state() allows it; renewals and releases go to the owner of an
 *     open slot, too (R8). So on MOVED the item is parked, and the topology requests the map; the item is sent again
 *     when the map has the slot's new owner.
 * CP2 Only variants with one key (script_variants.h), which grant nothing, follow ASK. Items without such a variant are
 *     parked.
 * CP3 A reclaim is never sent twice: it is DOWN, and the core decides whether to reclaim again.
 * CP4 An item is parked at most for redis.timeout in all; then it is DOWN. The number of parked items is bounded as
 *     that of a shard's items: an operation and a renewal for each claim.
 * CP5 While a slot is open, its node refuses an item each time, and the answer of a node or an anchor may unpark the
 *     item at any time. So it is sent again after a pause, or when the slot has closed.
 * CP6 ASK may name a node that joined the cluster after the last request for the map, or that was not reached then: the
 *     map is requested. Otherwise keys that have moved to that node would not be renewed for up to MAP_US (cluster.c).
 *     If the map still does not help, for example because that node has died, the slot may stay open for long: then all
 *     daemons together must not burden the nodes, so each requests the map once a second.
 */

#define PARK_US (100 * US_PER_MS) /* between dispatches of parked items */

/* CP6: the first requests for the map leave at once, the others with a pause; a minute without any begins anew. */
enum { MAPS_AT_ONCE = 10 };
#define MAP_PAUSE_US US_PER_S
#define MAPS_FORGET_US (60 * US_PER_S)

static void
park(struct cluster *c, struct item *it)
{
    int64_t now_us = clock_now_us();

    it->parked_us = it->parked_us != 0 ? it->parked_us : now_us;
    if (it->op.reclaim || now_us >= it->parked_us + c->conf.timeout_us) {
        deferred_item(&c->deferred, it);
        return;
    }
    list_remove(&it->node);
    list_push_back(&c->parked, &it->node);
    cluster_wake(c, PARK_US);
}

/* Whether the item takes or breaks a lock: such items wait while their slot is open. */
static bool
waits_if_open(const struct item *it)
{
    return it->verb == VERB_ACQUIRE || it->verb == VERB_CLEAR;
}

/* CP5 */
static bool
too_soon(const struct cluster *c, const struct item *it)
{
    return clock_now_us() < it->again_us && cluster_slots_is_open(&c->slots, it->domain);
}

/* ---- the way of an item ---- */

void
cluster_dispatch(struct cluster *c, struct item *it)
{
    struct cluster_master *m = c->master_of[it->domain];
    struct slot_state state;

    if (m == NULL) {
        park(c, it);
        return;
    }
    cluster_slots_state(&c->slots, it->domain, m->node_index, !waits_if_open(it) || it->op.reclaim, &state);
    it->epoch = it->epoch != 0 ? it->epoch : state.number; /* no generation was known when the core asked */
    if (too_soon(c, it) ||
        (state.may == SLOT_WAITS && (waits_if_open(it) || !cluster_slots_is_open(&c->slots, it->domain)))) {
        park(c, it);
    } else {
        shard_take(m->shard, it);
    }
}

/* CP6: ASK names an unknown node. Whether the map is requested for that. */
static bool
may_request_map(struct cluster *c)
{
    int64_t now_us = clock_now_us(), since_us = now_us - c->unknown_us;

    if (c->unknown_n >= MAPS_AT_ONCE && since_us < MAP_PAUSE_US) {
        return false;
    }
    c->unknown_n = since_us < MAPS_FORGET_US ? c->unknown_n + 1 : 1;
    c->unknown_us = now_us;
    return true;
}

/*
 * The slot is open: the master may lack some of its keys, so a call for it names one key. An item is parked if its verb
 * and kind have no variant with one key, if it gets TRYAGAIN (`to` is NULL) in that variant, or if ASK names an unknown
 * node (CP6).
 */
static void
in_open_slot(struct cluster_master *m, struct item *it, const struct redirect *to)
{
    struct cluster *c = m->cluster;
    bool has_variant = script_variants_text(&c->variants, it->verb, it->op.kind, true) != NULL;
    struct cluster_master *at = to != NULL ? cluster_master_of(c, cluster_map_at(&c->map, to->host, to->port)) : m;

    cluster_slots_opened(&c->slots, it->domain, m->node_index);
    cluster_wake(c, PARK_US);
    c->map_outdated = c->map_outdated || (at == NULL && may_request_map(c));
    if (!has_variant || at == NULL || (it->one_key && to == NULL)) {
        it->one_key = it->asking = false;
        it->again_us = clock_now_us() + PARK_US / 2; /* cluster_wake() above sets the timer to no earlier time */
        park(c, it);
        return;
    }
    it->one_key = true;
    it->asking = to != NULL;
    shard_take(at->shard, it);
}

void
cluster_redirected(struct cluster_master *m, struct item *it, struct slice error)
{
    struct cluster *c = m->cluster;
    struct redirect to;
    bool is_redirect = redirect_parse(error, m->address->host, &to);

    c->env.metrics->redirects++;
    if (it->op.reclaim || ++it->hops > CLUSTER_HOPS_MAX) {
        deferred_item(&c->deferred, it);
    } else if (is_redirect && to.ask) {
        in_open_slot(m, it, &to);
    } else if (slice_begins(error, "TRYAGAIN ")) {
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

    list_init(&moving); /* items that have to wait on return to c->parked */
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
