/*
 * server.c -- the servers of a world: their clocks, subscriptions, and deaths. Their commands are in calls.c, the data
 * and the scripts in redis.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/slot.h"
#include "tests/sim/cluster.h"
#include "tests/sim/sim.h"

int64_t
server_clock(const struct server *s)
{
    return s->wall_us + s->world->now_us + s->world->now_us * s->ppm / 1000000;
}

const struct reply *
server_command(struct server *s, int words, const struct slice *word)
{
    return sim_redis_command(s->redis, server_clock(s), words, word);
}

struct server *
server_of(const struct world *w, const struct name *n)
{
    return w->shape == SHAPE_CLUSTER ? cluster_owner(w, slot_of(slice_of(n->text))) : w->master;
}

bool
server_is_up(const struct server *s)
{
    int64_t now_us = s->world->now_us;

    return now_us >= s->down_until_us && now_us >= s->paused_until_us;
}

bool
servers_reach(const struct server *a, const struct server *b)
{
    bool parted = a->world->now_us < a->world->parted_until_us && a->apart != b->apart;

    bool alone = a->world->now_us < a->alone_until_us || a->world->now_us < b->alone_until_us;

    return server_is_up(a) && server_is_up(b) && !parted && !alone;
}

/* ---- subscriptions ---- */

static struct channel *
channel_find(const struct conn *c, struct slice name, bool sharded)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->channels)
    {
        struct channel *ch = container_of(pos, struct channel, node);

        if (ch->sharded == sharded && ch->n == name.n && memcmp(ch->name, name.p, name.n) == 0) {
            return ch;
        }
    }
    return NULL;
}

static void
send_subscription(struct conn *c, const char *what, struct slice name, bool pushed)
{
    struct buf out;

    buf_init(&out, 0);
    buf_printf(&out, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(what), what, name.n);
    buf_add_slice(&out, name);
    buf_printf(&out, "\r\n:%zu\r\n", c->channels_n);
    conn_reply(c, out.p, out.n, pushed);
    buf_fini(&out);
}

void
server_subscribes(struct conn *c, struct slice name, bool sharded, bool on)
{
    struct channel *ch = channel_find(c, name, sharded);
    static const char *const what[2][2] = {{"unsubscribe", "subscribe"}, {"sunsubscribe", "ssubscribe"}};

    if (on && ch == NULL) {
        ch = malloc(sizeof(*ch) + name.n);
        if (ch == NULL) {
            abort();
        }
        ch->sharded = sharded;
        ch->n = name.n;
        memcpy(ch->name, name.p, name.n);
        list_init(&ch->node);
        list_push_back(&c->channels, &ch->node);
        c->channels_n++;
    } else if (!on && ch != NULL) {
        list_remove(&ch->node);
        free(ch);
        c->channels_n--;
    }
    send_subscription(c, what[sharded][on], name, false);
}

/* A subscriber to channels of slots that another node has now is unsubscribed from each. */
void
server_unsubscribes(struct server *s, bool (*is_gone)(const struct server *s, struct slice channel))
{
    struct list *pos, *nxt, *at, *next;

    list_for_each_safe(pos, nxt, &s->conns)
    {
        struct conn *c = container_of(pos, struct conn, node);

        list_for_each_safe(at, next, &c->channels)
        {
            struct channel *ch = container_of(at, struct channel, node);
            struct slice name = {ch->name, ch->n};

            if (ch->sharded && is_gone(s, name)) {
                list_remove(&ch->node);
                c->channels_n--;
                send_subscription(c, "sunsubscribe", name, true);
                sight(s->world, SIGHT_UNSUBSCRIBED);
                free(ch);
            }
        }
    }
}

void
server_hangs_up(struct conn *c)
{
    while (!list_empty(&c->channels)) {
        struct channel *ch = container_of(c->channels.next, struct channel, node);

        list_remove(&ch->node);
        free(ch);
    }
    c->channels_n = 0;
    c->open = false;
}

/* Counts the subscribers, as Redis does, whether the message arrives or not. Without a message it only counts. */
static int
published(void *ctx, struct slice channel, struct slice message, bool sharded)
{
    struct server *s = ctx;
    struct world *w = s->world;
    struct list *pos, *nxt;
    struct buf out;
    int received = 0;

    buf_init(&out, 0);
    list_for_each_safe(pos, nxt, &s->conns)
    {
        struct conn *c = container_of(pos, struct conn, node);

        if (c->channels_n == 0 || channel_find(c, channel, sharded) == NULL) {
            continue;
        }
        received++;
        if (message.p == NULL) {
            continue;
        }
        if (fault(w, FAULT_PUBSUB_DROP) || w->options->control == CONTROL_NO_POLL) {
            w->harm_us = w->now_us + w->habit.poll_us; /* the waiters ask then, without the message; L5: seed 10087 */
            continue;
        }
        if (out.n == 0) {
            buf_adds(&out, sharded ? "*3\r\n$8\r\nsmessage\r\n" : "*3\r\n$7\r\nmessage\r\n");
            buf_printf(&out, "$%zu\r\n", channel.n);
            buf_add_slice(&out, channel);
            buf_printf(&out, "\r\n$%zu\r\n", message.n);
            buf_add_slice(&out, message);
            buf_adds(&out, "\r\n");
        }
        conn_reply(c, out.p, out.n, true);
    }
    buf_fini(&out);
    if (message.p != NULL && w->habit.monitors > 0) {
        sight(w, SIGHT_MONITORED);
        received += w->habit.monitors;
    }
    return received;
}

/* ---- life and death ---- */

/* Delays answers under way of one connection of each daemon, so that the other connections bring the news first. */
void
server_late(struct server *s, int64_t for_us)
{
    struct world *w = s->world;
    struct list *pos, *nxt;

    for (int d = 0; d < w->daemons_n; d++) {
        w->daemon[d].answers_late = false;
    }
    list_for_each_safe(pos, nxt, &s->conns)
    {
        struct conn *c = container_of(pos, struct conn, node);

        if (c->bev != NULL && c->channels_n == 0 && !list_empty(&c->back) && !c->daemon->answers_late) {
            c->daemon->answers_late = true;
            conn_late(c, for_us);
        }
    }
}

void
server_id(const struct server *s, char out[41], uint64_t life, unsigned what)
{
    snprintf(out, 41, "%016" PRIx64 "%016" PRIx64 "%08x", s->world->seed, life, what | (unsigned)s->index << 8);
}

/* All connections end. */
static void
begin_life(struct server *s, uint64_t life, struct sim_redis *data, bool promote)
{
    struct world *w = s->world;
    struct list *pos, *nxt;
    char run_id[41], replid[41];

    turns_harm(w, NULL, promote ? SIGHT_FAILOVER_IN_RUN : SIGHT_RESTART_IN_RUN);
    server_id(s, run_id, life, 1);
    server_id(s, replid, life, 2);
    sim_redis_restart(s->redis, data, run_id, replid);
    if (promote) {
        server_id(s, replid, life, 3);
        sim_redis_promote(s->redis, replid);
    }
    if (s->follows != NULL) { /* it begins with the data of its master */
        sim_redis_follow(s->redis, s->follows->redis);
    }
    s->promoted = promote;
    memset(s->loaded, 0, sizeof(s->loaded));
    s->down_until_us = w->now_us + between(w, 1, 2000) * US_PER_MS;
    last_failure(w, s->down_until_us - w->now_us);
    masters_lost(w);
    cluster_restarts(s);
    list_for_each_safe(pos, nxt, &s->conns)
    {
        conn_cut(container_of(pos, struct conn, node), !promote || chance(w, 50000));
    }
}

void
server_ends_conns(struct server *s)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &s->conns)
    {
        conn_cut(container_of(pos, struct conn, node), true);
    }
}

/* data NULL: empty. A promoted replica is a process that has run before; the former master may come back. */
void
server_restart(struct server *s, struct sim_redis *data, bool promote)
{
    if (promote && s->world->rate[FAULT_FAILBACK] > 0) {
        if (s->former != NULL) {
            sim_redis_free(&s->former);
        }
        s->former = sim_redis_copy(s->redis);
        s->former_life = s->life;
        s->former_promoted = s->promoted;
    }
    begin_life(s, ++s->life, data, promote);
}

/* The first replica has joined: a new line of replication, in the same process; no connection ends. */
void
server_new_line(struct server *s)
{
    char replid[41];

    server_id(s, replid, s->life, 4);
    sim_redis_promote(s->redis, replid);
}

void
server_back(struct server *s)
{
    begin_life(s, s->former_life, s->former, s->former_promoted);
    sim_redis_free(&s->former);
}

void
server_open(struct server *s, struct world *w, int index)
{
    char run_id[41], replid[41];

    s->world = w;
    s->index = index;
    snprintf(s->host, sizeof(s->host), "10.0.0.%d", index + 1);
    s->port = 6379;
    s->sync = (struct happening){.type = HAPPENS_SYNC};
    snprintf(s->name, sizeof(s->name), "redis-%d", index);
    list_init(&s->conns);
    s->life = 1;
    server_id(s, run_id, s->life, 1);
    server_id(s, replid, s->life, 2);
    s->wall_us = INT64_C(1700000000) * US_PER_S;
    s->redis = sim_redis_new(run_id, replid);
    sim_redis_on_publish(s->redis, published, s);
    sim_redis_started(s->redis, s->wall_us - 3600 * US_PER_S);
}

void
servers_open(struct world *w)
{
    w->master = &w->server[0];
    w->servers_n = w->nodes_n = w->shape == SHAPE_CLUSTER ? CLUSTER_SERVERS
                                 : w->masters > 0            ? w->masters
                                                             : 1 + w->sentinels.replicas;
    for (int i = 0; i < w->servers_n; i++) {
        server_open(&w->server[i], w, i);
    }
    if (w->shape == SHAPE_SENTINEL) {
        watched_open(w);
    } else if (w->shape == SHAPE_QUORUM) {
        masters_open(w);
    } else if (w->shape == SHAPE_CLUSTER) {
        cluster_open(w);
    }
}

/* Two of the sentinels are enough: the daemon discovers the third. */
const char *
server_url(const struct world *w, char out[160])
{
    const struct server *s = &w->server[w->servers_n];

    if (w->shape == SHAPE_SENTINEL) {
        snprintf(out, 160, "sentinel:%s:%d,%s:%d/simulated", s[0].host, s[0].port, s[1].host, s[1].port);
    } else if (w->shape == SHAPE_QUORUM) {
        size_t n = (size_t)snprintf(out, 160, "quorum");

        for (int i = 0; i < w->servers_n; i++) {
            n += (size_t)snprintf(out + n, 160 - n, "%credis://%s", i == 0 ? ':' : ',', w->server[i].host);
        }
    } else if (w->shape == SHAPE_CLUSTER) {
        snprintf(out, 160, "cluster:%s:%d,%s:%d", w->server[0].host, w->server[0].port, w->server[4].host,
                 w->server[4].port);
    } else {
        snprintf(out, 160, "unix:/simulated");
    }
    return out;
}

static void
server_close(struct server *s)
{
    if (s->old != NULL) {
        sim_redis_free(&s->old);
    }
    if (s->former != NULL) {
        sim_redis_free(&s->former);
    }
    sim_redis_free(&s->redis);
}

void
servers_close(struct world *w)
{
    for (int i = 0; i < w->nodes_n; i++) {
        unschedule(w, &w->server[i].sync);
        server_close(&w->server[i]);
    }
    if (w->loss_old != NULL) {
        sim_redis_free(&w->loss_old);
    }
    cluster_close(w);
}

bool
server_has(struct server *s, const char *key)
{
    struct slice word[2] = {SLICE_LIT("EXISTS"), slice_of(key)};
    const struct reply *r = server_command(s, 2, word);

    return r->type == REPLY_INT && r->n == 1;
}
