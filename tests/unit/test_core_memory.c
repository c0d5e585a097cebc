/*
 * test_core_memory.c -- the core when memory runs out: at each allocation of each request in turn; and that a request
 * needs none when those before it have left their records behind.
 *
 * The core and what it allocates with (heap.c, map.c, freelist.c) are compiled into this file, with allocators that
 * fail when told to and that count what is out. Such a request is answered NO_MEMORY and leaves everything as it was.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

#include "tests/unit/failing_alloc.h"
static bool none_spared = true; /* each record is an allocation */
#define FREELIST_NONE none_spared
#include "daemon/base/heap.c"
#include "daemon/base/map.c"
#include "daemon/base/freelist.c"
#include "daemon/core/restore.c"
#include "daemon/core/multilock.c"
#include "daemon/core/multilock_answers.c"
#include "daemon/core/check.c"
#include "daemon/core/claims.c"
#include "daemon/core/core.c"
#include "daemon/core/timing_out.c"
#include "daemon/core/records.c"
#include "daemon/core/locks.c"
#include "daemon/core/names.c"
#include "daemon/core/operations.c"
#include "daemon/core/outcomes.c"
#include "daemon/core/owners.c"
#include "daemon/core/sessions.c"
#include "daemon/core/queues.c"
#include "daemon/core/times.c"
#include "daemon/core/work.c"
#include "daemon/core/reclaim.c"
#include "daemon/core/requests.c"
#include "daemon/core/view.c"
#include "tests/unit/failing_alloc_end.h"

/* What there is, to be compared. */
struct all {
    struct core_totals t;
    size_t claims, names, timers, session_owners;
};

static struct all
all_of(const struct core *c)
{
    return (struct all){.t = core_totals(c),
                        .claims = c->claims.count,
                        .names = c->by_name.count + c->queues.count + c->owners.count,
                        .timers = c->timers_n,
                        .session_owners = c->session_owners.count};
}

static bool
same(struct all a, struct all b)
{
    return a.t.locks == b.t.locks && a.t.held == b.t.held && a.t.waiters == b.t.waiters && a.t.owners == b.t.owners &&
           a.t.sessions == b.t.sessions && a.t.freeing == b.t.freeing && a.claims == b.claims && a.names == b.names &&
           a.timers == b.timers && a.session_owners == b.session_owners;
}

static void
fill(struct world *w, uint64_t s, int n)
{
    char name[] = "n0000";

    for (int i = 0; i < n; i++) {
        name[1] = (char)('0' + i / 1000 % 10);
        name[2] = (char)('0' + i / 100 % 10);
        name[3] = (char)('0' + i / 10 % 10);
        name[4] = (char)('0' + i % 10);
        take(w, s, name);
    }
}

struct asked {
    enum core_event_type type;
    bool stranger; /* not by the session that holds "held" */
    const char *name;
    struct ask ask;
};

/* An MUNLOCK is refused as a whole, or one name of it. */
static bool
is_refused(const struct answer *a)
{
    return a->reply.answer == CORE_NO_MEMORY ||
           (a->reply.parts > 0 && a->detail[0].part.answer == CORE_NO_MEMORY);
}

/* Allocations that are out, without the arrays of the maps: they stay for those who come later. */
static long
out_of(const struct core *c)
{
    const struct map *const maps[] = {&c->claims, &c->tokens, &c->shares,   &c->by_name, &c->by_key,
                                      &c->queues, &c->owners, &c->sessions, &c->users,   &c->session_owners};
    long n = alive;

    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        n -= maps[i]->chain != NULL;
    }
    return n;
}

/* Refused at every allocation before it is let through, and nothing is left of that. Returns how often. */
static int
starve(struct world *w, uint64_t s, const struct asked *a)
{
    struct all before = all_of(w->core);
    long out = out_of(w->core);
    uint64_t id;

    for (int n = 0;; n++) {
        ck_assert_int_lt(n, 100);
        failing = n;
        id = a->type == CORE_MLOCK || a->type == CORE_MUNLOCK ? world_ask_many(w, a->type, s, a->name, a->ask)
                                                               : world_ask(w, a->type, s, a->name, a->ask);
        failing = -1;
        if (w->answers_seen == w->answers_n || !is_refused(&w->answers[w->answers_seen])) {
            return n;
        }
        expect_reply(w, id, w->answers[w->answers_seen].reply.answer);
        ck_assert_msg(same(before, all_of(w->core)), "failed at allocation %d: something is left", n);
        ck_assert_msg(out_of(w->core) == out, "failed at allocation %d: %ld are out", n, out_of(w->core) - out);
    }
}

/* What is there before: tables and arrays are made and grow at one moment or another. */
enum setting { EMPTY, OTHER_NAMES, OTHER_SESSIONS, SETTINGS };

static void
starve_in(const struct asked *a, enum setting setting, int others)
{
    struct world w;
    uint64_t s, t;

    if (setting == EMPTY && strstr(a->name, "held") != NULL) {
        return;
    }
    world_open(&w);
    s = session(&w);
    t = session(&w);
    if (setting == OTHER_NAMES) {
        fill(&w, t, others);
    }
    if (setting != EMPTY) {
        take(&w, s, "held");
    }
    for (int i = 0; i < others && setting != OTHER_NAMES; i++) {
        session(&w);
    }
    ck_assert_int_ge(starve(&w, a->stranger ? t : s, a), 1);
    if (w.flights_n > w.flights_seen) {
        w.flights[w.flights_n - 1].seen = true; /* what it did in the end */
    }
    world_close(&w);
    ck_assert_msg(alive == 0, "%ld leaked", alive);
}

START_TEST(requests)
{
    static const struct asked rows[] = {
        {CORE_LOCK, true, "new", {.key = "{new}"}},
        {CORE_LOCK, true, "own", {.owner = "alice"}},
        {CORE_LOCK, true, "held", {.lease_us = SEC(5)}},
        {CORE_LOCK, true, "held", {.owner = "alice"}},
        {CORE_LOCK, false, "held", {.lease_us = SEC(5)}},
        {CORE_UNLOCK, false, "held", {.full = true}},
        {CORE_RENEW, false, "held", {.lease_us = SEC(5)}},
        {CORE_BREAK, true, "broken", {.full = true}},
        {CORE_BREAK, true, "held", {.full = true}},
        {CORE_MLOCK, true, "new other:{other} third", {.owner = "alice"}},
        {CORE_MLOCK, true, "held new", {.wait_us = SEC(1)}},
        {CORE_MLOCK, false, "held new", {.lease_us = SEC(5)}},
        {CORE_MUNLOCK, false, "held new", {.full = true}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int round = 0; round < 120; round++) {
            starve_in(&rows[i], (enum setting)(round % SETTINGS), round / SETTINGS);
        }
    }
}
END_TEST

START_TEST(sessions)
{
    for (int full = 0; full < 40; full++) {
        struct world w;
        struct all before;
        int n;

        world_open(&w);
        for (int i = 0; i < full; i++) {
            session(&w);
        }
        before = all_of(w.core);
        for (n = 0; n < 100; n++) {
            uint64_t id;

            failing = n;
            id = core_session_open(w.core, 7);
            failing = -1;
            core_check(w.core, w.now_us);
            if (id != 0) {
                w.session[w.sessions_n++] = id;
                break;
            }
            ck_assert(same(before, all_of(w.core)));
        }
        ck_assert(n >= 2 && n < 100);
        world_close(&w);
        ck_assert_int_eq(alive, 0);
    }
}
END_TEST

START_TEST(the_core)
{
    static const struct hash_key key = {1, 2};
    struct core *c = NULL;
    struct metrics metrics;

    for (int n = 0; n < 2; n++) {
        failing = n;
        ck_assert_ptr_null(core_new(&world_conf, &key, &metrics, (struct core_sink){NULL, NULL}));
    }
    failing = -1;
    core_free(&c); /* there is none */
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* Holds and places of the process before us: what there is no memory for is left to its lease, and forgotten. */
START_TEST(adoption)
{
    struct core_record_part part = {.token = 900, .lease_us = SEC(30), .holds = 1, .named = true, .watchdog = true};
    struct core_conf conf = world_conf;
    size_t failed = 1;

    conf.keeps = true;
    for (int n = 0; failed > 0; n++) {
        struct core_record kept[4] = {{.name = slice_of("a"), .owner = slice_of("alice")},
                                    {.name = slice_of("b"), .owner = slice_of("alice")},
                                    {.name = slice_of("b"), .owner = slice_of("bob")},
                                    {.name = slice_of("c"), .owner = slice_of("")}};
        struct core_restored a = {.kept = kept, .n = 4, .serial = 1000, .token = 1000};
        struct world w;

        ck_assert_int_lt(n, 200);
        world_open_conf(&w, &conf);
        for (size_t i = 0; i < a.n; i++) {
            kept[i].part = part;
            kept[i].part.claim = 10 + i;
            kept[i].part.number = 5 + i;
            kept[i].part.deadline_us = w.now_us + SEC(20);
            kept[i].part.state = i == 2 ? CORE_RECORD_QUEUED : CORE_RECORD_HELD;
            kept[i].key = kept[i].name;
            kept[i].limit = 1;
            kept[i].owner_grace_us = kept[i].queue_grace_us = SEC(10);
            world_keep(&w, &kept[i]);
        }
        failing = n;
        happens(&w, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
        failing = -1;
        failed = a.failed;
        ck_assert_uint_eq(a.held + a.places + a.freed + a.lost + failed, 4);
        ck_assert_uint_eq(w.kept_n, 4 - failed);
        ck_assert_uint_eq(core_totals(w.core).held, a.held);
        world_close(&w);
        ck_assert_msg(alive == 0, "failed at allocation %d: %ld leaked", n, alive);
    }
}
END_TEST

/* Of a million holds each takes its way through the queue; but no more than one queue is there at a time. */
START_TEST(adoption_of_many)
{
    enum { MANY = 100 };
    struct core_record kept[MANY];
    struct core_restored a = {.kept = kept, .n = MANY, .serial = 1000, .token = 1000};
    struct core_conf conf = world_conf;
    char name[MANY][8];
    struct world w;

    conf.keeps = true;
    world_open_conf(&w, &conf);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof(name[i]), "n%u", i);
        kept[i] = (struct core_record){.part = {.claim = 10 + i, .number = 5, .token = 900, .lease_us = SEC(30),
                                              .deadline_us = w.now_us + SEC(20), .holds = 1, .named = true,
                                              .watchdog = true, .state = CORE_RECORD_HELD},
                                     .name = slice_of(name[i]), .key = slice_of(name[i]), .owner = slice_of("alice"),
                                     .limit = 1, .owner_grace_us = SEC(10), .queue_grace_us = SEC(10)};
        world_keep(&w, &kept[i]);
    }
    happens(&w, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    ck_assert_uint_eq(a.held, MANY);
    ck_assert_uint_eq(w.core->queues.count, 0);
    ck_assert_uint_lt(w.core->queues.room, MANY);
    world_close(&w);
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* What there is no memory for does not stay here: Redis is told that it is free. */
START_TEST(cached)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = 8;
    for (int n = 1; n <= 2; n++) { /* the first one is the UNLOCK's own record */
        struct world w;
        uint64_t s, id;

        world_open_conf(&w, &conf);
        s = session(&w);
        id = lock(&w, s, "a", .linger_us = MS(5));
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        failing = n;
        id = unlock(&w, s, "a");
        failing = -1;
        if (n == 2) { /* there was no need of more */
            expect_reply(&w, id, CORE_LEFT);
            expect_state(&w, "a", "lingering");
            pass(&w, MS(5));
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        } else {
            redis_frees(&w, "a", id);
        }
        ck_assert(!known(&w, "a"));
        world_close(&w);
        ck_assert_int_eq(alive, 0);
    }
}
END_TEST

/* Once it has arrived, nothing that happens to a request allocates. */
START_TEST(later_steps)
{
    struct world w;
    struct flight op;
    uint64_t s, t, u, id[6];

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    id[0] = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    id[1] = lock(&w, s, "a");
    id[2] = unlock(&w, s, "a");
    id[3] = renew(&w, s, "a", SEC(40));
    id[4] = lock(&w, t, "a", .owner = "alice", .wait_us = SEC(20));
    lock(&w, u, "a");
    id[5] = lock(&w, s, "a", .nowait = true);
    failing = 0;
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(1));
    op = expect_op(&w, CORE_WATCH, "a");
    watching(&w, op.op.lock);
    redis_grants(&w, "a", id[0]);
    redis_grants(&w, "a", id[1]);
    redis_frees(&w, "a", id[2]);
    redis_renews(&w, "a", id[3]);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&w, id[5], CORE_WAS_LOST);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS); /* the first attempt may come late */
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS); /* not any more */
    pass(&w, SEC(19));
    expect_reply(&w, id[4], CORE_UNAVAILABLE);
    gone(&w, t);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_op(&w, CORE_ACQUIRE, "a");
    eof(&w, u);
    gone(&w, s);
    drains(&w);
    w.answers_seen = w.answers_n;
    world_close(&w);
    failing = -1;
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* What the backend has no memory to note down has not run: it is asked for again as if Redis had been down. */
START_TEST(not_taken)
{
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    w.no_memory = true;
    id = lock(&w, s, "a");
    w.no_memory = false;
    pass(&w, MS(20));
    redis_grants(&w, "a", id);
    w.no_memory = true;
    pass(&w, SEC(10));
    ck_assert_uint_eq(w.metrics.renewals_failed, 1);
    w.no_memory = false;
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    w.no_memory = true;
    expect_reply(&w, break_name(&w, s, "a"), CORE_UNAVAILABLE);
    id = unlock(&w, s, "a");
    w.no_memory = false;
    pass(&w, MS(20));
    redis_frees(&w, "a", id);
    world_close(&w);
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* Redis does what it is asked for, one by one as they come, until so many are done. */
static void
answer_all(struct world *w, uint64_t n, const uint64_t *done)
{
    for (int turns = 0; *done < n; turns++) {
        ck_assert_int_lt(turns, 100);
        skip_all(w);
        if (!w->flights[w->flights_n - 1].answered) {
            redis_says(w, w->flights[w->flights_n - 1], CORE_OK);
        }
        skip_all(w);
        w->answers_seen = w->answers_n;
        pass(w, MS(5));
    }
}

/* No memory to wait for a turn: whoever would have to is served later, and nobody is forgotten. */
START_TEST(no_turn)
{
    struct core_conf conf = world_conf;
    struct world w;
    uint64_t s;

    conf.window = 1;
    world_open_conf(&w, &conf);
    s = session(&w);
    fill(&w, s, 3);
    failing = 0; /* in doubt, */
    reclaims(&w, 9);
    ck_assert_uint_eq(w.core->window[WINDOW_RECLAIM].waiting.count, 0);
    failing = -1;
    answer_all(&w, 3, &w.metrics.reclaims);
    failing = 0; /* to be renewed, */
    pass(&w, SEC(10) + MS(200));
    ck_assert_uint_eq(w.core->window[WINDOW_RENEW].n, 1);
    failing = -1;
    answer_all(&w, 3, &w.metrics.renewals);
    failing = 0; /* to be given back */
    gone(&w, s);
    ck_assert_uint_eq(w.core->window[WINDOW_RELEASE].n, 1);
    failing = -1;
    answer_all(&w, 3, &w.metrics.releases);
    ck_assert_uint_eq(w.metrics.lost, 0);
    world_close(&w);
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* Own names, and one that is waited for and handed over, again and again: nothing is allocated for that. */
static void
goes_round(struct world *w, uint64_t s, uint64_t t)
{
    struct flight op;
    uint64_t id[2];

    take(w, s, "own");
    redis_frees(w, "own", unlock(w, s, "own"));
    take(w, s, "hot");
    id[0] = lock(w, t, "hot", .owner = "alice");
    id[1] = unlock(w, s, "hot");
    op = redis_frees_for_next(w, "hot");
    expect_reply(w, id[1], CORE_LEFT);
    redis_says(w, op, CORE_OK);
    expect_reply(w, id[0], CORE_GRANTED);
    id[0] = lock(w, s, "hot");
    expect_reply(w, unlock(w, t, "hot", .owner = "alice"), CORE_LEFT);
    expect_reply(w, id[0], CORE_GRANTED);
    redis_frees(w, "hot", unlock(w, s, "hot"));
    skip_all(w);
}

START_TEST(requests_go_round)
{
    struct core_conf conf = world_conf;
    struct world w;
    uint64_t s, t;

    none_spared = false;
    conf.handoff_max = 8;
    world_open_conf(&w, &conf);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "held", lock(&w, t, "held", .owner = "bob")); /* the table of owners goes with the last one */
    goes_round(&w, s, t);
    failing = 0;
    for (int i = 0; i < 10; i++) {
        goes_round(&w, s, t);
    }
    failing = -1;
    world_close(&w);
    ck_assert_int_eq(alive, 0);
    none_spared = true;
}
END_TEST

/* The end of the process, in the middle of everything: without a word, and nothing leaks. */
START_TEST(the_end)
{
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "held");
    lock(&w, t, "held");
    lock(&w, t, "held", .owner = "alice");
    lock(&w, t, "held", .owner = "alice", .once = true);
    unlock(&w, t, "held");
    lock(&w, s, "tried");
    expect_op(&w, CORE_ACQUIRE, "tried");
    break_name(&w, s, "broken");
    expect_op(&w, CORE_BREAK_KEY, "broken");
    core_free(&w.core);
    ck_assert_ptr_null(w.core);
    quiet(&w);
    free(w.flights);
    free(w.answers);
    free(w.news);
    ck_assert_int_eq(alive, 0);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {requests,  sessions,    the_core,  adoption, adoption_of_many,
                            cached, later_steps, not_taken, no_turn, requests_go_round, the_end};

    return suite_main("core, memory", tests, sizeof(tests) / sizeof(tests[0]));
}
