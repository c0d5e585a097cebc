/*
 * test_units.c -- durations, sizes and numbers: accepted, refused, and printed back.
 */
#include <check.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/units.h"

#define UNTOUCHED INT64_C(-77)

struct good {
    const char *text;
    int64_t value;
};

static const struct good durations[] = {
    {"0", 0},
    {"1500", 1500 * US_PER_MS},
    {"0ms", 0},
    {"250ms", 250 * US_PER_MS},
    {"5s", 5 * US_PER_S},
    {"2m", 120 * US_PER_S},
    {"1h", 3600 * US_PER_S},
    {"007s", 7 * US_PER_S},
    {"8760h", 365 * 24 * 3600 * US_PER_S},
    {"31536000000", 365 * 24 * 3600 * US_PER_S},
};

static const char *const bad_durations[] = {
    "",       " ",     "s",       "ms",     "-1",       "+1",    "1.5s",  " 5s",  "5s ",  "5 s",     "5S",
    "5MS",    "5min",  "5d",      "5ns",    "0x10",     "1e3",   "5s5",   "5sm",  "8761h", "525601m", "31536000001",
    "9223372036854775807",  "9223372036854775808",  "99999999999999999999999h", "forever", "٥s",
};

START_TEST(duration_good)
{
    const struct good *g = &durations[_i];
    int64_t us = UNTOUCHED;

    ck_assert_msg(duration_parse(slice_of(g->text), &us), "%s", g->text);
    ck_assert_int_eq(us, g->value);
}
END_TEST

START_TEST(duration_bad)
{
    int64_t us = UNTOUCHED;

    ck_assert_msg(!duration_parse(slice_of(bad_durations[_i]), &us), "%s", bad_durations[_i]);
    ck_assert_int_eq(us, UNTOUCHED);
}
END_TEST

START_TEST(duration_bytes)
{
    int64_t us = UNTOUCHED;

    /* A slice has no terminator: the bytes after it do not count, and a NUL inside does not end it. */
    ck_assert(duration_parse((struct slice){"5s9", 2}, &us));
    ck_assert_int_eq(us, 5 * US_PER_S);
    ck_assert(!duration_parse((struct slice){"5s\0", 3}, &us));
    ck_assert(!duration_parse((struct slice){NULL, 0}, &us));
}
END_TEST

START_TEST(duration_printed)
{
    static const struct good shown[] = {
        {"0ms", 0},
        {"1ms", US_PER_MS},
        {"250ms", 250 * US_PER_MS},
        {"1500ms", 1500 * US_PER_MS},
        {"90s", 90 * US_PER_S},
        {"1m", 60 * US_PER_S},
        {"90m", 5400 * US_PER_S},
        {"8760h", 365 * 24 * 3600 * US_PER_S},
        {"forever", DURATION_FOREVER},
        {"1001us", 1001},
        {"-9223372036854775808us", INT64_MIN},
        {"9223372036854775806us", INT64_MAX - 1},
    };
    char out[24];

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        duration_print(shown[i].value, out);
        ck_assert_str_eq(out, shown[i].text);
    }
}
END_TEST

START_TEST(duration_round_trip)
{
    char out[24];
    int64_t back;

    srand((unsigned)_i + 1);
    for (int i = 0; i < 1000; i++) {
        int64_t us = (int64_t)(rand() % 40000000) * (i % 2 == 0 ? US_PER_MS : US_PER_S / 2);

        duration_print(us, out);
        ck_assert(duration_parse(slice_of(out), &back));
        ck_assert_int_eq(back, us);
    }
}
END_TEST

static const struct good sizes[] = {
    {"0", 0},
    {"4096", 4096},
    {"16KiB", 16384},
    {"1MiB", 1048576},
    {"1GiB", 1073741824},
    {"9223372036854775807", INT64_MAX},
    {"8589934591GiB", INT64_C(8589934591) << 30},
};

static const char *const bad_sizes[] = {
    "", "KiB", "-1", "1K", "1KB", "1kib", "1 KiB", "1.5KiB", "1KiB ", "8589934592GiB", "9223372036854775808", "1TiB",
};

START_TEST(size_good)
{
    int64_t n = UNTOUCHED;

    ck_assert_msg(size_parse(slice_of(sizes[_i].text), &n), "%s", sizes[_i].text);
    ck_assert_int_eq(n, sizes[_i].value);
}
END_TEST

START_TEST(size_bad)
{
    int64_t n = UNTOUCHED;

    ck_assert_msg(!size_parse(slice_of(bad_sizes[_i]), &n), "%s", bad_sizes[_i]);
    ck_assert_int_eq(n, UNTOUCHED);
}
END_TEST

START_TEST(size_printed)
{
    static const struct good shown[] = {
        {"0", 0},      {"1", 1},         {"1023", 1023}, {"1KiB", 1024},
        {"1025", 1025}, {"1536KiB", 1572864}, {"2GiB", INT64_C(2) << 30}, {"9223372036854775807", INT64_MAX},
    };
    char out[24];

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        size_print(shown[i].value, out);
        ck_assert_str_eq(out, shown[i].text);
    }
}
END_TEST

START_TEST(numbers)
{
    static const struct good good[] = {{"0", 0}, {"00", 0}, {"42", 42}, {"9223372036854775807", INT64_MAX}};
    static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1a", "0x1", "9223372036854775808", "1.0"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t n = UNTOUCHED;

        ck_assert(number_parse(slice_of(good[i].text), &n));
        ck_assert_int_eq(n, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t n = UNTOUCHED;

        ck_assert_msg(!number_parse(slice_of(bad[i]), &n), "%s", bad[i]);
        ck_assert_int_eq(n, UNTOUCHED);
    }
}
END_TEST

START_TEST(clocks)
{
    int64_t now = clock_now_us(), wall = clock_wall_us();

    ck_assert_int_gt(now, 0);
    ck_assert_int_ge(clock_now_us(), now);
    ck_assert_int_gt(wall, INT64_C(1600000000) * US_PER_S);
#ifdef RLOCKD_TEST_CLOCK
    clock_advance_us(3600 * US_PER_S);
    ck_assert_int_ge(clock_now_us(), now + 3600 * US_PER_S);
    ck_assert_int_ge(clock_wall_us(), wall + 3600 * US_PER_S);
#endif
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("units");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_loop_test(tc, duration_good, 0, sizeof(durations) / sizeof(durations[0]));
    tcase_add_loop_test(tc, duration_bad, 0, sizeof(bad_durations) / sizeof(bad_durations[0]));
    tcase_add_test(tc, duration_bytes);
    tcase_add_test(tc, duration_printed);
    tcase_add_loop_test(tc, duration_round_trip, 0, 5);
    tcase_add_loop_test(tc, size_good, 0, sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_loop_test(tc, size_bad, 0, sizeof(bad_sizes) / sizeof(bad_sizes[0]));
    tcase_add_test(tc, size_printed);
    tcase_add_test(tc, numbers);
    tcase_add_test(tc, clocks);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
