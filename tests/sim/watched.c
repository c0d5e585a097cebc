/*
 * watched.c -- the shape of a master, its replicas, and the sentinels that watch them: the delay of copies, the masters
 * that sentinels name, and failovers.
 *
 * A replica has the data that its master had some time ago; later writes are lost when the replica is promoted. A
 * partition (one at a time) separates servers and daemons into two sides (`apart`); bytes on a connection are not lost
 * meanwhile, they arrive when the partition ends.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

/*
 * A master that does not answer for down-after-milliseconds is replaced when a majority of the sentinels that reach
 * each other agree on that; the others learn of it later, and the old master, which may serve all the while, later
 * still. As in Redis, a replica reports its data once a second, and a master counts these reports once a second: the
 * bound of min-replicas-max-lag is longer by two seconds, as replication.h counts it.
 */

enum { SENTINELS = 3, MAJORITY = 2 };

/* ---- the beginning of a world ---- */

/* Draws half of the rows of this shape; the failovers of single servers are replaced by those of this file. */
static void
draw_rates(struct world *w)
{
    for (int f = 0; f < FAULTS; f++) {
        const struct fault_row *row = &fault_rows[f];

        if (row->shape == SHAPE_SENTINEL && row->rate > 0) {
            w->rate[f] = chance(w, 50000) ? (uint32_t)between(w, 1, row->rate) : 0;
        }
    }
    w->rate[FAULT_FAILOVER_CLEAN] = w->rate[FAULT_FAILOVER_LOSSY] = w->rate[FAULT_FAILBACK] = 0;
    w->rate[FAULT_NEWCOMER] = 0;
}

/* Controls: nothing stops an old master, though its settings promise daemons that min-replicas-max-lag does. */
static bool
serves_on(const struct world *w)
{
    return w->options->control == CONTROL_OLD_MASTER || w->options->control == CONTROL_OLD_ANSWERS;
}

/*
 * Makes the control visible: failovers by hand, after which the old master serves on for long. No daemon or sentinel is
 * cut off, so without the control no daemon uses the old master, and S1 holds (100 seeds).
 */
static void
draw_old_answers(struct world *w)
{
    static const enum fault none[] = {FAULT_MASTER_DIES,       FAULT_MASTER_STOPS,      FAULT_MASTER_CUT,
                                      FAULT_MASTER_CUT_WITH,   FAULT_MASTER_CUT_AGREED, FAULT_SENTINEL_STOPS,
                                      FAULT_SENTINEL_LATE};

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        w->rate[none[i]] = 0;
    }
    w->rate[FAULT_SWITCH_BY_HAND] = 3 * fault_rows[FAULT_SWITCH_BY_HAND].rate;
    w->rate[FAULT_DAEMON_CRASH] = fault_rows[FAULT_DAEMON_CRASH].rate;
}

void
watched_draw(struct world *w)
{
    struct sentinels_world *sw = &w->sentinels;
    int64_t down_s;

    draw_rates(w);
    sw->replicas = (int)between(w, 1, 2);
    w->habit.replicas = w->habit.replicas > sw->replicas ? sw->replicas : w->habit.replicas;
    sw->lag_us = chance(w, 60000) ? between(w, 1, 20) * US_PER_MS : between(w, 20, 1000) * US_PER_MS;
    sw->bounded = chance(w, 70000) || serves_on(w);
    down_s = between(w, sw->bounded ? 3 : 1, 5);
    sw->down_after_us = down_s * US_PER_S;
    sw->max_lag_us = sw->bounded ? between(w, 1, down_s - 2) * US_PER_S : 0;
    if (!sw->bounded) { /* a strict daemon would grant nothing; one that is not strict trusts an empty Redis */
        w->habit.strict = false;
        w->rate[FAULT_MASTER_CUT_WITH] = fault_rows[FAULT_MASTER_CUT_WITH].rate; /* two holders must be seen */
        for (int f = 0; f < FAULTS; f++) {
            w->rate[f] = fault_rows[f].loss ? 0 : w->rate[f];
        }
    }
    if (w->options->control == CONTROL_OLD_ANSWERS) {
        draw_old_answers(w);
    }
}

void
watched_open(struct world *w)
{
    for (int i = 1; i < w->servers_n; i++) {
        struct server *s = &w->server[i];

        s->follows = w->master;
        s->wall_us += between(w, -US_PER_S, US_PER_S);
        sim_redis_follow(s->redis, w->master->redis);
    }
    for (int i = 0; i < SENTINELS; i++) {
        struct server *s = &w->server[w->nodes_n];

        server_open(s, w, w->nodes_n++);
        s->type = SERVER_SENTINEL;
        s->port = 26379;
        s->named = w->master;
        snprintf(s->name, sizeof(s->name), "sentinel-%d", i);
    }
}

/* ---- replication ---- */

/* The server becomes a replica of another server than before, with all its data. */
static void
follow(struct server *s, struct server *master)
{
    trace(s->world, s->name, "follows %s", master->name);
    sim_redis_follow(s->redis, master->redis);
    memset(s->loaded, 0, sizeof(s->loaded));
    s->follows = master;
    s->writes = master->writes;
    s->acked_us = s->world->now_us;
    s->alone = false;
    s->reform_us = 0;
    server_ends_conns(s);
}

void
replica_syncs(struct happening *h)
{
    struct server *s = container_of(h, struct server, sync);

    if (s->follows != NULL && servers_reach(s, s->follows)) {
        sim_redis_follow(s->redis, s->follows->redis);
        s->writes = s->follows->writes;
    }
}

void
replicas_receive(struct server *master)
{
    struct world *w = master->world;

    master->writes++;
    for (int i = 0; i < w->servers_n; i++) {
        struct server *s = &w->server[i];

        if (s->follows == master && s->sync.node.pos == 0 && servers_reach(s, master)) {
            schedule(w, &s->sync, w->now_us + 1 + below(w, 2 * w->sentinels.lag_us));
        }
    }
}

int
replicas_ack(struct server *master)
{
    struct world *w = master->world;
    int n = 0;

    for (int i = 0; i < w->servers_n; i++) {
        struct server *s = &w->server[i];

        if (s->follows == master && servers_reach(s, master)) {
            replica_syncs(&s->sync);
            n++;
        }
    }
    return n;
}

/* Once a second each replica reports to its master, and each master counts the reports in time, in whole seconds. */
static void
replication_ticks(struct world *w)
{
    int64_t tick = w->now_us / (US_PER_S / 10), second = w->now_us / US_PER_S;

    for (int i = 0; i < w->servers_n; i++) {
        struct server *s = &w->server[i];
        int good = 0;

        if (s->follows != NULL && tick % 10 == i && servers_reach(s, s->follows)) {
            s->acked_us = w->now_us;
            replica_syncs(&s->sync);
        }
        if (s->follows != NULL || tick % 10 != 5 + i || !server_is_up(s) || w->sentinels.max_lag_us == 0) {
            continue;
        }
        for (int k = 0; k < w->servers_n; k++) {
            const struct server *r = &w->server[k];

            good += r->follows == s && second - r->acked_us / US_PER_S <= w->sentinels.max_lag_us / US_PER_S;
        }
        w->totals->faults[FAULT_NO_REPLICAS] += good == 0 && !s->alone;
        s->alone = good == 0 && !serves_on(w);
        sim_redis_alone(s->redis, s->alone);
        if (s->alone) {
            last_failure(w, longest_lease_us(w) + 3 * US_PER_S); /* and then a new epoch begins */
        }
    }
}

/* ---- failover ---- */

static struct server *
sentinel(struct world *w, int i)
{
    return &w->server[w->servers_n + i];
}

/* A sentinel that names `named`, and reaches a majority of sentinels that have not reached `named` for long enough. */
static struct server *
leader(struct world *w, const struct server *named)
{
    for (int i = 0; i < SENTINELS; i++) {
        int agree = 0;

        for (int k = 0; k < SENTINELS; k++) {
            const struct server *s = sentinel(w, k);

            agree += s->named == named && s->unseen_us != 0 && w->now_us >= s->unseen_us + w->sentinels.down_after_us &&
                     servers_reach(s, sentinel(w, i));
        }
        if (agree >= MAJORITY && sentinel(w, i)->named == named) {
            return sentinel(w, i);
        }
    }
    return NULL;
}

/* The replica with most writes; NULL: none can be reached. */
static struct server *
candidate(struct world *w, const struct server *by)
{
    struct server *best = NULL;

    for (int i = 0; i < w->servers_n; i++) {
        struct server *s = &w->server[i];

        if (s->follows == w->master && servers_reach(s, by) && (best == NULL || s->writes > best->writes)) {
            best = s;
        }
    }
    return best;
}

static void
names(struct server *s, struct server *master)
{
    struct world *w = s->world;
    struct slice words[3] = {SLICE_LIT("PUBLISH"), SLICE_LIT("+switch-master"), SLICE_LIT("simulated")};

    trace(w, s->name, "names %s", master->name);
    s->named = master;
    s->unseen_us = s->receive_us = 0;
    (void)server_command(s, 3, words);
}

static void
promote(struct world *w, struct server *s, struct server *by)
{
    struct server *old = w->master;
    char replid[41];
    bool loses = s->writes != old->writes;

    w->totals->faults[FAULT_SWITCHED]++;
    w->totals->faults[FAULT_SWITCH_LOSES] += loses;
    trace(w, s->name, "is promoted in the stead of %s, %d behind", old->name, (int)(old->writes - s->writes));
    turns_harm(w, NULL, SIGHT_FAILOVER_IN_RUN);
    s->life++;
    s->follows = NULL;
    s->reform_us = 0;
    server_id(s, replid, s->life, 3);
    sim_redis_promote(s->redis, replid);
    server_ends_conns(s);
    w->master = s;
    w->sentinels.elect_us = 0;
    names(by, s);
    last_failure(w, 8 * US_PER_S);
    w->harm_us = w->now_us;
    foreign_lost(s, false);
    if (loses) {
        nature_lost(s);
    }
}

/* A sentinel learns of the new master from the others: within two seconds, or later. */
static void
sentinel_receives(struct world *w, struct server *s)
{
    bool agreed = false;

    for (int i = 0; i < SENTINELS; i++) {
        agreed = agreed || (sentinel(w, i)->named == w->master && servers_reach(sentinel(w, i), s));
    }
    if (s->named == w->master || !agreed) {
        return;
    }
    if (s->receive_us == 0) {
        s->receive_us = w->now_us + below(w, (fault(w, FAULT_SENTINEL_LATE) ? 12 : 2) * US_PER_S);
        /* the daemons may learn of it only then, and a grace period with a dead member lasts for a lease */
        last_failure(w, s->receive_us - w->now_us + longest_lease_us(w) + 3 * US_PER_S);
    } else if (w->now_us >= s->receive_us) {
        names(s, w->master);
    }
}

static void
sentinels_look(struct world *w)
{
    struct server *by;

    for (int i = 0; i < SENTINELS; i++) {
        struct server *s = sentinel(w, i);

        if (!server_is_up(s) || servers_reach(s, s->named)) {
            s->unseen_us = 0;
        } else if (s->unseen_us == 0) {
            s->unseen_us = w->now_us;
        }
        sentinel_receives(w, s);
    }
    by = leader(w, w->master);
    if (by == NULL || candidate(w, by) == NULL) {
        w->sentinels.elect_us = 0;
    } else if (w->sentinels.elect_us == 0) {
        w->sentinels.elect_us = w->now_us + between(w, 10, 1500) * US_PER_MS;
    } else if (w->now_us >= w->sentinels.elect_us) {
        promote(w, candidate(w, by), by);
    }
}

/* A sentinel makes a server that does not follow the master a replica of it, some seconds later. */
static void
reform(struct world *w, struct server *s)
{
    int64_t old_s = w->options->control == CONTROL_OLD_ANSWERS ? 60 : 10;
    bool agreed = false;

    if (s == w->master || s->follows == w->master) {
        return;
    }
    for (int i = 0; i < SENTINELS; i++) {
        agreed = agreed || (sentinel(w, i)->named == w->master && servers_reach(sentinel(w, i), s));
    }
    if (s->follows == NULL && server_is_up(s)) { /* it takes itself for the master */
        w->totals->faults[FAULT_OLD_MASTER]++;
        last_failure(w, 4 * US_PER_S);
        if (w->sentinels.max_lag_us == 0) {
            w->domain[0].excused_us = w->now_us + longest_lease_us(w) + 2 * US_PER_S;
        }
    }
    if (!agreed || !servers_reach(s, w->master)) {
        s->reform_us = 0;
    } else if (s->reform_us == 0) {
        s->reform_us = w->now_us + below(w, (s->follows == NULL ? old_s : 2) * US_PER_S);
    } else if (w->now_us >= s->reform_us) {
        follow(s, w->master);
    }
}

void
watched_tick(struct world *w)
{
    sentinels_look(w);
    for (int i = 0; i < w->servers_n; i++) {
        reform(w, &w->server[i]);
    }
    replication_ticks(w);
}

/* ---- faults ---- */

/* Cuts the master off, together with random daemons and sentinels, never with all of the sentinels. */
static void
part(struct world *w, bool daemons, int sentinels, int64_t for_us)
{
    for (int i = 0; i < w->nodes_n; i++) {
        w->server[i].apart = &w->server[i] == w->master;
    }
    for (int i = 0; i < sentinels; i++) {
        sentinel(w, (int)below(w, SENTINELS))->apart = true;
    }
    for (int d = 0; d < w->daemons_n; d++) {
        w->daemon[d].apart = daemons && chance(w, 50000);
    }
    w->parted_until_us = w->now_us + for_us;
    last_failure(w, for_us + 10 * US_PER_S);
}

/* The server comes back with its data, as a Redis that writes each command to its disk. */
static void
die(struct server *s, int64_t for_us)
{
    struct world *w = s->world;
    struct sim_redis *data = sim_redis_copy(s->redis);

    server_restart(s, data, false);
    sim_redis_free(&data);
    s->down_until_us = w->now_us + for_us;
    last_failure(w, for_us + 10 * US_PER_S);
}

static void
stop_sentinels(struct world *w, int64_t for_us)
{
    int n = (int)between(w, 1, SENTINELS);

    for (int i = 0; i < n; i++) {
        sentinel(w, (int)below(w, SENTINELS))->paused_until_us = w->now_us + for_us;
    }
    last_failure(w, for_us + 6 * US_PER_S);
}

/* As SENTINEL FAILOVER, which does not check whether the replica has all data. */
static void
switch_by_hand(struct world *w)
{
    struct server *by = sentinel(w, (int)below(w, SENTINELS)), *to;

    to = server_is_up(by) && by->named == w->master ? candidate(w, by) : NULL;
    if (to != NULL) {
        promote(w, to, by);
    } else {
        w->totals->faults[FAULT_SWITCH_BY_HAND]--;
    }
}

void
watched_strike(struct world *w, struct daemon *d, enum fault f)
{
    int64_t us = w->sentinels.down_after_us + between(w, -1000, 8000) * US_PER_MS;

    (void)d;
    if (w->now_us < w->parted_until_us && f >= FAULT_MASTER_CUT && f <= FAULT_MASTER_CUT_AGREED) {
        w->totals->faults[f]--; /* one at a time */
        return;
    }
    us = us > US_PER_S / 2 ? us : US_PER_S / 2;
    switch (f) {
    case FAULT_MASTER_DIES:
        die(w->master, us);
        break;
    case FAULT_MASTER_STOPS:
        turns_harm(w, NULL, SIGHT_REDIS_PAUSE_IN_RUN);
        w->master->paused_until_us = w->now_us + us;
        last_failure(w, us + 10 * US_PER_S);
        break;
    case FAULT_MASTER_CUT:
        part(w, false, 0, us);
        break;
    case FAULT_MASTER_CUT_WITH:
        part(w, true, 0, us);
        break;
    case FAULT_MASTER_CUT_AGREED:
        part(w, true, 1, us);
        break;
    case FAULT_REPLICA_DIES:
        if (w->server[below(w, w->servers_n)].follows != NULL) {
            die(&w->server[w->master == &w->server[0] ? 1 : 0], us);
        }
        break;
    case FAULT_SENTINEL_STOPS:
        stop_sentinels(w, us);
        break;
    default:
        switch_by_hand(w);
        break;
    }
}

void
watched_rest(struct world *w)
{
    w->parted_until_us = w->now_us;
}

/* ---- answers of a sentinel ---- */

static void
put_text(struct buf *out, const char *text)
{
    buf_printf(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void
put_number(struct buf *out, int64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, n);
    put_text(out, text);
}

static void
put_id(struct buf *out, const struct server *s)
{
    char id[41];

    snprintf(id, sizeof(id), "%040d", s->index);
    put_text(out, id);
}

static void
ask_master(const struct server *s, const struct server *master, struct buf *out)
{
    (void)s;
    buf_adds(out, "*2\r\n");
    put_text(out, master->host);
    put_number(out, master->port);
}

static void
inform_fellows(const struct server *s, struct buf *out)
{
    struct world *w = s->world;

    buf_printf(out, "*%d\r\n", SENTINELS - 1);
    for (int i = 0; i < SENTINELS; i++) {
        const struct server *other = sentinel(w, i);

        if (other != s) {
            buf_adds(out, "*6\r\n");
            put_text(out, "ip");
            put_text(out, other->host);
            put_text(out, "port");
            put_number(out, other->port);
            put_text(out, "runid");
            put_id(out, other);
        }
    }
}

static void
inform_replicas(const struct server *s, struct buf *out)
{
    struct world *w = s->world;

    buf_printf(out, "*%d\r\n", w->servers_n - 1);
    for (int i = 0; i < w->servers_n; i++) {
        const struct server *r = &w->server[i];

        if (r != s->named) {
            buf_adds(out, "*6\r\n");
            put_text(out, "ip");
            put_text(out, r->host);
            put_text(out, "port");
            put_number(out, r->port);
            put_text(out, "flags");
            put_text(out, servers_reach(s, r) ? "slave" : "s_down,slave");
        }
    }
}

static void
answer(const struct server *s, struct slice what, struct buf *out)
{
    if (slice_is(what, "MYID")) {
        put_id(out, s);
    } else if (slice_is(what, "GET-MASTER-ADDR-BY-NAME")) {
        ask_master(s, s->named, out);
    } else if (slice_is(what, "SENTINELS")) {
        inform_fellows(s, out);
    } else if (slice_is(what, "REPLICAS")) {
        inform_replicas(s, out);
    } else if (slice_is(what, "MASTER")) {
        buf_adds(out, "*2\r\n");
        put_text(out, "down-after-milliseconds");
        put_number(out, s->world->sentinels.down_after_us / US_PER_MS);
    } else {
        buf_adds(out, "-ERR no such question\r\n");
    }
}

void
watched_runs(struct conn *c, int words, const struct slice *word)
{
    struct buf out;

    if (slice_is(word[0], "SUBSCRIBE")) {
        server_subscribes(c, word[1], false, true);
        return;
    }
    buf_init(&out, 0);
    if (slice_is(word[0], "SENTINEL") && words > 1) {
        answer(c->server, word[1], &out);
    } else {
        buf_adds(&out, slice_is(word[0], "PING") ? "+PONG\r\n" : "+OK\r\n");
    }
    conn_reply(c, out.p, out.n, false);
    buf_fini(&out);
}
