/*
 * core_world.h -- a small world around one core: a virtual clock, a sink that keeps all actions (core_sink.h), and
 * short functions for the events of sessions and Redis.
 *
 * The world is strict about promises: before the next event, the test must have asked for each reply and each operation
 * of the last one, with expect_reply() and expect_op(), those of one key in their order. No promise fixes the order of
 * different keys and clients, which core_disorder.h changes in each step, nor how often a watch is sent, see
 * is_watched(). News may be left unread. core_check() runs after every step. At the end world_close() ends all sessions
 * and answers all operations; then nothing may be left in the core, and nothing watched.
 */
#ifndef RLOCKD_TESTS_CORE_WORLD_H
#define RLOCKD_TESTS_CORE_WORLD_H

#include "tests/unit/core_check.h"
#include "tests/unit/core_disorder.h"
#include "tests/unit/core_sink.h"
#include "tests/unit/suite.h"

/* The terms of a request; all zero: LOCK waits for ever, is renewed by the watchdog, for the session itself. */
struct ask {
    const char *owner, *key;
    int64_t wait_us; /* 0 = for ever */
    bool nowait;
    int64_t lease_us;
    uint64_t token;
    bool once, full, fresh, shared, foreign_wait, tracking;
    enum kind kind, rule_kind; /* rule_kind: the kind in the rules */
    uint32_t limit;
    uint16_t domain;
    uint32_t waiters_max;
    int64_t spec_lease_us;                  /* 0 = 30 s */
    int64_t linger_us;
    uint32_t replicas;
    bool no_queue_grace, no_owner_grace; /* else 2 s, 10 s */
    int64_t grace_us; /* GRACE */
};

static inline void
world_open_conf(struct world *w, const struct core_conf *conf)
{
    static const struct hash_key key = {1, 2};

    memset(w, 0, sizeof(*w));
    w->conf = *conf;
    w->now_us = SEC(1000);
    w->token = 1000;
    w->core = core_new(&w->conf, &key, &w->metrics, (struct core_sink){world_sink, w});
    ck_assert_ptr_nonnull(w->core);
}

static const struct core_conf world_conf = {.op_timeout_us = US_PER_S,
                                            .max_poll_us = 5 * US_PER_S,
                                            .handoff_time_us = 10 * US_PER_MS,
                                            .handoff_max = 0, /* each UNLOCK asks Redis; see test_core_handoff.c */
                                            .waiters_max = 100000,
                                            .locks_max = 1000,
                                            .one_link = true};

static inline void
world_open(struct world *w)
{
    world_open_conf(w, &world_conf);
}

/* The test has asked for every reply and operation so far. */
static inline void
quiet(struct world *w)
{
    for (; w->answers_seen < w->answers_n; w->answers_seen++) {
        const struct answer *r = &w->answers[w->answers_seen];

        ck_assert_msg(r->seen, "an unexpected reply: request %d, answer %d", (int)r->reply.id, (int)r->reply.answer);
    }
    for (; w->flights_seen < w->flights_n; w->flights_seen++) {
        const struct flight *f = &w->flights[w->flights_seen];

        ck_assert_msg(f->seen || is_watch(f->verb), "an unexpected operation: %d on %s", (int)f->verb, f->key);
    }
}

static inline void
world_step(struct world *w, const struct core_event *ev)
{
    size_t flight = w->flights_n, answer = w->answers_n;

    core_step(w->core, w->now_us, ev);
    disorder(w, flight, answer);
    if (!w->one_turn) {
        core_end_turn(w->core);
    }
    if (!w->unchecked) {
        core_check(w->core, w->now_us);
    }
}

static inline void
happens(struct world *w, const struct core_event *ev)
{
    quiet(w);
    world_step(w, ev);
}

/* ---- sessions ---- */

static inline uint64_t
session_of(struct world *w, uint64_t user)
{
    uint64_t id = core_session_open(w->core, user);

    ck_assert_uint_ne(id, 0);
    ck_assert_uint_lt(w->sessions_n, WORLD_SESSIONS);
    w->session[w->sessions_n++] = id;
    return id;
}

/* A session without a user. */
static inline uint64_t
session(struct world *w)
{
    return session_of(w, 0);
}

static inline void
gone(struct world *w, uint64_t s)
{
    happens(w, &(struct core_event){.type = CORE_SESSION_GONE, .session = s});
    for (size_t i = 0; i < w->sessions_n; i++) {
        if (w->session[i] == s) {
            w->session[i] = w->session[--w->sessions_n];
            return;
        }
    }
}

static inline void
eof(struct world *w, uint64_t s)
{
    happens(w, &(struct core_event){.type = CORE_EOF, .session = s});
}

static inline void
unreachable(struct world *w, uint64_t s)
{
    happens(w, &(struct core_event){.type = CORE_UNREACHABLE, .session = s});
}

static inline void
drains(struct world *w)
{
    happens(w, &(struct core_event){.type = CORE_DRAIN});
}

/* ---- requests: each returns its id ---- */

static inline struct core_request
world_request(const struct world *w, uint64_t s, struct slice name, struct slice key, const struct ask *a)
{
    return (struct core_request){
        .session = s,
        .id = w->request,
        .name = name,
        .owner = slice_of(a->owner != NULL ? a->owner : ""),
        .wait_us = a->nowait ? 0 : a->wait_us != 0 ? a->wait_us : CORE_FOREVER,
        .lease_us = a->lease_us,
        .owner_grace_us = a->grace_us,
        .token = a->token,
        .once = a->once,
        .full = a->full,
        .fresh = a->fresh,
        .shared = a->shared,
        .spec = {.kind = a->kind,
                 .rule_kind = a->rule_kind,
                 .limit = a->limit,
                 .domain = a->domain,
                 .foreign_wait = a->foreign_wait,
                 .tracking = a->tracking,
                 .linger_us = a->linger_us,
                 .replicas = a->replicas,
                 .waiters_max = a->waiters_max,
                 .lease_us = a->spec_lease_us != 0 ? a->spec_lease_us : SEC(30),
                 .owner_grace_us = a->no_owner_grace ? 0 : SEC(10),
                 .queue_grace_us = a->no_queue_grace ? 0 : SEC(2),
                 .key = key},
    };
}

static inline uint64_t
world_ask(struct world *w, enum core_event_type type, uint64_t s, const char *name, struct ask a)
{
    struct core_event ev = {.type = type};

    w->request++;
    ev.request = world_request(w, s, slice_of(name), slice_of(a.key != NULL ? a.key : name), &a);
    happens(w, &ev);
    return w->request;
}

/* Names are separated by blanks; a name may have its key behind a colon: "a b:key c". */
static inline uint64_t
world_ask_many(struct world *w, enum core_event_type type, uint64_t s, const char *names, struct ask a)
{
    struct core_request request[CORE_MULTILOCK_MAX];
    struct core_event ev = {.type = type};

    w->request++;
    for (const char *p = names; *p != '\0'; p += *p == ' ') {
        size_t n = strcspn(p, ": ");
        struct slice name = {p, n}, key = name;

        p += n;
        if (*p == ':') {
            key = (struct slice){p + 1, strcspn(p + 1, " ")};
            p += 1 + key.n;
        }
        ck_assert_uint_lt(ev.multilock.n, CORE_MULTILOCK_MAX);
        request[ev.multilock.n++] = world_request(w, s, name, key, &a);
    }
    ev.multilock.request = request;
    happens(w, &ev);
    return w->request;
}

#define lock(w, s, name, ...) world_ask(w, CORE_LOCK, s, name, (struct ask){__VA_ARGS__})
#define unlock(w, s, name, ...) world_ask(w, CORE_UNLOCK, s, name, (struct ask){__VA_ARGS__})
#define renew(w, s, name, us, ...) world_ask(w, CORE_RENEW, s, name, (struct ask){.lease_us = (us), __VA_ARGS__})
#define break_name(w, s, name, ...) world_ask(w, CORE_BREAK, s, name, (struct ask){__VA_ARGS__})
#define mlock(w, s, names, ...) world_ask_many(w, CORE_MLOCK, s, names, (struct ask){__VA_ARGS__})
#define munlock(w, s, names, ...) world_ask_many(w, CORE_MUNLOCK, s, names, (struct ask){__VA_ARGS__})
#define mrenew(w, s, names, us) world_ask_many(w, CORE_MRENEW, s, names, (struct ask){.lease_us = (us)})

/* ---- Redis ---- */

/* The oldest operation on this key that the test has not asked for yet is this one. */
static inline struct flight
expect_op(struct world *w, enum core_action_type verb, const char *key)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        struct flight *f = &w->flights[i];

        if (!f->seen && strcmp(f->key, key) == 0 && !is_watch(f->verb)) {
            ck_assert_msg(f->verb == verb, "operation %d on %s, expected %d", (int)f->verb, key, (int)verb);
            f->seen = true;
            return *f;
        }
    }
    ck_abort_msg("no operation %d on %s", (int)verb, key);
    return (struct flight){.verb = CORE_REPLY};
}

/* The oldest operation of this sort that the test has not asked for yet, whatever its key. */
static inline struct flight
expect_any(struct world *w, enum core_action_type verb)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        if (!w->flights[i].seen && w->flights[i].verb == verb) {
            w->flights[i].seen = true;
            return w->flights[i];
        }
    }
    ck_abort_msg("no operation %d", (int)verb);
    return (struct flight){.verb = CORE_REPLY};
}

/* Whether there is such an operation on the key: for operations that may happen without a promise. */
static inline bool
has_op(const struct world *w, enum core_action_type verb, const char *key)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        if (!w->flights[i].seen && w->flights[i].verb == verb && strcmp(w->flights[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- watches: a key is watched or not; how often WATCH is sent is no promise ---- */

static inline bool
is_watched(const struct world *w, const char *key)
{
    return world_watch(w, key) != &w->watch[w->watches_n];
}

/* The WATCH of the key that is in force. */
static inline struct flight
watch_of(const struct world *w, const char *key)
{
    ck_assert_msg(is_watched(w, key), "%s is not watched", key);
    return *world_watch(w, key);
}

/* The test ignores the operations so far. */
static inline void
skip_all(struct world *w)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        w->flights[i].seen = true;
    }
}

/* The outcome of an operation that was sent when it was made, with the next token, unless `d` has other values. */
static inline void
world_done(struct world *w, struct flight f, struct core_done d)
{
    struct core_event ev = {.type = CORE_DONE};
    bool fresh = f.verb == CORE_BREAK_KEY || (f.verb == CORE_ACQUIRE && !f.op.reentry);

    d.claim = f.op.claim;
    d.op = f.op.op;
    d.sent_us = d.sent_us != 0 ? d.sent_us : f.at_us;
    if (d.outcome == CORE_OK && fresh && d.token == 0) {
        w->token = w->token > f.op.token_floor ? w->token + 1 : f.op.token_floor + 1;
        d.token = w->token;
    }
    if (f.index < w->flights_n && w->flights[f.index].op.op == f.op.op) {
        w->flights[f.index].answered = true;
    }
    ev.done = d;
    happens(w, &ev);
}

#define redis_says(w, f, what, ...) world_done(w, f, (struct core_done){.outcome = (what), __VA_ARGS__})

static inline void
hint(struct world *w, uint64_t queue)
{
    happens(w, &(struct core_event){.type = CORE_HINT, .queue = queue});
}

static inline void
watching(struct world *w, uint64_t queue)
{
    happens(w, &(struct core_event){.type = CORE_SUBSCRIBED, .queue = queue});
}

static inline void
unsubscribed(struct world *w, uint64_t queue)
{
    happens(w, &(struct core_event){.type = CORE_UNSUBSCRIBED, .queue = queue});
}

/* Redis may have lost its data; it grants again; a clock has jumped. */
static inline void
reclaims(struct world *w, uint64_t epoch)
{
    happens(w, &(struct core_event){.type = CORE_RECLAIM, .epoch = epoch});
}

static inline void
grace_over(struct world *w)
{
    happens(w, &(struct core_event){.type = CORE_GRACE_OVER});
}

static inline void
suspects(struct world *w)
{
    happens(w, &(struct core_event){.type = CORE_SUSPECT});
}

/* ---- time ---- */

/* Time passes: all that the core wants to do until then happens at its time. */
static inline void
pass(struct world *w, int64_t us)
{
    int64_t until_us = w->now_us + us;

    quiet(w);
    while (core_next_us(w->core) <= until_us) {
        if (core_next_us(w->core) > w->now_us) {
            w->now_us = core_next_us(w->core);
        }
        world_step(w, &(struct core_event){.type = CORE_TIME});
    }
    w->now_us = until_us;
}

/* Time passes without an event: expired leases are noticed with the next event. */
static inline void
stall(struct world *w, int64_t us)
{
    quiet(w);
    w->now_us += us;
}

/* ---- replies and news ---- */

static inline const struct core_reply *
expect_reply(struct world *w, uint64_t id, enum core_answer answer)
{
    for (size_t i = w->answers_seen; i < w->answers_n; i++) {
        struct answer *r = &w->answers[i];

        if (!r->seen && r->reply.id == id) {
            ck_assert_msg(r->reply.answer == answer, "request %d: answer %d, expected %d", (int)id,
                          (int)r->reply.answer, (int)answer);
            r->seen = true;
            return &r->reply;
        }
    }
    ck_abort_msg("no reply to request %d (expected answer %d)", (int)id, (int)answer);
    return NULL;
}

/* Whether the request has its reply already: for replies that may come sooner or later. */
static inline bool
is_answered(const struct world *w, uint64_t id)
{
    for (size_t i = w->answers_seen; i < w->answers_n; i++) {
        if (!w->answers[i].seen && w->answers[i].reply.id == id) {
            return true;
        }
    }
    return false;
}

static inline const struct detail *
world_detail(const struct core_reply *r, size_t i)
{
    return &((const struct answer *)(const void *)r)->detail[i]; /* its first member */
}

/* The i-th name of the answer to an MLOCK, MUNLOCK or MRENEW; the i-th link of a cycle. */
static inline const struct detail *
part(const struct core_reply *r, size_t i)
{
    ck_assert_uint_lt(i, r->parts);
    return world_detail(r, i);
}

static inline const struct detail *
hop(const struct core_reply *r, size_t i)
{
    ck_assert_uint_lt(i, r->hops);
    return world_detail(r, r->parts + i);
}

/* The next unread news of this sort, whatever came before it. */
static inline const struct core_publish *
expect_news(struct world *w, enum core_news news, const char *name)
{
    for (size_t i = 0; i < w->news_n; i++) {
        struct news *n = &w->news[i];

        if (!n->seen && n->publish.news == news && strcmp(n->name, name) == 0) {
            n->publish.name = slice_of(n->name);
            n->publish.owner_name = slice_of(n->owner_name);
            n->seen = true;
            return &n->publish;
        }
    }
    ck_abort_msg("no news %d of %s", (int)news, name);
    return NULL;
}

static inline size_t
count_news(const struct world *w, enum core_news news)
{
    size_t n = 0;

    for (size_t i = 0; i < w->news_n; i++) {
        n += w->news[i].publish.news == news;
    }
    return n;
}

static inline struct core_lock_view
view_of(const struct world *w, const char *name)
{
    struct core_lock_view v;

    ck_assert_msg(core_lock_info(w->core, w->now_us, slice_of(name), &v), "no record of %s", name);
    return v;
}

static inline bool
known(const struct world *w, const char *name)
{
    struct core_lock_view v;

    return core_lock_info(w->core, w->now_us, slice_of(name), &v);
}

#define expect_state(w, name, expected) ck_assert_str_eq(view_of(w, name).state, expected)

/* ---- short ways ---- */

/* The oldest operation on the key is this one, Redis does it, and the request gets this answer. */
static inline const struct core_reply *
redis_does(struct world *w, enum core_action_type verb, const char *key, uint64_t id, enum core_answer answer)
{
    redis_says(w, expect_op(w, verb, key), CORE_OK);
    return expect_reply(w, id, answer);
}

#define redis_grants(w, key, id) redis_does(w, CORE_ACQUIRE, key, id, CORE_GRANTED)
#define redis_renews(w, key, id) redis_does(w, CORE_EXTEND, key, id, CORE_LEFT)
#define redis_releases(w, key, id) redis_does(w, CORE_RELEASE, key, id, CORE_LEFT)

/* A release, and behind it the attempt of the next waiter: Redis does the release. Returns the attempt. */
static inline struct flight
redis_releases_for_next(struct world *w, const char *key)
{
    struct flight gives = expect_op(w, CORE_RELEASE, key), next = expect_op(w, CORE_ACQUIRE, key);

    redis_says(w, gives, CORE_OK);
    return next;
}

/* s takes a free name; returns the token. */
static inline uint64_t
take(struct world *w, uint64_t s, const char *name)
{
    return redis_grants(w, name, lock(w, s, name))->token;
}

/* s takes the free "a" of a kind whose holder only the key's expiry proves, which is this one. */
static inline void
take_counter(struct world *w, uint64_t s, int64_t expiry_ms)
{
    uint64_t id = lock(w, s, "a", .kind = KIND_COUNTER);

    redis_says(w, expect_op(w, CORE_ACQUIRE, "a"), CORE_OK, .expiry_ms = expiry_ms);
    expect_reply(w, id, CORE_GRANTED);
}

/* The part of a lease that is reported to its holder: 1 % and 2 ms less. */
static inline int64_t
reported(int64_t lease_us)
{
    return lease_us - lease_us / 100 - MS(2);
}

/* s takes the free "a" with a lease of its own; returns the token. */
static inline uint64_t
take_for(struct world *w, uint64_t s, int64_t lease_us)
{
    return redis_grants(w, "a", lock(w, s, "a", .lease_us = lease_us))->token;
}

/* A world with one session, which is returned; it has taken "a". */
static inline uint64_t
world_holding(struct world *w)
{
    uint64_t s;

    world_open(w);
    s = session(w);
    take(w, s, "a");
    return s;
}

/* A broadcast of another daemon, or of this one, is received. */
static inline void
receives(struct world *w, const char *p, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1); /* so that a sanitizer sees a read beyond the end */

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, p, n);
    world_step(w, &(struct core_event){.type = CORE_RECEIVED, .received = {copy, n}});
    free(copy);
}

/* s gives back its last hold. */
static inline void
give(struct world *w, uint64_t s, const char *name)
{
    ck_assert_int_eq(redis_releases(w, name, unlock(w, s, name))->left, 0);
}

/* All sessions end, Redis answers OK to everything, time passes: nothing may be left. */
static inline void
world_close(struct world *w)
{
    struct core_totals t;

    quiet(w);
    for (size_t i = 0; i < w->sessions_n; i++) {
        world_step(w, &(struct core_event){.type = CORE_SESSION_GONE, .session = w->session[i]});
    }
    for (size_t i = 0; i < w->flights_n || core_next_us(w->core) != CORE_FOREVER;) {
        if (i < w->flights_n && w->flights[i].answered) {
            i++;
        } else if (i < w->flights_n) {
            w->flights_seen = w->flights_n;
            world_done(w, w->flights[i], (struct core_done){.outcome = CORE_OK});
        } else {
            w->now_us = core_next_us(w->core);
            world_step(w, &(struct core_event){.type = CORE_TIME});
        }
    }
    ck_assert_msg(w->watches_n == 0, "%s is still watched", w->watch[0].key);
    core_check(w->core, w->now_us);
    t = core_totals(w->core);
    ck_assert_msg(t.locks == 0 && t.owners == 0 && t.sessions == 0 && t.waiters == 0 && t.held_claims == 0 &&
                      t.releasing_claims == 0,
                  "left: %d locks, %d owners, %d sessions", (int)t.locks, (int)t.owners, (int)t.sessions);
    ck_assert_uint_eq(w->checkpoints_n, 0);
    ck_assert_uint_eq(w->owner_checkpoints_n, 0);
    core_free(&w->core);
    ck_assert_ptr_null(w->core);
    free(w->checkpoints);
    free(w->owner_checkpoints);
    for (size_t i = 0; i < w->answers_n; i++) {
        free(w->answers[i].detail);
    }
    for (size_t i = 0; i < w->broadcasts_n; i++) {
        free(w->broadcasts[i].p);
    }
    free(w->flights);
    free(w->watch);
    free(w->answers);
    free(w->news);
    free(w->broadcasts);
}

#endif
