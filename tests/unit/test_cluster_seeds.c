/*
 * test_cluster_seeds.c -- when the link that asks for the map of a cluster moves on to another node.
 *
 * cluster_seeds.c is compiled into this file: there is no link, and no question is sent.
 */
#include "daemon/backend/cluster_private.h"
#include "suite.h"

static const char *last_error; /* of the link */
static unsigned moves;

static const char *
error_of(const struct redis_link *l)
{
    (void)l;
    return last_error;
}

static void
moves_on(struct redis_link *l)
{
    (void)l;
    moves++;
}

static void
no_wake(struct cluster *c, int64_t in_us)
{
    (void)c;
    (void)in_us;
}

static bool link_is_up;
static unsigned infos; /* questions for the version */

static bool
is_up(const struct redis_link *l)
{
    (void)l;
    return link_is_up;
}

static bool
sends(struct redis_link *l, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    (void)l;
    (void)words;
    (void)fn;
    (void)arg;
    infos += slice_is(word[0], "INFO");
    return true;
}

#define link_up is_up
#define link_send sends
#define link_last_error error_of
#define link_retarget moves_on
#define cluster_wake no_wake
#include "daemon/backend/cluster_seeds.c"
#undef link_up
#undef link_send
#undef link_last_error
#undef link_retarget
#undef cluster_wake

static bool map_is_good;

static bool
on_text(struct cluster *c, struct slice text, const char *host)
{
    (void)c;
    (void)text;
    (void)host;
    return map_is_good;
}

static char version[32]; /* the last one that was reported */

static void
on_version(struct cluster *c, const char *text)
{
    (void)c;
    snprintf(version, sizeof(version), "%s", text);
}

static struct cluster c;
static struct cluster_seeds s;

static void
begin(void)
{
    list_init(&c.masters);
    c.known = true;
    c.url.listed_n = 2;
    for (unsigned i = 0; i < 2; i++) {
        c.url.listed[i].port = (int)(7001 + i);
        snprintf(c.url.listed[i].host, sizeof(c.url.listed[i].host), "127.0.0.1");
    }
    s = (struct cluster_seeds){.cluster = &c, .events = {.map = on_text, .version = on_version}};
    s.address = address_unknown("node", NULL, NULL, 0, false);
    address_move(s.address, "127.0.0.1", 7001);
    last_error = "";
    moves = infos = 0;
    version[0] = '\0';
    link_is_up = false;
    map_is_good = true;
}

static void
over(void)
{
    address_free(s.address);
}

/* The question was for the former node. If it counted, the link would leave each node before the node can answer. */
START_TEST(a_question_that_ends_because_the_link_moves_does_not_count)
{
    s.useless = true; /* the link has failed, is up again, and has asked */
    s.asking = true;
    cluster_seeds_ask(&s);
    ck_assert_uint_eq(moves, 1);
    last_error = LINK_MOVED;
    on_map(&s, LINK_UNKNOWN, NULL, 0);
    ck_assert(!s.useless && !s.asking);
}
END_TEST

START_TEST(a_question_without_an_answer_makes_the_link_move_on)
{
    s.asking = true;
    last_error = "Connection reset by peer";
    on_map(&s, LINK_UNKNOWN, NULL, 0);
    ck_assert(s.useless);
}
END_TEST

/* The last answer counts, whatever has happened to the link before. */
START_TEST(a_map_keeps_the_link_at_its_node)
{
    struct reply r = {.type = REPLY_TEXT, .text = SLICE_LIT("map")};

    s.useless = true;
    on_map(&s, LINK_ANSWERED, &r, 0);
    ck_assert(!s.useless);
    map_is_good = false;
    on_map(&s, LINK_ANSWERED, &r, 0);
    ck_assert(s.useless);
}
END_TEST

/* The node was loading its data when it was asked for the version, and no longer when it gave the map. */
START_TEST(the_version_is_asked_for_until_a_node_reports_it)
{
    struct reply loading = {.type = REPLY_ERROR, .text = SLICE_LIT("LOADING Redis is loading the dataset in memory")};
    struct reply info = {.type = REPLY_TEXT, .text = SLICE_LIT("# Server\r\nredis_version:7.0.15\r\n")};
    struct reply other = {.type = REPLY_TEXT, .text = SLICE_LIT("# Server\r\nredis_version:6.2.14\r\n")};

    link_is_up = true;
    s.version_us = clock_now_us();
    on_info(&s, LINK_ANSWERED, &loading, 0);
    cluster_seeds_ask(&s);
    ck_assert_uint_eq(infos, 0); /* not in each request for the map */
    s.version_us -= VERSION_US;
    cluster_seeds_ask(&s);
    ck_assert_uint_eq(infos, 1);
    on_info(&s, LINK_ANSWERED, &info, 0);
    ck_assert_str_eq(version, "7.0.15");
    s.version_us -= VERSION_US;
    cluster_seeds_ask(&s);
    ck_assert_uint_eq(infos, 1);
    on_info(&s, LINK_ANSWERED, &other, 0);
    ck_assert_str_eq(version, "7.0.15");
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
#define SECONDS 600

/* Asked five times a second: two seeds of which neither gives a map, or two addresses of one name. */
START_TEST(reasons_that_alternate_are_four_lines_a_minute)
{
    struct reasons r = {.logged = ""};
    unsigned lines = 0;

    clock_stop(true);
    for (unsigned i = 0; i < SECONDS * 5; i++) {
        lines += is_news(&r, i % 2 == 0 ? "Connection refused" : "NOAUTH");
        clock_advance_us(US_PER_S / 5);
    }
    ck_assert_uint_eq(lines, SECONDS / 60 * 4);
    clock_stop(false);
}
END_TEST

/* The other reason is logged at once, although it came within a minute of the first; each of the two once. */
START_TEST(a_reason_that_stays_is_logged_once)
{
    struct reasons r = {.logged = ""};
    unsigned lines = 0;

    clock_stop(true);
    ck_assert(is_news(&r, "Connection refused"));
    ck_assert(is_news(&r, "NOAUTH"));
    for (unsigned i = 0; i < SECONDS; i++) {
        lines += is_news(&r, "NOAUTH");
        clock_advance_us(US_PER_S);
    }
    ck_assert_uint_eq(lines, 0);
    clock_stop(false);
}
END_TEST
#endif

/* INFO has the reason of the latest answer, and none once an answer is a map. */
START_TEST(the_reason_why_an_answer_is_no_map_ends_with_a_map)
{
    struct reply r = {.type = REPLY_TEXT, .text = SLICE_LIT("map")};
    struct log silent = {.fd = -1};

    c.env.log = &silent;
    cluster_seeds_refuse(&s, "127.0.0.1", "the node is in no cluster");
    cluster_seeds_refuse(&s, "127.0.0.1", "of another cluster");
    ck_assert_str_eq(cluster_seeds_map_error(&s), "of another cluster");
    on_map(&s, LINK_ANSWERED, &r, 0);
    ck_assert_str_eq(cluster_seeds_map_error(&s), "");
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("cluster seeds");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, over);
    tcase_add_test(t, a_question_that_ends_because_the_link_moves_does_not_count);
    tcase_add_test(t, a_question_without_an_answer_makes_the_link_move_on);
    tcase_add_test(t, a_map_keeps_the_link_at_its_node);
    tcase_add_test(t, the_version_is_asked_for_until_a_node_reports_it);
#ifdef RLOCKD_TEST_CLOCK
    tcase_add_test(t, reasons_that_alternate_are_four_lines_a_minute);
    tcase_add_test(t, a_reason_that_stays_is_logged_once);
#endif
    tcase_add_test(t, the_reason_why_an_answer_is_no_map_ends_with_a_map);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
