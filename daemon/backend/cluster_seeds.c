/*
 * cluster_seeds.c -- requests the map: by a link that goes from node to node until one answers, and from masters.
 *
 * Each request asks another master, so that no answer of a node that is cut off stays the only one. Config epochs show
 * that such an answer is outdated (cluster_map.h).
 */
#include "daemon/backend/cluster_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/cluster_private.h"
#include "daemon/backend/resolver.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define INFO_REFUSED "INFO is refused: allow it (+info)"
#define VERSION_US (10 * US_PER_S) /* between questions for the version while it is not known */
#define MOVE_US (200 * US_PER_MS) /* the least time for a connection attempt before the link moves on */
#define MINUTE_US (60 * US_PER_S)
#define LINES_A_MINUTE 4 /* of the log, for one sort of reasons */

/* Reasons of one sort in the log. They may alternate: two seeds, or two addresses of one name, have one each. */
struct reasons {
    char logged[TEXT_ERROR_ROOM]; /* the last one in the log; "" = none since an answer was a map */
    int64_t minute_ends_us;
    unsigned lines;               /* of that minute */
};

struct cluster_seeds {
    struct cluster *cluster;
    struct cluster_seeds_events events;
    struct resolver *resolver;
    struct link_address *address;
    struct redis_link *link;
    unsigned next_node;   /* for the link: index in the URL's nodes and then the map's */
    unsigned next_master; /* index of the master to ask */
    int64_t moved_us, version_us; /* when the link moved on last, and when the version was asked for */
    bool asking;
    bool useless;       /* the link has failed, or the last question on it got no useful answer */
    char error[TEXT_ERROR_ROOM];
    struct reasons unreachable[CLUSTER_LISTED_MAX]; /* of the nodes of the URL */
    struct reasons refused;
    char map_error[160]; /* why the last answer is no map; "" = it is one */
    bool has_version; /* a node has reported the version; no later one has refused to */
    char info_error[160]; /* the latest refusal, until a node reports the version; "" = none */
};

/* Whether the log is to get the reason: it differs from the last one there, and this minute has few lines. */
static bool
is_news(struct reasons *r, const char *reason)
{
    int64_t now_us = clock_now_us();

    if (now_us >= r->minute_ends_us) {
        r->minute_ends_us = now_us + MINUTE_US;
        r->lines = 0;
    }
    if (strcmp(r->logged, reason) == 0 || r->lines >= LINES_A_MINUTE) {
        return false;
    }
    snprintf(r->logged, sizeof(r->logged), "%s", reason);
    r->lines++;
    return true;
}

/* A node gives no map. Until one is known, new reasons of a listed node are logged; later the shards log theirs. */
static void
note_error(struct cluster_seeds *s, const struct link_address *a, const char *reason)
{
    const struct cluster *c = s->cluster;

    snprintf(s->error, sizeof(s->error), "%s: %s", a->shown, reason);
    for (unsigned i = 0; !c->known && i < c->url.listed_n; i++) {
        if (address_names(a, c->url.listed[i].host, c->url.listed[i].port) && is_news(&s->unreachable[i], reason)) {
            log_event(c->env.log, LOG_WARN, "redis", "unreachable", "address", LOG_S(a->shown), "reason",
                      LOG_S(reason), NULL);
        }
    }
}

/*
 * Takes an answer. False: the answer is of no use. `a`: the address of the link that has brought it, and so of the
 * node: when the link moves to another node, answers of the former one are dropped.
 */
static bool
take(struct cluster_seeds *s, const struct link_address *a, enum link_result result, const struct reply *r)
{
    char text[TEXT_ERROR_ROOM];

    if (result == LINK_ANSWERED && r->type == REPLY_TEXT) {
        s->error[0] = '\0';
        if (!s->events.map(s->cluster, r->text, a->host)) {
            return false;
        }
        s->map_error[0] = s->refused.logged[0] = '\0';
        return true;
    }
    if (result == LINK_ANSWERED && r->type == REPLY_ERROR) {
        note_error(s, a, text_error(text, r->text, a));
    }
    return false;
}

static void
on_map(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_seeds *s = arg;

    (void)sent_us;
    s->asking = false;
    if (result != LINK_ANSWERED && strcmp(link_last_error(s->link), LINK_MOVED) == 0) {
        return; /* the question was for the former node: the present one has not been asked yet */
    }
    s->useless = !take(s, s->address, result, r);
    if (s->useless) {
        cluster_wake(s->cluster, MOVE_US);
    }
}

static void
on_master_map(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_master *m = arg;

    (void)sent_us;
    m->map_asked = false;
    (void)take(m->cluster->seeds, m->address, result, r);
}

static void
version_unknown(struct cluster_seeds *s, struct slice error)
{
    char text[TEXT_ERROR_ROOM];

    if (s->info_error[0] == '\0') {
        log_event(s->cluster->env.log, LOG_WARN, "redis", "the cluster is taken for Redis 6", "address",
                  LOG_S(s->address->shown), "reason", LOG_S(INFO_REFUSED), "error",
                  LOG_S(text_error(text, error, s->address)), NULL);
    }
    s->has_version = false;
    snprintf(s->info_error, sizeof(s->info_error), "%.80s: " INFO_REFUSED, s->address->shown);
}

/* Once the cluster is known, only a version that was not known is taken. */
static void
on_info(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_seeds *s = arg;
    char version[32] = "";

    (void)sent_us;
    if (s->cluster->known && s->has_version) {
        return;
    }
    if (result == LINK_ANSWERED && r->type == REPLY_TEXT) {
        text_info_field(r->text, "redis_version", version, sizeof(version));
        if (s->info_error[0] != '\0') {
            log_event(s->cluster->env.log, LOG_INFO, "redis", "the version of the cluster is known", "address",
                      LOG_S(s->address->shown), "version", LOG_S(version), NULL);
        }
        s->has_version = true;
        s->info_error[0] = '\0';
        s->events.version(s->cluster, version);
    } else if (result == LINK_ANSWERED && r->type == REPLY_ERROR && !text_error_is_transient(r->text)) {
        version_unknown(s, r->text);
    }
}

static void
ask_map(struct cluster_seeds *s)
{
    struct slice word[2] = {SLICE_LIT("CLUSTER"), SLICE_LIT("NODES")};

    if (!s->asking) {
        s->asking = link_send(s->link, 2, word, on_map, s);
    }
}

static void
ask_version(struct cluster_seeds *s, struct redis_link *l)
{
    struct slice word[2] = {SLICE_LIT("INFO"), SLICE_LIT("server")};

    s->version_us = clock_now_us();
    (void)link_send(l, 2, word, on_info, s);
}

static void
on_greet(void *ctx, struct redis_link *l)
{
    ask_version(ctx, l);
    ask_map(ctx);
}

static void
on_state(void *ctx, struct redis_link *l, bool up)
{
    struct cluster_seeds *s = ctx;

    if (!up) {
        s->asking = false;
    }
    if (!up && strcmp(link_last_error(l), LINK_MOVED) != 0) {
        s->useless = true;
        note_error(s, s->address, link_last_error(l));
        cluster_wake(s->cluster, MOVE_US);
    }
}

/* Moves the link to the next node of the URL and the map. */
static void
move_on(struct cluster_seeds *s)
{
    const struct cluster *c = s->cluster;
    unsigned listed = c->url.listed_n, all = listed + (unsigned)c->map.nodes_n, i;
    int64_t now_us = clock_now_us();

    if (now_us < s->moved_us + MOVE_US) {
        return;
    }
    i = s->next_node++ % all;
    s->moved_us = now_us;
    s->useless = false;
    if (i < listed) {
        address_move(s->address, c->url.listed[i].host, c->url.listed[i].port);
    } else if (c->map.node[i - listed].port != 0) {
        address_move(s->address, c->map.node[i - listed].host, c->map.node[i - listed].port);
    }
    link_retarget(s->link);
}

static void
ask_master(struct cluster_master *m)
{
    struct slice word[2] = {SLICE_LIT("CLUSTER"), SLICE_LIT("NODES")};

    if (!m->map_asked) {
        m->map_asked = shard_ask(m->shard, 2, word, on_master_map, m);
    }
}

void
cluster_seeds_ask(struct cluster_seeds *s)
{
    struct list *pos, *nxt;
    unsigned i = 0, n = s->cluster->masters_n;

    if (s->useless) {
        move_on(s);
    } else if (link_up(s->link)) { /* a link that is greeting asks by itself, and for the version first */
        ask_map(s);
        if (!s->has_version && clock_now_us() >= s->version_us + VERSION_US) {
            ask_version(s, s->link);
        }
    }
    s->next_master++;
    list_for_each_safe(pos, nxt, &s->cluster->masters)
    {
        if (i++ == s->next_master % n) {
            ask_master(container_of(pos, struct cluster_master, node));
        }
    }
}

void
cluster_seeds_login(struct cluster_seeds *s, const struct backend_conf *conf)
{
    address_login(s->address, conf->user, conf->password);
    tls_close(&s->address->tls);
    s->address->tls = tls_share(s->cluster->template->tls);
}

const char *
cluster_seeds_error(const struct cluster_seeds *s)
{
    return s->error;
}

void
cluster_seeds_refuse(struct cluster_seeds *s, const char *host, const char *error)
{
    snprintf(s->map_error, sizeof(s->map_error), "%s", error);
    if (is_news(&s->refused, error)) {
        log_event(s->cluster->env.log, LOG_WARN, "redis", "no map of the cluster", "asked", LOG_S(host), "reason",
                  LOG_S(error), NULL);
    }
}

const char *
cluster_seeds_map_error(const struct cluster_seeds *s)
{
    return s->map_error;
}

const char *
cluster_seeds_info_error(const struct cluster_seeds *s)
{
    return s->info_error;
}

struct cluster_seeds *
cluster_seeds_open(struct cluster *c, struct cluster_seeds_events events)
{
    struct cluster_seeds *s = mem_zalloc(sizeof(*s));
    struct link_callbacks callbacks = {.greet = on_greet, .state = on_state, .ctx = s};

    s->cluster = c;
    s->events = events;
    s->resolver = resolver_new(c->env.base);
    s->address = address_unknown("node", c->template->user, c->template->password, 0, c->url.secure);
    s->address->tls = tls_share(c->template->tls);
    address_move(s->address, c->url.listed[0].host, c->url.listed[0].port);
    s->next_node = 1;
    s->link = link_open(s->address, &c->conf, &c->env, s->resolver, false, callbacks);
    return s;
}

void
cluster_seeds_close(struct cluster_seeds **sp)
{
    struct cluster_seeds *s = *sp;

    if (s != NULL) {
        link_close(&s->link, NULL);
        resolver_free(&s->resolver);
        address_free(s->address);
        free(s);
        *sp = NULL;
    }
}
