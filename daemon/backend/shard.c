/*
 * shard.c -- one set of data in Redis: its links, their greeting, its clock, the log of links up and lost. What it is
 * asked for is in shard_calls.c.
 *
 * Links: [0, lock_links) for acquire, release and break; then one for
 * renewals, never behind a queue of attempts; then one for subscriptions.
 * Each of the former serves for another that is away: shard_route.c. What is
 * neither (LOCKINFO, reads for tracking, broadcasts, waiter polls) goes
 * along on 0.
 */
#include "daemon/backend/shard.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/inspect.h"
#include "daemon/backend/names.h"
#include "daemon/backend/shard_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

static struct redis_link *
sub_link(const struct shard *sh)
{
    return sh->link[sh->lock_links + 1];
}

/* For what needs no order: the first one, or whichever is up. */
static struct redis_link *
any_link(const struct shard *sh)
{
    unsigned i = 0;

    while (i < sh->lock_links && !link_up(sh->link[i])) {
        i++;
    }
    return sh->link[link_up(sh->link[i]) ? i : 0];
}

void
shard_say(struct shard *sh, struct slice what)
{
    say_send(&sh->say, any_link(sh), what);
}

void
shard_waiter_poll(struct shard *sh, const struct core_waiter_poll *p)
{
    waiter_poll_send(&sh->waiter_poll, any_link(sh), p);
}

void
shard_look(struct shard *sh, uint64_t id, struct slice key)
{
    struct inspect *q = inspect_new(sh->env, &sh->events, id);

    if (!inspect_send(q, any_link(sh), key)) {
        deferred_look(&sh->down, q);
    }
}

void
shard_configure(struct shard *sh, int64_t grace_us)
{
    if (grace_us > sh->membership.epoch.grace_us) { /* never less: what is held goes on being renewed as it was taken */
        sh->membership.epoch.grace_us = grace_us;
    }
}

void
shard_reclaimed(struct shard *sh, uint64_t epoch)
{
    membership_reclaimed(&sh->membership, epoch);
}

void
shard_leave(struct shard *sh)
{
    membership_leave(&sh->membership);
}

/* ---- greeting ---- */

static void
on_time(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct shard *sh = arg;

    if (result == LINK_ANSWERED && r->type == REPLY_ARRAY && r->count == 2 && r->item[0]->type == REPLY_TEXT &&
        r->item[1]->type == REPLY_TEXT) {
        int64_t s = strtoll(r->item[0]->text.p, NULL, 10), us = strtoll(r->item[1]->text.p, NULL, 10);

        shard_learn(sh, sent_us, s * US_PER_S + us);
    }
}

static void
on_hello(void *ctx, struct redis_link *l)
{
    struct shard *sh = ctx;
    struct slice word = SLICE_LIT("TIME");

    if (l == sub_link(sh)) {
        watches_hello(sh->watches);
        return;
    }
    (void)link_send(l, 1, &word, on_time, sh);
    membership_hello(&sh->membership, l);
    server_info_ask(&sh->hello, l);
    rights_ask(&sh->rights, l);
    sh->waiter_poll.refused = sh->waiter_poll.refused && l != sh->link[0]; /* its rights may have changed */
}

/* Newcomers that announced themselves while we did not listen went unnoticed: ask for the members. */
static void
on_listening(void *ctx)
{
    membership_dirty(&((struct shard *)ctx)->membership);
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

/* The link's purpose, for the log. */
static const char *
job_of(const struct shard *sh, unsigned i)
{
    return i < sh->lock_links ? "locks" : i == sh->lock_links ? "renewals" : "subscriptions";
}

/* True: this reason was not logged since all links were up. */
static bool
is_new_cause(struct shard *sh, const char *reason)
{
    uint32_t cause = (uint32_t)hash_bytes(&sh->env->secret, reason, strlen(reason)) | 1;

    for (unsigned i = 0; i < CAUSES_MAX; i++) {
        if (sh->cause[i] == cause) {
            return false;
        }
        if (sh->cause[i] == 0) {
            sh->cause[i] = cause;
            return true;
        }
    }
    return false;
}

/* Logs a link of several, as the others may hide that it is down: each cause once, and its end. */
static void
log_link(struct shard *sh, const struct redis_link *l, bool link_is_up, bool said)
{
    unsigned i = index_of(sh, l), all = 0;
    bool logged = (sh->link_logged & (1u << i)) != 0;
    const char *what = job_of(sh, i);

    if (!link_is_up && is_new_cause(sh, link_last_error(l)) && !said) {
        sh->link_logged |= 1u << i;
        log_event(sh->env->log, LOG_WARN, "redis", "link down", "address", LOG_S(sh->address->shown), "link",
                  LOG_S(what), "reason", LOG_S(link_last_error(l)), NULL);
    } else if (link_is_up && logged) {
        sh->link_logged &= ~(1u << i);
        log_event(sh->env->log, LOG_INFO, "redis", "link up", "address", LOG_S(sh->address->shown), "link",
                  LOG_S(what), NULL);
    }
    while (all < sh->links_n && link_up(sh->link[all])) {
        all++;
    }
    if (all == sh->links_n) {
        memset(sh->cause, 0, sizeof(sh->cause));
    }
}

static void
on_state(void *ctx, struct redis_link *l, bool link_is_up)
{
    struct shard *sh = ctx;
    bool up = false; /* any of them serves every name: shard_route.c */

    if (l == sub_link(sh) || l == sh->link[0]) {
        watches_link(sh->watches, l, link_is_up);
    }
    sh->listens = sh->listens && (link_is_up || l != sub_link(sh));
    if (!sh->listens && link_up(sub_link(sh)) && sh->membership.epoch.number != 0) { /* not sooner: see presence.lua */
        sh->listens = true;
        say_listen(&sh->say, sub_link(sh), on_listening, sh);
    }
    if (l == sub_link(sh)) {
        log_link(sh, l, link_is_up, false);
        return;
    }
    if (!link_is_up) {
        membership_lost(&sh->membership, l);
        shard_move_gathered(sh, index_of(sh, l));
    }
    for (unsigned i = 0; i <= sh->lock_links; i++) {
        up = up || link_up(sh->link[i]);
    }
    log_link(sh, l, link_is_up, up != sh->up || (!up && !sh->told));
    if (up != sh->up) {
        sh->up = up;
        sh->told = true;
        log_event(sh->env->log, up ? LOG_INFO : LOG_WARN, "redis", up ? "up" : "lost", "address",
                  LOG_S(sh->address->shown), up ? NULL : "reason", LOG_S(link_last_error(l)), NULL);
        sh->events.life(sh->events.ctx, up ? SHARD_UP : SHARD_DOWN, 0);
    } else if (!up && !link_is_up && !sh->told) {
        sh->told = true; /* once; INFO redis has the latest reason */
        log_event(sh->env->log, LOG_WARN, "redis", "unreachable", "address", LOG_S(sh->address->shown), "reason",
                  LOG_S(link_last_error(l)), NULL);
    }
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    struct shard *sh = ctx;

    if (!say_heard(&sh->say, channel, what)) {
        watches_heard(sh->watches, channel, what);
    } else if (what->type == REPLY_TEXT && what->text.n == 0) {
        membership_dirty(&sh->membership); /* a daemon has joined, or a new epoch has begun */
    }
}

/* ---- begin and end ---- */

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
    sh->lock_links = links;
    shard_route_init(sh);
    sh->hello.env = env;
    sh->hello.shown = address->shown;
    say_init(&sh->say, env, &sh->events, address);
    waiter_poll_init(&sh->waiter_poll, env, &sh->events, address);
    buf_init(&sh->text, 0);
    for (unsigned i = 0; i < LINKS_MAX + 2; i++) {
        for (int k = 0; k < BATCHES * KINDS; k++) {
            list_init(&sh->batch[i][k / KINDS][k % KINDS]);
        }
    }
    sh->names = address->path == NULL ? names_new(env->base) : NULL;
    rights_init(&sh->rights, conf, env, address);
    deferred_init(&sh->down, env, &sh->events);
    membership_init(&sh->membership, conf, env, &sh->events, address, sh->say.channel);
    for (sh->links_n = 0; sh->links_n < links + 2; sh->links_n++) {
        struct link_owner owner = {on_hello, on_state, on_message, sh};

        sh->link[sh->links_n] = link_open(address, conf, env, sh->names, sh->links_n == links + 1, owner);
        if (sh->links_n <= links) {
            membership_add(&sh->membership, sh->link[sh->links_n]);
        }
    }
    /* No link says anything before we return. */
    sh->watches = watches_new(env, &sh->events, address, sub_link(sh), sh->link[0]);
    return sh;
}

void
shard_close(struct shard **shp)
{
    struct shard *sh = *shp;

    if (sh == NULL) {
        return;
    }
    shard_drop_gathered(sh);
    for (unsigned i = 0; i < LINKS_MAX + 2; i++) {
        link_close(&sh->link[i], shard_forget);
    }
    deferred_fini(&sh->down);
    names_free(&sh->names);
    membership_fini(&sh->membership);
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
    return sh->batched == 0 && sh->flying == 0 && deferred_idle(&sh->down) && !membership_busy(&sh->membership);
}

void
shard_status(const struct shard *sh, struct backend_status *out)
{
    *out = (struct backend_status){
        .up = sh->up, .links = sh->links_n, .queued = sh->batched, .watched = watches_count(sh->watches)};
    snprintf(out->address, sizeof(out->address), "%s", sh->address->shown);
    server_info_status(&sh->hello, out);
    out->offset_us = offset_guess(&sh->offset);
    out->rtt_us = link_rtt_us(sh->link[0]);
    out->epoch = sh->membership.epoch.number;
    out->grace = sh->membership.epoch.until_ms != 0;
    out->daemons = sh->membership.epoch.peers_n;
    for (unsigned i = 0; i < sh->links_n; i++) {
        out->links_up += link_up(sh->link[i]);
        out->in_flight += link_in_flight(sh->link[i]);
        if (out->last_error[0] == '\0') {
            snprintf(out->last_error, sizeof(out->last_error), "%s", link_last_error(sh->link[i]));
        }
        if (!link_up(sh->link[i]) && strstr(out->links_away, job_of(sh, i)) == NULL) {
            size_t at = strlen(out->links_away);

            snprintf(out->links_away + at, sizeof(out->links_away) - at, "%s%s", at > 0 ? "," : "", job_of(sh, i));
        }
    }
}
