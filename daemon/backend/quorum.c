/*
 * quorum.c -- the topology of N independent masters: one shard for each, and one report made of theirs.
 *
 * A majority q = N/2 + 1 has to agree on everything. tally.c counts the answers of the nodes.
 *
 * Q1  A token is given when q nodes cover it. A name is held while q nodes have the owner's key, each until its own
 *     deadline (quorum_entries.c); the core gets the q-th largest of these deadlines.
 * Q2  A release goes to every node that may have the owner's key, behind all earlier operations there.
 * Q3  A node that has lost its data does not vote while a lock that it had may be held, nor before it knows the highest
 *     token of the others (quorum_admit.c). Until then a held lock counts as held there: no other owner gets it.
 * Q4  To the core all nodes are one domain: held locks are reclaimed whenever a node has lost its data.
 */
#include "daemon/backend/backend_ops.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/quorum_entries.h"
#include "daemon/backend/quorum_ops.h"
#include "daemon/backend/quorum_private.h"
#include "daemon/backend/quorum_watch.h"
#include "daemon/backend/script_variants.h"
#include "daemon/backend/server_info.h"
#include "daemon/backend/single.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define WAKE_MAX_US (500 * 1000) /* the loop's timers do not follow a clock that tests move */
#define ROUNDS_US (1000 * 1000)  /* the time of the rounds of quorum_admit.c in which a healthy node is admitted */

static struct quorum *
self(struct backend *b)
{
    return (struct quorum *)(void *)b;
}

static const struct quorum *
const_self(const struct backend *b)
{
    return (const struct quorum *)(const void *)b;
}

/* ---- the loop ---- */

static void
timer_due(struct quorum *qu, struct heap_node *n)
{
    struct timer *t = container_of(n, struct timer, node);

    switch ((enum quorum_timer)n->what) {
    case TIMER_OP:
        quorum_op_due(qu, container_of(t, struct quorum_op, timer));
        break;
    case TIMER_ENTRY:
        quorum_entry_due(qu, container_of(t, struct quorum_entry, timer));
        break;
    case TIMER_WATCH:
        quorum_watch_due(qu, container_of(t, struct quorum_watch, timer));
        break;
    case TIMER_SERVERS:
        quorum_servers_due(qu);
        break;
    }
}

static void
arm(struct quorum *qu)
{
    int64_t now_us = clock_now_us(), at_us = heap_min_at(&qu->timers), us;

    at_us = qu->round_us < at_us ? qu->round_us : at_us;
    us = at_us <= now_us ? 0 : at_us - now_us < WAKE_MAX_US ? at_us - now_us : WAKE_MAX_US;
    event_add(qu->due, &(struct timeval){us / US_PER_S, us % US_PER_S});
}

static void
on_due(evutil_socket_t fd, short what, void *ctx)
{
    struct quorum *qu = ctx;
    int64_t now_us = clock_now_us();

    (void)fd;
    (void)what;
    while (!list_empty(&qu->new_ops)) {
        quorum_op_asked(qu, container_of(qu->new_ops.next, struct quorum_op, node));
    }
    quorum_answer_unsent(qu);
    while (heap_min_at(&qu->timers) <= now_us) { /* ends: timer_due() sets the timer to a later time, or off */
        timer_due(qu, heap_min(&qu->timers));
    }
    if (qu->round_us <= now_us) {
        quorum_begin_round(qu);
    }
    if (qu->startup_until_us != 0 && qu->startup_until_us <= now_us) {
        quorum_voting_changed(qu);
    }
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_flush(qu->node[i].shard);
    }
    arm(qu);
}

/* ---- events of the shards ---- */

/* The node is in another epoch than before, or its first known one. */
static void
enter_epoch(struct quorum_node *node, uint64_t epoch)
{
    struct quorum *qu = node->of;

    node->epoch = epoch;
    node->epoch_us = clock_now_us();
    node->voting = node->answered = node->in_round = node->quarantine_was_over = node->admitting = false;
    node->script_error[0] = '\0';
    quorum_voting_changed(qu);
    qu->round_us = 0;
    quorum_wake(qu);
}

static void
on_life(void *ctx, enum shard_life what, uint64_t n)
{
    struct quorum_node *node = ctx;
    struct quorum *qu = node->of;

    switch (what) {
    case SHARD_UP:
    case SHARD_DOWN:
        quorum_up_changed(node, what == SHARD_UP);
        break;
    case SHARD_NEW_EPOCH:
        enter_epoch(node, n);
        break;
    case SHARD_GRANTING:
        qu->round_us = 0;
        quorum_wake(qu);
        break;
    case SHARD_CLOCK_JUMP:
        node->jumped_us = clock_now_us();
        quorum_entries_jumped(qu);
        break;
    case SHARD_CLOCK_BACK:
        quorum_entries_set_back(qu, node->index, (int64_t)n);
        quorum_post(qu, &(struct core_event){.type = CORE_CLOCK_BACK, .back_us = (int64_t)n});
        break;
    case SHARD_SHARED:
    case SHARD_ALONE:
        quorum_shared_changed(node, what == SHARD_SHARED);
        break;
    case SHARD_SUBSCRIBED:
        quorum_subscribed(node);
        break;
    case SHARD_SLOT_LEFT:
        break; /* of a cluster */
    }
}

static void
on_done(void *ctx, const struct core_done *done)
{
    struct quorum_node *node = ctx;
    struct map_node *n = map_find(&node->of->errands, done->op);

    if (n != NULL) {
        quorum_answered(node->of, container_of(n, struct errand, by_serial), done);
        quorum_wake(node->of);
    }
}

/* ---- begin and end ---- */

/* Reads the files of TLS once, for all nodes with TLS. False with a message: nothing has changed. */
static bool
secure_nodes(struct quorum *qu, const struct tls_files *files, char error[160])
{
    struct link_address *first = NULL;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct link_address *a = qu->node[i].address;

        if (a->secure && first != NULL) {
            tls_close(&a->tls);
            a->tls = tls_share(first->tls);
        } else if (a->secure) {
            if (!single_secure(a, files, qu->env.log, error)) {
                return false;
            }
            first = a;
        }
    }
    return true;
}

/* Opens an address for each URL behind "quorum:". False with a message. */
static bool
parse(struct quorum *qu, const struct backend_conf *conf, char error[160])
{
    const char *at = conf->url + sizeof("quorum:") - 1;

    for (;;) {
        size_t n = strcspn(at, ",");
        char url[1024];

        if (qu->nodes_n == TALLY_NODES_MAX) {
            snprintf(error, 160, "quorum: at most %d URLs", TALLY_NODES_MAX);
            return false;
        }
        if (n >= sizeof(url)) {
            snprintf(error, 160, "quorum: a URL has more than %zu bytes", sizeof(url) - 1);
            return false;
        }
        snprintf(url, sizeof(url), "%.*s", (int)n, at);
        qu->node[qu->nodes_n].address = address_parse(url, conf->user, conf->password, error);
        explicit_bzero(url, sizeof(url));
        if (qu->node[qu->nodes_n].address == NULL) {
            return false;
        }
        qu->nodes_n++;
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    if (qu->nodes_n < 3) {
        snprintf(error, 160, "quorum: needs at least three URLs");
        return false;
    }
    return secure_nodes(qu, &conf->tls, error);
}

static void
open_shards(struct quorum *qu)
{
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_node *node = &qu->node[i];

        node->of = qu;
        node->index = i;
        node->shard = shard_open(node->address, &qu->conf, &qu->env,
                                 (struct shard_events){.done = on_done,
                                                       .life = on_life,
                                                       .event = quorum_core_event,
                                                       .inspected = quorum_inspected,
                                                       .variants = &script_variants_of_quorum,
                                                       .ctx = node});
    }
}

static struct backend *
quorum_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    struct quorum *qu = mem_zalloc(sizeof(*qu));

    qu->head.ops = &quorum_ops;
    qu->env = *env;
    if (!parse(qu, conf, error)) {
        for (unsigned i = 0; i < qu->nodes_n; i++) {
            address_free(qu->node[i].address);
        }
        explicit_bzero(&qu->env.secret, sizeof(qu->env.secret));
        free(qu);
        return NULL;
    }
    if (qu->nodes_n % 2 == 0) {
        log_event(env->log, LOG_WARN, "redis", "an even number of nodes", "nodes", LOG_N(qu->nodes_n), "reason",
                  LOG_S("one node fewer tolerates as many failures"), NULL);
    }
    qu->majority = tally_majority(qu->nodes_n);
    qu->conf = *conf;
    qu->conf.url = qu->conf.user = qu->conf.password = NULL; /* the addresses have them */
    qu->conf.tls = (struct tls_files){0};
    qu->conf.of_quorum = true;
    qu->env.freelist = &qu->freelist;
    qu->env.epoch = NULL; /* the recorded epoch is one number; each node has its own */
    qu->random = qu->broadcast_serial = env->nonce; /* serials of a process before this one may be remembered */
    qu->round_us = CORE_FOREVER;
    qu->startup_until_us = clock_now_us() + conf->connect_us + 2 * conf->timeout_us + ROUNDS_US;
    list_init(&qu->new_ops);
    list_init(&qu->unsent);
    heap_init(&qu->timers);
    timer_init(&qu->servers_timer, TIMER_SERVERS);
    qu->due = event_new(env->base, -1, 0, on_due, qu);
    arm(qu);
    open_shards(qu);
    return &qu->head;
}

static void
quorum_close(struct backend *b)
{
    struct quorum *qu = self(b);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_close(&qu->node[i].shard);
    }
    quorum_ops_free(qu);
    quorum_entries_free(qu);
    quorum_watches_free(qu);
    heap_fini(&qu->timers);
    event_free(qu->due);
    freelist_clear(&qu->freelist);
    explicit_bzero(&qu->env.secret, sizeof(qu->env.secret));
    free(qu);
}

/* ---- the verbs ---- */

static void
quorum_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    struct quorum *qu = self(b);

    if (verb == CORE_WATCH || verb == CORE_UNWATCH) {
        quorum_watch_op(qu, op, verb == CORE_WATCH);
    } else {
        quorum_perform_op(qu, op, verb);
    }
}

static void
quorum_configure(struct backend *b, int64_t longest_lease_us)
{
    struct quorum *qu = self(b);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_configure(qu->node[i].shard, longest_lease_us);
    }
}

static bool
quorum_login(struct backend *b, const struct backend_conf *conf, char error[160])
{
    struct quorum *qu = self(b);

    if (!secure_nodes(qu, &conf->tls, error)) {
        return false;
    }
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        address_login(qu->node[i].address, conf->user, conf->password);
    }
    return true;
}

/* Reclaims end no quarantine early: clients of other libraries do not reclaim, and may hold locks that were lost. */
static void
quorum_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch)
{
    (void)b;
    (void)domain;
    (void)epoch;
}

static void
quorum_leave(struct backend *b)
{
    struct quorum *qu = self(b);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_leave(qu->node[i].shard);
    }
}

static void
quorum_flush(struct backend *b)
{
    struct quorum *qu = self(b);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_flush(qu->node[i].shard);
    }
}

static bool
quorum_idle(const struct backend *b)
{
    const struct quorum *qu = const_self(b);
    bool idle = qu->ops_n == 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        idle = idle && shard_idle(qu->node[i].shard);
    }
    return idle;
}

/* A kind without KIND_F_ONE_KEY has several keys, or counts: the answers of a majority do not show its state. */
static bool
quorum_can_lock(const struct backend *b, enum kind kind, struct slice key, char why[160])
{
    (void)b;
    (void)key;
    if ((kind_rows[kind].flags & KIND_F_ONE_KEY) != 0) {
        return true;
    }
    snprintf(why, 160, "cannot be of kind %s: a quorum has the kinds reentrant and simple", kind_rows[kind].name);
    return false;
}

/* Names the first node that is a twin or has an error, with the reason; "" = none. A quarantine is no error. */
static void
explain_node(const struct quorum *qu, char *out, size_t room)
{
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct quorum_node *node = &qu->node[i];
        const char *error = node->linked ? node->script_error : shard_last_error(node->shard);

        if (node->twin != NULL) {
            snprintf(out, room, "; %.100s is the same server as %.100s", node->address->shown,
                     node->twin->address->shown);
            return;
        }
        if (error[0] != '\0') {
            snprintf(out, room, "; %.100s: %s", node->address->shown, error);
            return;
        }
    }
}

/* In strict mode, nodes that may evict keys do not grant. */
static void
explain_strict(const struct quorum *qu, char *out, size_t room)
{
    char why[TEXT_ERROR_ROOM], first[TEXT_ERROR_ROOM] = "";
    unsigned may_grant = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_explain(qu->node[i].shard, why, sizeof(why));
        may_grant += qu->node[i].voting && why[0] == '\0';
        if (first[0] == '\0') {
            memcpy(first, why, sizeof(first));
        }
    }
    if (may_grant < qu->majority && first[0] != '\0') {
        snprintf(out, room, "%u of %u nodes grant: no majority; %.260s", may_grant, qu->nodes_n, first);
    }
}

static void
explain(const struct quorum *qu, char *out, size_t room)
{
    unsigned up = quorum_up(qu), voting = quorum_voting(qu);
    int n = 0;

    out[0] = '\0';
    if (up < qu->majority) {
        n = snprintf(out, room, "%u of %u nodes answer: no majority", up, qu->nodes_n);
    } else if (voting < qu->majority) {
        n = snprintf(out, room, "%u of %u nodes vote: no majority", voting, qu->nodes_n);
    }
    if (n > 0) {
        explain_node(qu, out + n, room - (size_t)n);
    } else {
        explain_strict(qu, out, room);
    }
}

static void
quorum_status(const struct backend *b, struct backend_status *out)
{
    const struct quorum *qu = const_self(b);
    int64_t rtt_us[TALLY_NODES_MAX] = {0};

    shard_status(qu->node[0].shard, out);
    rtt_us[0] = out->rtt_us;
    for (unsigned i = 1; i < qu->nodes_n; i++) {
        struct backend_status s;

        shard_status(qu->node[i].shard, &s);
        out->links += s.links;
        out->links_up += s.links_up;
        out->in_flight += s.in_flight;
        out->queued += s.queued;
        out->other_daemons = s.other_daemons > out->other_daemons ? s.other_daemons : out->other_daemons;
        rtt_us[i] = s.rtt_us;
        server_info_add_policy(out, &s);
        server_info_add_away(out, &s);
        if (out->last_error[0] == '\0') {
            memcpy(out->last_error, s.last_error, sizeof(out->last_error));
        }
    }
    if (out->last_error[0] == '\0' && qu->stray.warned) {
        snprintf(out->last_error, sizeof(out->last_error), QUORUM_STRAY ": %s", qu->stray.uuid);
    }
    snprintf(out->address, sizeof(out->address), "quorum of %u", qu->nodes_n);
    out->up = qu->up;
    out->watched = qu->watches.count;
    out->rtt_us = tally_median(rtt_us, qu->nodes_n);
    out->epoch = qu->epoch;
    out->grace = !qu->enough_vote;
    explain(qu, out->refusal, sizeof(out->refusal));
}

static size_t
quorum_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX])
{
    const struct quorum *qu = const_self(b);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct quorum_node *node = &qu->node[i];

        shard_node(node->shard, &out[i]);
        snprintf(out[i].state, sizeof(out[i].state), "%s",
                 node->twin != NULL ? "twin" : !node->up ? "down" : node->voting ? "voting" : "quarantine");
        snprintf(out[i].more, sizeof(out[i].more), ",votes=%" PRIu64 ",second_rounds=%" PRIu64, node->votes,
                 node->second_rounds);
    }
    return qu->nodes_n;
}

const struct backend_ops quorum_ops = {
    .schemes = "quorum:",
    .several_shards = true,
    .open = quorum_open,
    .perform = quorum_perform,
    .inspect = quorum_inspect,
    .broadcast = quorum_broadcast,
    .waiter_poll = quorum_waiter_poll,
    .configure = quorum_configure,
    .login = quorum_login,
    .reclaimed = quorum_reclaimed,
    .leave = quorum_leave,
    .flush = quorum_flush,
    .idle = quorum_idle,
    .status = quorum_status,
    .nodes = quorum_nodes,
    .can_lock = quorum_can_lock,
    .close = quorum_close,
};
