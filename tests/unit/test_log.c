/*
 * test_log.c -- the exact bytes of log lines, read back from a socket pair.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"

static int ends[2];
static struct log lg;
static char got[8192];

static void
open_pipe(void)
{
    /* Packets keep their borders: one read returns one write. */
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    unsetenv("JOURNAL_STREAM");
    log_init(&lg);
    ck_assert_int_eq(lg.fd, 2);
    ck_assert_int_eq(lg.level, LOG_INFO);
    ck_assert(!lg.priorities);
    lg.fd = ends[1];
}

static void
close_pipe(void)
{
    close(ends[0]);
    close(ends[1]);
}

/* The next line as it was written; "": none was. */
static const char *
line(void)
{
    ssize_t n = read(ends[0], got, sizeof(got) - 1);

    got[n > 0 ? n : 0] = '\0';
    return got;
}

START_TEST(plain)
{
    log_event(&lg, LOG_WARN, "link", "down", "redis", LOG_S("unix:/x"), "in_ms", LOG_N(250), NULL);
    ck_assert_str_eq(line(), "warn link down redis=unix:/x in_ms=250\n");
    log_event(&lg, LOG_INFO, "loop", "start", NULL);
    ck_assert_str_eq(line(), "info loop start\n");
    log_event(&lg, LOG_ERROR, "a", "b", "n", LOG_N(INT64_MIN), NULL);
    ck_assert_str_eq(line(), "error a b n=-9223372036854775808\n");
    ck_assert_str_eq(line(), "");
}
END_TEST

START_TEST(quoting)
{
    static const struct {
        struct slice in;
        const char *out;
    } rows[] = {
        {{"", 0}, "\"\""},
        {{NULL, 0}, "\"\""},
        {{"a-b.c/d:e", 9}, "a-b.c/d:e"},
        {{"a b", 3}, "\"a b\""},
        {{"a=b", 3}, "\"a=b\""},
        {{"a\"b", 3}, "\"a\\x22b\""},
        {{"a\\b", 3}, "\"a\\x5cb\""},
        {{"a\nerror x y", 11}, "\"a\\x0aerror x y\""},
        {{"a\0b", 3}, "\"a\\x00b\""},
        {{"\xff\x7f\x1b", 3}, "\"\\xff\\x7f\\x1b\""},
    };
    char want[128];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        log_event(&lg, LOG_INFO, "r", "e", "k", LOG_B(rows[i].in), "z", LOG_N(1), NULL);
        snprintf(want, sizeof(want), "info r e k=%s z=1\n", rows[i].out);
        ck_assert_str_eq(line(), want);
    }
}
END_TEST

START_TEST(levels_and_priorities)
{
    static const char *const shown[LOG_LEVELS] = {"<3>error r e\n", "<4>warn r e\n", "<6>info r e\n", "<7>debug r e\n"};

    setenv("JOURNAL_STREAM", "8:1", 1);
    log_init(&lg);
    ck_assert(lg.priorities);
    lg.fd = ends[1];
    for (int limit = 0; limit < LOG_LEVELS; limit++) {
        lg.level = (enum log_level)limit;
        for (int level = 0; level < LOG_LEVELS; level++) {
            log_event(&lg, (enum log_level)level, "r", "e", NULL);
            ck_assert_str_eq(line(), level <= limit ? shown[level] : "");
        }
    }
}
END_TEST

START_TEST(long_values_are_cut)
{
    char value[300], want[400];

    memset(value, 'v', sizeof(value));
    log_event(&lg, LOG_INFO, "r", "e", "k", LOG_B(((struct slice){value, 256})), NULL);
    snprintf(want, sizeof(want), "info r e k=%.256s\n", value);
    ck_assert_str_eq(line(), want);
    log_event(&lg, LOG_INFO, "r", "e", "k", LOG_B(((struct slice){value, 257})), "z", LOG_N(1), NULL);
    snprintf(want, sizeof(want), "info r e k=%.256s... z=1\n", value);
    ck_assert_str_eq(line(), want);
    value[0] = ' ';
    log_event(&lg, LOG_INFO, "r", "e", "k", LOG_B(((struct slice){value, 300})), NULL);
    snprintf(want, sizeof(want), "info r e k=\"%.256s...\"\n", value);
    ck_assert_str_eq(line(), want);
}
END_TEST

/* Three values of 1 KiB after escaping: pairs that do not fit are left out as a whole, and the line is complete. */
START_TEST(long_lines_are_cut_between_pairs)
{
    char value[256];
    struct slice v = {value, sizeof(value)};
    const char *p;

    memset(value, '\n', sizeof(value));
    log_event(&lg, LOG_INFO, "r", "e", "a", LOG_B(v), "b", LOG_B(v), "c", LOG_B(v), "d", LOG_N(1), NULL);
    p = line();
    ck_assert_uint_le(strlen(p), 2048);
    ck_assert_int_eq(strncmp(p, "info r e a=\"\\x0a", 16), 0);
    ck_assert_str_eq(p + strlen(p) - 10, "\\x0a\" ...\n");
    ck_assert_ptr_null(strstr(p, " b="));
    ck_assert_ptr_null(strstr(p, " d="));
    ck_assert_ptr_eq(strchr(p, '\n'), p + strlen(p) - 1);
}
END_TEST

START_TEST(every_length_fits)
{
    char value[256];
    int cut = 0, whole = 0;

    memset(value, ' ', sizeof(value));
    for (size_t n = 0; n <= sizeof(value); n++) {
        struct slice v = {value, n};
        const char *p;
        size_t bytes;

        log_event(&lg, LOG_INFO, "r", "e", "a", LOG_B(v), "b", LOG_B(v), "c", LOG_B(v), "d", LOG_B(v), "e", LOG_B(v),
                  "f", LOG_B(v), "g", LOG_B(v), "h", LOG_B(v), NULL);
        p = line();
        bytes = strlen(p);
        ck_assert_uint_le(bytes, 2048);
        ck_assert_uint_gt(bytes, 8);
        ck_assert_ptr_eq(strchr(p, '\n'), p + bytes - 1);
        if (strcmp(p + bytes - 5, " ...\n") == 0) {
            cut++;
        } else {
            whole++;
            ck_assert_ptr_nonnull(strstr(p, " h=\""));
        }
    }
    ck_assert_int_gt(cut, 0);
    ck_assert_int_gt(whole, 200);
}
END_TEST

START_TEST(a_closed_fd_is_harmless)
{
    lg.fd = -1;
    log_event(&lg, LOG_ERROR, "r", "e", "k", LOG_S("v"), NULL);
    ck_assert_str_eq(line(), "");
}
END_TEST

/* ---- how often ---- */

static int64_t now_us;

static int64_t
the_time(void)
{
    return now_us;
}

static struct log_cap cap;

static void
open_capped(void)
{
    open_pipe();
    now_us = 5000000;
    cap = (struct log_cap){.now_us = the_time};
    lg.cap = &cap;
}

/* Logs so many lines of a sort; returns how many of them were written. */
static int
flood(const char *event, int n)
{
    int written = 0;

    for (int i = 0; i < n; i++) {
        log_event(&lg, LOG_WARN, "r", event, "i", LOG_N(i), NULL);
        written += line()[0] != '\0';
    }
    return written;
}

START_TEST(a_burst_then_one_a_second)
{
    ck_assert_int_eq(flood("e", 1000), LOG_BURST);
    ck_assert_int_eq(flood("e", 1000), 0);
    now_us += 999999;
    ck_assert_int_eq(flood("e", 1), 0);
    now_us += 1;
    log_event(&lg, LOG_WARN, "r", "e", "k", LOG_S("v"), NULL);
    ck_assert_str_eq(line(), "warn r e left_out=1801 k=v\n");
    ck_assert_uint_eq(cap.left_out, 0);
    ck_assert_int_eq(flood("e", 10), 0);
    now_us += 3 * 1000000;
    ck_assert_int_eq(flood("e", 10), 3);
    now_us += INT64_C(3600) * 1000000;
    ck_assert_int_eq(flood("e", 1000), LOG_BURST);
}
END_TEST

START_TEST(each_sort_for_itself)
{
    ck_assert_int_eq(flood("e", LOG_BURST + 1), LOG_BURST);
    ck_assert_int_eq(flood("f", 1), 1);
    log_event(&lg, LOG_INFO, "r", "e", NULL);
    ck_assert_str_eq(line(), "info r e\n");
    log_event(&lg, LOG_WARN, "s", "e", NULL);
    ck_assert_str_eq(line(), "warn s e\n");
    lg.level = LOG_WARN;
    log_event(&lg, LOG_INFO, "never", "seen", NULL); /* takes no place in the table */
    ck_assert_uint_eq(cap.sorts_n, 4);
}
END_TEST

START_TEST(debug_lines_are_not_counted)
{
    lg.level = LOG_DEBUG;
    for (int i = 0; i < 3 * LOG_BURST; i++) {
        log_event(&lg, LOG_DEBUG, "r", "e", NULL);
        ck_assert_str_eq(line(), "debug r e\n");
    }
}
END_TEST

/* The count is logged also when no further line of the sort comes. */
START_TEST(omitted_lines_are_counted_in_the_log)
{
    log_report_left_out(&lg, false);
    ck_assert_int_eq(flood("e", LOG_BURST + 7), LOG_BURST);
    ck_assert_int_eq(flood("f", LOG_BURST + 1), LOG_BURST);
    log_report_left_out(&lg, false);
    ck_assert_str_eq(line(), "");
    now_us += 1000000;
    log_report_left_out(&lg, false);
    ck_assert_str_eq(line(), "warn r e left_out=7\n");
    ck_assert_str_eq(line(), "warn r f left_out=1\n");
    ck_assert_int_eq(flood("e", 1), 0); /* the count was the line of this second */
    log_report_left_out(&lg, false);
    ck_assert_str_eq(line(), "");
    log_report_left_out(&lg, true);
    ck_assert_str_eq(line(), "warn r e left_out=1\n");
    ck_assert_uint_eq(cap.left_out, 0);
}
END_TEST

START_TEST(more_sorts_than_places)
{
    static char names[LOG_SORTS_MAX + 20][8];
    uint64_t written = 0;

    for (int i = 0; i < LOG_SORTS_MAX + 20; i++) {
        snprintf(names[i], sizeof(names[i]), "e%d", i);
        ck_assert_int_ge(flood(names[i], 1), 1);
    }
    ck_assert_uint_eq(cap.sorts_n, LOG_SORTS_MAX);
    for (int i = 0; i < LOG_SORTS_MAX + 20; i++) {
        written += (uint64_t)flood(names[i], LOG_BURST);
    }
    ck_assert_uint_eq(written, (uint64_t)LOG_SORTS_MAX * (LOG_BURST - 1) - 20);
    ck_assert_uint_eq(cap.left_out, (uint64_t)(LOG_SORTS_MAX + 20) * LOG_BURST - written);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("log");
    TCase *tc = tcase_create("all"), *often = tcase_create("how often");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, open_pipe, close_pipe);
    tcase_add_test(tc, plain);
    tcase_add_test(tc, quoting);
    tcase_add_test(tc, levels_and_priorities);
    tcase_add_test(tc, long_values_are_cut);
    tcase_add_test(tc, long_lines_are_cut_between_pairs);
    tcase_add_test(tc, every_length_fits);
    tcase_add_test(tc, a_closed_fd_is_harmless);
    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(often, open_capped, close_pipe);
    tcase_add_test(often, a_burst_then_one_a_second);
    tcase_add_test(often, each_sort_for_itself);
    tcase_add_test(often, debug_lines_are_not_counted);
    tcase_add_test(often, omitted_lines_are_counted_in_the_log);
    tcase_add_test(often, more_sorts_than_places);
    suite_add_tcase(s, often);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
