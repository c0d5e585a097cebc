/*
 * test_spin.c -- when the loop polls again at once, instead of sleeping.
 */
#include "daemon/base/spin.h"

#include "tests/unit/suite.h"

enum { LIMIT = 30 };

START_TEST(off)
{
    struct spin s = {.last_input_us = 1};

    ck_assert(!spin_should_poll(&s, 0, true, 1000));
    ck_assert(!spin_should_poll(&s, 0, false, 1001));
}
END_TEST

/* While input comes within the limit, the loop polls for as long as the limit, and no longer. */
START_TEST(while_it_comes)
{
    struct spin s = {.last_input_us = 1000};
    int64_t now_us = 1000;

    for (int i = 0; i < 100; i++) {
        now_us += LIMIT - 1;
        ck_assert(spin_should_poll(&s, LIMIT, false, now_us));
        ck_assert(spin_should_poll(&s, LIMIT, true, now_us));
    }
    ck_assert(spin_should_poll(&s, LIMIT, false, now_us + LIMIT - 1));
    ck_assert(!spin_should_poll(&s, LIMIT, false, now_us + LIMIT));
}
END_TEST

/* Where input seldom comes in time the loop does not poll; it does again as soon as input comes in time. */
START_TEST(where_it_is_of_no_use)
{
    struct spin s = {.last_input_us = 1000};
    int64_t now_us = 1000;
    int busy = 0;

    for (int i = 0; i < 20; i++) {
        now_us += 1000;
        (void)spin_should_poll(&s, LIMIT, true, now_us);
    }
    ck_assert(!spin_should_poll(&s, LIMIT, false, now_us + 1));
    while (!spin_should_poll(&s, LIMIT, true, now_us)) {
        now_us += 5;
        busy++;
        ck_assert_int_lt(busy, 20);
    }
    ck_assert_int_gt(busy, 1); /* one input in time is not enough */
}
END_TEST

/* One long pause costs a few misses, however long it was. */
START_TEST(after_a_night)
{
    struct spin s = {.last_input_us = 1000};
    int64_t now_us = INT64_C(40000000000);
    int busy = 0;

    while (!spin_should_poll(&s, LIMIT, true, now_us)) {
        now_us += 5;
        ck_assert_int_lt(++busy, 10);
    }
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {off, while_it_comes, where_it_is_of_no_use, after_a_night};

    return suite_main("spin", tests, sizeof(tests) / sizeof(tests[0]));
}
