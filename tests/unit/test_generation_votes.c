/*
 * test_generation_votes.c -- whether two of three anchors vote, and until when they do not.
 */
#include <stdlib.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations.h"
#include "daemon/base/clock.h"
#include "suite.h"

#define LEASE_US (36 * US_PER_S)

static void
on_nothing(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    (void)news;
    (void)slot;
    (void)number;
}

static struct generations *
of_three_anchors(const struct anchor_answer *one, const struct anchor_answer *two, const struct anchor_answer *three)
{
    static const struct anchor_identity who = {.uuid = "one", .nonce = 1, .lease_us = LEASE_US};
    const struct anchor_answer *a[ANCHORS] = {one, two, three};
    struct generations *g = generations_new(&who, 1, on_nothing, NULL);

    for (unsigned i = 0; i < ANCHORS; i++) {
        (void)generations_message(g, i, GENERATION_NODES_MAX);
        generations_anchor_answered(g, i, a[i], 100 * US_PER_S, 100 * US_PER_S);
    }
    return g;
}

/* R7: the third anchor may know members whose locks the other two have lost. */
START_TEST(two_new_anchors_are_not_enough)
{
    const struct anchor_answer new = {.time_us = 7, .status = ANCHOR_ABSTAINS, .is_new = true, .birth = 7};
    const struct anchor_answer known = {.time_us = 7, .status = ANCHOR_ABSTAINS, .birth = 7};

    for (unsigned away = 0; away < ANCHORS; away++) {
        const struct anchor_answer *third[] = {NULL, &known};

        for (unsigned k = 0; k < 2; k++) {
            struct generations *g = of_three_anchors(away == 0 ? third[k] : &new, away == 1 ? third[k] : &new,
                                                     away == 2 ? third[k] : &new);

            for (unsigned i = 0; i < ANCHORS; i++) {
                ck_assert(!generations_message(g, i, GENERATION_NODES_MAX)->all_new);
            }
            generations_free(&g);
        }
    }
}
END_TEST

/* The birth was 20 s ago by the clock of the node; the longest lease is 36 s. */
START_TEST(the_wait_for_two_votes_is_known)
{
    const struct anchor_answer votes = {.time_us = 1, .status = ANCHOR_VOTES, .birth = 1};
    const struct anchor_answer lost = {.time_us = 50 * US_PER_S, .status = ANCHOR_ABSTAINS, .birth = 30 * US_PER_S,
                                       .longest_us = 36 * US_PER_S};
    struct anchor_answer later = lost, endless = lost;
    struct {
        const struct anchor_answer *one, *two;
        unsigned silent, abstaining;
        int64_t wait_s;
    } row[] = {
        {&lost, NULL, 1, 1, 34}, /* beside one anchor that votes */
        {&lost, &later, 0, 2, 34},
        {&later, &lost, 0, 2, 34},
        {&endless, NULL, 1, 1, 129600}, /* the clock was set back, and the lease is beyond any limit */
        {NULL, NULL, 2, 0, -1},
    };
    struct generations *g;
    struct anchor_votes v;

    later.birth += 10 * US_PER_S;
    endless.birth = 60 * US_PER_S;
    endless.longest_us = INT64_MAX - 1;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        g = of_three_anchors(row[i].one, &votes, row[i].two);
        ck_assert(!generations_two_vote(g, 100 * US_PER_S, &v));
        ck_assert_uint_eq(v.silent, row[i].silent);
        ck_assert_uint_eq(v.abstaining, row[i].abstaining);
        ck_assert_int_eq(v.wait_us, row[i].wait_s < 0 ? INT64_MAX : row[i].wait_s * US_PER_S);
        generations_free(&g);
    }
    g = of_three_anchors(&lost, NULL, &later); /* none votes: the second one to vote decides */
    ck_assert(!generations_two_vote(g, 104 * US_PER_S, &v));
    ck_assert_int_eq(v.wait_us, 40 * US_PER_S);
    ck_assert(!generations_two_vote(g, 106 * US_PER_S, &v));
    ck_assert_uint_eq(v.silent, 3);
    ck_assert_int_eq(v.wait_us, INT64_MAX);
    generations_free(&g);
    g = of_three_anchors(&votes, &lost, &votes);
    ck_assert(generations_two_vote(g, 106 * US_PER_S - 1, &v));
    ck_assert(!generations_two_vote(g, 106 * US_PER_S, &v));
    generations_free(&g);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {two_new_anchors_are_not_enough, the_wait_for_two_votes_is_known};

    return suite_main("generation votes", tests, sizeof(tests) / sizeof(tests[0]));
}
