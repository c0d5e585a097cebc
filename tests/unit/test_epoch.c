/*
 * test_epoch.c -- what the presence script is told, and what each of its answers means. The script itself is tried in
 * tests/redis/test_scripts_presence.py.
 */
#include "daemon/backend/epoch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64"
#define OPEN "1700000000000000 0123456789abcdef"

enum { TOLD_MAX = 300 };

/* An answer that is made here, element by element. */
static struct {
    struct reply whole, one[TOLD_MAX], *item[TOLD_MAX];
    char text[TOLD_MAX][64];
} told;

static void
begin_answer(void)
{
    memset(&told, 0, sizeof(told));
    told.whole.type = REPLY_ARRAY;
    told.whole.item = told.item;
}

static void
put_number(int64_t n)
{
    size_t i = told.whole.count++;

    told.one[i] = (struct reply){.type = REPLY_INT, .n = n};
    told.item[i] = &told.one[i];
}

static void
put_text(const char *text)
{
    size_t i = told.whole.count++;

    snprintf(told.text[i], sizeof(told.text[i]), "%s", text);
    told.one[i] = (struct reply){.type = REPLY_TEXT, .text = slice_of(told.text[i])};
    told.item[i] = &told.one[i];
}

/* The answer of a Redis in that epoch; its word is OPEN. */
static enum epoch_news
answers(struct epoch *e, int64_t status, int64_t number, int64_t until_ms, const char *const *others)
{
    begin_answer();
    put_number(1700000000000001);
    put_number(status);
    put_number(number);
    put_number(until_ms);
    put_text(OPEN);
    for (; others != NULL && *others != NULL; others++) {
        put_text(*others);
    }
    return epoch_answer(e, &told.whole);
}

static const char *const a_b[] = {"aaaaaaaa-1c2d-4e3f-8a9b-726c6f636b64", "bbbbbbbb-1c2d-4e3f-8a9b-726c6f636b64", NULL};
static const char *const b_c[] = {"bbbbbbbb-1c2d-4e3f-8a9b-726c6f636b64", "cccccccc-1c2d-4e3f-8a9b-726c6f636b64", NULL};

static struct epoch
ours(void)
{
    return (struct epoch){.uuid = US, .nonce = 0x12, .former = {0xabcdef}, .grace_us = 30000000, .channel = "here"};
}

/* ---- words ---- */

static void
expect_words(const struct epoch *e, uint64_t floor, const char *const *want)
{
    static struct slice word[EPOCH_WORDS_MAX];
    struct buf text;
    int n, i;

    buf_init(&text, 0);
    n = epoch_words(e, floor, &text, word);
    ck_assert(!text.failed);
    ck_assert(slice_is(word[0], "EVAL") && word[1].n > 1000);
    for (i = 2; i < n && want[i - 2] != NULL; i++) {
        ck_assert_msg(slice_is(word[i], want[i - 2]), "word %d is %.*s, not %s", i, (int)word[i].n, word[i].p,
                      want[i - 2]);
    }
    ck_assert_msg(i == n && want[i - 2] == NULL, "%d words", n);
    buf_fini(&text);
}

#define KEYS_WORDS "4", "rlock:clock", "rlock:epoch", "rlock:daemons", "rlock:absent", US
#define NO_NONCE " 0000000000000000"
#define NONCES "0000000000000012", "0000000000abcdef" NO_NONCE NO_NONCE NO_NONCE

START_TEST(the_words)
{
    struct epoch e = ours();
    const char *const first[] = {KEYS_WORDS, NONCES, "0", "0", "30000", "2000", "0", "77", "0", "0", "here", NULL};
    const char *const later[] = {KEYS_WORDS, NONCES, "1700000000000000", "1699999999999999", "30000", "2000", "1", "77",
                                 "1",        "1",    "here", a_b[0], a_b[1], NULL};

    expect_words(&e, 77, first);
    ck_assert_int_eq(answers(&e, 1, 1700000000000000, 0, a_b), EPOCH_NEW);
    e.reclaimed = 1699999999999999;
    e.strict = e.leaving = e.rolled_back = true;
    expect_words(&e, 77, later);
}
END_TEST

START_TEST(as_many_others_as_there_is_room_for)
{
    struct epoch e = ours();
    static struct slice word[EPOCH_WORDS_MAX];
    struct buf text;
    char uuid[64];

    begin_answer();
    put_number(1);
    put_number(1);
    put_number(5);
    put_number(0);
    put_text(OPEN);
    for (int i = 0; i < 290; i++) {
        snprintf(uuid, sizeof(uuid), "%08x-1c2d-4e3f-8a9b-726c6f636b64", i);
        put_text(uuid);
    }
    ck_assert_int_eq(epoch_answer(&e, &told.whole), EPOCH_NEW);
    ck_assert_uint_eq(e.peers_n, EPOCH_PEERS_MAX);
    buf_init(&text, 0);
    ck_assert_int_le(epoch_words(&e, UINT64_C(1) << 53, &text, word), EPOCH_WORDS_MAX);
    buf_fini(&text);
}
END_TEST

/* ---- answers ---- */

START_TEST(a_life)
{
    struct epoch e = ours();

    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_NEW); /* the first */
    ck_assert_uint_eq(e.number, 5);
    ck_assert_str_eq(e.open, OPEN);
    ck_assert_str_eq(e.now, OPEN);
    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 8, 9000, NULL), EPOCH_NEW);
    ck_assert_int_eq(e.until_ms, 9000);
    ck_assert_str_eq(e.open, OPEN);
    ck_assert_str_eq(e.now, OPEN " 9000");
    ck_assert_int_eq(answers(&e, 1, 8, 9000, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 8, 0, NULL), EPOCH_OVER);
    ck_assert_str_eq(e.now, OPEN);
    ck_assert_int_eq(answers(&e, 1, 8, 0, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 9, 0, NULL), EPOCH_NEW); /* its grace was over before we came */
    ck_assert_int_eq(answers(&e, 1, 9, 100, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 10, 0, NULL), EPOCH_NEW); /* one grace ends where another epoch begins */
}
END_TEST

/* Until somebody says an epoch that counts. */
START_TEST(rolled_back)
{
    struct epoch e = ours();

    answers(&e, 1, 5, 0, NULL);
    e.rolled_back = true;
    ck_assert_int_eq(answers(&e, 1, 4, 0, NULL), EPOCH_OLD);
    ck_assert(e.rolled_back);
    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_SAME); /* there it is again */
    ck_assert(!e.rolled_back);
    e.rolled_back = true;
    ck_assert_int_eq(answers(&e, 1, 6, 900, NULL), EPOCH_NEW);
    ck_assert(!e.rolled_back);
}
END_TEST

/* A number that no Redis can outdo any more counts for nothing. */
START_TEST(too_far)
{
    struct epoch e = ours();

    ck_assert_int_eq(answers(&e, 1, (int64_t)EPOCH_FAR, 0, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 5, 900, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 4, 0, NULL), EPOCH_OLD);
}
END_TEST

/*
 * In a grace those that were known before stay: it is they who may hold locks. Behind it those are there that Redis
 * names.
 */
START_TEST(others_are_kept_in_a_grace)
{
    struct epoch e = ours();

    answers(&e, 1, 5, 0, a_b);
    ck_assert_uint_eq(e.peers_n, 2);
    answers(&e, 1, 5, 0, NULL);
    ck_assert_uint_eq(e.peers_n, 0);
    answers(&e, 1, 5, 0, a_b);
    answers(&e, 1, 6, 900, b_c);
    ck_assert_uint_eq(e.peers_n, 3);
    ck_assert_str_eq(e.peer[0], a_b[0]);
    ck_assert_str_eq(e.peer[2], b_c[1]);
    answers(&e, 1, 6, 900, b_c);
    ck_assert_uint_eq(e.peers_n, 3);
    answers(&e, 1, 6, 0, b_c);
    ck_assert_uint_eq(e.peers_n, 2);
    ck_assert_str_eq(e.peer[0], b_c[0]);
}
END_TEST

/* A process that knows only that there were others: not who they are, before a grace is over. */
START_TEST(members_unknown)
{
    struct epoch e = ours();
    const char *const b[] = {a_b[1], NULL};
    const char *const words[] = {KEYS_WORDS, NONCES, "6", "0", "30000", "2000", "0", "0", "0", "0", "here", "?",
                                 "!900", a_b[1], NULL};

    e.members_unknown = true;
    ck_assert_int_eq(answers(&e, 1, 5, 900, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 6, 900, b), EPOCH_NEW); /* lost again */
    expect_words(&e, 0, words);
    ck_assert_int_eq(answers(&e, 1, 6, 0, b), EPOCH_OVER);
    ck_assert(!e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 7, 900, b), EPOCH_NEW);
    ck_assert(!e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 7, 900, b), EPOCH_SAME);
    ck_assert(!e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 8, 900, b), EPOCH_NEW); /* cut off: Redis may forget that once more */
    ck_assert(e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 8, 0, b), EPOCH_OVER);
    ck_assert(!e.members_unknown);
    e.members_unknown = true;
    ck_assert_int_eq(answers(&e, 1, 8, 0, b), EPOCH_SAME); /* nothing is lost that could tell of others */
    ck_assert(!e.members_unknown);
}
END_TEST

/* Nobody else is known, and nothing was reported as reclaimed: others may have come back unheard all the same. */
START_TEST(alone_and_cut_off)
{
    struct epoch e = ours();
    const char *const words[] = {KEYS_WORDS, NONCES, "7", "0", "30000", "2000", "0", "0", "0", "0", "here", "?",
                                 "!900", NULL};
    const char *const before[] = {KEYS_WORDS, NONCES, "6", "0", "30000", "2000", "0", "0", "0", "0", "here", "!900",
                                  NULL};

    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 6, 900, NULL), EPOCH_NEW);
    ck_assert(!e.members_unknown);
    expect_words(&e, 0, before);
    ck_assert_int_eq(answers(&e, 1, 7, 900, NULL), EPOCH_NEW);
    ck_assert(e.members_unknown);
    expect_words(&e, 0, words);
}
END_TEST

/* What Redis says of another daemon's grace is said back as it was last. */
START_TEST(how_long_a_grace_others_need)
{
    struct epoch e = ours();
    char longer[64], shorter[64];
    const char *const first[] = {longer, a_b[1], NULL}, *const later[] = {shorter, NULL};
    const char *const words[] = {KEYS_WORDS, NONCES, "1999", "0", "30000", "2000", "0", "0", "0", "0", "here", "!899",
                                 shorter, a_b[1], NULL};

    snprintf(longer, sizeof(longer), "%s 86400000", a_b[0]);
    snprintf(shorter, sizeof(shorter), "%s 3000", a_b[0]);
    ck_assert_int_eq(answers(&e, 1, 5, 0, first), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 6, 900, later), EPOCH_NEW);
    e.number = 1999; /* us: so long the grace is to last since then */
    expect_words(&e, 0, words);
}
END_TEST

/* Whatever is refused changes nothing. */
START_TEST(refused)
{
    struct epoch e = ours(), was;

    answers(&e, 1, 5, 900, a_b);
    memcpy(&was, &e, sizeof(e));
    ck_assert_int_eq(answers(&e, 1, 4, 0, b_c), EPOCH_OLD);
    ck_assert_int_eq(answers(&e, 2, 0, 0, NULL), EPOCH_DUPLICATE_UUID);
    ck_assert_int_eq(answers(&e, 2, 9, 0, b_c), EPOCH_DUPLICATE_UUID);
    ck_assert_int_eq(answers(&e, 0, 9, 0, b_c), EPOCH_BROKEN);
    ck_assert_int_eq(answers(&e, 3, 9, 0, b_c), EPOCH_BROKEN);
    ck_assert_int_eq(answers(&e, 1, 0, 0, b_c), EPOCH_BROKEN);
    ck_assert_int_eq(answers(&e, 1, -1, 0, b_c), EPOCH_BROKEN);
    ck_assert_int_eq(answers(&e, 1, 9, -1, b_c), EPOCH_BROKEN);
    ck_assert_int_eq(memcmp(&was, &e, sizeof(e)), 0);
}
END_TEST

START_TEST(malformed)
{
#define U "aaaaaaaa-1c2d-4e3f-8a9b-726c6f636b64"
    static const char *const spoilt[] = {"",      "aaaaaaaa-1c2d-4e3f-8a9b-726c6f636b6",
                                         U "4",   U " ",
                                         U "x12", U " 12 ",
                                         U " -1", U " 1234567890123456789",
                                         U " 1x", U " 1:"};
    struct epoch e = ours(), was;

    answers(&e, 1, 5, 900, a_b);
    memcpy(&was, &e, sizeof(e));
    for (size_t i = 0; i < 5; i++) {
        answers(&e, 2, 9, 0, NULL);
        told.one[i].type = told.one[i].type == REPLY_INT ? REPLY_TEXT : REPLY_INT;
        ck_assert_int_eq(epoch_answer(&e, &told.whole), EPOCH_BROKEN);
        answers(&e, 2, 9, 0, NULL);
        told.whole.count = i; /* too short */
        ck_assert_int_eq(epoch_answer(&e, &told.whole), EPOCH_BROKEN);
        answers(&e, 2, 9, 0, NULL);
        told.one[i].type = REPLY_NULL;
        ck_assert_int_eq(epoch_answer(&e, &told.whole), EPOCH_BROKEN);
    }
    for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
        const char *const others[] = {a_b[0], spoilt[i], NULL};

        ck_assert_int_eq(answers(&e, 1, 9, 0, others), EPOCH_BROKEN);
    }
    answers(&e, 2, 9, 0, NULL);
    put_number(3); /* among the others */
    ck_assert_int_eq(epoch_answer(&e, &told.whole), EPOCH_BROKEN);
    begin_answer();
    put_number(1);
    put_number(1);
    put_number(9);
    put_number(0);
    put_text(OPEN " and a word that is far too long");
    ck_assert_int_eq(epoch_answer(&e, &told.whole), EPOCH_BROKEN);
    told.one[0] = (struct reply){.type = REPLY_ERROR, .text = SLICE_LIT("NOPERM")};
    ck_assert_int_eq(epoch_answer(&e, &told.one[0]), EPOCH_BROKEN);
    ck_assert_int_eq(memcmp(&was, &e, sizeof(e)), 0);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {the_words,
                            as_many_others_as_there_is_room_for,
                            a_life,
                            rolled_back,
                            too_far,
                            others_are_kept_in_a_grace,
                            members_unknown,
                            alone_and_cut_off,
                            how_long_a_grace_others_need,
                            refused,
                            malformed};
    Suite *s = suite_create("epoch");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
