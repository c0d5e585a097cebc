/*
 * test_core_graph.c -- the search for deadlocks in slices: random requests against a simple reference, with any event
 * between two slices; and sizes at which only a linear search ends.
 */
#include <stdio.h>

#include "tests/unit/core_each.h"
#include "tests/unit/core_world.h"
#include "tests/unit/rng.h"

/* ---- against a reference ---- */

enum { PARTIES = 12, THINGS = 10, ROUNDS = 300, EDGES = 256 };

static const char *const things[THINGS] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"};

struct edge {
    int thing;
    uint64_t owner;
    bool shared, goes_on;
};

/* The holders and the waiters, as the daemon reports them. */
struct picture {
    const struct world *w;
    int thing;
    struct edge hold[EDGES], wait[EDGES];
    size_t holds_n, waits_n;
};

struct market {
    struct world w;
    struct rng rng;
    uint64_t s[PARTIES];
    enum kind kind[THINGS];
    uint32_t limit[THINGS];
    size_t served_n;
    unsigned deadlocks, late; /* reported; not in the event that closed the cycle */
};

static int
thing_of(struct slice name)
{
    ck_assert(name.n == 2 && name.p[0] == 't');
    return name.p[1] - '0';
}

static void
note_holder(void *ctx, const struct core_holder_view *v)
{
    struct picture *p = ctx;

    ck_assert_uint_lt(p->holds_n, EDGES);
    p->hold[p->holds_n++] = (struct edge){p->thing, v->owner.id, v->shared, false};
}

static void
note_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct picture *p = ctx;

    ck_assert_uint_lt(p->waits_n, EDGES);
    if (!v->kept) {
        p->wait[p->waits_n++] = (struct edge){thing_of(v->name), v->owner.id, v->shared, false};
    }
}

static void
take_picture(const struct market *m, struct picture *p)
{
    p->w = &m->w;
    p->holds_n = p->waits_n = 0;
    for (p->thing = 0; p->thing < THINGS; p->thing++) {
        core_each_holder(m->w.core, m->w.now_us, slice_of(things[p->thing]), note_holder, p);
    }
    core_each_waiter(m->w.core, m->w.now_us, (struct slice){NULL, 0}, note_waiter, p);
}

static bool
is_stuck(const struct picture *p, uint64_t owner)
{
    for (size_t i = 0; i < p->waits_n; i++) {
        if (p->wait[i].owner == owner) {
            return !p->wait[i].goes_on;
        }
    }
    return false;
}

/* A reader waits behind each writer that came before it. */
static bool
is_behind_a_writer(const struct picture *p, const struct edge *wait)
{
    for (const struct edge *first = p->wait; wait->shared && first < wait; first++) {
        if (first->thing == wait->thing && !first->shared && !first->goes_on) {
            return true;
        }
    }
    return false;
}

/* One permit that is given back is enough; of other kinds all holders have to leave. */
static bool
can_go_on(const struct market *m, const struct picture *p, const struct edge *wait)
{
    bool permits = m->kind[wait->thing] == KIND_SEMAPHORE;
    size_t n = 0, leave = 0;

    if (is_behind_a_writer(p, wait)) {
        return false;
    }
    for (size_t i = 0; i < p->holds_n; i++) {
        if (p->hold[i].thing == wait->thing && !(wait->shared && p->hold[i].shared)) {
            n++;
            leave += !is_stuck(p, p->hold[i].owner);
        }
    }
    return permits ? n < m->limit[wait->thing] || leave > 0 : leave == n;
}

static void
judge(const struct market *m, struct picture *p)
{
    bool more = true;

    for (size_t i = 0; i < p->waits_n; i++) {
        p->wait[i].goes_on = false;
    }
    while (more) {
        more = false;
        for (size_t i = 0; i < p->waits_n; i++) {
            if (!p->wait[i].goes_on && can_go_on(m, p, &p->wait[i])) {
                p->wait[i].goes_on = more = true;
            }
        }
    }
}

static bool
holds_it(const struct picture *p, uint64_t owner, int thing)
{
    for (size_t i = 0; i < p->holds_n; i++) {
        if (p->hold[i].owner == owner && p->hold[i].thing == thing) {
            return true;
        }
    }
    return false;
}

/* Each owner waits for the name of its hop, and the next owner holds it; all are stuck. The first one waits no more. */
static void
check_cycle(const struct market *m, struct picture *p, const struct core_reply *r)
{
    judge(m, p);
    ck_assert_uint_ge(r->hops, 1);
    for (size_t i = 0; i < r->hops; i++) {
        int thing = thing_of(slice_of(hop(r, i)->name));

        ck_assert_msg(is_stuck(p, hop(r, i)->hop.owner), "hop %zu of %zu can go on", i, r->hops);
        ck_assert(holds_it(p, hop(r, (i + 1) % r->hops)->hop.owner, thing));
    }
    for (size_t i = 0; i < p->waits_n; i++) {
        if (p->wait[i].owner == hop(r, 0)->hop.owner) {
            memmove(&p->wait[i], &p->wait[i + 1], (--p->waits_n - i) * sizeof(p->wait[0])); /* in the same order */
            return;
        }
    }
    ck_abort_msg("the victim did not wait");
}

/* Redis does every operation; each DEADLOCK must be true in the picture of the moment before. */
static void
serve(struct market *m, struct picture *p)
{
    struct world *w = &m->w;

    for (; w->answers_seen < w->answers_n; w->answers_seen++) {
        struct answer *a = &w->answers[w->answers_seen];

        a->seen = true;
        if (a->reply.answer == CORE_DEADLOCK) {
            check_cycle(m, p, &a->reply);
            m->deadlocks++;
        }
    }
    skip_all(w); /* operations are answered in their order */
    while (m->served_n < w->flights_n) {
        struct flight f = w->flights[m->served_n++];

        if (f.verb != CORE_WATCH && f.verb != CORE_UNWATCH) {
            redis_says(w, f, CORE_OK);
            serve(m, p);
        }
    }
}

static void
slice(struct market *m)
{
    struct picture p;
    unsigned before = m->deadlocks;

    take_picture(m, &p);
    m->w.now_us += 50;
    world_step(&m->w, &(struct core_event){.type = CORE_TIME});
    serve(m, &p);
    m->late += m->deadlocks - before;
}

static bool
waits(const struct market *m, uint64_t owner)
{
    struct picture p;

    take_picture(m, &p);
    for (size_t i = 0; i < p.waits_n; i++) {
        if (p.wait[i].owner == owner) {
            return true;
        }
    }
    return false;
}

static void
one_asks(struct market *m, uint64_t s, int thing)
{
    bool shared = m->kind[thing] == KIND_RW && rng_below(&m->rng, 2) == 0;
    struct picture p;

    take_picture(m, &p);
    ck_assert_uint_lt(p.waits_n, EDGES);
    p.wait[p.waits_n++] = (struct edge){thing, s, shared, false};
    lock(&m->w, s, things[thing], .kind = m->kind[thing], .limit = m->limit[thing], .shared = shared,
         .wait_us = rng_below(&m->rng, 4) == 0 ? MS(2) : 0, .lease_us = rng_below(&m->rng, 4) == 0 ? MS(10) : 0);
    serve(m, &p);
}

static void
one_acts(struct market *m)
{
    int who = (int)rng_below(&m->rng, PARTIES), thing = (int)rng_below(&m->rng, THINGS);
    struct picture p;

    take_picture(m, &p);
    if (rng_below(&m->rng, 60) == 0) {
        gone(&m->w, m->s[who]);
        serve(m, &p);
        m->s[who] = session(&m->w);
    } else if (rng_below(&m->rng, 25) == 0) {
        break_name(&m->w, m->s[who], things[thing], .kind = m->kind[thing], .limit = m->limit[thing]);
        serve(m, &p);
    } else if (waits(m, m->s[who])) {
        return;
    } else if (holds_it(&p, m->s[who], thing) && rng_below(&m->rng, 3) > 0) {
        unlock(&m->w, m->s[who], things[thing]);
        serve(m, &p);
    } else if (!holds_it(&p, m->s[who], thing) || m->kind[thing] == KIND_SEMAPHORE) {
        one_asks(m, m->s[who], thing);
    }
}

/* When all slices are done, no owner is stuck. */
static void
all_waits_are_searched(struct market *m)
{
    struct picture p;

    for (int i = 0; core_next_us(m->w.core) <= m->w.now_us + MS(1); i++) {
        ck_assert_int_lt(i, 10000);
        slice(m);
    }
    take_picture(m, &p);
    judge(m, &p);
    for (size_t i = 0; i < p.waits_n; i++) {
        ck_assert_msg(p.wait[i].goes_on, "%s is waited for for ever", things[p.wait[i].thing]);
    }
}

static void
market(struct market *m, int seed)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SIMPLE, KIND_RW, KIND_RW, KIND_SEMAPHORE};
    struct core_conf conf = world_conf;

    memset(m, 0, sizeof(*m));
    m->rng = rng_of(seed);
    conf.search_steps = 1 + rng_below(&m->rng, 12);
    conf.handoff_max = rng_below(&m->rng, 2) * 8;
    world_open_conf(&m->w, &conf);
    m->w.in_order = true; /* a verdict is about the waits that the verdicts before it have left */
    for (int i = 0; i < THINGS; i++) {
        m->kind[i] = kinds[rng_below(&m->rng, sizeof(kinds) / sizeof(kinds[0]))];
        m->limit[i] = 1 + rng_below(&m->rng, 3);
    }
    for (int i = 0; i < PARTIES; i++) {
        m->s[i] = session(&m->w);
    }
    for (int round = 0; round < ROUNDS; round++) {
        one_acts(m);
        if (rng_below(&m->rng, 3) == 0) {
            slice(m);
        }
        if (rng_below(&m->rng, 20) == 0) {
            all_waits_are_searched(m);
        }
    }
    all_waits_are_searched(m);
    for (int i = 0; i < PARTIES; i++) {
        struct picture p;

        take_picture(m, &p);
        gone(&m->w, m->s[i]);
        serve(m, &p);
    }
    world_close(&m->w);
}

/* Whatever happens between two slices, every deadlock is reported, and nothing else. */
START_TEST(every_deadlock_and_no_other)
{
    static struct market m;
    unsigned deadlocks = 0, late = 0;
    int seeds = rng_seeds(200);

    for (int seed = 0; seed < seeds; seed++) {
        market(&m, seed);
        deadlocks += m.deadlocks;
        late += m.late;
    }
    ck_assert_uint_gt(deadlocks, 4 * (unsigned)seeds);
    ck_assert_uint_gt(late, (unsigned)seeds);
}
END_TEST

/* ---- large ones ---- */

/* The number of slices that the core wants at once; time does not pass. */
static int
slices(struct world *w)
{
    int n = 0;

    while (core_next_us(w->core) <= w->now_us) {
        world_step(w, &(struct core_event){.type = CORE_TIME});
        ck_assert_int_lt(++n, 100000);
    }
    return n;
}

static struct ask
as(int owner, char text[16])
{
    snprintf(text, 16, "o%d", owner);
    return (struct ask){.owner = text};
}

static uint64_t
asks(struct world *w, uint64_t s, int owner, int name)
{
    char who[16], what[16];

    snprintf(what, sizeof(what), "n%d", name);
    return world_ask(w, CORE_LOCK, s, what, as(owner, who));
}

static void
gets(struct world *w, uint64_t s, int owner, int name)
{
    uint64_t id = asks(w, s, owner, name);
    char what[16];

    snprintf(what, sizeof(what), "n%d", name);
    redis_grants(w, what, id);
}

/*
 * Each new owner waits for the head of the chain so far. One search for all of them walks the chain once, so the number
 * of slices grows as that of its owners, and not as the square. The request that closes the chain gets DEADLOCK.
 */
START_TEST(long_chain)
{
    enum { N = 30000, SLICE = 4096 };
    static struct world w;
    const struct core_reply *r;
    uint64_t s, id;
    int n;

    world_open(&w);
    w.unchecked = true;
    s = session(&w);
    for (int i = 0; i < N; i++) {
        gets(&w, s, i, i);
    }
    for (int i = 1; i < N; i++) {
        asks(&w, s, i, i - 1);
        quiet(&w);
    }
    n = slices(&w);
    ck_assert_int_gt(n, 1);
    ck_assert_int_le(n, 8 * N / SLICE + 2);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    id = asks(&w, s, 0, N - 1);
    quiet(&w);
    n = slices(&w);
    ck_assert_int_le(n, 16 * N / SLICE + 2);
    r = expect_reply(&w, id, CORE_DEADLOCK);
    ck_assert_uint_eq(r->hops, 16);
    ck_assert_str_eq(hop(r, 0)->owner, "o0");
    ck_assert_str_eq(hop(r, 1)->owner, "o29999");
    ck_assert_str_eq(hop(r, 2)->owner, "o29998");
    ck_assert_uint_eq(w.metrics.deadlocks, 1);
    core_check(w.core, w.now_us);
    world_close(&w);
}
END_TEST

/* One of the waits ends during the search: there is no deadlock any more. */
START_TEST(broken_up_meanwhile)
{
    enum { N = 3000 };
    static struct world w;
    uint64_t s, t;

    world_open(&w);
    w.unchecked = true;
    s = session(&w);
    t = session(&w);
    for (int i = 0; i < N; i++) {
        gets(&w, i == N / 2 ? t : s, i, i);
    }
    for (int i = 1; i < N; i++) {
        asks(&w, i == N / 2 ? t : s, i, i - 1);
    }
    quiet(&w);
    (void)slices(&w);
    asks(&w, s, 0, N - 1);
    world_step(&w, &(struct core_event){.type = CORE_TIME});
    ck_assert_int_eq(core_next_us(w.core), w.now_us); /* the search goes on */
    gone(&w, t);
    (void)slices(&w);
    ck_assert_uint_eq(w.metrics.deadlocks, 0);
    core_check(w.core, w.now_us);
    world_close(&w);
}
END_TEST

/*
 * After `n` slices of a search that would find a cycle, the lock that closes it is handed over to an owner that waits
 * for nothing else: the claim, its name and its owner in Redis stay, only the owner and the token change. False: the
 * cycle was found before that.
 */
static bool
handed_over_after(int n, enum kind kind)
{
    struct core_conf conf = world_conf;
    struct ask pool = {.kind = kind, .limit = 1};
    uint64_t s[4], other, id, next;
    struct flight grant;
    struct world w;
    bool found;

    conf.search_steps = 1;
    conf.handoff_max = 8;
    world_open_conf(&w, &conf);
    other = session(&w);
    for (int i = 0; i < 4; i++) {
        s[i] = session(&w);
    }
    redis_grants(&w, "pool", world_ask(&w, CORE_LOCK, s[3], "pool", pool));
    id = world_ask(&w, CORE_LOCK, s[0], "pool", pool); /* so that this grant has a reserve */
    world_ask(&w, CORE_UNLOCK, s[3], "pool", pool);
    grant = redis_releases_for_next(&w, "pool");
    w.answers_seen = w.answers_n;
    redis_says(&w, grant, CORE_OK);
    pool.token = expect_reply(&w, id, CORE_GRANTED)->token;
    take(&w, s[1], "x");
    next = world_ask(&w, CORE_LOCK, s[2], "pool", (struct ask){.kind = kind, .limit = 1});
    world_ask(&w, CORE_LOCK, s[1], "pool", (struct ask){.kind = kind, .limit = 1});
    lock(&w, s[0], "x");
    for (int i = 0; i < n; i++) {
        world_step(&w, &(struct core_event){.type = CORE_TIME});
    }
    found = w.metrics.deadlocks > 0;
    w.answers_seen = w.answers_n;
    if (!found) {
        id = world_ask(&w, CORE_UNLOCK, other, "pool", pool);
        expect_reply(&w, id, CORE_LEFT);
        expect_reply(&w, next, CORE_GRANTED);
        ck_assert_uint_eq(w.metrics.handoffs, 1);
        (void)slices(&w);
        ck_assert_uint_eq(w.metrics.deadlocks, 0);
    }
    for (int i = 0; i < 3; i++) { /* the lock of one may pass to the next */
        gone(&w, s[i]);
        skip_all(&w);
        w.answers_seen = w.answers_n;
    }
    world_close(&w);
    return !found;
}

START_TEST(handed_over_meanwhile)
{
    static const enum kind kinds[] = {KIND_SEMAPHORE, KIND_REENTRANT};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int n = 0;

        while (handed_over_after(n, kinds[i])) {
            ck_assert_int_lt(++n, 1000);
        }
        ck_assert_int_gt(n, 2); /* some hand-offs come between the search and its answer */
    }
}
END_TEST

/* Two pools, each holder of one waits for the other: no owner can go on once the last one waits. */
START_TEST(two_pools)
{
    enum { N = 600 };
    static struct world w;
    uint64_t s[2 * N], id = 0;
    const char *const pool[] = {"left", "right"};

    world_open(&w);
    w.unchecked = true;
    for (int i = 0; i < 2 * N; i++) {
        s[i] = session(&w);
        lock(&w, s[i], pool[i % 2], .kind = KIND_SEMAPHORE, .limit = N);
        redis_grants(&w, pool[i % 2], w.request);
    }
    for (int i = 0; i < 2 * N; i++) {
        ck_assert_uint_eq(w.metrics.deadlocks, 0);
        id = lock(&w, s[i], pool[(i + 1) % 2], .kind = KIND_SEMAPHORE, .limit = N);
    }
    ck_assert_int_le(slices(&w), 8);
    ck_assert_uint_eq(w.metrics.deadlocks, 1);
    ck_assert_uint_eq(expect_reply(&w, id, CORE_DEADLOCK)->hops, 2);
    core_check(w.core, w.now_us);
    world_close(&w);
}
END_TEST

/* The search rests as long as it took, however many requests come. */
START_TEST(rests)
{
    enum { N = 3000 };
    static struct world w;
    uint64_t s;

    world_open(&w);
    w.unchecked = true;
    s = session(&w);
    for (int i = 0; i <= N; i++) {
        gets(&w, s, i, i);
    }
    for (int i = 1; i < N; i++) {
        asks(&w, s, i, i - 1);
    }
    quiet(&w);
    while (core_next_us(w.core) <= w.now_us) {
        w.now_us += MS(1);
        world_step(&w, &(struct core_event){.type = CORE_TIME});
    }
    asks(&w, s, N, N - 1);
    quiet(&w);
    ck_assert_int_ge(core_next_us(w.core), w.now_us + MS(1));
    ck_assert_int_le(core_next_us(w.core), w.now_us + MS(20));
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {every_deadlock_and_no_other, long_chain, broken_up_meanwhile, handed_over_meanwhile,
                            two_pools, rests};
    Suite *s = suite_create("core, wait-for graph");
    TCase *tc = tcase_create("all");

    tcase_set_timeout(tc, 120);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    return suite_run(s);
}
