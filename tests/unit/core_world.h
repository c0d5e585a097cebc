/*
 * core_world.h -- a tiny world around one core: a virtual clock, a sink that writes everything down, and short
 * words for what sessions and Redis do.
 *
 * Strict: before anything new happens, each reply and each operation of the last happening must have been asked
 * for with expect_reply() and expect_op(). News may be left unread; the first unread of its sort is told. After
 * every step core_check() runs. At the end world_close() lets every session go and Redis answer, and then nothing
 * may be left in the core.
 */
#ifndef RLOCKD_TESTS_CORE_WORLD_H
#define RLOCKD_TESTS_CORE_WORLD_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/core/view.h"

#define MS(n) ((n)*US_PER_MS)
#define SEC(n) ((n)*US_PER_S)
#define TOLD_30S (SEC(30) - MS(300) - MS(2)) /* of the watchdog's 30 s a holder is told 1 % and 2 ms less */

enum { WORLD_SESSIONS = 12000, WORLD_TEXT = 24 };

/* An operation on its way, or a (UN)WATCH. */
struct flight {
    enum core_action_type verb;
    struct core_op op;
    char key[WORLD_TEXT];
    int64_t at_us;
    bool seen;     /* the test has asked for it */
    bool answered; /* or needs no answer */
};

/* One name of an MLOCK, or one link of a cycle: its reply or hop with texts that last. */
struct detail {
    struct core_reply part;
    struct core_hop hop;
    char name[WORLD_TEXT], daemon[WORLD_TEXT], owner[WORLD_TEXT];
};

struct answer {
    struct core_reply reply; /* part and hop point nowhere, see part() and hop() */
    char name[WORLD_TEXT];
    struct detail *detail;   /* reply.parts + reply.hops of them */
    bool seen;
};

/* What was said to all daemons. */
struct said {
    char *p;
    size_t n;
};

struct news {
    struct core_publish publish;
    char name[WORLD_TEXT], owner_name[WORLD_TEXT];
    bool seen;
};

/* What is kept of a claim for the next process. */
struct kept {
    struct core_kept kept;
    char name[WORLD_TEXT], key[WORLD_TEXT], owner[WORLD_TEXT];
};

struct world {
    struct core *core;
    struct metrics metrics;
    struct core_conf conf;
    int64_t now_us;
    uint64_t request, token; /* the last ones given out */
    struct flight *flights;
    struct answer *answers;
    struct news *news;
    struct said *said;
    struct kept *kept;
    size_t kept_n, kept_room;
    size_t flights_n, answers_n, news_n, said_n, flights_room, answers_room, news_room, said_room;
    size_t flights_seen, answers_seen; /* all before are seen */
    uint64_t reclaimed;                /* epoch of the last RECLAIMED */
    unsigned reclaimed_n;              /* how many there were */
    uint64_t session[WORLD_SESSIONS];  /* open ones, in any order */
    size_t sessions_n;
    bool unchecked; /* for large worlds: core_check() only at the end */
};

/* What a request may say; all zero: LOCK waits for ever, is renewed by the watchdog, for the session itself. */
struct ask {
    const char *owner, *key;
    int64_t wait_us; /* 0 = for ever */
    bool nowait;
    int64_t lease_us;
    uint64_t token;
    bool once, full, fresh, shared, foreign_wait;
    enum kind kind;
    uint32_t limit;
    uint32_t waiters_max;
    int64_t spec_lease_us;                  /* 0 = 30 s */
    bool no_place_grace, no_owner_grace; /* else 2 s, 10 s */
};

static inline void *
world_room(void *p, size_t n, size_t *room, size_t size)
{
    if (n < *room) {
        return p;
    }
    *room = *room == 0 ? 64 : *room * 2;
    p = realloc(p, *room * size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static inline void
world_text(char out[WORLD_TEXT], struct slice s)
{
    ck_assert_uint_lt(s.n, WORLD_TEXT);
    if (s.n > 0) {
        memcpy(out, s.p, s.n);
    }
    out[s.n] = '\0';
}

static inline void
world_details(struct answer *r)
{
    const struct core_reply *rp = &r->reply;

    r->detail = rp->parts + rp->hops > 0 ? calloc(rp->parts + rp->hops, sizeof(*r->detail)) : NULL;
    for (size_t i = 0; i < rp->parts; i++) {
        r->detail[i].part = rp->part[i];
        world_text(r->detail[i].name, rp->part[i].name);
    }
    for (size_t i = 0; i < rp->hops; i++) {
        struct detail *d = &r->detail[rp->parts + i];

        d->hop = rp->hop[i];
        world_text(d->name, rp->hop[i].name);
        world_text(d->daemon, rp->hop[i].daemon);
        world_text(d->owner, rp->hop[i].owner_name);
    }
    r->reply.part = NULL;
    r->reply.hop = NULL;
}

/* Its record; the one behind the last when there is none. */
static inline struct kept *
world_kept(const struct world *w, uint64_t claim)
{
    size_t i = 0;

    while (i < w->kept_n && w->kept[i].kept.part.claim != claim) {
        i++;
    }
    return &w->kept[i];
}

static inline void
world_keep(struct world *w, const struct core_kept *k)
{
    struct kept *r;

    w->kept = world_room(w->kept, w->kept_n, &w->kept_room, sizeof(*w->kept));
    r = world_kept(w, k->part.claim);
    w->kept_n += r == &w->kept[w->kept_n];
    r->kept = *k;
    world_text(r->name, k->name);
    world_text(r->key, k->key);
    world_text(r->owner, k->owner);
}

static inline void
world_forget(struct world *w, uint64_t claim)
{
    struct kept *r = world_kept(w, claim);

    ck_assert_msg(r != &w->kept[w->kept_n], "claim %d is forgotten, and was not kept", (int)claim);
    *r = w->kept[--w->kept_n];
}

static inline void
world_sink(void *ctx, const struct core_action *a)
{
    struct world *w = ctx;
    struct flight *f;
    struct answer *r;
    struct said *s;
    struct news *n;

    switch (a->type) {
    case CORE_REPLY:
        w->answers = world_room(w->answers, w->answers_n, &w->answers_room, sizeof(*w->answers));
        r = &w->answers[w->answers_n++];
        *r = (struct answer){.reply = a->reply};
        world_text(r->name, a->reply.name);
        world_details(r);
        break;
    case CORE_SAY:
        w->said = world_room(w->said, w->said_n, &w->said_room, sizeof(*w->said));
        s = &w->said[w->said_n++];
        *s = (struct said){malloc(a->say.n), a->say.n};
        ck_assert_ptr_nonnull(s->p);
        memcpy(s->p, a->say.p, a->say.n);
        break;
    case CORE_RECLAIMED:
        w->reclaimed = a->epoch;
        w->reclaimed_n++;
        break;
    case CORE_PUBLISH:
        w->news = world_room(w->news, w->news_n, &w->news_room, sizeof(*w->news));
        n = &w->news[w->news_n++];
        *n = (struct news){.publish = a->publish};
        world_text(n->name, a->publish.name);
        world_text(n->owner_name, a->publish.owner_name);
        break;
    case CORE_KEEP:
        world_keep(w, &a->keep);
        break;
    case CORE_FORGET:
        world_forget(w, a->forget);
        break;
    default:
        w->flights = world_room(w->flights, w->flights_n, &w->flights_room, sizeof(*w->flights));
        f = &w->flights[w->flights_n++];
        *f = (struct flight){.verb = a->type, .op = a->op, .at_us = w->now_us};
        f->answered = a->type == CORE_WATCH || a->type == CORE_UNWATCH;
        ck_assert_msg(!w->conf.keeps || a->type > CORE_RELEASE || world_kept(w, a->op.claim) != &w->kept[w->kept_n],
                      "operation %d on a claim that is not kept", (int)a->type);
        world_text(f->key, a->op.key);
        break;
    }
}

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
                                            .handoff_max = 4,
                                            .waiters_max = 100000,
                                            .locks_max = 1000};

static inline void
world_open(struct world *w)
{
    world_open_conf(w, &world_conf);
}

/* Everything that was said has been asked for. */
static inline void
quiet(struct world *w)
{
    for (; w->answers_seen < w->answers_n; w->answers_seen++) {
        const struct answer *r = &w->answers[w->answers_seen];

        ck_assert_msg(r->seen, "an unexpected reply: request %d, answer %d", (int)r->reply.id, (int)r->reply.answer);
    }
    for (; w->flights_seen < w->flights_n; w->flights_seen++) {
        const struct flight *f = &w->flights[w->flights_seen];

        ck_assert_msg(f->seen, "an unexpected operation: %d on %s", (int)f->verb, f->key);
    }
}

static inline void
world_step(struct world *w, const struct core_event *ev)
{
    core_step(w->core, w->now_us, ev);
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
session(struct world *w)
{
    uint64_t id = core_session_open(w->core);

    ck_assert_uint_ne(id, 0);
    ck_assert_uint_lt(w->sessions_n, WORLD_SESSIONS);
    w->session[w->sessions_n++] = id;
    return id;
}

static inline void
gone(struct world *w, uint64_t s)
{
    happens(w, &(struct core_event){.type = CORE_GONE, .session = s});
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
        .token = a->token,
        .once = a->once,
        .full = a->full,
        .fresh = a->fresh,
        .shared = a->shared,
        .spec = {.kind = a->kind,
                 .limit = a->limit,
                 .foreign_wait = a->foreign_wait,
                 .waiters_max = a->waiters_max,
                 .lease_us = a->spec_lease_us != 0 ? a->spec_lease_us : SEC(30),
                 .owner_grace_us = a->no_owner_grace ? 0 : SEC(10),
                 .place_grace_us = a->no_place_grace ? 0 : SEC(2),
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

/* Names are parted by blanks; one may be followed by the key it has: "a b:key c". */
static inline uint64_t
world_ask_many(struct world *w, enum core_event_type type, uint64_t s, const char *names, struct ask a)
{
    struct core_request request[CORE_MANY_MAX];
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
        ck_assert_uint_lt(ev.many.n, CORE_MANY_MAX);
        request[ev.many.n++] = world_request(w, s, name, key, &a);
    }
    ev.many.request = request;
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

/* The oldest operation not asked for yet is this one. */
static inline struct flight
expect_op(struct world *w, enum core_action_type verb, const char *key)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        struct flight *f = &w->flights[i];

        if (!f->seen) {
            ck_assert_msg(f->verb == verb && strcmp(f->key, key) == 0, "operation %d on %s, expected %d on %s",
                          (int)f->verb, f->key, (int)verb, key);
            f->seen = true;
            return *f;
        }
    }
    ck_abort_msg("no operation %d on %s", (int)verb, key);
    return (struct flight){.verb = CORE_REPLY};
}

/* Watching or not is all the same here. */
static inline void
skip_watches(struct world *w)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        w->flights[i].seen |= w->flights[i].verb == CORE_WATCH || w->flights[i].verb == CORE_UNWATCH;
    }
}

/* Nor is whatever else it asks Redis for. */
static inline void
skip_all(struct world *w)
{
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        w->flights[i].seen = true;
    }
}

/* Sent when it was made, for the next token, unless `d` says otherwise. */
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
    for (size_t i = w->flights_n; i > 0; i--) {
        if (w->flights[i - 1].op.op == f.op.op) {
            w->flights[i - 1].answered = true;
            break;
        }
    }
    ev.done = d;
    happens(w, &ev);
}

#define redis_says(w, f, what, ...) world_done(w, f, (struct core_done){.outcome = (what), __VA_ARGS__})

static inline void
hint(struct world *w, uint64_t lock_id)
{
    happens(w, &(struct core_event){.type = CORE_HINT, .lock = lock_id});
}

static inline void
watching(struct world *w, uint64_t lock_id)
{
    happens(w, &(struct core_event){.type = CORE_WATCHING, .lock = lock_id});
}

/* Redis may have lost what it had; it grants again; a clock has jumped. */
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

/* Everything that the core wants to do until then, each at its time. */
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

/* Nobody looked for so long; what is over is seen with the next event. */
static inline void
stall(struct world *w, int64_t us)
{
    quiet(w);
    w->now_us += us;
}

/* ---- what was said ---- */

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
look(const struct world *w, const char *name)
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

#define expect_state(w, name, said) ck_assert_str_eq(look(w, name).state, said)

/* ---- short ways ---- */

/* s takes a free name; returns the token. */
static inline uint64_t
take(struct world *w, uint64_t s, const char *name)
{
    uint64_t id = lock(w, s, name);

    redis_says(w, expect_op(w, CORE_ACQUIRE, name), CORE_OK);
    return expect_reply(w, id, CORE_GRANTED)->token;
}

/* The part of a lease that is told: 1 % and 2 ms less. */
static inline int64_t
told(int64_t lease_us)
{
    return lease_us - lease_us / 100 - MS(2);
}

/* s takes the free "a" with a lease of its own; returns the token. */
static inline uint64_t
take_for(struct world *w, uint64_t s, int64_t lease_us)
{
    uint64_t id = lock(w, s, "a", .lease_us = lease_us);

    redis_says(w, expect_op(w, CORE_ACQUIRE, "a"), CORE_OK);
    return expect_reply(w, id, CORE_GRANTED)->token;
}

/* s gives back its last hold. */
static inline void
give(struct world *w, uint64_t s, const char *name)
{
    uint64_t id = unlock(w, s, name);

    redis_says(w, expect_op(w, CORE_RELEASE, name), CORE_OK);
    ck_assert_int_eq(expect_reply(w, id, CORE_LEFT)->left, 0);
}

/* All go, Redis says yes to everything, time passes: nothing may be left. */
static inline void
world_close(struct world *w)
{
    struct core_totals t;

    quiet(w);
    for (size_t i = 0; i < w->sessions_n; i++) {
        world_step(w, &(struct core_event){.type = CORE_GONE, .session = w->session[i]});
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
    core_check(w->core, w->now_us);
    t = core_totals(w->core);
    ck_assert_msg(t.locks == 0 && t.owners == 0 && t.sessions == 0 && t.waiters == 0 && t.held == 0 && t.freeing == 0,
                  "left: %d locks, %d owners, %d sessions", (int)t.locks, (int)t.owners, (int)t.sessions);
    ck_assert_uint_eq(w->kept_n, 0);
    core_free(&w->core);
    ck_assert_ptr_null(w->core);
    free(w->kept);
    for (size_t i = 0; i < w->answers_n; i++) {
        free(w->answers[i].detail);
    }
    for (size_t i = 0; i < w->said_n; i++) {
        free(w->said[i].p);
    }
    free(w->flights);
    free(w->answers);
    free(w->news);
    free(w->said);
}

/* What main() returns: 0 when all tests passed. */
static inline int
world_main(const char *suite, const TTest **tests, size_t n)
{
    Suite *s = suite_create(suite);
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_set_timeout(tc, 300);
    for (size_t i = 0; i < n; i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}

#endif
