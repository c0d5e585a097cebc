/*
 * cluster_masters.c -- a shard for each master.
 *
 * M1  The id identifies a master: a promoted replica is another master, with another shard. The shard of the former
 *     master stays until nothing is in flight there.
 * M2  A shard is opened by a map (cluster_seeds.c), and closed by the timer: never inside a callback of one of its own
 *     links.
 */
#include "daemon/backend/cluster_masters.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/address.h"
#include "daemon/backend/cluster_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"

/* From the loss of a master: a cluster replaces it within a few node timeouts, of 15 s by default, or never. */
#define LOST_US (60 * US_PER_S)

/* ---- the continuity of a shard's data ---- */

static struct cluster_master *
self(struct continuity *c)
{
    return (struct cluster_master *)(void *)c;
}

static const struct cluster_master *
const_self(const struct continuity *c)
{
    return (const struct cluster_master *)(const void *)c;
}

static uint16_t
domain_of(const struct continuity *c, struct slice key)
{
    (void)c;
    return slot_of(key);
}

static uint64_t
epoch_of(const struct continuity *c, uint16_t slot)
{
    return cluster_slots_number(&const_self(c)->cluster->slots, slot);
}

/* The value is in the scratch m->value: the caller copies it before it calls again. */
static struct slice
epoch_value_of(const struct continuity *c, uint16_t slot, bool reclaim)
{
    struct cluster_master *m = const_self(c)->cluster->master_of[slot];
    struct slot_state state;

    if (m == NULL || &m->head != c) { /* a call behind ASK, whose script does not check the record */
        return (struct slice){"", 0};
    }
    cluster_slots_state(&m->cluster->slots, slot, m->node_index, false, &state);
    if (reclaim) {
        memcpy(m->value, state.value, sizeof(m->value));
    } else {
        record_value(state.number, true, m->value);
    }
    return slice_of(m->value);
}

static struct continuity_keys
keys_of(struct continuity *c, uint16_t slot)
{
    struct cluster_master *m = self(c);
    const char *tag = m->cluster->tags.tag[slot];

    snprintf(m->key[0], sizeof(m->key[0]), "rlock:{%s}:clock", tag);
    snprintf(m->key[1], sizeof(m->key[1]), "rlock:{%s}:epoch", tag);
    return (struct continuity_keys){slice_of(m->key[0]), slice_of(m->key[1]), slice_of(tag)};
}

static void
on_lost(struct continuity *c, const struct redis_link *l)
{
    (void)l;
    generations_node_lost(generations_of(&self(c)->cluster->slots), self(c)->node_index, clock_now_us());
    anchors_wake(self(c)->cluster->slots.anchors);
    self(c)->cluster->map_outdated = true;
    cluster_wake(self(c)->cluster, 100 * US_PER_MS);
}

static void
on_differs(struct continuity *c, uint16_t slot, struct redis_link *l)
{
    struct cluster_master *m = self(c);

    (void)l;
    if (!cluster_slots_is_open(&m->cluster->slots, slot)) {
        cluster_slots_record_differs(&m->cluster->slots, slot);
    }
}

static void
on_token(struct continuity *c, uint16_t slot, uint64_t token)
{
    generations_token(generations_of(&self(c)->cluster->slots), slot, token);
}

static uint64_t
floor_of(const struct continuity *c, uint16_t slot)
{
    return generations_floor(generations_of(&const_self(c)->cluster->slots), slot);
}

static bool
is_fresh(struct continuity *c, uint16_t slot, int64_t now_us)
{
    struct cluster_master *m = self(c);
    struct slot_state state;

    if (!cluster_slots_fresh(&m->cluster->slots, now_us)) {
        return false;
    }
    cluster_slots_state(&m->cluster->slots, slot, m->node_index, false, &state);
    return state.may != SLOT_WAITS || cluster_slots_is_open(&m->cluster->slots, slot);
}

static bool
is_pending(struct continuity *c)
{
    (void)c;
    return false;
}

/* "+<number>": a generation has begun (GB3 in generation_begin.c). */
static void
on_received(struct continuity *c, struct slice text)
{
    int64_t number;

    if (text.n > 0 && number_parse((struct slice){text.p + 1, text.n - 1}, &number)) {
        cluster_slots_announced(&self(c)->cluster->slots, (uint64_t)number);
    }
}

static bool
origin_of(const struct continuity *c, uint16_t slot, uint64_t *out)
{
    const struct cluster_master *m = const_self(c);

    if (m->cluster->master_of[slot] == m) {
        *out = generations_origin(generations_of(&m->cluster->slots), slot, m->node_index);
    }
    return *out != 0;
}

static const struct continuity_ops by_slot = {
    .domain = domain_of,
    .epoch = epoch_of,
    .epoch_value = epoch_value_of,
    .keys = keys_of,
    .lost = on_lost,
    .check = on_differs,
    .token = on_token,
    .floor = floor_of,
    .fresh = is_fresh,
    .pending = is_pending,
    .received = on_received,
    .origin = origin_of,
};

/* ---- events of a shard ---- */

static void
on_done(void *ctx, const struct core_done *done)
{
    cluster_post_done(((struct cluster_master *)ctx)->cluster, done);
}

static void
on_core_event(void *ctx, const struct core_event *ev)
{
    cluster_post(((struct cluster_master *)ctx)->cluster, ev);
}

static void
on_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    cluster_post_inspected(((struct cluster_master *)ctx)->cluster, id, found);
}

static void
on_redirected(void *ctx, struct item *it, struct slice error)
{
    cluster_redirected(ctx, it, error);
}

static void
on_greet(void *ctx, struct redis_link *l)
{
    struct cluster_master *m = ctx;

    anchors_greet(m->cluster->slots.anchors, m->node_index, l);
    node_timeout_greet(&m->timeout, l);
}

/* In strict mode a master whose node timeout is too long grants nothing. */
static void
check_timeout(struct cluster_master *m)
{
    struct cluster *c = m->cluster;
    bool bounded;

    node_timeout_tick(&m->timeout, m->shard);
    bounded = node_timeout_bounded(&m->timeout, c->slots.lease_us, c->env.log, m->address->shown);
    if (c->conf.strict && m->refuses == bounded) {
        m->refuses = !bounded;
        shard_grant_until(m->shard, bounded ? CORE_FOREVER : 0);
    }
}

static void
set_up(struct cluster_master *m, bool up)
{
    struct cluster *c = m->cluster;
    struct list *pos, *nxt;
    bool any = false;

    m->up = up;
    m->down_us = up ? m->down_us : clock_now_us();
    list_for_each_safe(pos, nxt, &c->masters)
    {
        any = any || container_of(pos, struct cluster_master, node)->up;
    }
    if (any != c->up) {
        c->up = any;
        c->lost_us = clock_now_us();
        cluster_post_state(c, any);
    }
    if (up) {
        check_timeout(m);
        anchors_reached(c->slots.anchors);
        cluster_post_slots(c, m, CORE_REACHED, false);
    }
    c->map_outdated = c->map_outdated || !up;
    cluster_wake(c, 50 * US_PER_MS);
}

static void
on_life(void *ctx, enum shard_life what, uint64_t n)
{
    struct cluster_master *m = ctx;
    struct cluster *c = m->cluster;

    switch (what) {
    case SHARD_UP:
    case SHARD_DOWN:
        set_up(m, what == SHARD_UP);
        break;
    case SHARD_CLOCK_JUMP:
        cluster_post_slots(c, m, CORE_SUSPECT, true);
        break;
    case SHARD_CLOCK_BACK:
        cluster_post(c, &(struct core_event){.type = CORE_CLOCK_BACK, .back_us = (int64_t)n});
        break;
    case SHARD_SLOT_LEFT:
        slot_set_add(&c->resubscribe, (uint16_t)n);
        c->resubscribes = true;
        c->map_outdated = true;
        cluster_wake(c, 50 * US_PER_MS);
        break;
    case SHARD_SUBSCRIBED:
        c->subscribed = true;
        cluster_wake(c, 50 * US_PER_MS);
        break;
    case SHARD_NEW_EPOCH:
    case SHARD_GRANTING:
    case SHARD_SHARED:
    case SHARD_ALONE:
        break; /* events of a membership, which these shards lack */
    }
}

/* ---- begin and end ---- */

static struct cluster_master *
find(const struct cluster *c, const char *id)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        struct cluster_master *m = container_of(pos, struct cluster_master, node);

        if (strcmp(m->id, id) == 0) {
            return m;
        }
    }
    return NULL;
}

static struct cluster_master *
open_master(struct cluster *c, const struct cluster_node *node)
{
    struct cluster_master *m = mem_zalloc(sizeof(*m));
    struct link_address *a =
        address_unknown("node", c->template->user, c->template->password, 0, c->url.secure);

    address_move(a, node->host, node->port);
    a->tls = tls_share(c->template->tls);
    m->head.ops = &by_slot;
    m->cluster = c;
    m->poll.cluster = c;
    memcpy(m->id, node->id, sizeof(m->id));
    m->node_index = generations_node_index(generations_of(&c->slots), m->id);
    generations_node_keep(generations_of(&c->slots), m->node_index, true);
    m->address = a;
    m->refuses = c->conf.strict;
    node_timeout_init(&m->timeout);
    list_push_back(&c->masters, &m->node);
    c->masters_n++;
    m->shard = shard_open(a, &c->conf, &c->env,
                          (struct shard_events){.done = on_done,
                                                .life = on_life,
                                                .event = on_core_event,
                                                .inspected = on_inspected,
                                                .ctx = m,
                                                .greet = on_greet,
                                                .continuity = &m->head,
                                                .redirected = on_redirected,
                                                .variants = &c->variants,
                                                .channel = {c->channel[0], c->channel[1], c->channel[2]}});
    shard_grant_until(m->shard, m->refuses ? 0 : CORE_FOREVER);
    return m;
}

/* Logs how many masters are beyond CLUSTER_MASTERS_MAX. Their slots have no master: cluster_refusal() says why. */
static void
count_unserved(struct cluster *c, unsigned n)
{
    if (n != c->unserved_n) {
        c->unserved_n = n;
        log_event(c->env.log, n > 0 ? LOG_ERROR : LOG_INFO, "redis",
                  n > 0 ? "the cluster has too many masters: nothing is granted in the slots of some"
                        : "all masters of the cluster are served",
                  "served", LOG_N(CLUSTER_MASTERS_MAX), "unserved", LOG_N(n), NULL);
    }
}

/* Opens a shard for the node, or moves its shard to the node's present address. NULL: no room, or no address. */
static struct cluster_master *
follow(struct cluster *c, const struct cluster_node *node)
{
    struct cluster_master *m = find(c, node->id);

    if (m == NULL && c->masters_n < CLUSTER_MASTERS_MAX && node->port != 0 &&
        generations_node_index(generations_of(&c->slots), node->id) < GENERATION_NODES_MAX) {
        m = open_master(c, node);
    } else if (m != NULL && node->port != 0 && !address_names(m->address, node->host, node->port)) {
        shard_retarget(m->shard, node->host, node->port);
    }
    if (m != NULL) {
        m->in_map = true;
        /* A new replica is listed as a master without slots until the nodes have learned its role from each other. */
        shard_expect_error(m->shard, node->slots_n > 0 ? NULL : ANCHORS_NO_MASTER);
    }
    return m;
}

static void
give_slots(struct cluster *c, struct cluster_master *const *of_node)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint16_t owner = c->map.owner[slot];
        struct cluster_master *was = c->master_of[slot];

        c->master_of[slot] = owner != CLUSTER_NO_OWNER ? of_node[owner] : NULL;
        c->moves += c->master_of[slot] != was;
    }
}

unsigned
cluster_master_anchors(const struct cluster *c, const struct cluster_master *m)
{
    unsigned n = 0;

    for (unsigned i = 0; i < ANCHORS; i++) {
        n += c->master_of[anchor_slot(i)] == m;
    }
    return n;
}

/* Logs whether one master has two anchors: its loss is the loss of a majority of the anchors. */
static void
log_shared_master(struct cluster *c)
{
    const struct cluster_master *m = NULL;

    for (unsigned i = 0; i < ANCHORS; i++) {
        const struct cluster_master *at = c->master_of[anchor_slot(i)];

        m = at != NULL && cluster_master_anchors(c, at) > 1 ? at : m;
    }
    if ((m != NULL) != c->shared_master_logged) {
        c->shared_master_logged = m != NULL;
        log_event(c->env.log, c->shared_master_logged ? LOG_WARN : LOG_INFO, "redis",
                  c->shared_master_logged
                      ? "two anchors are at one master: if it is lost, nothing is granted for 1.5 x (lease + 6 s)"
                      : "each anchor is at a master of its own",
                  c->shared_master_logged ? "address" : NULL,
                  LOG_S(c->shared_master_logged ? m->address->shown : ""), NULL);
    }
}

bool
cluster_masters_lost(const struct cluster *c, int64_t now_us)
{
    struct list *pos, *nxt;
    bool lost = false;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        const struct cluster_master *m = container_of(pos, struct cluster_master, node);

        lost = lost || (m->in_map && !m->up && now_us < m->down_us + LOST_US);
    }
    return lost;
}

void
cluster_masters_follow(struct cluster *c)
{
    struct cluster_master **of_node = mem_zalloc(c->map.nodes_n * sizeof(struct cluster_master *));
    struct list *pos, *nxt;
    unsigned unserved = 0;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        container_of(pos, struct cluster_master, node)->in_map = false;
    }
    for (size_t i = 0; i < c->map.nodes_n; i++) {
        if (c->map.node[i].slots_n > 0) {
            of_node[i] = follow(c, &c->map.node[i]);
            unserved += of_node[i] == NULL && c->map.node[i].port != 0;
        }
    }
    count_unserved(c, unserved);
    for (size_t i = 0; i < c->map.nodes_n; i++) { /* ASK may name a node that has no slot yet */
        if (c->map.node[i].slots_n == 0 && c->map.node[i].master && c->map.node[i].reached) {
            (void)follow(c, &c->map.node[i]);
        }
    }
    give_slots(c, of_node);
    free(of_node);
    list_for_each_safe(pos, nxt, &c->masters)
    {
        struct cluster_master *m = container_of(pos, struct cluster_master, node);

        for (unsigned i = 0; i < ANCHORS; i++) {
            shard_want_broadcasts(m->shard, i, c->master_of[anchor_slot(i)] == m);
        }
    }
    log_shared_master(c);
}

void
cluster_masters_check(struct cluster *c)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        check_timeout(container_of(pos, struct cluster_master, node));
    }
}

void
cluster_masters_reload_scripts(struct cluster *c)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        shard_reload_scripts(container_of(pos, struct cluster_master, node)->shard);
    }
}

void
cluster_masters_close(struct cluster *c, bool all)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        struct cluster_master *m = container_of(pos, struct cluster_master, node);

        if (all || (!m->in_map && shard_idle(m->shard))) {
            c->poll.op = m->poll.op != 0 ? 0 : c->poll.op;
            list_remove(&m->node);
            c->masters_n--;
            shard_close(&m->shard);
            anchors_closed(c->slots.anchors, m->node_index);
            generations_node_keep(generations_of(&c->slots), m->node_index, false);
            free(m);
        }
    }
}

struct cluster_master *
cluster_master_of(const struct cluster *c, const struct cluster_node *node)
{
    return node != NULL ? find(c, node->id) : NULL;
}
