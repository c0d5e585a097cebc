/*
 * test_sentinel.c -- URLs of sentinels, and the verdict from their answers.
 */
#include <string.h>

#include "daemon/backend/sentinel_url.h"
#include "daemon/backend/sentinel_answers.h"
#include "suite.h"

#define NOW_US (100 * US_PER_S)

/* ---- URLs ---- */

START_TEST(a_url_lists_sentinels_and_names_a_master)
{
    struct sentinel_url u;
    char error[160];

    ck_assert(sentinel_url_parse("sentinel:a.example:26379,[::1]:1/my-master?db=3", &u, error));
    ck_assert_uint_eq(u.listed_n, 2);
    ck_assert_str_eq(u.listed[0].host, "a.example");
    ck_assert_int_eq(u.listed[0].port, 26379);
    ck_assert_str_eq(u.listed[1].host, "::1");
    ck_assert_int_eq(u.listed[1].port, 1);
    ck_assert_str_eq(u.master, "my-master");
    ck_assert_int_eq(u.db, 3);
    ck_assert(!u.secure);
    ck_assert(sentinel_url_parse("sentinel+tls:a:1/m", &u, error));
    ck_assert(u.secure);
    ck_assert_int_eq(u.db, 0);
}
END_TEST

START_TEST(a_malformed_url_of_sentinels_is_refused)
{
    static const char *const bad[] = {
        "",           "sentinel:",      "sentinel:/m",      "sentinel:a:1",     "sentinel:a:1/",  "sentinel:a/m",
        "sentinel:a:0/m", "sentinel:a:65536/m", "sentinel:a:1,/m", "sentinel:,a:1/m", "sentinel:::1:1/m",
        "sentinel:a b:1/m", "sentinel:a:1/m m", "sentinel:a:1/m?db=x", "sentinel:a:1/m?x=1", "redis://a:1/m",
        "sentinel:a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10,a:11,a:12,a:13,a:14,a:15,a:16,a:17/m",
    };
    struct sentinel_url u;
    char error[160];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!sentinel_url_parse(bad[i], &u, error), "%s", bad[i]);
    }
}
END_TEST

START_TEST(a_host_holds_nothing_that_could_end_a_line)
{
    char host[HOST_ROOM] = "as it was", longest[HOST_ROOM + 1];

    memset(longest, 'a', sizeof(longest));
    ck_assert(!host_copy(SLICE_LIT("a\r\nredis_state:up"), host));
    ck_assert(!host_copy(SLICE_LIT("a,state=up"), host));
    ck_assert(!host_copy(SLICE_LIT("a\0b"), host));
    ck_assert(!host_copy((struct slice){"", 0}, host));
    ck_assert(!host_copy((struct slice){longest, HOST_ROOM}, host));
    ck_assert_str_eq(host, "as it was");
    ck_assert(host_copy((struct slice){longest, HOST_ROOM - 1}, host));
    ck_assert(host_copy(SLICE_LIT("fe80::1%eth0"), host));
    ck_assert_str_eq(host, "fe80::1%eth0");
}
END_TEST

/* ---- votes ---- */

/* "AAB" = two sentinels name A, one names B; - does not answer, ? knows no master. Each knows `others` others. */
static struct sentinel_verdict
count(const char *answered, unsigned others, unsigned least)
{
    static struct sentinel_answer answer[SENTINELS_MAX];
    const struct sentinel_answer *each[SENTINELS_MAX];
    struct sentinel_verdict v;
    size_t n = strlen(answered);

    for (size_t i = 0; i < n; i++) {
        answer[i] = (struct sentinel_answer){
            .port = 1, .others = others, .asked_us = answered[i] == '-' ? 0 : NOW_US - 1};
        answer[i].id[0] = (char)('a' + i);
        answer[i].host[0] = (char)(answered[i] == '?' ? '\0' : answered[i]);
        each[i] = &answer[i];
    }
    sentinel_answers_count(each, n, least, NOW_US, &v);
    return v;
}

static char
named(const char *answered, unsigned others)
{
    struct sentinel_verdict v = count(answered, others, 0);

    ck_assert_int_eq(v.until_us, v.master == NULL ? 0 : NOW_US - 1 + SENTINEL_FRESH_US);
    return (char)(v.master == NULL ? '\0' : v.master->host[0]);
}

START_TEST(a_majority_of_all_sentinels_names_the_master)
{
    ck_assert_int_eq(named("A", 0), 'A');
    ck_assert_int_eq(named("A", 1), 0); /* two of two are needed */
    ck_assert_int_eq(named("A", 2), 0); /* a minority beside an old master */
    ck_assert_int_eq(named("AA", 2), 'A');
    ck_assert_int_eq(named("A--", 2), 0);
    ck_assert_int_eq(named("AA-", 2), 'A');
    ck_assert_int_eq(named("ABB", 2), 'B');
    ck_assert_int_eq(named("ABC", 2), 0);
    ck_assert_int_eq(named("AA??", 3), 0);
    ck_assert_int_eq(named("AAA", 0), 'A'); /* they do not know each other yet */
    ck_assert_int_eq(named("AB", 0), 0);
    ck_assert_int_eq(named("AABB", 3), 0);
    ck_assert_int_eq(named("AAABB", 4), 'A');
    ck_assert_int_eq(named("", 0), 0);
    ck_assert_uint_eq(count("A-?", 4, 0).known_n, 5);
    ck_assert_uint_eq(count("A-?", 4, 0).answering_n, 1);
    ck_assert_ptr_null(count("A--", 0, 3).master); /* it has forgotten the others in the URL */
    ck_assert_ptr_nonnull(count("AA-", 0, 3).master);
}
END_TEST

START_TEST(one_sentinel_has_one_vote_its_latest)
{
    struct sentinel_answer a = {.id = "a", .host = "old", .port = 1, .others = 2, .asked_us = NOW_US - 3};
    struct sentinel_answer twice = {.id = "a", .host = "new", .port = 1, .others = 2, .asked_us = NOW_US - 2};
    struct sentinel_answer b = {.id = "b", .host = "new", .port = 1, .others = 2, .asked_us = NOW_US - 1};
    const struct sentinel_answer *each[] = {&a, &twice, &b};
    struct sentinel_verdict v;

    sentinel_answers_count(each, 2, 0, NOW_US, &v);
    ck_assert_ptr_null(v.master);
    ck_assert_uint_eq(v.answering_n, 1);
    sentinel_answers_count(each, 3, 0, NOW_US, &v);
    ck_assert_str_eq(v.master->host, "new");
    a.asked_us = twice.asked_us; /* both at once: still one vote */
    sentinel_answers_count(each, 2, 0, NOW_US, &v);
    ck_assert_uint_eq(v.answering_n, 1);
}
END_TEST

START_TEST(a_sentinel_without_an_id_has_no_vote)
{
    struct sentinel_answer a = {.host = "new", .port = 1, .asked_us = NOW_US - 2};
    const struct sentinel_answer *each[] = {&a};
    struct sentinel_verdict v;

    sentinel_answers_count(each, 1, 0, NOW_US, &v);
    ck_assert_ptr_null(v.master);
}
END_TEST

/* The third of five votes counts: when it is too old, so is the majority. */
START_TEST(a_majority_is_as_old_as_its_oldest)
{
    struct sentinel_answer answer[5];
    const struct sentinel_answer *each[5];
    struct sentinel_verdict v;

    for (int i = 0; i < 5; i++) {
        answer[i] = (struct sentinel_answer){.id = "a", .host = "m", .port = 1, .others = 4};
        answer[i].asked_us = NOW_US - 10 * (i + 1);
        answer[i].id[0] = (char)('a' + i);
        each[4 - i] = &answer[i];
    }
    sentinel_answers_count(each, 5, 0, NOW_US, &v);
    ck_assert_int_eq(v.until_us, NOW_US - 30 + SENTINEL_FRESH_US);
    sentinel_answers_count(each, 5, 0, v.until_us - 1, &v);
    ck_assert_ptr_nonnull(v.master);
    sentinel_answers_count(each, 5, 0, v.until_us, &v);
    ck_assert_ptr_null(v.master);
}
END_TEST

START_TEST(a_port_is_part_of_the_address_and_a_name_has_no_case)
{
    struct sentinel_answer a = {.id = "a", .host = "Host", .port = 1, .others = 1, .asked_us = NOW_US - 2};
    struct sentinel_answer b = {.id = "b", .host = "host", .port = 1, .others = 1, .asked_us = NOW_US - 2};
    const struct sentinel_answer *each[] = {&a, &b};
    struct sentinel_verdict v;

    sentinel_answers_count(each, 2, 0, NOW_US, &v);
    ck_assert_ptr_nonnull(v.master);
    b.port = 2;
    sentinel_answers_count(each, 2, 0, NOW_US, &v);
    ck_assert_ptr_null(v.master);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_url_lists_sentinels_and_names_a_master,
        a_malformed_url_of_sentinels_is_refused,
        a_host_holds_nothing_that_could_end_a_line,
        a_majority_of_all_sentinels_names_the_master,
        one_sentinel_has_one_vote_its_latest,
        a_sentinel_without_an_id_has_no_vote,
        a_majority_is_as_old_as_its_oldest,
        a_port_is_part_of_the_address_and_a_name_has_no_case,
    };

    return suite_main("sentinel", tests, sizeof(tests) / sizeof(tests[0]));
}
