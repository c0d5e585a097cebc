/*
 * test_core_permits.c -- kinds with permits: up to a limit of holders; each LOCK takes a permit of its own, which is
 * released when its owner ends.
 */
#include "daemon/core/owner.h"
#include "tests/unit/core_world.h"

#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/state.h"

#define THREE .kind = KIND_SEMAPHORE, .limit = 3

/* s gets one more permit of "a"; returns its token. */
static uint64_t
gets(struct world *w, uint64_t s, const char *owner)
{
    uint64_t id = lock(w, s, "a", THREE, .owner = owner);
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert(!op.op.reentry && op.op.holds == 1 && op.op.limit == 3);
    redis_says(w, op, CORE_OK);
    return expect_reply(w, id, CORE_GRANTED)->token;
}

/* s gives back the newest of its permits, and has so many left. */
static void
gives(struct world *w, uint64_t s, int64_t left)
{
    uint64_t id = unlock(w, s, "a");

    ck_assert_int_eq(redis_releases(w, "a", id)->left, left);
}

static void
expect_holders(const struct world *w, uint32_t n)
{
    struct core_lock_view v = view_of(w, "a");

    ck_assert_uint_eq(v.holders, n);
    ck_assert_str_eq(v.state, "held");
}

/*
 * NOWAIT requests: the first one asks alone, and when it is granted, as many more ask as there may be permits left; the
 * rest are refused without asking.
 */
START_TEST(room_for_requests_that_do_not_wait)
{
    struct world w;
    struct flight op[3];
    uint64_t id[4];

    world_open(&w);
    id[0] = lock(&w, session(&w), "a", THREE, .nowait = true);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    for (int i = 1; i < 4; i++) {
        id[i] = lock(&w, session(&w), "a", THREE, .nowait = true);
    }
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    op[1] = expect_op(&w, CORE_ACQUIRE, "a");
    op[2] = expect_op(&w, CORE_ACQUIRE, "a");
    for (int i = 1; i < 3; i++) {
        redis_says(&w, op[i], CORE_OK);
        expect_reply(&w, id[i], CORE_GRANTED);
    }
    expect_reply(&w, id[3], CORE_NOT_GRANTED);
    expect_holders(&w, 3);
    world_close(&w);
}
END_TEST

/* As many LOCKs are granted as the limit allows; the next one waits without asking Redis, and gets a freed permit. */
START_TEST(up_to_the_limit)
{
    struct world w;
    uint64_t s[3], id;

    world_open(&w);
    for (int i = 0; i < 3; i++) {
        gets(&w, s[i] = session(&w), NULL);
        expect_holders(&w, (uint32_t)i + 1);
    }
    id = lock(&w, session(&w), "a", THREE);
    lock(&w, session(&w), "a", THREE);
    expect_reply(&w, lock(&w, session(&w), "a", THREE, .nowait = true), CORE_NOT_GRANTED);
    quiet(&w);
    ck_assert_uint_eq(view_of(&w, "a").waiters, 2);
    give(&w, s[1], "a");
    redis_grants(&w, "a", id);
    expect_holders(&w, 3);
    quiet(&w);
    world_close(&w);
}
END_TEST

/* One owner may have several permits: each LOCK takes another one, with a claim, a token and a release of its own. */
START_TEST(several_of_one_owner)
{
    struct world w;
    struct flight op[2];
    uint64_t s, first, second, id;

    world_open(&w);
    s = session(&w);
    first = gets(&w, s, NULL);
    second = gets(&w, s, NULL);
    ck_assert_uint_gt(second, first);
    for (int i = 0; i < 2; i++) {
        op[i] = w.flights[i];
        ck_assert_int_eq(op[i].verb, CORE_ACQUIRE);
    }
    ck_assert_uint_ne(op[0].op.claim, op[1].op.claim);
    id = unlock(&w, s, "a"); /* the newest permit */
    op[0].op.claim ^= expect_op(&w, CORE_RELEASE, "a").op.claim;
    ck_assert_uint_ne(op[0].op.claim, 0);
    redis_says(&w, w.flights[w.flights_n - 1], CORE_OK);
    ck_assert_int_eq(expect_reply(&w, id, CORE_LEFT)->left, 1);
    expect_holders(&w, 1);
    ck_assert_uint_eq(view_of(&w, "a").token, first);
    expect_reply(&w, unlock(&w, s, "a", .token = second), CORE_NOT_HELD);
    give(&w, s, "a");
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    world_close(&w);
}
END_TEST

/*
 * UNLOCK and RENEW by TOKEN mean the permit with this token, whoever asks; with an OWNER too, only if it is a permit of
 * this owner.
 */
START_TEST(by_token)
{
    struct world w;
    struct flight op;
    uint64_t s, t, token[3], claim[3], id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    for (int i = 0; i < 3; i++) {
        token[i] = gets(&w, s, "alice");
        claim[i] = w.flights[w.flights_n - 1].op.claim;
    }
    id = renew(&w, t, "a", SEC(60), .token = token[1]);
    op = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(op.op.claim == claim[1] && op.op.exact);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    id = unlock(&w, t, "a", .token = token[0]);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.claim, claim[0]);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    expect_reply(&w, unlock(&w, t, "a", .token = token[0]), CORE_NOT_HELD);
    id = unlock(&w, t, "a", .token = token[1], .owner = "alice");
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.claim, claim[1]);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    expect_reply(&w, unlock(&w, t, "a", .token = token[2], .owner = "bob"), CORE_NOT_HELD);
    expect_holders(&w, 1);
    ck_assert_uint_eq(view_of(&w, "a").token, token[2]);
    world_close(&w);
}
END_TEST

/* The newest permit is the one that was granted last, also when its LOCK waited at a kept position. */
START_TEST(newest)
{
    struct world w;
    struct flight op;
    uint64_t s, t, u, id, last;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    gets(&w, t, NULL);
    gets(&w, t, NULL);
    gets(&w, t, NULL);
    id = lock(&w, s, "a", THREE, .owner = "alice", .wait_us = MS(100)); /* leaves a position */
    pass(&w, MS(100));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    id = lock(&w, s, "a", THREE, .owner = "alice", .once = true);
    gives(&w, t, 2);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    gives(&w, t, 1);
    id = lock(&w, u, "a", THREE, .owner = "alice");
    last = redis_grants(&w, "a", id)->token;
    id = unlock(&w, u, "a", .owner = "alice");
    ck_assert_uint_eq(redis_releases(&w, "a", id)->token, last);
    world_close(&w);
}
END_TEST

/* A repetition by ONCE takes no further permit, whether the first one is held or waited for. */
START_TEST(once)
{
    struct world w;
    uint64_t s, t, token, id[2];

    world_open(&w);
    s = session(&w);
    t = session(&w);
    token = gets(&w, s, NULL);
    ck_assert_uint_eq(expect_reply(&w, lock(&w, s, "a", THREE, .once = true), CORE_GRANTED)->token, token);
    expect_holders(&w, 1);
    gets(&w, s, NULL);
    gets(&w, s, NULL);
    id[0] = lock(&w, t, "a", THREE, .owner = "alice");
    id[1] = lock(&w, t, "a", THREE, .owner = "alice", .once = true);
    gives(&w, s, 2);
    token = redis_grants(&w, "a", id[0])->token;
    ck_assert_uint_eq(expect_reply(&w, id[1], CORE_GRANTED)->token, token);
    gives(&w, s, 1);
    quiet(&w); /* no LOCK waits any more */
    world_close(&w);
}
END_TEST

/* The end of a session releases exactly its permits; waiters get them. */
START_TEST(session_ends)
{
    struct world w;
    struct flight op[2];
    uint64_t s, t, id[2];

    world_open(&w);
    s = session(&w);
    t = session(&w);
    gets(&w, s, NULL);
    gets(&w, t, NULL);
    gets(&w, s, NULL);
    id[0] = lock(&w, t, "a", THREE);
    gone(&w, s);
    op[0] = expect_op(&w, CORE_RELEASE, "a");
    op[1] = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_ne(op[0].op.claim, op[1].op.claim);
    ck_assert(op[0].op.owner == s && op[1].op.owner == s);
    redis_says(&w, op[0], CORE_OK);
    redis_grants(&w, "a", id[0]);
    id[1] = lock(&w, t, "a", THREE);
    quiet(&w); /* the other release is still under way */
    redis_says(&w, op[1], CORE_OK);
    redis_grants(&w, "a", id[1]);
    expect_holders(&w, 3);
    world_close(&w);
}
END_TEST

/* While releases are under way or unanswered, no more permits are requested than there can be. */
START_TEST(churn)
{
    struct world w;
    struct flight op[3];
    uint64_t s[3], id[3];

    world_open(&w);
    for (int i = 0; i < 3; i++) {
        gets(&w, s[i] = session(&w), NULL);
    }
    for (int i = 0; i < 3; i++) {
        gone(&w, s[i]);
        op[i] = expect_op(&w, CORE_RELEASE, "a");
        id[i] = lock(&w, session(&w), "a", THREE);
        quiet(&w);
    }
    redis_says(&w, op[1], CORE_UNKNOWN);
    quiet(&w);
    redis_says(&w, op[2], CORE_OK);
    redis_grants(&w, "a", id[0]);
    quiet(&w);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(9), .holders = 3);
    ck_assert(is_watched(&w, "a"));
    redis_says(&w, op[0], CORE_OK);
    redis_grants(&w, "a", id[1]);
    redis_grants(&w, "a", id[2]);
    ck_assert(!is_watched(&w, "a"));
    expect_holders(&w, 3);
    world_close(&w);
}
END_TEST

/* The limit of the newest LOCK counts: a lower one stops grants until enough permits are released; it takes none. */
START_TEST(limit_lowered)
{
    struct world w;
    uint64_t s[3], t, id;

    world_open(&w);
    t = session(&w);
    for (int i = 0; i < 3; i++) {
        gets(&w, s[i] = session(&w), NULL);
    }
    id = lock(&w, t, "a", .kind = KIND_SEMAPHORE, .limit = 1);
    ck_assert_uint_eq(view_of(&w, "a").limit, 1);
    expect_holders(&w, 3);
    for (int i = 0; i < 3; i++) {
        quiet(&w);
        give(&w, s[i], "a");
    }
    ck_assert_uint_eq(w.flights[w.flights_n - 1].op.limit, 1);
    redis_grants(&w, "a", id);
    expect_holders(&w, 1);
    world_close(&w);
}
END_TEST

/* ... with a higher one waiters get in, also when Redis has just reported that no permit is left. */
START_TEST(limit_raised)
{
    struct world w;
    uint64_t s, first, second;

    world_open(&w);
    s = session(&w);
    gets(&w, s, NULL);
    gets(&w, s, NULL);
    first = lock(&w, session(&w), "a", THREE);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(20), .holders = 3);
    ck_assert(is_watched(&w, "a"));
    second = lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 5);
    ck_assert_uint_eq(w.flights[w.flights_n - 1].op.limit, 5);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK); /* at once */
    expect_reply(&w, first, CORE_GRANTED);
    redis_grants(&w, "a", second);
    ck_assert(!is_watched(&w, "a"));
    expect_holders(&w, 4);
    world_close(&w);
}
END_TEST

/* One permit is lost: its owner keeps the others, and the next request that means the lost permit gets LOST. */
START_TEST(lost)
{
    struct world w;
    struct flight op[2];
    uint64_t s, token[2];

    world_open(&w);
    s = session(&w);
    token[0] = gets(&w, s, NULL);
    token[1] = gets(&w, s, NULL);
    pass(&w, SEC(10));
    op[0] = expect_op(&w, CORE_EXTEND, "a");
    op[1] = expect_op(&w, CORE_EXTEND, "a");
    ck_assert_uint_ne(op[0].op.claim, op[1].op.claim);
    redis_says(&w, op[0], CORE_GONE_IN_REDIS);
    redis_says(&w, op[1], CORE_OK);
    ck_assert_uint_eq(expect_news(&w, CORE_NEWS_LOST, "a")->token, token[0]);
    expect_holders(&w, 1);
    expect_reply(&w, unlock(&w, s, "a", .token = token[0]), CORE_WAS_LOST);
    expect_reply(&w, unlock(&w, s, "a", .token = token[0]), CORE_NOT_HELD);
    give(&w, s, "a");
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    gets(&w, s, NULL);
    pass(&w, SEC(10));
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&w, lock(&w, s, "a", THREE), CORE_WAS_LOST);
    gets(&w, s, NULL);
    world_close(&w);
}
END_TEST

/* ... so does a request that names the owner, too, which still has another permit. */
START_TEST(lost_by_owner_and_token)
{
    static const enum core_event_type verbs[] = {CORE_UNLOCK, CORE_RENEW, CORE_MUNLOCK};

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        struct ask ask = {.owner = "w", .lease_us = SEC(5)};
        struct world w;
        struct flight op[2];
        uint64_t s, token;

        world_open(&w);
        s = session(&w);
        ask.token = gets(&w, s, "w");
        token = gets(&w, s, "w");
        pass(&w, SEC(10));
        op[0] = expect_op(&w, CORE_EXTEND, "a");
        op[1] = expect_op(&w, CORE_EXTEND, "a");
        redis_says(&w, op[0], CORE_GONE_IN_REDIS);
        redis_says(&w, op[1], CORE_OK);
        ck_assert_uint_eq(expect_news(&w, CORE_NEWS_LOST, "a")->token, ask.token);
        if (verbs[i] == CORE_MUNLOCK) {
            const struct core_reply *r = expect_reply(&w, world_ask_many(&w, CORE_MUNLOCK, s, "a", ask), CORE_LEFT);

            ck_assert_int_eq(part(r, 0)->part.answer, CORE_WAS_LOST);
        } else {
            expect_reply(&w, world_ask(&w, verbs[i], s, "a", ask), CORE_WAS_LOST);
        }
        expect_reply(&w, unlock(&w, s, "a", .owner = "w", .token = ask.token), CORE_STALE); /* reported once */
        expect_reply(&w, unlock(&w, s, "a", .owner = "w", .token = gets(&w, s, "v")), CORE_STALE); /* another owner's */
        redis_releases(&w, "a", unlock(&w, s, "a", .owner = "w", .token = token));
        expect_reply(&w, unlock(&w, s, "a", .owner = "w", .token = ask.token), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/* Two permits are lost by a BREAK: two events LOST, and one reply LOST for both. */
START_TEST(broken)
{
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    gets(&w, s, NULL);
    gets(&w, s, NULL);
    break_name(&w, session(&w), "a", THREE);
    redis_says(&w, expect_op(&w, CORE_BREAK_KEY, "a"), CORE_OK, .expiry_ms = 1);
    expect_reply(&w, w.request, CORE_LEFT);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 2);
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST); /* once, for both */
    expect_reply(&w, unlock(&w, s, "a"), CORE_NOT_HELD);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* An unanswered attempt may have taken a permit: it is repeated under the same claim, or its permit is released. */
START_TEST(unanswered)
{
    struct world w;
    struct flight op, again;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    id = lock(&w, s, "a", THREE);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us);
    pass(&w, MS(20));
    again = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(again.op.claim == op.op.claim && again.op.owner == op.op.owner);
    redis_says(&w, again, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    lock(&w, s, "a", THREE);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    gone(&w, s);
    again = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    ck_assert_uint_ne(again.op.claim, op.op.claim);
    ck_assert_uint_eq(expect_op(&w, CORE_RELEASE, "a").op.claim, op.op.claim);
    redis_says(&w, again, CORE_OK);
    redis_says(&w, w.flights[w.flights_n - 1], CORE_GONE_IN_REDIS);
    pass(&w, SEC(1)); /* the straggler can run no more now */
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* The position of a named owner is kept, and its next LOCK takes it up; a LOCK that came meanwhile stands behind it. */
START_TEST(position_is_kept)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    gets(&w, t, NULL);
    gets(&w, t, NULL);
    gets(&w, t, NULL);
    lock(&w, s, "a", THREE, .owner = "alice", .wait_us = SEC(1));
    lock(&w, session(&w), "a", THREE);
    pass(&w, SEC(1));
    expect_reply(&w, w.request - 1, CORE_NOT_GRANTED);
    id = lock(&w, s, "a", THREE, .owner = "alice");
    ck_assert_uint_eq(view_of(&w, "a").waiters, 2);
    gives(&w, t, 2);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* ---- several requests ask together ---- */

/* So many LOCKs arrive in one turn, and as many operations leave as there is room for; returns the first request. */
static uint64_t
ask_together(struct world *w, int n, struct ask how, struct flight *op, int ops)
{
    uint64_t first = w->request + 1;

    w->one_turn = true;
    for (int i = 0; i < n; i++) {
        world_ask(w, CORE_LOCK, session(w), "a", how);
        if (i < ops) {
            op[i] = expect_op(w, CORE_ACQUIRE, "a");
        }
    }
    core_end_turn(w->core);
    w->one_turn = false;
    quiet(w);
    return first;
}

#define TOGETHER(w, n, op, ops, ...) ask_together(w, n, (struct ask){__VA_ARGS__}, op, ops)

static void
expect_ops(struct world *w, struct flight *op, int n)
{
    for (int i = 0; i < n; i++) {
        op[i] = expect_op(w, CORE_ACQUIRE, "a");
    }
    quiet(w);
}

/* LOCKs that arrive in one turn ask in one turn, up to the number of permits; the others when one is free again. */
START_TEST(together)
{
    struct world w;
    struct flight op[3];
    uint64_t id, s;

    world_open(&w);
    id = TOGETHER(&w, 5, op, 3, THREE);
    for (int i = 0; i < 3; i++) {
        ck_assert(i == 0 || op[i].op.claim != op[i - 1].op.claim);
        redis_says(&w, op[i], CORE_OK);
        expect_reply(&w, id + (uint64_t)i, CORE_GRANTED);
        quiet(&w);
    }
    s = w.session[0];
    give(&w, s, "a");
    redis_grants(&w, "a", id + 3);
    expect_holders(&w, 3);
    world_close(&w);
}
END_TEST

/* Redis could grant to a later waiter what it refused to an earlier one: so the later one waits for the outcomes. */
START_TEST(asked_later)
{
    struct world w;
    struct flight op[3];
    uint64_t id;

    world_open(&w);
    id = TOGETHER(&w, 2, op, 2, THREE);
    lock(&w, session(&w), "a", THREE);
    quiet(&w);
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    quiet(&w);
    redis_says(&w, op[1], CORE_TAKEN, .pttl_us = SEC(9), .holders = 3);
    ck_assert(is_watched(&w, "a"));
    give(&w, w.session[0], "a");
    redis_grants(&w, "a", id + 1); /* first come, first served */
    redis_grants(&w, "a", id + 2);
    ck_assert(!is_watched(&w, "a"));
    world_close(&w);
}
END_TEST

/* ... also when the outcome comes within the turn, or when remote waiters have their turn. */
START_TEST(later_in_the_same_turn)
{
    for (int yields = 0; yields < 2; yields++) {
        struct world w;
        struct flight op[2], gives;
        uint64_t s;

        world_open(&w);
        s = session(&w);
        gets(&w, s, NULL);
        w.one_turn = true;
        lock(&w, session(&w), "a", THREE);
        op[0] = expect_op(&w, CORE_ACQUIRE, "a");
        lock(&w, session(&w), "a", THREE);
        op[1] = expect_op(&w, CORE_ACQUIRE, "a");
        if (yields) {
            unlock(&w, s, "a");
            gives = expect_op(&w, CORE_RELEASE, "a");
            redis_says(&w, gives, CORE_OK, .remote_subscribers = 1);
            expect_reply(&w, w.request, CORE_LEFT);
        } else {
            redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(1), .holders = 2);
            ck_assert(is_watched(&w, "a"));
        }
        lock(&w, session(&w), "a", THREE);
        quiet(&w);
        world_close(&w);
    }
}
END_TEST

/* Some attempts are granted, others are not: then one waiter asks at its time, and the others follow its grant. */
START_TEST(some_taken)
{
    struct world w;
    struct flight op[3];
    uint64_t id;

    world_open(&w);
    id = TOGETHER(&w, 4, op, 3, THREE);
    redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(2), .holders = 3);
    hint(&w, op[0].op.queue); /* all outcomes are awaited first */
    redis_says(&w, op[1], CORE_TAKEN, .pttl_us = SEC(2), .holders = 3);
    quiet(&w);
    redis_says(&w, op[2], CORE_TAKEN, .pttl_us = SEC(1), .holders = 3);
    op[0] = expect_op(&w, CORE_ACQUIRE, "a"); /* because of the hint since then */
    redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(1), .holders = 3);
    pass(&w, SEC(1));
    quiet(&w);
    pass(&w, MS(1));
    redis_grants(&w, "a", id);
    expect_ops(&w, op, 2);
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id + 1, CORE_GRANTED);
    redis_says(&w, op[1], CORE_TAKEN, .pttl_us = SEC(9), .holders = 3);
    quiet(&w);
    ck_assert_uint_eq(w.metrics.attempts_taken, 5);
    give(&w, w.session[0], "a");
    redis_grants(&w, "a", id + 2);
    redis_grants(&w, "a", id + 3);
    world_close(&w);
}
END_TEST

/* Several attempts fail: the earliest time for the next one counts; after a grant to a waiter behind, it is now. */
START_TEST(earliest_retry)
{
    struct world w;
    struct flight op[3];
    uint64_t id;

    world_open(&w);
    id = TOGETHER(&w, 3, op, 3, THREE);
    redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(1), .holders = 2);
    redis_says(&w, op[1], CORE_TAKEN, .pttl_us = SEC(2), .holders = 2);
    redis_says(&w, op[2], CORE_UNKNOWN, .guard_us = w.now_us);
    pass(&w, MS(20));
    op[0] = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op[0], CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    expect_ops(&w, op, 2);
    redis_says(&w, op[0], CORE_TAKEN, .pttl_us = SEC(1), .holders = 2);
    quiet(&w);
    redis_says(&w, op[1], CORE_OK);
    expect_reply(&w, id + 2, CORE_GRANTED);
    redis_grants(&w, "a", id + 1);
    world_close(&w);
}
END_TEST

/* All attempts are on a link that died: the pause doubles once, and the first waiter asks for all of them. */
START_TEST(unanswered_together)
{
    struct world w;
    struct flight op[3], again;
    uint64_t id;

    world_open(&w);
    id = TOGETHER(&w, 3, op, 3, THREE);
    for (int i = 0; i < 3; i++) {
        redis_says(&w, op[i], CORE_UNKNOWN, .guard_us = w.now_us);
    }
    pass(&w, MS(19));
    quiet(&w);
    pass(&w, MS(1));
    again = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert_uint_eq(again.op.claim, op[0].op.claim);
    redis_says(&w, again, CORE_DOWN);
    pass(&w, MS(39));
    quiet(&w);
    pass(&w, MS(1));
    redis_grants(&w, "a", id);
    expect_ops(&w, op, 2);
    for (int i = 0; i < 2; i++) {
        redis_says(&w, op[i], CORE_OK);
        expect_reply(&w, id + 1 + (uint64_t)i, CORE_GRANTED);
    }
    world_close(&w);
}
END_TEST

/* A NOWAIT request gets the outcome of its own attempt, not of another one. */
START_TEST(each_its_answer)
{
    static const enum core_outcome fails[] = {CORE_TAKEN, CORE_DOWN, CORE_UNKNOWN};

    for (size_t i = 0; i < sizeof(fails) / sizeof(fails[0]); i++) {
        struct world w;
        struct flight op[3];
        uint64_t id;

        world_open(&w);
        id = TOGETHER(&w, 3, op, 3, THREE, .nowait = true);
        redis_says(&w, op[0], fails[i], .guard_us = w.now_us, .pttl_us = SEC(1), .holders = 3);
        if (fails[i] == CORE_DOWN) { /* its patience lasts, see timing_out.c */
            quiet(&w);
        } else {
            expect_reply(&w, id, fails[i] == CORE_TAKEN ? CORE_NOT_GRANTED : CORE_UNAVAILABLE);
        }
        skip_all(&w);
        redis_says(&w, op[1], CORE_OK);
        expect_reply(&w, id + 1, CORE_GRANTED);
        skip_all(&w);
        redis_says(&w, op[2], CORE_TAKEN, .pttl_us = SEC(1), .holders = 3);
        expect_reply(&w, id + 2, CORE_NOT_GRANTED);
        if (fails[i] == CORE_DOWN) {
            expect_reply(&w, id, CORE_NOT_GRANTED);
        }
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* ... also a request whose wait ends during its attempt; and when the limit is lower by then. */
START_TEST(each_its_answer_late)
{
    struct world w;
    struct flight op[3];
    uint64_t id;

    world_open(&w);
    id = TOGETHER(&w, 3, op, 3, THREE, .wait_us = MS(10));
    pass(&w, MS(10));
    redis_says(&w, op[0], CORE_DOWN);
    expect_reply(&w, id, CORE_UNAVAILABLE);
    lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 1, .wait_us = MS(1));
    redis_says(&w, op[1], CORE_OK);
    expect_reply(&w, id + 1, CORE_GRANTED);
    redis_says(&w, op[2], CORE_OK);
    expect_reply(&w, id + 2, CORE_GRANTED);
    pass(&w, MS(1));
    expect_reply(&w, id + 3, CORE_NOT_GRANTED);
    world_close(&w);
}
END_TEST

/* At most 64 attempts of a name run at a time; the waiters behind them follow in the next group. */
START_TEST(so_many_at_a_time)
{
    static const int calls[] = {1, 64, 35};
    struct world w;
    struct flight op[64];

    world_open(&w);
    for (int i = 0; i < 100; i++) {
        lock(&w, session(&w), "a", .kind = KIND_SEMAPHORE, .limit = 100);
        op[0] = i == 0 ? expect_op(&w, CORE_ACQUIRE, "a") : op[0];
    }
    for (size_t i = 0, id = 1; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (i > 0) {
            expect_ops(&w, op, calls[i]);
        }
        for (int k = 0; k < calls[i]; k++, id++) {
            redis_says(&w, op[k], CORE_OK);
            expect_reply(&w, id, CORE_GRANTED);
        }
    }
    expect_holders(&w, 100);
    world_close(&w);
}
END_TEST

/* The search for a claim by its token looks at no other holder, however many there are. */
START_TEST(found_by_its_token)
{
    static const struct ask kinds[] = {{.kind = KIND_SEMAPHORE, .limit = 8}, {.kind = KIND_RW, .shared = true}};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        uint64_t s, token[4];
        struct world w;
        struct lock *l;
        struct list holders;
        struct ask a = kinds[k];

        world_open(&w);
        for (int i = 0; i < 4; i++) {
            s = session(&w);
            token[i] = redis_grants(&w, "pool", world_ask(&w, CORE_LOCK, s, "pool", a))->token;
        }
        s = session(&w);
        a.token = token[1];
        redis_releases(&w, "pool", world_ask(&w, CORE_UNLOCK, s, "pool", a));
        l = lock_find(w.core, slice_of("pool"));
        holders = l->holders;
        l->holders.next = l->holders.prev = NULL; /* a walk over the list would crash */
        ck_assert_ptr_null(claim_by_token(w.core, l, 7));
        ck_assert_ptr_null(claim_by_token(w.core, l, token[1]));
        ck_assert_uint_eq(claim_by_token(w.core, l, token[2])->token, token[2]);
        l->holders = holders;
        expect_reply(&w, world_ask(&w, CORE_UNLOCK, s, "pool", a), CORE_NOT_HELD);
        world_close(&w);
    }
}
END_TEST

/* Taking or releasing one permit looks at no other permit of its owner, however many there are. */
START_TEST(very_many_of_one_owner)
{
    struct claim *last, *first;
    const struct owner *o;
    uint64_t s, token[4];
    struct world w;
    struct lock *l;
    struct list holders, claims;

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < 4; i++) {
        uint64_t id = lock(&w, s, "pool", .kind = KIND_SEMAPHORE, .limit = 8, .lease_us = SEC(i == 2 ? 5 : 60));

        token[i] = redis_grants(&w, "pool", id)->token;
    }
    l = lock_find(w.core, slice_of("pool"));
    last = claim_by_token(w.core, l, token[3]);
    first = claim_by_token(w.core, l, token[2]);
    o = last->owner;
    holders = l->holders;
    claims = o->claims;
    l->holders.next = l->holders.prev = NULL; /* a walk over the list would crash */
    last->owner->claims.next = last->owner->claims.prev = NULL;
    ck_assert_ptr_eq(claim_newest_held(w.core, l, o), last);
    ck_assert_ptr_null(claim_to_join(w.core, l, o, false));
    ck_assert_uint_eq(claim_to_join(w.core, l, o, true)->token, token[0]);
    ck_assert_ptr_eq(permit_set_first_end(last), first);
    ck_assert_int_eq(permit_set_held_beside(w.core, last), 3);
    l->holders = holders;
    last->owner->claims = claims;
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        room_for_requests_that_do_not_wait,
        up_to_the_limit,
        several_of_one_owner,
        by_token,
        found_by_its_token,
        very_many_of_one_owner,
        newest,
        once,
        session_ends,
        churn,
        limit_lowered,
        limit_raised,
        lost,
        lost_by_owner_and_token,
        broken,
        unanswered,
        position_is_kept,
        together,
        asked_later,
        later_in_the_same_turn,
        some_taken,
        earliest_retry,
        unanswered_together,
        each_its_answer,
        each_its_answer_late,
        so_many_at_a_time,
    };

    return suite_main("core, permits", tests, sizeof(tests) / sizeof(tests[0]));
}
