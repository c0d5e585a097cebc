/*
 * test_core_tickets.c -- kinds whose waiters have a ticket: it is taken at once, renewed, given back,
 * and the order is the same in Redis and here.
 */
#include <stdio.h>

#include "tests/unit/core_world.h"

#define FAIR .kind = KIND_FAIR
#define TICKET_S 30 /* a ticket lasts so long without a renewal */

/* s takes the free "a"; returns the token. */
static uint64_t
takes(struct world *w, uint64_t s)
{
    uint64_t id = lock(w, s, "a", FAIR);

    return redis_grants(w, "a", id)->token;
}

static struct flight
expect_ticket(struct world *w, uint64_t owner)
{
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert(op.op.ticket && op.op.owner == owner && op.op.holds == 1);
    return op;
}

/* The next operation asks for a ticket for `owner`, and gets it. */
static struct flight
takes_ticket(struct world *w, uint64_t owner, int64_t pttl_us)
{
    struct flight op = expect_ticket(w, owner);

    redis_says(w, op, CORE_TAKEN, .pttl_us = pttl_us, .has_ticket = true);
    return op;
}

/* The next operation is an attempt of `owner` without a ticket. */
static struct flight
asks(struct world *w, uint64_t owner)
{
    struct flight op = expect_op(w, CORE_ACQUIRE, "a");

    ck_assert(!op.op.ticket && op.op.owner == owner);
    return op;
}

/* The daemon listens to the channel of this owner, or (0) to none. */
static void
expect_watch(const struct world *w, uint64_t owner)
{
    ck_assert_uint_eq(is_watched(w, "a") ? watch_of(w, "a").op.owner : 0, owner);
}

/*
 * Another client has the lock: all waiters ask for a ticket at once, one after the other; then only the first asks
 * again.
 */
START_TEST(all_take_tickets)
{
    struct world w;
    struct flight op;
    uint64_t s[4], id[4];

    world_open(&w);
    for (int i = 0; i < 4; i++) {
        id[i] = lock(&w, s[i] = session(&w), "a", FAIR);
        if (i == 0) {
            op = expect_op(&w, CORE_ACQUIRE, "a");
            ck_assert(op.op.ticket && op.op.owner == s[0]);
        }
    }
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3), .has_ticket = true);
    for (int i = 1; i < 4; i++) {
        op = expect_op(&w, CORE_ACQUIRE, "a");
        if (i == 1) {
            expect_watch(&w, s[0]);
        }
        ck_assert(op.op.ticket && op.op.owner == s[i]);
        redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3), .has_ticket = true);
    }
    quiet(&w);
    pass(&w, SEC(3) + MS(1));
    redis_says(&w, asks(&w, s[0]), CORE_OK);
    expect_reply(&w, id[0], CORE_GRANTED);
    expect_watch(&w, s[1]);
    world_close(&w);
}
END_TEST

/* A later waiter that takes a ticket does not delay the next attempt of the first one. */
START_TEST(the_first_one_is_not_put_off)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", FAIR);
    takes_ticket(&w, s, SEC(30));
    expect_watch(&w, s);
    pass(&w, SEC(4));
    lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(30));
    pass(&w, SEC(1));
    quiet(&w);
    pass(&w, MS(1));
    redis_says(&w, asks(&w, s), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* ... nor does the core forget meanwhile that it is the turn of the first one (found by tests/sim, seed 3705). */
START_TEST(the_turn_is_not_forgotten)
{
    struct world w;
    struct flight gives, ticket;
    uint64_t h, s, t, u, id, left;

    world_open(&w);
    h = session(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    takes(&w, h);
    id = lock(&w, s, "a", FAIR);
    takes_ticket(&w, s, SEC(30));
    expect_watch(&w, s);
    left = unlock(&w, h, "a");
    gives = expect_op(&w, CORE_RELEASE, "a");
    lock(&w, t, "a", FAIR);
    ticket = expect_ticket(&w, t);
    lock(&w, u, "a", FAIR);
    redis_says(&w, gives, CORE_OK);
    expect_reply(&w, left, CORE_LEFT);
    redis_says(&w, ticket, CORE_TAKEN, .pttl_us = SEC(30), .has_ticket = true);
    takes_ticket(&w, u, SEC(30));
    redis_says(&w, asks(&w, s), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Held here: waiters take a ticket all the same, so that remote waiters stand behind them. */
START_TEST(tickets_while_held_here)
{
    struct world w;
    uint64_t s, t, u, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    takes(&w, s);
    id = lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(30));
    expect_watch(&w, t);
    lock(&w, u, "a", FAIR);
    takes_ticket(&w, u, SEC(30));
    pass(&w, SEC(5));
    quiet(&w); /* held here, so no attempt before the release */
    unlock(&w, s, "a");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK, .remote_subscribers = 2);
    expect_reply(&w, w.request, CORE_LEFT);
    redis_says(&w, asks(&w, t), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    expect_watch(&w, u);
    world_close(&w);
}
END_TEST

/* A NOWAIT request asks, but takes no ticket. */
START_TEST(nowait)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", FAIR, .nowait = true);
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    quiet(&w);
    id = lock(&w, s, "a", FAIR, .nowait = true);
    op = asks(&w, s);
    lock(&w, t, "a", FAIR); /* a waiter that came meanwhile asks afterwards */
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    op = expect_ticket(&w, t);
    expect_watch(&w, t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3), .has_ticket = true);
    expect_reply(&w, lock(&w, s, "a", FAIR, .nowait = true), CORE_NOT_GRANTED);
    world_close(&w);
}
END_TEST

/* Each waiter's ticket is renewed after a third of its time, also while the daemon does not ask for the lock. */
START_TEST(renewed)
{
    struct world w;
    struct flight op[3];
    uint64_t s[3];

    world_open(&w);
    takes(&w, s[0] = session(&w));
    for (int i = 1; i < 3; i++) {
        struct flight first;

        lock(&w, s[i] = session(&w), "a", FAIR);
        first = takes_ticket(&w, s[i], SEC(30));
        if (i == 1) {
            expect_watch(&w, first.op.owner);
        }
    }
    for (int n = 0; n < 5; n++) {
        pass(&w, SEC(TICKET_S / 3) - MS(100)); /* together with the holder's lease */
        for (int i = 0; i < 3; i++) {
            op[i] = expect_op(&w, CORE_EXTEND, "a");
            ck_assert(op[i].op.ticket == (i > 0) && op[i].op.reentry == (i == 0) && !op[i].op.exact);
            ck_assert_int_eq(op[i].op.lease_us, SEC(TICKET_S));
            ck_assert_uint_eq(op[i].op.owner, s[i]);
        }
        for (int i = 0; i < 3; i++) {
            redis_says(&w, op[i], CORE_OK);
        }
    }
    world_close(&w);
}
END_TEST

/* A ticket that was taken with a short lease lasts as long as that: it is renewed in time. */
START_TEST(renewed_sooner)
{
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    takes(&w, session(&w));
    lock(&w, s, "a", FAIR, .lease_us = SEC(3));
    takes_ticket(&w, s, SEC(30));
    expect_watch(&w, s);
    pass(&w, SEC(1));
    ck_assert(expect_op(&w, CORE_EXTEND, "a").op.ticket);
    redis_says(&w, w.flights[w.flights_n - 1], CORE_OK);
    pass(&w, SEC(5));
    quiet(&w);
    world_close(&w);
}
END_TEST

/* A renewal fails: it is repeated after a second, whatever the reason. */
START_TEST(not_renewed)
{
    static const enum core_outcome outcomes[] = {CORE_UNKNOWN, CORE_DOWN, CORE_FULL};
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    lock(&w, s, "a", FAIR);
    takes_ticket(&w, s, -1);
    expect_watch(&w, s);
    pass(&w, SEC(5) + MS(1));
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    pass(&w, SEC(5) - MS(1));
    for (size_t i = 0; i < 3; i++) {
        struct flight op = expect_op(&w, CORE_EXTEND, "a");

        ck_assert(op.op.ticket);
        redis_says(&w, op, outcomes[i]);
        pass(&w, SEC(1));
        if (i == 0) {
            redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
        }
    }
    redis_says(&w, expect_op(&w, CORE_EXTEND, "a"), CORE_OK);
    world_close(&w);
}
END_TEST

/* Redis has lost the ticket: the waiter takes a new one, behind all others, there and here. */
START_TEST(lost_ticket)
{
    struct world w;
    struct flight op[2], ticket;
    uint64_t s, t, u, first, second;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    takes(&w, u);
    first = lock(&w, s, "a", FAIR);
    takes_ticket(&w, s, SEC(30));
    expect_watch(&w, s);
    second = lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(30));
    pass(&w, SEC(10));
    expect_op(&w, CORE_EXTEND, "a");
    op[0] = expect_op(&w, CORE_EXTEND, "a");
    op[1] = expect_op(&w, CORE_EXTEND, "a");
    redis_says(&w, op[0], CORE_GONE_IN_REDIS);
    ticket = expect_ticket(&w, s);
    expect_watch(&w, t);
    redis_says(&w, ticket, CORE_TAKEN, .pttl_us = SEC(20), .has_ticket = true);
    redis_says(&w, op[1], CORE_OK);
    unlock(&w, u, "a");
    redis_releases(&w, "a", w.request);
    redis_says(&w, asks(&w, t), CORE_OK); /* the first one in Redis: else the lock would be granted to no waiter */
    expect_reply(&w, second, CORE_GRANTED);
    expect_watch(&w, s);
    unlock(&w, t, "a");
    redis_releases(&w, "a", w.request);
    redis_says(&w, asks(&w, s), CORE_OK);
    expect_reply(&w, first, CORE_GRANTED);
    expect_watch(&w, 0);
    world_close(&w);
}
END_TEST

/* The first waiter asks for the lock and learns that it has no ticket any more: as above. */
START_TEST(lost_ticket_found_out)
{
    struct world w;
    struct flight op;
    uint64_t s, t, first, second;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    first = lock(&w, s, "a", FAIR);
    takes_ticket(&w, s, SEC(3));
    expect_watch(&w, s);
    second = lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(3));
    pass(&w, SEC(3) + MS(1));
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(20), .has_ticket = false);
    op = expect_ticket(&w, s);
    expect_watch(&w, t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(20), .has_ticket = true);
    pass(&w, SEC(5) + MS(1));
    redis_says(&w, asks(&w, t), CORE_OK);
    expect_reply(&w, second, CORE_GRANTED);
    ck_assert_uint_lt(first, second);
    world_close(&w);
}
END_TEST

/*
 * The renewal of a lost ticket is answered late, when an attempt has found the loss and taken another: its outcome is
 * not about the new ticket. (Else each waiter would go behind the other here, but not in Redis, and neither would
 * ever get the lock.)
 */
START_TEST(renewal_overtaken_by_the_next_ticket)
{
    struct world w;
    struct flight op, other, renewal;
    uint64_t s, t, second;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", FAIR);
    op = takes_ticket(&w, s, SEC(3600));
    expect_watch(&w, s);
    second = lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(3600));
    pass(&w, SEC(5) + MS(1));
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    pass(&w, SEC(5) - MS(1));
    other = expect_op(&w, CORE_EXTEND, "a");
    renewal = expect_op(&w, CORE_EXTEND, "a");
    ck_assert(other.op.owner == t && renewal.op.owner == s);
    hint(&w, op.op.queue);
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = false);
    op = expect_ticket(&w, s);
    expect_watch(&w, t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    redis_says(&w, renewal, CORE_GONE_IN_REDIS);
    redis_says(&w, other, CORE_OK);
    hint(&w, op.op.queue);
    redis_says(&w, asks(&w, t), CORE_OK); /* the first one in Redis */
    expect_reply(&w, second, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* The same, and Redis has no other ticket. */
START_TEST(renewal_of_no_ticket)
{
    struct world w;
    struct flight op, renewal;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    lock(&w, s, "a", FAIR);
    op = takes_ticket(&w, s, SEC(3600));
    expect_watch(&w, s);
    pass(&w, SEC(5) + MS(1));
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    pass(&w, SEC(5) - MS(1));
    renewal = expect_op(&w, CORE_EXTEND, "a");
    hint(&w, op.op.queue);
    redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = false);
    redis_says(&w, expect_ticket(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = false);
    redis_says(&w, renewal, CORE_GONE_IN_REDIS); /* known already */
    quiet(&w);
    hint(&w, op.op.queue);
    redis_grants(&w, "a", w.request);
    expect_watch(&w, 0);
    world_close(&w);
}
END_TEST

/* The lock is granted during a renewal of the ticket: the outcome of that renewal is not about the hold. */
START_TEST(renewal_overtaken_by_the_grant)
{
    static const enum core_outcome outcomes[] = {CORE_GONE_IN_REDIS, CORE_OK, CORE_UNKNOWN};

    for (size_t i = 0; i < 3; i++) {
        struct world w;
        struct flight op, renewal;
        uint64_t s, id;

        world_open(&w);
        s = session(&w);
        id = lock(&w, s, "a", FAIR);
        op = takes_ticket(&w, s, SEC(3600));
        expect_watch(&w, s);
        pass(&w, SEC(5) + MS(1));
        redis_says(&w, asks(&w, s), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
        pass(&w, SEC(5) - MS(1));
        renewal = expect_op(&w, CORE_EXTEND, "a");
        ck_assert(renewal.op.ticket);
        hint(&w, op.op.queue);
        redis_says(&w, asks(&w, s), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        expect_watch(&w, 0);
        redis_says(&w, renewal, outcomes[i]);
        expect_state(&w, "a", "held");
        ck_assert_int_eq(view_of(&w, "a").deadline_us, w.now_us + REPORTED_30S);
        pass(&w, SEC(10));
        ck_assert(!expect_op(&w, CORE_EXTEND, "a").op.ticket);
        world_close(&w);
    }
}
END_TEST

/* A waiter that ends gives its ticket back; the release of the lock does not end that job. */
START_TEST(giving_up)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    takes(&w, t);
    id = lock(&w, s, "a", FAIR, .wait_us = SEC(1));
    takes_ticket(&w, s, SEC(30));
    expect_watch(&w, s);
    pass(&w, SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert(op.op.holds == 0 && op.op.other_sort == 0 && op.op.owner == s);
    expect_watch(&w, 0);
    redis_says(&w, op, CORE_DOWN);
    unlock(&w, t, "a");
    redis_releases(&w, "a", w.request);
    for (int n = 0; n < 200; n++) { /* for longer than a lease */
        pass(&w, MS(500));
        redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_DOWN);
    }
    pass(&w, MS(500));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_RELEASED), 1); /* of the hold, not of the ticket */
    world_close(&w);
}
END_TEST

/* ... also when its attempt is unanswered: it may have run, and may still run. */
START_TEST(giving_up_unanswered)
{
    struct world w;
    struct flight op;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    lock(&w, s, "a", FAIR);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    gone(&w, s);
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    ck_assert(known(&w, "a"));
    pass(&w, SEC(1));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    ck_assert(!known(&w, "a"));
    world_close(&w);
}
END_TEST

/* The unanswered attempt of a later waiter may have got the lock: it asks again itself, although another is first. */
START_TEST(unanswered_behind_another)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", FAIR);
    takes_ticket(&w, s, SEC(3600));
    expect_watch(&w, s);
    id = lock(&w, t, "a", FAIR);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    ck_assert_uint_eq(redis_grants(&w, "a", id)->owner, t);
    world_close(&w);
}
END_TEST

/* A key of another kind is waited for: no waiter has a ticket, and Redis is asked as seldom as for other kinds. */
START_TEST(foreign)
{
    struct world w;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", FAIR, .foreign_wait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_FOREIGN, .pttl_us = SEC(3));
    expect_watch(&w, s);
    quiet(&w);
    pass(&w, SEC(3) + MS(1));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_FOREIGN, .pttl_us = -1);
    lock(&w, t, "a", FAIR, .foreign_wait = true); /* a newcomer may ask once */
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_FOREIGN, .pttl_us = -1);
    for (int i = 0; i < 3; i++) {
        quiet(&w);
        pass(&w, SEC(5) + MS(1));
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_FOREIGN, .pttl_us = -1);
    }
    pass(&w, SEC(5) + MS(1));
    takes_ticket(&w, s, SEC(3)); /* now the key is of kind fair */
    takes_ticket(&w, t, SEC(3));
    world_close(&w);
}
END_TEST

/* Redis has no ticket (no room, or its list has another type): the waiter does not ask more often for that. */
START_TEST(no_ticket_to_be_had)
{
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    lock(&w, s, "a", FAIR);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(3), .has_ticket = false);
    expect_watch(&w, s);
    quiet(&w);
    pass(&w, SEC(3) + MS(1));
    redis_grants(&w, "a", w.request);
    expect_watch(&w, 0);
    world_close(&w);
}
END_TEST

/* A named owner's ticket is kept and renewed in Redis, too; the owner's next LOCK stands there again. */
START_TEST(kept_ticket)
{
    struct world w;
    struct flight op, renewal[3];
    uint64_t s, t, first, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    takes(&w, t);
    first = lock(&w, s, "a", FAIR, .owner = "alice", .wait_us = SEC(9));
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30), .has_ticket = true);
    lock(&w, t, "a", FAIR, .owner = "bob");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(30), .has_ticket = true);
    pass(&w, SEC(9));
    expect_reply(&w, first, CORE_NOT_GRANTED);
    quiet(&w); /* the ticket is not given back */
    pass(&w, SEC(1));
    for (int i = 0; i < 3; i++) {
        renewal[i] = expect_op(&w, CORE_EXTEND, "a");
    }
    for (int i = 0; i < 3; i++) {
        redis_says(&w, renewal[i], CORE_OK);
    }
    id = lock(&w, s, "a", FAIR, .owner = "alice");
    quiet(&w);
    unlock(&w, t, "a");
    redis_releases(&w, "a", w.request);
    redis_grants(&w, "a", id);
    world_close(&w);
}
END_TEST

/* A kept ticket without a waiter has its turn: it is given back, so that the next waiter need not wait for its end. */
START_TEST(kept_ticket_is_passed_on)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, kept;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", FAIR, .owner = "alice", .wait_us = SEC(1));
    op = expect_op(&w, CORE_ACQUIRE, "a");
    kept = op.op.owner;
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    expect_watch(&w, kept);
    id = lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(3600));
    pass(&w, SEC(1));
    expect_reply(&w, id - 1, CORE_NOT_GRANTED);
    quiet(&w); /* the channel of the first ticket is still watched */
    hint(&w, op.op.queue);
    op = expect_op(&w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.owner, kept);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, asks(&w, t), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* The watch follows the first waiter. */
START_TEST(watch_follows_the_head)
{
    struct world w;
    uint64_t s[3];

    world_open(&w);
    for (int i = 0; i < 3; i++) {
        lock(&w, s[i] = session(&w), "a", FAIR);
        takes_ticket(&w, s[i], SEC(3600));
        if (i == 0) {
            expect_watch(&w, s[0]);
        }
    }
    gone(&w, s[1]);
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
    redis_says(&w, asks(&w, s[0]), CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    gone(&w, s[0]);
    ck_assert_uint_eq(expect_op(&w, CORE_RELEASE, "a").op.owner, s[0]);
    expect_watch(&w, s[2]);
    world_close(&w);
}
END_TEST

/* Redis grants the lock to a waiter beside the holder here: that hold is lost, and LOST is reported. */
START_TEST(granted_beside_a_hold)
{
    struct world w;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    takes(&w, s);
    id = lock(&w, t, "a", FAIR);
    redis_grants(&w, "a", id);
    ck_assert_uint_eq(expect_news(&w, CORE_NEWS_LOST, "a")->owner, s);
    ck_assert_uint_eq(view_of(&w, "a").owner.redis_owner, t);
    ck_assert_uint_eq(view_of(&w, "a").holders, 1);
    expect_reply(&w, unlock(&w, s, "a"), CORE_WAS_LOST);
    world_close(&w);
}
END_TEST

/* During the holder's release a waiter asks for a ticket, and is granted the lock: the grant counts. */
START_TEST(granted_behind_a_release)
{
    struct world w;
    struct flight release, op;
    uint64_t s, t, id;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    takes(&w, s);
    unlock(&w, s, "a");
    release = expect_op(&w, CORE_RELEASE, "a");
    id = lock(&w, t, "a", FAIR);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    redis_says(&w, release, CORE_UNKNOWN);
    redis_says(&w, op, CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    pass(&w, MS(20));
    redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&w, id - 1, CORE_LEFT);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_LOST), 0);
    world_close(&w);
}
END_TEST

/* A lock that is granted after its session has gone is released; then the owner's position is the last, as in Redis. */
START_TEST(kept_position_after_a_release)
{
    struct world w;
    struct flight op;
    uint64_t s, t, u, id, other;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    u = session(&w);
    lock(&w, s, "a", FAIR, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    gone(&w, s);
    redis_says(&w, op, CORE_OK);
    op = expect_op(&w, CORE_RELEASE, "a");
    other = lock(&w, t, "a", FAIR);
    takes_ticket(&w, t, SEC(30));
    expect_watch(&w, t);
    redis_says(&w, op, CORE_OK);
    redis_says(&w, asks(&w, t), CORE_TAKEN, .pttl_us = SEC(3), .has_ticket = true); /* a remote waiter was faster */
    id = lock(&w, u, "a", FAIR, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.ticket && op.op.owner != t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3), .has_ticket = true);
    pass(&w, SEC(3) + MS(1));
    redis_says(&w, asks(&w, t), CORE_OK);
    expect_reply(&w, other, CORE_GRANTED);
    ck_assert_uint_gt(id, other);
    world_close(&w);
}
END_TEST

/* A position that is kept here only: an owner that takes a ticket meanwhile goes before it, there and here. */
START_TEST(kept_position_here_only)
{
    struct world w;
    struct flight op;
    uint64_t s, t, id, other;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    id = lock(&w, s, "a", FAIR, .owner = "alice", .nowait = true);
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(!op.op.ticket);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    ck_assert(is_watched(&w, "a"));
    other = lock(&w, t, "a", FAIR);
    op = expect_ticket(&w, t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1), .has_ticket = true);
    id = lock(&w, s, "a", FAIR, .owner = "alice");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    ck_assert(op.op.ticket && op.op.owner != t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(1), .has_ticket = true);
    quiet(&w); /* the watch stays with the first waiter */
    pass(&w, SEC(1) + MS(1));
    redis_says(&w, asks(&w, t), CORE_OK);
    expect_reply(&w, other, CORE_GRANTED);
    ck_assert_uint_gt(id, other);
    world_close(&w);
}
END_TEST

/* An unanswered attempt may have taken a ticket: it is repeated before another waiter takes one. */
START_TEST(unanswered_before_others)
{
    struct world w;
    struct flight op;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    lock(&w, s, "a", FAIR, .owner = "alice", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(3600));
    expect_reply(&w, w.request, CORE_NOT_GRANTED);
    lock(&w, t, "a", FAIR);
    op = expect_ticket(&w, t);
    lock(&w, s, "a", FAIR, .owner = "alice"); /* in time for its old position here */
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1));
    pass(&w, MS(20));
    op = expect_ticket(&w, t);
    redis_says(&w, op, CORE_TAKEN, .pttl_us = SEC(3600), .has_ticket = true);
    ck_assert(expect_op(&w, CORE_ACQUIRE, "a").op.ticket);
    world_close(&w);
}
END_TEST

/* Without checkpoints a drain gives all tickets in Redis back. */
START_TEST(drain)
{
    struct world w;
    struct flight op;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    takes(&w, t);
    lock(&w, s, "a", FAIR, .owner = "alice");
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(30), .has_ticket = true);
    drains(&w);
    expect_reply(&w, w.request, CORE_DRAINING);
    op = expect_op(&w, CORE_RELEASE, "a");
    redis_says(&w, op, CORE_OK);
    world_close(&w);
}
END_TEST

static void
count_waiter(void *ctx, const struct core_waiter_view *v)
{
    ck_assert(v->kept);
    ++*(int *)ctx;
}

/*
 * As a client that polls by SET NX with a new value each time: however many attempts were refused, Redis is asked anew.
 */
START_TEST(unused_positions_keep_no_request_out)
{
    char owner[8];
    struct world w;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    for (int i = 0; i < 200; i++) {
        snprintf(owner, sizeof(owner), "o%d", i);
        id = lock(&w, s, "a", .owner = owner, .nowait = true);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_TAKEN, .pttl_us = SEC(20));
        expect_reply(&w, id, CORE_NOT_GRANTED);
        if (i == 0) {
            ck_assert(is_watched(&w, "a"));
        }
    }
    id = lock(&w, s, "a", .owner = "next", .nowait = true);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    world_close(&w);
}
END_TEST

/* Each refused LOCK of a new named owner leaves a position: the oldest stay, up to a bound, for the queue grace. */
START_TEST(unused_positions_are_bounded)
{
    char owner[8];
    struct world w;
    uint64_t s;
    int n = 0;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    for (int i = 0; i < 3000; i++) {
        snprintf(owner, sizeof(owner), "o%d", i);
        expect_reply(&w, lock(&w, s, "a", .owner = owner, .nowait = true), CORE_NOT_GRANTED);
    }
    core_waiters_of(w.core, w.now_us, SLICE_LIT("a"), SIZE_MAX, count_waiter, &n);
    ck_assert(n > 1000 && n < 1100);
    ck_assert_uint_lt(core_totals(w.core).owners, 1100);
    pass(&w, SEC(3));
    ck_assert_uint_eq(core_totals(w.core).owners, 1);
    expect_reply(&w, lock(&w, s, "a", .owner = "again", .nowait = true), CORE_NOT_GRANTED);
    n = 0;
    core_waiters_of(w.core, w.now_us, SLICE_LIT("a"), SIZE_MAX, count_waiter, &n);
    ck_assert_int_eq(n, 1);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        all_take_tickets,
        the_first_one_is_not_put_off,
        the_turn_is_not_forgotten,
        tickets_while_held_here,
        nowait,
        renewed,
        renewed_sooner,
        not_renewed,
        lost_ticket,
        lost_ticket_found_out,
        renewal_overtaken_by_the_next_ticket,
        renewal_of_no_ticket,
        renewal_overtaken_by_the_grant,
        giving_up,
        giving_up_unanswered,
        unanswered_behind_another,
        foreign,
        no_ticket_to_be_had,
        kept_ticket,
        kept_ticket_is_passed_on,
        watch_follows_the_head,
        granted_beside_a_hold,
        granted_behind_a_release,
        kept_position_after_a_release,
        kept_position_here_only,
        unanswered_before_others,
        drain,
        unused_positions_are_bounded,
        unused_positions_keep_no_request_out,
    };

    return suite_main("core, tickets", tests, sizeof(tests) / sizeof(tests[0]));
}
