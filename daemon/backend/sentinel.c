/*
 * sentinel.c -- the topology of a master that sentinels name: one shard, which moves to the named master.
 *
 * S1  The shard moves to the master that a majority of the sentinels names, with all links (shard_retarget()), and
 *     stays until a majority names another. A sentinel's message (+switch-master) only makes rlockd ask.
 * S2  The greeting of a server that does not report the role of a master fails (replication_greet()).
 * S3  After a switch the master has another replication id: its first greeting begins a new epoch (membership.lua).
 * S4  An attempt needs, when it leaves, a majority within SENTINEL_FRESH_US: with an old master and a minority nothing
 *     is granted. Renewals go on. The settings of an old master bound its grants (replication.h); if they do not, the
 *     log warns, and with `strict` nothing is granted.
 */
#include "daemon/backend/backend_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/replication.h"
#include "daemon/backend/sentinels.h"
#include "daemon/backend/single.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define NOT_YET "no sentinel has answered yet"

struct sentinel_topology {
    struct single one; /* first: self() relies on it */
    struct sentinel_url url;
    struct link_address *address; /* the shard's */
    struct replication replication;
    struct sentinels *sentinels; /* owned */
    int64_t startup_until_us;    /* before that the first answers are awaited: no warning yet */
    bool agreed;                 /* the last verdict named a master ... */
    bool logged;                 /* ... and so did the last one in the log; false at first */
    char refusal[TEXT_ERROR_ROOM]; /* why nothing is granted; "" = locks are granted */
};

static struct sentinel_topology *
self(struct backend *b)
{
    return (struct sentinel_topology *)(void *)b;
}

static const struct sentinel_topology *
const_self(const struct backend *b)
{
    return (const struct sentinel_topology *)(const void *)b;
}

/* ---- where the master is ---- */

static void
move(struct sentinel_topology *t, const struct sentinel_answer *to)
{
    char from[160];

    snprintf(from, sizeof(from), "%s", t->address->host != NULL ? t->address->shown : "");
    replication_forget(&t->replication);
    if (t->address->host != NULL) {
        sentinels_switched(t->sentinels, t->address->host, t->address->port);
    }
    shard_retarget(t->one.shard, to->host, to->port);
    log_event(t->one.env.log, from[0] != '\0' ? LOG_WARN : LOG_INFO, "redis", "master", "name", LOG_S(t->url.master),
              "address", LOG_S(t->address->shown), from[0] != '\0' ? "before" : NULL, LOG_S(from), NULL);
}

/* Why no majority names a master. */
static void
explain(const struct sentinel_topology *t, const struct sentinel_verdict *v, char out[TEXT_ERROR_ROOM])
{
    const char *error = sentinels_last_error(t->sentinels);

    if (v->answering_n == 0) {
        snprintf(out, TEXT_ERROR_ROOM, "no sentinel reports where %.64s is%s%.220s", t->url.master,
                 error[0] == '\0' ? "" : ": ", error);
    } else if (v->answering_n <= v->known_n / 2) {
        snprintf(out, TEXT_ERROR_ROOM, "%u of %u sentinels answer: no majority", v->answering_n, v->known_n);
    } else {
        snprintf(out, TEXT_ERROR_ROOM, "the sentinels do not agree where %.64s is", t->url.master);
    }
}

static void
log_agreement(struct sentinel_topology *t, const struct sentinel_verdict *v)
{
    if (t->agreed == t->logged) {
        return;
    }
    t->logged = t->agreed;
    log_event(t->one.env.log, t->agreed ? LOG_INFO : LOG_WARN, "redis",
              t->agreed ? "sentinels agree" : "sentinels do not agree", "master", LOG_S(t->url.master), "answering",
              LOG_N(v->answering_n), "of", LOG_N(v->known_n), t->agreed ? NULL : "reason", LOG_S(t->refusal), NULL);
}

/* Called when a sentinel has answered where the master is, and every second. */
static void
decide(void *ctx)
{
    struct sentinel_topology *t = ctx;
    struct sentinel_verdict v;
    bool bounded;

    sentinels_verdict(t->sentinels, &v);
    if (v.master == NULL && t->agreed && sentinels_awaited(t->sentinels)) {
        return; /* what is granted until the time of shard_grant_until() relies on the last majority (S4) */
    }
    if (v.master != NULL && !address_names(t->address, v.master->host, v.master->port)) {
        move(t, v.master);
    }
    replication_tick(&t->replication, t->one.shard);
    bounded = replication_bounded(&t->replication, sentinels_down_after_ms(t->sentinels));
    t->agreed = v.master != NULL;
    t->refusal[0] = '\0';
    if (!t->agreed) {
        explain(t, &v, t->refusal);
    } else if (t->one.conf.strict && !bounded) {
        snprintf(t->refusal, sizeof(t->refusal), "strict: %s", t->replication.why_unbounded);
    }
    if (t->address->host != NULL || clock_now_us() >= t->startup_until_us) {
        snprintf(t->address->why_unknown, sizeof(t->address->why_unknown), "%s", t->refusal);
    }
    shard_grant_until(t->one.shard, t->refusal[0] == '\0' ? v.until_us : 0);
    log_agreement(t, &v);
}

/* ---- events of the shard ---- */

static void
on_life(void *ctx, enum shard_life what, uint64_t n)
{
    struct sentinel_topology *t = ctx;

    single_life(ctx, what, n);
    if (what == SHARD_DOWN) {
        sentinels_ask(t->sentinels);
    }
}

static void
on_greet(void *ctx, struct redis_link *l)
{
    replication_greet(&((struct sentinel_topology *)ctx)->replication, l);
}

/* ---- the verbs ---- */

static struct backend *
sentinel_topology_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    struct sentinel_topology *t = mem_zalloc(sizeof(*t));
    char shown[160];

    if (!sentinel_url_parse(conf->url, &t->url, error)) {
        free(t);
        return NULL;
    }
    snprintf(shown, sizeof(shown), "%.*s", (int)strcspn(conf->url, "?"), conf->url);
    t->address = address_unknown(shown, conf->user, conf->password, t->url.db, t->url.secure);
    if (!single_secure(t->address, &conf->tls, env->log, error)) {
        address_free(t->address);
        free(t);
        return NULL;
    }
    snprintf(t->address->why_unknown, sizeof(t->address->why_unknown), NOT_YET);
    t->startup_until_us = clock_now_us() + conf->connect_us;
    replication_init(&t->replication, &t->one.env, t->address);
    single_open(&t->one, &sentinel_ops, conf, env, t->address,
                (struct shard_events){.life = on_life, .greet = on_greet});
    shard_grant_until(t->one.shard, 0);
    shard_expect_error(t->one.shard, NOT_YET);
    t->sentinels = sentinels_open(&t->url, conf, &t->one.env, t->address, decide, t);
    return &t->one.head;
}

static void
sentinel_flush(struct backend *b)
{
    struct sentinel_topology *t = self(b);

    single_flush(b);
    if (shard_waits(t->one.shard)) { /* the answers are too old: the process or the sentinels stood still */
        sentinels_ask(t->sentinels);
    }
}

static bool
sentinel_login(struct backend *b, const struct backend_conf *conf, char error[160])
{
    struct sentinel_topology *t = self(b);

    if (!single_secure(t->address, &conf->tls, t->one.env.log, error)) {
        return false;
    }
    address_login(t->address, conf->user, conf->password);
    sentinels_login(t->sentinels, conf->sentinel_user, conf->sentinel_password);
    return true;
}

static void
sentinel_status(const struct backend *b, struct backend_status *out)
{
    const struct sentinel_topology *t = const_self(b);

    single_status(b, out);
    if (t->refusal[0] != '\0') {
        snprintf(out->refusal, sizeof(out->refusal), "%s", t->refusal);
    }
}

static size_t
sentinel_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX])
{
    const struct sentinel_topology *t = const_self(b);

    (void)single_nodes(b, out);
    if (t->address->host == NULL) {
        out[0].address[0] = '\0';
    }
    return 1 + sentinels_nodes(t->sentinels, out + 1, BACKEND_NODES_MAX - 1);
}

static void
sentinel_topology_close(struct backend *b)
{
    struct sentinel_topology *t = self(b);

    sentinels_close(&t->sentinels);
    single_close(&t->one);
    free(t);
}

const struct backend_ops sentinel_ops = {
    .schemes = "sentinel: sentinel+tls:",
    .open = sentinel_topology_open,
    SINGLE_VERBS,
    .login = sentinel_login,
    .flush = sentinel_flush,
    .status = sentinel_status,
    .nodes = sentinel_nodes,
    .close = sentinel_topology_close,
};
