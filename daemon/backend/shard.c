/*
 * shard.c -- one set of data in Redis: its links, their greeting and their log lines. Operations are in shard_calls.c.
 *
 * Links: [0, lock_links) for acquire, release and break; then one for renewals, which never wait behind attempts; then
 * one for subscriptions; and, if a rule has `replicas`, one for those (replicas.h). Links of locks and renewals replace
 * each other while one is down: shard_route.c. Tracking reads by link 0; LOCKINFO, broadcasts and waiter polls use the
 * first link of locks or renewals that is up.
 */
#include "daemon/backend/shard.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/inspect.h"
#include "daemon/backend/resolver.h"
#include "daemon/backend/anchors.h"
#include "daemon/backend/bundle.h"
#include "daemon/backend/shard_links.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

void
shard_broadcast(struct shard *sh, unsigned channel, struct slice what)
{
    broadcasts_send(&sh->broadcasts[channel], shard_any_link(sh), what);
}

bool
shard_answers(const struct shard *sh)
{
    const struct redis_link *l = shard_any_link(sh);

    return link_up(l) && !link_silent(l);
}

void
shard_waiter_poll(struct shard *sh, const struct core_waiter_poll *p)
{
    waiter_poll_send(&sh->waiter_poll, shard_any_link(sh), p);
}

void
shard_inspect(struct shard *sh, uint64_t id, struct slice key)
{
    struct inspect *q = inspect_new(sh->env, &sh->events, id);

    if (!inspect_send(q, shard_any_link(sh), key, &sh->inspections_n)) {
        deferred_inspect(&sh->deferred, q);
    }
}

bool
shard_ask(struct shard *sh, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    struct redis_link *l = shard_any_link(sh);

    return link_up(l) && link_send(l, words, word, fn, arg);
}

void
shard_fail_asked(struct shard *sh)
{
    sh->env->metrics->redis_protocol_errors++;
    link_fail(shard_any_link(sh), "a malformed answer");
}

void
shard_grant_until(struct shard *sh, int64_t until_us)
{
    sh->grant_until_us = until_us;
    shard_gather_waiting(sh);
}

void
shard_expect_error(struct shard *sh, const char *error)
{
    sh->expected_error = error;
}

bool
shard_waits(const struct shard *sh)
{
    return !list_empty(&sh->waiting);
}

void
shard_configure(struct shard *sh, int64_t longest_lease_us)
{
    /* Never shorter: held locks are renewed with the lease that they were taken with. */
    if (shard_has_membership(sh) && longest_lease_us > sh->membership.epoch.longest_lease_us) {
        sh->membership.epoch.longest_lease_us = longest_lease_us;
    }
}

void
shard_reclaimed(struct shard *sh, uint64_t epoch)
{
    if (shard_has_membership(sh)) {
        membership_reclaimed(&sh->membership, epoch);
    }
}

void
shard_leave(struct shard *sh)
{
    if (shard_has_membership(sh)) {
        membership_leave(&sh->membership);
    }
}

/* ---- greeting ---- */

static void
on_time(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct shard *sh = arg;
    int64_t time_us;

    if (result == LINK_ANSWERED && reply_time(r, &time_us)) {
        shard_learn(sh, sent_us, time_us);
    }
}

/* After a random time, so that daemons which started together do not go on asking at the same time. */
static void
ask_eviction_later(struct shard *sh)
{
    int64_t us = US_PER_S / 2 + (int64_t)arc4random_uniform(US_PER_S);

    event_add(sh->eviction, &(struct timeval){us / US_PER_S, us % US_PER_S});
}

static void
on_eviction_due(evutil_socket_t fd, short what, void *ctx)
{
    struct shard *sh = ctx;

    (void)fd;
    (void)what;
    server_info_ask_again(&sh->server, shard_any_link(sh));
    ask_eviction_later(sh);
}

static void
on_greet(void *ctx, struct redis_link *l)
{
    struct shard *sh = ctx;
    struct slice word = SLICE_LIT("TIME");

    if (sh->events.greet != NULL && (shard_has_membership(sh) || l != sh->replicas.link)) { /* RE2 of replicas.c */
        sh->events.greet(sh->events.ctx, l);
    }
    if (l == shard_sub_link(sh)) {
        watches_greet(sh->watches);
        return;
    }
    if (l == sh->replicas.link) {
        replicas_greet(&sh->replicas);
        return;
    }
    (void)link_send(l, 1, &word, on_time, sh);
    continuity_greet(sh->continuity, l);
    server_info_ask(&sh->server, l);
    rights_ask(&sh->rights, l);
    sh->waiter_poll.refused = sh->waiter_poll.refused && l != sh->link[0]; /* the ACL may have changed */
}

/* Daemons that joined while this one was not subscribed are unknown: asks for the members. */
static void
on_broadcasts_subscribed(void *ctx)
{
    struct shard *sh = ctx;

    sh->events.life(sh->events.ctx, SHARD_SUBSCRIBED, 0);
    if (shard_has_membership(sh)) {
        membership_ask_again(&sh->membership);
    }
}

static unsigned
index_of(const struct shard *sh, const struct redis_link *l)
{
    unsigned i = 0;

    while (sh->link[i] != l) {
        i++;
    }
    return i;
}

/* Notes the reason. True: it is new since all links were up. */
static bool
note_reason(struct shard *sh, const char *reason)
{
    uint32_t hash = (uint32_t)hash_bytes(&sh->env->secret, reason, strlen(reason)) | 1;

    for (unsigned i = 0; i < LOGGED_REASONS_MAX; i++) {
        if (sh->logged_reason[i] == hash) {
            return false;
        }
        if (sh->logged_reason[i] == 0) {
            sh->logged_reason[i] = hash;
            return true;
        }
    }
    return false;
}

/* For the log: the server that the link was connected to; the address may name another one by now. */
static const char *
server_of(const struct shard *sh, const struct redis_link *l)
{
    return !link_up(l) && strcmp(link_last_error(l), LINK_MOVED) == 0 ? sh->former_server : sh->address->shown;
}

/*
 * Logs that a link is down while others serve, once for each reason, and that it is up again. shard_line: the caller
 * logs the reason in a line about the whole shard.
 */
static void
log_link(struct shard *sh, const struct redis_link *l, bool link_is_up, bool shard_line)
{
    unsigned i = index_of(sh, l), all = 0;
    bool logged = (sh->link_logged & (1u << i)) != 0;
    const char *what = shard_purpose_of(sh, i);

    if (!link_is_up && note_reason(sh, link_last_error(l)) && !shard_line) {
        sh->link_logged |= 1u << i;
        log_event(sh->env->log, LOG_WARN, "redis", "link down", "address", LOG_S(server_of(sh, l)), "link",
                  LOG_S(what), "reason", LOG_S(link_last_error(l)), NULL);
    } else if (link_is_up && logged) {
        sh->link_logged &= ~(1u << i);
        log_event(sh->env->log, LOG_INFO, "redis", "link up", "address", LOG_S(server_of(sh, l)), "link",
                  LOG_S(what), NULL);
    }
    while (all < sh->links_n && link_up(sh->link[all])) {
        all++;
    }
    if (all == sh->links_n) {
        memset(sh->logged_reason, 0, sizeof(sh->logged_reason));
    }
}

static void
subscribe_broadcasts(struct shard *sh)
{
    for (unsigned i = 0; i < SHARD_CHANNELS; i++) {
        struct broadcasts *s = &sh->broadcasts[i];

        if (s->wanted && !s->subscribed && link_up(shard_sub_link(sh))) {
            s->subscribed = true;
            broadcasts_subscribe(s, shard_sub_link(sh), on_broadcasts_subscribed, sh);
        }
    }
}

void
shard_want_broadcasts(struct shard *sh, unsigned channel, bool want)
{
    struct broadcasts *s = &sh->broadcasts[channel];

    s->subscribed = s->subscribed && want; /* if the slot of the channel has left, the node ends the subscription */
    s->wanted = want;
    subscribe_broadcasts(sh);
}

static bool
is_expected(const struct shard *sh, const struct redis_link *l)
{
    return sh->expected_error != NULL && strcmp(link_last_error(l), sh->expected_error) == 0;
}

static void
on_state(void *ctx, struct redis_link *l, bool link_is_up)
{
    struct shard *sh = ctx;
    bool up = false; /* any link of locks or renewals serves every name: shard_route.c */

    if (l == shard_sub_link(sh) || l == sh->link[0]) {
        watches_link(sh->watches, l, link_is_up);
    }
    for (unsigned i = 0; i < SHARD_CHANNELS; i++) {
        sh->broadcasts[i].subscribed = sh->broadcasts[i].subscribed && (link_is_up || l != shard_sub_link(sh));
    }
    if (shard_has_membership(sh) && sh->membership.epoch.number != 0) { /* see membership.lua */
        sh->broadcasts[0].wanted = true;
    }
    subscribe_broadcasts(sh);
    if (l == shard_sub_link(sh) || l == sh->replicas.link) {
        if (link_is_up || sh->up) { /* if the server is down, one line for all links is enough */
            log_link(sh, l, link_is_up, false);
        }
        return;
    }
    if (!link_is_up) {
        continuity_lost(sh->continuity, l);
        shard_move_gathered(sh, index_of(sh, l));
    }
    for (unsigned i = 0; i <= sh->lock_links; i++) {
        up = up || link_up(sh->link[i]);
    }
    log_link(sh, l, link_is_up, up != sh->up || (!up && !sh->logged));
    if (up != sh->up) {
        sh->up = up;
        sh->logged = true;
        log_event(sh->env->log, up ? LOG_INFO : LOG_WARN, "redis", up ? "up" : "lost", "address",
                  LOG_S(server_of(sh, l)), up ? NULL : "reason", LOG_S(link_last_error(l)), NULL);
        sh->events.life(sh->events.ctx, up ? SHARD_UP : SHARD_DOWN, 0);
    } else if (!up && !link_is_up && !sh->logged && !is_expected(sh, l)) {
        sh->logged = true; /* one line for an outage; INFO redis has the latest reason */
        log_event(sh->env->log, LOG_WARN, "redis", "unreachable", "address", LOG_S(server_of(sh, l)), "reason",
                  LOG_S(link_last_error(l)), NULL);
    }
}

/* The broadcasts on that channel; NULL: the channel is another one. */
static struct broadcasts *
broadcasts_on(struct shard *sh, struct slice channel)
{
    for (unsigned i = 0; i < SHARD_CHANNELS; i++) {
        if (slice_eq(channel, slice_of(sh->broadcasts[i].channel))) {
            return &sh->broadcasts[i];
        }
    }
    return NULL;
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    struct shard *sh = ctx;
    struct broadcasts *s = broadcasts_on(sh, channel);

    if (s != NULL && what->type == REPLY_INT) {
        s->subscribed = false; /* the slot of the channel has left: the topology finds its new node */
    } else if (s == NULL || !broadcasts_received(s, channel, what)) {
        watches_message(sh->watches, channel, what);
    } else if (what->type == REPLY_TEXT && (what->text.n == 0 || what->text.p[0] == '+')) {
        continuity_received(sh->continuity, what->text);
    }
}

/* ---- begin and end ---- */

/*
 * Moves the address and then all links in one go, so that no link reads on from the former server or connects to it
 * again. The known epoch stays: the new server's greeting is compared with it.
 */
void
shard_retarget(struct shard *sh, const char *host, int port)
{
    memcpy(sh->former_server, sh->address->shown, sizeof(sh->former_server));
    address_move(sh->address, host, port);
    for (unsigned i = 0; i < sh->links_n; i++) {
        link_retarget(sh->link[i]);
    }
}

void
shard_reload_scripts(struct shard *sh)
{
    sha1_hex(slice_of(script_variants_bundle(sh->events.variants)), sh->bundle_sha);
    for (unsigned i = 0; i < sh->links_n; i++) {
        link_reconnect(sh->link[i], "the version of the cluster is known now");
    }
}

struct shard *
shard_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env,
           struct shard_events events)
{
    struct shard *sh = mem_zalloc(sizeof(*sh));
    unsigned links = conf->links < 1 ? 1 : conf->links > LINKS_MAX ? LINKS_MAX : conf->links;

    sh->address = address;
    sh->conf = conf;
    sh->env = env;
    sh->events = events;
    sh->callbacks = (struct link_callbacks){on_greet, on_state, on_message, sh};
    sh->lock_links = links;
    sh->grant_until_us = CORE_FOREVER;
    list_init(&sh->waiting);
    shard_route_init(sh);
    if (conf->strict) {
        sh->eviction = event_new(env->base, -1, 0, on_eviction_due, sh);
        ask_eviction_later(sh);
    }
    sh->server.env = env;
    sh->server.shown = address->shown;
    sh->server.variants = events.variants;
    for (unsigned i = 0; i < SHARD_CHANNELS; i++) {
        if (i == 0 || events.channel[i] != NULL) {
            broadcasts_init(&sh->broadcasts[i], env, &sh->events, address, events.channel[i]);
        }
    }
    waiter_poll_init(&sh->waiter_poll, env, &sh->events, address);
    buf_init(&sh->text, 0);
    sha1_hex(slice_of(script_variants_bundle(events.variants)), sh->bundle_sha);
    for (unsigned i = 0; i <= LINKS_MAX; i++) {
        for (int k = 0; k < BATCHES * KINDS; k++) {
            list_init(&sh->batch[i][k / KINDS][k % KINDS]);
        }
    }
    sh->resolver = address->path == NULL ? resolver_new(env->base) : NULL;
    rights_init(&sh->rights, conf, env, address);
    deferred_init(&sh->deferred, env, &sh->events);
    sh->continuity = events.continuity;
    if (sh->continuity == NULL) {
        membership_init(&sh->membership, conf, env, &sh->events, address, sh->broadcasts[0].channel);
        sh->continuity = &sh->membership.head;
    }
    replicas_init(&sh->replicas, conf, env, &sh->events, sh->continuity, address);
    while (sh->links_n <= links) {
        struct redis_link *l = shard_open_link(sh, false);

        if (shard_has_membership(sh)) {
            membership_add(&sh->membership, l);
        }
    }
    (void)shard_open_link(sh, true);
    /* No link has an event before this function returns. */
    sh->watches = watches_new(env, &sh->events, address, shard_sub_link(sh), sh->link[0]);
    return sh;
}

/* Frees the arg of a command in flight on a link that is being closed. */
static void
forget(link_reply_fn *fn, void *arg)
{
    if (!shard_call_forget(fn, arg) && !shard_bundle_forget(fn, arg) && !anchors_forget(fn, arg)) {
        inspect_forget(fn, arg);
    }
}

void
shard_close(struct shard **shp)
{
    struct shard *sh = *shp;

    if (sh == NULL) {
        return;
    }
    shard_drop_gathered(sh);
    for (unsigned i = 0; i < sh->links_n; i++) {
        link_close(&sh->link[i], forget);
    }
    if (sh->eviction != NULL) {
        event_free(sh->eviction);
    }
    replicas_fini(&sh->replicas);
    deferred_fini(&sh->deferred);
    resolver_free(&sh->resolver);
    if (shard_has_membership(sh)) {
        membership_fini(&sh->membership);
    }
    watches_free(&sh->watches);
    waiter_poll_fini(&sh->waiter_poll);
    rights_fini(&sh->rights);
    denied_fini(&sh->denied);
    buf_fini(&sh->text);
    address_free(sh->address);
    free(sh);
    *shp = NULL;
}

bool
shard_idle(const struct shard *sh)
{
    return sh->gathered_n == 0 && sh->in_flight == 0 && sh->inspections_n == 0 && !shard_waits(sh) &&
           deferred_idle(&sh->deferred) && replicas_idle(&sh->replicas) &&
           (!shard_has_membership(sh) || !membership_busy(&sh->membership));
}
