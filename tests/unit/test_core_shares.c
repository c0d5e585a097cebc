/*
 * test_core_shares.c -- limits for all users: no session, user or owner can use up a whole limit.
 */
#include <stdio.h>

#include "daemon/core/owners.h"
#include "daemon/core/state.h"
#include "tests/unit/core_world.h"

enum { WAITERS = 60 };

static void
open_with(struct world *w, uint32_t waiters, uint32_t of_a_session)
{
    struct core_conf conf = world_conf;

    conf.waiters_max = waiters;
    conf.locks_max = 100000;
    conf.session_waiters_max = of_a_session;
    world_open_conf(w, &conf);
}

/* s waits for "a" by as many owners as it may; returns how many. */
static int
wait_by_all(struct world *w, uint64_t s, const char *prefix)
{
    char owner[32];

    for (int n = 0;; n++) {
        snprintf(owner, sizeof(owner), "%s%d", prefix, n);
        lock(w, s, "a", .owner = owner);
        if (w->answers_seen < w->answers_n) {
            ck_assert_int_eq(w->answers[w->answers_seen++].reply.answer, CORE_TOO_MANY_WAITERS);
            return n;
        }
    }
}

/* Sessions take as many waits as they get: one without any still gets some; and a NOWAIT request needs none. */
START_TEST(waits_are_of_no_session_alone)
{
    uint64_t s[4], late;
    struct world w;
    int n, all = 0;

    open_with(&w, WAITERS, 0);
    take(&w, session(&w), "a");
    for (int i = 0; i < 4; i++) {
        char prefix[] = {(char)('a' + i), '\0'};

        s[i] = session(&w);
        n = wait_by_all(&w, s[i], prefix);
        ck_assert_int_gt(n, i == 0 ? WAITERS / 3 : WAITERS / 20);
        all += n;
    }
    ck_assert_int_lt(all, WAITERS);
    expect_reply(&w, lock(&w, s[0], "free"), CORE_TOO_MANY_WAITERS);
    late = session(&w);
    redis_grants(&w, "now", lock(&w, s[0], "now", .owner = "x", .nowait = true));
    ck_assert_int_gt(wait_by_all(&w, late, "late"), 0);
    world_close(&w);
}
END_TEST

START_TEST(a_session_has_its_own_bound)
{
    struct world w;
    uint64_t s;

    open_with(&w, WAITERS, 5);
    take(&w, session(&w), "a");
    s = session(&w);
    ck_assert_int_eq(wait_by_all(&w, s, "x"), 5);
    redis_grants(&w, "b", lock(&w, s, "b", .nowait = true));
    ck_assert_int_eq(wait_by_all(&w, session(&w), "y"), 5);
    world_close(&w);
}
END_TEST

/* Of a limit of 100 one user gets 90, each later user about half of the rest, and one at least while any is left. */
START_TEST(most_of_a_limit_is_for_any_user)
{
    static const uint64_t shares[] = {90, 5, 3, 1, 1, 0, 0, 0};
    uint64_t all = 0;

    for (uint64_t user = 0; user < 8; user++) {
        uint64_t mine = 0;

        while (core_share_has_room(100, 90, all, mine)) {
            mine++;
            all++;
        }
        ck_assert_uint_eq(mine, shares[user]);
    }
    ck_assert(core_share_has_room(100, 100, 99, 99) && !core_share_has_room(100, 100, 100, 0));
    ck_assert(core_share_has_room(3, 94, 2, 2)); /* a small limit is not shared out */
    ck_assert(!core_share_has_room(0, 94, 0, 0) && !core_share_has_room(5, 94, 9, 0)); /* lowered by a reload */
}
END_TEST

/* A user's share of waits and of locks counts over all its sessions and owners; after a release it may take again. */
START_TEST(a_user_leaves_something_to_others)
{
    struct core_conf conf = world_conf;
    uint64_t s[20], other;
    struct world w;
    int waits = 0;

    conf.waiters_max = 100;
    conf.total_locks_max = 105;
    conf.user_percent = 80;
    world_open_conf(&w, &conf);
    take(&w, session(&w), "a");
    for (int i = 0; i < 20; i++) {
        char prefix[] = {(char)('a' + i), '\0'};

        s[i] = session_of(&w, 1);
        waits += wait_by_all(&w, s[i], prefix);
    }
    ck_assert_int_eq(waits, 80);
    ck_assert_uint_eq(core_user_sessions(w.core, 1), 20);
    ck_assert_uint_gt(w.metrics.user_shares, 0);
    for (char name[] = "b"; name[0] <= 'd'; name[0]++) { /* waits count as locks, too: 81 at first, then 84 */
        redis_grants(&w, name, lock(&w, s[0], name, .nowait = true, .owner = "z"));
    }
    expect_reply(&w, lock(&w, s[0], "e", .nowait = true, .owner = "z"), CORE_LOCKS_FULL);
    redis_releases(&w, "b", unlock(&w, s[0], "b", .owner = "z"));
    redis_grants(&w, "e", lock(&w, s[0], "e", .nowait = true, .owner = "z"));
    other = session_of(&w, 2);
    ck_assert_int_gt(wait_by_all(&w, other, "other"), 3);
    for (int i = 0; i < 20; i++) {
        gone(&w, s[i]);
        ck_assert_uint_eq(core_user_sessions(w.core, 1), (uint64_t)(19 - i));
    }
    world_close(&w);
}
END_TEST

/* s asks for nothing held, by the owners "o0", "o1" ..., and uses them by that. Returns how many, `owners` at most. */
static int
use_all(struct world *w, uint64_t s, int owners)
{
    char owner[16];

    for (int n = 0; n < owners; n++) {
        snprintf(owner, sizeof(owner), "o%d", n);
        unlock(w, s, "none", .owner = owner);
        if (w->answers[w->answers_n - 1].reply.answer == CORE_TOO_MANY_OWNERS) {
            expect_reply(w, w->request, CORE_TOO_MANY_OWNERS);
            return n;
        }
        expect_reply(w, w->request, CORE_NOT_HELD);
    }
    return owners;
}

/* Ten owners hold a lock each, and ten sessions of one user use each of them, up to the user's share. */
static void
use_up_the_share(struct world *w, uint64_t s[10])
{
    char name[16];
    int n = 0;

    for (int i = 0; i < 10; i++) {
        s[i] = session_of(w, 1);
        snprintf(name, sizeof(name), "o%d", i);
        redis_grants(w, name, lock(w, s[0], name, .owner = name));
    }
    for (int i = 0; i < 10; i++) {
        n += use_all(w, s[i], 10);
    }
    ck_assert_int_eq(n, 40);
    ck_assert_uint_gt(w->metrics.user_shares, 0);
}

/*
 * Requests for nothing held leave no more records of sessions and owners than the limit allows, and another user has
 * its share. A session that uses the owner already is served, and so is every session's own owner.
 */
START_TEST(owners_of_sessions_are_bounded)
{
    struct core_conf conf = world_conf;
    uint64_t s[10], other;
    struct world w;

    conf.session_owners_max = 50;
    conf.user_percent = 80;
    world_open_conf(&w, &conf);
    use_up_the_share(&w, s);
    ck_assert_uint_eq(w.core->session_owners.count, 40);
    expect_reply(&w, unlock(&w, s[9], "o0", .owner = "o0"), CORE_TOO_MANY_OWNERS);
    expect_reply(&w, world_ask(&w, CORE_CANCEL, s[9], "o0", (struct ask){.owner = "o0"}), CORE_TOO_MANY_OWNERS);
    munlock(&w, s[9], "o0", .owner = "o0");
    ck_assert_int_eq(part(expect_reply(&w, w.request, CORE_LEFT), 0)->part.answer, CORE_TOO_MANY_OWNERS);
    expect_reply(&w, lock(&w, s[9], "a", .owner = "new"), CORE_TOO_MANY_OWNERS);
    ck_assert_ptr_null(owner_find(w.core, slice_of("new")));
    redis_grants(&w, "a", lock(&w, s[9], "a"));
    redis_releases(&w, "o9", unlock(&w, s[0], "o9", .owner = "o9")); /* and with the owner 4 records go */
    ck_assert_uint_eq(w.core->session_owners.count, 36);
    other = session_of(&w, 2);
    ck_assert_int_eq(use_all(&w, other, 9), 7); /* half of the 14 that are left */
    gone(&w, s[0]);
    ck_assert_uint_eq(w.core->session_owners.count, 36 - 9 + 7);
    ck_assert_int_eq(use_all(&w, s[9], 9), 6);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* The end of a wait, in whatever way, frees its part of the limit. */
START_TEST(room_comes_back)
{
    uint64_t s, holder;
    struct world w;

    open_with(&w, WAITERS, 5);
    holder = session(&w);
    take(&w, holder, "a");
    for (int round = 0; round < 3; round++) {
        s = session(&w);
        ck_assert_int_eq(wait_by_all(&w, s, "x"), 5);
        if (round == 0) {
            gone(&w, s);
        } else {
            eof(&w, s);
            for (size_t i = w.answers_seen; i < w.answers_n; i++) {
                w.answers[i].seen = true;
            }
            w.answers_seen = w.answers_n;
        }
        ck_assert_uint_eq(core_totals(w.core).waiters, 0);
    }
    world_close(&w);
}
END_TEST

/* n locks with a lease of 20 ms, whose leases end; no request asks about them. */
static void
lose_many(struct world *w, uint64_t s, const char *owner, int n)
{
    char name[32];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s:%d", owner, i);
        redis_grants(w, name, lock(w, s, name, .owner = owner, .lease_us = MS(20)));
        pass(w, MS(25));
        redis_says(w, expect_op(w, CORE_RELEASE, name), CORE_OK);
    }
}

/*
 * Of each owner the last 1024 unreported losses are kept, and 16,384 of all owners; the last one of each owner stays.
 */
START_TEST(ends_of_leases_are_not_kept_without_bound)
{
    char owner[16], name[32];
    struct world w;
    uint64_t s;

    open_with(&w, WAITERS, 0);
    w.unchecked = true;
    s = session(&w);
    lose_many(&w, s, "x", 3000);
    ck_assert_uint_eq(core_totals(w.core).locks, 1024);
    expect_reply(&w, unlock(&w, s, "x:0", .owner = "x"), CORE_NOT_HELD);
    expect_reply(&w, unlock(&w, s, "x:2999", .owner = "x"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "x:2000", .owner = "x"), CORE_WAS_LOST);
    for (int i = 0; i < 20; i++) {
        snprintf(owner, sizeof(owner), "y%d", i);
        lose_many(&w, s, owner, 1000);
    }
    ck_assert_uint_le(core_totals(w.core).locks, 16 * 1024);
    core_check(w.core, w.now_us);
    for (int i = 0; i < 20; i++) { /* some losses of each owner were dropped */
        snprintf(owner, sizeof(owner), "y%d", i);
        snprintf(name, sizeof(name), "%s:999", owner);
        expect_reply(&w, unlock(&w, s, name, .owner = owner), CORE_WAS_LOST);
    }
    pass(&w, SEC(601));
    ck_assert_uint_eq(core_totals(w.core).locks, 0);
    world_close(&w);
}
END_TEST

/* The end of a lease stays reportable for ten minutes, or for the length of the lease if that is longer. */
START_TEST(the_end_of_a_lease_is_reported_for_a_while)
{
    struct world w;
    uint64_t s;

    open_with(&w, WAITERS, 0);
    s = session(&w);
    lose_many(&w, s, "x", 2);
    pass(&w, SEC(590));
    expect_reply(&w, unlock(&w, s, "x:0", .owner = "x"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "x:0", .owner = "x"), CORE_NOT_HELD);
    pass(&w, SEC(11));
    expect_reply(&w, unlock(&w, s, "x:1", .owner = "x"), CORE_NOT_HELD);
    redis_grants(&w, "long", lock(&w, s, "long", .lease_us = SEC(3600)));
    pass(&w, SEC(3600));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "long"), CORE_OK);
    pass(&w, SEC(3000));
    expect_reply(&w, unlock(&w, s, "long"), CORE_WAS_LOST);
    world_close(&w);
}
END_TEST

/* A loss under the watchdog stays reportable for ever. */
START_TEST(the_loss_of_a_renewed_lock_is_always_reported)
{
    struct world w;
    uint64_t s;

    open_with(&w, WAITERS, 0);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a"));
    pass(&w, SEC(10));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_GONE_IN_REDIS);
    pass(&w, SEC(7200));
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {waits_are_of_no_session_alone, a_session_has_its_own_bound,
                            most_of_a_limit_is_for_any_user, a_user_leaves_something_to_others,
                            owners_of_sessions_are_bounded, room_comes_back,
                            ends_of_leases_are_not_kept_without_bound, the_end_of_a_lease_is_reported_for_a_while,
                            the_loss_of_a_renewed_lock_is_always_reported};

    return suite_main("core, shares", tests, sizeof(tests) / sizeof(tests[0]));
}
