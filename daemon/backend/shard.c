/*
 * shard.c -- one data set in Redis: its links, their greeting, its clock. What it is asked for is shard_calls.c.
 *
 * Links: [0, lock_links) for acquire, release and break; then one for
 * renewals, never behind a queue of attempts; then one for subscriptions.
 * Each of the former serves for another that is away: shard_route.c. What is
 * neither (LOCKINFO, reads for tracking, what daemons say, who listens) goes
 * along on 0.
 */
#include "daemon/backend/shard.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/inspect.h"
#include "daemon/backend/shard_private.h"
#include "daemon/base/clock.h"

static struct redis_link *
sub_link(const struct shard *n)
{
    return n->link[n->lock_links + 1];
}

/* For what needs no order: the first one, or whichever is up. */
static struct redis_link *
any_link(const struct shard *n)
{
    unsigned i = 0;

    while (i < n->lock_links && !link_up(n->link[i])) {
        i++;
    }
    return n->link[link_up(n->link[i]) ? i : 0];
}

void
shard_say(struct shard *n, struct slice what)
{
    say_send(&n->say, any_link(n), what);
}

void
shard_waiter_poll(struct shard *n, const struct core_waiter_poll *p)
{
    waiter_poll_send(&n->waiter_poll, any_link(n), p);
}

bool
shard_look(struct shard *n, uint64_t id, struct slice key)
{
    struct inspect *q = inspect_new(n->env, id);

    if (q != NULL && !inspect_send(q, any_link(n), key)) {
        deferred_look(&n->down, q);
    }
    return q != NULL;
}

void
shard_configure(struct shard *n, int64_t grace_us)
{
    if (grace_us > n->membership.epoch.grace_us) { /* never less: what is held goes on being renewed as it was taken */
        n->membership.epoch.grace_us = grace_us;
    }
}

void
shard_reclaimed(struct shard *n, uint64_t epoch)
{
    membership_reclaimed(&n->membership, epoch);
}

void
shard_leave(struct shard *n)
{
    membership_leave(&n->membership);
}

/* ---- greeting ---- */

static void
on_time(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct shard *n = arg;

    if (result == LINK_ANSWERED && r->type == REPLY_ARRAY && r->count == 2 && r->item[0]->type == REPLY_TEXT &&
        r->item[1]->type == REPLY_TEXT) {
        int64_t s = strtoll(r->item[0]->text.p, NULL, 10), us = strtoll(r->item[1]->text.p, NULL, 10);

        shard_learn(n, sent_us, s * US_PER_S + us);
    }
}

static void
on_hello(void *ctx, struct redis_link *l)
{
    struct shard *n = ctx;
    struct slice word = SLICE_LIT("TIME");

    if (l == sub_link(n)) {
        watches_hello(n->watches);
        return;
    }
    (void)link_send(l, 1, &word, on_time, n);
    membership_hello(&n->membership, l);
    server_info_ask(&n->hello, l);
    rights_ask(&n->rights, l);
    n->waiter_poll.refused = n->waiter_poll.refused && l != n->link[0]; /* its rights may be others now */
}

/* Who came while we did not listen has woken nobody here. */
static void
on_listening(void *ctx)
{
    membership_dirty(&((struct shard *)ctx)->membership);
}

static unsigned
index_of(const struct shard *n, const struct redis_link *l)
{
    unsigned i = 0;

    while (n->link[i] != l) {
        i++;
    }
    return i;
}

/* What the link is for. */
static const char *
job_of(const struct shard *n, unsigned i)
{
    return i < n->lock_links ? "locks" : i == n->lock_links ? "renewals" : "subscriptions";
}

/* True: this reason was not logged since all links were up. */
static bool
is_new_cause(struct shard *n, const char *reason)
{
    uint32_t cause = hash_name(&n->env->secret, reason, strlen(reason)) | 1;

    for (unsigned i = 0; i < CAUSES_MAX; i++) {
        if (n->cause[i] == cause) {
            return false;
        }
        if (n->cause[i] == 0) {
            n->cause[i] = cause;
            return true;
        }
    }
    return false;
}

/* One link of several: the others may hide that it is away. Each cause is said once, and that it is over. */
static void
log_link(struct shard *n, const struct redis_link *l, bool link_is_up, bool said)
{
    unsigned i = index_of(n, l), all = 0;
    bool logged = (n->link_logged & (1u << i)) != 0;
    const char *what = job_of(n, i);

    if (!link_is_up && is_new_cause(n, link_last_error(l)) && !said) {
        n->link_logged |= 1u << i;
        log_event(n->env->log, LOG_WARN, "redis", "link down", "address", LOG_S(n->address->shown), "link",
                  LOG_S(what), "reason", LOG_S(link_last_error(l)), NULL);
    } else if (link_is_up && logged) {
        n->link_logged &= ~(1u << i);
        log_event(n->env->log, LOG_INFO, "redis", "link up", "address", LOG_S(n->address->shown), "link",
                  LOG_S(what), NULL);
    }
    while (all < n->links_n && link_up(n->link[all])) {
        all++;
    }
    if (all == n->links_n) {
        memset(n->cause, 0, sizeof(n->cause));
    }
}

static void
on_state(void *ctx, struct redis_link *l, bool link_is_up)
{
    struct shard *n = ctx;
    bool up = false; /* any of them serves every name: shard_route.c */

    if (l == sub_link(n) || l == n->link[0]) {
        watches_link(n->watches, l, link_is_up);
    }
    n->listens = n->listens && (link_is_up || l != sub_link(n));
    if (!n->listens && link_up(sub_link(n)) && n->membership.epoch.number != 0) { /* not sooner: see presence.lua */
        n->listens = true;
        say_listen(&n->say, sub_link(n), on_listening, n);
    }
    if (l == sub_link(n)) {
        log_link(n, l, link_is_up, false);
        return;
    }
    if (!link_is_up) {
        shard_move_gathered(n, index_of(n, l));
    }
    for (unsigned i = 0; i <= n->lock_links; i++) {
        up = up || link_up(n->link[i]);
    }
    log_link(n, l, link_is_up, up != n->up || (!up && !n->told));
    if (up != n->up) {
        n->up = up;
        n->told = true;
        log_event(n->env->log, up ? LOG_INFO : LOG_WARN, "redis", up ? "up" : "lost", "address",
                  LOG_S(n->address->shown), up ? NULL : "reason", LOG_S(link_last_error(l)), NULL);
        n->env->state(n->env->ctx, up);
    } else if (!up && !link_is_up && !n->told) {
        n->told = true; /* once; INFO redis has the latest reason */
        log_event(n->env->log, LOG_WARN, "redis", "unreachable", "address", LOG_S(n->address->shown), "reason",
                  LOG_S(link_last_error(l)), NULL);
    }
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    struct shard *n = ctx;

    if (!say_heard(&n->say, channel, what)) {
        watches_heard(n->watches, channel, what);
    } else if (what->type == REPLY_TEXT && what->text.n == 0) {
        membership_dirty(&n->membership); /* somebody has come, or has met a Redis that knows nothing */
    }
}

/* ---- begin and end ---- */

/* A name is looked up without stopping the loop; a number needs no looking up. */
static struct evdns_base *
resolver(const struct link_address *a, struct event_base *base)
{
    if (!address_is_name(a)) {
        return NULL;
    }
    return evdns_base_new(base, EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
}

struct shard *
shard_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env)
{
    struct shard *n = calloc(1, sizeof(*n));
    unsigned links = conf->links < 1 ? 1 : conf->links > LINKS_MAX ? LINKS_MAX : conf->links;
    bool ok;

    if (n == NULL) {
        address_free(address);
        return NULL;
    }
    n->address = address;
    n->conf = conf;
    n->env = env;
    n->lock_links = links;
    shard_route_init(n);
    n->hello.env = env;
    n->hello.shown = address->shown;
    say_init(&n->say, env, address);
    waiter_poll_init(&n->waiter_poll, env, address);
    buf_init(&n->text, 0);
    for (unsigned i = 0; i < LINKS_MAX + 2; i++) {
        for (int k = 0; k < BATCHES * KINDS; k++) {
            list_init(&n->batch[i][k / KINDS][k % KINDS]);
        }
    }
    n->dns = resolver(address, env->base);
    ok = rights_init(&n->rights, conf, env, address);
    ok = deferred_init(&n->down, env) && ok; /* shard_close() ends both */
    ok = membership_init(&n->membership, conf, env, address, n->say.channel) && ok; /* shard_close() ends both */
    ok = ok && (n->dns != NULL || !address_is_name(address));
    for (n->links_n = 0; ok && n->links_n < links + 2; n->links_n++) {
        struct link_owner owner = {on_hello, on_state, on_message, n};

        n->link[n->links_n] = link_open(address, conf, env, n->dns, n->links_n == links + 1, owner);
        ok = n->link[n->links_n] != NULL;
        if (ok && n->links_n <= links) {
            membership_add(&n->membership, n->link[n->links_n]);
        }
    }
    /* No link says anything before we return. */
    n->watches = ok ? watches_new(env, address, sub_link(n), n->link[0]) : NULL;
    if (n->watches == NULL) {
        shard_close(&n);
    }
    return n;
}

void
shard_close(struct shard **np)
{
    struct shard *n = *np;

    if (n == NULL) {
        return;
    }
    shard_drop_gathered(n);
    for (unsigned i = 0; i < LINKS_MAX + 2; i++) {
        link_close(&n->link[i], shard_forget);
    }
    deferred_fini(&n->down);
    if (n->dns != NULL) {
        evdns_base_free(n->dns, 1);
    }
    membership_fini(&n->membership);
    watches_free(&n->watches);
    waiter_poll_fini(&n->waiter_poll);
    rights_fini(&n->rights);
    denied_fini(&n->denied);
    buf_fini(&n->text);
    address_free(n->address);
    free(n);
    *np = NULL;
}

bool
shard_idle(const struct shard *n)
{
    return n->batched == 0 && n->flying == 0 && deferred_idle(&n->down) && !membership_busy(&n->membership);
}

void
shard_status(const struct shard *n, struct backend_status *out)
{
    *out = (struct backend_status){
        .up = n->up, .links = n->links_n, .queued = n->batched, .watched = watches_count(n->watches)};
    snprintf(out->address, sizeof(out->address), "%s", n->address->shown);
    server_info_status(&n->hello, out);
    out->offset_us = offset_guess(&n->offset);
    out->rtt_us = link_rtt_us(n->link[0]);
    out->epoch = n->membership.epoch.number;
    out->grace = n->membership.epoch.until_ms != 0;
    out->daemons = n->membership.epoch.peers_n;
    for (unsigned i = 0; i < n->links_n; i++) {
        out->links_up += link_up(n->link[i]);
        out->in_flight += link_in_flight(n->link[i]);
        if (out->last_error[0] == '\0') {
            snprintf(out->last_error, sizeof(out->last_error), "%s", link_last_error(n->link[i]));
        }
        if (!link_up(n->link[i]) && strstr(out->links_away, job_of(n, i)) == NULL) {
            size_t at = strlen(out->links_away);

            snprintf(out->links_away + at, sizeof(out->links_away) - at, "%s%s", at > 0 ? "," : "", job_of(n, i));
        }
    }
}
