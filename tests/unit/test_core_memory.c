/*
 * test_core_memory.c -- the memory of the core: nothing leaks, no later step of a request allocates, and a request
 * allocates nothing where earlier ones have left records in the freelists.
 *
 * The core and the files with which it allocates (heap.c, map.c, freelist.c) are compiled into this file, with
 * allocators that count the allocations in use and can be barred.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

#include "tests/unit/counted_alloc.h"
static bool none_spared = true; /* each record is an allocation */
#define FREELIST_NONE none_spared
#include "daemon/base/heap.c"
#include "daemon/base/map.c"
#include "daemon/base/freelist.c"
#include "daemon/core/restore.c"
#include "daemon/core/multilock.c"
#include "daemon/core/multilock_answers.c"
#include "daemon/core/claims.c"
#include "daemon/core/core.c"
#include "daemon/core/timing_out.c"
#include "daemon/core/checkpoints.c"
#include "daemon/core/locks.c"
#include "daemon/core/lock_index.c"
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
#include "tests/unit/counted_alloc_end.h"

/* Each hold of a restore passes through the queue of its lock; but only one queue exists at a time. */
START_TEST(restore_of_many)
{
    enum { MANY = 100 };
    struct core_checkpoint checkpoints[MANY];
    struct core_restored a = {.checkpoint = checkpoints, .n = MANY, .serial = 1000, .token = 1000};
    struct core_conf conf = world_conf;
    char name[MANY][8];
    struct world w;

    conf.stores_checkpoints = true;
    world_open_conf(&w, &conf);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof(name[i]), "n%u", i);
        checkpoints[i] = (struct core_checkpoint){
            .part = {.claim = 10 + i, .redis_owner = 5, .token = 900, .lease_us = SEC(30),
                     .deadline_us = w.now_us + SEC(20), .holds = 1, .named = true,
                     .watchdog = true, .state = CORE_CHECKPOINT_HELD},
            .name = slice_of(name[i]), .key = slice_of(name[i]), .owner = slice_of("alice"),
            .limit = 1, .owner_grace_us = SEC(10), .queue_grace_us = SEC(10)};
        world_store(&w, &checkpoints[i]);
    }
    happens(&w, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    ck_assert_uint_eq(a.held, MANY);
    ck_assert_uint_eq(w.core->queues.count, 0);
    ck_assert_uint_lt(w.core->queues.room, MANY);
    world_close(&w);
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* After its arrival no request causes an allocation, whatever happens to it. */
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
    barred = true;
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(1));
    op = watch_of(&w, "a");
    watching(&w, op.op.queue);
    redis_grants(&w, "a", id[0]);
    redis_grants(&w, "a", id[1]);
    redis_releases(&w, "a", id[2]);
    redis_renews(&w, "a", id[3]);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&w, id[5], CORE_WAS_LOST);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS); /* a straggler may still run */
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS); /* the straggler can run no more */
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
    barred = false;
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* A lock without contention, and one that is waited for and handed off, again and again: no allocation. */
static void
goes_round(struct world *w, uint64_t s, uint64_t t)
{
    struct flight op;
    uint64_t id[2];

    take(w, s, "own");
    redis_releases(w, "own", unlock(w, s, "own"));
    take(w, s, "hot");
    id[0] = lock(w, t, "hot", .owner = "alice");
    id[1] = unlock(w, s, "hot");
    op = redis_releases_for_next(w, "hot");
    expect_reply(w, id[1], CORE_LEFT);
    redis_says(w, op, CORE_OK);
    expect_reply(w, id[0], CORE_GRANTED);
    id[0] = lock(w, s, "hot");
    expect_reply(w, unlock(w, t, "hot", .owner = "alice"), CORE_LEFT);
    expect_reply(w, id[0], CORE_GRANTED);
    redis_releases(w, "hot", unlock(w, s, "hot"));
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
    redis_grants(&w, "held", lock(&w, t, "held", .owner = "bob")); /* so the table of owners stays */
    goes_round(&w, s, t);
    barred = true;
    for (int i = 0; i < 10; i++) {
        goes_round(&w, s, t);
    }
    barred = false;
    world_close(&w);
    ck_assert_int_eq(alive, 0);
    none_spared = true;
}
END_TEST

/* The process ends with requests in each state: no reply is sent, and nothing leaks. */
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
    free(w.watch);
    free(w.answers);
    free(w.news);
    ck_assert_int_eq(alive, 0);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {restore_of_many, later_steps, requests_go_round, the_end};

    return suite_main("core, memory", tests, sizeof(tests) / sizeof(tests[0]));
}
