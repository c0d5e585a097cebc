/*
 * nature.c -- the faults that come by themselves, tick by tick, at the rates that the seed has drawn.
 */
#include <stdlib.h>

#include "tests/sim/cluster.h"
#include "tests/sim/sim.h"

/* From now on, for for_us, the loss of a lock is no violation. */
void
last_failure(struct world *w, int64_t for_us)
{
    int64_t us = w->now_us + for_us;

    w->trouble_us = us > w->trouble_us ? us : w->trouble_us;
}

int64_t
longest_lease_us(const struct world *w)
{
    return w->habit.lease_us > LEASE_MAX_US ? w->habit.lease_us : LEASE_MAX_US;
}

/*
 * An assumption about clocks (until_us of the world), or about the data that Redis keeps (of the name), is broken:
 * Redis grants a lock that another owner still holds. No reply shows that before the next renewal, or the deadline if
 * there is none. Until then S1 is counted and not failed.
 */
static void
excuse(struct world *w, int64_t *until_us)
{
    *until_us = w->now_us + longest_lease_us(w);
    last_failure(w, 0);
}

enum { GUARDED_US = 15 * 1000 * 1000 }; /* longer than the network keeps any parcel */

/* Mostly short times, and some that outlast a lease. */
static int64_t
draw_while(struct world *w, int64_t most_ms)
{
    int64_t ms = chance(w, 60000) ? most_ms / 10 : most_ms;

    return between(w, 10, ms) * US_PER_MS;
}

void
nature_begin(struct world *w)
{
    int64_t most = w->options->control == CONTROL_RATES ? 30000 : 5000;

    for (int d = 0; d < w->daemons_n; d++) {
        w->daemon[d].boot_us = between(w, 1, 100000) * US_PER_S;
        w->daemon[d].ppm = w->habit.rates ? between(w, -most, most) : between(w, -100, 100);
    }
    for (int i = 0; i < w->servers_n; i++) {
        w->server[i].ppm = w->habit.rates ? between(w, -most, most) : between(w, -100, 100);
    }
    if (w->rate[FAULT_NEWCOMER] > 0) {
        w->newcomer = &w->daemon[w->habit.daemons - 1];
        w->newcomer->back_us = w->now_us + between(w, 3000, 8000) * US_PER_MS;
    }
}

/* ---- one fault each; false: not possible just now ---- */

static struct daemon *
some_daemon(struct world *w)
{
    return &w->daemon[below(w, w->habit.daemons)];
}

/* With one server no dice are thrown; of a master and its replicas it is mostly the master. */
static struct server *
some_server(struct world *w)
{
    if (w->servers_n == 1 || (w->shape == SHAPE_SENTINEL && chance(w, 70000))) {
        return w->master;
    }
    return &w->server[below(w, w->servers_n)];
}

static void
cut_some_link(struct world *w)
{
    size_t n = 0;
    struct server *s = some_server(w);
    struct list *pos, *nxt;
    int64_t which;

    list_for_each_safe(pos, nxt, &s->conns)
    {
        n++;
    }
    which = below(w, n > 0 ? (int64_t)n : 1);
    list_for_each_safe(pos, nxt, &s->conns)
    {
        if (which-- == 0) {
            last_failure(w, 0);
            turns_harm(w, container_of(pos, struct conn, node)->daemon, SIGHT_CUT_IN_RUN);
            conn_cut(container_of(pos, struct conn, node), chance(w, 70000));
            return;
        }
    }
}

static void
restart(struct server *s, bool promote)
{
    struct sim_redis *data = sim_redis_copy(s->redis);

    server_restart(s, data, promote);
    sim_redis_free(&data);
}

static void
lose_later(struct server *s, enum fault how)
{
    if (s->old == NULL) {
        s->old = sim_redis_copy(s->redis);
        s->old_how = how;
        s->old_in = (unsigned)between(s->world, 1, 40);
    }
}

/* ---- Redis loses data ---- */

static void
lose(struct server *s, enum fault how, struct sim_redis *old)
{
    if (how == FAULT_FLUSHALL) {
        sim_redis_flush(s->redis);
        last_failure(s->world, US_PER_S);
    } else {
        server_restart(s, old, how == FAULT_FAILOVER_LOSSY);
    }
    nature_lost(s);
}

/* So that the loss comes while daemons greet, restore, reclaim. */
static void
lose_soon(struct server *s, enum fault why)
{
    struct world *w = s->world;
    static const enum fault ways[] = {FAULT_FLUSHALL, FAULT_RESTART_EMPTY, FAULT_RESTART_STALE, FAULT_FAILOVER_LOSSY};

    if (!w->faults_on || w->loss.node.pos != 0 || !chance(w, w->rate[why])) {
        return;
    }
    w->loss_why = why;
    w->loser = s;
    w->loss_as = ways[below(w, 4)];
    if (w->loss_as == FAULT_RESTART_STALE || w->loss_as == FAULT_FAILOVER_LOSSY) {
        w->loss_old = sim_redis_copy(s->redis);
    }
    schedule(w, &w->loss, w->now_us + below(w, chance(w, 50000) ? 50 * US_PER_MS : 2 * US_PER_S));
}

/*
 * The newcomer starts while all other daemons stand still, for longer than a hanging Redis is waited for
 * (membership.c), and they are back first. After a shorter time, or after a link that they saw go down, they would not
 * notice the loss: there is no other fault.
 */
static void
newcomer_comes(struct world *w)
{
    int64_t until_us = w->now_us + between(w, 6500, 12000) * US_PER_MS;

    for (int d = 0; d < w->habit.daemons; d++) {
        if (&w->daemon[d] != w->newcomer) {
            w->daemon[d].paused_until_us = until_us;
        }
    }
    w->loser = &w->server[0];
    w->loss_why = FAULT_NEWCOMER;
    w->loss_as = FAULT_RESTART_EMPTY;
    schedule(w, &w->loss, until_us - 100 * US_PER_MS);
    last_failure(w, until_us - w->now_us + 10 * US_PER_S);
}

/* A daemon that may hold locks, and cannot register before the data is lost once more. */
static void
lose_again(struct server *s)
{
    struct world *w = s->world;
    bool pending = w->loss.node.pos != 0;

    lose_soon(s, FAULT_LOST_AGAIN);
    if (!pending && w->loss.node.pos != 0) {
        struct daemon *d = some_daemon(w);
        int64_t us = between(w, 500, 6000) * US_PER_MS;

        d->no_there_us = w->now_us + us;
        last_failure(w, us + 2 * US_PER_S);
    }
}

void
nature_loses_behind(struct server *s)
{
    struct world *w = s->world;

    w->loss_behind = false;
    if (w->faults_on) {
        w->totals->faults[FAULT_LOST_ANSWERED]++;
        trace(w, "nature", "%s", fault_rows[FAULT_LOST_ANSWERED].name);
        server_late(s, between(w, 50, 950) * US_PER_MS);
        lose(s, FAULT_FLUSHALL, NULL);
    }
}

void
nature_starts(struct daemon *d)
{
    lose_soon(some_server(d->world), FAULT_LOST_AT_START);
}

void
nature_lost(struct server *s)
{
    struct world *w = s->world;

    w->domain[s->domain].ghosts_us = w->now_us + longest_lease_us(w);
    masters_emptied(s);
    cluster_trouble(w, 0);
    turns_harm(w, NULL, SIGHT_LOSS_IN_RUN);
    foreign_lost(s, fault(w, FAULT_LOST_TO_OTHER));
    lose_again(s);
}

void
nature_loses(struct world *w)
{
    struct sim_redis *old = w->loss_old;

    w->loss_old = NULL;
    w->totals->faults[w->loss_why]++;
    trace(w, "nature", "%s: %s", fault_rows[w->loss_why].name, fault_rows[w->loss_as].name);
    if (w->loss_why == FAULT_NEWCOMER) {
        w->newcomer->no_there_us = w->now_us + between(w, 1000, 8000) * US_PER_MS;
    }
    lose(w->loser, w->loss_as, old);
    if (old != NULL) {
        sim_redis_free(&old);
    }
}

static void
evict(struct world *w)
{
    struct name *n = &w->name[below(w, w->habit.names)];
    struct slice word[2] = {SLICE_LIT("DEL"), slice_of(n->text)};
    struct server *s = server_of(w, n);

    (void)server_command(s, 2, word);
    foreign_lost(s, false);
    excuse(w, &n->excused_us);
}

/* No failure that may cost a lock: the other links are up, and renewals use them. */
static void
no_links(struct server *s, struct daemon *d)
{
    struct world *w = s->world;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &s->conns)
    {
        struct conn *c = container_of(pos, struct conn, node);

        if (c->id == d->renewed_on && c->daemon == d && c->bev != NULL && c->open) {
            d->no_links_us = w->now_us + between(w, 2000, 14000) * US_PER_MS;
            last_failure(w, 0); /* for operations on this link */
            conn_cut(c, true);
            return;
        }
    }
}

void
nature_jumps(struct server *s, int64_t sign, int64_t us)
{
    struct world *w = s->world;

    foreign_lost(s, false); /* expired locks stay expired */
    if (sign > 0 && w->shape == SHAPE_QUORUM) {
        masters_jumped(s);
    } else if (sign > 0 && w->shape == SHAPE_CLUSTER) {
        cluster_jumped(s);
    }
    s->wall_us += sign * us;
    if (sign > 0 && w->shape != SHAPE_QUORUM && w->shape != SHAPE_CLUSTER) {
        /* keys expire before their time; after a step back they only live longer */
        excuse(w, &w->domain[s->domain].excused_us);
    } else if (sign < 0) { /* a guard is too late by as much as Redis's clock was set back after the daemon read it */
        s->late_guards_us = w->now_us + us + GUARDED_US;
        s->set_back_us = w->now_us;
        last_failure(w, us);
    }
}

/* Sets the clock back while the network keeps an acquire until after its guard, and the acquire has been given up. */
void
nature_set_back(struct conn *c)
{
    struct world *w = c->world;
    uint64_t usual = w->rng;

    w->rng = ~usual; /* all other dice stay the same */
    c->held_until_us = w->now_us + between(w, 1100, 5000) * US_PER_MS;
    last_failure(w, c->held_until_us - w->now_us + 2 * US_PER_S);
    nature_jumps(c->server, -1, c->server->back_under_us);
    c->server->back_under_us = 0;
    w->rng = usual;
    trace(w, c->server->name, "clock set back under what is under way on conn %d", (int)c->id);
}

void
nature_crash(struct daemon *d)
{
    struct world *w = d->world;

    if (d->alive) {
        turns_harm(w, d, SIGHT_CRASH_IN_RUN);
        d->back_us = w->now_us + draw_while(w, 5000);
        last_failure(w, d->back_us - w->now_us);
        daemon_stop(d);
    }
}

/* Redis learns of the end of the former process only when that has been silent for three beats. */
static void
lose_power(struct daemon *d)
{
    struct world *w = d->world;

    if (d->alive) {
        nature_crash(d);
        d->back_us = w->now_us + between(w, 1000, 8000) * US_PER_MS;
        last_failure(w, d->back_us - w->now_us + 8 * US_PER_S);
        state_power_lost(d);
    }
}

static void
drain(struct world *w)
{
    struct daemon *d = some_daemon(w);

    if (d->alive && !d->draining && w->now_us >= d->paused_until_us) {
        d->draining = true;
        d->drain_us = w->now_us + US_PER_S;
        daemon_begins(d);
        daemon_step(d, &(struct core_event){.type = CORE_DRAIN});
    }
}

static void
pause_client(struct world *w)
{
    struct session *s = &some_daemon(w)->session[below(w, w->habit.sessions)];

    s->paused_until_us = w->now_us + draw_while(w, 20000);
}

static void
loses_now(struct server *s, enum fault f)
{
    struct world *w = s->world;

    s = s->follows != NULL ? s->follows : s; /* a replica gets its data again from its master */
    switch (f) {
    case FAULT_RESTART_STALE:
    case FAULT_FAILOVER_LOSSY:
        lose_later(s, f);
        break;
    case FAULT_RESTART_EMPTY:
    case FAULT_FLUSHALL:
        lose(s, f, NULL);
        break;
    case FAULT_LOST_ANSWERED:
        w->totals->faults[f]--; /* counted when it happens */
        w->loss_behind = true;
        break;
    case FAULT_EVICTION:
        evict(w);
        break;
    case FAULT_FAILBACK:
        if (s->former != NULL) {
            server_back(s);
            w->domain[s->domain].failback_us = w->now_us + longest_lease_us(w);
            nature_lost(s);
        } else {
            w->totals->faults[f]--; /* there was no failover */
        }
        break;
    default:
        abort();
    }
}

/* Faults of the network between a daemon and Redis; us: how long they last. False: another fault. */
static bool
network_fails(struct daemon *d, enum fault f, int64_t us)
{
    struct world *w = d->world;

    switch (f) {
    case FAULT_LINK_CUT:
        cut_some_link(w);
        return true;
    case FAULT_NO_LINKS:
        no_links(w->master, d);
        return true;
    case FAULT_PARTITION_THERE:
        d->no_there_us = w->now_us + us;
        last_failure(w, us + 2 * US_PER_S);
        return true;
    case FAULT_PARTITION_BACK:
        d->no_back_us = w->now_us + us;
        last_failure(w, us + 2 * US_PER_S);
        return true;
    case FAULT_SLOW_LINK:
        d->slow_us = between(w, 5, 500) * US_PER_MS;
        d->slow_until_us = w->now_us + 2 * us;
        last_failure(w, 2 * us + 2 * US_PER_S);
        return true;
    default:
        return false;
    }
}

/* Faults of a daemon or of a client; us: how long they last. False: another fault. */
static bool
daemon_fails(struct daemon *d, enum fault f, int64_t us)
{
    struct world *w = d->world;

    switch (f) {
    case FAULT_DAEMON_PAUSE:
        turns_harm(w, d, SIGHT_PAUSE_IN_RUN);
        d->paused_until_us = w->now_us + 2 * us;
        last_failure(w, 2 * us);
        return true;
    case FAULT_STOPPED_AT_WRITE:
        d->stops_at_write = d->alive;
        return true;
    case FAULT_CLIENT_PAUSE:
        pause_client(w);
        return true;
    case FAULT_DAEMON_CRASH:
        nature_crash(d);
        return true;
    case FAULT_DAEMON_DIES:
        d->turns_left = d->alive && !d->dying ? (unsigned)between(w, 1, 20) : 0;
        return true;
    case FAULT_POWER_LOSS:
        lose_power(d);
        return true;
    case FAULT_DRAIN:
        drain(w);
        return true;
    default:
        return false;
    }
}

/* Faults of a Redis server that keeps its data; us: how long they last. False: another fault. */
static bool
server_fails(struct server *s, enum fault f, int64_t us)
{
    struct world *w = s->world;

    switch (f) {
    case FAULT_REDIS_PAUSE:
        turns_harm(w, NULL, SIGHT_REDIS_PAUSE_IN_RUN);
        s->paused_until_us = w->now_us + us;
        last_failure(w, us);
        return true;
    case FAULT_REDIS_FULL:
        s->full_until_us = w->now_us + us;
        sim_redis_full(s->redis, true);
        last_failure(w, us);
        return true;
    case FAULT_DENIED:
        s->denied = (int)below(w, 4);
        s->denied_until_us = w->now_us + us;
        last_failure(w, us + 2 * US_PER_S);
        return true;
    case FAULT_RESTART_CLEAN:
    case FAULT_FAILOVER_CLEAN:
        restart(s, f == FAULT_FAILOVER_CLEAN);
        return true;
    case FAULT_CLOCK_FORWARD:
    case FAULT_CLOCK_BACK:
        us = draw_while(w, 6000);
        if (f == FAULT_CLOCK_BACK && us / US_PER_MS % 2 == 1) {
            s->back_under_us = us;
        } else {
            nature_jumps(s, f == FAULT_CLOCK_FORWARD ? 1 : -1, us);
        }
        return true;
    default:
        return false;
    }
}

void
nature_strikes(struct daemon *d, enum fault f)
{
    struct world *w = d->world;
    struct server *s = some_server(w);
    int64_t us = draw_while(w, 6000);

    trace(w, "nature", "%s", fault_rows[f].name);
    if (network_fails(d, f, us) || daemon_fails(d, f, us) || server_fails(s, f, us)) {
        return;
    }
    if (fault_rows[f].shape == SHAPE_SENTINEL) {
        watched_strike(w, d, f);
    } else if (fault_rows[f].shape == SHAPE_QUORUM) {
        masters_strike(s, f);
    } else if (fault_rows[f].shape == SHAPE_CLUSTER) {
        cluster_strike(w, f);
    } else {
        loses_now(s, f);
    }
}

/* ---- ends of faults ---- */

/* As all_answered() of rlockd.c. */
static void
deregisters(struct daemon *d)
{
    struct core_totals t = core_totals(d->core);

    if (t.releasing_claims == 0 && t.held_claims == 0 && !d->left) {
        d->left = true;
        loop_enter(d);
        d->world->in_turn[d->index] = true;
        sight(d->world, SIGHT_LEFT);
        backend_leave(d->backend);
    }
}

static void
daemon_goes_on(struct daemon *d)
{
    struct world *w = d->world;

    if (!d->alive && w->now_us >= d->back_us) {
        daemon_start(d);
    } else if (d->alive && d->draining && w->now_us >= d->drain_us + US_PER_S) {
        daemon_stop(d);
        d->back_us = w->now_us + 200 * US_PER_MS;
    } else if (d->alive && d->draining && w->now_us >= d->drain_us && w->now_us >= d->paused_until_us) {
        clients_leave(d);
        deregisters(d);
    }
}

void
nature_ticks(struct world *w)
{
    if (w->faults_on && w->newcomer != NULL && w->newcomer->life == 0 && w->now_us >= w->newcomer->back_us) {
        newcomer_comes(w);
    }
    for (int d = 0; d < w->habit.daemons; d++) {
        daemon_goes_on(&w->daemon[d]);
        state_pages(&w->daemon[d]);
    }
    for (int i = 0; i < w->servers_n; i++) {
        struct server *s = &w->server[i];

        if (s->full_until_us != 0 && w->now_us >= s->full_until_us) {
            s->full_until_us = 0;
            sim_redis_full(s->redis, false);
        }
    }
    if (w->shape == SHAPE_SENTINEL) {
        watched_tick(w);
    } else if (w->shape == SHAPE_CLUSTER) {
        cluster_tick(w);
    }
    for (int f = 0; f < FAULTS; f++) {
        if (fault_rows[f].drawn == DRAWN_TICK && fault(w, (enum fault)f)) {
            nature_strikes(some_daemon(w), (enum fault)f);
        }
    }
}

static void
server_rests(struct server *s)
{
    s->paused_until_us = s->down_until_us = s->full_until_us = s->denied_until_us = s->world->now_us;
    if (s->old != NULL) {
        sim_redis_free(&s->old);
    }
}

void
nature_rests(struct world *w)
{
    trace(w, "nature", "rests");
    w->faults_on = false;
    unschedule(w, &w->loss);
    if (w->loss_old != NULL) {
        sim_redis_free(&w->loss_old);
    }
    for (int i = 0; i < w->nodes_n; i++) {
        server_rests(&w->server[i]);
    }
    if (w->shape == SHAPE_SENTINEL) {
        watched_rest(w);
    } else if (w->shape == SHAPE_QUORUM) {
        masters_rest(w);
    } else if (w->shape == SHAPE_CLUSTER) {
        cluster_rest(w);
    }
    last_failure(w, 15 * US_PER_S); /* parcels under way may arrive late */
    for (int d = 0; d < w->habit.daemons; d++) {
        struct daemon *dm = &w->daemon[d];

        if (dm->paused_until_us > w->now_us) { /* its input waits until then all the same */
            last_failure(w, dm->paused_until_us - w->now_us + longest_lease_us(w) + 2 * US_PER_S);
        }
        dm->paused_until_us = dm->no_there_us = dm->no_back_us = dm->slow_until_us = w->now_us;
        dm->back_us = w->now_us;
        dm->turns_left = 0;
        w->in_turn[d] = dm->alive;
        for (int s = 0; s < SESSIONS; s++) {
            dm->session[s].paused_until_us = w->now_us;
        }
    }
}
