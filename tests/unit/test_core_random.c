/*
 * test_core_random.c -- the core against a model of Redis, under faults, from a seed.
 *
 * Several daemons (cores) with many sessions share a few names on one model
 * Redis. Everything that the real world does to them happens here by dice:
 * links die with operations in flight, which then run late or never; wake-ups
 * get lost; daemons stall and then see everything at once; sessions vanish in
 * any state. After every step each core's own invariants are checked, and over
 * all daemons: at most one holder of a name, tokens that rise, one reply per
 * request. At the end the faults stop, everybody leaves, and nothing may be left.
 * Each kind of fault is counted; a run in which one never happened has shown nothing.
 *
 * RLOCKD_SEEDS=n runs n seeds instead of the default; RLOCKD_SEED=n just that one, told step by step.
 */
#include <assert.h>
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/core/view.h"

enum { DAEMONS = 3, SESSIONS = 6, NAMES = 4, SLOTS = 64 };
enum { TIMEOUT_US = 1000 * 1000, STEPS = 3000 };
enum fault { LINK_LOST, RAN_LATE, NEVER_RAN, REPLY_LOST, HINT_LOST, STALL, GONE_HOLDING, WAS_DOWN, FAULTS };
static const char *const fault_names[FAULTS] = {"link lost",  "ran late", "never ran",    "reply lost",
                                                "hint lost", "stall",    "gone holding", "was down"};

static const char *const verb_names[] = {[CORE_ACQUIRE] = "acquire", [CORE_EXTEND] = "extend",
                                         [CORE_RELEASE] = "release", [CORE_BREAK_KEY] = "break"};

struct world;

enum happening { OP_RUNS, OP_ANSWERED, HINTED, WATCHED };

/* Something on its way between a daemon and Redis. */
struct flight {
    struct heap_node node;
    enum happening what;
    int daemon;
    enum core_action_type verb;
    struct core_op op;
    char key[16];
    struct core_done done;
    unsigned link;  /* generation of the daemon's link it was sent on */
    bool zombie;    /* its link has died: it may run, but nobody hears of it */
    uint64_t lock;
};

struct rkey {
    bool exists;
    uint64_t owner; /* daemon << 32 | number; for the kind `simple` it stands for the value */
    uint32_t holds;
    int64_t expires_us;
    uint64_t last_token;
};

struct session {
    bool open, eof;
    uint64_t id, next_request;
    uint64_t waiting[SLOTS]; /* request ids without a reply; 0 = free */
    int held[NAMES];
};

struct node {
    struct core *core;
    struct world *world;
    struct metrics metrics;
    struct session session[SESSIONS];
    uint64_t watched[NAMES]; /* lock id; 0 = no */
    unsigned link;
    bool up;
    int64_t stalled_until_us, last_arrival_us[2];
};

struct world {
    uint64_t rng, seed;
    int64_t now_us;
    struct heap flights;
    size_t in_flight;
    struct node node[DAEMONS];
    struct rkey key[NAMES];
    uint64_t token;
    bool faults_on, traced;
    int leaving; /* no new requests */
    unsigned grants, faults[FAULTS];
};

static uint64_t
dice(struct world *w)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return w->rng;
}

static int64_t
upto(struct world *w, int64_t n)
{
    return (int64_t)(dice(w) % (uint64_t)n);
}

static bool
chance(struct world *w, int per_mille)
{
    return upto(w, 1000) < per_mille;
}

static bool
fault(struct world *w, enum fault f, int per_mille)
{
    bool hit = w->faults_on && chance(w, per_mille);

    w->faults[f] += hit;
    return hit;
}

static void __attribute__((format(printf, 3, 4)))
trace(const struct world *w, int d, const char *fmt, ...)
{
    va_list ap;

    if (w->traced) {
        fprintf(stderr, "\n%11.6f %d ", (double)w->now_us / 1e6 - 1000, d);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
    }
}

static int
name_index(struct slice name)
{
    return name.p[name.n - 1] - '0';
}

/* A row of kinds; the last name is the one that gets broken, so there two may believe that they hold it. */
enum { BROKEN = NAMES - 1 };

static enum kind
kind_of(int name)
{
    static const enum kind kinds[NAMES] = {KIND_REENTRANT, KIND_SIMPLE, KIND_COUNTER, KIND_REENTRANT};

    return kinds[name];
}

static struct flight *
launch(struct world *w, const struct flight *f, int64_t at_us)
{
    struct flight *copy = malloc(sizeof(*copy));

    assert(copy != NULL);
    *copy = *f;
    copy->node.pos = 0;
    assert(heap_reserve(&w->flights, ++w->in_flight));
    heap_set(&w->flights, &copy->node, at_us);
    return copy;
}

/* One step of a daemon, and what must be true after it. */
static void
step(struct world *w, int d, const struct core_event *ev)
{
    int holders;

    core_step(w->node[d].core, w->now_us, ev);
    core_check(w->node[d].core, w->now_us);
    for (int i = 0; i < BROKEN; i++) {
        char name[] = "name-0";

        name[5] = (char)('0' + i);
        holders = 0;
        for (int k = 0; k < DAEMONS; k++) {
            struct core_lock_view v;

            holders += core_lock_info(w->node[k].core, w->now_us, slice_of(name), &v) &&
                       strcmp(v.state, "held") == 0 && w->now_us < v.deadline_us;
        }
        ck_assert_msg(holders <= 1, "seed %llu: %d daemons say held: %s", (unsigned long long)w->seed, holders, name);
    }
}

/* ---- Redis ------------------------------------------------------------- */

static void
publish(struct world *w, int name)
{
    for (int d = 0; d < DAEMONS; d++) {
        struct flight f = {.what = HINTED, .daemon = d, .lock = w->node[d].watched[name], .link = w->node[d].link};

        if (f.lock != 0 && !fault(w, HINT_LOST, 200)) {
            launch(w, &f, w->now_us + 20 + upto(w, 500));
        }
    }
}

static int
listeners(const struct world *w, int name)
{
    int n = 0;

    for (int d = 0; d < DAEMONS; d++) {
        n += w->node[d].watched[name] != 0;
    }
    return n;
}

static bool
mine(const struct world *w, const struct flight *f, const struct rkey *k)
{
    if (!k->exists || w->now_us >= k->expires_us) {
        return false;
    }
    if (f->op.kind == KIND_COUNTER) {
        return f->op.stamp == k->expires_us;
    }
    return k->owner == ((uint64_t)f->daemon << 32 | f->op.owner);
}

static void
lengthen(struct world *w, const struct flight *f, struct rkey *k)
{
    int64_t at_us = w->now_us + f->op.lease_us;

    if (f->op.exact || at_us > k->expires_us) {
        k->expires_us = at_us;
    }
}

static void
redis_acquire(struct world *w, struct flight *f, struct rkey *k)
{
    struct core_done *d = &f->done;
    bool taken = k->exists && w->now_us < k->expires_us;
    bool same = mine(w, f, k) && f->op.kind != KIND_COUNTER;

    if (w->now_us > d->sent_us + TIMEOUT_US) {
        d->outcome = CORE_DOWN; /* the guard in the script */
    } else if (f->op.reentry && !same) {
        d->outcome = CORE_GONE_IN_REDIS;
    } else if (taken && !same) {
        d->outcome = CORE_TAKEN;
        d->pttl_us = k->expires_us - w->now_us;
    } else {
        uint64_t t = (uint64_t)w->now_us;

        if (!same) {
            k->expires_us = 0;
        }
        lengthen(w, f, k);
        k->exists = true;
        k->owner = (uint64_t)f->daemon << 32 | f->op.owner;
        k->holds = f->op.holds;
        if (!f->op.reentry) {
            t = t > w->token ? t : w->token + 1;
            w->token = t > f->op.token_floor ? t : f->op.token_floor + 1;
            d->token = w->token;
        }
        d->stamp = k->expires_us;
        d->outcome = CORE_OK;
    }
}

static void
redis_runs(struct world *w, struct flight *f)
{
    int name = name_index(f->op.key);
    struct rkey *k = &w->key[name];
    struct core_done *d = &f->done;

    d->outcome = CORE_OK;
    switch (f->verb) { /* below: what the scripts do */
    case CORE_ACQUIRE:
        redis_acquire(w, f, k);
        break;
    case CORE_EXTEND:
        if (f->op.exact && w->now_us > d->sent_us + TIMEOUT_US) {
            d->outcome = CORE_DOWN;
        } else if (mine(w, f, k)) {
            lengthen(w, f, k);
            d->stamp = k->expires_us;
        } else {
            d->outcome = CORE_GONE_IN_REDIS;
        }
        break;
    case CORE_RELEASE:
        if (!mine(w, f, k)) {
            d->outcome = CORE_GONE_IN_REDIS;
        } else if (f->op.holds > 0) {
            k->holds = f->op.holds;
            lengthen(w, f, k);
            d->stamp = k->expires_us;
        } else {
            k->exists = false;
            d->outsiders = listeners(w, name);
            publish(w, name);
        }
        break;
    default: /* BREAK_KEY */
        d->stamp = k->exists && w->now_us < k->expires_us;
        k->exists = false;
        publish(w, name);
        break;
    }
}

/* ---- the way there and back --------------------------------------------- */

static void
answer(struct world *w, struct flight *f, int64_t delay_us)
{
    f->what = OP_ANSWERED;
    launch(w, f, w->now_us + delay_us);
}

static void
op_runs(struct world *w, struct flight *f)
{
    redis_runs(w, f);
    trace(w, f->daemon, "%s%s runs: %s owner %d lease %lld -> outcome %d", f->zombie ? "late " : "", verb_names[f->verb],
          f->key, (int)f->op.owner, (long long)f->op.lease_us, f->done.outcome);
    if (f->zombie) {
        return;
    }
    if (fault(w, REPLY_LOST, 15)) {
        w->faults[REPLY_LOST]++;
        f->done.outcome = CORE_UNKNOWN;
        f->done.token = 0;
        f->done.stamp = 0;
        answer(w, f, f->done.sent_us + TIMEOUT_US - w->now_us > 0 ? f->done.sent_us + TIMEOUT_US - w->now_us : 0);
        return;
    }
    answer(w, f, 20 + upto(w, 400));
}

/* The link dies: what is on it is answered UNKNOWN now, and runs later, or never. */
static void
link_dies(struct world *w, int d)
{
    struct node *n = &w->node[d];
    struct flight *lost[256];
    size_t count = 0;

    n->link++;
    n->up = false;
    for (size_t i = 0; i < w->flights.count && count < 256; i++) {
        struct flight *f = container_of(w->flights.node[i], struct flight, node);

        if (f->daemon == d && f->what != HINTED && f->what != WATCHED && !f->zombie && f->link == n->link - 1) {
            lost[count++] = f;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct flight a = *lost[i];

        a.done.outcome = CORE_UNKNOWN;
        a.done.token = 0;
        a.done.stamp = 0;
        a.link = n->link;
        answer(w, &a, 10);
        if (lost[i]->what == OP_RUNS && fault(w, NEVER_RAN, 500)) {
            lost[i]->zombie = true;
            lost[i]->what = HINTED; /* comes to nothing */
            lost[i]->lock = 0;
        } else if (lost[i]->what == OP_RUNS) {
            lost[i]->zombie = true;
            heap_set(&w->flights, &lost[i]->node, w->now_us + upto(w, 1500 * US_PER_MS));
            w->faults[RAN_LATE]++;
        } else {
            lost[i]->what = HINTED; /* it ran; its answer is lost */
            lost[i]->lock = 0;
        }
    }
}

static void
sink(void *ctx, const struct core_action *a)
{
    struct node *n = ctx;
    struct world *w = n->world;
    struct flight f = {.daemon = (int)(n - w->node), .op = a->op, .verb = a->type, .link = n->link};
    int64_t at_us;

    if (a->type == CORE_REPLY) {
        const struct core_reply *r = &a->reply;

        for (int s = 0; s < SESSIONS; s++) {
            struct session *se = &n->session[s];

            if (se->open && se->id == r->session) {
                int i = 0;

                while (i < SLOTS && se->waiting[i] != r->id) {
                    i++;
                }
                ck_assert_msg(i < SLOTS, "a reply nobody waits for");
                se->waiting[i] = 0;
                if (r->answer == CORE_GRANTED) {
                    struct rkey *k = &w->key[name_index(r->name)];

                    ck_assert(r->token >= k->last_token || name_index(r->name) == BROKEN);
                    ck_assert(r->lease_us > 0);
                    k->last_token = r->token > k->last_token ? r->token : k->last_token;
                    se->held[name_index(r->name)]++;
                    w->grants++;
                }
                return;
            }
        }
        ck_abort_msg("a reply for a session that has gone");
    }
    if (a->type == CORE_PUBLISH) {
        trace(w, f.daemon, "news %d: %.*s owner %d %s", a->publish.news, (int)a->publish.name.n, a->publish.name.p,
              (int)a->publish.owner, a->publish.reason != NULL ? a->publish.reason : "");
        if (a->publish.news == CORE_NEWS_GRANTED) {
            struct rkey *k = &w->key[name_index(a->publish.name)];

            /* P1; the grant of a lock that was broken meanwhile may be heard of late */
            ck_assert_msg(a->publish.token > k->last_token || name_index(a->publish.name) == BROKEN,
                          "seed %llu: token did not rise", (unsigned long long)w->seed);
        }
        return;
    }
    memcpy(f.key, a->op.key.p, a->op.key.n);
    if (a->type == CORE_WATCH || a->type == CORE_UNWATCH) {
        n->watched[name_index(a->op.key)] = a->type == CORE_WATCH ? a->op.lock : 0;
        f.what = WATCHED;
        f.lock = a->op.lock;
        if (a->type == CORE_WATCH) {
            launch(w, &f, w->now_us + 50 + upto(w, 500));
        }
        return;
    }
    f.done = (struct core_done){.claim = a->op.claim, .op = a->op.op, .sent_us = w->now_us,
                                .guard_us = w->now_us + TIMEOUT_US, .outcome = CORE_DOWN};
    f.what = OP_RUNS;
    if (!n->up) {
        w->faults[WAS_DOWN]++;
        answer(w, &f, 5);
        return;
    }
    /* One link keeps the order of its commands; renewals have their own. */
    at_us = w->now_us + 20 + upto(w, w->faults_on && chance(w, 50) ? 900 * US_PER_MS : 300);
    if (at_us <= n->last_arrival_us[a->type == CORE_EXTEND]) {
        at_us = n->last_arrival_us[a->type == CORE_EXTEND] + 1;
    }
    n->last_arrival_us[a->type == CORE_EXTEND] = at_us;
    launch(w, &f, at_us);
}

static void
flight_lands(struct world *w, struct flight *f)
{
    struct core_event ev = {0};

    f->op.key = slice_of(f->key);
    if (f->what == OP_ANSWERED) {
        trace(w, f->daemon, "%s answered: %s owner %d outcome %d", verb_names[f->verb], f->key, (int)f->op.owner,
              f->done.outcome);
    }
    switch (f->what) {
    case OP_RUNS:
        if (!f->zombie && fault(w, LINK_LOST, 20)) {
            launch(w, f, w->now_us); /* it is under way when its link dies */
            link_dies(w, f->daemon);
        } else {
            op_runs(w, f);
        }
        return;
    case OP_ANSWERED:
        ev.type = CORE_DONE;
        ev.done = f->done;
        break;
    case HINTED:
    case WATCHED:
        if (f->lock == 0) {
            return;
        }
        ev.type = f->what == HINTED ? CORE_HINT : CORE_WATCHING;
        ev.lock = f->lock;
        break;
    }
    step(w, f->daemon, &ev);
}

/* ---- clients -------------------------------------------------------------- */

static void
session_ends(struct world *w, int d, struct session *s)
{
    struct core_event ev = {.type = CORE_GONE, .session = s->id};

    for (int i = 0; i < NAMES; i++) {
        w->faults[GONE_HOLDING] += s->held[i] > 0;
    }
    s->open = false; /* from now on a reply for it is an error */
    step(w, d, &ev);
    memset(s, 0, sizeof(*s));
}

static void
request(struct world *w, int d, struct session *s, enum core_event_type type, int name)
{
    static const char *const owners[] = {"", "", "", "alice", "bob"};
    static const int64_t waits[] = {0, 50 * US_PER_MS, 2 * US_PER_S, CORE_FOREVER};
    char text[] = "name-0";
    struct core_event ev = {.type = type};
    int i = 0;

    while (i < SLOTS && s->waiting[i] != 0) {
        i++;
    }
    if (i == SLOTS || s->eof) {
        return;
    }
    text[5] = (char)('0' + name);
    ev.request = (struct core_request){.session = s->id,
                                       .id = ++s->next_request,
                                       .name = slice_of(text),
                                       .owner = slice_of(owners[upto(w, 5)]),
                                       .wait_us = waits[upto(w, 4)],
                                       .lease_us = chance(w, 300) ? (1 + upto(w, 4)) * US_PER_S : 0,
                                       .once = chance(w, 200),
                                       .spec = {.kind = kind_of(name),
                                                .lease_us = 3 * US_PER_S,
                                                .owner_grace_us = US_PER_S,
                                                .place_grace_us = US_PER_S / 2,
                                                .key = slice_of(text)}};
    if (type == CORE_RENEW) {
        ev.request.lease_us = (1 + upto(w, 5)) * US_PER_S;
    }
    s->waiting[i] = s->next_request;
    step(w, d, &ev);
}

static void
client_acts(struct world *w)
{
    int d = (int)upto(w, DAEMONS), name = (int)upto(w, NAMES);
    struct session *s = &w->node[d].session[upto(w, SESSIONS)];
    struct core_event ev = {0};

    if (w->now_us < w->node[d].stalled_until_us) {
        return;
    }
    if (!s->open) {
        if (!w->leaving) {
            s->id = core_session_open(w->node[d].core);
            s->open = true;
        }
    } else if (w->leaving || chance(w, 30)) {
        session_ends(w, d, s);
    } else if (chance(w, 10) && !s->eof) {
        s->eof = true;
        ev.type = CORE_EOF;
        ev.session = s->id;
        step(w, d, &ev);
    } else if (chance(w, 500)) {
        request(w, d, s, CORE_LOCK, name);
    } else if (chance(w, 900)) {
        s->held[name] -= s->held[name] > 0;
        request(w, d, s, CORE_UNLOCK, name);
    } else if (chance(w, 800)) {
        request(w, d, s, CORE_RENEW, name);
    } else {
        request(w, d, s, CORE_BREAK, BROKEN);
    }
}

static void
nature_acts(struct world *w)
{
    int d = (int)upto(w, DAEMONS);
    struct node *n = &w->node[d];

    if (!n->up && (!w->faults_on || chance(w, 300))) {
        n->up = true;
    } else if (n->up && fault(w, LINK_LOST, 8)) {
        link_dies(w, d);
    } else if (fault(w, STALL, 3)) {
        n->stalled_until_us = w->now_us + upto(w, 6 * US_PER_S);
    }
}

/* ---- the run -------------------------------------------------------------- */

/* The next thing that happens to anybody, at the latest at until_us. A stalled daemon sees it when it wakes. */
static void
advance(struct world *w, int64_t until_us)
{
    for (;;) {
        struct heap_node *next = heap_min(&w->flights);
        int64_t at_us = next != NULL ? next->at_us : CORE_FOREVER;
        int timer = -1;

        for (int d = 0; d < DAEMONS; d++) {
            int64_t t = core_next_us(w->node[d].core);

            t = t < w->node[d].stalled_until_us ? w->node[d].stalled_until_us : t;
            if (t < at_us) {
                at_us = t;
                timer = d;
            }
        }
        if (at_us > until_us) {
            w->now_us = until_us > w->now_us ? until_us : w->now_us;
            return;
        }
        w->now_us = at_us > w->now_us ? at_us : w->now_us;
        if (timer >= 0) {
            struct core_event ev = {.type = CORE_TIME};

            step(w, timer, &ev);
            continue;
        }
        struct flight *f = container_of(next, struct flight, node);
        struct node *n = &w->node[f->daemon];

        if (f->what != OP_RUNS && w->now_us < n->stalled_until_us) {
            heap_set(&w->flights, &f->node, n->stalled_until_us);
            continue;
        }
        heap_remove(&w->flights, &f->node);
        w->in_flight--;
        flight_lands(w, f);
        free(f);
    }
}

static void
world_open(struct world *w, uint64_t seed)
{
    static const struct core_conf conf = {.op_timeout_us = TIMEOUT_US,
                                          .max_poll_us = US_PER_S,
                                          .handoff_time_us = 10 * US_PER_MS,
                                          .handoff_max = 8,
                                          .waiters_max = 1000,
                                          .locks_max = 100};
    struct hash_key key = {seed, ~seed};

    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    w->now_us = 1000 * US_PER_S;
    w->faults_on = true;
    heap_init(&w->flights);
    for (int d = 0; d < DAEMONS; d++) {
        struct node *n = &w->node[d];

        n->world = w;
        n->up = true;
        n->core = core_new(&conf, &key, &n->metrics, (struct core_sink){sink, n});
    }
}

static void
run(uint64_t seed, bool traced, unsigned faults[FAULTS], unsigned *grants)
{
    static struct world w;

    world_open(&w, seed);
    w.traced = traced;
    for (int i = 0; i < STEPS; i++) {
        client_acts(&w);
        nature_acts(&w);
        advance(&w, w.now_us + upto(&w, chance(&w, 20) ? 2 * US_PER_S : 2 * US_PER_MS));
    }
    w.faults_on = false;
    for (int i = 0; i < 200; i++) { /* the links come back, and everybody leaves */
        nature_acts(&w);
        advance(&w, w.now_us + 50 * US_PER_MS);
    }
    w.leaving = 1;
    for (int i = 0; i < 500; i++) {
        client_acts(&w);
    }
    advance(&w, w.now_us + 5 * US_PER_S); /* grace of named owners, sweeps */
    for (int i = 0; i < NAMES; i++) {
        /* A counter whose acquire went unanswered has no owner in Redis to be recognised by: it runs out instead. */
        bool left = w.key[i].exists && w.now_us < w.key[i].expires_us;

        ck_assert_msg(!left || kind_of(i) == KIND_COUNTER, "name %d is still locked in Redis", i);
    }
    for (int d = 0; d < DAEMONS; d++) {
        struct core_totals t = core_totals(w.node[d].core);

        ck_assert_msg(t.locks == 0 && t.owners == 0 && t.sessions == 0, "%d: %d locks, %d owners, %d sessions left", d,
                      (int)t.locks, (int)t.owners, (int)t.sessions);
        core_free(&w.node[d].core);
    }
    while (heap_min(&w.flights) != NULL) {
        struct flight *f = container_of(heap_min(&w.flights), struct flight, node);

        heap_remove(&w.flights, &f->node);
        free(f);
    }
    heap_fini(&w.flights);
    for (int i = 0; i < FAULTS; i++) {
        faults[i] += w.faults[i];
    }
    *grants += w.grants;
}

START_TEST(many_seeds)
{
    const char *one = getenv("RLOCKD_SEED"), *many = getenv("RLOCKD_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t last = one != NULL ? first : many != NULL ? strtoull(many, NULL, 10) : 300;
    unsigned faults[FAULTS] = {0}, grants = 0;

    for (uint64_t seed = first; seed <= last; seed++) {
        run(seed, one != NULL, faults, &grants);
    }
    fprintf(stderr, "%u grants", grants);
    for (int i = 0; i < FAULTS; i++) {
        fprintf(stderr, ", %s %u", fault_names[i], faults[i]);
        ck_assert_msg(one != NULL || faults[i] > 0, "never happened: %s", fault_names[i]);
    }
    fprintf(stderr, "\n");
    ck_assert_uint_gt(grants, 0);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("core, random");
    TCase *t = tcase_create("seeds");
    SRunner *r;
    int failed;

    tcase_set_timeout(t, 600);
    tcase_add_test(t, many_seeds);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
