/*
 * test_generation_use.c -- what a daemon reports to the anchors of slots that it begins to use.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generation_slots.h"
#include "daemon/backend/generations.h"
#include "daemon/base/clock.h"
#include "rng.h"
#include "suite.h"

#define SLOT 7

static struct generations *g;
static int64_t now_us;
static uint64_t new_number; /* that the slot's news named last as new */

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    if (news == GENERATION_NEW && slot == SLOT) {
        new_number = number;
    }
}

/* All three anchors answer: their version, and the generation that it began with, if that is new. */
static void
anchors_answer(uint64_t version, struct generation_entry *e)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        struct anchor_answer a = {.time_us = now_us, .status = ANCHOR_VOTES, .birth = 5, .version = version,
                                  .done = version, .longest_us = 30 * US_PER_S, .entry = e, .entries_n = e != NULL};

        (void)generations_message(g, i, 0);
        generations_anchor_answered(g, i, &a, now_us, now_us + US_PER_MS);
    }
    now_us += 100 * US_PER_MS;
}

/* A node with all slots, in generation 100. */
static void
begin(void)
{
    static const struct anchor_identity who = {.uuid = "u", .nonce = 1, .lease_us = 30 * US_PER_S};
    struct slot_range all = {0, 16383};
    struct node_answer node = {.time_us = 2000, .master = true, .origin = 77, .config_epoch = 1, .range = &all,
                               .ranges_n = 1, .id = "id"};
    struct generation_entry e = {.number = 100, .origin = 77, .since_us = 1000, .version = 1, .range = &all,
                                 .ranges_n = 1};

    now_us = 1000 * US_PER_S;
    new_number = 0;
    g = generations_new(&who, 1, on_news, NULL);
    ck_assert_uint_eq(generations_node(g, node.id), 0);
    ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
    anchors_answer(1, &e);
    anchors_answer(1, NULL);
}

static void
end(void)
{
    generations_free(&g);
}

/* The slot alone is in a new generation. */
static void
another_generation(uint64_t number, uint64_t version)
{
    struct slot_range one = {SLOT, SLOT};
    struct generation_entry e = {.number = number, .origin = 77, .since_us = 1500, .version = version, .range = &one,
                                 .ranges_n = 1};

    anchors_answer(version, &e);
}

static uint64_t
reported(void)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < ANCHORS; i++) {
        uint64_t n = generations_message(g, i, 0)->reclaimed;

        least = n < least ? n : least;
    }
    return least;
}

/* An operation about a lock that this daemon may hold, in a slot that it has not used since its start. */
START_TEST(a_held_lock_in_a_slot_that_has_its_generation)
{
    ck_assert_uint_eq(reported(), 1);
    generations_restore(g, SLOT, 0);
    ck_assert_uint_eq(new_number, 100); /* the core reclaims it */
    ck_assert_uint_eq(reported(), 0);
    generations_restore(g, SLOT, 0);
    generations_reclaimed(g, SLOT, 100);
    ck_assert_uint_eq(reported(), 1);
}
END_TEST

START_TEST(such_a_slot_leaves_its_generation)
{
    generations_restore(g, SLOT, 0);
    another_generation(200, 2);
    ck_assert_uint_eq(new_number, 200);
    ck_assert_uint_eq(reported(), 0);
    generations_reclaimed(g, SLOT, 200);
    anchors_answer(2, NULL);
    ck_assert_uint_eq(reported(), 2);
    another_generation(300, 3);
    generations_reclaimed(g, SLOT, 300);
    ck_assert_uint_eq(reported(), 3);
}
END_TEST

/* Nothing is held there: there is nothing to reclaim. */
START_TEST(a_first_request_in_a_slot)
{
    struct slot_state state;

    generations_slot(g, SLOT, 0, now_us, &state);
    ck_assert_uint_eq(new_number, 100);
    ck_assert_uint_eq(reported(), 1);
    another_generation(200, 2);
    ck_assert_uint_eq(reported(), 1);
    generations_reclaimed(g, SLOT, 200);
    ck_assert_uint_eq(reported(), 2);
}
END_TEST

/* What is due at that time is sent, and refused; how many record scripts there were. */
static unsigned
refused_records(int64_t at_us)
{
    struct generation_send send;
    unsigned n = 0;

    for (unsigned i = 0; i < 1000; i++) {
        generations_next(g, at_us, &send);
        if (send.type == SEND_NOTHING) {
            return n;
        }
        if (send.type == SEND_RECORD) {
            n++;
            generations_record_answered(g, send.slot, NULL);
        } else if (send.type == SEND_REGISTER) {
            struct anchor_answer a = {.time_us = at_us, .status = ANCHOR_VOTES, .birth = 5, .version = 1, .done = 1};
            enum slot_bit bit[BITS_MAX] = {SLOT_BIT_WAS_CLEAR};

            a.bit = bit;
            a.bits_n = generations_message(g, send.anchor, 0)->slots_n;
            generations_anchor_answered(g, send.anchor, &a, at_us, at_us);
        }
    }
    ck_abort_msg("it never rests");
    return 0;
}

/* An ACL, a full Redis, a script that runs for long. */
START_TEST(a_record_that_is_refused_is_sent_again_after_a_pause)
{
    struct slot_state state;
    int64_t until_us = now_us + 20 * US_PER_S;
    unsigned n = 0;

    generations_slot(g, SLOT, 0, now_us, &state);
    for (; now_us < until_us; now_us += 10 * US_PER_MS) {
        n += refused_records(now_us);
    }
    ck_assert_uint_ge(n, 10);
    ck_assert_uint_le(n, 20);
}
END_TEST

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Two hundred daemons begin a generation of the same data: 12 random bits would give some of them one number. */
START_TEST(numbers_of_daemons_differ)
{
    enum { N = 200 };
    struct rng r = rng_of(1);
    uint64_t number[N];

    end();
    for (unsigned n = 0; n < N; n++) {
        struct slot_range all = {0, 16383};
        struct node_answer node = {.time_us = 2000, .master = true, .origin = 77, .config_epoch = 1, .range = &all,
                                   .ranges_n = 1, .id = "id"};
        const struct anchor_identity who = {.uuid = "u", .nonce = 1, .lease_us = 30 * US_PER_S};
        struct generation_send send;
        const struct anchor_message *m;

        g = generations_new(&who, rng_next(&r), on_news, NULL);
        ck_assert_uint_eq(generations_node(g, node.id), 0);
        ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
        anchors_answer(1, NULL);
        generations_next(g, now_us, &send);
        m = generations_message(g, 0, 0);
        ck_assert_uint_eq(m->begin_n, 1);
        number[n] = m->begin[0].number;
        ck_assert_uint_lt(number[n], 2000 + 2 * US_PER_S);
        if (n < N - 1) {
            end(); /* the last one is the fixture's */
        }
    }
    qsort(number, N, sizeof(number[0]), compare);
    for (unsigned n = 1; n < N; n++) {
        ck_assert_uint_ne(number[n - 1], number[n]);
    }
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {a_held_lock_in_a_slot_that_has_its_generation,
                                         such_a_slot_leaves_its_generation, a_first_request_in_a_slot,
                                         a_record_that_is_refused_is_sent_again_after_a_pause,
                                         numbers_of_daemons_differ};

    return suite_main_with("generation use", tests, sizeof(tests) / sizeof(tests[0]), begin, end);
}
