/*
 * test_core_handoff_permits.c -- a permit passes to the next owner here while all permits are held here; and not when
 * Redis may have granted one elsewhere since.
 */
#include "tests/unit/core_world.h"

#define TWO .kind = KIND_SEMAPHORE, .limit = 2

/* Both permits of "a" are held here, and two sessions wait. */
struct hall {
    uint64_t old, newest;         /* the holders; the newest one was granted while others waited: with a reserve */
    uint64_t next[2], waits[2];   /* the waiters in their order, and their requests */
    struct flight old_op, newest_op; /* their holds in Redis */
    uint64_t token;               /* that of the newest */
};

static void
hall_open(struct world *w, struct hall *h, struct ask old, struct ask newest)
{
    struct core_conf conf = world_conf;
    uint64_t before, id;

    conf.handoff_max = 8;
    world_open_conf(w, &conf);
    before = session(w);
    h->old = session(w);
    h->newest = session(w);
    redis_grants(w, "a", lock(w, before, "a", TWO));
    id = world_ask(w, CORE_LOCK, h->old, "a", old);
    h->old_op = expect_op(w, CORE_ACQUIRE, "a");
    redis_says(w, h->old_op, CORE_OK);
    expect_reply(w, id, CORE_GRANTED);
    id = world_ask(w, CORE_LOCK, h->newest, "a", newest);
    unlock(w, before, "a"); /* all are here, but without a reserve: there was no waiter when they were granted */
    h->newest_op = redis_releases_for_next(w, "a");
    expect_reply(w, w->request, CORE_LEFT);
    ck_assert_uint_eq(h->newest_op.op.reserve, 8);
    redis_says(w, h->newest_op, CORE_OK);
    h->token = expect_reply(w, id, CORE_GRANTED)->token;
    for (int i = 0; i < 2; i++) {
        h->next[i] = session(w);
        h->waits[i] = lock(w, h->next[i], "a", TWO);
    }
    ck_assert_uint_eq(w->metrics.handoffs, 0);
}

static void
open_hall(struct world *w, struct hall *h)
{
    hall_open(w, h, (struct ask){TWO}, (struct ask){TWO});
}

static uint64_t
gives_and_next_has_it(struct world *w, uint64_t gives, uint64_t waits)
{
    expect_reply(w, unlock(w, gives, "a"), CORE_LEFT);
    return expect_reply(w, waits, CORE_GRANTED)->token;
}

/* The test ignores other replies and operations. */
static void
skip_rest(struct world *w)
{
    skip_all(w);
    for (size_t i = w->answers_seen; i < w->answers_n; i++) {
        w->answers[i].seen = true;
    }
}

/* The last session ends first: nothing is handed over. */
static void
hall_close(struct world *w)
{
    skip_rest(w);
    for (size_t i = w->sessions_n; i-- > 0;) {
        gone(w, w->session[i]);
        skip_rest(w);
    }
    world_close(w);
}

static void
goes_by_redis(struct world *w, uint64_t gives)
{
    unlock(w, gives, "a");
    expect_op(w, CORE_RELEASE, "a");
    ck_assert_uint_eq(w->metrics.handoffs, 0);
    hall_close(w);
}

static void
redis_has(struct world *w, uint64_t s, struct flight acquired)
{
    uint64_t id = unlock(w, s, "a");
    struct flight op = expect_op(w, CORE_RELEASE, "a");

    ck_assert_uint_eq(op.op.claim, acquired.op.claim);
    ck_assert_uint_eq(op.op.owner, acquired.op.owner);
    redis_says(w, op, CORE_OK);
    expect_reply(w, id, CORE_LEFT);
}

/* Whichever permit is given back: the next token is the one behind the newest, and the holds in Redis stay. */
START_TEST(handed)
{
    for (int older_first = 0; older_first < 2; older_first++) {
        struct hall h;
        struct world w;

        open_hall(&w, &h);
        ck_assert_uint_eq(gives_and_next_has_it(&w, older_first ? h.old : h.newest, h.waits[0]), h.token + 1);
        ck_assert_uint_eq(gives_and_next_has_it(&w, older_first ? h.newest : h.old, h.waits[1]), h.token + 2);
        ck_assert_uint_eq(w.metrics.handoffs, 2);
        ck_assert_uint_eq(view_of(&w, "a").holders, 2);
        expect_reply(&w, lock(&w, session(&w), "a", TWO, .nowait = true), CORE_NOT_GRANTED);
        redis_has(&w, h.next[0], older_first ? h.old_op : h.newest_op);
        redis_has(&w, h.next[1], older_first ? h.newest_op : h.old_op);
        world_close(&w);
    }
}
END_TEST

/*
 * Permits pass between four sessions until the run is over; then Redis is asked, and the next run begins with its
 * answer.
 */
START_TEST(in_runs)
{
    struct hall h;
    struct world w;
    uint64_t s[4], id[4], last;

    open_hall(&w, &h);
    s[0] = h.old, s[1] = h.newest, s[2] = h.next[0], s[3] = h.next[1];
    id[2] = h.waits[0], id[3] = h.waits[1];
    last = h.token;
    for (unsigned i = 0; w.metrics.handoffs < 7; i++) {
        uint64_t token = gives_and_next_has_it(&w, s[i % 4], id[(i + 2) % 4]);

        ck_assert_uint_eq(token, last + 1);
        last = token;
        id[i % 4] = lock(&w, s[i % 4], "a", TWO);
    }
    unlock(&w, s[3], "a"); /* eight in a row are a run */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    redis_grants(&w, "a", id[1]);
    ck_assert_uint_gt(w.token, last);
    ck_assert_uint_eq(gives_and_next_has_it(&w, s[0], id[2]), w.token + 1);
    hall_close(&w);
}
END_TEST

/* handoff.max was raised since the grant: hand-offs go only as far as its reserve. */
START_TEST(as_far_as_tokens_last)
{
    struct hall h;
    struct world w;
    uint64_t s[4], id[4];

    open_hall(&w, &h);
    w.conf.handoff_max = 1000;
    core_configure(w.core, &w.conf);
    s[0] = h.old, s[1] = h.newest, s[2] = h.next[0], s[3] = h.next[1];
    id[2] = h.waits[0], id[3] = h.waits[1];
    for (unsigned i = 0; i < h.newest_op.op.reserve; i++) {
        gives_and_next_has_it(&w, s[i % 4], id[(i + 2) % 4]);
        id[i % 4] = lock(&w, s[i % 4], "a", TWO);
    }
    unlock(&w, s[0], "a");
    expect_op(&w, CORE_RELEASE, "a");
    hall_close(&w);
}
END_TEST

/* One permit is held elsewhere, or is free: Redis may grant it there with a later token at any time. */
START_TEST(not_while_one_is_elsewhere)
{
    struct hall h;
    struct world w;

    open_hall(&w, &h);
    gone(&w, h.old); /* handed over */
    expect_reply(&w, h.waits[0], CORE_GRANTED);
    gone(&w, h.next[1]);
    unlock(&w, h.newest, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    lock(&w, session(&w), "a", TWO);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(20));
    ck_assert(is_watched(&w, "a"));
    w.metrics.handoffs = 0;
    goes_by_redis(&w, h.next[0]);
}
END_TEST

/* A grant under another limit proves nothing about this limit, even if the limit is the old one again by now. */
START_TEST(not_under_another_limit)
{
    for (int more = 0; more < 2; more++) {
        struct hall h;
        struct world w;

        open_hall(&w, &h);
        expect_reply(&w, lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = more ? 3 : 1, .nowait = true),
                     CORE_NOT_GRANTED);
        skip_all(&w);
        lock(&w, session(&w), "a", TWO);
        goes_by_redis(&w, h.old);
    }
}
END_TEST

/* Nor does a grant that was asked for under the old limit. */
START_TEST(no_handoff_under_another_limit)
{
    struct hall h;
    struct world w;
    struct flight op;
    uint64_t id;

    open_hall(&w, &h);
    w.conf.handoff_max = 1; /* the next one goes through Redis */
    core_configure(w.core, &w.conf);
    id = unlock(&w, h.old, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    w.conf.handoff_max = 8;
    core_configure(w.core, &w.conf);
    lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 3);
    lock(&w, session(&w), "a", TWO);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, h.waits[0], CORE_GRANTED);
    goes_by_redis(&w, h.next[0]);
}
END_TEST

/* Redis may have lost one of the permits and granted it elsewhere, until it has confirmed both. */
START_TEST(not_while_another_is_unverified)
{
    for (int both = 0; both < 2; both++) {
        struct flight op[2];
        struct hall h;
        struct world w;

        open_hall(&w, &h);
        suspects(&w);
        op[0] = expect_op(&w, CORE_EXTEND, "a");
        op[1] = expect_op(&w, CORE_EXTEND, "a");
        for (int i = 0; i < 2; i++) {
            if (both || op[i].op.claim == h.newest_op.op.claim) {
                redis_says(&w, op[i], CORE_OK);
            }
        }
        if (both) {
            ck_assert_uint_eq(gives_and_next_has_it(&w, h.newest, h.waits[0]), h.token + 1);
            hall_close(&w);
        } else {
            goes_by_redis(&w, h.newest);
        }
    }
}
END_TEST

/* The daemon stood still: when it goes on, the grace of one owner ends first, and then the lease of the other. */
START_TEST(not_behind_a_lease_that_is_over)
{
    for (int over = 0; over < 2; over++) {
        struct hall h;
        struct world w;

        hall_open(&w, &h, (struct ask){TWO, .lease_us = over ? SEC(11) : SEC(20)}, (struct ask){TWO, .owner = "x"});
        w.conf.handoff_time_us = SEC(60);
        core_configure(w.core, &w.conf);
        gone(&w, h.newest); /* its grace is ten seconds */
        w.conf.slice = 1;
        core_configure(w.core, &w.conf);
        w.now_us += SEC(11);
        do { /* the end of the owner comes before the slice that ends the other lease */
            core_end_turn(w.core);
            world_step(&w, &(struct core_event){.type = CORE_TIME});
        } while (core_next_us(w.core) <= w.now_us);
        ck_assert_uint_eq(w.metrics.handoffs, !over);
        hall_close(&w);
    }
}
END_TEST

/* An owner holds a permit and waits for another one; the first is given back by its token. */
START_TEST(not_to_its_own_owner)
{
    struct hall h;
    struct world w;

    open_hall(&w, &h);
    gone(&w, h.next[0]);
    gone(&w, h.next[1]);
    lock(&w, h.newest, "a", TWO);
    unlock(&w, h.old, "a", .token = h.token);
    expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    hall_close(&w);
}
END_TEST

/* An owner of two permits gives back one by its token, then the other; Redis has each of them as it was granted. */
START_TEST(several_of_one_owner)
{
    static const char *const names[][2] = {{NULL, NULL}, {"alice", "bob"}, {"alice", NULL}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *alice = names[i][0], *bob = names[i][1];
        struct core_conf conf = world_conf;
        uint64_t before, s, t, id, token[2];
        struct flight op[2], gives;
        struct world w;

        conf.handoff_max = 8;
        conf.stores_checkpoints = true;
        world_open_conf(&w, &conf);
        before = session(&w);
        s = session(&w);
        t = session(&w);
        redis_grants(&w, "a", lock(&w, before, "a", TWO));
        id = lock(&w, s, "a", TWO, .owner = alice);
        op[0] = expect_op(&w, CORE_ACQUIRE, "a");
        redis_says(&w, op[0], CORE_OK);
        token[0] = expect_reply(&w, id, CORE_GRANTED)->token;
        id = lock(&w, s, "a", TWO, .owner = alice);
        unlock(&w, before, "a");
        op[1] = redis_releases_for_next(&w, "a");
        expect_reply(&w, w.request, CORE_LEFT);
        redis_says(&w, op[1], CORE_OK);
        token[1] = expect_reply(&w, id, CORE_GRANTED)->token;
        id = lock(&w, t, "a", TWO, .owner = bob);
        ck_assert_int_eq(expect_reply(&w, unlock(&w, s, "a", .owner = alice, .token = token[0]), CORE_LEFT)->left, 1);
        ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->token, token[1] + 1);
        expect_reply(&w, unlock(&w, s, "a", .owner = alice, .token = token[0]),
                     alice != NULL ? CORE_STALE : CORE_NOT_HELD);
        for (int j = 1; j >= 0; j--) {
            id = j == 1 ? unlock(&w, s, "a", .owner = alice) : unlock(&w, t, "a", .owner = bob);
            gives = expect_op(&w, CORE_RELEASE, "a");
            ck_assert_uint_eq(gives.op.claim, op[j].op.claim);
            ck_assert_uint_eq(gives.op.owner, op[j].op.owner);
            redis_says(&w, gives, CORE_OK);
            ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
        }
        world_close(&w);
    }
}
END_TEST

/* Only the last permit that comes here has a reserve: with any other it would be of no use. */
START_TEST(room_with_the_last_one)
{
    struct core_conf conf = world_conf;
    struct world w;
    struct flight op;
    uint64_t s[3], id;

    conf.handoff_max = 8;
    world_open_conf(&w, &conf);
    for (int i = 0; i < 3; i++) {
        s[i] = session(&w);
    }
    redis_grants(&w, "a", lock(&w, s[0], "a", TWO));
    id = lock(&w, s[1], "a", TWO);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(20)); /* the other one is elsewhere */
    skip_all(&w);
    lock(&w, s[2], "a", TWO);
    redis_releases(&w, "a", unlock(&w, s[0], "a"));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.reserve, 0);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    ck_assert_uint_eq(expect_op(&w, CORE_ACQUIRE, "a").op.reserve, 8);
    hall_close(&w);
}
END_TEST

/* Each hand-off looks at all permits, so they must not be too many. */
START_TEST(not_too_many)
{
    for (uint32_t limit = 64; limit < 66; limit++) {
        struct core_conf conf = world_conf;
        struct world w;
        uint64_t first, s, id;
        struct flight op;

        conf.handoff_max = 1000;
        world_open_conf(&w, &conf);
        first = session(&w);
        for (uint32_t i = 0; i < limit; i++) {
            s = session(&w);
            redis_grants(&w, "a", lock(&w, i == 0 ? first : s, "a", .kind = KIND_SEMAPHORE, .limit = limit));
        }
        id = lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = limit);
        unlock(&w, first, "a");
        op = redis_releases_for_next(&w, "a");
        expect_reply(&w, w.request, CORE_LEFT);
        ck_assert_uint_eq(op.op.reserve, limit == 64 ? 1000 : 0);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        lock(&w, first, "a", .kind = KIND_SEMAPHORE, .limit = limit);
        unlock(&w, s, "a");
        ck_assert_uint_eq(w.metrics.handoffs, limit == 64);
        hall_close(&w);
    }
}
END_TEST

/* A permit without a waiter here is released, whatever the rule has for linger. */
START_TEST(none_lingers)
{
    struct core_conf conf = world_conf;
    struct world w;
    struct flight op;
    uint64_t s, id;

    conf.handoff_max = 8;
    world_open_conf(&w, &conf);
    s = session(&w);
    id = lock(&w, s, "a", .kind = KIND_SEMAPHORE, .limit = 1, .linger_us = MS(500));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.reserve, 0);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    give(&w, s, "a");
    lock(&w, s, "a", .kind = KIND_SEMAPHORE, .limit = 1, .linger_us = MS(500));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(20));
    ck_assert(is_watched(&w, "a")); /* and nothing is broadcast */
    ck_assert_uint_eq(w.metrics.lingers, 0);
    hall_close(&w);
}
END_TEST

/* As in any run: Redis is asked for remote waiters, and without any the time of the run begins anew. */
START_TEST(run_is_asked_about)
{
    for (int others = 0; others < 2; others++) {
        int64_t listeners[1] = {others};
        struct hall h;
        struct world w;

        open_hall(&w, &h);
        gives_and_next_has_it(&w, h.old, h.waits[0]);
        pass(&w, MS(8));
        ck_assert_uint_eq(w.waiter_poll.n, 1);
        ck_assert_str_eq(w.waiter_poll.key[0], "a");
        happens(&w, &(struct core_event){.type = CORE_WAITERS_POLLED, .polled = {w.waiter_poll.op, listeners, 1}});
        pass(&w, MS(3)); /* handoff.time has passed since the run began */
        unlock(&w, h.newest, "a");
        ck_assert_uint_eq(w.metrics.handoffs, others ? 1 : 2);
        hall_close(&w);
    }
}
END_TEST

/* While a permit is free there is no run, and no poll. */
START_TEST(not_asked_about_without_a_run)
{
    struct hall h;
    struct world w;
    unsigned before;

    open_hall(&w, &h);
    gives_and_next_has_it(&w, h.old, h.waits[0]);
    gone(&w, h.next[1]);
    unlock(&w, h.newest, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, w.request, CORE_LEFT);
    before = w.polls_n;
    pass(&w, MS(30));
    ck_assert_uint_eq(w.polls_n, before);
    hall_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        handed,
        in_runs,
        as_far_as_tokens_last,
        not_while_one_is_elsewhere,
        not_under_another_limit,
        no_handoff_under_another_limit,
        not_while_another_is_unverified,
        not_behind_a_lease_that_is_over,
        not_to_its_own_owner,
        several_of_one_owner,
        room_with_the_last_one,
        not_too_many,
        none_lingers,
        run_is_asked_about,
        not_asked_about_without_a_run,
    };

    return suite_main("core, hand-over of permits", tests, sizeof(tests) / sizeof(tests[0]));
}
