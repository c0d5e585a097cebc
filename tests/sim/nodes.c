/*
 * nodes.c -- the nodes of a simulated cluster: a node's knowledge of the others, when it learns of a change, and its
 * answers in place of its data.
 *
 * Nodes that reach a majority of the masters learn of a change within NODE_LEARNS_US. A master that reaches no majority
 * serves for the node timeout, and up to half of it more; one that stood still serves until it learns of the change. So
 * an old master serves beside the new one, but never for longer than cluster_world.old_us, as proto/PROTOCOL.md
 * assumes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "tests/sim/cluster.h"

enum { NODE_LEARNS_US = 1500 * 1000 };

struct node *
node_of(const struct server *s)
{
    return &s->world->cluster->node[s->index];
}

struct server *
cluster_owner(const struct world *w, uint16_t slot)
{
    return &w->cluster->server[w->cluster->map.owner[slot]];
}

bool
cluster_is_master(const struct server *s)
{
    return s->world->cluster->map.master[s->index] == s->index;
}

/* ---- CLUSTER NODES ---- */

static const char *
address(void *ctx, uint8_t node)
{
    struct server *s = ctx;
    struct cluster_world *c = s->world->cluster;
    const struct server *to = &s->world->server[node];

    snprintf(c->place, sizeof(c->place), "%s:%d", to->host, to->port);
    return c->place;
}

static void
put_slots(struct buf *out, const struct slot_map *m, uint8_t node)
{
    for (unsigned first = 0, last; first < SLOTS; first = last + 1) {
        last = first;
        if (m->owner[first] != node) {
            continue;
        }
        while (last + 1 < SLOTS && m->owner[last + 1] == node) {
            last++;
        }
        buf_printf(out, last > first ? " %u-%u" : " %u", first, last);
    }
}

static void
put_id(struct buf *out, uint8_t node)
{
    buf_printf(out, "%040x", node + 1u);
}

/* Without the flags of failed nodes, which no daemon uses. */
static void
put_nodes(struct buf *out, const struct server *s)
{
    struct world *w = s->world;
    const struct node *n = node_of(s);
    const struct slot_map *m = &n->map;

    for (uint8_t i = 0; i < CLUSTER_SERVERS; i++) {
        bool master = m->master[i] == i, self = i == s->index;

        put_id(out, i);
        buf_printf(out, " %s:%d@%d %s%s ", w->server[i].host, w->server[i].port, w->server[i].port + 10000,
                   self ? "myself," : "", master ? "master" : "slave");
        if (master) {
            buf_adds(out, "-");
        } else {
            put_id(out, m->master[i]);
        }
        buf_printf(out, " 0 0 %" PRIu64 " connected", m->epoch[i]);
        put_slots(out, m, i);
        if (self && (n->slots.gives != SIM_NO_SLOT || n->slots.gets != SIM_NO_SLOT)) {
            bool gives = n->slots.gives != SIM_NO_SLOT;

            buf_printf(out, gives ? " [%u->-" : " [%u-<-", gives ? n->slots.gives : n->slots.gets);
            put_id(out, n->slots.other);
            buf_adds(out, "]");
        }
        buf_adds(out, "\n");
    }
    buf_add(out, "", 1);
    if (out->failed) {
        abort();
    }
}

/* Made anew when something has changed. */
static const char *
nodes(void *ctx)
{
    struct server *s = ctx;
    struct node *n = node_of(s);
    uint64_t is[2] = {n->map.version,
                      (uint64_t)n->slots.gives << 32 | (uint64_t)n->slots.gets << 8 | n->slots.other};

    if (n->nodes_text.n == 0 || memcmp(is, n->answer_of, sizeof(is)) != 0) {
        buf_clear(&n->nodes_text, SIZE_MAX);
        put_nodes(&n->nodes_text, s);
        memcpy(n->answer_of, is, sizeof(is));
    }
    return n->nodes_text.p;
}

/* ---- a node learns of changes ---- */

/* A channel, or a key, whose slot another node has. */
static bool
is_gone(const struct server *s, struct slice channel)
{
    const struct node *n = node_of(s);

    return n->map.owner[slot_of(channel)] != n->slots.self;
}

struct stray {
    struct server *server;
    char key[16][96];
    size_t n[16];
    int keys;
};

static void
see_stray(void *ctx, struct slice key)
{
    struct stray *st = ctx;

    if (st->keys < 16 && key.n < 96 && is_gone(st->server, key)) {
        memcpy(st->key[st->keys], key.p, key.n);
        st->n[st->keys++] = key.n;
    }
}

/* Deletes the keys of slots that the master has lost. */
static void
delete_strays(struct server *s)
{
    struct stray st = {.server = s};

    do {
        st.keys = 0;
        sim_redis_keys(s->redis, server_clock(s), see_stray, &st);
        for (int i = 0; i < st.keys; i++) {
            sim_redis_delete(s->redis, (struct slice){st.key[i], st.n[i]});
        }
    } while (st.keys == 16);
}

/* Connections to it stay. */
static void
becomes_replica(struct server *s, struct server *master)
{
    trace(s->world, s->name, "follows %s", master->name);
    sim_redis_follow(s->redis, master->redis);
    memset(s->loaded, 0, sizeof(s->loaded));
    s->follows = master;
    s->writes = master->writes;
}

void
node_receives(struct server *s)
{
    struct world *w = s->world;
    struct node *n = node_of(s);
    struct server *master = &w->server[w->cluster->map.master[s->index]];
    bool loses = false;

    for (unsigned slot = 0; slot < SLOTS && !loses; slot++) {
        loses = n->map.owner[slot] == s->index && w->cluster->map.owner[slot] != s->index;
    }
    n->map = w->cluster->map;
    n->receive_us = n->replaced_us = 0;
    n->slots.gives = loses && n->slots.gives != SIM_NO_SLOT && n->map.owner[n->slots.gives] != s->index
                         ? SIM_NO_SLOT
                         : n->slots.gives;
    n->slots.gets = n->slots.gets != SIM_NO_SLOT && n->map.owner[n->slots.gets] == s->index ? SIM_NO_SLOT
                                                                                            : n->slots.gets;
    if (master != s && s->follows != master) {
        n->slots.gives = n->slots.gets = SIM_NO_SLOT;
        becomes_replica(s, master);
    } else if (master == s && loses) {
        delete_strays(s);
    }
    server_unsubscribes(s, is_gone);
}

static int
masters_reached(const struct server *s)
{
    int reached = 0;

    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        const struct server *m = &s->world->server[i];

        reached += node_of(s)->map.master[i] == i && (m == s || servers_reach(s, m));
    }
    return reached;
}

static void
node_ticks(struct server *s)
{
    struct world *w = s->world;
    struct node *n = node_of(s);
    bool together = server_is_up(s) && masters_reached(s) > CLUSTER_MASTERS / 2;

    if (!server_is_up(s)) {
        n->receive_us = 0;
        return;
    }
    if (together && n->slots.down && w->now_us >= n->settled_us) {
        n->slots.down = false;
    } else if (!together && n->alone_us == 0) {
        n->alone_us = w->now_us;
        n->down_after_us = w->cluster->timeout_us + below(w, w->cluster->timeout_us / 2);
    } else if (!together && w->now_us >= n->alone_us + n->down_after_us) {
        n->slots.down = true;
        n->settled_us = w->now_us + between(w, 100, 1000) * US_PER_MS;
    }
    n->alone_us = together ? 0 : n->alone_us;
    if (!together || n->map.version == w->cluster->map.version) {
        n->receive_us = 0;
    } else if (n->receive_us == 0) {
        n->receive_us = w->now_us + below(w, NODE_LEARNS_US);
    } else if (w->now_us >= n->receive_us) {
        node_receives(s);
    }
}

void
nodes_tick(struct world *w)
{
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        node_ticks(&w->server[i]);
    }
}

void
nodes_open(struct world *w)
{
    struct cluster_world *c = w->cluster;

    c->server = w->server;
    c->map.version = 1;
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        c->map.epoch[i] = (uint64_t)(i % CLUSTER_MASTERS) + 1;
        c->map.master[i] = (uint8_t)(i % CLUSTER_MASTERS);
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) { /* as redis-cli --cluster create assigns them */
        c->map.owner[slot] = slot <= 5460 ? 0 : slot <= 10922 ? 1 : 2;
    }
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        struct node *n = &c->node[i];

        n->map = c->map;
        buf_init(&n->nodes_text, 0);
        n->slots = (struct sim_slots){.owner = n->map.owner,
                                      .self = (uint8_t)i,
                                      .gives = SIM_NO_SLOT,
                                      .gets = SIM_NO_SLOT,
                                      .address = address,
                                      .nodes = nodes,
                                      .ctx = &w->server[i]};
        sim_redis_in_cluster(w->server[i].redis, &n->slots);
    }
}

/* ---- its answers ---- */

static void
note_redirect(struct world *w, const char *error)
{
    static const struct {
        const char *begin;
        enum fault fault;
    } sorts[] = {{"MOVED", FAULT_CLUSTER_MOVED}, {"ASK", FAULT_CLUSTER_ASK}, {"TRYAGAIN", FAULT_CLUSTER_TRYAGAIN},
                 {"CLUSTERDOWN", FAULT_CLUSTER_DOWN}};

    for (size_t i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++) {
        w->totals->faults[sorts[i].fault] += strncmp(error, sorts[i].begin, strlen(sorts[i].begin)) == 0;
    }
}

/* Counts the commands that an old master serves; after its time the master learns of the change. */
static void
note_old(struct server *s, bool script)
{
    struct world *w = s->world;
    struct node *n = node_of(s);

    if (n->replaced_us == 0) {
        return;
    }
    if (w->now_us > n->replaced_us + w->cluster->old_us) {
        node_receives(s);
    } else {
        w->totals->faults[FAULT_CLUSTER_OLD_SERVES] += script && !n->slots.down;
    }
}

int64_t
cluster_delay(const struct server *s)
{
    struct world *w = s->world;

    return w->options->control == CONTROL_OLD_NODE && node_of(s)->replaced_us != 0 ? between(w, 300, 950) * US_PER_MS
                                                                                   : 0;
}

/* The first answer of node.lua that shows the open slot. It may be lost: moves.c trusts it only REPORTED_US later. */
static void
note_informed(struct conn *c, int script)
{
    struct move *m = &c->world->cluster->move;
    const struct server *s = c->server;

    if (m->on && m->informed_us == 0 && scripts_is_node(script) && s == m->from && c->bev != NULL) {
        m->informed_us = c->world->now_us;
    }
}

/* For a trace: the arguments and the answer of a script of anchors, records or nodes. */
void
cluster_informs(const struct conn *c, int words, const struct slice *word, const struct reply *r)
{
    struct buf out;

    if (!c->world->traced || c->world->cluster == NULL) {
        return;
    }
    buf_init(&out, 0);
    for (int i = 3; i < words && i < 30; i++) {
        buf_adds(&out, i > 3 ? "|" : "");
        buf_add(&out, word[i].p, word[i].n < 48 ? word[i].n : 48);
    }
    buf_adds(&out, " ->");
    for (size_t i = 1; r->type == REPLY_ARRAY && i < r->count; i++) {
        const struct reply *one = r->item[i];

        if (one->type == REPLY_INT) {
            buf_printf(&out, " %" PRId64, one->n);
        } else {
            buf_printf(&out, " '%.*s'", (int)(one->text.n < 60 ? one->text.n : 60), one->text.p);
        }
    }
    trace(c->world, c->server->name, "conn %d: %.*s", (int)c->id, (int)out.n, out.p);
    buf_fini(&out);
}

/* CONFIG GET cluster-node-timeout */
static void
send_timeout(struct conn *c)
{
    char ms[24], line[96];

    snprintf(ms, sizeof(ms), "%" PRId64, c->world->cluster->timeout_us / US_PER_MS);
    snprintf(line, sizeof(line), "*2\r\n$20\r\ncluster-node-timeout\r\n$%zu\r\n%s\r\n", strlen(ms), ms);
    conn_reply(c, line, strlen(line), false);
}

static bool
subscribes(struct conn *c, int words, const struct slice *word)
{
    bool on = slice_is(word[0], "SSUBSCRIBE");

    if (words != 2 || (!on && !slice_is(word[0], "SUNSUBSCRIBE"))) {
        return false;
    }
    server_subscribes(c, word[1], true, on);
    return true;
}

bool
cluster_answers(struct conn *c, int words, struct slice *word)
{
    struct world *w = c->world;
    struct server *s = c->server;
    bool asking = c->asking, sha = slice_is(word[0], "EVALSHA"), eval = slice_is(word[0], "EVAL");
    const char *error;
    char line[128];

    note_old(s, sha || eval);
    c->asking = slice_is(word[0], "ASKING");
    if (c->asking) {
        conn_reply(c, "+OK\r\n", 5, false);
        return true;
    }
    if (slice_is(word[0], "CONFIG")) {
        send_timeout(c);
        return true;
    }
    error = sim_redis_redirects(s->redis, server_clock(s), asking, words, word);
    if (error != NULL) {
        trace(w, s->name, "conn %d: %s", (int)c->id, error);
        note_redirect(w, error);
        snprintf(line, sizeof(line), "-%s\r\n", error);
        conn_reply(c, line, strlen(line), false);
        return true;
    }
    if (asking && (sha || eval)) {
        w->totals->faults[FAULT_CLUSTER_ASKED]++;
    }
    if (sha || eval) {
        note_informed(c, sha ? scripts_by_sha(word[1]) : scripts_find(word[1]));
    }
    return subscribes(c, words, word);
}

bool
cluster_has_open(struct world *w, const struct name *n)
{
    const struct move *m = &w->cluster->move;
    char permits[64];

    if (!m->on || m->slot != slot_of(slice_of(n->text))) {
        return false;
    }
    snprintf(permits, sizeof(permits), "{%s}:timeout", n->text);
    return server_has(m->to, n->text) || server_has(m->to, permits) || server_has(m->from, n->text);
}
