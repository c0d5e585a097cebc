/*
 * fuzz_core.c -- core_step() with events made of bytes: requests of all sorts, outcomes of Redis that may contradict
 * each other, time, hints, sessions that come and go, broadcasts of other daemons.
 *
 * The events keep the contract of core.h: names are not empty, and differ in a multilock; SHARED is used with kinds
 * that have it; an operation ends once, and not before it was requested.
 */
#include "daemon/base/clock.h"
#include "daemon/core/view.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/core_check.h"
#include "tests/unit/core_each.h"

/*
 * After every step core_check() runs. Each request is answered exactly once, by an answer that its sort can have; each
 * operation has a number of its own; in a domain each RECLAIM (the last of several) has one RECLAIMED. The names lie in
 * one to three domains, by a hash of the bytes, which does not change the meaning of the bytes. In the end the sessions
 * send EOF: then everything is answered. They leave, Redis answers OK to all, time passes: then nothing is left, and no
 * timer runs for ever.
 */

enum {
    SESSIONS = 4, NAMES = 6, DOMAINS = 3, OWNERS = 3, ASKED_MAX = 1024, FLIGHTS_MAX = 1024, SENT_MAX = 4,
    EVENTS_MAX = 300, ROUNDS_MAX = 3000
};

struct asked {
    uint64_t session, id;
    enum core_event_type type;
    size_t names;
};

struct flight {
    enum core_action_type verb;
    struct core_op op; /* without its key */
    int64_t at_us;
};

struct world {
    struct core *core;
    struct metrics metrics;
    struct core_conf conf;
    int64_t now_us;
    uint64_t last_op, last_request, token;
    struct core_waiter_poll waiter_poll;    /* the last one, without its names; op 0: none */
    uint64_t session[SESSIONS]; /* 0 = none */
    struct asked asked[ASKED_MAX];
    struct flight flight[FLIGHTS_MAX];
    size_t asked_n, flights_n, sent_n;
    uint64_t epoch[DOMAINS], reclaimed[DOMAINS]; /* of the last RECLAIM, and of the last RECLAIMED */
    uint64_t dice; /* draws domains */
    uint64_t watched; /* the last lock id of a WATCH */
    struct {
        char p[8192];
        size_t n;
    } sent[SENT_MAX]; /* the last member: not cleared for each run */
};

/* ---- actions of the core ---- */

static void
check_answer(const struct asked *a, const struct core_reply *r)
{
    bool locks = a->type == CORE_LOCK || a->type == CORE_MLOCK;
    bool many = a->type == CORE_MUNLOCK || a->type == CORE_MRENEW;

    CHECK((unsigned)r->answer < CORE_ANSWERS);
    switch (r->answer) {
    case CORE_GRANTED:
        CHECK(locks && (a->type == CORE_LOCK ? r->token != 0 && r->parts == 0 : r->parts == a->names));
        for (size_t i = 0; i < r->parts; i++) {
            CHECK(r->part[i].answer == CORE_GRANTED && r->part[i].token != 0);
        }
        break;
    case CORE_LEFT:
        CHECK(!locks && r->left >= 0 && r->parts == (many ? a->names : 0));
        break;
    case CORE_DEADLOCK:
        CHECK(locks && r->hops > 0);
        break;
    case CORE_TOO_MANY_WAITERS:
        CHECK(locks || a->type == CORE_CANCEL);
        break;
    case CORE_NOT_GRANTED:
    case CORE_CANCELLED:
    case CORE_TOO_MANY_LOCKS:
        CHECK(locks);
        break;
    default:
        break;
    }
}

static void
on_reply(struct world *w, const struct core_reply *r)
{
    for (size_t i = 0; i < w->asked_n; i++) {
        struct asked *a = &w->asked[i];

        if (a->session == r->session && a->id == r->id) {
            check_answer(a, r);
            *a = w->asked[--w->asked_n];
            return;
        }
    }
    CHECK(!"a reply without a request", "session %d request %d answer %d", (int)r->session, (int)r->id, (int)r->answer);
}

static void
on_op(struct world *w, const struct core_action *a)
{
    w->watched = a->op.queue != 0 ? a->op.queue : w->watched;
    if (a->type == CORE_WATCH || a->type == CORE_UNWATCH) {
        return;
    }
    CHECK(a->op.op > w->last_op && a->op.claim != 0 && a->op.key.n > 0 && a->op.token_floor <= w->token);
    CHECK(a->type != CORE_ACQUIRE || (a->op.holds > 0 && a->op.lease_us > 0));
    CHECK(a->type != CORE_EXTEND || a->op.lease_us > 0);
    CHECK(w->flights_n < FLIGHTS_MAX);
    w->last_op = a->op.op;
    w->flight[w->flights_n++] = (struct flight){a->type, a->op, w->now_us};
}

static void
act(void *ctx, const struct core_action *a)
{
    struct world *w = ctx;

    switch (a->type) {
    case CORE_REPLY:
        on_reply(w, &a->reply);
        break;
    case CORE_PUBLISH:
        CHECK(a->publish.name.n > 0);
        break;
    case CORE_BROADCAST:
        CHECK(a->broadcast.n > 0 && a->broadcast.n <= sizeof(w->sent[0].p));
        memcpy(w->sent[w->sent_n % SENT_MAX].p, a->broadcast.p, a->broadcast.n);
        w->sent[w->sent_n++ % SENT_MAX].n = a->broadcast.n;
        break;
    case CORE_WAITER_POLL:
        CHECK(a->waiter_poll.op > w->waiter_poll.op);
        CHECK(a->waiter_poll.n > 0 && a->waiter_poll.n <= CORE_WAITER_POLL_MAX);
        for (size_t i = 0; i < a->waiter_poll.n; i++) {
            CHECK(a->waiter_poll.name[i].key.n > 0);
        }
        w->waiter_poll = a->waiter_poll;
        break;
    case CORE_RECLAIMED: /* once, and for the last one only */
        CHECK(a->domain < w->conf.domains);
        CHECK(a->epoch == w->epoch[a->domain] && a->epoch > w->reclaimed[a->domain]);
        w->reclaimed[a->domain] = a->epoch;
        break;
    default:
        on_op(w, a);
        break;
    }
}

static void
step(struct world *w, const struct core_event *ev)
{
    core_step(w->core, w->now_us, ev);
    if (ev->type == CORE_TIME) { /* now and then */
        core_end_turn(w->core);
    }
    core_check(w->core, w->now_us);
}

/* ---- requests ---- */

static const char *const names[NAMES] = {"a", "b", "c", "d", "e{x}", "f"};
static const char *const owners[OWNERS] = {"", "me", "you"};

/* An LCG; returns its high bits. */
static uint16_t
draw_domain(struct world *w)
{
    w->dice = w->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint16_t)((w->dice >> 33) % w->conf.domains);
}

/* Always the same for a name. */
static uint16_t
domain_of(const struct world *w, struct slice name)
{
    return (uint16_t)((unsigned char)name.p[0] % w->conf.domains);
}

static int64_t
take_duration(struct choices *c)
{
    static const int64_t of[] = {10 * US_PER_MS, 50 * US_PER_MS, US_PER_S,        2 * US_PER_S,
                                 10 * US_PER_S,  30 * US_PER_S,  3600 * US_PER_S, INT64_C(365) * 24 * 3600 * US_PER_S};

    return of[take_below(c, sizeof(of) / sizeof(of[0]))];
}

/* Takes three bytes. */
static struct core_request
take_request(struct world *w, struct choices *c, uint64_t session, enum core_event_type type)
{
    unsigned what = take_byte(c), how = take_byte(c), how_long = take_byte(c);
    const char *name = names[what % NAMES];
    struct core_request r = {.session = session, .id = w->last_request, .name = slice_of(name)};

    r.owner = slice_of(owners[what / NAMES % OWNERS]);
    r.spec.kind = (enum kind)(what / NAMES / OWNERS % KINDS);
    if (what >= 128) { /* mostly the name decides the kind */
        r.spec.kind = (enum kind)(what % NAMES % KINDS);
    }
    r.spec.key = r.name;
    r.spec.domain = domain_of(w, r.name);
    r.spec.limit = 1 + how_long % 3;
    r.spec.lease_us = how_long & 64 ? US_PER_S : 30 * US_PER_S;
    r.spec.owner_grace_us = how_long & 32 ? 0 : 10 * US_PER_S;
    r.spec.queue_grace_us = how_long & 16 ? 0 : 2 * US_PER_S;
    r.spec.waiters_max = how_long & 128 ? 2 : 0;
    r.spec.linger_us = how_long & 128 ? 0 : 20 * US_PER_MS;
    r.spec.foreign_wait = (how_long & 8) != 0;
    r.spec.tracking = (how_long & 4) != 0;
    r.wait_us = (how & 3) == 0 ? 0 : (how & 3) == 1 ? CORE_FOREVER : take_duration(c);
    r.lease_us = type == CORE_RENEW || type == CORE_MRENEW || (how & 4) ? take_duration(c) : 0;
    r.token = type != CORE_LOCK && type != CORE_MLOCK && (how & 8) ? w->token - (how >> 6) : 0;
    r.once = (how & 16) != 0;
    r.fresh = (how & 32) != 0 && (how & 16) == 0;
    r.full = (how & 64) != 0;
    r.shared = (how & 128) != 0 &&
               (type == CORE_UNLOCK || (kind_rows[r.spec.kind].flags & KIND_F_SHARED) != 0);
    return r;
}

static void
ask(struct world *w, struct choices *c, enum core_event_type type)
{
    uint64_t session = w->session[take_below(c, SESSIONS)];
    struct core_request request[NAMES];
    struct core_event ev = {.type = type};
    bool many = type == CORE_MLOCK || type == CORE_MUNLOCK || type == CORE_MRENEW;

    if (session == 0 || w->asked_n == ASKED_MAX) {
        return;
    }
    w->last_request++;
    request[0] = take_request(w, c, session, type);
    if (!many) {
        ev.request = request[0];
    } else {
        unsigned first = take_byte(c);

        ev.multilock.n = 1 + first % 4;
        for (size_t i = 0; i < ev.multilock.n; i++) { /* different names, of one owner */
            request[i] = i == 0 ? request[0] : take_request(w, c, session, type);
            request[i].name = request[i].spec.key = slice_of(names[(first / 4 + i) % NAMES]);
            request[i].spec.domain = domain_of(w, request[i].name);
            request[i].owner = request[0].owner;
        }
        ev.multilock.request = request;
    }
    w->asked[w->asked_n++] = (struct asked){session, w->last_request, type, many ? ev.multilock.n : 1};
    step(w, &ev);
}

/* ---- outcomes of Redis ---- */

static void
answer(struct world *w, size_t at, struct core_done d)
{
    struct flight f = w->flight[at];
    struct core_event ev = {.type = CORE_DONE};

    memmove(&w->flight[at], &w->flight[at + 1], (--w->flights_n - at) * sizeof(f));
    d.claim = f.verb == CORE_BREAK_KEY ? f.op.queue : f.op.claim;
    d.op = f.op.op;
    d.sent_us = d.sent_us < f.at_us ? f.at_us : d.sent_us;
    if (d.outcome == CORE_OK && (f.verb == CORE_BREAK_KEY || (f.verb == CORE_ACQUIRE && !f.op.reentry))) {
        d.token = ++w->token;
        w->token += f.verb == CORE_ACQUIRE ? f.op.reserve : 0; /* the reserve is its own */
    }
    ev.done = d;
    step(w, &ev);
}

static void
redis(struct world *w, struct choices *c)
{
    unsigned which = take_byte(c), how = take_byte(c);
    struct core_done d = {.outcome = (enum core_outcome)(how % (CORE_GRACE + 1)), .sent_us = w->now_us, .pttl_us = -1};

    if (w->flights_n == 0) {
        return;
    }
    d.guard_us = w->now_us + (how & 64 ? US_PER_S : 0);
    d.sent_us = how & 128 ? 0 : w->now_us;
    if (d.outcome == CORE_TAKEN || d.outcome == CORE_FOREIGN || d.outcome == CORE_GRACE) {
        int64_t pttl = take_number(c);

        d.pttl_us = pttl < 0 || pttl > (INT64_C(1) << 53) ? -1 : pttl * US_PER_MS;
        d.holders = how >> 4 & 3;
        d.has_ticket = d.outcome == CORE_TAKEN && (how & 8) != 0;
    } else if (d.outcome == CORE_OK) {
        d.expiry_ms = w->now_us / US_PER_MS;
        d.remote_subscribers = how >> 4 & 3;
    }
    answer(w, which % w->flights_n, d);
}

/* The number of subscribers of each name, perhaps late, or for the second time. */
static void
polled(struct world *w, unsigned how)
{
    int64_t subscribers[CORE_WAITER_POLL_MAX];
    struct core_event ev = {.type = CORE_WAITERS_POLLED,
                            .polled = {w->waiter_poll.op - (how >> 6 == 3), subscribers, w->waiter_poll.n}};

    for (size_t i = 0; i < w->waiter_poll.n; i++) {
        subscribers[i] = (how >> (i % 4)) & 1;
    }
    step(w, &ev);
}

/* ---- other events ---- */

static void
receive(struct world *w, struct choices *c)
{
    unsigned how = take_byte(c);
    char copy[8192];
    struct slice s;

    if (w->sent_n > 0 && how & 1) { /* an earlier broadcast, perhaps with a byte changed */
        size_t at = how / 4 % (w->sent_n < SENT_MAX ? w->sent_n : SENT_MAX);

        s = (struct slice){copy, w->sent[at].n};
        memcpy(copy, w->sent[at].p, s.n);
        if (how & 2) {
            copy[(take_byte(c) * 256 + take_byte(c)) % s.n] = (char)take_byte(c);
        }
    } else {
        s = take_bytes(c, 200);
    }
    s.p = exact_copy(s, false);
    step(w, &(struct core_event){.type = CORE_RECEIVED, .received = s});
    free((char *)(uintptr_t)s.p);
}

static void
session_moves(struct world *w, struct choices *c)
{
    unsigned how = take_byte(c);
    uint64_t *s = &w->session[how % SESSIONS];

    if (*s == 0) {
        *s = core_session_open(w->core, 0);
        CHECK(*s != 0);
    } else if (how & 128) {
        uint64_t gone = *s;

        *s = 0;
        for (size_t i = 0; i < w->asked_n;) { /* no session is left to be answered */
            if (w->asked[i].session == gone) {
                w->asked[i] = w->asked[--w->asked_n];
            } else {
                i++;
            }
        }
        step(w, &(struct core_event){.type = CORE_SESSION_GONE, .session = gone});
    } else {
        step(w, &(struct core_event){.type = how & 64 ? CORE_UNREACHABLE : CORE_EOF, .session = *s});
    }
}

static void
time_passes(struct world *w, struct choices *c)
{
    unsigned how = take_byte(c);
    int64_t next_us = core_next_us(w->core);

    if (how < 128 && next_us != CORE_FOREVER) {
        w->now_us = next_us > w->now_us ? next_us : w->now_us;
    } else {
        w->now_us += how & 64 ? take_duration(c) : how * US_PER_MS;
    }
    step(w, &(struct core_event){.type = CORE_TIME});
}

static void
configure(struct world *w, struct choices *c)
{
    unsigned how = take_byte(c);

    w->conf.deadlock_us = how & 1 ? 0 : US_PER_S;
    w->conf.waiters_max = how & 2 ? 3 : 1000;
    w->conf.locks_max = how & 4 ? 2 : 1000;
    w->conf.handoff_max = 1 + (how >> 3 & 3);
    w->conf.search_steps = how >> 5 & 3;
    core_configure(w->core, &w->conf);
}

/* Reads the whole view, which is allowed at any time. */
static void
see_lock(void *ctx, const struct core_lock_view *v)
{
    *(size_t *)ctx += v->name.n + strlen(v->state);
}

static void
see_waiter(void *ctx, const struct core_waiter_view *v)
{
    CHECK(v->name.n > 0 && v->position > 0);
    *(size_t *)ctx += 1;
}

static void
read_all(struct world *w)
{
    size_t n = 0;

    core_each_lock(w->core, w->now_us, SLICE_LIT("*"), see_lock, &n);
    core_each_waiter(w->core, w->now_us, SLICE_LIT(""), see_waiter, &n);
}

static void
happens(struct world *w, struct choices *c)
{
    static const enum core_event_type bare[] = {CORE_GRACE_OVER, CORE_SUSPECT, CORE_REACHED};
    unsigned what = take_byte(c);
    struct core_event ev = {.type = CORE_HINT, .domain = draw_domain(w)};

    switch (what % 32) {
    case 0:
        session_moves(w, c);
        break;
    case 1:
        configure(w, c);
        break;
    case 2:
        receive(w, c);
        break;
    case 3:
        if (what & 32) {
            polled(w, take_byte(c));
        } else {
            read_all(w);
        }
        break;
    case 4: /* late, and for any lock or none */
    case 5:
        ev.type = what % 32 == 4 ? CORE_SUBSCRIBED : CORE_HINT;
        ev.queue = what & 32 ? what / 64 : w->watched;
        step(w, &ev);
        break;
    case 6:
        if (what / 32 >= 5) { /* Redis has lost data of the domain, or all data */
            ev.type = CORE_RECLAIM;
            ev.epoch = ++w->epoch[ev.domain];
        } else {
            ev.type = what / 32 == 4 ? CORE_DRAIN : bare[what / 32 % 3];
        }
        step(w, &ev);
        break;
    case 7:
        ask(w, c, what / 32 == 7 ? CORE_CANCEL : CORE_BREAK);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        time_passes(w, c);
        break;
    case 12:
    case 13:
        ask(w, c, what % 32 == 12 ? CORE_MUNLOCK : CORE_MRENEW);
        break;
    case 14:
    case 15:
        ask(w, c, CORE_MLOCK);
        break;
    case 16:
    case 17:
    case 18:
        ask(w, c, what % 32 == 16 ? CORE_RENEW : CORE_UNLOCK);
        break;
    case 19:
    case 20:
    case 21:
    case 22:
        ask(w, c, CORE_LOCK);
        break;
    default:
        redis(w, c);
        break;
    }
}

/* ---- the end ---- */

/* Redis answers OK and time passes, until no operation is left. */
static void
go_on_until(struct world *w, bool (*done)(const struct world *w), const char *what)
{
    for (int i = 0; !done(w); i++) {
        CHECK(i < ROUNDS_MAX, "%s: not after %d rounds; %d operations under way", what, i, (int)w->flights_n);
        if (w->flights_n > 0) {
            answer(w, 0, (struct core_done){.outcome = CORE_OK, .sent_us = w->now_us, .pttl_us = -1});
        } else {
            int64_t next_us = core_next_us(w->core);

            CHECK(next_us != CORE_FOREVER, "%s: and nothing is to come", what);
            w->now_us = next_us > w->now_us ? next_us : w->now_us;
            step(w, &(struct core_event){.type = CORE_TIME});
        }
    }
}

static bool
all_answered(const struct world *w)
{
    return w->asked_n == 0;
}

static bool
nothing_to_come(const struct world *w)
{
    return w->flights_n == 0 && core_next_us(w->core) == CORE_FOREVER;
}

static void
end(struct world *w)
{
    struct core_totals t;

    for (size_t i = 0; i < SESSIONS; i++) {
        if (w->session[i] != 0) {
            step(w, &(struct core_event){.type = CORE_EOF, .session = w->session[i]});
        }
    }
    go_on_until(w, all_answered, "an answer is owed");
    for (size_t i = 0; i < SESSIONS; i++) {
        if (w->session[i] != 0) {
            step(w, &(struct core_event){.type = CORE_SESSION_GONE, .session = w->session[i]});
        }
    }
    go_on_until(w, nothing_to_come, "it does not end");
    t = core_totals(w->core);
    CHECK(t.locks == 0 && t.held_claims == 0 && t.waiters == 0 && t.owners == 0 && t.sessions == 0 &&
              t.releasing_claims == 0,
          "left: %d locks, %d owners, %d sessions", (int)t.locks, (int)t.owners, (int)t.sessions);
    CHECK(memcmp(w->reclaimed, w->epoch, sizeof(w->epoch)) == 0, "a RECLAIM without its end");
    core_free(&w->core);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct hash_key key = {1, 2};
    static struct world w;
    struct choices c = {data, size};

    memset(&w, 0, offsetof(struct world, sent));
    w.now_us = 1000 * US_PER_S;
    w.token = 1000;
    w.conf = (struct core_conf){.op_timeout_us = US_PER_S, .max_poll_us = 5 * US_PER_S, .deadlock_us = US_PER_S,
                                .daemon = "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10", .handoff_time_us = 10 * US_PER_MS,
                                .handoff_max = 4, .waiters_max = 1000, .locks_max = 1000, .one_link = true};
    w.dice = size;
    for (size_t i = 0; i < size; i++) {
        w.dice = (w.dice ^ data[i]) * UINT64_C(0x100000001b3);
    }
    w.conf.domains = 1 + (uint32_t)(w.dice >> 40) % DOMAINS;
    w.core = core_new(&w.conf, &key, &w.metrics, (struct core_sink){act, &w});
    CHECK(w.core != NULL);
    w.session[0] = core_session_open(w.core, 0);
    w.session[1] = core_session_open(w.core, 0);
    for (int i = 0; i < EVENTS_MAX && c.n > 0; i++) {
        happens(&w, &c);
    }
    end(&w);
    return 0;
}
