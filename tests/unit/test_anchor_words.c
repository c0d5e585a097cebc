/*
 * test_anchor_words.c -- the words that the scripts of a cluster's grace receive, and the meaning of their answers. The
 * scripts are tested in tests/redis/test_scripts_anchor.py.
 */
#include "daemon/backend/anchor_words.h"

#include <stdio.h>
#include <string.h>

#include "suite.h"

enum { WORDS_MAX = 16 };

static struct {
    struct reply whole, one[WORDS_MAX], *item[WORDS_MAX];
} reported;

/* i: a number follows; t: a text. */
static const struct reply *
answer(const char *types, ...)
{
    va_list args;

    memset(&reported, 0, sizeof(reported));
    reported.whole = (struct reply){.type = REPLY_ARRAY, .item = reported.item};
    va_start(args, types);
    for (size_t i = 0; types[i] != '\0'; i++) {
        reported.item[i] = &reported.one[i];
        if (types[i] == 'i') {
            reported.one[i] = (struct reply){.type = REPLY_INT, .n = va_arg(args, int)};
        } else {
            reported.one[i] = (struct reply){.type = REPLY_TEXT, .text = slice_of(va_arg(args, const char *))};
        }
        reported.whole.count++;
    }
    va_end(args);
    return &reported.whole;
}

static bool
is_word(struct slice word, const char *text)
{
    return slice_eq(word, slice_of(text));
}

START_TEST(words_to_an_anchor)
{
    static const struct slot_range range[] = {{0, 5460}, {5462, 5462}};
    static const struct generation_entry begin = {
        .number = 12, .origin = 0xab, .since_us = 11, .range = range, .ranges_n = 2};
    static const uint64_t expected = 9, number[] = {12, 13}, owner[ANCHORS] = {5, 0, 6};
    static const uint16_t slot[] = {7, 16383};
    struct anchor_identity who = {.uuid = "u", .nonce = 1, .former_nonce = {2}, .lease_us = 30000000, .strict = true};
    struct anchor_message m = {.holds = true,
                               .birth = 3,
                               .version = 4,
                               .reclaimed = 5,
                               .suspect_us = 6,
                               .longest_us = 60000000,
                               .floor = 77,
                               .owner_epoch = owner,
                               .generation = &begin,
                               .expected = &expected,
                               .generations_n = 1,
                               .slot = slot,
                               .slot_number = number,
                               .slots_n = 2,
                               .lists = {SLICE_LIT("one"), SLICE_LIT("two")},
                               .lists_birth = 8,
                               .all_new = true};
    static const char *const texts[] = {"5", "rlock:{7ho}:seen", "rlock:{7ho}:who", "rlock:{7ho}:gen",
        "rlock:{7ho}:back", "rlock:{7ho}:used", "u", "0000000000000001",
        "0000000000000002 0000000000000000 0000000000000000 0000000000000000", "30000", "1", "0", "1", "0", "3", "4",
        "5", "6", "60000", "12 00000000000000ab 11 9 0-5460 5462\n", "7 12 16383 13", "8", "1", "one", "two", "77",
        "5 0 6"};
    struct slice word[ANCHOR_WORDS_MAX];
    struct buf text;
    int n;

    buf_init(&text, 0);
    n = anchor_words(1, &who, &m, &text, word);
    ck_assert(is_word(word[0], "EVAL"));
    ck_assert_int_eq(n, 2 + (int)(sizeof(texts) / sizeof(texts[0])));
    for (int i = 2; i < n; i++) {
        ck_assert_msg(is_word(word[i], texts[i - 2]), "word %d: %.*s", i, (int)word[i].n, word[i].p);
    }
    ck_assert_uint_eq(anchor_slot(1), 8191);
    buf_fini(&text);
}
END_TEST

START_TEST(words_of_an_anchor)
{
    struct anchor_answer a;

    ck_assert(anchor_answer_take(answer("iiiiiiiitttt", 1, 3, 1, 4, 5, 6, 7000, 8, "list", "012", "5 0 6",
                                        "12 00000000000000ab 11 5 0-5460 5462"), &a));
    ck_assert_int_eq(a.status, ANCHOR_WANTS_LISTS);
    ck_assert(a.is_new && a.birth == 4 && a.version == 5 && a.done == 6 && a.longest_us == 7000000 && a.floor == 8);
    ck_assert(a.owner_epoch[0] == 5 && a.owner_epoch[1] == 0 && a.owner_epoch[2] == 6);
    ck_assert(a.bits_n == 3 && a.bit[0] == SLOT_BIT_WAS_CLEAR && a.bit[2] == SLOT_BIT_OTHER);
    ck_assert(is_word(a.list, "list") && a.entries_n == 1);
    ck_assert(a.entry[0].number == 12 && a.entry[0].origin == 0xab && a.entry[0].since_us == 11);
    ck_assert(a.entry[0].version == 5 && a.entry[0].ranges_n == 2);
    ck_assert(a.entry[0].range[0].last == 5460 && a.entry[0].range[1].first == 5462);
    anchor_answer_free(&a);
}
END_TEST

/* A malformed answer is refused as a whole, and leaks no memory. */
START_TEST(malformed_answers_are_refused)
{
    static const char *const bad[] = {"", "x", "12", "12 ab 11 5 7-3", "12 ab 11 5 3 3", "12 ab 11 5 0-16384",
        "0 ab 11 5 0", "12 ab 11 0 0", "12 zz 11 5 0", "12 ab 11 5 0-", "12 ab 11 5 9 1-2",
        "4503599627370496 ab 11 5 0", "99999999999999999999 ab 11 5 0"};
    struct anchor_answer a;
    struct node_answer n;
    struct record_answer r;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!anchor_answer_take(answer("iiiiiiiitttt", 1, 1, 0, 4, 5, 6, 7, 8, "", "", "1 2 3", bad[i]), &a),
                      "%s", bad[i]);
    }
    ck_assert(!anchor_answer_take(answer("iiiiiiiittt", 1, 1, 0, 4, 5, 6, 7, 8, "", "3", "1 2 3"), &a));
    ck_assert(!anchor_answer_take(answer("iiiiiiiittt", 1, 9, 0, 4, 5, 6, 7, 8, "", "", "1 2 3"), &a));
    ck_assert(!anchor_answer_take(answer("iiiiiiiitt", 1, 1, 0, 4, 5, 6, 7, 8, "", ""), &a));
    ck_assert(!anchor_answer_take(answer("iiiiiiiittt", 1, 1, 0, 4, 5, 6, 7, 8, "", "", "1 2"), &a));
    (void)answer("iiiiiiiittt", 1, 1, 0, 4, 5, 6, 7, 8, "", "", "1 2 3");
    reported.one[6].n = INT64_MAX; /* in us it would overflow */
    ck_assert(!anchor_answer_take(&reported.whole, &a));
    ck_assert(!node_answer_take(answer("ittti" "tt", 1, "master", "ab", "id", 5, "0-", ""), &n));
    ck_assert(!node_answer_take(answer("ittti" "tt", 1, "master", "ab", "id", 5, "0-9", "16384"), &n));
    ck_assert(!node_answer_take(answer("ittti" "tt", 1, "master", "", "id", 5, "0-9", ""), &n));
    ck_assert(!record_answer_take(answer("it", 1, "x"), &r));
}
END_TEST

/* The generation after these numbers would have a number that anchors and records cannot keep. */
START_TEST(a_number_that_leaves_no_room_for_later_ones)
{
    struct node_answer n;
    struct record_answer r;

    for (int past = 0; past < 2; past++) {
        (void)answer("iii", 1, 0, 1);
        reported.one[1].n = (INT64_C(1) << 52) - 1 + past;
        ck_assert_int_eq(record_answer_take(&reported.whole, &r), !past);
        (void)answer("ittti" "tt", 0, "master", "ff", "id", 5, "", "");
        reported.one[0].n = (INT64_C(1) << 52) - 1 + past;
        ck_assert_int_eq(node_answer_take(&reported.whole, &n), !past);
        if (!past) {
            node_answer_free(&n);
        }
    }
}
END_TEST

START_TEST(words_of_a_node_and_of_a_record)
{
    static const struct reply moved = {.type = REPLY_ERROR, .text = SLICE_LIT("MOVED 7 h:6379")};
    static const struct reply busy = {.type = REPLY_ERROR, .text = SLICE_LIT("BUSY a script runs")};
    struct node_answer n;
    struct record_answer r;
    struct slice word[8];
    struct buf text;
    char key[RECORD_KEY_ROOM], w[32];

    ck_assert(node_answer_take(answer("ittti" "tt", 1, "slave", "ff", "id", 5, "", ""), &n));
    ck_assert(!n.master && n.ranges_n == 0 && n.open_n == 0);
    node_answer_free(&n);
    ck_assert(node_answer_take(answer("ittti" "tt", 1, "master", "ff", "id", 5, "0-9 16383", "3 7"), &n));
    ck_assert(n.master && n.origin == 0xff && n.config_epoch == 5 && n.ranges_n == 2 && n.open_n == 2);
    ck_assert_str_eq(n.id, "id");
    ck_assert_uint_eq(n.open[1], 7);
    node_answer_free(&n);
    buf_init(&text, 0);
    record_key("a1", key);
    ck_assert_int_eq(record_words(slice_of(key), 9, RECORD_MODE_SPOIL, &text, word), 6);
    ck_assert(is_word(word[3], "rlock:{a1}:epoch") && is_word(word[4], "9") && is_word(word[5], "spoil"));
    buf_fini(&text);
    record_value(9, true, w);
    ck_assert_str_eq(w, "9 0");
    record_value(9, false, w);
    ck_assert_str_eq(w, "9 0 0");
    ck_assert(record_answer_take(answer("iii", 1, 9, 2), &r) && r.number == 9 && r.spoiled && !r.grants);
    ck_assert(record_answer_take(answer("iii", 1, 9, 1), &r) && r.grants);
    ck_assert(record_answer_take(&moved, &r) && r.refused && r.redirected);
    ck_assert(record_answer_take(&busy, &r) && r.refused && !r.redirected);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {words_to_an_anchor, words_of_an_anchor, malformed_answers_are_refused,
                                  a_number_that_leaves_no_room_for_later_ones, words_of_a_node_and_of_a_record};

    return suite_main("anchor words", tests, sizeof(tests) / sizeof(tests[0]));
}
