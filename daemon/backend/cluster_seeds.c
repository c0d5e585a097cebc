/*
 * cluster_seeds.c -- requests the map: on a link that goes from node to node until one answers, and from masters.
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
#include "daemon/backend/names.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define MOVE_US (200 * US_PER_MS) /* the least time for a connection attempt before the link moves on */

struct cluster_seeds {
    struct cluster *cluster;
    struct cluster_seeds_events events;
    struct names *names;
    struct link_address *address;
    struct redis_link *link;
    unsigned next_node;   /* for the link: index in the URL's nodes and then the map's */
    unsigned next_master; /* index of the master to ask */
    int64_t moved_us;
    bool asking;
    bool useless;       /* the link has failed, or the last question on it got no useful answer */
    char error[160];
};

/*
 * Takes an answer. False: the answer is of no use. The host is that of the link's address: when the address changes,
 * answers to earlier questions are dropped.
 */
static bool
take(struct cluster_seeds *s, const char *host, enum link_result result, const struct reply *r)
{
    char text[TEXT_ERROR_ROOM];

    if (result == LINK_ANSWERED && r->type == REPLY_TEXT) {
        s->error[0] = '\0';
        return s->events.map(s->cluster, r->text, host);
    }
    if (result == LINK_ANSWERED && r->type == REPLY_ERROR) {
        snprintf(s->error, sizeof(s->error), "%.150s", text_error(text, r->text, s->address->user));
    }
    return false;
}

static void
on_map(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_seeds *s = arg;

    (void)sent_us;
    s->asking = false;
    if (!take(s, s->address->host, result, r)) {
        s->useless = true;
        cluster_wake(s->cluster, MOVE_US);
    }
}

static void
on_master_map(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_master *m = arg;

    (void)sent_us;
    m->asked = false;
    (void)take(m->cluster->seeds, m->address->host, result, r);
}

static void
on_info(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_seeds *s = arg;
    char version[32] = "";

    (void)sent_us;
    if (result == LINK_ANSWERED && r->type == REPLY_TEXT) {
        text_info_field(r->text, "redis_version", version, sizeof(version));
        s->events.version(s->cluster, version);
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
on_greet(void *ctx, struct redis_link *l)
{
    struct slice word[2] = {SLICE_LIT("INFO"), SLICE_LIT("server")};

    (void)link_send(l, 2, word, on_info, ctx);
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
        snprintf(s->error, sizeof(s->error), "%.80s: %.70s", s->address->shown, link_last_error(l));
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

    if (!m->asked) {
        m->asked = shard_ask(m->shard, 2, word, on_master_map, m);
    }
}

void
cluster_seeds_ask(struct cluster_seeds *s)
{
    struct list *pos, *nxt;
    unsigned i = 0, n = s->cluster->masters_n;

    if (s->useless) {
        move_on(s);
    } else {
        ask_map(s); /* a link that is on its way up asks by itself */
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

struct cluster_seeds *
cluster_seeds_open(struct cluster *c, struct cluster_seeds_events events)
{
    struct cluster_seeds *s = mem_zalloc(sizeof(*s));
    struct link_owner owner = {.greet = on_greet, .state = on_state, .ctx = s};

    s->cluster = c;
    s->events = events;
    s->names = names_new(c->env.base);
    s->address = address_unknown("node", c->template->user, c->template->password, 0, c->url.secure);
    s->address->tls = tls_share(c->template->tls);
    address_move(s->address, c->url.listed[0].host, c->url.listed[0].port);
    s->next_node = 1;
    s->link = link_open(s->address, &c->conf, &c->env, s->names, false, owner);
    return s;
}

static void
forget(link_reply_fn *fn, void *arg)
{
    (void)fn;
    (void)arg;
}

void
cluster_seeds_close(struct cluster_seeds **sp)
{
    struct cluster_seeds *s = *sp;

    if (s != NULL) {
        link_close(&s->link, forget);
        names_free(&s->names);
        address_free(s->address);
        free(s);
        *sp = NULL;
    }
}
