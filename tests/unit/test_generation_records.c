/*
 * test_generation_records.c -- the messages about a slot's record: refused, unanswered and unexpected answers.
 */
#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations.h"
#include "daemon/base/clock.h"
#include "suite.h"

#define SLOT 7
#define OTHER 100
#define TICK_US (10 * US_PER_MS)

static struct generations *g;
static int64_t now_us;
static unsigned sent_n;          /* messages about records */
static enum record_mode sent_mode; /* of the last one */
static unsigned proposed_n;      /* generations begun, in messages to the first anchor */

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    (void)news;
    (void)slot;
    (void)number;
}

/* Each anchor answers at once and votes; `first`: it names generation 100, and the bits of all records were clear. */
static void
register_at(unsigned anchor, bool first)
{
    static struct slot_range all = {0, 16383};
    struct generation_entry e = {.number = 100, .origin = 77, .since_us = 1000, .version = 1, .range = &all,
                                 .ranges_n = 1};
    enum slot_bit clear = SLOT_BIT_WAS_CLEAR;
    const struct anchor_message *m = generations_message(g, anchor, 0);
    struct anchor_answer a = {.time_us = now_us, .status = ANCHOR_VOTES, .birth = 5, .version = 1, .done = 0,
                              .longest_us = 30 * US_PER_S, .entry = &e, .entries_n = first, .bit = &clear,
                              .bits_n = m->slots_n};

    ck_assert_uint_le(m->slots_n, 1);
    proposed_n += anchor == 0 && m->generations_n > 0;
    generations_anchor_answered(g, anchor, &a, now_us, now_us + US_PER_MS);
}

static void
node_answers(void)
{
    struct slot_range all = {0, 16383};
    struct node_answer node = {.time_us = 2000, .master = true, .origin = 77, .config_epoch = 1, .range = &all,
                               .ranges_n = 1, .id = "id"};

    ck_assert(generations_node_answered(g, 0, &node, now_us, now_us));
}

/* Answers all messages at once, those about records with `answer`. */
static void
run_for(int64_t us, const struct record_answer *answer)
{
    for (int64_t end_us = now_us + us; now_us < end_us; now_us += TICK_US) {
        struct generation_send s;
        struct slot_state state;

        generations_slot_state(g, SLOT, 0, now_us, &state);
        for (generations_next(g, now_us, &s); s.type != SEND_NOTHING; generations_next(g, now_us, &s)) {
            if (s.type == SEND_REGISTER) {
                register_at(s.anchor, false);
            } else if (s.type == SEND_NODE) {
                node_answers();
            } else {
                sent_mode = s.mode;
                ck_assert_uint_lt(sent_n++, 1000);
                generations_record_answered(g, &s, answer);
            }
        }
    }
}

/* The slot's bit is clear: this daemon has to create the record. */
static void
begin(void)
{
    static const char id[NODE_ID_ROOM] = "id";
    static const struct anchor_identity who = {.uuid = "u", .nonce = 1, .lease_us = 30 * US_PER_S};

    now_us = 1000 * US_PER_S;
    sent_n = proposed_n = 0;
    g = generations_new(&who, 1, on_news, NULL);
    ck_assert_uint_eq(generations_node_index(g, id), 0);
    node_answers();
    for (unsigned i = 0; i < ANCHORS; i++) {
        register_at(i, true);
    }
}

static void
end(void)
{
    generations_free(&g);
}

static const struct record_answer refused = {.refused = true};
static const struct record_answer reclaims = {.time_us = 1, .number = 100};

/* Each daemon retries for each slot of a node: so seldom that the node can stand it. */
START_TEST(a_failed_command_is_retried_seldom)
{
    run_for(10 * US_PER_S, _i == 0 ? NULL : &refused);
    ck_assert_uint_ge(sent_n, 5);
    ck_assert_uint_le(sent_n, 15);
}
END_TEST

/* The record may have been created, so it is read next; a record that is missing then counts as lost data. */
START_TEST(an_unanswered_command_may_have_run)
{
    run_for(10 * US_PER_S, NULL);
    ck_assert_int_eq(sent_mode, RECORD_MODE_READ);
}
END_TEST

/* A refused command has lost nothing: a record that is missing for that reason must not begin generations. */
START_TEST(a_refused_command_has_not_run)
{
    struct slot_state state;

    run_for(10 * US_PER_S, &refused);
    ck_assert_int_eq(sent_mode, RECORD_MODE_CREATE_RECLAIM);
    ck_assert_uint_eq(proposed_n, 0);
    run_for(3 * US_PER_S, &reclaims);
    ck_assert_int_eq(sent_mode, RECORD_MODE_CREATE_RECLAIM);
    generations_slot_state(g, SLOT, 0, now_us, &state);
    ck_assert_int_eq(state.may, SLOT_RECLAIMS);
}
END_TEST

/* After a good answer the first pause is short again. */
START_TEST(a_good_answer_ends_the_pauses)
{
    run_for(10 * US_PER_S, &refused);
    run_for(3 * US_PER_S, &reclaims);
    generations_record_differs(g, SLOT);
    sent_n = 0;
    run_for(US_PER_S / 2, &refused);
    ck_assert_uint_ge(sent_n, 3);
}
END_TEST

/*
 * Another daemon has let the record grant, so the generation has ended. But this daemon may lack the highest token of
 * the others: it does not grant before two anchors have answered the messages that it has sent since. These answers
 * need not name the generation as ended: perhaps that waits for this daemon, whose reclaims expect another record.
 */
START_TEST(a_record_that_grants_is_ahead_of_the_anchors)
{
    static const struct record_answer grants = {.time_us = 1, .number = 100, .grants = true};
    struct generation_send s;
    struct slot_state state;
    unsigned sent = 0;

    run_for(US_PER_S, &reclaims);
    now_us += 2 * US_PER_S;
    for (generations_next(g, now_us, &s); s.type != SEND_NOTHING; generations_next(g, now_us, &s)) {
        sent += s.type == SEND_REGISTER;
    }
    ck_assert_uint_eq(sent, ANCHORS);
    generations_record_differs(g, SLOT);
    generations_next(g, now_us, &s);
    ck_assert_int_eq(s.type, SEND_RECORD);
    generations_record_answered(g, &s, &grants);
    for (unsigned i = 0; i < ANCHORS; i++) {
        register_at(i, false); /* in flight */
    }
    now_us += TICK_US;
    for (unsigned n = 0; n < 4; n++) {
        generations_slot_state(g, SLOT, 0, now_us, &state);
        ck_assert_int_eq(state.may, n < 3 ? SLOT_WAITS : SLOT_GRANTS);
        if (n == 3) {
            break;
        }
        generations_next(g, now_us, &s);
        ck_assert_int_eq(s.type, SEND_REGISTER);
        if (n == 0) {
            generations_anchor_answered(g, s.anchor, NULL, now_us, now_us);
        } else {
            register_at(s.anchor, false);
        }
    }
    ck_assert_uint_eq(proposed_n, 0);
}
END_TEST

/*
 * The record of an open slot has to be spoiled; a daemon that does not know yet that the slot is open relies on that. A
 * node that redirects the command has no record.
 */
START_TEST(a_failed_command_to_spoil_is_sent_again)
{
    static const struct record_answer spoiled = {.time_us = 1, .number = 100, .spoiled = true};
    static const struct record_answer redirected = {.refused = true, .redirected = true};
    static const struct record_answer *const failures[] = {NULL, &refused}, *const ends[] = {&spoiled, &redirected};
    unsigned spoils = 0;

    run_for(US_PER_S, &reclaims);
    generations_slot_opened(g, SLOT, 0, now_us);
    for (int64_t end_us = now_us + 3 * US_PER_S; now_us < end_us; now_us += TICK_US) {
        struct generation_send s;

        generations_next(g, now_us, &s);
        ck_assert(s.type != SEND_RECORD || s.mode == RECORD_MODE_SPOIL);
        if (s.type == SEND_RECORD) {
            generations_record_answered(g, &s, ++spoils < 3 ? failures[_i % 2] : ends[_i / 2]);
        } else if (s.type == SEND_REGISTER) {
            register_at(s.anchor, false);
        } /* the node does not answer: the slot stays open */
    }
    ck_assert_uint_eq(spoils, 3);
}
END_TEST

/* The record was being read when the slot opened: that answer does not show that the record is spoiled. */
START_TEST(an_earlier_answer_spoils_no_record)
{
    static const struct record_answer grants = {.time_us = 1, .number = 100, .grants = true};
    struct generation_send read, s;
    unsigned spoils = 0;

    run_for(US_PER_S, &reclaims);
    generations_record_differs(g, SLOT);
    for (generations_next(g, now_us, &read); read.type != SEND_RECORD; generations_next(g, now_us, &read)) {
        ck_assert_int_ne(read.type, SEND_NOTHING);
    }
    generations_slot_opened(g, SLOT, 0, now_us);
    for (int64_t end_us = now_us + 3 * US_PER_S; now_us < end_us; now_us += TICK_US) {
        generations_next(g, now_us, &s);
        if (s.type == SEND_RECORD) {
            ck_assert_int_eq(s.mode, RECORD_MODE_SPOIL);
            if (++spoils == 1) {
                generations_record_answered(g, &read, &grants);
            }
            generations_record_answered(g, &s, NULL); /* the record may be as it was */
        } else if (s.type == SEND_REGISTER) {
            register_at(s.anchor, false);
        }
    }
    ck_assert_uint_gt(spoils, 1);
}
END_TEST

/* The slot has moved while its record was asked for: the former node has failed, and the new one is asked at once. */
START_TEST(a_failure_is_of_the_node_that_was_asked)
{
    static const char id[NODE_ID_ROOM] = "new";
    struct slot_range has = {OTHER, 16383};
    struct node_answer new = {.time_us = 2000, .master = true, .origin = 77, .config_epoch = 2, .range = &has,
                              .ranges_n = 1, .id = "new"};
    struct generation_send s;
    struct slot_state state;
    unsigned sent = 0;

    run_for(US_PER_S, &reclaims);
    generations_slot_state(g, OTHER, 0, now_us, &state);
    run_for(US_PER_S, &reclaims);
    ck_assert_uint_eq(generations_node_index(g, id), 1);
    ck_assert(generations_node_answered(g, 1, &new, now_us, now_us));
    generations_record_differs(g, SLOT);
    for (generations_next(g, now_us, &s); s.type != SEND_RECORD; generations_next(g, now_us, &s)) {
        ck_assert_int_ne(s.type, SEND_NOTHING);
    }
    has.first = SLOT;
    ck_assert(generations_node_answered(g, 1, &new, now_us, now_us));
    generations_record_answered(g, &s, _i == 0 ? NULL : &refused);
    generations_record_differs(g, OTHER);
    for (generations_next(g, now_us, &s); s.type != SEND_NOTHING; generations_next(g, now_us, &s)) {
        sent += s.type == SEND_RECORD && s.node == 1;
    }
    ck_assert_uint_eq(sent, 2);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("generation records");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, a_failed_command_is_retried_seldom, 0, 2);
    tcase_add_test(t, an_unanswered_command_may_have_run);
    tcase_add_test(t, an_earlier_answer_spoils_no_record);
    tcase_add_test(t, a_refused_command_has_not_run);
    tcase_add_test(t, a_good_answer_ends_the_pauses);
    tcase_add_test(t, a_record_that_grants_is_ahead_of_the_anchors);
    tcase_add_loop_test(t, a_failure_is_of_the_node_that_was_asked, 0, 2);
    tcase_add_loop_test(t, a_failed_command_to_spoil_is_sent_again, 0, 4);
    suite_add_tcase(s, t);
    return suite_run(s);
}
