/*
 * test_core_owner_grace.c -- the end of an owner's grace is kept over restarts: processes that start again and again do
 * not put it off.
 */
#include "tests/unit/core_restart.h"

static const int64_t GRACE = SEC(10);

/* alice holds "a", and her session has gone. Returns the end of her grace. */
static int64_t
alice_vanishes(struct world *w)
{
    uint64_t s = session(w);

    redis_grants(w, "a", lock(w, s, "a", .owner = "alice"));
    ck_assert_uint_eq(w->owner_checkpoints_n, 0);
    gone(w, s);
    ck_assert_uint_eq(w->owner_checkpoints_n, 1);
    ck_assert_str_eq(w->owner_checkpoints[0].name, "alice");
    ck_assert_int_eq(w->owner_checkpoints[0].cp.owner_grace_until_us, w->now_us + GRACE);
    return w->now_us + GRACE;
}

/* The next process starts so much later; Redis confirms the hold. */
static void
crash(struct world *w, int64_t us)
{
    restored(restart_as(w, us, true), 1, 0, 0, 0);
    confirmed(w, 1);
}

static void
expect_until(const struct world *w, int64_t until_us)
{
    ck_assert_uint_eq(w->owner_checkpoints_n, 1);
    ck_assert_int_eq(w->owner_checkpoints[0].cp.owner_grace_until_us, until_us);
}

/* The process is killed again and again within the grace: "a" is released when the first grace ends. */
START_TEST(first_deadline_counts)
{
    struct world w;
    int64_t until_us;

    open_storing(&w);
    until_us = alice_vanishes(&w);
    for (int i = 0; i < 3; i++) {
        crash(&w, SEC(3));
        expect_until(&w, until_us);
    }
    pass(&w, until_us - 1 - w.now_us);
    expect_state(&w, "a", "held");
    pass(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert_uint_eq(w.owner_checkpoints_n, 0);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* The grace ended before the next process began: the owner ends, and its lock is released at once. */
START_TEST(over_while_no_daemon_ran)
{
    struct world w;

    open_storing(&w);
    alice_vanishes(&w);
    restored(restart_as(&w, GRACE, true), 1, 0, 0, 0);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert_uint_eq(w.owner_checkpoints_n, 0);
    world_close(&w);
}
END_TEST

/* The session was there until the kill: the grace begins with the next process, and goes on with those after it. */
START_TEST(begins_with_the_first_start)
{
    struct world w;
    int64_t until_us;

    open_storing(&w);
    redis_grants(&w, "a", lock(&w, session(&w), "a", .owner = "alice"));
    crash(&w, SEC(3));
    until_us = w.now_us + GRACE;
    expect_until(&w, until_us);
    crash(&w, SEC(3));
    expect_until(&w, until_us);
    world_close(&w);
}
END_TEST

/*
 * An owner that has come back has a whole grace the next time, from the end of the new session or from the next start.
 */
START_TEST(coming_back_ends_it)
{
    for (int leaves = 0; leaves < 2; leaves++) {
        struct world w;
        uint64_t s;

        open_storing(&w);
        alice_vanishes(&w);
        crash(&w, SEC(6));
        s = session(&w);
        expect_reply(&w, lock(&w, s, "a", .owner = "alice", .once = true), CORE_GRANTED);
        ck_assert_uint_eq(w.owner_checkpoints_n, 0);
        if (leaves) {
            gone(&w, s);
            expect_until(&w, w.now_us + GRACE);
        }
        crash(&w, leaves ? 0 : SEC(6));
        expect_until(&w, w.now_us + GRACE);
        world_close(&w);
    }
}
END_TEST

/* A daemon that stops ends its sessions itself: the grace of their owners begins with the next process. */
START_TEST(not_begun_by_a_drain)
{
    struct world w;
    uint64_t s;

    open_storing(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "alice"));
    drains(&w);
    gone(&w, s);
    ck_assert_uint_eq(w.owner_checkpoints_n, 0);
    crash(&w, SEC(20)); /* within the lease */
    expect_until(&w, w.now_us + GRACE);
    world_close(&w);
}
END_TEST

/* After a reboot an earlier time cannot be compared; and no checkpoint gives an owner more than the whole grace. */
START_TEST(never_more_than_a_grace)
{
    for (int same_boot = 0; same_boot < 2; same_boot++) {
        struct world w;

        open_storing(&w);
        alice_vanishes(&w);
        w.owner_checkpoints[0].cp.owner_grace_until_us += SEC(3600);
        (void)restart_as(&w, SEC(3), same_boot);
        expect_until(&w, w.now_us + GRACE);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The owner's grace ends also while it waits: its position goes with it. */
START_TEST(ends_a_wait)
{
    struct world w;
    uint64_t s;

    open_storing(&w);
    take(&w, session(&w), "a");
    s = session(&w);
    lock(&w, s, "a", .owner = "bob", .kind = KIND_REENTRANT);
    gone(&w, s);
    restored(restart_as(&w, SEC(1), true), 0, 1, 1, 0);
    ck_assert_uint_eq(w.owner_checkpoints_n, 1);
    restored(restart_as(&w, SEC(9), true), 0, 1, 1, 0);
    ck_assert_uint_eq(w.owner_checkpoints_n, 0);
    world_close(&w);
}
END_TEST

static void
asks_for_nothing_held(struct world *w, uint64_t s, enum core_event_type verb, const char *owner)
{
    struct ask ask = {.owner = owner, .lease_us = SEC(5)};
    bool many = verb == CORE_MUNLOCK || verb == CORE_MRENEW;
    uint64_t id = many ? world_ask_many(w, verb, s, "x y", ask) : world_ask(w, verb, s, "x", ask);

    if (verb != CORE_USE) {
        expect_reply(w, id, many || verb == CORE_CANCEL ? CORE_LEFT : CORE_NOT_HELD);
    }
}

/* Each command on a lock counts as use of the OWNER id, also if no owner has the name here; and it creates no owner. */
START_TEST(any_request_uses_the_id)
{
    static const enum core_event_type verb[] = {CORE_UNLOCK,  CORE_RENEW,  CORE_CANCEL,
                                                CORE_MUNLOCK, CORE_MRENEW, CORE_USE};

    for (size_t i = 0; i < sizeof(verb) / sizeof(verb[0]); i++) {
        struct world w;
        uint64_t owners, s;

        open_storing(&w);
        alice_vanishes(&w);
        crash(&w, SEC(6));
        s = session(&w);
        owners = core_totals(w.core).owners;
        asks_for_nothing_held(&w, s, verb[i], "alice");
        asks_for_nothing_held(&w, s, verb[i], "bob");
        ck_assert_uint_eq(core_totals(w.core).owners, owners);
        ck_assert_uint_eq(w.owner_checkpoints_n, 0);
        gone(&w, s);
        expect_until(&w, w.now_us + GRACE);
        world_close(&w);
    }
}
END_TEST

/* So does a LOCK that is refused. */
START_TEST(refused_lock_uses_the_id)
{
    struct core_conf conf = storing;
    struct world w;
    uint64_t s, t;

    conf.waiters_max = 1;
    world_open_conf(&w, &conf);
    s = session(&w);
    t = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "alice"));
    lock(&w, session(&w), "a");
    expect_reply(&w, lock(&w, t, "b", .owner = "alice"), CORE_TOO_MANY_WAITERS);
    gone(&w, s);
    ck_assert_uint_eq(w.owner_checkpoints_n, 0);
    gone(&w, t);
    expect_until(&w, w.now_us + GRACE);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* The GRACE that alice requested is hers alone, also after a restart: bob, the next holder, has that of the rule. */
START_TEST(longer_grace_is_its_owners_alone)
{
    struct world w;
    uint64_t s, t, id, left;

    open_storing(&w);
    redis_grants(&w, "a", lock(&w, session(&w), "a", .owner = "alice", .grace_us = SEC(3600)));
    crash(&w, 0);
    expect_until(&w, w.now_us + SEC(3600));
    s = session(&w);
    t = session(&w);
    expect_reply(&w, lock(&w, s, "a", .owner = "alice", .once = true), CORE_GRANTED);
    id = lock(&w, t, "a", .owner = "bob");
    left = unlock(&w, s, "a", .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    expect_reply(&w, left, CORE_LEFT);
    redis_grants(&w, "a", id);
    gone(&w, t);
    expect_until(&w, w.now_us + GRACE);
    world_close(&w);
}
END_TEST

/* A GRACE that the holder requests later, by a LOCK for which Redis is not asked, counts after a restart, too. */
START_TEST(grace_of_a_repetition)
{
    struct world w;
    uint64_t s;

    open_storing(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "alice", .lease_us = SEC(3600)));
    expect_reply(&w, lock(&w, s, "a", .owner = "alice", .once = true, .grace_us = SEC(1800)), CORE_GRANTED);
    crash(&w, 0);
    expect_until(&w, w.now_us + SEC(1800));
    world_close(&w);
}
END_TEST

/* So does one that she requested, or got by the rule, with a lock that she has given back since. */
START_TEST(grace_of_a_former_lock)
{
    for (int by_rule = 0; by_rule < 2; by_rule++) {
        struct world w;
        uint64_t s, id;

        open_storing(&w);
        s = session(&w);
        id = lock(&w, s, "a", .owner = "alice", .lease_us = SEC(3600), .no_owner_grace = by_rule);
        redis_grants(&w, "a", id);
        redis_grants(&w, "b", lock(&w, s, "b", .owner = "alice", .grace_us = by_rule ? 0 : SEC(1800)));
        id = unlock(&w, s, "b", .owner = "alice");
        redis_says(&w, expect_op(&w, CORE_RELEASE, "b"), CORE_OK);
        expect_reply(&w, id, CORE_LEFT);
        crash(&w, 0);
        expect_until(&w, w.now_us + (by_rule ? GRACE : SEC(1800)));
        world_close(&w);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        first_deadline_counts, over_while_no_daemon_ran, begins_with_the_first_start, coming_back_ends_it,
        not_begun_by_a_drain,  never_more_than_a_grace,  ends_a_wait,
        any_request_uses_the_id, refused_lock_uses_the_id, longer_grace_is_its_owners_alone,
        grace_of_a_repetition, grace_of_a_former_lock,
    };

    return suite_main("core, grace of owners", tests, sizeof(tests) / sizeof(tests[0]));
}
