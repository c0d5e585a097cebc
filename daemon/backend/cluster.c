/*
 * cluster.c -- the topology of a Redis Cluster, and when its map is requested.
 *
 * C1  Each slot is a domain: the data of a slot is lost and reclaimed apart from other slots. Items of one slot share a
 *     call, and calls of many slots leave in one write.
 * C2  An operation goes to the master that owns the slot of its key by the map. The map is requested every few seconds,
 *     soon when a node redirects, and again and again after the loss of a master; always jittered. No slot goes to a
 *     lower config epoch, unless its owner gives it away (CM1 in cluster_map.h).
 * C3  cluster_slots.h decides whether a node may be sent anything.
 */
#include "daemon/backend/backend_ops.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/cluster_anchors.h"
#include "daemon/backend/cluster_epochs.h"
#include "daemon/backend/cluster_masters.h"
#include "daemon/backend/cluster_private.h"
#include "daemon/backend/cluster_seeds.h"
#include "daemon/backend/inspect.h"
#include "daemon/backend/server_info.h"
#include "daemon/backend/single.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define MAP_US (5 * US_PER_S)          /* between requests for the map ... */
#define MAP_SOON_US (100 * US_PER_MS)  /* ... while the map is outdated */
#define MAP_LOST_US (200 * US_PER_MS)  /* ... while another node is expected to replace a master */
#define TICK_US US_PER_S               /* the longest pause of the timer */
#define REPLACE_US (5 * US_PER_S)      /* from the loss of all masters until another cluster may replace theirs */

static struct cluster *
self(struct backend *b)
{
    return (struct cluster *)(void *)b;
}

static const struct cluster *
const_self(const struct backend *b)
{
    return (const struct cluster *)(const void *)b;
}

/* ---- the map ---- */

/* Another cluster replaces the former one: forgets the answers and config epochs of that one's nodes. */
static void
forget_former_cluster(struct cluster *c, const char *host)
{
    log_event(c->env.log, LOG_WARN, "redis", "another cluster", "asked", LOG_S(host), NULL);
    generations_other_cluster(generations_of(&c->slots), clock_now_us());
    anchors_wake(c->slots.anchors);
}

/* Another cluster may replace this one when all masters of this one have been down for REPLACE_US. */
static bool
may_replace(const struct cluster *c)
{
    return !c->known || (!c->up && clock_now_us() >= c->lost_us + REPLACE_US);
}

static bool
on_map(struct cluster *c, struct slice text, const char *host)
{
    struct cluster_news *news = mem_alloc(sizeof(*news));
    struct cluster_asked asked = {host, c->url.secure, may_replace(c)};
    char error[160];
    bool ok = cluster_map_take(&c->map, text, &asked, news, error);

    if (!ok) {
        cluster_seeds_refuse(c->seeds, host, error);
    } else {
        c->lost_us = c->known ? c->lost_us : clock_now_us();
        if (news->other_cluster && c->known) {
            forget_former_cluster(c, host);
        }
        if (news->moved_n > 0) {
            log_event(c->env.log, LOG_INFO, "redis", c->known ? "slots moved" : "cluster", "asked", LOG_S(host),
                      "nodes", LOG_N(c->map.nodes_n), "slots", LOG_N(news->moved_n), NULL);
        }
        c->known = true;
        cluster_masters_follow(c);
        cluster_epochs_log(c, news->moved_n > 0);
        cluster_watches_follow(c);
        cluster_unpark(c);
    }
    free(news);
    return ok;
}

/*
 * The version of one node decides which scripts all nodes run. It is known before the first shard is opened, unless the
 * node does not report it: it refuses to, or is loading its data.
 */
static void
on_version(struct cluster *c, const char *version)
{
    bool sharded = strtol(version, NULL, 10) >= 7;

    if (sharded != c->variants.sharded) {
        script_variants_fini(&c->variants);
        script_variants_init(&c->variants, sharded, c->conf.publishes_both);
        cluster_masters_reload_scripts(c);
    }
}

/* ---- the timer ---- */

/* The pause between two requests for the map. */
static int64_t
map_pause_us(const struct cluster *c, int64_t now_us)
{
    if (c->map_outdated || !c->known) {
        return MAP_SOON_US;
    }
    return cluster_masters_lost(c, now_us) ? MAP_LOST_US : MAP_US;
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct cluster *c = ctx;
    int64_t now_us = clock_now_us(), pause_us;

    (void)fd;
    (void)what;
    c->due_us = 0;
    cluster_masters_close(c, false);
    cluster_masters_check(c);
    if (c->resubscribes) {
        cluster_watches_follow(c);
    }
    cluster_unpark(c);
    cluster_anchors_log(c);
    cluster_post_subscribed(c);
    if (now_us >= c->asked_us + map_pause_us(c, now_us)) {
        c->asked_us = now_us;
        c->map_outdated = false;
        cluster_seeds_ask(c->seeds);
    }
    pause_us = list_empty(&c->parked) ? map_pause_us(c, now_us) : MAP_SOON_US;
    cluster_wake(c, pause_us < TICK_US ? pause_us : TICK_US);
}

/* ---- callbacks of anchors.h ---- */

static uint16_t
owner_of(void *ctx, uint16_t slot)
{
    const struct cluster *c = ctx;

    return c->master_of[slot] != NULL ? c->master_of[slot]->node_index : GENERATION_NODES_MAX;
}

static bool
send_to(void *ctx, uint16_t node, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    const struct cluster *c = ctx;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        struct cluster_master *m = container_of(pos, struct cluster_master, node);

        if (m->node_index == node) {
            return shard_ask(m->shard, words, word, fn, arg);
        }
    }
    return false;
}

static const char *
tag_of(void *ctx, uint16_t slot)
{
    return ((const struct cluster *)ctx)->tags.tag[slot];
}

static void
on_map_outdated(void *ctx)
{
    struct cluster *c = ctx;

    c->map_outdated = true;
    cluster_wake(c, MAP_SOON_US);
}

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    struct cluster *c = ctx;

    switch (news) {
    case GENERATION_NEW:
        cluster_post(c, &(struct core_event){.type = CORE_RECLAIM, .domain = slot, .epoch = number});
        break;
    case GENERATION_OVER:
        cluster_post(c, &(struct core_event){.type = CORE_GRACE_OVER, .domain = slot});
        break;
    case GENERATION_BEGUN:
        cluster_send_begun(c, number);
        break;
    case GENERATION_ASK_AGAIN:
    case GENERATION_BOUND:
        break;
    }
    if (!list_empty(&c->parked)) {
        cluster_wake(c, 0);
    }
}

/* ---- the verbs ---- */

static void
cluster_perform(struct backend *b, const struct core_op *op, enum core_action_type action)
{
    struct cluster *c = self(b);
    struct item *it;

    if (action == CORE_WATCH || action == CORE_UNWATCH) {
        cluster_watch(c, op, action);
        return;
    }
    it = item_new(&c->freelist, op);
    it->verb = call_verb_of(action);
    it->domain = slot_of(op->key);
    it->epoch = cluster_slots_number(&c->slots, it->domain);
    cluster_dispatch(c, it);
}

static void
cluster_inspect(struct backend *b, uint64_t id, struct slice key)
{
    struct cluster *c = self(b);
    struct cluster_master *m = c->master_of[slot_of(key)];

    if (m != NULL) {
        shard_inspect(m->shard, id, key);
    } else {
        deferred_inspect(&c->deferred, inspect_new(&c->env, &c->events, id));
    }
}

static void
cluster_broadcast(struct backend *b, struct slice what)
{
    cluster_send_broadcast(self(b), what);
}

static void
cluster_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    cluster_poll(self(b), p);
}

static void
cluster_configure(struct backend *b, int64_t longest_lease_us)
{
    cluster_slots_set_lease(&self(b)->slots, longest_lease_us);
}

static void
cluster_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch)
{
    cluster_slots_reclaimed(&self(b)->slots, domain, epoch);
}

static void
cluster_leave(struct backend *b)
{
    anchors_leave(self(b)->slots.anchors);
}

static void
cluster_flush(struct backend *b)
{
    struct cluster *c = self(b);
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->masters)
    {
        shard_flush(container_of(pos, struct cluster_master, node)->shard);
    }
}

static bool
cluster_idle(const struct backend *b)
{
    const struct cluster *c = const_self(b);
    struct list *pos, *nxt;
    bool idle = list_empty(&c->parked) && deferred_idle(&c->deferred) && !anchors_busy(c->slots.anchors);

    list_for_each_safe(pos, nxt, &c->masters)
    {
        idle = idle && shard_idle(container_of(pos, struct cluster_master, node)->shard);
    }
    return idle;
}

/* ---- the state, for INFO ---- */

static void
add_status(struct backend_status *sum, const struct backend_status *one)
{
    sum->up = sum->up || one->up;
    sum->links += one->links;
    sum->links_up += one->links_up;
    sum->in_flight += one->in_flight;
    sum->queued += one->queued;
    sum->watched += one->watched;
    sum->rtt_us = one->rtt_us > sum->rtt_us ? one->rtt_us : sum->rtt_us;
    if (sum->last_error[0] == '\0') {
        memcpy(sum->last_error, one->last_error, sizeof(sum->last_error));
    }
    if (sum->refusal[0] == '\0') {
        memcpy(sum->refusal, one->refusal, sizeof(sum->refusal));
    }
    server_info_add_policy(sum, one);
    server_info_add_away(sum, one);
}

static void
explain_no_map(const struct cluster *c, char out[TEXT_ERROR_ROOM])
{
    const char *error = cluster_seeds_error(c->seeds);

    if (error[0] != '\0') {
        snprintf(out, TEXT_ERROR_ROOM, "no map of the cluster is known: %s", error);
    } else {
        snprintf(out, TEXT_ERROR_ROOM, "%s", cluster_seeds_map_error(c->seeds));
    }
}

static void
cluster_status(const struct backend *b, struct backend_status *out)
{
    const struct cluster *c = const_self(b);
    struct list *pos, *nxt;
    const char *unbounded = "";
    char epochs[160];
    bool first = true;

    memset(out, 0, sizeof(*out));
    list_for_each_safe(pos, nxt, &c->masters)
    {
        const struct cluster_master *m = container_of(pos, struct cluster_master, node);
        struct backend_status one;

        shard_status(m->shard, &one);
        if (first) {
            *out = one;
        } else {
            add_status(out, &one);
        }
        first = false;
        unbounded = m->refuses && m->in_map ? m->timeout.why_unbounded : unbounded;
    }
    snprintf(out->address, sizeof(out->address), "%s", c->template->shown);
    out->run_id[0] = '\0'; /* each master has its own */
    out->other_daemons = 0;
    out->grace = generations_in_grace(generations_of(&c->slots));
    if (!c->known) {
        explain_no_map(c, out->refusal);
    } else if (unbounded[0] != '\0') {
        snprintf(out->refusal, sizeof(out->refusal), "strict: %.140s", unbounded);
    } else if (cluster_epochs_any_is_low(c, epochs)) {
        snprintf(out->refusal, sizeof(out->refusal), "%s", epochs);
    } else if (out->refusal[0] == '\0' && c->unserved_n > 0) {
        snprintf(out->refusal, sizeof(out->refusal),
                 "nothing is granted in the slots of %u masters: at most %d are served", c->unserved_n,
                 CLUSTER_MASTERS_MAX);
    }
    if (out->refusal[0] == '\0' && out->up) {
        (void)cluster_anchors_too_few_vote(c, out->refusal);
    }
    if (!c->known) {
        snprintf(out->last_error, sizeof(out->last_error), "%s", cluster_seeds_error(c->seeds));
    } else if (out->last_error[0] == '\0') {
        snprintf(out->last_error, sizeof(out->last_error), "%s", cluster_seeds_info_error(c->seeds));
    }
}

static size_t
cluster_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX])
{
    const struct cluster *c = const_self(b);
    size_t n = 0;

    for (size_t i = 0; i < c->map.nodes_n && n < BACKEND_NODES_MAX; i++) {
        const struct cluster_node *node = &c->map.node[i];
        const struct cluster_master *m = cluster_master_of(c, node);

        out[n] = (struct backend_node){.role = ""};
        if (m != NULL && node->slots_n > 0) {
            shard_node(m->shard, &out[n]);
        }
        snprintf(out[n].role, sizeof(out[n].role), "%s", node->master ? "master" : "replica");
        snprintf(out[n].more, sizeof(out[n].more), ",slots=%u,anchors=%u", node->slots_n,
                 m != NULL ? cluster_master_anchors(c, m) : 0);
        out[n].epoch = node->epoch;
        address_show(out[n].address, c->url.secure, node->host, node->port);
        if (node->failed || m == NULL || node->slots_n == 0) { /* no connection: the map gives the state */
            snprintf(out[n].state, sizeof(out[n].state), "%s", node->failed ? "failed" : "up");
        }
        n++;
    }
    return n;
}

static uint16_t
cluster_domain(const struct backend *b, struct slice key)
{
    (void)b;
    return slot_of(key);
}

static bool
cluster_can_lock(const struct backend *b, enum kind kind, struct slice key, char why[160])
{
    (void)b;
    (void)kind;
    if (!slot_suits(key)) {
        snprintf(why, 160, "has a brace and no hash tag, so that in a cluster its channel would be in another slot");
        return false;
    }
    return true;
}

/* A lost link is the cause where slot_state.why is only that the node has not reported: so it is named first. */
static void
cluster_refusal(const struct backend *b, struct slice key, char why[160])
{
    const struct cluster *c = const_self(b);
    uint16_t slot = slot_of(key);
    struct cluster_master *m = c->master_of[slot];
    struct slot_state state;

    if (c->known && m == NULL && c->unserved_n > 0) {
        snprintf(why, 160, "no master of slot %u is served: at most %d masters are, and the cluster has more", slot,
                 CLUSTER_MASTERS_MAX);
    } else if (c->known && m == NULL) {
        snprintf(why, 160, "no master is known for slot %u", slot);
    } else if (c->known && cluster_slots_is_open(&c->slots, slot)) {
        snprintf(why, 160, "slot %u is being moved from one node to another", slot);
    } else if (cluster_epochs_slot_is_low(c, slot, why)) {
        return;
    } else if (c->known && !m->up) {
        snprintf(why, 160, "the master of slot %u is down: %.100s", slot, m->address->shown);
    } else if (c->known && shard_locks_away(m->shard) && !m->refuses) { /* others may be up, or not known to be lost */
        snprintf(why, 160, "a connection to the master of slot %u is lost: %.95s", slot, m->address->shown);
    } else if (c->known && m->refuses) {
        snprintf(why, 160, "strict: %.140s", m->timeout.why_unbounded);
    } else if (cluster_anchors_too_few_vote(c, why)) {
        return;
    } else if (c->known) {
        cluster_slots_state(&c->slots, slot, m->node_index, false, &state);
        if (state.may == SLOT_WAITS) {
            snprintf(why, 160, "slot %u: %.140s", slot, state.why);
        } else {
            shard_explain(m->shard, why, 160);
        }
    }
}

/* ---- begin and end ---- */

static void
on_deferred(void *ctx, const struct core_done *done)
{
    cluster_post_done(ctx, done);
}

static void
on_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    cluster_post_inspected(ctx, id, found);
}

static struct backend *
cluster_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    struct cluster *c = mem_zalloc(sizeof(*c));
    char shown[160];

    snprintf(shown, sizeof(shown), "%s", conf->url);
    if (!cluster_url_parse(conf->url, &c->url, error)) {
        free(c);
        return NULL;
    }
    c->template = address_unknown(shown, conf->user, conf->password, 0, c->url.secure);
    if (!single_secure(c->template, &conf->tls, env->log, error)) {
        address_free(c->template);
        free(c);
        return NULL;
    }
    c->head.ops = &cluster_ops;
    c->conf = *conf;
    c->conf.url = c->conf.user = c->conf.password = NULL;
    if (conf->unmapped_key != NULL) {
        c->conf.unmapped_key = c->unmapped_key = mem_text(slice_of(conf->unmapped_key));
        c->conf.patterns = c->patterns = mem_text(slice_of(conf->patterns));
    }
    c->conf.tls = (struct tls_files){0};
    c->env = *env;
    c->env.freelist = &c->freelist;
    cluster_map_init(&c->map);
    slot_tags_fill(&c->tags);
    for (unsigned i = 0; i < ANCHORS; i++) {
        snprintf(c->channel[i], sizeof(c->channel[i]), "rlock:{%s}:deadlock", c->tags.tag[anchor_slot(i)]);
    }
    script_variants_init(&c->variants, false, false);
    list_init(&c->masters);
    list_init(&c->parked);
    map_init(&c->watches);
    c->events = (struct shard_events){.done = on_deferred, .inspected = on_inspected, .ctx = c};
    deferred_init(&c->deferred, &c->env, &c->events);
    c->timer = event_new(env->base, -1, 0, on_timer, c);
    cluster_slots_init(&c->slots, &c->conf, &c->env,
                       &(struct anchors_io){owner_of, send_to, tag_of, c->template, on_map_outdated, on_news, c});
    cluster_wake(c, MAP_SOON_US);
    c->seeds = cluster_seeds_open(c, (struct cluster_seeds_events){on_map, on_version});
    return &c->head;
}

static bool
cluster_login(struct backend *b, const struct backend_conf *conf, char error[160])
{
    struct cluster *c = self(b);
    struct list *pos, *nxt;

    if (!single_secure(c->template, &conf->tls, c->env.log, error)) {
        return false;
    }
    address_login(c->template, conf->user, conf->password);
    list_for_each_safe(pos, nxt, &c->masters)
    {
        struct link_address *a = container_of(pos, struct cluster_master, node)->address;

        address_login(a, conf->user, conf->password);
        tls_close(&a->tls);
        a->tls = tls_share(c->template->tls);
    }
    cluster_seeds_login(c->seeds, conf);
    return true;
}

static void
cluster_close(struct backend *b)
{
    struct cluster *c = self(b);

    event_free(c->timer);
    cluster_seeds_close(&c->seeds);
    cluster_masters_close(c, true);
    cluster_park_forget(c);
    cluster_watches_forget(c);
    deferred_fini(&c->deferred);
    cluster_slots_fini(&c->slots);
    script_variants_fini(&c->variants);
    cluster_map_fini(&c->map);
    address_free(c->template);
    freelist_clear(&c->freelist);
    explicit_bzero(&c->env.secret, sizeof(c->env.secret));
    free(c->unmapped_key);
    free(c->patterns);
    free(c);
}

const struct backend_ops cluster_ops = {
    .schemes = "cluster: cluster+tls:",
    .domains = SLOTS,
    .several_shards = true,
    .open = cluster_open,
    .perform = cluster_perform,
    .inspect = cluster_inspect,
    .broadcast = cluster_broadcast,
    .waiter_poll = cluster_waiter_poll,
    .configure = cluster_configure,
    .login = cluster_login,
    .reclaimed = cluster_reclaimed,
    .leave = cluster_leave,
    .flush = cluster_flush,
    .idle = cluster_idle,
    .status = cluster_status,
    .nodes = cluster_nodes,
    .close = cluster_close,
    .domain = cluster_domain,
    .can_lock = cluster_can_lock,
    .refusal = cluster_refusal,
};
