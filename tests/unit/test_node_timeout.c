/*
 * test_node_timeout.c -- whether a cut-off master of a cluster stops in time, by the node timeout that it reports.
 */
#include "daemon/backend/node_timeout.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/units.h"
#include "suite.h"

#define LEASE_US (30 * US_PER_S)

static struct node_timeout timeout;
static struct log silent;

static void
begin(void)
{
    node_timeout_init(&timeout);
    log_init(&silent);
    silent.fd = -1;
}

/* The answer to CONFIG GET has these two texts. */
static void
answers(const char *name, const char *value)
{
    struct reply item[2] = {{.type = REPLY_TEXT, .text = slice_of(name)},
                            {.type = REPLY_TEXT, .text = slice_of(value)}};
    struct reply *each[2] = {&item[0], &item[1]};

    node_timeout_take(&timeout, &(struct reply){.type = REPLY_ARRAY, .count = 2, .item = each});
}

static bool
bounded(int64_t lease_us)
{
    return node_timeout_bounded(&timeout, lease_us, &silent, "redis://a:1");
}

START_TEST(half_of_the_longest_lease_is_the_most)
{
    answers("cluster-node-timeout", "15000");
    ck_assert(bounded(LEASE_US));
    ck_assert_str_eq(timeout.why_unbounded, "");
    ck_assert(!bounded(LEASE_US - 2 * US_PER_MS));
    ck_assert_str_eq(timeout.why_unbounded,
                     "cluster-node-timeout (15000 ms) is longer than half of the longest lease (29998 ms)");
    answers("cluster-node-timeout", "15001");
    ck_assert(!bounded(LEASE_US));
    answers("cluster-node-timeout", "2000");
    ck_assert(bounded(LEASE_US));
    ck_assert_str_eq(timeout.why_unbounded, "");
}
END_TEST

START_TEST(an_unknown_node_timeout_is_no_bound)
{
    static const char *const bad[] = {"", "-1", "x", "15 s", "99999999999999999999", "4294967297"};

    ck_assert(!bounded(LEASE_US));
    ck_assert_str_eq(timeout.why_unbounded, "cluster-node-timeout is not known");
    ck_assert(!timeout.logged); /* no answer so far */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        answers("cluster-node-timeout", "1000");
        ck_assert(bounded(LEASE_US));
        answers("cluster-node-timeout", bad[i]);
        ck_assert_msg(!bounded(LEASE_US), "%s", bad[i]);
    }
    answers("cluster-slave-no-failover", "1000");
    ck_assert(!bounded(LEASE_US));
    node_timeout_take(&timeout, &(struct reply){.type = REPLY_ARRAY, .count = 0});
    ck_assert(!bounded(LEASE_US));
    node_timeout_take(&timeout, &(struct reply){.type = REPLY_NULL});
    ck_assert(!bounded(LEASE_US));
}
END_TEST

START_TEST(a_refused_question_names_the_remedy)
{
    answers("cluster-node-timeout", "1000");
    node_timeout_take(&timeout, &(struct reply){.type = REPLY_ERROR, .text = SLICE_LIT("NOPERM no")});
    ck_assert(!bounded(LEASE_US));
    ck_assert_str_eq(timeout.why_unbounded, "CONFIG GET is refused: allow it (+config|get)");
    ck_assert(timeout.logged);
    answers("cluster-node-timeout", "1000");
    ck_assert(bounded(LEASE_US));
    ck_assert(!timeout.logged);
}
END_TEST

/* The master runs a script: the timeout is what it was, and no right is missing. */
START_TEST(a_busy_master_refuses_nothing)
{
    static const struct reply busy = {.type = REPLY_ERROR, .text = SLICE_LIT("BUSY Redis is busy running a script.")};

    node_timeout_take(&timeout, &busy);
    ck_assert(!bounded(LEASE_US));
    ck_assert(!timeout.logged);
    answers("cluster-node-timeout", "1000");
    timeout.asked_us = 1;
    node_timeout_take(&timeout, &busy);
    ck_assert(bounded(LEASE_US));
    ck_assert_int_eq(timeout.asked_us, 0); /* the next tick asks */
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {half_of_the_longest_lease_is_the_most, an_unknown_node_timeout_is_no_bound,
                                  a_refused_question_names_the_remedy, a_busy_master_refuses_nothing};

    return suite_main_with("node_timeout", tests, sizeof(tests) / sizeof(tests[0]), begin, NULL);
}
