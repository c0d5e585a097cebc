/*
 * test_core_random.c -- the core against a model of Redis (core_model.h), under faults, from a seed.
 *
 * Several daemons (cores) with many sessions share a few names on one model of Redis; dice choose the faults. After
 * every step each core checks its invariants, and the test checks over all daemons: at most one holder of a name (no
 * writer beside others, no more holders than permits), rising tokens, one reply per request, no DEADLOCK where a holder
 * could go on. At the end the faults stop, all sessions close, and nothing may be left. A run fails if one kind of
 * fault never happened.
 *
 * RLOCKD_SEEDS=n runs n seeds instead of the default; RLOCKD_SEED=n runs seed n alone, and prints each step.
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
#include "tests/unit/core_each.h"
#include "tests/unit/core_check.h"
#include "tests/unit/core_model.h"
#include "tests/unit/suite.h"

enum { DAEMONS = 3, SESSIONS = 6, NAMES = MODEL_NAMES, SLOTS = 64, MANY = 4, LIMIT = 2, DOMAINS = 3 };
enum { TIMEOUT_US = 1000 * 1000, STEPS = 3000 };
enum { GRACE_US = 6 * 1000 * 1000 }; /* longer than any lease that is requested */
enum fault {
    LINK_LOST, RAN_LATE, NEVER_RAN, REPLY_LOST, HINT_LOST, STALL, GONE_HOLDING, WAS_DOWN, BROADCAST_LOST,
    BROADCAST_TWICE, ONE_CALLED, CRASHED, CRASHED_INSIDE, DATA_LOST, PROBE_LOST, TOO_FEW, FAULTS
};
static const char *const fault_names[FAULTS] = {"link lost", "ran late",     "never ran", "reply lost",
                                                "hint lost", "stall",        "gone holding", "was down",
                                                "broadcast lost", "broadcast twice",   "one called", "crashed",
                                                "crashed inside a step", "data lost",    "poll lost",
                                                "too few replicas"};

/* Situations that must have come about. */
enum sight {
    READERS, DOWNGRADED, PERMITS_OUT, TICKET_BESIDE_A_HOLD, TICKET_RENEWED, TICKETS_TAKEN, TICKETS_LOST, TICKETS_BACK,
    STALE_HEADS, BUNDLE, BUNDLE_FAILED, BUNDLE_LOST, PARTS_NOT_HELD, BROKE_SEVERAL, DEADLOCK, DEADLOCK_OF_MANY,
    DEADLOCK_ELSEWHERE, RESTORED_HELD, RESTORED_POSITIONS, RESTORED_RELEASED, RESTORED_LOST, RECLAIMED, REFUSED,
    GRACE_TIMED_OUT,
    POLLED_OTHERS, ASKED_TOGETHER, ASKED_BEHIND, DOMAIN_LOST, GRANTED_BESIDE_A_GRACE, HELD_BESIDE_A_LOSS, SIGHTS
};
static const char *const sight_names[SIGHTS] = {
    "readers", "downgraded", "permits out", "ticket beside a hold", "ticket renewed", "tickets taken", "tickets lost",
    "tickets given back", "stale heads", "bundle", "bundle failed", "bundle lost", "parts not held", "broke several",
    "deadlock", "deadlock of many", "deadlock elsewhere", "restored held", "restored positions", "restored, released",
    "restored lost", "reclaimed", "refused in a grace", "a grace that lasted to its end",
    "others found by a poll", "asked together", "asked behind a release",
    "one domain of several lost", "granted beside a grace of another domain", "held beside a loss of another domain"};

static const char *const verb_names[] = {[CORE_ACQUIRE] = "acquire", [CORE_EXTEND] = "extend",
                                         [CORE_RELEASE] = "release", [CORE_BREAK_KEY] = "break"};

struct world;

enum happening {
    OP_RUNS, OP_ANSWERED, HINTED, WATCHED, BROADCAST, POLLED, LOSS_RECEIVED, ALL_ASSERTED, GRACE_ENDS,
    SUSPECTED, CAN_REACH
};

/* A message on its way between a daemon and Redis. */
struct flight {
    struct heap_node node;
    enum happening what;
    int daemon;
    enum core_action_type verb;
    struct core_op op;
    char key[16];
    struct core_done done;
    unsigned link;  /* generation of the daemon's link it was sent on */
    uint16_t domain; /* of the message */
    uint64_t epoch; /* known to the daemon at the sending, or the one that the message reports */
    bool zombie;    /* its link has died: it may run, but its answer is dropped */
    uint64_t lock;
    char *text;     /* owned */
    size_t broadcasts_n;
};

/* A request without a reply. */
struct asked {
    uint64_t id; /* 0 = free */
    enum core_event_type type;
    size_t n;    /* names */
    bool shared;
};

struct session {
    bool open, eof;
    uint64_t id, next_request;
    struct asked waiting[SLOTS];
    int held[NAMES];
};

/* What the state store keeps of a claim when the process ends. */
struct node_checkpoint {
    struct core_checkpoint cp;
    char name[16], owner[16];
};

enum { CHECKPOINTS = 1024 };

struct node {
    struct core *core;
    struct world *world;
    struct metrics metrics;
    uint64_t handed_seen; /* of metrics.handoffs */
    struct session session[SESSIONS];
    uint64_t watched[NAMES], watched_owner[NAMES]; /* lock id, 0 = no watch; the owner with a channel of its own */
    unsigned link;
    uint64_t epoch[DOMAINS]; /* of Redis, as the daemon knows it */
    bool up, owes[DOMAINS];  /* owes: the grace period lasts until the daemon has reclaimed what it holds */
    const struct core_event *only; /* the event of one domain, which must not touch others; NULL: no such event */
    int64_t stalled_until_us, last_arrival_us[2];
    struct node_checkpoint checkpoint[CHECKPOINTS];
    size_t checkpoints_n;
    uint64_t serial; /* upper bound of the ids in use */
    int dying;       /* > 0: the process ends inside this step; the state store sees its first dying - 2 actions */
};

struct world {
    uint64_t rng, seed;
    uint64_t rng_domains; /* a generator of its own: seeds with one domain draw the same numbers as without domains */
    uint16_t domains_n;
    int64_t now_us;
    struct heap flights;
    size_t in_flight;
    struct node node[DAEMONS];
    struct model redis;
    uint64_t epoch[DOMAINS];         /* of Redis's data */
    int64_t grace_until_us[DOMAINS]; /* 0 = it grants */
    uint64_t last_token[NAMES], last_exclusive[NAMES];
    bool faults_on, traced;
    int leaving; /* no new requests */
    unsigned grants, late_verdicts, faults[FAULTS], sights[SIGHTS];
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

/* The last three names get broken, so they may have more holders, as daemons see it, than is allowed. */
enum { BROKEN = NAMES - 3 };

static const enum kind kinds[NAMES] = {KIND_REENTRANT, KIND_SIMPLE, KIND_COUNTER,   KIND_RW, KIND_SEMAPHORE,
                                       KIND_FAIR,      KIND_FAIR,   KIND_REENTRANT, KIND_RW, KIND_SEMAPHORE};

static const char *const name_texts[NAMES] = {"name-0", "name-1", "name-2", "name-3", "name-4",
                                              "name-5", "name-6", "name-7", "name-8", "name-9"};

/* The domain comes from a hash of the name, as the slot of a key in a cluster. */
static uint16_t
domain_of(const struct world *w, int name)
{
    uint32_t hash = 2166136261u;

    for (const char *p = name_texts[name]; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    }
    return (uint16_t)((hash >> 8) % w->domains_n);
}

/* Below n, by the generator that only worlds with several domains use (splitmix64). */
static uint64_t
own_dice(struct world *w, uint64_t n)
{
    uint64_t z = w->rng_domains += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % n;
}

static bool
name_has(int name, unsigned flag)
{
    return (kind_rows[kinds[name]].flags & flag) != 0;
}

static bool
is_exclusive(int name)
{
    return name < BROKEN && !name_has(name, KIND_F_SHARED | KIND_F_PERMITS);
}

static struct flight *
launch(struct world *w, const struct flight *f, int64_t at_us)
{
    struct flight *copy = malloc(sizeof(*copy));

    assert(copy != NULL);
    *copy = *f;
    copy->node.pos = 0;
    w->in_flight++;
    heap_set(&w->flights, &copy->node, at_us);
    return copy;
}

/* ---- what must be true --------------------------------------------------- */

/* A holder, or a waiter, of one name at one daemon. */
struct edge {
    int daemon, name;
    uint64_t owner;
    bool shared, goes_on;
};

struct graph {
    int64_t now_us;
    int daemon, name; /* of the view that is being read */
    struct edge hold[1024], wait[1024];
    size_t holds_n, waits_n;
};

static void
note_holder(void *ctx, const struct core_holder_view *v)
{
    struct graph *g = ctx;

    if (g->now_us < v->deadline_us) {
        assert(g->holds_n < 1024);
        g->hold[g->holds_n++] = (struct edge){g->daemon, g->name, v->owner.id, v->shared, false};
    }
}

static void
note_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct graph *g = ctx;

    if (!v->kept) {
        assert(g->waits_n < 1024);
        g->wait[g->waits_n++] = (struct edge){g->daemon, model_name(v->name), v->owner.id, v->shared, false};
    }
}

/* Adds the holders of a name at one daemon, or (-1) at all of them. */
static void
look_at_holders(const struct world *w, int name, int at, struct graph *g)
{
    g->now_us = w->now_us;
    g->name = name;
    for (g->daemon = 0; g->daemon < DAEMONS; g->daemon++) {
        if (at < 0 || at == g->daemon) {
            core_each_holder(w->node[g->daemon].core, w->now_us, slice_of(name_texts[name]), note_holder, g);
        }
    }
}

/* At most one holder, or several readers, or as many holders as there are permits. */
static void
check_holders(struct world *w, int name)
{
    static struct graph g;
    size_t writers = 0, allowed = name_has(name, KIND_F_PERMITS) ? LIMIT : 1;

    g.holds_n = 0;
    look_at_holders(w, name, -1, &g);
    for (size_t i = 0; i < g.holds_n; i++) {
        writers += !g.hold[i].shared;
    }
    w->sights[READERS] += g.holds_n > 2 && writers == 0;
    w->sights[PERMITS_OUT] += name_has(name, KIND_F_PERMITS) && g.holds_n == LIMIT;
    ck_assert_msg(writers == 0 || g.holds_n <= allowed, "seed %llu: %d hold %s, %d of them exclusively",
                  (unsigned long long)w->seed, (int)g.holds_n, name_texts[name], (int)writers);
}

/* One step of a daemon, and the checks after it. */
static void
step(struct world *w, int d, const struct core_event *ev)
{
    core_step(w->node[d].core, w->now_us, ev);
    core_check(w->node[d].core, w->now_us);
    if (chance(w, 500)) {
        core_end_turn(w->node[d].core);
    }
    for (int i = 0; i < BROKEN; i++) {
        check_holders(w, i);
    }
}

/* ---- the reference: which waiters can never go on ---------------- */

static bool
is_free(const struct graph *g, const struct edge *holder)
{
    for (size_t i = 0; i < g->waits_n; i++) {
        if (g->wait[i].daemon == holder->daemon && g->wait[i].owner == holder->owner && !g->wait[i].goes_on) {
            return false;
        }
    }
    return true;
}

/* A reader waits behind each writer that came before it at its daemon. */
static bool
is_behind_a_writer(const struct graph *g, const struct edge *wait)
{
    for (const struct edge *first = g->wait; wait->shared && first < wait; first++) {
        if (first->daemon == wait->daemon && first->name == wait->name && !first->shared && !first->goes_on) {
            return true;
        }
    }
    return false;
}

/* Whether the holders in the way will leave: of a name with permits one is enough, of other names all have to. */
static bool
can_go_on(const struct graph *g, const struct edge *wait)
{
    size_t n = 0, leave = 0;

    if (is_behind_a_writer(g, wait)) {
        return false;
    }
    for (size_t i = 0; i < g->holds_n; i++) {
        if (g->hold[i].name == wait->name && !(wait->shared && g->hold[i].shared)) {
            n++;
            leave += is_free(g, &g->hold[i]);
        }
    }
    return name_has(wait->name, KIND_F_PERMITS) ? n < LIMIT || leave > 0 : leave == n;
}

/*
 * Whether the owner of the wait `asks` is stuck for ever, by the view of its own daemon, or (far) by that of all
 * daemons. The function runs in the middle of a step, so it only reads.
 */
static bool
is_deadlock(const struct world *w, struct edge asks, bool far)
{
    static struct graph g;
    bool more = true;

    g.waits_n = g.holds_n = 0;
    g.now_us = w->now_us;
    for (g.daemon = 0; g.daemon < DAEMONS; g.daemon++) {
        if (far || g.daemon == asks.daemon) {
            core_each_waiter(w->node[g.daemon].core, w->now_us, (struct slice){NULL, 0}, note_waiter, &g);
        }
    }
    for (int i = 0; i < NAMES; i++) {
        look_at_holders(w, i, far ? -1 : asks.daemon, &g);
    }
    g.wait[g.waits_n++] = asks;
    while (more) {
        more = false;
        for (size_t i = 0; i < g.waits_n; i++) {
            if (!g.wait[i].goes_on && can_go_on(&g, &g.wait[i])) {
                g.wait[i].goes_on = more = true;
            }
        }
    }
    return !g.wait[g.waits_n - 1].goes_on;
}

/* ---- Redis ------------------------------------------------------------- */

static void
wake(void *ctx, int name, uint64_t owner)
{
    struct world *w = ctx;

    if (owner == 0 && kinds[name] == KIND_FAIR && w->redis.key[name].tickets_n > 0 && fault(w, ONE_CALLED, 300)) {
        return; /* as Redisson, which notifies the first waiter only */
    }
    for (int d = 0; d < DAEMONS; d++) {
        const struct node *n = &w->node[d];
        struct flight f = {.what = HINTED, .daemon = d, .lock = n->watched[name], .link = n->link};
        bool received = owner == 0 || owner == model_owner(d, n->watched_owner[name]);

        if (f.lock != 0 && received && !fault(w, HINT_LOST, 200)) {
            launch(w, &f, w->now_us + 20 + upto(w, 500));
        }
    }
}

static size_t
listeners(void *ctx, int name)
{
    const struct world *w = ctx;
    size_t n = 0;

    for (int d = 0; d < DAEMONS; d++) {
        n += w->node[d].watched[name] != 0;
    }
    return n;
}

/* Each daemon receives the message, sooner or later. */
static void
inform_all(struct world *w, enum happening what, uint16_t domain)
{
    for (int d = 0; d < DAEMONS; d++) {
        struct flight f = {.what = what, .daemon = d, .domain = domain, .epoch = w->epoch[domain]};

        launch(w, &f, w->now_us + 20 + upto(w, 500 * US_PER_MS));
    }
}

static void
grace_check(struct world *w, uint16_t domain)
{
    int64_t *until_us = &w->grace_until_us[domain];
    bool owes = false;

    for (int d = 0; d < DAEMONS; d++) {
        owes |= w->node[d].owes[domain];
    }
    if (*until_us != 0 && (!owes || w->now_us >= *until_us)) {
        w->sights[GRACE_TIMED_OUT] += owes;
        *until_us = 0;
        inform_all(w, GRACE_ENDS, domain);
    }
}

/* All keys of the domain are lost, and all tokens but the highest one, which Redis learns from the daemons. */
static void
data_lost(struct world *w, uint16_t domain)
{
    trace(w, 0, "data lost: domain %d, epoch %d", domain, (int)w->epoch[domain] + 1);
    for (int i = 0; i < NAMES; i++) {
        if (domain_of(w, i) == domain) {
            memset(&w->redis.key[i], 0, sizeof(w->redis.key[i]));
        }
    }
    w->epoch[domain]++;
    w->grace_until_us[domain] = w->now_us + GRACE_US;
    for (int d = 0; d < DAEMONS; d++) {
        w->node[d].owes[domain] = true;
    }
    w->sights[DOMAIN_LOST] += w->domains_n > 1;
    inform_all(w, LOSS_RECEIVED, domain);
}

/*
 * As scripts/common.lua: in a grace period, or with an epoch that the daemon does not know, only reclaims are granted.
 */
static void
redis_runs(struct world *w, struct flight *f)
{
    uint16_t domain = domain_of(w, model_name(slice_of(f->key)));
    struct model_call c = {f->daemon, f->verb, f->op, &f->done, w->now_us};
    bool known;

    grace_check(w, domain);
    known = f->epoch == w->epoch[domain] && (w->grace_until_us[domain] == 0 || f->op.reclaim);
    if (f->verb == CORE_ACQUIRE && !known && !model_too_late(&w->redis, &c)) {
        w->sights[REFUSED]++;
        f->done.outcome = CORE_GRACE;
        return;
    }
    model_runs(&w->redis, &c);
    w->sights[RECLAIMED] += f->op.reclaim && f->done.outcome == CORE_OK;
    if (f->done.outcome == CORE_GONE_IN_REDIS && !known && f->verb != CORE_BREAK_KEY) {
        f->done.outcome = CORE_GRACE;
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
    int64_t delay_us = 0;

    redis_runs(w, f);
    trace(w, f->daemon, "%s%s runs: %s owner %d lease %lld holds %d rest %d%s -> outcome %d", f->zombie ? "late " : "",
          verb_names[f->verb], f->key, (int)f->op.owner, (long long)f->op.lease_us, (int)f->op.holds,
          (int)f->op.other_sort, f->op.shared ? " shared" : "", f->done.outcome);
    if (f->zombie) {
        return;
    }
    if (f->op.replicas > 0 && f->done.outcome == CORE_OK) {
        bool few = fault(w, TOO_FEW, 100);

        f->done.outcome = few ? CORE_SHORTFALL : CORE_OK;
        f->done.replicas_wanted = f->op.replicas;
        f->done.replicas = f->op.replicas - few;
        delay_us = upto(w, few ? TIMEOUT_US / 4 : 2000);
    }
    if (fault(w, REPLY_LOST, 15)) {
        f->done.outcome = CORE_UNKNOWN;
        f->done.token = 0;
        f->done.expiry_ms = 0;
        answer(w, f, f->done.sent_us + TIMEOUT_US - w->now_us > 0 ? f->done.sent_us + TIMEOUT_US - w->now_us : 0);
        return;
    }
    answer(w, f, 20 + upto(w, 400) + delay_us);
}

/* The link dies: operations on it are answered UNKNOWN now, and run later, or never. */
static void
link_dies(struct world *w, int d)
{
    struct node *n = &w->node[d];
    struct flight *lost[256];
    size_t count = 0;

    n->link++;
    n->up = false;
    for (size_t i = 0; i < w->flights.count && count < 256; i++) {
        struct flight *f = container_of(w->flights.slot[i].node, struct flight, node);

        if (f->daemon == d && (f->what == OP_RUNS || f->what == OP_ANSWERED) && !f->zombie && f->link == n->link - 1) {
            lost[count++] = f;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct flight a = *lost[i];

        a.done.outcome = CORE_UNKNOWN;
        a.done.token = 0;
        a.done.expiry_ms = 0;
        a.link = n->link;
        answer(w, &a, 10);
        if (lost[i]->what == OP_RUNS && fault(w, NEVER_RAN, 500)) {
            lost[i]->zombie = true;
            lost[i]->what = HINTED; /* an event without effect */
            lost[i]->lock = 0;
        } else if (lost[i]->what == OP_RUNS) {
            lost[i]->zombie = true;
            heap_set(&w->flights, &lost[i]->node, w->now_us + upto(w, 1500 * US_PER_MS));
            w->faults[RAN_LATE]++;
        } else {
            lost[i]->what = HINTED; /* it ran, and its answer is lost */
            lost[i]->lock = 0;
        }
    }
}

/* A DEADLOCK is right only if its owner could never go on. If it names several daemons, the cycle may have ended. */
static void
check_deadlock(struct world *w, int d, const struct core_reply *r, bool shared)
{
    const struct core_hop *hop = &r->hop[0];
    bool far = false, real;

    for (size_t i = 0; i < r->hops; i++) {
        far |= r->hop[i].daemon.n > 0;
    }
    ck_assert(r->hops > 0 && hop->daemon.n == 0);
    real = is_deadlock(w, (struct edge){d, model_name(hop->name), hop->owner, shared, false}, far);
    ck_assert_msg(real || far, "seed %llu: no deadlock: %.*s at %lld", (unsigned long long)w->seed, (int)hop->name.n,
                  hop->name.p, (long long)w->now_us);
    w->late_verdicts += !real;
    w->sights[DEADLOCK] += !far;
    w->sights[DEADLOCK_OF_MANY] += r->hops > 2;
    w->sights[DEADLOCK_ELSEWHERE] += far;
}

static void
note_grant(struct world *w, struct session *se, const struct core_reply *r)
{
    int name = model_name(r->name);

    ck_assert(r->token > 0 && r->lease_us > 0);
    ck_assert(!is_exclusive(name) || r->token == w->last_token[name]);
    se->held[name]++;
    w->grants++;
    for (uint16_t domain = 0; domain < w->domains_n; domain++) {
        w->sights[GRANTED_BESIDE_A_GRACE] += domain != domain_of(w, name) && w->grace_until_us[domain] != 0;
    }
}

static void
note_parts(struct world *w, struct session *se, const struct asked *a, const struct core_reply *r)
{
    bool mlock = a->type == CORE_MLOCK;

    w->sights[BUNDLE] += mlock && r->answer == CORE_GRANTED;
    w->sights[BUNDLE_FAILED] += mlock && r->answer != CORE_GRANTED;
    w->sights[BUNDLE_LOST] += mlock && r->answer == CORE_WAS_LOST;
    ck_assert(mlock || r->answer == CORE_LEFT);
    if (mlock && r->answer != CORE_GRANTED) {
        return;
    }
    ck_assert_uint_eq(r->parts, a->n);
    for (size_t i = 0; i < r->parts; i++) {
        ck_assert(!mlock || r->part[i].answer == CORE_GRANTED);
        w->sights[PARTS_NOT_HELD] += r->part[i].answer == CORE_NOT_HELD;
        if (mlock) {
            note_grant(w, se, &r->part[i]);
        }
    }
}

static void
take_reply(struct world *w, int d, const struct core_reply *r)
{
    for (int s = 0; s < SESSIONS; s++) {
        struct session *se = &w->node[d].session[s];
        int i = 0;

        if (!se->open || se->id != r->session) {
            continue;
        }
        while (i < SLOTS && se->waiting[i].id != r->id) {
            i++;
        }
        ck_assert_msg(i < SLOTS, "a reply without a request");
        trace(w, d, "reply to %d: answer %d token %llu", (int)r->id, r->answer, (unsigned long long)r->token);
        if (r->answer == CORE_DEADLOCK) {
            check_deadlock(w, d, r, se->waiting[i].shared);
        }
        if (se->waiting[i].n > 0) {
            note_parts(w, se, &se->waiting[i], r);
        } else if (r->answer == CORE_GRANTED) {
            note_grant(w, se, r);
        }
        se->waiting[i].id = 0;
        return;
    }
    ck_abort_msg("a reply for a session that has gone");
}

/*
 * P1. Of a name that may be shared, replies may overtake each other; the token of an exclusive grant is above all
 * before it, and below all after it. So is that of a permit that was handed off: all other permits were held here then.
 */
static bool
token_rises(struct world *w, int d, int name, uint64_t token)
{
    struct core_lock_view v = {.shared = false};
    bool handed = w->node[d].metrics.handoffs != w->node[d].handed_seen;
    bool alone = is_exclusive(name) || handed, rises;

    w->node[d].handed_seen = w->node[d].metrics.handoffs;
    if (name_has(name, KIND_F_SHARED)) {
        ck_assert(core_lock_info(w->node[d].core, w->now_us, slice_of(name_texts[name]), &v));
        alone = !v.shared;
    }
    rises = token > (alone ? w->last_token[name] : w->last_exclusive[name]);
    w->last_exclusive[name] = alone ? token : w->last_exclusive[name];
    w->last_token[name] = token > w->last_token[name] ? token : w->last_token[name];
    return rises || name >= BROKEN;
}

/* A step for one domain concerns no lock of another domain. */
static bool
is_about(const struct node *n, int name)
{
    return n->only == NULL || domain_of(n->world, name) == n->only->domain;
}

static void
take_news(struct world *w, int d, const struct core_publish *p)
{
    int name = model_name(p->name);

    ck_assert_msg(p->news != CORE_NEWS_LOST || is_about(&w->node[d], name),
                  "seed %llu: %s is lost, and is not in the domain of the event", (unsigned long long)w->seed,
                  name_texts[name]);
    trace(w, d, "news %d: %.*s owner %d token %llu %s", p->news, (int)p->name.n, p->name.p, (int)p->owner,
          (unsigned long long)p->token, p->reason != NULL ? p->reason : "");
    ck_assert_msg(p->news != CORE_NEWS_GRANTED || token_rises(w, d, name, p->token), "seed %llu: token did not rise",
                  (unsigned long long)w->seed);
}

static void
take_broadcast(struct world *w, int d, struct slice text)
{
    for (int to = 0; to < DAEMONS && w->node[d].up; to++) {
        for (int times = 1 + fault(w, BROADCAST_TWICE, 50); times > 0; times--) {
            struct flight f = {.what = BROADCAST, .daemon = to, .text = malloc(text.n), .broadcasts_n = text.n};

            assert(f.text != NULL);
            memcpy(f.text, text.p, text.n);
            if (fault(w, BROADCAST_LOST, 100)) {
                free(f.text);
            } else {
                launch(w, &f, w->now_us + 20 + upto(w, 500));
            }
        }
    }
}

/* The names travel with the poll; the listeners are counted on its arrival. */
static void
waiter_poll(struct node *n, const struct core_waiter_poll *p)
{
    struct world *w = n->world;
    struct flight f = {.what = POLLED, .daemon = (int)(n - w->node), .link = n->link};

    f.text = malloc(p->n);
    f.broadcasts_n = p->n;
    assert(f.text != NULL);
    for (size_t i = 0; i < p->n; i++) {
        f.text[i] = (char)model_name(p->name[i].key);
    }
    f.op.op = p->op;
    if (!n->up || fault(w, PROBE_LOST, 100)) {
        free(f.text);
    } else {
        launch(w, &f, w->now_us + 40 + upto(w, 2000));
    }
}

static void
polled(struct world *w, const struct flight *f)
{
    int64_t subscribers[CORE_WAITER_POLL_MAX];
    struct core_event ev = {.type = CORE_WAITERS_POLLED, .polled = {f->op.op, subscribers, f->broadcasts_n}};

    if (f->link != w->node[f->daemon].link) {
        return;
    }
    for (size_t i = 0; i < f->broadcasts_n; i++) {
        subscribers[i] = (int64_t)listeners(w, f->text[i]);
        w->sights[POLLED_OTHERS] += subscribers[i] > 0;
    }
    step(w, f->daemon, &ev);
}

static void
watch(struct node *n, const struct core_action *a)
{
    struct world *w = n->world;
    int name = model_name(a->op.key);
    bool on = a->type == CORE_WATCH;
    struct flight f = {.what = WATCHED, .daemon = (int)(n - w->node), .lock = a->op.queue, .link = n->link};

    n->watched[name] = on ? a->op.queue : 0;
    n->watched_owner[name] = a->op.owner;
    if (on) {
        launch(w, &f, w->now_us + 50 + upto(w, 500));
    }
}

/* Notes whether other operations on this name are on their way from this daemon. */
static void
note_attempt(struct world *w, int d, const struct core_action *a)
{
    bool together = false, behind = false;

    for (size_t i = 0; i < w->flights.count; i++) {
        const struct flight *f = container_of(w->flights.slot[i].node, struct flight, node);

        if (f->daemon == d && f->what == OP_RUNS && !f->zombie && slice_eq(slice_of(f->key), a->op.key)) {
            together |= f->verb == CORE_ACQUIRE && !f->op.reentry && !f->op.reclaim;
            behind |= f->verb == CORE_RELEASE;
        }
    }
    w->sights[ASKED_TOGETHER] += together;
    w->sights[ASKED_BEHIND] += behind;
}

static void
note_operation(struct world *w, int d, const struct core_action *a)
{
    struct core_lock_view v;
    struct slice name = slice_of(name_texts[model_name(a->op.key)]);
    bool held = core_lock_info(w->node[d].core, w->now_us, name, &v) && v.holders > 0;

    if (a->type == CORE_ACQUIRE && !a->op.reentry && !a->op.reclaim) {
        note_attempt(w, d, a);
    }
    w->sights[DOWNGRADED] += a->type == CORE_RELEASE && !a->op.shared && a->op.holds == 0 && a->op.other_sort > 0;
    w->sights[TICKET_BESIDE_A_HOLD] += a->type == CORE_ACQUIRE && a->op.ticket && held;
    w->sights[TICKET_RENEWED] += a->type == CORE_EXTEND && a->op.ticket;
    w->sights[BROKE_SEVERAL] += a->type == CORE_BREAK_KEY && held && v.holders > 1;
}

static bool
is_recorded(const struct node *n, uint64_t claim)
{
    size_t i = 0;

    while (i < n->checkpoints_n && n->checkpoint[i].cp.part.claim != claim) {
        i++;
    }
    return i < n->checkpoints_n;
}

static void
send_operation(struct node *n, const struct core_action *a)
{
    struct world *w = n->world;
    struct flight f = {.what = OP_RUNS, .daemon = (int)(n - w->node), .op = a->op, .verb = a->type, .link = n->link};
    int64_t at_us;

    f.epoch = n->epoch[domain_of(w, model_name(a->op.key))];
    note_operation(w, f.daemon, a);
    ck_assert_msg(is_about(n, model_name(a->op.key)) || a->type != CORE_ACQUIRE, /* except renewals: they join others */
                  "seed %llu: %.*s (operation %d) is not in the domain of event %d", (unsigned long long)w->seed,
                  (int)a->op.key.n, a->op.key.p, (int)a->type, (int)(n->only != NULL ? n->only->type : 0));
    ck_assert_msg(a->type == CORE_BREAK_KEY || is_recorded(n, a->op.claim),
                  "seed %llu: an operation on what is not kept", (unsigned long long)w->seed);
    memcpy(f.key, a->op.key.p, a->op.key.n);
    f.done = (struct core_done){.claim = a->op.claim, .op = a->op.op, .sent_us = w->now_us,
                                .guard_us = w->now_us + TIMEOUT_US, .outcome = CORE_DOWN};
    if (!n->up) {
        w->faults[WAS_DOWN]++;
        answer(w, &f, 5);
        return;
    }
    /* The link of locks keeps the order of its commands; renewals have a link of their own. */
    at_us = w->now_us + 20 + upto(w, w->faults_on && chance(w, 50) ? 900 * US_PER_MS : 300);
    if (at_us <= n->last_arrival_us[a->type == CORE_EXTEND]) {
        at_us = n->last_arrival_us[a->type == CORE_EXTEND] + 1;
    }
    n->last_arrival_us[a->type == CORE_EXTEND] = at_us;
    launch(w, &f, at_us);
}

/* ---- the process ends, and another one goes on ---- */

static void
drop(struct node *n, uint64_t claim)
{
    for (size_t i = 0; i < n->checkpoints_n; i++) {
        if (n->checkpoint[i].cp.part.claim == claim) {
            n->checkpoint[i] = n->checkpoint[--n->checkpoints_n];
            return;
        }
    }
    ck_abort_msg("claim %d is dropped, and was not kept", (int)claim);
}

static void
store(struct node *n, const struct core_checkpoint *k)
{
    size_t i = 0;

    while (i < n->checkpoints_n && n->checkpoint[i].cp.part.claim != k->part.claim) {
        i++;
    }
    ck_assert_uint_lt(i, CHECKPOINTS);
    n->checkpoints_n += i == n->checkpoints_n;
    n->checkpoint[i].cp = *k;
    memcpy(n->checkpoint[i].name, k->name.p, k->name.n);
    memcpy(n->checkpoint[i].owner, k->owner.n > 0 ? k->owner.p : "", k->owner.n);
}

/* No action takes effect but those of the state store, up to the death of the process. */
static void
dies(struct node *n, const struct core_action *a)
{
    n->dying -= n->dying > 1;
    if (n->dying > 1 && a->type == CORE_STORE) {
        store(n, &a->store);
    } else if (n->dying > 1 && a->type == CORE_DROP) {
        drop(n, a->drop);
    }
}

static void
sink(void *ctx, const struct core_action *a)
{
    struct node *n = ctx;
    int d = (int)(n - n->world->node);

    if (n->dying > 0) {
        dies(n, a);
        return;
    }
    switch (a->type) {
    case CORE_STORE:
        store(n, &a->store);
        break;
    case CORE_DROP:
        drop(n, a->drop);
        break;
    case CORE_STORE_OWNER: /* the next process begins their grace anew; see tests/sim */
    case CORE_DROP_OWNER:
        break;
    case CORE_REPLY:
        take_reply(n->world, d, &a->reply);
        break;
    case CORE_PUBLISH:
        take_news(n->world, d, &a->publish);
        break;
    case CORE_BROADCAST:
        take_broadcast(n->world, d, a->broadcast);
        break;
    case CORE_RECLAIMED: /* sometimes it arrives after the end of the grace period */
        ck_assert(a->domain < n->world->domains_n && a->epoch == n->epoch[a->domain]);
        launch(n->world,
               &(struct flight){.what = ALL_ASSERTED, .daemon = d, .domain = a->domain, .epoch = a->epoch},
               n->world->now_us + (chance(n->world, 50) ? GRACE_US : 20 + upto(n->world, 500)));
        break;
    case CORE_WAITER_POLL:
        waiter_poll(n, &a->waiter_poll);
        break;
    case CORE_WATCH:
    case CORE_UNWATCH:
        watch(n, a);
        break;
    default:
        send_operation(n, a);
        break;
    }
}

/* The state of each name outside the domain, as the daemon reports it; "" = of the domain, or no lock. */
static void
see_others(const struct world *w, int d, uint16_t domain, const char *state[NAMES])
{
    struct core_lock_view v;

    for (int i = 0; i < NAMES; i++) {
        bool other = domain_of(w, i) != domain;

        state[i] = other && core_lock_info(w->node[d].core, w->now_us, slice_of(name_texts[i]), &v) ? v.state : "";
    }
}

/*
 * Work that is due is done first, so that this step is about the domain of the event alone, and touches no other one.
 */
static void
domain_step(struct world *w, int d, const struct core_event *ev)
{
    const char *before[NAMES], *after[NAMES];
    struct node *n = &w->node[d];

    while (w->domains_n > 1 && core_next_us(n->core) <= w->now_us) {
        step(w, d, &(struct core_event){.type = CORE_TIME});
        core_end_turn(n->core);
    }
    n->epoch[ev->domain] = ev->type == CORE_RECLAIM ? ev->epoch : n->epoch[ev->domain];
    if (w->domains_n == 1) {
        step(w, d, ev);
        return;
    }
    core_end_turn(n->core);
    see_others(w, d, ev->domain, before);
    n->only = ev;
    step(w, d, ev);
    n->only = NULL;
    see_others(w, d, ev->domain, after);
    for (int i = 0; i < NAMES; i++) {
        ck_assert_msg(strcmp(before[i], after[i]) == 0, "seed %llu: %s was %s, and is %s by event %d of another domain",
                      (unsigned long long)w->seed, name_texts[i], before[i], after[i], (int)ev->type);
        w->sights[HELD_BESIDE_A_LOSS] += ev->type == CORE_RECLAIM && strcmp(after[i], "held") == 0;
    }
}

static void
flight_lands(struct world *w, struct flight *f)
{
    struct core_event ev = {.domain = f->domain};

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
        if (f->epoch != w->node[f->daemon].epoch[domain_of(w, model_name(f->op.key))]) { /* the data may be lost */
            ev.done.outcome = CORE_UNKNOWN;
            ev.done.token = 0;
            ev.done.expiry_ms = 0;
        }
        break;
    case LOSS_RECEIVED:
        if (f->epoch <= w->node[f->daemon].epoch[f->domain]) { /* a stalled daemon receives several, in any order */
            return;
        }
        ev.epoch = f->epoch;
        ev.type = CORE_RECLAIM;
        domain_step(w, f->daemon, &ev);
        return;
    case ALL_ASSERTED:
        w->node[f->daemon].owes[f->domain] &= f->epoch != w->epoch[f->domain];
        grace_check(w, f->domain);
        return;
    case GRACE_ENDS:
    case SUSPECTED:
    case CAN_REACH:
        ev.type = f->what == GRACE_ENDS ? CORE_GRACE_OVER : f->what == SUSPECTED ? CORE_SUSPECT : CORE_REACHED;
        domain_step(w, f->daemon, &ev);
        return;
    case HINTED:
    case WATCHED:
        if (f->lock == 0) {
            return;
        }
        ev.type = f->what == HINTED ? CORE_HINT : CORE_SUBSCRIBED;
        ev.queue = f->lock;
        break;
    case POLLED:
        polled(w, f);
        return;
    case BROADCAST:
        ev.type = CORE_RECEIVED;
        ev.received = (struct slice){f->text, f->broadcasts_n};
        break;
    }
    step(w, f->daemon, &ev);
}

/* ---- clients -------------------------------------------------------------- */

static void
session_ends(struct world *w, int d, struct session *s)
{
    struct core_event ev = {.type = CORE_SESSION_GONE, .session = s->id};

    for (int i = 0; i < NAMES; i++) {
        w->faults[GONE_HOLDING] += s->held[i] > 0;
    }
    s->open = core_next_us(w->node[d].core) <= w->now_us; /* with no work left over, a later reply is an error */
    step(w, d, &ev);
    memset(s, 0, sizeof(*s));
}

/* The slot for a new request; NULL: too many requests have no reply, or the session has sent EOF. */
static struct asked *
free_slot(struct session *s)
{
    int i = 0;

    while (i < SLOTS && s->waiting[i].id != 0) {
        i++;
    }
    return i == SLOTS || s->eof ? NULL : &s->waiting[i];
}

static struct core_request
draw_request(struct world *w, struct session *s, enum core_event_type type, int name)
{
    static const char *const owners[] = {"", "", "", "alice", "bob"};
    static const int64_t waits[] = {0, 50 * US_PER_MS, 2 * US_PER_S, CORE_FOREVER};
    bool leased = type == CORE_RENEW || type == CORE_MRENEW;

    return (struct core_request){.session = s->id,
                                 .id = s->next_request,
                                 .name = slice_of(name_texts[name]),
                                 .owner = slice_of(owners[upto(w, 5)]),
                                 .wait_us = waits[upto(w, 4)],
                                 .lease_us = leased ? (1 + upto(w, 5)) * US_PER_S
                                             : chance(w, 300) ? (1 + upto(w, 4)) * US_PER_S : 0,
                                 .once = chance(w, 200),
                                 .shared = name_has(name, KIND_F_SHARED) && chance(w, type == CORE_UNLOCK ? 300 : 650),
                                 .spec = {.kind = kinds[name],
                                          .limit = LIMIT,
                                          .linger_us = name % 3 == 0 ? 40 * US_PER_MS : 0,
                                          .replicas = name % 2 == 1 ? 1 + (uint32_t)upto(w, 2) : 0,
                                          .lease_us = 3 * US_PER_S,
                                          .owner_grace_us = US_PER_S,
                                          .queue_grace_us = US_PER_S / 2,
                                          .domain = domain_of(w, name),
                                          .key = slice_of(name_texts[name])}};
}

static void
request(struct world *w, int d, struct session *s, enum core_event_type type, int name)
{
    struct core_event ev = {.type = type};
    struct asked *a = free_slot(s);

    if (a == NULL) {
        return;
    }
    s->next_request++;
    ev.request = draw_request(w, s, type, name);
    *a = (struct asked){.id = s->next_request, .type = type, .shared = ev.request.shared};
    trace(w, d, "request %d of %d: %d %s", (int)a->id, (int)s->id, type, name_texts[name]);
    step(w, d, &ev);
}

/* A request for several names, with one owner, wait and id. */
static void
request_many(struct world *w, int d, struct session *s, enum core_event_type type)
{
    struct core_request many[MANY];
    struct core_event ev = {.type = type, .multilock = {.request = many, .n = 1 + (size_t)upto(w, MANY)}};
    struct asked *a = free_slot(s);
    int first = (int)upto(w, NAMES), pace = chance(w, 500) ? 1 : 3;

    if (a == NULL) {
        return;
    }
    s->next_request++;
    for (size_t i = 0; i < ev.multilock.n; i++) {
        many[i] = draw_request(w, s, type, (first + (int)i * pace) % NAMES);
        many[i].owner = many[0].owner;
        many[i].wait_us = many[0].wait_us;
        many[i].lease_us = many[0].lease_us;
        many[i].once = many[0].once;
        many[i].shared = false;
    }
    *a = (struct asked){.id = s->next_request, .type = type, .n = ev.multilock.n};
    trace(w, d, "request %d of %d: %d, %d names from %d by %d", (int)a->id, (int)s->id, type, (int)a->n, first, pace);
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
            s->id = core_session_open(w->node[d].core, upto(w, 3));
            s->open = true;
        }
    } else if (w->leaving || chance(w, 30)) {
        session_ends(w, d, s);
    } else if (chance(w, 10) && !s->eof) {
        s->eof = true;
        ev.type = CORE_EOF;
        ev.session = s->id;
        step(w, d, &ev);
        if (chance(w, 300)) {
            ev.type = CORE_UNREACHABLE;
            step(w, d, &ev);
        }
    } else if (chance(w, 100)) {
        request_many(w, d, s, chance(w, 600) ? CORE_MLOCK : chance(w, 800) ? CORE_MUNLOCK : CORE_MRENEW);
    } else if (chance(w, 500)) {
        request(w, d, s, CORE_LOCK, name);
    } else if (chance(w, 900)) {
        s->held[name] -= s->held[name] > 0;
        request(w, d, s, CORE_UNLOCK, name);
    } else if (chance(w, 800)) {
        request(w, d, s, CORE_RENEW, name);
    } else if (chance(w, 300)) {
        request(w, d, s, CORE_CANCEL, name);
    } else {
        request(w, d, s, CORE_BREAK, BROKEN + (int)upto(w, NAMES - BROKEN));
    }
}

static void
begin(struct world *w, int d)
{
    struct core_conf conf = {.slice = w->seed % 3, /* the promises do not depend on it */
                             .op_timeout_us = TIMEOUT_US,
                             .max_poll_us = US_PER_S,
                             .deadlock_us = 200 * US_PER_MS,
                             .handoff_time_us = 10 * US_PER_MS,
                             .handoff_max = 8,
                             .waiters_max = 1000,
                             .locks_max = 100,
                             .one_link = true,
                             .total_locks_max = 1000,
                             .user_percent = 90,
                             .window = w->seed % 3 == 0 ? 1 + (uint32_t)(w->seed % 5) : 0,
                             .search_steps = (const uint32_t[]){0, 1, 2, 7}[w->seed % 4],
                             .domains = w->domains_n,
                             .stores_checkpoints = true};
    struct hash_key key = {w->seed, ~w->seed};
    struct node *n = &w->node[d];

    n->handed_seen = n->metrics.handoffs; /* the process before may have died in the middle of a hand-off */
    snprintf(conf.daemon, sizeof(conf.daemon), "daemon-%d", d);
    n->core = core_new(&conf, &key, &n->metrics, (struct core_sink){sink, n});
}

/* The holds and waits of named owners as text: name, holder, holds, token; and the waiters in order. */
struct picture {
    char text[8192];
    size_t n;
};

static void
draw_holder(void *ctx, const struct core_holder_view *v)
{
    struct picture *p = ctx;

    if (v->owner.name.n > 0) {
        p->n += (size_t)snprintf(p->text + p->n, sizeof(p->text) - p->n, "%.*s: %.*s has %d %d %llu\n", (int)v->name.n,
                                 v->name.p, (int)v->owner.name.n, v->owner.name.p, (int)v->holds, v->shared,
                                 (unsigned long long)v->token);
    }
}

static void
draw_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct picture *p = ctx;

    /* A ticket that no answer has confirmed is not restored, so names with tickets are left out. */
    if (v->owner.name.n > 0 && !name_has(model_name(v->name), KIND_F_TICKETS)) {
        p->n += (size_t)snprintf(p->text + p->n, sizeof(p->text) - p->n, "%.*s: %.*s waits\n",
                                 (int)v->name.n, v->name.p, (int)v->owner.name.n, v->owner.name.p);
    }
}

static int
by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Lines of holders are sorted, as their order may change; the waiters of a name keep their order. */
static void
draw(const struct world *w, int d, struct picture *p)
{
    for (int i = 0; i < NAMES; i++) {
        struct picture one = {.n = 0};
        char *line[64];
        size_t lines = 0;

        core_each_holder(w->node[d].core, w->now_us, slice_of(name_texts[i]), draw_holder, &one);
        for (char *at = strtok(one.text, "\n"); at != NULL; at = strtok(NULL, "\n")) {
            assert(lines < 64);
            line[lines++] = at;
        }
        qsort(line, lines, sizeof(line[0]), by_text);
        for (size_t k = 0; k < lines; k++) {
            p->n += (size_t)snprintf(p->text + p->n, sizeof(p->text) - p->n, "%s\n", line[k]);
        }
        core_each_waiter(w->node[d].core, w->now_us, slice_of(name_texts[i]), draw_waiter, p);
    }
}

/* The process is killed, perhaps in the middle of a step, and the next one restores what it has left. */
static void
crash(struct world *w, int d, bool inside)
{
    struct picture before = {.n = 0}, after = {.n = 0};
    struct core_checkpoint kept[CHECKPOINTS];
    struct node *n = &w->node[d];
    struct core_restored a = {.checkpoint = kept, .n = n->checkpoints_n};
    struct core_event ev = {.type = CORE_RESTORE, .restore = &a}, reached = {.type = CORE_REACHED};

    trace(w, d, "crash%s", inside ? " inside" : "");
    do {
        step(w, d, &(struct core_event){.type = CORE_TIME});
    } while (core_next_us(n->core) <= w->now_us);
    draw(w, d, &before);
    if (inside) {
        struct session *s = &n->session[upto(w, SESSIONS)];

        n->dying = 2 + (int)upto(w, 6);
        core_step(n->core, w->now_us, &(struct core_event){.type = CORE_SESSION_GONE, .session = s->id});
    }
    a.n = n->checkpoints_n;
    a.serial = core_totals(n->core).serial + 1000;
    core_free(&n->core);
    n->dying = 0;
    memset(n->session, 0, sizeof(n->session));
    memset(n->watched, 0, sizeof(n->watched));
    link_dies(w, d);
    for (size_t i = 0; i < n->checkpoints_n; i++) {
        kept[i] = n->checkpoint[i].cp;
        kept[i].name.p = kept[i].key.p = n->checkpoint[i].name;
        kept[i].owner.p = n->checkpoint[i].owner;
        kept[i].domain = domain_of(w, model_name(kept[i].key));
    }
    begin(w, d);
    core_step(n->core, w->now_us, &ev);
    ck_assert_uint_eq(a.failed, 0);
    core_check(n->core, w->now_us);
    draw(w, d, &after);
    ck_assert_msg(inside || strcmp(before.text, after.text) == 0, "seed %llu: before the crash\n%safter it\n%s",
                  (unsigned long long)w->seed, before.text, after.text);
    w->sights[RESTORED_HELD] += (unsigned)a.held;
    w->sights[RESTORED_POSITIONS] += (unsigned)a.positions;
    w->sights[RESTORED_RELEASED] += (unsigned)a.released;
    w->sights[RESTORED_LOST] += (unsigned)a.lost;
    if (chance(w, 800)) {
        n->up = true;
        for (reached.domain = 0; reached.domain < w->domains_n; reached.domain++) {
            step(w, d, &reached);
        }
    }
}

/* Events for one of several domains. */
static void
nature_acts_on_domains(struct world *w, int d)
{
    uint64_t what = own_dice(w, 1000);
    struct flight f = {.daemon = d, .domain = (uint16_t)own_dice(w, w->domains_n)};

    if (what < 20) {
        f.what = what < 10 ? SUSPECTED : CAN_REACH;
        launch(w, &f, w->now_us + (int64_t)own_dice(w, 500));
    }
}

static void
nature_acts(struct world *w)
{
    int d = (int)upto(w, DAEMONS);
    struct node *n = &w->node[d];
    uint16_t domain = w->domains_n > 1 ? (uint16_t)own_dice(w, w->domains_n) : 0;

    if (!n->up && (!w->faults_on || chance(w, 300))) {
        n->up = true;
    } else if (n->up && fault(w, LINK_LOST, 8)) {
        link_dies(w, d);
    } else if (fault(w, STALL, 3)) {
        n->stalled_until_us = w->now_us + upto(w, 6 * US_PER_S);
    } else if (fault(w, CRASHED, 4)) {
        n->stalled_until_us = 0;
        crash(w, d, fault(w, CRASHED_INSIDE, 500));
        for (domain = 0; domain < w->domains_n; domain++) { /* the new process learns the epochs */
            n->epoch[domain] = 0;
            launch(w,
                   &(struct flight){.what = LOSS_RECEIVED, .daemon = d, .domain = domain, .epoch = w->epoch[domain]},
                   w->now_us + 20);
        }
    } else if (w->grace_until_us[domain] == 0 && fault(w, DATA_LOST, 1)) {
        data_lost(w, domain);
    }
    if (w->domains_n > 1) {
        nature_acts_on_domains(w, d);
    }
    for (domain = 0; domain < w->domains_n; domain++) {
        grace_check(w, domain);
    }
}

/* ---- the run -------------------------------------------------------------- */

/* Runs all events and timers up to until_us, in order. A stalled daemon handles them when it wakes. */
static void
advance(struct world *w, int64_t until_us)
{
    for (;;) {
        struct heap_node *next = heap_min(&w->flights);
        int64_t at_us = next != NULL ? heap_at(&w->flights, next) : CORE_FOREVER;
        int timer = -1;

        for (int d = 0; d < DAEMONS; d++) {
            int64_t t = core_next_us(w->node[d].core);

            t = t < w->now_us ? w->now_us : t; /* slices must not delay arrivals that are due */
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
            w->now_us += core_next_us(w->node[timer].core) <= w->now_us ? 1 + upto(w, 300) : 0; /* a slice takes time */
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
        free(f->text);
        free(f);
    }
}

static void
world_open(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    w->seed = seed;
    w->rng = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    w->rng_domains = seed;
    w->domains_n = own_dice(w, 2) == 0 ? 1 : (uint16_t)(2 + own_dice(w, DOMAINS - 1));
    w->now_us = 1000 * US_PER_S;
    w->faults_on = true;
    heap_init(&w->flights);
    w->redis.timeout_us = TIMEOUT_US;
    w->redis.wake = wake;
    w->redis.listeners = listeners;
    w->redis.ctx = w;
    for (int d = 0; d < DAEMONS; d++) {
        struct node *n = &w->node[d];

        n->world = w;
        n->up = true;
        begin(w, d);
    }
}

/* Sums over all seeds. */
struct total {
    unsigned grants, late_verdicts, faults[FAULTS], sights[SIGHTS];
};

static void
note_run(const struct world *w, struct total *t)
{
    t->grants += w->grants;
    t->late_verdicts += w->late_verdicts;
    for (int i = 0; i < FAULTS; i++) {
        t->faults[i] += w->faults[i];
    }
    for (int i = 0; i < SIGHTS; i++) {
        t->sights[i] += w->sights[i];
    }
    t->sights[TICKETS_TAKEN] += w->redis.tickets_taken;
    t->sights[TICKETS_LOST] += w->redis.tickets_lost;
    t->sights[TICKETS_BACK] += w->redis.tickets_given_back;
    t->sights[STALE_HEADS] += w->redis.stale_heads;
}

static void
world_close(struct world *w)
{
    for (int d = 0; d < DAEMONS; d++) {
        struct core_totals t = core_totals(w->node[d].core);

        ck_assert_msg(t.locks == 0 && t.owners == 0 && t.sessions == 0,
                      "seed %llu: %d: %d locks, %d owners, %d sessions left", (unsigned long long)w->seed, d,
                      (int)t.locks, (int)t.owners, (int)t.sessions);
        core_free(&w->node[d].core);
    }
    while (heap_min(&w->flights) != NULL) {
        struct flight *f = container_of(heap_min(&w->flights), struct flight, node);

        heap_remove(&w->flights, &f->node);
        free(f->text);
        free(f);
    }
    heap_fini(&w->flights);
}

/* Nothing has failed for some seconds: no request may wait for a name that no owner holds in Redis. */
static void
check_all_are_searched(const struct world *w)
{
    static struct graph g;

    g.waits_n = 0;
    for (g.daemon = 0; g.daemon < DAEMONS; g.daemon++) {
        core_each_waiter(w->node[g.daemon].core, w->now_us, (struct slice){NULL, 0}, note_waiter, &g);
    }
    for (size_t i = 0; i < g.waits_n; i++) {
        int name = g.wait[i].name;

        ck_assert_msg(model_is_held_by_any(&w->redis.key[name], kinds[name], w->now_us),
                      "seed %llu: %s is free, and daemon %d waits for it", (unsigned long long)w->seed,
                      name_texts[name], g.wait[i].daemon);
    }
}

static void
run(uint64_t seed, bool traced, struct total *t)
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
    for (int i = 0; i < 200; i++) { /* links come back, daemons settle */
        nature_acts(&w);
        advance(&w, w.now_us + 50 * US_PER_MS);
    }
    check_all_are_searched(&w);
    w.leaving = 1;
    for (int i = 0; i < 500; i++) {
        client_acts(&w);
    }
    advance(&w, w.now_us + 5 * US_PER_S); /* grace of named owners, sweeps */
    for (int d = 0; d < DAEMONS; d++) {
        ck_assert_uint_eq(w.node[d].checkpoints_n, 0);
    }
    for (int i = 0; i < NAMES; i++) {
        /* A counter whose acquire was not answered has no owner in Redis to release it by: it expires instead. */
        bool left = model_is_held_by_any(&w.redis.key[i], kinds[i], w.now_us) || w.redis.key[i].tickets_n > 0;

        ck_assert_msg(!left || kinds[i] == KIND_COUNTER, "seed %llu: %s is still locked in Redis, or waited for",
                      (unsigned long long)seed, name_texts[i]);
    }
    note_run(&w, t);
    world_close(&w);
}

static void
tell(const char *what, unsigned n, bool must)
{
    fprintf(stderr, ", %s %u", what, n);
    ck_assert_msg(!must || n > 0, "never happened: %s", what);
}

START_TEST(many_seeds)
{
    const char *one = getenv("RLOCKD_SEED"), *many = getenv("RLOCKD_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t last = one != NULL ? first : many != NULL ? strtoull(many, NULL, 10) : 150;
    bool all = one == NULL && last >= 50; /* a few seeds need not show every fault and situation */
    struct total t = {0};

    for (uint64_t seed = first; seed <= last; seed++) {
        run(seed, one != NULL, &t);
    }
    fprintf(stderr, "%u grants, late verdicts %u", t.grants, t.late_verdicts);
    for (int i = 0; i < FAULTS; i++) {
        tell(fault_names[i], t.faults[i], all);
    }
    for (int i = 0; i < SIGHTS; i++) {
        tell(sight_names[i], t.sights[i], all);
    }
    fprintf(stderr, "\n");
    ck_assert_uint_gt(t.grants, 0);
    ck_assert_uint_le(t.late_verdicts, t.sights[DEADLOCK_ELSEWHERE] / 20 + 1);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("core, random");
    TCase *t = tcase_create("seeds");

    tcase_set_timeout(t, 3600); /* as long as RLOCKD_SEEDS takes */
    tcase_add_test(t, many_seeds);
    suite_add_tcase(s, t);
    return suite_run(s);
}
