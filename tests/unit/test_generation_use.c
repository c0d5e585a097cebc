/*
 * test_generation_use.c -- the reports of a daemon to the anchors about slots that it begins to use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generation_slots.h"
#include "daemon/backend/generations.h"
#include "daemon/base/clock.h"
#include "rng.h"
#include "suite.h"

#define SLOT 7

static struct generations *g;
static int64_t now_us;
static uint64_t new_number; /* the last number that was news for the slot as new */
static unsigned asks_n;     /* how often the news was to call generations_slot_state() again */

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    if (news == GENERATION_NEW && slot == SLOT) {
        new_number = number;
    }
    asks_n += news == GENERATION_ASK_AGAIN && slot == SLOT;
}

/* An anchor answers with its version, and with the generation that it has begun, if that is new. */
static void
anchor_answers(unsigned i, uint64_t version, struct generation_entry *e)
{
    struct anchor_answer a = {.time_us = now_us, .status = ANCHOR_VOTES, .birth = 5, .version = version,
                              .done = version, .longest_us = 30 * US_PER_S, .entry = e, .entries_n = e != NULL};

    (void)generations_message(g, i, 0);
    generations_anchor_answered(g, i, &a, now_us, now_us + US_PER_MS);
}

static void
anchors_answer(uint64_t version, struct generation_entry *e)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        anchor_answers(i, version, e);
    }
    now_us += 100 * US_PER_MS;
}

/* A node owns all slots, in generation 100. */
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
    ck_assert_uint_eq(generations_node_index(g, node.id), 0);
    ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
    anchors_answer(1, &e);
    anchors_answer(1, NULL);
}

static void
end(void)
{
    generations_free(&g);
}

/* A new generation of this slot alone. */
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

/* A request about a lock that this daemon may hold, in a slot that it has not used since its start. */
START_TEST(a_held_lock_in_a_slot_that_has_its_generation)
{
    ck_assert_uint_eq(reported(), 1);
    generations_restore(g, SLOT);
    ck_assert_uint_eq(new_number, 100); /* the core reclaims it */
    ck_assert_uint_eq(reported(), 0);
    generations_restore(g, SLOT);
    generations_reclaimed(g, SLOT, 100);
    ck_assert_uint_eq(reported(), 1);
}
END_TEST

START_TEST(a_used_slot_leaves_its_generation)
{
    generations_restore(g, SLOT);
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

/* The daemon holds no lock in the slot: it has nothing to reclaim. */
START_TEST(a_first_request_in_a_slot)
{
    struct slot_state state;

    generations_slot_state(g, SLOT, 0, now_us, &state);
    ck_assert_uint_eq(new_number, 100);
    ck_assert_uint_eq(reported(), 1);
    another_generation(200, 2);
    ck_assert_uint_eq(reported(), 1);
    generations_reclaimed(g, SLOT, 200);
    ck_assert_uint_eq(reported(), 2);
}
END_TEST

/* While only one anchor names the generation, the daemon does not ask for the slot's bit; with the second it does. */
START_TEST(one_anchor_names_a_generation)
{
    struct slot_range one = {SLOT, SLOT};
    struct generation_entry e = {.number = 200, .origin = 77, .since_us = 1500, .version = 2, .range = &one,
                                 .ranges_n = 1};
    struct generation_send send;
    struct slot_state state;

    generations_slot_state(g, SLOT, 0, now_us, &state);
    for (int named = 1; named <= 2; named++) {
        asks_n = 0;
        anchor_answers((unsigned)named - 1, 2, &e);
        ck_assert_uint_eq(asks_n, named == 2);
        generations_slot_state(g, SLOT, 0, now_us, &state);
        ck_assert_uint_eq(state.number, 200);
        generations_next(g, now_us, &send);
        ck_assert_uint_eq(generations_message(g, 0, 0)->slots_n, named == 2);
    }
}
END_TEST

/* The daemon that has begun it names it to the other anchors, first; so another daemon does so only after some time. */
START_TEST(a_generation_is_not_forwarded_at_once)
{
    struct slot_range one = {SLOT, SLOT};
    struct generation_entry e = {.number = 200, .origin = 77, .since_us = 1500, .version = 2, .range = &one,
                                 .ranges_n = 1};

    anchor_answers(0, 2, &e);
    for (int tick = 0; tick < 3; tick++) {
        now_us += 100 * US_PER_MS;
        ck_assert_uint_eq(generations_message(g, 1, 0)->generations_n, 0);
        anchor_answers(1, 1, NULL);
    }
    ck_assert_uint_eq(generations_message(g, 1, 0)->generations_n, 1);
    ck_assert_uint_eq(generations_message(g, 1, 0)->expected[0], 0);
}
END_TEST

/* Sends what is due at that time, and has it refused; returns the number of messages about records. */
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
            generations_record_answered(g, &send, NULL);
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

/* Then the daemon asks for the map: no call would be redirected, as none is sent to the former node. */
START_TEST(a_used_slot_that_leaves_its_node)
{
    struct slot_range most[] = {{0, SLOT - 1}, {SLOT + 2, 16383}};
    struct node_answer node = {.time_us = 3000, .master = true, .origin = 77, .config_epoch = 1, .range = most,
                               .ranges_n = 1, .id = "id"};

    generations_restore(g, SLOT);
    (void)generations_slots_moved(g);
    node.range = &(struct slot_range){0, 16383};
    ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
    ck_assert(!generations_slots_moved(g));
    node.range = &(struct slot_range){0, SLOT};
    ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
    ck_assert(!generations_slots_moved(g)); /* slots other than the used one */
    node.range = most;
    ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
    ck_assert(generations_slots_moved(g));
    ck_assert(!generations_slots_moved(g));
}
END_TEST

/*
 * Masters have clocks of their own: the tokens of the fastest one must not carry those of the others ahead of the time.
 */
START_TEST(a_token_counts_in_its_slot_until_a_generation_ends)
{
    generations_token(g, SLOT + 1, 9000);
    generations_token(g, SLOT, 5000);
    ck_assert_uint_eq(generations_floor(g, SLOT), 5000);
    ck_assert_uint_eq(generations_floor(g, SLOT + 1), 9000);
    ck_assert_uint_eq(generations_message(g, 0, 0)->floor, 9000);
    generations_restore(g, SLOT);
    another_generation(200, 2);
    ck_assert_uint_eq(generations_floor(g, SLOT), 9000); /* any master may have had the slot meanwhile */
    generations_reclaimed(g, SLOT, 200);
    anchors_answer(2, NULL);
    generations_token(g, SLOT + 1, 9999);
    ck_assert_uint_eq(generations_floor(g, SLOT), 9000);
}
END_TEST

/* Causes: an ACL, a full Redis, a script that runs for long. */
START_TEST(a_record_that_is_refused_is_sent_again_after_a_pause)
{
    struct slot_state state;
    int64_t until_us = now_us + 20 * US_PER_S;
    unsigned n = 0;

    generations_slot_state(g, SLOT, 0, now_us, &state);
    for (; now_us < until_us; now_us += 10 * US_PER_MS) {
        n += refused_records(now_us);
    }
    ck_assert_uint_ge(n, 10);
    ck_assert_uint_le(n, 20);
}
END_TEST

/*
 * Locks were granted after registrations at two anchors. These anchors are former masters by now, so the registrations
 * no longer count; but the daemon holds the locks until the bound, and an anchor without data has to learn that.
 */
START_TEST(registrations_that_count_no_more_have_granted_locks)
{
    struct anchor_answer a = {.time_us = now_us, .status = ANCHOR_VOTES, .birth = 5, .version = 1, .done = 1,
                              .owner_epoch = {99, 99, 0}};

    ck_assert(generations_message(g, 0, 0)->holds);
    generations_anchor_answered(g, 2, &a, now_us, now_us + US_PER_MS);
    ck_assert_int_gt(generations_bound_us(g), now_us);
    ck_assert(generations_message(g, 0, 0)->holds);
}
END_TEST

/* Of 512 nodes that have come and gone, the topology keeps a connection to one: no newcomer gets its index. */
START_TEST(an_index_in_use_is_given_to_no_other_node)
{
    char id[NODE_ID_ROOM];
    uint16_t kept = GENERATION_NODES_MAX;

    for (unsigned i = 1; i < 2 * GENERATION_NODES_MAX; i++) {
        uint16_t node;

        snprintf(id, sizeof(id), "%040u", i);
        node = generations_node_index(g, id);
        ck_assert_uint_lt(node, GENERATION_NODES_MAX);
        ck_assert_uint_ne(node, kept);
        if (i == 1) {
            generations_node_keep(g, kept = node, true);
        }
    }
    generations_node_keep(g, kept, false);
    snprintf(id, sizeof(id), "%040u", 0);
    ck_assert_uint_eq(generations_node_index(g, id), kept);
}
END_TEST

/* The longest lease is the longest of the latest answers; if one anchor has lost it, another may still have it. */
START_TEST(the_longest_lease_is_known_from_the_anchors)
{
    int64_t lease_us[ANCHORS] = {0, 60 * US_PER_S, 90 * US_PER_S};

    for (unsigned i = 0; i < 4; i++) {
        for (unsigned k = 0; k < ANCHORS; k++) {
            struct anchor_answer a = {.time_us = now_us, .status = ANCHOR_VOTES, .birth = 5, .version = 1, .done = 1,
                                      .longest_us = lease_us[k]};

            generations_anchor_answered(g, k, &a, now_us, now_us + US_PER_MS);
        }
        ck_assert_int_eq(generations_message(g, i % ANCHORS, 0)->longest_us,
                         (i == 0 ? 90 : i == 1 ? 60 : 30) * US_PER_S);
        lease_us[2 - i % ANCHORS] = 0;
    }
    generations_set_lease(g, 40 * US_PER_S);
    ck_assert_int_eq(generations_message(g, 0, 0)->longest_us, 40 * US_PER_S);
}
END_TEST

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/*
 * Two hundred daemons begin a generation of the same data: with 12 random bits some of them would have the same number.
 */
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
        ck_assert_uint_eq(generations_node_index(g, node.id), 0);
        ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
        anchors_answer(1, NULL);
        for (int i = 0; i < 2; i++) { /* the daemon waits, and asks an anchor */
            generations_next(g, now_us, &send);
            anchors_answer(1, NULL);
        }
        generations_next(g, now_us, &send);
        m = generations_message(g, 0, 0);
        ck_assert_uint_eq(m->generations_n, 1);
        number[n] = m->generation[0].number;
        ck_assert_uint_lt(number[n], 2000 + 2 * US_PER_S);
        if (n < N - 1) {
            end(); /* the fixture frees the last one */
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
    const TTest *const tests[] = {a_held_lock_in_a_slot_that_has_its_generation, a_used_slot_leaves_its_generation,
                                  a_first_request_in_a_slot, a_used_slot_that_leaves_its_node,
                                  a_token_counts_in_its_slot_until_a_generation_ends, one_anchor_names_a_generation,
                                  a_generation_is_not_forwarded_at_once,
                                  a_record_that_is_refused_is_sent_again_after_a_pause,
                                  the_longest_lease_is_known_from_the_anchors,
                                  an_index_in_use_is_given_to_no_other_node,
                                  registrations_that_count_no_more_have_granted_locks, numbers_of_daemons_differ};

    return suite_main_with("generation use", tests, sizeof(tests) / sizeof(tests[0]), begin, end);
}
