/*
 * cluster.c -- the shape of a Redis Cluster: masters are replaced without their last writes and serve on for a while,
 * nodes lose their data, slots move key by key, are opened, and closed where they were; anchors are among these nodes.
 *
 * Nothing of S1 and S2 is excused for that. The cases that rlockd does not cover (proto/PROTOCOL.md) do not happen
 * here: masters are replaced one at a time, each after the former one knows that; an old master serves for half a lease
 * at most; a slot that lost keys while it was open, and closes where it was, stays open until a daemon has learned that
 * it is.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/anchor_words.h"
#include "tests/sim/cluster.h"

#define REGISTERED_US (6 * US_PER_S) /* a registered lease is longer by the age that a registration may have */

/* ---- the beginning of a world ---- */

/* Draws half of the rows of this shape, and none of the faults that only single servers have. */
static void
draw_rates(struct world *w)
{
    static const enum fault none[] = {FAULT_FAILOVER_CLEAN, FAULT_FAILOVER_LOSSY, FAULT_FAILBACK,
                                      FAULT_NEWCOMER,       FAULT_NO_LINKS,       FAULT_SHORTFALL,
                                      FAULT_LOST_TO_OTHER};

    for (int f = 0; f < FAULTS; f++) {
        const struct fault_row *row = &fault_rows[f];

        if (row->shape == SHAPE_CLUSTER && row->rate > 0) {
            w->rate[f] = chance(w, 50000) ? (uint32_t)between(w, 1, row->rate) : 0;
        }
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        w->rate[none[i]] = 0;
    }
}

/* Draws faults that make the control visible. */
static void
draw_control(struct world *w)
{
    if (w->options->control == CONTROL_NO_REGISTRATION) {
        w->rate[FAULT_CLUSTER_CUT] = 3 * fault_rows[FAULT_CLUSTER_CUT].rate;
        w->habit.strict = false; /* since the node timeout is longer than `strict` permits */
    } else if (w->options->control == CONTROL_OPEN_UNSEEN) {
        w->rate[FAULT_CLUSTER_DROP] = 6 * fault_rows[FAULT_CLUSTER_DROP].rate;
        w->rate[FAULT_CLUSTER_MOVE] = w->rate[FAULT_CLUSTER_ANCHOR_MOVE] = w->rate[FAULT_CLUSTER_BACK] = 0;
        w->habit.strict = true;
        w->habit.think_us = 200 * US_PER_MS;
    } else if (w->options->control == CONTROL_MARK_UNSEEN) { /* no other faults, so that moves follow each other */
        memset(w->rate, 0, sizeof(w->rate));
        w->rate[FAULT_CLUSTER_FORMER] = fault_rows[FAULT_CLUSTER_FORMER].rate;
        w->habit.strict = true;
        w->habit.names = w->habit.names < 4 ? w->habit.names : 4;
        w->habit.think_us = 6400 * US_PER_MS;
        w->habit.lease_us = 12 * US_PER_S;
    } else if (w->options->control == CONTROL_OLD_NODE) { /* no other faults, so that grace periods are short */
        memset(w->rate, 0, sizeof(w->rate));
        w->rate[FAULT_CLUSTER_BY_HAND] = 2 * fault_rows[FAULT_CLUSTER_BY_HAND].rate;
        w->habit.daemons = w->habit.busy = DAEMONS;
        w->habit.names = w->habit.names < 4 ? w->habit.names : 4;
        w->habit.think_us = 200 * US_PER_MS;
    } else if (w->options->control == CONTROL_REDIRECT_FIRST) {
        w->rate[FAULT_CLUSTER_BY_HAND] = 6 * fault_rows[FAULT_CLUSTER_BY_HAND].rate;
        w->sentinels.lag_us = 2 * US_PER_S;
        w->habit.think_us = 200 * US_PER_MS;
    }
}

/* Without losses no daemon has to wait for a lease before it trusts an empty Redis. */
void
cluster_draw(struct world *w)
{
    bool loses = w->options->losses && chance(w, 70000);

    draw_rates(w);
    w->habit.strict = loses;
    for (int f = 0; f < FAULTS && !loses; f++) {
        w->rate[f] = fault_rows[f].loss || f == FAULT_CLUSTER_EMPTIED ? 0 : w->rate[f];
    }
    w->sentinels.lag_us = chance(w, 60000) ? between(w, 1, 20) * US_PER_MS : between(w, 20, 1000) * US_PER_MS;
    if (w->rate[FAULT_CLUSTER_OLD_KEYS] > 0 || w->rate[FAULT_CLUSTER_FORMER] > 0) { /* for renewals at both nodes */
        w->habit.think_us = 3200 * US_PER_MS;
    }
    draw_control(w);
    w->habit.replicas = w->habit.foreign = 0;
}

void
cluster_open(struct world *w)
{
    struct cluster_world *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        abort();
    }
    w->cluster = c;
    c->timeout_us = between(w, 1000, chance(w, 60000) ? 3000 : longest_lease_us(w) / 2 / US_PER_MS) * US_PER_MS;
    c->timeout_us = w->options->control == CONTROL_NO_REGISTRATION ? 9 * US_PER_S : c->timeout_us;
    c->old_us = (longest_lease_us(w) + REGISTERED_US) / 2 - US_PER_S / 2;
    cluster_trouble(w, 2 * US_PER_S);
    nodes_open(w);
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        struct server *s = &w->server[i];

        s->wall_us += i == 0 ? 0 : between(w, -US_PER_S, US_PER_S);
        if (i >= CLUSTER_MASTERS) {
            s->follows = &w->server[i - CLUSTER_MASTERS];
            sim_redis_follow(s->redis, s->follows->redis);
        }
    }
}

void
cluster_close(struct world *w)
{
    if (w->cluster == NULL) {
        return;
    }
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        buf_fini(&w->cluster->node[i].nodes_text);
    }
    moves_close(w);
    free(w->cluster);
    w->cluster = NULL;
}

/* ---- excuses of a daemon ---- */

/* After two anchors have lost their data, nothing is granted for one and a half of the longest lease. */
void
cluster_trouble(struct world *w, int64_t for_us)
{
    int64_t lease_us = longest_lease_us(w);

    if (w->cluster == NULL) {
        return;
    }
    last_failure(w, for_us + (lease_us + REGISTERED_US) * 3 / 2 + 5 * US_PER_S);
    for (int i = 0; i < NAMES; i++) {
        w->domain[i].ghosts_us = w->now_us + for_us + lease_us;
    }
}

static int
anchors_at(const struct server *s)
{
    int n = 0;

    for (unsigned i = 0; i < ANCHORS; i++) {
        n += node_of(s)->map.owner[anchor_slot(i)] == s->index;
    }
    return n;
}

/*
 * The node's keys end before their time; where it has two anchors, so do the leases that daemons have registered there.
 */
void
cluster_jumped(struct server *s)
{
    struct world *w = s->world;
    bool all = anchors_at(s) > 1;

    for (int i = 0; i < w->habit.names; i++) {
        struct name *n = &w->name[i];

        if (all || node_of(s)->map.owner[slot_of(slice_of(n->text))] == s->index) {
            n->excused_us = w->now_us + longest_lease_us(w) + (all ? REGISTERED_US : 0);
        }
    }
    cluster_trouble(w, 0);
}

void
cluster_restarts(struct server *s)
{
    struct world *w = s->world;
    struct node *n;

    if (w->cluster == NULL) {
        return;
    }
    n = node_of(s);
    n->slots.down = true;
    n->settled_us = s->down_until_us + between(w, 100, 2000) * US_PER_MS;
    n->alone_us = n->receive_us = 0;
    cluster_trouble(w, s->down_until_us - w->now_us);
}

/* ---- masters are replaced ---- */

uint64_t
cluster_next_epoch(const struct cluster_world *c)
{
    uint64_t most = 0;

    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        most = c->map.epoch[i] > most ? c->map.epoch[i] : most;
    }
    return most + 1;
}

/* A master was replaced and does not know it yet. */
static bool
one_is_old(const struct world *w)
{
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        if (w->cluster->node[i].replaced_us != 0) {
            return true;
        }
    }
    return false;
}

static struct server *
replica_of(struct world *w, const struct server *master)
{
    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        if (w->server[i].follows == master) {
            return &w->server[i];
        }
    }
    return NULL;
}

static void
promote(struct server *s)
{
    struct world *w = s->world;
    struct cluster_world *c = w->cluster;
    struct server *old = s->follows;
    bool loses = s->writes != old->writes;
    char replid[41];

    w->totals->faults[FAULT_CLUSTER_SWITCHED]++;
    w->totals->faults[FAULT_CLUSTER_SWITCH_LOSES] += loses;
    trace(w, s->name, "is promoted in the stead of %s, %d behind", old->name, (int)(old->writes - s->writes));
    turns_harm(w, NULL, SIGHT_FAILOVER_IN_RUN);
    moves_break(w, old);
    c->map.version++;
    c->map.epoch[s->index] = cluster_next_epoch(c);
    c->map.master[s->index] = c->map.master[old->index] = (uint8_t)s->index;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        c->map.owner[slot] = c->map.owner[slot] == old->index ? (uint8_t)s->index : c->map.owner[slot];
    }
    s->life++;
    s->follows = NULL;
    server_id(s, replid, s->life, 3);
    sim_redis_promote(s->redis, replid);
    node_of(s)->slots.down = false;
    node_receives(s);
    node_of(old)->replaced_us = w->now_us;
    w->harm_us = w->now_us;
    cluster_trouble(w, 2 * US_PER_S);
    if (loses) {
        nature_lost(s);
    }
}

/*
 * A master that no other master reaches for the node timeout is replaced, some time later, by a replica that all others
 * reach.
 */
static void
failover_ticks(struct world *w, struct server *s)
{
    struct cluster_world *c = w->cluster;
    struct node *n = node_of(s);
    struct server *r = replica_of(w, s);
    int receive = 0;

    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        const struct server *other = &w->server[i];

        if (other != s && cluster_is_master(other) && servers_reach(other, s)) {
            n->unseen_us = 0;
            return;
        }
        receive += other != s && r != NULL && cluster_is_master(other) && servers_reach(other, r);
    }
    if (n->unseen_us == 0) {
        n->unseen_us = w->now_us;
        n->elect_us = c->timeout_us + between(w, 100, 1500) * US_PER_MS;
    } else if (w->now_us >= n->unseen_us + n->elect_us && receive == CLUSTER_MASTERS - 1 && !one_is_old(w)) {
        promote(r);
    }
}

void
cluster_tick(struct world *w)
{
    int64_t tick = w->now_us / (US_PER_S / 10);

    for (int i = 0; i < CLUSTER_SERVERS; i++) {
        struct server *s = &w->server[i];

        if (s->follows != NULL && tick % 10 == i && w->sentinels.lag_us <= US_PER_S) {
            replica_syncs(&s->sync);
        } else if (cluster_is_master(s)) {
            failover_ticks(w, s);
        }
    }
    nodes_tick(w);
    moves_tick(w);
}

/* ---- faults ---- */

static struct server *
some_master(struct world *w)
{
    return &w->server[w->cluster->map.master[below(w, CLUSTER_SERVERS)]];
}

/* Cuts the master off, together with some of the daemons; these reach no other node. */
static bool
part(struct world *w, struct server *s, int64_t for_us)
{
    if (w->now_us < w->parted_until_us || one_is_old(w)) {
        return false; /* one at a time */
    }
    for (int i = 0; i < w->servers_n; i++) {
        w->server[i].apart = &w->server[i] == s;
    }
    for (int d = 0; d < w->daemons_n; d++) {
        w->daemon[d].apart = chance(w, 50000);
    }
    w->parted_until_us = w->now_us + for_us;
    return true;
}

void
cluster_begins_anew(struct server *s, struct sim_redis *data, int64_t for_us)
{
    server_restart(s, data, false);
    s->down_until_us = s->world->now_us + for_us;
    node_of(s)->settled_us = s->down_until_us + between(s->world, 100, 2000) * US_PER_MS;
}

static void
dies(struct server *s, bool empty, int64_t for_us)
{
    struct sim_redis *data = empty ? NULL : sim_redis_copy(s->redis);

    cluster_begins_anew(s, data, for_us);
    if (empty) {
        nature_lost(s);
    } else {
        sim_redis_free(&data);
    }
}

/*
 * CLUSTER FAILOVER loses nothing, unless the replica was added only just now. TAKEOVER needs no other node's consent.
 */
static bool
switch_by_hand(struct world *w)
{
    struct server *s = some_master(w), *r = replica_of(w, s);
    bool takes_over = chance(w, 40000) || w->options->control == CONTROL_REDIRECT_FIRST ||
                      w->options->control == CONTROL_OLD_NODE;

    if (r == NULL || !servers_reach(s, r) || one_is_old(w)) {
        return false;
    }
    if (!takes_over && w->habit.strict && chance(w, 20000)) {
        sim_redis_flush(r->redis);
        r->writes = 0;
    } else if (!takes_over) {
        replica_syncs(&r->sync);
    }
    promote(r);
    if (!takes_over) {
        node_receives(s);
    }
    return true;
}

void
cluster_strike(struct world *w, enum fault f)
{
    struct cluster_world *c = w->cluster;
    int64_t us = c->timeout_us + between(w, -1000, chance(w, 60000) ? 2000 : 8000) * US_PER_MS;
    struct server *s = some_master(w);

    us = us > US_PER_S / 10 ? us : US_PER_S / 10;
    cluster_trouble(w, us + 3 * US_PER_S);
    switch (f) {
    case FAULT_CLUSTER_DIES:
    case FAULT_CLUSTER_EMPTIED:
        dies(s, f == FAULT_CLUSTER_EMPTIED, us);
        break;
    case FAULT_CLUSTER_STOPS:
        turns_harm(w, NULL, SIGHT_REDIS_PAUSE_IN_RUN);
        s->paused_until_us = w->now_us + us;
        break;
    case FAULT_CLUSTER_CUT:
        w->totals->faults[f] -= !part(w, s, us);
        break;
    case FAULT_CLUSTER_ALONE:
        w->totals->faults[f] -= one_is_old(w);
        s->alone_until_us = one_is_old(w) ? s->alone_until_us : w->now_us + us;
        break;
    case FAULT_CLUSTER_BY_HAND:
        w->totals->faults[f] -= !switch_by_hand(w);
        break;
    default:
        moves_strike(w, f);
        break;
    }
}

void
cluster_rest(struct world *w)
{
    w->parted_until_us = w->now_us;
    for (int i = 0; i < w->servers_n; i++) {
        w->server[i].alone_until_us = w->now_us;
    }
    cluster_trouble(w, 5 * US_PER_S);
}
