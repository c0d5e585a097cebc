/*
 * test_core_checkpoints.c -- checkpoints of an earlier process that contradict themselves or each other, or meet
 * operations in flight. test_core_restore.c has the good ones.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

static const struct core_checkpoint checkpoint = {.part = {.claim = 10,
                                                     .redis_owner = 5,
                                                     .token = 900,
                                                     .deadline_us = SEC(1020),
                                                     .granted_us = SEC(990),
                                                     .lease_us = SEC(30),
                                                     .ticket_life_us = SEC(30),
                                                     .holds = 1,
                                                     .state = CORE_CHECKPOINT_HELD,
                                                     .named = true,
                                                     .watchdog = true},
                                            .kind = KIND_REENTRANT,
                                            .limit = 1,
                                            .owner_grace_us = SEC(10),
                                            .queue_grace_us = SEC(2)};

static struct core_checkpoint
checkpoint_of(uint64_t claim, const char *owner, const char *name)
{
    struct core_checkpoint k = checkpoint;

    k.part.claim = claim;
    k.part.order = claim;
    k.owner = slice_of(owner);
    k.name = k.key = slice_of(name);
    return k;
}

static struct core_restored
restores_from(struct world *w, struct core_checkpoint *kept, size_t n, int64_t former_timeout_us)
{
    struct core_restored a = {.checkpoint = kept, .n = n, .serial = 1000, .token = 1000,
                              .op_timeout_us = former_timeout_us};
    struct core_conf conf = world_conf;

    conf.stores_checkpoints = true;
    world_open_conf(w, &conf);
    for (size_t i = 0; i < n; i++) {
        world_store(w, &kept[i]);
    }
    happens(w, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    ck_assert_uint_eq(a.held + a.positions + a.released + a.lost + a.failed, n);
    return a;
}

static struct core_restored
restores(struct world *w, struct core_checkpoint *kept, size_t n)
{
    return restores_from(w, kept, n, world_conf.op_timeout_us);
}

/* Redis is reached, and confirms the hold. */
static void
confirmed(struct world *w, const char *name)
{
    happens(w, &(struct core_event){.type = CORE_REACHED});
    redis_says(w, expect_op(w, CORE_EXTEND, name), CORE_OK);
}

/* A hold or a position that no owner can come back to is given back. */
START_TEST(checkpoints_without_an_owner)
{
    for (int i = 0; i < 4; i++) {
        struct core_checkpoint k = checkpoint_of(10, "alice", "a");
        struct world w;

        switch (i) {
        case 0: /* a hold without a token */
            k.part.token = 0;
            break;
        case 1: /* ... without a count */
            k.part.holds = 0;
            break;
        case 2: /* a position without a grace */
            k.part.state = CORE_CHECKPOINT_QUEUED;
            k.owner_grace_us = k.queue_grace_us = 0;
            break;
        default: /* an owner without a name */
            k.part.named = false;
            break;
        }
        ck_assert_uint_eq(restores(&w, &k, 1).released, 1);
        pass(&w, SEC(1));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* A restored position lives as long as its owner, whatever the grace of the position. */
START_TEST(positions_by_their_graces)
{
    static const struct {
        int64_t ticket_us, owner_us, lives_us;
    } rows[] = {{SEC(2), 0, SEC(2)}, {0, SEC(3), SEC(3)}, {SEC(4), SEC(1), SEC(1)}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct core_checkpoint k = checkpoint_of(10, "alice", "a");
        struct world w;

        k.part.state = CORE_CHECKPOINT_QUEUED;
        k.queue_grace_us = rows[i].ticket_us;
        k.owner_grace_us = rows[i].owner_us;
        ck_assert_uint_eq(restores(&w, &k, 1).positions, 1);
        if (rows[i].owner_us > 0) {
            pass(&w, rows[i].lives_us - 1);
            ck_assert(known(&w, "a"));
        }
        pass(&w, 1); /* an owner without a grace ends at once, and its position with it */
        ck_assert(!known(&w, "a"));
        world_close(&w);
    }
}
END_TEST

/* As in a process that runs on, 1,024 positions of a name are kept: the first ones. The others are given up at once. */
START_TEST(many_positions_of_one_name)
{
    enum { MANY = 1030, KEPT = 1024 };
    static struct core_checkpoint kept[MANY];
    static char owner[MANY][8];
    struct core_restored a;
    struct world w;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(owner[i], sizeof(owner[i]), "o%u", i);
        kept[i] = checkpoint_of(10 + i, owner[i], "a");
        kept[i].part.state = CORE_CHECKPOINT_QUEUED;
        kept[i].part.order = MANY - i;
    }
    a = restores(&w, kept, MANY);
    ck_assert(a.positions == KEPT && a.released == MANY - KEPT);
    ck_assert_uint_eq(w.checkpoints_n, KEPT);
    for (size_t i = 0; i < w.checkpoints_n; i++) {
        ck_assert_uint_ge(w.checkpoints[i].cp.part.claim, 10 + MANY - KEPT);
    }
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* An attempt that Redis may have granted delays other owners: without a queue grace it is released at once. */
START_TEST(an_attempt_without_grace)
{
    struct core_checkpoint k = checkpoint_of(10, "alice", "a");
    struct world w;

    k.part.state = CORE_CHECKPOINT_QUEUED;
    k.part.acquire_unresolved = true;
    k.queue_grace_us = 0;
    ck_assert_uint_eq(restores(&w, &k, 1).positions, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    happens(&w, &(struct core_event){.type = CORE_REACHED}); /* that is no reason to release it again at once */
    quiet(&w);
    pass(&w, 2 * world_conf.op_timeout_us); /* operations of the earlier process can run no more */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/*
 * Two holders of a lock that only one can hold: a checkpoint is wrong, and the owner of the later one learns that it
 * has lost the lock.
 */
START_TEST(two_holders_of_one_name)
{
    struct core_checkpoint kept[] = {checkpoint_of(10, "alice", "a"), checkpoint_of(11, "bob", "a"),
                                     checkpoint_of(12, "carol", "b")};
    struct core_restored a;
    struct world w;
    uint64_t s;

    kept[2].part.state = CORE_CHECKPOINT_LOST;
    a = restores(&w, kept, 3);
    ck_assert(a.held == 1 && a.lost == 2);
    s = session(&w);
    expect_reply(&w, unlock(&w, s, "a", .owner = "bob"), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "b", .owner = "carol"), CORE_WAS_LOST);
    confirmed(&w, "a");
    unlock(&w, s, "a", .owner = "alice");
    redis_releases(&w, "a", w.request);
    world_close(&w);
}
END_TEST

/* Several readers or holders of permits are allowed; a writer beside readers is wrong. */
START_TEST(several_holders_of_one_name)
{
    struct core_checkpoint kept[] = {checkpoint_of(10, "alice", "r"), checkpoint_of(11, "bob", "r"),
                                     checkpoint_of(12, "carol", "r"), checkpoint_of(13, "dave", "p"),
                                     checkpoint_of(14, "eve", "p")};
    struct core_restored a;
    struct world w;

    for (int i = 0; i < 3; i++) {
        kept[i].kind = KIND_RW;
        kept[i].part.holds = i == 2;
        kept[i].part.shared = i != 2;
    }
    kept[3].kind = kept[4].kind = KIND_SEMAPHORE;
    a = restores(&w, kept, 5); /* also more permits than the limit allows now */
    ck_assert(a.held == 4 && a.lost == 1);
    ck_assert_uint_eq(view_of(&w, "r").holders, 2);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* Two checkpoints of one name disagree: the first one counts, the other one is left to its lease. */
START_TEST(records_that_disagree)
{
    for (int i = 0; i < 3; i++) {
        struct core_checkpoint kept[] = {checkpoint_of(10, "alice", "a"), checkpoint_of(11, "bob", "a")};
        struct core_restored a;
        struct world w;

        kept[0].kind = kept[1].kind = KIND_SIMPLE;
        switch (i) {
        case 0:
            kept[1].kind = KIND_RW;
            break;
        case 1:
            kept[1].value = VALUE_HEX32;
            break;
        default:
            kept[1].key = slice_of("other");
            break;
        }
        a = restores(&w, kept, 2);
        ck_assert(a.held == 1 && a.failed == 1);
        ck_assert_uint_eq(w.checkpoints_n, 1);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* An operation in flight is not sent again when Redis is reached. */
START_TEST(reached_twice)
{
    struct core_checkpoint kept[] = {checkpoint_of(10, "", "a"), checkpoint_of(11, "alice", "b")};
    struct world w;

    kept[0].part.named = false;
    restores(&w, kept, 2);
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    expect_op(&w, CORE_RELEASE, "a");
    expect_op(&w, CORE_EXTEND, "b");
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    quiet(&w);
    world_close(&w);
}
END_TEST

/* When Redis is reached, a renewal that is due later stays due then, and one in flight is not sent again. */
START_TEST(reached_while_all_is_well)
{
    struct core_checkpoint k = checkpoint_of(10, "alice", "a");
    struct world w;

    restores(&w, &k, 1);
    confirmed(&w, "a");
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    quiet(&w);
    session(&w);
    lock(&w, w.session[0], "b", .owner = "alice"); /* alice is back */
    redis_grants(&w, "b", w.request);
    pass(&w, SEC(10)); /* a third of the lease */
    expect_op(&w, CORE_EXTEND, "a");
    expect_op(&w, CORE_EXTEND, "b");
    happens(&w, &(struct core_event){.type = CORE_REACHED});
    quiet(&w);
    world_close(&w);
}
END_TEST

/*
 * The earlier process may have shortened the lease, and that operation may still run: a RENEW that is answered after
 * the shorter lease leaves nothing. A loss in Redis that is reported meanwhile does not keep the hold alive.
 */
START_TEST(over_and_unverified)
{
    struct core_checkpoint k = checkpoint_of(10, "alice", "a");
    struct world w;
    struct flight op;
    uint64_t s, id;

    k.part.shrink_lease_us = MS(100);
    restores(&w, &k, 1);
    s = session(&w);
    confirmed(&w, "a");
    id = renew(&w, s, "a", SEC(60), .owner = "alice");
    op = expect_op(&w, CORE_EXTEND, "a");
    reclaims(&w, 2);
    pass(&w, MS(200));
    redis_says(&w, op, CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 0);
    expect_news(&w, CORE_NEWS_LOST, "a");
    ck_assert_uint_eq(w.reclaimed, 2); /* no hold is left that RECLAIMED could wait for */
    expect_op(&w, CORE_RELEASE, "a");
    world_close(&w);
}
END_TEST

/*
 * Commands of the former process may run for as long as its redis.timeout allowed: a lease that a RENEW may still
 * shorten is taken for the short one until then.
 */
START_TEST(a_shorter_timeout)
{
    static const struct {
        int64_t former_us, guard_us;
    } rows[] = {{0, SEC(2)}, {MS(500), SEC(2)}, {SEC(20), SEC(40)}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct core_checkpoint k = checkpoint_of(10, "alice", "a");
        struct world w;
        int64_t began_us;

        k.owner_grace_us = SEC(600);
        k.part.shrink_lease_us = SEC(3);
        k.part.deadline_us = SEC(1003);
        restores_from(&w, &k, 1, rows[i].former_us);
        began_us = w.now_us;
        confirmed(&w, "a");
        while (view_of(&w, "a").deadline_us <= w.now_us + SEC(3)) {
            pass(&w, SEC(1));
            redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
        }
        ck_assert_int_ge(w.now_us - began_us, rows[i].guard_us);
        ck_assert_int_le(w.now_us - began_us, rows[i].guard_us + SEC(2));
        world_close(&w);
    }
}
END_TEST

/* The same for a release of some holds, and for an attempt. */
START_TEST(a_shorter_timeout_of_others)
{
    struct core_checkpoint k = checkpoint_of(10, "alice", "a");
    struct world w;
    uint64_t id;

    k.part.state = CORE_CHECKPOINT_QUEUED;
    k.part.acquire_unresolved = true;
    k.queue_grace_us = 0;
    restores_from(&w, &k, 1, SEC(60));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    pass(&w, SEC(120) - 1);
    quiet(&w);
    pass(&w, 1);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert(!known(&w, "a"));
    world_close(&w);
    k = checkpoint_of(10, "alice", "a");
    k.part.partial = true;
    restores_from(&w, &k, 1, SEC(4));
    confirmed(&w, "a");
    id = lock(&w, session(&w), "a", .owner = "alice");
    pass(&w, SEC(8) - 1);
    quiet(&w);
    pass(&w, 1);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {checkpoints_without_an_owner, positions_by_their_graces, an_attempt_without_grace,
                            many_positions_of_one_name, two_holders_of_one_name, several_holders_of_one_name,
                            records_that_disagree, reached_twice, reached_while_all_is_well, over_and_unverified,
                            a_shorter_timeout, a_shorter_timeout_of_others};

    return suite_main("core, checkpoints", tests, sizeof(tests) / sizeof(tests[0]));
}
