/*
 * test_epoch.c -- the words that the membership script gets, and the meaning of its answers. The script itself is
 * tested in tests/redis/test_scripts_membership.py.
 */
#include "daemon/backend/epoch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64"
#define OPEN "1700000000000000 0123456789abcdef"

enum { WORDS_MAX = 300 };

/* An answer that the test makes, element by element. */
static struct {
    struct reply whole, one[WORDS_MAX], *item[WORDS_MAX];
    char text[WORDS_MAX][64];
} reported;

static void
begin_answer(void)
{
    memset(&reported, 0, sizeof(reported));
    reported.whole.type = REPLY_ARRAY;
    reported.whole.item = reported.item;
}

static void
put_number(int64_t n)
{
    size_t i = reported.whole.count++;

    reported.one[i] = (struct reply){.type = REPLY_INT, .n = n};
    reported.item[i] = &reported.one[i];
}

static void
put_text(const char *text)
{
    size_t i = reported.whole.count++;

    snprintf(reported.text[i], sizeof(reported.text[i]), "%s", text);
    reported.one[i] = (struct reply){.type = REPLY_TEXT, .text = slice_of(reported.text[i])};
    reported.item[i] = &reported.one[i];
}

enum { VERSION = 100 };

static struct members known; /* the other members that the daemon knows */

/* The part of an answer about the list of members. */
static struct {
    int64_t version, upto, anew, bring;
} list;

/* Outside of a grace period an answer has all members, from the beginning. */
static void
setup(void)
{
    members_init(&known, &(struct hash_key){1, 2});
    list.version = list.upto = VERSION;
    list.anew = 1;
    list.bring = EPOCH_BRING_NOTHING;
}

static void
teardown(void)
{
    members_fini(&known);
}

/* The answer of a Redis in this epoch, with the word OPEN. */
static enum epoch_news
answers(struct epoch *e, int64_t status, int64_t number, int64_t until_ms, const char *const *changes)
{
    begin_answer();
    put_number(1700000000000001);
    put_number(status);
    put_number(number);
    put_number(until_ms);
    put_text(OPEN);
    put_number(list.version);
    put_number(list.upto);
    put_number(list.anew);
    put_number(list.bring);
    for (; changes != NULL && *changes != NULL; changes++) {
        put_text(*changes);
    }
    return epoch_answer(e, &known, &reported.whole);
}

#define A "aaaaaaaa-1c2d-4e3f-8a9b-726c6f636b64"
#define B "bbbbbbbb-1c2d-4e3f-8a9b-726c6f636b64"
#define C "cccccccc-1c2d-4e3f-8a9b-726c6f636b64"
static const char *const a_b[] = {A " 30000 10", B " 30000 11", NULL};
static const char *const b_c[] = {B " 30000 11", C " 30000 12", NULL};

/* The known members are those with these first letters. */
static void
expect_members(const char *want)
{
    char got[8] = "";
    struct buf uuids;

    buf_init(&uuids, 0);
    members_print(&known, &uuids);
    ck_assert_uint_eq(uuids.n, strlen(want) * MEMBERS_UUID_BYTES);
    for (size_t i = 0; i < strlen(want); i++) {
        got[i] = uuids.p[i * MEMBERS_UUID_BYTES];
    }
    for (const char *p = want; *p != '\0'; p++) {
        ck_assert_ptr_nonnull(strchr(got, *p));
    }
    buf_fini(&uuids);
}

static struct epoch
ours(void)
{
    return (struct epoch){
        .uuid = US, .nonce = 0x12, .former_nonce = {0xabcdef}, .longest_lease_us = 30000000, .channel = "here"};
}

/* ---- words ---- */

static void
expect(const struct epoch *e, const struct epoch_ask *ask, const char *const *want)
{
    static struct slice word[EPOCH_WORDS_MAX];
    struct buf text;
    int n, i;

    buf_init(&text, 0);
    n = epoch_words(e, &known, ask, &text, word);
    ck_assert(!text.failed);
    for (i = 2; i < n && want[i - 2] != NULL; i++) {
        ck_assert_msg(slice_is(word[i], want[i - 2]), "word %d is %.*s, not %s", i, (int)word[i].n, word[i].p,
                      want[i - 2]);
    }
    ck_assert_msg(i == n && want[i - 2] == NULL, "%d words", n);
    if (ask->sha != NULL) {
        ck_assert(slice_is(word[0], "EVALSHA") && slice_is(word[1], ask->sha));
    } else {
        ck_assert(slice_is(word[0], "EVAL") && word[1].n > 1000);
    }
    buf_fini(&text);
}

static void
expect_words(const struct epoch *e, uint64_t floor, const char *const *want)
{
    expect(e, &(struct epoch_ask){.token_floor = floor, .changes = e->until_ms == 0}, want);
}

#define KEYS_WORDS                                                                                                     \
    "7", "rlock:clock", "rlock:epoch", "rlock:members", "rlock:until", "rlock:changes", "rlock:left",                  \
        "rlock:awaited", US
#define NO_NONCE " 0000000000000000"
#define NONCES "0000000000000012", "0000000000abcdef" NO_NONCE NO_NONCE NO_NONCE

START_TEST(the_words)
{
    struct epoch e = ours();
    const char *const first[] = {KEYS_WORDS, NONCES, "0", "0", "30000", "2000", "0", "77", "0", "0", "here",
                                 "0", "0", "256", "0", "0", "0", "0", "0", "30000", "", "0", NULL};
    const char *const later[] = {KEYS_WORDS, NONCES, "1700000000000000", "1699999999999999", "30000", "2000", "1", "77",
                                 "1", "1", "here", "100", "100", "256", "1700000000000000", "100", "11", "2", "0",
                                 "30000", "", "0", NULL};

    expect_words(&e, 77, first);
    ck_assert_int_eq(answers(&e, 1, 1700000000000000, 0, a_b), EPOCH_NEW);
    e.reclaimed = 1699999999999999;
    e.strict = e.leaving = e.rolled_back = true;
    expect_words(&e, 77, later);
}
END_TEST

START_TEST(by_digest_and_in_parts)
{
    struct epoch e = ours();
    struct epoch_ask ask = {.sha = "0123", .part = SLICE_LIT(A B)};
    const char *const more[] = {KEYS_WORDS, NONCES, "0", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                "0", "0", "0", "0", "0", "0", "0", "0", "30000", "", "1", A, B, NULL};
    const char *const last[] = {KEYS_WORDS, NONCES, "0", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                "0", "0", "0", "0", "0", "0", "0", "0", "30000", "", "2", A, B, NULL};

    expect(&e, &ask, more);
    ask.last = true;
    expect(&e, &ask, last);
}
END_TEST

/* A part of the largest size, and the largest numbers. */
START_TEST(as_many_words_as_there_is_room_for)
{
    struct epoch e = ours();
    static struct slice word[EPOCH_WORDS_MAX];
    static char part[EPOCH_PART * MEMBERS_UUID_BYTES];
    struct buf text;
    int n;

    e.number = e.since = e.cursor = e.list_epoch = e.list_upto = EPOCH_END - 1;
    e.until_ms = INT64_MAX;
    buf_init(&text, 0);
    n = epoch_words(&e, &known, &(struct epoch_ask){.token_floor = EPOCH_END, .part = {part, sizeof(part)}}, &text,
                    word);
    ck_assert_int_eq(n, EPOCH_WORDS_MAX - 40 + 33);
    buf_fini(&text);
}
END_TEST

/* ---- answers ---- */

START_TEST(a_life)
{
    struct epoch e = ours();

    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_NEW); /* the first epoch */
    ck_assert_uint_eq(e.number, 5);
    ck_assert_str_eq(e.granting_value, OPEN);
    ck_assert_str_eq(e.last_value, OPEN);
    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 8, 9000, NULL), EPOCH_NEW);
    ck_assert_int_eq(e.until_ms, 9000);
    ck_assert_str_eq(e.granting_value, OPEN);
    ck_assert_str_eq(e.last_value, OPEN " 9000");
    ck_assert_int_eq(answers(&e, 1, 8, 9000, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 8, 0, NULL), EPOCH_OVER);
    ck_assert_str_eq(e.last_value, OPEN);
    ck_assert_int_eq(answers(&e, 1, 8, 0, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 9, 0, NULL), EPOCH_NEW); /* its grace period ended before this answer */
    ck_assert_int_eq(answers(&e, 1, 9, 100, NULL), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 10, 0, NULL), EPOCH_NEW); /* the next epoch ends the grace period */
}
END_TEST

/* The epoch counts as rolled back until an answer has one that counts. */
START_TEST(rolled_back)
{
    struct epoch e = ours();

    answers(&e, 1, 5, 0, NULL);
    e.rolled_back = true;
    ck_assert_int_eq(answers(&e, 1, 4, 0, NULL), EPOCH_OLD);
    ck_assert(e.rolled_back);
    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_SAME); /* the epoch from before */
    ck_assert(!e.rolled_back);
    e.rolled_back = true;
    ck_assert_int_eq(answers(&e, 1, 6, 900, NULL), EPOCH_NEW);
    ck_assert(!e.rolled_back);
}
END_TEST

/* A number beyond all that a Redis can reach does not count. */
START_TEST(too_far)
{
    struct epoch e = ours();

    ck_assert_int_eq(answers(&e, 1, (int64_t)EPOCH_END, 0, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 5, 900, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 4, 0, NULL), EPOCH_OLD);
}
END_TEST

/* In a grace period the members known before stay, as they may hold locks; after it those count that Redis names. */
START_TEST(others_are_kept_in_a_grace)
{
    struct epoch e = ours();

    answers(&e, 1, 5, 0, a_b);
    expect_members("ab");
    ck_assert(epoch_is_current(&e));
    answers(&e, 1, 5, 0, NULL);
    expect_members("");
    answers(&e, 1, 5, 0, a_b);
    answers(&e, 1, 6, 900, b_c); /* about a question from before the loss */
    expect_members("ab");
    ck_assert(!epoch_is_current(&e));
    epoch_newcomer(&e, &known, SLICE_LIT(C " 30000 12"));
    expect_members("abc");
    answers(&e, 1, 6, 0, b_c);
    expect_members("bc");
}
END_TEST

/* The daemon knows all others only after the page with the last change; members that no page has named go then. */
START_TEST(changes_in_pages)
{
    struct epoch e = ours();
    const char *const a[] = {A " 30000 10", NULL}, *const c[] = {C " 30000 12", NULL};
    const char *const words[] = {KEYS_WORDS, NONCES, "5", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                 "100", "10", "256", "5", "0", "11", "2", "1", "30000", "", "0", NULL};

    answers(&e, 1, 4, 0, a_b);
    ck_assert(!e.members_unknown && e.complete);
    list.upto = 10;
    ck_assert_int_eq(answers(&e, 1, 5, 0, a), EPOCH_NEW);
    ck_assert(e.members_unknown && !e.complete);
    expect_members("ab");
    expect_words(&e, 0, words);
    list.upto = list.version;
    list.anew = 0;
    answers(&e, 1, 5, 0, c);
    ck_assert(!e.members_unknown && e.complete);
    expect_members("ac");
}
END_TEST

START_TEST(changes_since_then)
{
    struct epoch e = ours();
    const char *const changes[] = {C " 30000 101", A " - 102", NULL}, *const rest[] = {B " 40000 103", NULL};

    answers(&e, 1, 5, 0, a_b);
    list.version = 103;
    list.upto = 102;
    list.anew = 0;
    answers(&e, 1, 5, 0, changes);
    expect_members("bc");
    ck_assert(e.members_unknown);
    ck_assert_uint_eq(e.since, 100); /* the version whose later changes are asked for, from 102 on */
    ck_assert_uint_eq(e.cursor, 102);
    list.upto = 103;
    answers(&e, 1, 5, 0, rest);
    ck_assert(!e.members_unknown && epoch_is_current(&e));
    ck_assert_uint_eq(e.since, 103);
    ck_assert_int_eq(members_longest_ms(&known), 40000);
    list.upto = 0; /* not asked for */
    answers(&e, 1, 5, 0, NULL);
    ck_assert(!e.members_unknown && !e.complete && epoch_is_current(&e));
    expect_members("bc");
}
END_TEST

/* Over two connections a message may come before or after an answer about the same change, or about a later one. */
START_TEST(newcomers)
{
    struct epoch e = ours();
    const char *const left[] = {C " - 102", NULL}, *const none[] = {NULL};

    answers(&e, 1, 5, 0, a_b);
    epoch_newcomer(&e, &known, SLICE_LIT(C " 50000 101"));
    expect_members("abc");
    ck_assert(!e.members_unknown && epoch_is_current(&e));
    ck_assert_uint_eq(known.last, 101);
    answers(&e, 1, 5, 0, a_b); /* Redis as it was before C came: C stays */
    expect_members("abc");
    list.version = list.upto = 102;
    list.anew = 0;
    answers(&e, 1, 5, 0, left);
    expect_members("ab");
    epoch_newcomer(&e, &known, SLICE_LIT(C " 50000 101")); /* older than the departure */
    epoch_newcomer(&e, &known, SLICE_LIT(US " 50000 103"));
    epoch_newcomer(&e, &known, SLICE_LIT(C " - 103"));
    epoch_newcomer(&e, &known, SLICE_LIT("nonsense"));
    expect_members("ab");
    epoch_newcomer(&e, &known, SLICE_LIT(C " 50000 103"));
    answers(&e, 1, 5, 0, none);
    expect_members("abc");
    answers(&e, 1, 5, 0, left); /* older than the return */
    expect_members("abc");
}
END_TEST

/* A process that knows only that there were others learns their list with the end of a grace period. */
START_TEST(members_unknown)
{
    struct epoch e = ours();
    const char *const b[] = {B " 30000 11", NULL};
    const char *const words[] = {KEYS_WORDS, NONCES, "6", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                 "0", "0", "0", "6", "0", "0", "0", "1", "30000", "900", "0", NULL};

    e.members_unknown = true;
    ck_assert_int_eq(answers(&e, 1, 5, 900, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 6, 900, b), EPOCH_NEW); /* data lost again */
    expect_words(&e, 0, words);
    ck_assert_int_eq(answers(&e, 1, 6, 0, b), EPOCH_OVER);
    ck_assert(!e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 7, 900, b), EPOCH_NEW);
    ck_assert(!e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 7, 900, b), EPOCH_SAME);
    ck_assert(!e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 8, 900, b), EPOCH_NEW); /* cut off: Redis may lose the list again */
    ck_assert(e.members_unknown);
    ck_assert_int_eq(answers(&e, 1, 8, 0, b), EPOCH_OVER);
    ck_assert(!e.members_unknown);
    e.members_unknown = true;
    ck_assert_int_eq(answers(&e, 1, 8, 0, b), EPOCH_SAME); /* no loss whose list of members could be missing */
    ck_assert(!e.members_unknown);
}
END_TEST

/*
 * An answer ends the grace period without a list of members: if the data were lost now, the daemon would not know all.
 */
START_TEST(the_end_of_a_grace_period_without_a_member_list)
{
    struct epoch e = ours();

    answers(&e, 1, 5, 0, a_b);
    answers(&e, 1, 6, 900, NULL);
    list.upto = list.anew = 0;
    ck_assert_int_eq(answers(&e, 1, 6, 0, NULL), EPOCH_OVER);
    ck_assert(e.members_unknown);
    expect_members("ab");
    list.upto = list.version;
    answers(&e, 1, 6, 0, b_c); /* changes since the version before: no whole list */
    ck_assert(e.members_unknown);
    list.anew = 1;
    answers(&e, 1, 6, 0, b_c);
    ck_assert(!e.members_unknown);
    expect_members("bc");
}
END_TEST

/*
 * The daemon knows no others and has reported no reclaim: others may have come back without its knowledge all the same.
 */
START_TEST(alone_and_cut_off)
{
    struct epoch e = ours();
    const char *const words[] = {KEYS_WORDS, NONCES, "7", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                 "0", "0", "0", "7", "0", "0", "0", "1", "30000", "900", "0", NULL};
    const char *const before[] = {KEYS_WORDS, NONCES, "6", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                  "0", "0", "0", "6", "0", "0", "0", "0", "30000", "900", "0", NULL};

    ck_assert_int_eq(answers(&e, 1, 5, 0, NULL), EPOCH_NEW);
    ck_assert_int_eq(answers(&e, 1, 6, 900, NULL), EPOCH_NEW);
    ck_assert(!e.members_unknown);
    expect_words(&e, 0, before);
    ck_assert_int_eq(answers(&e, 1, 7, 900, NULL), EPOCH_NEW);
    ck_assert(e.members_unknown);
    expect_words(&e, 0, words);
}
END_TEST

/* The epoch of the list, and the change up to which it is whole, are sent along until Redis has them. */
START_TEST(a_list_to_bring)
{
    struct epoch e = ours();
    const char *const words[] = {KEYS_WORDS, NONCES, "6", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                 "0", "0", "0", "5", "100", "11", "2", "0", "30000", "900", "0", NULL};

    answers(&e, 1, 5, 0, a_b);
    list.bring = EPOCH_BRING_LATER;
    ck_assert_int_eq(answers(&e, 1, 6, 900, NULL), EPOCH_NEW);
    ck_assert_int_eq(e.bring, EPOCH_BRING_LATER);
    expect_words(&e, 0, words);
    list.bring = EPOCH_BRING_NOW;
    answers(&e, 1, 6, 900, NULL);
    ck_assert_int_eq(e.bring, EPOCH_BRING_NOW);
    expect_words(&e, 0, words);
    answers(&e, 1, 7, 900, NULL); /* lost again: the list known now is from a grace period that was cut off */
    ck_assert_uint_eq(e.list_epoch, 6);
    ck_assert_uint_eq(e.list_upto, 0);
    list.bring = EPOCH_BRING_NOTHING;
    answers(&e, 1, 7, 900, NULL);
    ck_assert_uint_eq(e.list_epoch, 0);
}
END_TEST

/* The words have the longest lease of all, this daemon's included, and the length that a grace period was to have. */
START_TEST(how_long_a_grace_others_need)
{
    struct epoch e = ours();
    const char *const first[] = {A " 86400000 10", B " 40000 11", NULL}, *const later[] = {A " 3000 12", NULL};
    const char *const words[] = {KEYS_WORDS, NONCES, "1999", "0", "30000", "2000", "0", "0", "0", "0", "here",
                                 "0", "0", "0", "1999", "0", "12", "2", "0", "40000", "899", "0", NULL};

    ck_assert_int_eq(answers(&e, 1, 5, 0, first), EPOCH_NEW);
    ck_assert_int_eq(members_longest_ms(&known), 86400000);
    list.version = list.upto = 101;
    list.anew = 0;
    ck_assert_int_eq(answers(&e, 1, 5, 0, later), EPOCH_SAME);
    ck_assert_int_eq(answers(&e, 1, 6, 900, NULL), EPOCH_NEW);
    e.number = 1999; /* µs: the grace period lasts up to 900 ms */
    expect_words(&e, 0, words);
}
END_TEST

/* A refused answer changes nothing. */
START_TEST(refused)
{
    struct epoch e = ours(), was;

    answers(&e, 1, 5, 900, a_b);
    memcpy(&was, &e, sizeof(e));
    ck_assert_int_eq(answers(&e, 1, 4, 0, b_c), EPOCH_OLD);
    ck_assert_int_eq(answers(&e, 2, 0, 0, NULL), EPOCH_DUPLICATE_UUID);
    ck_assert_int_eq(answers(&e, 2, 9, 0, b_c), EPOCH_DUPLICATE_UUID);
    ck_assert_int_eq(answers(&e, 0, 9, 0, b_c), EPOCH_MALFORMED);
    ck_assert_int_eq(answers(&e, 3, 9, 0, b_c), EPOCH_MALFORMED);
    ck_assert_int_eq(answers(&e, 1, 0, 0, b_c), EPOCH_MALFORMED);
    ck_assert_int_eq(answers(&e, 1, -1, 0, b_c), EPOCH_MALFORMED);
    ck_assert_int_eq(answers(&e, 1, 9, -1, b_c), EPOCH_MALFORMED);
    list.bring = 3;
    ck_assert_int_eq(answers(&e, 1, 9, 0, b_c), EPOCH_MALFORMED);
    ck_assert_int_eq(memcmp(&was, &e, sizeof(e)), 0);
    expect_members("");
}
END_TEST

START_TEST(malformed)
{
    static const char *const spoilt[] = {"", "aaaaaaaa-1c2d-4e3f-8a9b-726c6f636b6 1 1", A, A " ", A "1 1", A " 1",
                                         A " 1 ",
                                         A " 1 x", A " x 1", A " -1 1", A " - ", A " -- 1", A "  1", A " 1 1 ",
                                         A " 1 4503599627370496", A " 1 18446744073709551617", A " 1 -1"};
    struct epoch e = ours(), was;

    answers(&e, 1, 5, 900, a_b);
    memcpy(&was, &e, sizeof(e));
    for (size_t i = 0; i < 9; i++) {
        answers(&e, 2, 9, 0, NULL);
        reported.one[i].type = reported.one[i].type == REPLY_INT ? REPLY_TEXT : REPLY_INT;
        ck_assert_int_eq(epoch_answer(&e, &known, &reported.whole), EPOCH_MALFORMED);
        answers(&e, 2, 9, 0, NULL);
        reported.whole.count = i; /* too short */
        ck_assert_int_eq(epoch_answer(&e, &known, &reported.whole), EPOCH_MALFORMED);
        answers(&e, 2, 9, 0, NULL);
        reported.one[i].type = REPLY_NULL;
        ck_assert_int_eq(epoch_answer(&e, &known, &reported.whole), EPOCH_MALFORMED);
    }
    for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
        const char *const others[] = {a_b[0], spoilt[i], NULL};

        ck_assert_int_eq(answers(&e, 1, 9, 0, others), EPOCH_MALFORMED);
    }
    answers(&e, 2, 9, 0, NULL);
    put_number(3); /* a number among the members */
    ck_assert_int_eq(epoch_answer(&e, &known, &reported.whole), EPOCH_MALFORMED);
    begin_answer();
    put_number(1);
    put_number(1);
    put_number(9);
    put_number(0);
    put_text(OPEN " and a word that is far too long");
    for (int i = 0; i < 4; i++) {
        put_number(0);
    }
    ck_assert_int_eq(epoch_answer(&e, &known, &reported.whole), EPOCH_MALFORMED);
    reported.one[0] = (struct reply){.type = REPLY_ERROR, .text = SLICE_LIT("NOPERM")};
    ck_assert_int_eq(epoch_answer(&e, &known, &reported.one[0]), EPOCH_MALFORMED);
    ck_assert_int_eq(memcmp(&was, &e, sizeof(e)), 0);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {the_words,
                            by_digest_and_in_parts,
                            as_many_words_as_there_is_room_for,
                            a_life,
                            rolled_back,
                            too_far,
                            others_are_kept_in_a_grace,
                            changes_in_pages,
                            changes_since_then,
                            newcomers,
                            members_unknown,
                            the_end_of_a_grace_period_without_a_member_list,
                            alone_and_cut_off,
                            a_list_to_bring,
                            how_long_a_grace_others_need,
                            refused,
                            malformed};
    Suite *s = suite_create("epoch");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
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
