/*
 * test_core_replicas.c -- names whose grants replicas have to acknowledge: which numbers a reply has, and when Redis is
 * asked.
 */
#include "tests/unit/core_world.h"

#define SHORTFALL(w, f, got, wanted) redis_says(w, f, CORE_SHORTFALL, .replicas = (got), .replicas_wanted = (wanted))

static void
open_handing(struct world *w)
{
    struct core_conf conf = world_conf;

    conf.handoff_max = 8;
    world_open_conf(w, &conf);
}

/* Redis grants s the free "a", and so many replicas have acknowledged the grant. */
static const struct core_reply *
taken(struct world *w, uint64_t s, uint32_t wanted, uint32_t got)
{
    uint64_t id = lock(w, s, "a", .replicas = wanted, .full = true);
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert_uint_eq(op.op.replicas, wanted);
    redis_says(w, op, CORE_OK, .replicas = got);
    return expect_reply(w, id, CORE_GRANTED);
}

/* Replicas have to acknowledge an owner's first hold only: no re-entry, no RENEW. */
START_TEST(replicas_are_asked_for_a_first_hold)
{
    struct world w;
    struct flight op;
    uint64_t s, id;
    const struct core_reply *r;

    world_open(&w);
    s = session(&w);
    r = taken(&w, s, 2, 3);
    ck_assert_uint_eq(r->replicas, 3);
    ck_assert_uint_eq(r->replicas_wanted, 2);
    id = lock(&w, s, "a", .replicas = 2);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(op.op.replicas, 0);
    redis_says(&w, op, CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->replicas, 3);
    id = renew(&w, s, "a", SEC(60));
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert_uint_eq(op.op.replicas, 0);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    world_close(&w);
}
END_TEST

/* Of every kind, a grant with too few replicas is released; a NOWAIT request gets the numbers, and holds nothing. */
START_TEST(too_few)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct world w;
        struct flight op;
        uint64_t s, id;
        const struct core_reply *r;

        world_open(&w);
        s = session(&w);
        id = lock(&w, s, "a", .kind = (enum kind)kind, .limit = 1, .replicas = 2, .nowait = true);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        redis_says(&w, op, CORE_SHORTFALL, .replicas = 1, .replicas_wanted = 2, .expiry_ms = 30000);
        r = expect_reply(&w, id, CORE_NO_REPLICAS);
        ck_assert_uint_eq(r->replicas, 1);
        ck_assert_uint_eq(r->replicas_wanted, 2);
        ck_assert_uint_eq(w.metrics.replica_shortfalls, 1);
        ck_assert_uint_eq(w.metrics.grants, 0);
        if (kind == KIND_COUNTER) { /* an expiry of its own first */
            pass(&w, MS(10));
        }
        op = expect_op(&w, CORE_RELEASE, "a");
        ck_assert_uint_eq(op.op.holds, 0);
        ck_assert_int_eq(op.op.expiry_ms, 30000);
        redis_says(&w, op, CORE_OK);
        expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/* The release is repeated until Redis answers it. */
START_TEST(given_back_for_sure)
{
    struct world w;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", .replicas = 2, .nowait = true);
    SHORTFALL(&w, expect_op(&w, CORE_ACQUIRE, "a"), 0, 2);
    expect_reply(&w, id, CORE_NO_REPLICAS);
    for (int i = 0; i < 5; i++) {
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), i % 2 == 0 ? CORE_DOWN : CORE_UNKNOWN);
        pass(&w, SEC(2));
    }
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* A waiter keeps its position in front, and asks again after the release; no other waiter asks before. */
START_TEST(a_waiter_asks_again)
{
    static const enum kind kinds[] = {KIND_REENTRANT, KIND_SEMAPHORE};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;
        struct flight op, gives;
        uint64_t first, behind;

        open_handing(&w);
        first = lock(&w, session(&w), "a", .kind = kinds[i], .limit = 5, .replicas = 2);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        behind = session(&w);
        lock(&w, behind, "a", .kind = kinds[i], .limit = 5, .replicas = 2);
        for (int turn = 0; turn < 3; turn++) {
            uint64_t claim = op.op.claim;

            SHORTFALL(&w, op, 1, 2);
            gives = expect_op(&w, CORE_RELEASE, "a");
            pass(&w, MS(800));
            redis_says(&w, gives, CORE_OK);
            op = expect_op(&w, CORE_ACQUIRE, "a");
            ck_assert_uint_eq(op.op.claim, claim);
            skip_all(&w); /* with permits the other waiter asks as well */
        }
        gone(&w, behind);
        redis_says(&w, op, CORE_OK, .replicas = 2);
        expect_reply(&w, first, CORE_GRANTED);
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* After a shortfall the waiters wait for the release of that permit, not for those of other permits. */
START_TEST(releases_of_other_permits_do_not_count)
{
    struct world w;
    struct flight op, other, gives;
    uint64_t holder, waiter, id, frees;

    world_open(&w);
    holder = session(&w);
    redis_grants(&w, "a", lock(&w, holder, "a", .kind = KIND_SEMAPHORE, .limit = 5));
    waiter = session(&w);
    id = lock(&w, waiter, "a", .kind = KIND_SEMAPHORE, .limit = 5, .replicas = 2);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    frees = unlock(&w, holder, "a");
    other = expect_op(&w, CORE_RELEASE, "a");
    SHORTFALL(&w, op, 1, 2);
    gives = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_ne(gives.op.claim, other.op.claim);
    lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 5, .replicas = 2);
    pass(&w, MS(800));
    quiet(&w); /* A7: nobody overtakes the waiter */
    redis_says(&w, gives, CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK, .replicas = 2);
    expect_reply(&w, id, CORE_GRANTED);
    skip_all(&w); /* now the other waiter asks, too */
    redis_says(&w, other, CORE_OK);
    expect_reply(&w, frees, CORE_LEFT);
    world_close(&w);
}
END_TEST

static void
note_session(void *ctx, const struct core_waiter_view *v)
{
    uint64_t **at = ctx;

    *(*at)++ = v->owner.session;
}

/*
 * The grant has used up the ticket, and the waiter takes another one, behind those of the others. So it goes last here,
 * too: otherwise the queues here and in Redis would wait for each other.
 */
START_TEST(a_waiter_with_a_ticket_goes_last)
{
    struct world w;
    struct flight op, gives;
    uint64_t s[3], first, order[3] = {0}, *at = order;

    world_open(&w);
    for (int i = 0; i < 3; i++) {
        s[i] = session(&w);
        lock(&w, s[i], "a", .kind = KIND_FAIR, .replicas = 2);
        op = i == 0 ? expect_op(&w, CORE_ACQUIRE, "a") : op;
    }
    first = op.op.claim;
    SHORTFALL(&w, op, 1, 2);
    gives = expect_op(&w, CORE_RELEASE, "a");
    pass(&w, MS(800));
    for (int i = 1; i < 3; i++) {
        op = expect_op(&w, CORE_ACQUIRE, "a");
        ck_assert(op.op.ticket && op.op.claim != first);
        redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30), .has_ticket = true);
    }
    redis_says(&w, gives, CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.ticket && op.op.claim == first);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30), .has_ticket = true);
    core_waiters_of(w.core, w.now_us, SLICE_LIT("a"), 3, note_session, &at);
    ck_assert(order[0] == s[1] && order[1] == s[2] && order[2] == s[0]);
    op = expect_op(&w, CORE_ACQUIRE, "a"); /* the one whose ticket is the first */
    ck_assert(!op.op.ticket && op.op.claim != first);
    world_close(&w);
}
END_TEST

/* The wait ends: the reply has the numbers of the last attempt. */
START_TEST(waited_in_vain)
{
    struct world w;
    struct flight op;
    uint64_t id;

    world_open(&w);
    id = lock(&w, session(&w), "a", .replicas = 3, .wait_us = MS(500));
    SHORTFALL(&w, expect_op(&w, CORE_ACQUIRE, "a"), 1, 3);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(600));
    SHORTFALL(&w, op, 2, 3);
    ck_assert_uint_eq(expect_reply(&w, id, CORE_NO_REPLICAS)->replicas, 2);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

/* A grant that replicas acknowledge may take longer than one of Redis alone. */
START_TEST(patience)
{
    struct world w;
    uint64_t plain, id;

    world_open(&w);
    plain = lock(&w, session(&w), "b", .nowait = true);
    expect_op(&w, CORE_ACQUIRE, "b");
    id = lock(&w, session(&w), "a", .replicas = 1, .nowait = true);
    expect_op(&w, CORE_ACQUIRE, "a");
    pass(&w, MS(260));
    expect_reply(&w, plain, CORE_UNAVAILABLE);
    pass(&w, MS(730));
    quiet(&w);
    pass(&w, MS(20));
    expect_reply(&w, id, CORE_UNAVAILABLE);
    world_close(&w);
}
END_TEST

/*
 * The name is broken while the replicas have not acknowledged a grant: the answer to the BREAK comes first. The grant
 * has a smaller token than the BREAK, its key is gone, and by then another owner may have been granted a larger one.
 */
START_TEST(broken_before_they_have_it)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct world w;
        struct flight op, breaks;
        uint64_t s, id, broken, token;

        world_open(&w);
        s = session(&w);
        id = lock(&w, s, "a", .kind = (enum kind)kind, .limit = 1, .replicas = 1);
        op = expect_op(&w, CORE_ACQUIRE, "a");
        token = ++w.token; /* Redis grants it now, and the replicas hang */
        broken = break_name(&w, session(&w), "a", .kind = (enum kind)kind, .limit = 1);
        breaks = expect_op(&w, CORE_BREAK_KEY, "a");
        redis_says(&w, breaks, CORE_OK, .expiry_ms = 1, .token = token + 10);
        w.token = token + 10;
        expect_reply(&w, broken, CORE_LEFT);
        redis_says(&w, op, CORE_OK, .token = token, .replicas = 1);
        ck_assert_msg(!is_answered(&w, id), "kind %d: granted by a token from before the BREAK", kind);
        if (has_op(&w, CORE_RELEASE, "a")) {
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
        }
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK, .replicas = 1);
        ck_assert_uint_gt(expect_reply(&w, id, CORE_GRANTED)->token, token + 10);
        world_close(&w);
    }
}
END_TEST

/* All names or none; the reply has the numbers of the name with too few replicas. */
START_TEST(one_of_several)
{
    struct world w;
    const struct core_reply *r;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = mlock(&w, s, "a b", .replicas = 2, .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK, .replicas = 2);
    SHORTFALL(&w, expect_op(&w, CORE_ACQUIRE, "b"), 0, 2);
    r = expect_reply(&w, id, CORE_NO_REPLICAS);
    ck_assert_uint_eq(r->replicas, 0);
    ck_assert_uint_eq(r->replicas_wanted, 2);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* ---- hand-off ---- */

/* s holds "a", and t waits, under a rule that wants so many replicas now. Sends the UNLOCK of s, for a hand-off. */
static uint64_t
gives(struct world *w, uint32_t got, uint32_t wanted, uint64_t *waits)
{
    uint64_t s, t, before, brings, id, frees;
    struct flight op;

    open_handing(w);
    s = session(w);
    t = session(w);
    before = session(w);
    (void)taken(w, before, 1, 1);
    id = lock(w, s, "a", .replicas = 1);
    *waits = lock(w, t, "a", .replicas = 1);
    frees = unlock(w, before, "a");
    op = redis_releases_for_next(w, "a");
    expect_reply(w, frees, CORE_LEFT);
    redis_says(w, op, CORE_OK, .replicas = got);
    expect_reply(w, id, CORE_GRANTED);
    brings = session(w);
    (void)lock(w, brings, "a", .replicas = wanted);
    gone(w, brings);
    return unlock(w, s, "a");
}

START_TEST(handed_over)
{
    struct world w;
    uint64_t waits, id;

    id = gives(&w, 2, 2, &waits);
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(expect_reply(&w, waits, CORE_GRANTED)->replicas, 2);
    ck_assert_uint_eq(w.metrics.handoffs, 1);
    world_close(&w);
}
END_TEST

/* Fewer replicas than the rule wants now: no hand-off; the next owner's attempt asks the replicas. */
START_TEST(not_handed_over)
{
    struct world w;
    struct flight op;
    uint64_t waits, id;

    id = gives(&w, 1, 2, &waits);
    op = redis_releases_for_next(&w, "a");
    expect_reply(&w, id, CORE_LEFT);
    ck_assert_uint_eq(op.op.replicas, 2);
    SHORTFALL(&w, op, 1, 2);
    ck_assert_uint_eq(w.metrics.handoffs, 0);
    skip_all(&w);
    world_close(&w);
}
END_TEST

/* After a reclaim the replicas of the new Redis have not acknowledged the lock: the count is 0. */
START_TEST(not_when_it_was_reclaimed)
{
    struct world w;
    uint64_t s, id;

    open_handing(&w);
    s = session(&w);
    (void)taken(&w, s, 1, 1);
    reclaims(&w, 9);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    skip_all(&w);
    grace_over(&w);
    id = lock(&w, s, "a", .replicas = 1);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    ck_assert_uint_eq(expect_reply(&w, id, CORE_GRANTED)->replicas, 0);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {replicas_are_asked_for_a_first_hold, too_few, given_back_for_sure, a_waiter_asks_again,
                            releases_of_other_permits_do_not_count, a_waiter_with_a_ticket_goes_last,
                            waited_in_vain, patience, broken_before_they_have_it, one_of_several, handed_over,
                            not_handed_over, not_when_it_was_reclaimed};

    return suite_main("core, replicas", tests, sizeof(tests) / sizeof(tests[0]));
}
