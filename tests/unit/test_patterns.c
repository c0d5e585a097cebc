/*
 * test_patterns.c -- sessions with patterns: a turn spends a bounded time on them, a session with few is not late
 * because of one with many, and a session that can never keep up is closed.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"

#include "daemon/serve/pubsub.h"

enum { NAME = 500, SLOW = 1000 };

static char hot[NAME + 1]; /* a name that the slow patterns go through to its end */

/* Subscribes to a thousand slow patterns, and last to one that matches everything. */
static void
subscribe_slowly(const struct client *c)
{
    char pattern[NAME + 16];

    memset(hot, 'a', NAME);
    for (int i = 0; i < SLOW; i++) {
        memset(pattern, 0, sizeof(pattern));
        snprintf(pattern, sizeof(pattern), "lock:*%.*s%04d*", NAME - 40, hot, i);
        ck_assert_int_gt(pubsub_subscribe(engine->pubsub, c->s, slice_of(pattern), true), 0);
    }
    ck_assert_int_eq(pubsub_subscribe(engine->pubsub, c->s, SLICE_LIT("lock:*"), true), SLOW + 1);
}

static void
publish(uint64_t token)
{
    struct core_publish news = {.news = CORE_NEWS_GRANTED, .name = slice_of(hot), .token = token, .owner = 4,
                                .owner_name = SLICE_LIT("o"), .session = 7};

    pubsub_news(engine->pubsub, &news);
}

START_TEST(a_session_with_one_is_not_late_for_a_session_with_a_thousand)
{
    struct client slow = come(), quick = come();
    uint64_t slow_token = 0, quick_token = 0;

    subscribe_slowly(&slow);
    pubsub_subscribe(engine->pubsub, quick.s, SLICE_LIT("lock:*"), true);
    turn();
    for (uint64_t token = 1; token <= 50; token++) {
        publish(token);
    }
    ck_assert(one_turn() && one_turn());
    ck_assert_int_eq(receive_events(&quick, &quick_token), 50);
    ck_assert_int_eq(receive_events(&slow, &slow_token), 0);
    turn();
    ck_assert_int_eq(receive_events(&slow, &slow_token), 50);
    publish(51); /* both have no backlog */
    turn();
    ck_assert_int_eq(receive_events(&quick, &quick_token), 1);
    ck_assert_int_eq(receive_events(&slow, &slow_token), 1);
    leave(&slow);
    leave(&quick);
}
END_TEST

/* A thousand patterns of 500 bytes cost more than the share of one turn. */
START_TEST(a_turn_spends_a_bounded_time)
{
    struct client slow = come();
    int64_t began_us, longest_us = 0;
    uint64_t token = 0;
    int turns = 0;
    bool more = true;

    subscribe_slowly(&slow);
    turn();
    publish(1);
    while (more) {
        began_us = clock_now_us();
        more = one_turn();
        longest_us = clock_now_us() - began_us > longest_us ? clock_now_us() - began_us : longest_us;
        turns++;
    }
    ck_assert_int_eq(receive_events(&slow, &token), 1);
    ck_assert_msg(turns >= 5, "%d turns, the longest %lld us", turns, (long long)longest_us);
    leave(&slow);
}
END_TEST

START_TEST(a_session_that_cannot_follow_is_closed)
{
    struct client slow = come(), quick = come();
    uint64_t overflows = engine->metrics.output_overflows, received = 0;

    subscribe_slowly(&slow);
    pubsub_subscribe(engine->pubsub, quick.s, SLICE_LIT("lock:*"), true);
    turn();
    for (uint64_t n = 1; n <= 6000; n++) {
        publish(n);
        if (n % 20 == 0) {
            ck_assert(one_turn() || n > 3000);
            receive_events(&quick, &received);
        }
    }
    ck_assert_ptr_null(session_find(engine, slow.id)); /* and its output was read */
    turn();
    receive_events(&quick, &received);
    ck_assert_uint_eq(received, 6000);
    ck_assert_uint_eq(engine->metrics.output_overflows, overflows + 1);
    ck_assert_ptr_nonnull(session_find(engine, quick.id));
    close(slow.fd);
    leave(&quick);
}
END_TEST

/* Patterns go and come while events wait for them. */
START_TEST(subscriptions_change_meanwhile)
{
    struct client slow = come(), other = come();
    uint64_t token = 1;
    char pattern[NAME + 16];

    subscribe_slowly(&slow);
    subscribe_slowly(&other);
    turn();
    publish(1);
    publish(2);
    one_turn();
    for (int i = 0; i < SLOW; i++) { /* also the one that is next */
        snprintf(pattern, sizeof(pattern), "lock:*%.*s%04d*", NAME - 40, hot, i);
        pubsub_unsubscribe(engine->pubsub, slow.s, slice_of(pattern), true);
    }
    pubsub_unsubscribe(engine->pubsub, slow.s, SLICE_LIT("lock:*"), true);
    ck_assert_int_eq(pubsub_count(slow.s), 0);
    pubsub_subscribe(engine->pubsub, slow.s, SLICE_LIT("lock:*"), true); /* for events from now on */
    publish(3);
    leave(&other); /* it was behind, and goes */
    turn();
    token = 2;
    ck_assert_int_eq(receive_events(&slow, &token), 1);
    leave(&slow);
}
END_TEST

/* Work that a turn leaves has another turn, though no other event comes. */
START_TEST(the_loop_does_not_sleep_meanwhile)
{
    struct client slow = come(), locker = come();
    char text[NAME + 32];
    struct buf b;

    subscribe_slowly(&slow);
    turn();
    snprintf(text, sizeof(text), "LOCK %s\n", hot);
    sends(&locker, text);
    settle();
    buf_init(&b, 0);
    receives(&slow, &b);
    ck_assert_ptr_nonnull(strstr(b.p, "granted 101"));
    buf_fini(&b);
    leave(&slow);
    leave(&locker);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {a_session_with_one_is_not_late_for_a_session_with_a_thousand,
                                  a_turn_spends_a_bounded_time, a_session_that_cannot_follow_is_closed,
                                  subscriptions_change_meanwhile, the_loop_does_not_sleep_meanwhile};

    return house_run("patterns", house_tcase(tests, sizeof(tests) / sizeof(tests[0])));
}
