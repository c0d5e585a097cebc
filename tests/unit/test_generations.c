/*
 * test_generations.c -- daemons, anchors and nodes of a cluster in a virtual world: masters are promoted without their
 * last writes, and the old ones serve cut-off daemons for a while; data is flushed, slots move key by key, messages are
 * late or lost. No name is granted while the deadline of a former holder may run; and when all faults are over, every
 * slot grants.
 */
#include <inttypes.h>

#include "anchor_world.h"
#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations.h"
#include "daemon/base/memory.h"
#include "rng.h"
#include "suite.h"

enum { DAEMONS = 3, SHARDS = 3, SERVERS = 48, NAMES = 6, FLIGHTS = 512 };
#define LEASE_US (10 * US_PER_S)
#define TIMEOUT_US US_PER_S
#define SEEN_US (3 * US_PER_S)
#define OLD_US (LEASE_US / 2) /* R7: an old master may serve for so long */

static const uint16_t name_slot[NAMES] = {10, 4000, 6000, 9000, 12000, 16000}; /* one name in each */

struct data {
    struct aw_anchor anchor[ANCHORS];
    struct aw_record record[NAMES];
    int owner[NAMES]; /* of the name's lock; -1: free */
};

struct server {
    bool there, old; /* old: another one was promoted */
    unsigned shard;
    uint64_t origin, epoch;
    char id[NODE_ID_ROOM];
    bool has[NAMES], open[NAMES];
    int64_t dies_us;
    struct data d;
};

struct hold {
    bool held;
    int64_t deadline_us;
    uint64_t needs; /* the generation in which it has to be reclaimed; 0: none */
    bool busy;
};

struct person {
    struct generations *g;
    bool cut[SERVERS];   /* from this server */
    bool linked[SERVERS];
    uint16_t node[SERVERS];
    int64_t paused_us;
    struct hold hold[NAMES];
    uint64_t tell[NAMES]; /* the generation to report as reclaimed; 0: none */
};

enum flight_type { F_REGISTER, F_NODE, F_RECORD, F_ACQUIRE, F_RECLAIM };

struct flight {
    bool is, ran, lost, reply_lost;
    enum flight_type type;
    unsigned who, server, name;
    struct generation_send send;
    int64_t sent_us, run_us, reply_us;
    uint64_t number, origin; /* origin: of the process that the connection leads to */
    char word[32];
    struct anchor_message m;
    struct anchor_identity id;
    struct aw_answer *answer;
    struct node_answer node;
    struct slot_range range[2 * NAMES + 4];
    uint16_t open[NAMES];
    struct record_answer record;
    int outcome; /* 0 taken, 1 ok, 2 grace, 3 open */
};

struct world {
    struct rng r;
    int64_t now_us;
    uint64_t serial;
    struct server server[SERVERS];
    unsigned servers_n;
    int master[SHARDS];
    struct data snapshot[SHARDS];
    struct person p[DAEMONS];
    struct flight f[FLIGHTS];
    int moving[NAMES]; /* the server that the slot moves to; -1: none */
    int64_t opened_us[NAMES];
    unsigned grants, reclaims, failovers, flushes, moves, cancels, restarts, news, losses, cleared;
    int name_now;
    bool healed, keeps; /* keeps: no lock is released */
};

static struct world *w;

/* GENERATIONS_TRACE=<name>: traces this name on stderr. */
static int traced = -2;

#define TRACE(name, ...)                                                                                               \
    do {                                                                                                               \
        if (is_traced((int)(name))) {                                                                                  \
            fprintf(stderr, "%.3f ", (double)w->now_us / 1e6);                                                         \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
        }                                                                                                              \
    } while (0)

static bool
is_traced(int name)
{
    const char *which = getenv("GENERATIONS_TRACE");

    if (traced == -2) {
        traced = which != NULL ? atoi(which) : -1;
    }
    return traced >= 0 && (name < 0 || name == traced);
}

static bool
chance(unsigned one_in)
{
    return rng_below(&w->r, one_in) == 0;
}

/* Faults of the network, until all is healed. */
static bool
fails(unsigned one_in)
{
    return chance(one_in) && !w->healed;
}

/* ---- nodes ---- */

static unsigned
server_new(unsigned shard, const struct data *d, const bool has[NAMES])
{
    struct server *s = &w->server[w->servers_n];

    ck_assert_uint_lt(w->servers_n, SERVERS);
    *s = (struct server){.there = true, .shard = shard, .origin = rng_next(&w->r), .epoch = ++w->serial, .d = *d};
    snprintf(s->id, sizeof(s->id), "%040u", w->servers_n);
    memcpy(s->has, has, sizeof(s->has));
    return w->servers_n++;
}

static void
data_clear(struct data *d)
{
    memset(d, 0, sizeof(*d));
    for (int i = 0; i < NAMES; i++) {
        d->owner[i] = -1;
    }
}

static bool
in_shard(uint16_t slot, unsigned shard)
{
    return slot / 5462 == (int)shard;
}

static void
ranges_of_server(const struct server *s, struct flight *f)
{
    unsigned first = s->shard * 5462u, end = s->shard == 2 ? 16384 : first + 5462;
    size_t n = 0;

    for (int pass = 0; pass < 3; pass++) { /* names of lower shards, the shard itself, names of higher ones */
        unsigned at = first;

        for (int i = 0; i < NAMES; i++) {
            uint16_t slot = name_slot[i];
            bool inside = in_shard(slot, s->shard);

            if (pass == 1 && inside && !s->has[i]) {
                f->range[n++] = (struct slot_range){(uint16_t)at, (uint16_t)(slot - 1)};
                at = slot + 1u;
            } else if (!inside && s->has[i] && (pass == 0 ? slot < first : pass == 2 && slot >= end)) {
                f->range[n++] = (struct slot_range){slot, slot};
            }
        }
        if (pass == 1) {
            f->range[n++] = (struct slot_range){(uint16_t)at, (uint16_t)(end - 1)};
        }
    }
    f->node.range = f->range;
    f->node.ranges_n = n;
    f->node.open = f->open;
    for (int i = 0; i < NAMES; i++) {
        if (s->open[i]) {
            f->open[f->node.open_n++] = name_slot[i];
        }
    }
}

static bool
reaches(unsigned who, unsigned server)
{
    return w->server[server].there && !w->p[who].cut[server];
}

/* The server that the daemon takes for the name's owner; -1: none. */
static int
server_of_name(unsigned who, unsigned name)
{
    int found = -1;

    for (unsigned i = 0; i < w->servers_n; i++) {
        if (reaches(who, i) && w->server[i].has[name] &&
            (found < 0 || w->server[i].epoch > w->server[found].epoch)) {
            found = (int)i;
        }
    }
    return found;
}

static int
server_of_shard(unsigned who, unsigned shard)
{
    int found = -1;

    for (unsigned i = 0; i < w->servers_n; i++) {
        if (reaches(who, i) && w->server[i].shard == shard) {
            found = (int)i; /* the latest one */
        }
    }
    return found;
}

/* ---- messages ---- */

static struct flight *
flight_new(enum flight_type type, unsigned who, int server)
{
    unsigned i = 0;

    while (i < FLIGHTS && w->f[i].is) {
        i++;
    }
    ck_assert_uint_lt(i, FLIGHTS);
    w->f[i] = (struct flight){.is = true,
                              .type = type,
                              .who = who,
                              .server = server < 0 ? 0 : (unsigned)server,
                              .lost = server < 0 || fails(40),
                              .reply_lost = fails(40),
                              .origin = server < 0 ? 0 : w->server[server].origin,
                              .sent_us = w->now_us,
                              .run_us = w->now_us + rng_below(&w->r, fails(20) ? 1500000 : 30000)};
    w->f[i].reply_us = w->f[i].run_us + rng_below(&w->r, fails(20) ? 1500000 : 30000);
    return &w->f[i];
}

static void
run_record(struct flight *f, struct server *s)
{
    for (int i = 0; i < NAMES; i++) {
        if (name_slot[i] == f->send.slot) {
            if (!s->has[i] || (s->open[i] && s->d.record[i].number == 0)) {
                f->reply_lost = true; /* an error */
            } else {
                TRACE(i, "record by %u at server %u mode %d %" PRIu64 " was %" PRIu64, f->who, f->server, f->send.mode,
                      f->send.number, s->d.record[i].number);
                f->record = aw_record_run(&s->d.record[i], f->send.number, f->send.mode, w->now_us);
            }
        }
    }
}

static void
run_verb(struct flight *f, struct server *s)
{
    char word[32] = "";
    int *owner = &s->d.owner[f->name];

    if (!s->has[f->name] || s->open[f->name]) {
        f->outcome = 3;
        return;
    }
    if (s->d.record[f->name].number != 0 && !s->d.record[f->name].spoiled) {
        record_value(s->d.record[f->name].number, s->d.record[f->name].grants, word);
    }
    TRACE(f->name, "run %s by %u at server %u: word '%s' is '%s' owner %d",
          f->type == F_ACQUIRE ? "acquire" : "reclaim", f->who, f->server, f->word, word, *owner);
    if (strcmp(word, f->word) != 0) {
        f->outcome = 2;
    } else if (*owner >= 0 && *owner != (int)f->who) {
        f->outcome = 0;
    } else {
        *owner = (int)f->who;
        f->outcome = 1;
    }
}

static void
flight_run(struct flight *f)
{
    struct server *s = &w->server[f->server];

    f->ran = true;
    if (f->lost || !reaches(f->who, f->server) || s->origin != f->origin) {
        f->reply_lost = true;
        return;
    }
    switch (f->type) {
    case F_REGISTER:
        f->answer = mem_zalloc(sizeof(*f->answer));
        aw_register(&s->d.anchor[f->send.anchor], s->origin, f->who, &f->id, &f->m, w->now_us, f->answer);
        w->cleared += f->answer->a.status != ANCHOR_VOTES;
        break;
    case F_NODE:
        f->node = (struct node_answer){
            .time_us = w->now_us, .master = true, .origin = s->origin + s->epoch, .config_epoch = s->epoch};
        memcpy(f->node.id, s->id, sizeof(s->id));
        ranges_of_server(s, f);
        break;
    case F_RECORD:
        run_record(f, s);
        break;
    case F_ACQUIRE:
    case F_RECLAIM:
        run_verb(f, s);
        break;
    }
}

/* ---- locks ---- */

static void
no_other_holds(unsigned who, unsigned name)
{
    for (unsigned i = 0; i < DAEMONS; i++) {
        const struct hold *h = &w->p[i].hold[name];

        ck_assert_msg(i == who || !h->held || h->deadline_us <= w->now_us,
                      "name %u granted to %u at %lld, and %u has it until %lld", name, who, (long long)w->now_us, i,
                      (long long)h->deadline_us);
    }
}

static int64_t
deadline(unsigned who, int64_t sent_us)
{
    int64_t bound_us = generations_bound_us(w->p[who].g), until_us = sent_us + LEASE_US - LEASE_US / 100 - 2000;

    return bound_us < until_us ? bound_us : until_us;
}

static void
verb_done(struct flight *f, bool answered)
{
    struct person *p = &w->p[f->who];
    struct hold *h = &p->hold[f->name];
    uint16_t slot = name_slot[f->name];
    struct slot_state st;
    int64_t until_us = deadline(f->who, f->sent_us);

    h->busy = false;
    if (!answered) {
        return;
    }
    generations_slot_state(p->g, slot, p->node[f->server], w->now_us, &st);
    if (f->outcome == 2) {
        generations_record_differs(p->g, slot);
    } else if (f->outcome == 3) {
        generations_slot_opened(p->g, slot, p->node[f->server], w->now_us);
    } else if (st.number != f->number) {
        return; /* about data that may be lost */
    } else if (f->type == F_ACQUIRE && f->outcome == 1 && !h->held && until_us > w->now_us) {
        TRACE(f->name, "granted to %u in %" PRIu64, f->who, f->number);
        no_other_holds(f->who, f->name);
        *h = (struct hold){.held = true, .deadline_us = until_us};
        w->grants++;
    } else if (f->type == F_RECLAIM && h->held && h->needs == f->number) {
        if (f->outcome == 1 && h->deadline_us > w->now_us) {
            h->deadline_us = until_us > h->deadline_us ? until_us : h->deadline_us;
            w->reclaims++;
        } else {
            h->held = false;
            w->losses++;
        }
        p->tell[f->name] = h->needs;
        h->needs = 0;
    }
}

static void
flight_end(struct flight *f, bool answered)
{
    struct person *p = &w->p[f->who];

    switch (f->type) {
    case F_REGISTER:
        generations_anchor_answered(p->g, f->send.anchor, answered ? &f->answer->a : NULL, f->sent_us, w->now_us);
        aw_message_free(&f->m);
        break;
    case F_NODE:
        (void)generations_node_answered(p->g, f->send.node, answered ? &f->node : NULL, f->sent_us, w->now_us);
        break;
    case F_RECORD:
        generations_record_answered(p->g, &f->send, answered ? &f->record : NULL);
        break;
    case F_ACQUIRE:
    case F_RECLAIM:
        verb_done(f, answered);
        break;
    }
    free(f->answer);
    *f = (struct flight){.is = false};
}

static void
flights_go_on(void)
{
    for (unsigned i = 0; i < FLIGHTS; i++) {
        struct flight *f = &w->f[i];
        bool late = f->is && w->now_us - f->sent_us >= TIMEOUT_US;

        if (f->is && !f->ran && f->run_us <= w->now_us) {
            flight_run(f);
        }
        if (!f->is || w->p[f->who].paused_us > w->now_us) {
            continue;
        }
        if (f->ran && !f->reply_lost && f->reply_us <= w->now_us && f->reply_us - f->sent_us < TIMEOUT_US) {
            flight_end(f, true);
        } else if (late && f->ran) { /* a message that runs late has run by now */
            flight_end(f, false);
        }
    }
}

/* ---- daemons ---- */

static void
on_tell(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    struct person *p = ctx;

    for (int i = 0; news == GENERATION_NEW && i < NAMES; i++) {
        if (name_slot[i] == slot) {
            p->hold[i].needs = p->hold[i].held ? number : 0;
            p->tell[i] = p->hold[i].held ? 0 : number;
            TRACE(i, "new to %u: %" PRIu64, (unsigned)(p - w->p), number);
            w->news++;
        }
    }
}

static void
pump(unsigned who)
{
    struct person *p = &w->p[who];
    struct generation_send out;

    for (;;) {
        int server = -1;
        struct flight *f;

        generations_next(p->g, w->now_us, &out);
        if (out.type == SEND_NOTHING) {
            return;
        }
        if (out.type == SEND_REGISTER) {
            server = server_of_shard(who, out.anchor);
        } else {
            for (unsigned i = 0; i < w->servers_n; i++) {
                server = p->linked[i] && p->node[i] == out.node && reaches(who, i) ? (int)i : server;
            }
        }
        f = flight_new(out.type == SEND_REGISTER ? F_REGISTER : out.type == SEND_NODE ? F_NODE : F_RECORD, who,
                       server);
        f->send = out;
        if (out.type == SEND_REGISTER) {
            uint16_t node = server >= 0 ? p->node[server] : GENERATION_NODES_MAX;

            aw_message_copy(&f->m, generations_message(p->g, out.anchor, node));
            f->id = (struct anchor_identity){.lease_us = LEASE_US};
        }
    }
}

static void
connect_all(unsigned who)
{
    struct person *p = &w->p[who];

    for (unsigned i = 0; i < w->servers_n; i++) {
        bool now = reaches(who, i);

        if (now != p->linked[i]) {
            p->node[i] = generations_node_index(p->g, w->server[i].id);
            generations_node_lost(p->g, p->node[i], w->now_us);
            p->linked[i] = now;
        }
    }
}

static void
send_verb(unsigned who, unsigned name, enum flight_type type)
{
    struct person *p = &w->p[who];
    int server = server_of_name(who, name);
    struct slot_state st;
    struct flight *f;

    if (server < 0) {
        return;
    }
    generations_slot_state(p->g, name_slot[name], p->node[server], w->now_us, &st);
    if (st.may != SLOT_GRANTS && (type == F_ACQUIRE || st.may != SLOT_RECLAIMS)) {
        return;
    }
    p->hold[name].busy = true;
    f = flight_new(type, who, server);
    f->name = name;
    f->number = st.number;
    snprintf(f->word, sizeof(f->word), "%s", st.value);
}

/* A renewal finds its owner, or does nothing; it needs no record. It runs at once, as only the bound is tested here. */
static void
renew(unsigned who, unsigned name)
{
    struct hold *h = &w->p[who].hold[name];

    for (unsigned i = 0; i < w->servers_n; i++) {
        int64_t until_us = deadline(who, w->now_us);

        if (reaches(who, i) && w->server[i].has[name] && w->server[i].d.owner[name] == (int)who &&
            until_us > h->deadline_us) {
            h->deadline_us = until_us;
        }
    }
}

static void
act(unsigned who, unsigned name)
{
    struct person *p = &w->p[who];
    struct hold *h = &p->hold[name];
    int server = server_of_name(who, name);

    if (h->held && h->deadline_us <= w->now_us) {
        h->held = false;
        TRACE(name, "lost by %u: deadline", who);
        p->tell[name] = h->needs != 0 ? h->needs : p->tell[name];
        h->needs = 0;
        w->losses++;
    }
    if (h->busy) {
        return;
    }
    if (h->held && h->needs != 0) {
        send_verb(who, name, F_RECLAIM);
    } else if (h->held && !w->keeps && chance(250) && server >= 0) {
        w->server[server].d.owner[name] = -1;
        h->held = false;
    } else if (h->held) {
        renew(who, name);
    } else if (chance(3)) {
        send_verb(who, name, F_ACQUIRE);
    }
}

static void
daemon_step(unsigned who)
{
    struct person *p = &w->p[who];

    if (p->paused_us > w->now_us) {
        return;
    }
    connect_all(who);
    for (unsigned i = 0; i < NAMES; i++) {
        act(who, i);
    }
    for (unsigned i = 0; i < NAMES; i++) {
        uint64_t number = p->tell[i];

        p->tell[i] = 0;
        if (number != 0) {
            TRACE(i, "reclaimed by %u in %" PRIu64, who, number);
            generations_reclaimed(p->g, name_slot[i], number);
        }
    }
    pump(who);
}

/* ---- faults ---- */

/*
 * A master that is cut off stops within the cluster's node timeout, which is at most half a lease; and of three masters
 * no two are replaced at the same time: so at most one old master serves.
 */
static void
failover(unsigned shard)
{
    struct server *old = &w->server[w->master[shard]];
    int is = w->master[shard];

    if (w->servers_n == SERVERS) {
        return;
    }
    for (unsigned i = 0; i < w->servers_n; i++) {
        w->server[i].there = w->server[i].there && !w->server[i].old;
    }
    w->master[shard] = (int)server_new(shard, &w->snapshot[shard], old->has);
    old->old = true;
    old->dies_us = w->now_us + rng_below(&w->r, OLD_US);
    for (unsigned i = 0; i < DAEMONS; i++) {
        bool stays = chance(3), alone = stays && chance(2); /* alone: it reaches only the old master */

        w->p[i].cut[is] = w->p[i].cut[is] || !stays;
        w->p[i].cut[w->master[shard]] = alone || (stays && chance(2)) || (!stays && chance(6));
        for (unsigned k = 0; alone && k < SHARDS; k++) {
            w->p[i].cut[w->master[k]] = true;
        }
    }
    for (int i = 0; i < NAMES; i++) {
        w->moving[i] = w->moving[i] == is || old->open[i] ? -1 : w->moving[i];
    }
    w->failovers++;
    TRACE(-1, "failover of shard %u: server %d to %d", shard, is, w->master[shard]);
    for (unsigned i = 0; i < DAEMONS; i++) {
        TRACE(-1, "  %u: cut from old %d, from new %d", i, w->p[i].cut[is], w->p[i].cut[w->master[shard]]);
    }
}

static void
move_step(unsigned name)
{
    int from = -1, to = w->moving[name];
    struct server *a, *b;

    for (unsigned i = 0; i < SHARDS; i++) {
        from = w->server[w->master[i]].has[name] ? w->master[i] : from;
    }
    if (from < 0) {
        return;
    }
    a = &w->server[from];
    if (to < 0) {
        to = w->master[rng_below(&w->r, SHARDS)];
        if (to != from) {
            w->moving[name] = to;
            a->open[name] = true;
            w->opened_us[name] = w->now_us;
        }
        return;
    }
    b = &w->server[to];
    TRACE(name, "move step %d -> %d", from, to);
    switch (rng_below(&w->r, 6)) {
    case 0:
        b->d.owner[name] = a->d.owner[name];
        a->d.owner[name] = -1;
        break;
    case 1:
        b->d.record[name] = a->d.record[name];
        a->d.record[name] = (struct aw_record){0, false, false};
        break;
    case 2: /* the move is cancelled, and moved keys are lost; after a beat, so that some daemon has seen it open */
        if (w->now_us - w->opened_us[name] < SEEN_US) {
            break;
        }
        a->open[name] = false;
        w->moving[name] = -1;
        w->cancels++;
        TRACE(name, "move given up");
        break;
    case 3: /* all keys that are left move now */
        if (a->d.owner[name] >= 0) {
            b->d.owner[name] = a->d.owner[name];
        }
        if (a->d.record[name].number != 0) {
            b->d.record[name] = a->d.record[name];
        }
        a->d.owner[name] = -1;
        a->d.record[name] = (struct aw_record){0, false, false};
        a->has[name] = a->open[name] = false;
        b->has[name] = true;
        b->epoch = ++w->serial;
        w->moving[name] = -1;
        w->moves++;
        TRACE(name, "moved to %d", to);
        break;
    default:
        break;
    }
}

static void
fault(void)
{
    unsigned shard = rng_below(&w->r, SHARDS), who = rng_below(&w->r, DAEMONS);
    struct server *s = &w->server[w->master[shard]];

    switch (rng_below(&w->r, 12)) {
    case 0:
        failover(shard);
        break;
    case 1:
        data_clear(&s->d);
        w->flushes++;
        TRACE(-1, "flush of server %d", w->master[shard]);
        break;
    case 2:
        s->origin = rng_next(&w->r);
        s->d = w->snapshot[shard];
        for (unsigned i = 0; i < DAEMONS; i++) {
            w->p[i].linked[w->master[shard]] = false; /* connects anew */
        }
        w->restarts++;
        TRACE(-1, "restart of server %d", w->master[shard]);
        break;
    case 3:
        w->p[who].paused_us = w->now_us + rng_below(&w->r, 14000000);
        break;
    case 4:
        w->p[who].cut[w->master[shard]] = true;
        break;
    case 5:
    case 6:
        for (unsigned i = 0; i < SHARDS; i++) {
            w->p[who].cut[w->master[i]] = false;
        }
        break;
    default:
        move_step((unsigned)w->name_now);
        w->name_now = chance(6) ? (int)rng_below(&w->r, NAMES) : w->name_now;
        break;
    }
}

static void
time_passes(void)
{
    w->now_us += 1 + rng_below(&w->r, w->healed ? 5000 : chance(8) ? 400000 : 20000);
    for (unsigned i = 0; i < w->servers_n; i++) {
        struct server *s = &w->server[i];

        s->there = s->there && (!s->old || s->dies_us > w->now_us);
    }
    if (chance(60)) { /* of the replica */
        unsigned shard = rng_below(&w->r, SHARDS);

        w->snapshot[shard] = w->server[w->master[shard]].d;
    }
}

static void
world_new(int seed)
{
    static const bool none[NAMES];

    w = mem_zalloc(sizeof(*w));
    w->r = rng_of(seed);
    w->now_us = 1000 * US_PER_S;
    for (unsigned i = 0; i < SHARDS; i++) {
        bool has[NAMES] = {false};

        data_clear(&w->snapshot[i]);
        for (int k = 0; k < NAMES; k++) {
            has[k] = in_shard(name_slot[k], i);
        }
        w->master[i] = (int)server_new(i, &w->snapshot[i], none);
        memcpy(w->server[i].has, has, sizeof(has));
    }
    for (int i = 0; i < NAMES; i++) {
        w->moving[i] = -1;
    }
    for (unsigned i = 0; i < DAEMONS; i++) {
        struct anchor_identity id = {.nonce = i + 1, .lease_us = LEASE_US};

        w->p[i].g = generations_new(&id, rng_next(&w->r), on_tell, &w->p[i]);
    }
}

static void
world_free(void)
{
    for (unsigned i = 0; i < FLIGHTS; i++) {
        if (w->f[i].is) {
            flight_end(&w->f[i], false);
        }
    }
    for (unsigned i = 0; i < DAEMONS; i++) {
        generations_free(&w->p[i].g);
    }
    free(w);
}

static void
run_for(int64_t us, unsigned faults_one_in)
{
    int64_t end_us = w->now_us + us;

    while (w->now_us < end_us) {
        time_passes();
        flights_go_on();
        for (unsigned i = 0; i < DAEMONS; i++) {
            daemon_step(i);
        }
        if (faults_one_in > 0 && chance(faults_one_in)) {
            fault();
        }
    }
}

static void
on_nothing(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    (void)news;
    (void)slot;
    (void)number;
}

static void
heal(void)
{
    w->healed = true;
    for (unsigned i = 0; i < DAEMONS; i++) {
        memset(w->p[i].cut, 0, sizeof(w->p[i].cut));
        w->p[i].paused_us = 0;
    }
    for (unsigned i = 0; i < w->servers_n; i++) {
        memset(w->server[i].open, 0, sizeof(w->server[i].open));
        w->server[i].there = w->server[i].there && !w->server[i].old;
    }
    for (int i = 0; i < NAMES; i++) {
        w->moving[i] = -1;
    }
}

static void
all_grant(void)
{
    for (unsigned d = 0; d < DAEMONS; d++) {
        for (unsigned i = 0; i < NAMES; i++) {
            int server = server_of_name(d, i);
            struct slot_state st;

            if (server < 0) {
                continue; /* its slot has gone with a master that had given it away */
            }
            generations_slot_state(w->p[d].g, name_slot[i], w->p[d].node[server], w->now_us, &st);
            ck_assert_msg(st.may == SLOT_GRANTS, "daemon %u, name %u: %s", d, i,
                          st.why != NULL ? st.why : "reclaims");
        }
    }
}

/* ---- single faults ---- */

static void
quiet_world(void)
{
    world_new(7);
    w->healed = true;
    run_for(3 * US_PER_S, 0);
    all_grant();
}

static bool
grants(unsigned who, unsigned name)
{
    int server = server_of_name(who, name);
    struct slot_state st;

    generations_slot_state(w->p[who].g, name_slot[name], w->p[who].node[server], w->now_us, &st);
    return st.may == SLOT_GRANTS;
}

/* The old master has gone, and all daemons reach the new one. */
static void
promote(unsigned shard)
{
    int old = w->master[shard];

    failover(shard);
    w->server[old].there = false;
    for (unsigned i = 0; i < DAEMONS; i++) {
        memset(w->p[i].cut, 0, sizeof(w->p[i].cut));
    }
    w->now_us += US_PER_S / 2;
}

START_TEST(a_healthy_fleet_waits_for_an_exchange)
{
    quiet_world();
    promote(0);
    run_for(US_PER_S, 0);
    all_grant();
    world_free();
}
END_TEST

START_TEST(the_silent_are_waited_for_a_lease)
{
    int64_t silent_us;

    quiet_world();
    silent_us = w->now_us;
    w->p[2].paused_us = INT64_MAX;
    promote(0);
    while (w->now_us - silent_us < LEASE_US - 3 * US_PER_S) {
        run_for(US_PER_S / 10, 0);
        ck_assert(!grants(0, 0) && !grants(1, 1));
    }
    run_for(6 * US_PER_S, 0); /* the daemons learn of the end at a beat */
    ck_assert(grants(0, 0) && grants(1, 1));
    world_free();
}
END_TEST

/* R2: the daemon reaches the old master alone, which renews its lock each time that it asks. */
START_TEST(a_daemon_shut_in_with_an_old_master_ends_alone)
{
    int old, others = 0;

    quiet_world();
    old = w->master[0];
    while (!w->p[1].hold[0].held) {
        run_for(US_PER_S / 10, 0);
    }
    w->keeps = true;
    failover(0);
    w->server[old].dies_us = INT64_MAX;
    for (unsigned i = 0; i < DAEMONS; i++) {
        w->p[i].cut[old] = i != 1;
        w->p[i].cut[w->master[0]] = w->p[i].cut[w->master[1]] = w->p[i].cut[w->master[2]] = i == 1;
    }
    data_clear(&w->server[w->master[0]].d);
    run_for(LEASE_US + 5 * US_PER_S, 0);
    ck_assert(!w->p[1].hold[0].held);
    others = w->p[0].hold[0].held + w->p[2].hold[0].held;
    ck_assert_int_eq(others, 1); /* one of them got it, as soon as no_other_holds() allows */
    world_free();
}
END_TEST

/* R5: the daemon holds a lock, and does not reach the new master to reclaim it: the others wait for its deadline. */
START_TEST(a_daemon_cut_off_from_the_new_master_is_waited_for)
{
    int64_t deadline_us;

    quiet_world();
    while (!w->p[1].hold[0].held) {
        run_for(US_PER_S / 10, 0);
    }
    w->keeps = true;
    promote(0);
    w->p[1].cut[w->master[0]] = true;
    data_clear(&w->server[w->master[0]].d);
    run_for(US_PER_S / 10, 0);
    deadline_us = w->p[1].hold[0].deadline_us;
    ck_assert_int_gt(deadline_us, w->now_us + LEASE_US / 2);
    while (w->now_us < deadline_us - US_PER_S / 10) {
        run_for(US_PER_S / 20, 0);
        ck_assert(!grants(0, 0) && !grants(2, 0));
        ck_assert_int_eq(w->p[1].hold[0].deadline_us, deadline_us);
    }
    run_for(5 * US_PER_S, 0); /* two beats and a second; it still registers, at two anchors */
    ck_assert(!w->p[1].hold[0].held);
    ck_assert_int_eq(w->p[0].hold[0].held + w->p[2].hold[0].held, 1);
    world_free();
}
END_TEST

/* R7: after the loss of one anchor all members are known again in a beat or two; of two or three, in 1.5 leases. */
START_TEST(anchors_are_flushed)
{
    quiet_world();
    for (int i = 0; i <= _i; i++) {
        data_clear(&w->server[w->master[i]].d);
    }
    run_for(_i == 0 ? 5 * US_PER_S : US_PER_S, 0);
    ck_assert(_i == 2 || grants(0, 4));
    if (_i > 0) {
        run_for(8 * US_PER_S, 0);
        ck_assert(!grants(0, 2) && !grants(0, 4));
        run_for(LEASE_US + LEASE_US / 2 - 5 * US_PER_S, 0);
    }
    all_grant();
    world_free();
}
END_TEST

/* A cluster without earlier members waits for none. */
START_TEST(a_new_cluster_grants_at_once)
{
    world_new(7);
    w->healed = true;
    run_for(US_PER_S, 0);
    all_grant();
    world_free();
}
END_TEST

/* A change during a registration is sent when that is answered, and not a beat later. */
START_TEST(changes_during_a_registration_are_sent_at_once)
{
    const struct anchor_identity who = {.uuid = "one", .nonce = 1, .lease_us = LEASE_US};
    const struct anchor_answer votes = {.time_us = 1, .status = ANCHOR_VOTES, .birth = 1};
    struct generations *g = generations_new(&who, 1, on_nothing, NULL);
    struct generation_send send;
    int64_t now_us = US_PER_S;

    for (unsigned i = 0; i < ANCHORS; i++) {
        generations_next(g, now_us, &send);
        ck_assert_int_eq(send.type, SEND_REGISTER);
        ck_assert(!generations_message(g, send.anchor, GENERATION_NODES_MAX)->leaving);
    }
    generations_leave(g);
    now_us += US_PER_S / 50;
    for (unsigned i = 0; i < ANCHORS; i++) {
        generations_anchor_answered(g, i, &votes, US_PER_S, now_us);
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        generations_next(g, now_us, &send);
        ck_assert_int_eq(send.type, SEND_REGISTER);
        ck_assert(generations_message(g, send.anchor, GENERATION_NODES_MAX)->leaving);
        generations_anchor_answered(g, i, &votes, now_us, now_us);
    }
    generations_next(g, now_us + US_PER_S / 50, &send);
    ck_assert_int_eq(send.type, SEND_NOTHING);
    generations_free(&g);
}
END_TEST

/* Three anchors are new: when the first one votes, the messages to the others still report that all are new. */
START_TEST(new_anchors_vote_one_behind_the_other)
{
    const struct anchor_identity who = {.uuid = "one", .nonce = 1, .lease_us = LEASE_US};
    struct anchor_answer new = {.time_us = 1, .status = ANCHOR_ABSTAINS, .is_new = true, .birth = 7};
    struct anchor_answer votes = {.time_us = 1, .status = ANCHOR_VOTES, .birth = 7};
    struct generations *g = generations_new(&who, 1, on_nothing, NULL);

    for (unsigned i = 0; i < ANCHORS; i++) {
        ck_assert(!generations_message(g, i, GENERATION_NODES_MAX)->all_new);
        generations_anchor_answered(g, i, &new, US_PER_S, US_PER_S);
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        ck_assert(generations_message(g, i, GENERATION_NODES_MAX)->all_new);
        generations_anchor_answered(g, i, &votes, US_PER_S, US_PER_S);
    }
    generations_free(&g);
}
END_TEST

/*
 * R7: an anchor wants the lists of both others. One list comes at once, and the other after the anchor's next answers,
 * which for a while report that it abstains, and not that it wants lists.
 */
START_TEST(lists_are_brought_though_one_is_late)
{
    const struct anchor_identity who = {.uuid = "one", .nonce = 1, .lease_us = LEASE_US};
    struct anchor_answer votes = {.time_us = 1, .status = ANCHOR_VOTES, .birth = 7};
    struct anchor_answer abstains = {.time_us = 1, .status = ANCHOR_ABSTAINS, .birth = 8};
    struct anchor_answer wants = {.time_us = 1, .status = ANCHOR_WANTS_LISTS, .birth = 8};
    struct generations *g = generations_new(&who, 1, on_nothing, NULL);

    for (unsigned i = 0; i < ANCHORS; i++) {
        (void)generations_message(g, i, GENERATION_NODES_MAX);
        generations_anchor_answered(g, i, i == 0 ? &wants : &votes, US_PER_S, US_PER_S);
    }
    votes.list = slice_of("two 1000|");
    ck_assert(generations_message(g, 1, GENERATION_NODES_MAX)->asks_list);
    ck_assert(generations_message(g, 2, GENERATION_NODES_MAX)->asks_list);
    generations_anchor_answered(g, 1, &votes, US_PER_S, US_PER_S);
    ck_assert_uint_eq(generations_message(g, 0, GENERATION_NODES_MAX)->lists[0].n, 0);
    generations_anchor_answered(g, 0, &abstains, US_PER_S, US_PER_S);
    generations_anchor_answered(g, 2, &votes, US_PER_S, US_PER_S);
    for (int times = 2; times > 0; times--) { /* again only if the anchor wants the lists again */
        ck_assert_uint_eq(generations_message(g, 0, GENERATION_NODES_MAX)->lists[0].n, times == 2 ? votes.list.n : 0);
        generations_anchor_answered(g, 0, &abstains, US_PER_S, US_PER_S);
    }
    generations_free(&g);
}
END_TEST

/*
 * All anchors are on this node; those in `answering` answer, the second and third with this epoch of the first's node.
 */
static void
registered(struct generations *g, uint16_t node, int64_t now_us, unsigned answering, uint64_t owner_of_0)
{
    struct anchor_answer votes = {.time_us = 1, .status = ANCHOR_VOTES, .birth = 1};
    struct generation_send send;

    for (unsigned n = 0; n < ANCHORS; n += send.type == SEND_REGISTER) {
        generations_next(g, now_us, &send);
        ck_assert_int_ne(send.type, SEND_NOTHING);
        if (send.type == SEND_REGISTER) {
            (void)generations_message(g, send.anchor, node);
        }
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        bool answers = (answering & 1u << i) != 0;

        votes.owner_epoch[0] = i == 0 ? 0 : owner_of_0;
        generations_anchor_answered(g, i, answers ? &votes : NULL, now_us, now_us);
    }
}

static void
node_answers(struct generations *g, uint16_t node, uint64_t epoch, int64_t now_us)
{
    struct node_answer a = {.time_us = 1, .master = true, .origin = 1, .config_epoch = epoch, .id = "id"};

    ck_assert(generations_node_answered(g, node, &a, now_us, now_us));
}

/* R2: another node has the anchor's slot by now: earlier and later answers of this node move no deadline. */
START_TEST(an_old_master_of_an_anchor_does_not_count)
{
    const struct anchor_identity who = {.uuid = "one", .nonce = 1, .lease_us = LEASE_US};
    static const char id[NODE_ID_ROOM] = "id";
    struct generations *g = generations_new(&who, 1, on_nothing, NULL);
    uint16_t node = generations_node_index(g, id);
    int64_t now_us = US_PER_S, bound_us;

    node_answers(g, node, 5, now_us);
    registered(g, node, now_us, 7, 5);
    bound_us = generations_bound_us(g);
    ck_assert_int_gt(bound_us, now_us);
    now_us += 3 * US_PER_S;
    registered(g, node, now_us, 3, 6); /* the second anchor knows it, after the first one has answered */
    ck_assert_int_eq(generations_bound_us(g), bound_us);
    now_us += 3 * US_PER_S;
    registered(g, node, now_us, 3, 0);
    ck_assert_int_eq(generations_bound_us(g), bound_us);
    ck_assert(!generations_anchor_is_low(g, 0, now_us + 2 * US_PER_S));
    ck_assert(generations_anchor_is_low(g, 0, now_us + 6 * US_PER_S));
    ck_assert(!generations_anchor_is_low(g, 1, now_us + 6 * US_PER_S));
    node_answers(g, node, 6, now_us);
    now_us += 3 * US_PER_S;
    registered(g, node, now_us, 3, 0);
    ck_assert_int_gt(generations_bound_us(g), bound_us);
    ck_assert(!generations_anchor_is_low(g, 0, now_us + 60 * US_PER_S));
    generations_free(&g);
}
END_TEST

static void
run_schedule(int seed)
{
    world_new(seed);
    run_for(120 * US_PER_S, 60);
    heal();
    run_for(3 * LEASE_US, 0);
    all_grant();
    ck_assert_uint_gt(w->grants, 0);
    ck_assert_uint_gt(w->failovers + w->flushes + w->restarts, 0);
    ck_assert_uint_gt(w->news, DAEMONS * NAMES);
    ck_assert_uint_gt(w->cleared, 0);
    world_free();
}

START_TEST(no_schedule_gives_a_name_to_two)
{
    run_schedule(_i);
}
END_TEST

/* Seeds that show what opens and closes a slot (R945); few seeds do. */
START_TEST(schedules_of_open_slots)
{
    static const int seed[] = {84, 159, 374, 423, 524, 564};

    run_schedule(seed[_i]);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("generations");
    TCase *t = tcase_create("all");
    const char *most = getenv("GENERATIONS_SEEDS"), *only = getenv("RLOCKD_SEED");
    int first = only != NULL ? atoi(only) : 0;

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, no_schedule_gives_a_name_to_two, first,
                         only != NULL ? first + 1 : rng_seeds(most != NULL ? atoi(most) : 40));
    tcase_add_loop_test(t, schedules_of_open_slots, 0, rng_seeds(6));
    tcase_add_test(t, a_new_cluster_grants_at_once);
    tcase_add_test(t, changes_during_a_registration_are_sent_at_once);
    tcase_add_test(t, new_anchors_vote_one_behind_the_other);
    tcase_add_test(t, lists_are_brought_though_one_is_late);
    tcase_add_test(t, an_old_master_of_an_anchor_does_not_count);
    tcase_add_test(t, a_healthy_fleet_waits_for_an_exchange);
    tcase_add_test(t, the_silent_are_waited_for_a_lease);
    tcase_add_test(t, a_daemon_shut_in_with_an_old_master_ends_alone);
    tcase_add_test(t, a_daemon_cut_off_from_the_new_master_is_waited_for);
    tcase_add_loop_test(t, anchors_are_flushed, 0, rng_seeds(3));
    suite_add_tcase(s, t);
    return suite_run(s);
}
