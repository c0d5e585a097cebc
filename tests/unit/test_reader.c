/*
 * test_reader.c -- framing: a table of inputs with their meaning, and properties over random bytes.
 *
 * The result of reading some bytes is written as a transcript, one piece per request: `L[word|word]` for a text line,
 * `R[word|word]` for a RESP array, words escaped, then `+n` (n bytes pending) or `!error`. Two runs are the same when
 * their transcripts are.
 */
#include "proto/reader.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rng.h"

static const struct reader_limits usual = {.line_bytes = 16384, .word_bytes = 16384, .words = 64};
static const struct reader_limits small = {.line_bytes = 20, .word_bytes = 10, .words = 3};

/* Appends the requests of the bytes fed so far; false after BAD. No ck_assert per request: it is a system call. */
static bool
take_all(struct reader *r, struct buf *transcript)
{
    struct words w;
    size_t before = reader_pending(r);
    enum reader_result res;

    while ((res = reader_next(r, &w)) == READER_READY) {
        size_t after = reader_pending(r);

        if (w.n < 1 || w.n > r->limits->words || w.bytes < 1 || after >= before || before - after < w.bytes) {
            ck_abort_msg("READY with %u words of %zu bytes, pending %zu -> %zu", w.n, w.bytes, before, after);
        }
        before = after;
        buf_adds(transcript, w.inline_form ? "L[" : "R[");
        for (unsigned i = 0; i < w.n; i++) {
            buf_adds(transcript, i > 0 ? "|" : "");
            buf_add_escaped(transcript, w.word[i]);
        }
        buf_adds(transcript, "]");
    }
    if (res == READER_MORE && reader_pending(r) == 0 && r->in.p != NULL) {
        ck_abort_msg("idle, but holds %zu bytes", r->in.room);
    }
    return res == READER_MORE;
}

static void
finish(struct reader *r, struct buf *transcript)
{
    if (r->error != NULL) {
        buf_printf(transcript, "!%s", r->error);
    } else {
        buf_printf(transcript, "+%zu", reader_pending(r));
    }
    reader_fini(r);
    buf_add(transcript, "", 1);
}

/* Feeds the bytes in chunks of at most `most` (0: in one); with `rng` in chunks of random length, some of them lent. */
static void
transcribe(const struct reader_limits *limits, const char *p, size_t n, size_t most, struct rng *rng, struct buf *out)
{
    struct reader r;
    bool good = true;

    buf_clear(out, SIZE_MAX);
    reader_init(&r, limits);
    while (n > 0 && good) {
        size_t chunk = most == 0 ? n : most;
        char *copy;

        if (rng != NULL) {
            chunk = 1 + rng_below(rng, (unsigned)chunk);
        }
        chunk = chunk < n ? chunk : n;
        copy = malloc(chunk); /* a block of its own, so that ASan notices a read past its end */
        memcpy(copy, p, chunk);
        if (rng != NULL && reader_pending(&r) == 0 && rng_below(rng, 2) == 0) {
            reader_lend(&r, copy, chunk);
        } else {
            reader_feed(&r, copy, chunk);
        }
        good = take_all(&r, out);
        reader_keep(&r);
        free(copy);
        p += chunk;
        n -= chunk;
    }
    finish(&r, out);
}

/* --- the table ---------------------------------------------------------------------------------- */

struct example {
    const char *in;
    size_t n;
    const char *want;
};

#define EXAMPLE(in, want) {(in), sizeof(in) - 1, (want)}

static const struct example examples[] = {
    EXAMPLE("", "+0"),
    /* text lines */
    EXAMPLE("PING\n", "L[PING]+0"),
    EXAMPLE("PING\r\n", "L[PING]+0"),
    EXAMPLE("LOCK orders:42 WAIT 5s\r\nUNLOCK orders:42\n", "L[LOCK|orders:42|WAIT|5s]L[UNLOCK|orders:42]+0"),
    EXAMPLE("  \t a \t  b  \n", "L[a|b]+0"),
    EXAMPLE("\n\r\n  \t\r\nPING\n\n", "L[PING]+0"),
    EXAMPLE("PING", "+4"),
    EXAMPLE("a\nb", "L[a]+1"),
    EXAMPLE("a\r", "+2"),
    EXAMPLE("a\rb\n", "L[a|b]+0"),
    EXAMPLE("a\r\r\n", "L[a]+0"),
    EXAMPLE("a\0b c\n", "L[a\\x00b|c]+0"),
    EXAMPLE("\xff\x80 \x7f\n", "L[\\xff\\x80|\\x7f]+0"),
    EXAMPLE("a \x0b\x0c" "b\n", "L[a|b]+0"),
    EXAMPLE("$5 :1 -x +y\n", "L[$5|:1|-x|+y]+0"),
    EXAMPLE(" *1\r\nPING\n", "L[*1]L[PING]+0"),
    /* double quotes */
    EXAMPLE("a \"b c\"\n", "L[a|b c]+0"),
    EXAMPLE("a \"\"\n", "L[a|]+0"),
    EXAMPLE("\"\"\n", "L[]+0"),
    EXAMPLE("a\"b c\" d\n", "L[ab c|d]+0"),
    EXAMPLE("\"\\x41\\x00\\xfF\\n\\r\\t\\b\\a\\\\\\\"\"\n", "L[A\\x00\\xff\\x0a\\x0d\\x09\\x08\\x07\\x5c\\x22]+0"),
    EXAMPLE("\"\\q\\x4\\xg1\\x\"\n", "L[qx4xg1x]+0"),
    EXAMPLE("\"it's\"\n", "L[it's]+0"),
    EXAMPLE("a\\nb \\\n", "L[a\\x5cnb|\\x5c]+0"),
    /* single quotes */
    EXAMPLE("'b c' '' '\\'' '\\n\\x41' '\"'\n", "L[b c||'|\\x5cn\\x5cx41|\\x22]+0"),
    /* quotes out of balance */
    EXAMPLE("\"a\n", "!unbalanced quotes in request"),
    EXAMPLE("'a\n", "!unbalanced quotes in request"),
    EXAMPLE("\"a\"b\n", "!unbalanced quotes in request"),
    EXAMPLE("\"a\"\"b\"\n", "!unbalanced quotes in request"),
    EXAMPLE("\"a\\\"\n", "!unbalanced quotes in request"),
    EXAMPLE("\"a\\\n", "!unbalanced quotes in request"),
    EXAMPLE("'a\\'\n", "!unbalanced quotes in request"),
    EXAMPLE("PING\n\"\nPING\n", "L[PING]!unbalanced quotes in request"),
    EXAMPLE("\"a\n\"\n", "!unbalanced quotes in request"),
    EXAMPLE("\"a\"\rb\n", "L[a|b]+0"),
    /* RESP */
    EXAMPLE("*1\r\n$4\r\nPING\r\n", "R[PING]+0"),
    EXAMPLE("*2\r\n$4\r\nLOCK\r\n$5\r\na\r\n\0b\r\n", "R[LOCK|a\\x0d\\x0a\\x00b]+0"),
    EXAMPLE("*1\r\n$0\r\n\r\n", "R[]+0"),
    EXAMPLE("*2\r\n$1\r\na\r\n$0\r\n\r\nb\n*1\r\n$1\r\nc\r\n", "R[a|]L[b]R[c]+0"),
    EXAMPLE("*0\r\n*-1\r\n*-5\r\nPING\n", "L[PING]+0"),
    EXAMPLE("*0\r\n", "+0"),
    EXAMPLE("*1\r\n$4\r\nPING", "+12"),
    EXAMPLE("*1\r\n$4\r\nPING\r", "+13"),
    EXAMPLE("*", "+1"),
    EXAMPLE("*1\r\n", "+4"),
    EXAMPLE("*1\r\n$", "+5"),
    EXAMPLE("*1\r\n$999\r\nabc", "+13"),
    /* RESP, wrong */
    EXAMPLE("*\r\n", "!invalid multibulk length"),
    EXAMPLE("*\n", "!invalid multibulk length"),
    EXAMPLE("*x\r\n", "!invalid multibulk length"),
    EXAMPLE("*1x\r\n", "!invalid multibulk length"),
    EXAMPLE("*1 \r\n", "!invalid multibulk length"),
    EXAMPLE("* 1\r\n", "!invalid multibulk length"),
    EXAMPLE("*+1\r\n", "!invalid multibulk length"),
    EXAMPLE("*01\r\n", "!invalid multibulk length"),
    EXAMPLE("*-\r\n", "!invalid multibulk length"),
    EXAMPLE("*-0\r\n", "!invalid multibulk length"),
    EXAMPLE("*1\n", "!invalid multibulk length"),
    EXAMPLE("*1\rX$4\r\n", "!invalid multibulk length"),
    EXAMPLE("*\0\r\n", "!invalid multibulk length"),
    EXAMPLE("*9223372036854775808\r\n", "!invalid multibulk length"),
    EXAMPLE("*99999999999999999999999\r\n", "!invalid multibulk length"),
    EXAMPLE("*11111111111111111111111111111111111111111111111\r\n", "!too big mbulk count string"),
    EXAMPLE("*111111111122222222223333333333", "+31"),
    EXAMPLE("*1111111111222222222233333333334", "!too big mbulk count string"),
    EXAMPLE("*65\r\n", "!too many words"),
    EXAMPLE("*999999999999999999\r\n", "!too many words"),
    EXAMPLE("*1\r\n:4\r\n", "!expected '$', got ':'"),
    EXAMPLE("*1\r\n\r\n", "!expected '$', got '\\x0d'"),
    EXAMPLE("*1\r\n\0", "!expected '$', got '\\x00'"),
    EXAMPLE("*1\r\n\xff", "!expected '$', got '\\xff'"),
    EXAMPLE("*1\r\n*1\r\n", "!expected '$', got '*'"),
    EXAMPLE("*2\r\n$1\r\na\r\n$-1\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$4x\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$04\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$4\nPING\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$16385\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$999999999999999999\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$18446744073709551615\r\n", "!invalid bulk length"),
    EXAMPLE("*1\r\n$11111111111111111111111111111111111111111111111\r\n", "!too big bulk count string"),
    EXAMPLE("*2\r\n$16384\r\n", "+12"),
    EXAMPLE("*1\r\n$4\r\nPINGx\r\n", "!expected CRLF after a bulk string"),
    EXAMPLE("*1\r\n$4\r\nPING\rx", "!expected CRLF after a bulk string"),
    EXAMPLE("*1\r\n$4\r\nPING\n", "!expected CRLF after a bulk string"),
};

START_TEST(table)
{
    const struct example *e = &examples[_i];
    struct buf got;

    buf_init(&got, 0);
    transcribe(&usual, e->in, e->n, 0, NULL, &got);
    ck_assert_str_eq(got.p, e->want);
    for (size_t most = 1; most < e->n; most++) {
        transcribe(&usual, e->in, e->n, most, NULL, &got);
        ck_assert_str_eq(got.p, e->want);
    }
    buf_fini(&got);
}
END_TEST

static const struct example limited[] = {
    EXAMPLE("12345678901234567890\n", "L[12345678901234567890]+0"),
    EXAMPLE("12345678901234567890\r\n", "L[12345678901234567890]+0"),
    EXAMPLE("12345678901234567890\r", "+21"),
    EXAMPLE("12345678901234567890", "+20"),
    EXAMPLE("123456789012345678901", "!too big inline request"),
    EXAMPLE("123456789012345678901\n", "!too big inline request"),
    EXAMPLE("12345678901234567890\r\r\n", "!too big inline request"),
    EXAMPLE("                     \n", "!too big inline request"),
    EXAMPLE("a b c\n", "L[a|b|c]+0"),
    EXAMPLE("a b c  \n", "L[a|b|c]+0"),
    EXAMPLE("a b c d\n", "!too many words"),
    EXAMPLE("*3\r\n$1\r\na\r\n$0\r\n\r\n$10\r\n1234567890\r\n", "R[a||1234567890]+0"),
    EXAMPLE("*4\r\n", "!too many words"),
    EXAMPLE("*1\r\n$11\r\n", "!invalid bulk length"),
    EXAMPLE("*3\r\n$10\r\n1234567890\r\n$9\r\n123456789\r\n$1\r\na\r\n", "R[1234567890|123456789|a]+0"),
    EXAMPLE("*3\r\n$10\r\n1234567890\r\n$9\r\n123456789\r\n$2\r\n", "!too big request"),
    /* the sum starts again with each request */
    EXAMPLE("*2\r\n$10\r\n1234567890\r\n$9\r\n123456789\r\n*1\r\n$5\r\nabcde\r\n", "R[1234567890|123456789]R[abcde]+0"),
};

START_TEST(small_limits)
{
    const struct example *e = &limited[_i];
    struct buf got;

    buf_init(&got, 0);
    transcribe(&small, e->in, e->n, 0, NULL, &got);
    ck_assert_str_eq(got.p, e->want);
    for (size_t most = 1; most < e->n; most++) {
        transcribe(&small, e->in, e->n, most, NULL, &got);
        ck_assert_str_eq(got.p, e->want);
    }
    buf_fini(&got);
}
END_TEST

/* --- single behaviours ---------------------------------------------------------------------------- */

static void
feed(struct reader *r, const char *text)
{
    reader_feed(r, text, strlen(text));
}

START_TEST(bytes_on_the_wire)
{
    struct reader r;
    struct words w;

    reader_init(&r, &usual);
    feed(&r, "\r\n\na b\r\n*0\r\n*1\r\n$4\r\nPING\r\nc\n");
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.bytes, 5);
    ck_assert(w.inline_form);
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.bytes, 14);
    ck_assert(!w.inline_form);
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.bytes, 2);
    ck_assert_uint_eq(reader_pending(&r), 0);
    ck_assert_int_eq(reader_next(&r, &w), READER_MORE);
    ck_assert_ptr_null(r.in.p);
    reader_fini(&r);
}
END_TEST

START_TEST(bad_stays_bad)
{
    struct reader r;
    struct words w;

    reader_init(&r, &usual);
    feed(&r, "*x\r\nPING\n");
    ck_assert_int_eq(reader_next(&r, &w), READER_BAD);
    ck_assert_str_eq(r.error, "invalid multibulk length");
    feed(&r, "PING\n");
    ck_assert_uint_eq(reader_pending(&r), 0);
    ck_assert_ptr_null(r.in.p);
    ck_assert_int_eq(reader_next(&r, &w), READER_BAD);
    ck_assert_str_eq(r.error, "invalid multibulk length");
    reader_fini(&r);
}
END_TEST

START_TEST(lent_bytes_are_not_copied)
{
    char bytes[] = "PING\nLOCK a\nUNLO", more[] = "CK a\n";
    struct reader r;
    struct words w;

    reader_init(&r, &usual);
    reader_lend(&r, bytes, sizeof(bytes) - 1);
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_ptr_eq(w.word[0].p, bytes);
    reader_keep(&r); /* in the middle: one request and a half */
    memset(bytes, 'x', sizeof(bytes));
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert(slice_is(w.word[0], "LOCK"));
    ck_assert_int_eq(reader_next(&r, &w), READER_MORE);
    reader_keep(&r);
    feed(&r, "CK a\n");
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert(slice_is(w.word[0], "UNLOCK"));
    ck_assert_int_eq(reader_next(&r, &w), READER_MORE);
    ck_assert_ptr_null(r.in.p);
    reader_lend(&r, more, sizeof(more) - 1);
    reader_fini(&r); /* frees no lent byte */
    reader_init(&r, &usual);
    feed(&r, "*x\r\n");
    ck_assert_int_eq(reader_next(&r, &w), READER_BAD);
    reader_lend(&r, more, sizeof(more) - 1); /* is not read */
    ck_assert_int_eq(reader_next(&r, &w), READER_BAD);
    reader_keep(&r);
    reader_fini(&r);
}
END_TEST

/* The limits change as with AUTH: they apply from the next request on. */
START_TEST(limits_are_exchanged)
{
    struct reader r;
    struct words w;

    reader_init(&r, &small);
    feed(&r, "AUTH secret\nLOCK a WAIT 5s LEASE 10s ONCE\n*2\r\n$4\r\nPING\r\n$12\r\n123456789012\r\n"
             "*1\r\n$12\r\n123456789012\r\n");
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    r.limits = &usual;
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.n, 7);
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.word[1].n, 12);
    r.limits = &small;
    ck_assert_int_eq(reader_next(&r, &w), READER_BAD);
    ck_assert_str_eq(r.error, "invalid bulk length");
    reader_fini(&r);
}
END_TEST

START_TEST(most_words)
{
    struct reader r;
    struct words w;

    reader_init(&r, &usual);
    for (int i = 0; i < READER_WORDS_MAX; i++) {
        feed(&r, "w ");
    }
    feed(&r, "\n*64\r\n");
    for (int i = 0; i < READER_WORDS_MAX; i++) {
        feed(&r, "$2\r\nxy\r\n");
    }
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.n, 64);
    ck_assert_uint_eq(w.word[63].n, 1);
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.n, 64);
    ck_assert(slice_eq(w.word[63], SLICE_LIT("xy")));
    reader_fini(&r);
}
END_TEST

/* --- linear time: were anything rescanned per byte, these would take hours, and Check ends them after seconds --- */

#define MANY (1u << 21)

START_TEST(linear_byte_by_byte)
{
    static const struct reader_limits wide = {.line_bytes = MANY, .word_bytes = MANY, .words = 64};
    static const char *const heads[] = {"", "*1\r\n$2097152\r\n", "*2\r\n$1\r\na\r\n$2097151\r\n"};
    struct reader r;
    struct words w = {.n = 0};
    size_t left = _i < 2 ? MANY : MANY - 1;
    enum reader_result res = READER_MORE;

    reader_init(&r, &wide);
    feed(&r, heads[_i]);
    while (left-- > 0 && res == READER_MORE) {
        reader_feed(&r, "x", 1);
        res = reader_next(&r, &w);
    }
    ck_assert_int_eq(res, READER_MORE);
    feed(&r, "\r\n");
    ck_assert_int_eq(reader_next(&r, &w), READER_READY);
    ck_assert_uint_eq(w.word[w.n - 1].n, _i < 2 ? MANY : MANY - 1);
    reader_fini(&r);
}
END_TEST

START_TEST(linear_pipeline)
{
    struct reader r;
    struct words w;
    char *p = malloc(MANY);
    unsigned n = 0;

    for (size_t i = 0; i < MANY; i += 2) {
        p[i] = 'a';
        p[i + 1] = '\n';
    }
    reader_init(&r, &usual);
    reader_feed(&r, p, MANY);
    /* With each byte that comes one request is taken: the bytes behind it must not be moved each time. */
    while (n < MANY / 2 && reader_next(&r, &w) == READER_READY) {
        n++;
        reader_feed(&r, n % 2 == 1 ? "b" : "\n", 1);
    }
    ck_assert_uint_eq(n, MANY / 2);
    reader_fini(&r);
    free(p);
}
END_TEST

/* --- properties ----------------------------------------------------------------------------------- */

/* Pieces that matter to the parser, so that random bytes pass its first check. */
static const char *const pieces[] = {
    "*",    "$",      "\r\n",      "\n",     "\r",   "1",   "2",      "3",      "10",      "-1",  "0",  "99999999",
    "PING", "LOCK a", "\"",        "'",      "\\",   "\\x", "\\x4f",  " ",      "\t",      "x",   "\"a b\" ",
    ":",    "\"\"",   "*1\r\n",    "$1\r\n", "a\r\n", "$0\r\n\r\n",    "*2\r\n", "*0\r\n", "*-1\r\n", "PING\r\n",
    "*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nLOCK\r\n$3\r\na\rb\r\n", "*3\r\n$6\r\nUNLOCK\r\n$1\r\na\r\n$0\r\n\r\n",
    "12345678901234567890",
};

#define PIECES (sizeof(pieces) / sizeof(pieces[0]))

static void
soup(struct rng *rng, struct buf *out)
{
    unsigned n = rng_below(rng, 40);

    buf_clear(out, SIZE_MAX);
    while (n-- > 0) {
        if (rng_below(rng, 8) == 0) {
            char c = (char)rng_next(rng);

            buf_add(out, &c, 1);
        } else {
            buf_adds(out, pieces[rng_below(rng, PIECES)]);
        }
    }
}

#define ROUNDS 400

/* Any chunking of the same bytes gives the same requests, the same error, the same rest. */
START_TEST(any_chunking)
{
    struct rng rng = rng_of(_i);
    struct buf in, whole, parts;
    unsigned ready = 0, bad = 0;

    buf_init(&in, 0);
    buf_init(&whole, 0);
    buf_init(&parts, 0);
    for (int round = 0; round < ROUNDS; round++) {
        const struct reader_limits *limits = rng_below(&rng, 3) == 0 ? &small : &usual;

        soup(&rng, &in);
        transcribe(limits, in.p, in.n, 0, NULL, &whole);
        ready += memchr(whole.p, '[', whole.n) != NULL;
        bad += memchr(whole.p, '!', whole.n) != NULL;
        for (int way = 0; way < 4; way++) {
            transcribe(limits, in.p, in.n, way == 0 ? 1 : 1 + rng_below(&rng, 20), way > 1 ? &rng : NULL, &parts);
            if (strcmp(whole.p, parts.p) != 0) {
                ck_abort_msg("seed %d round %d: %s / %s", _i, round, whole.p, parts.p);
            }
        }
    }
    /* The test is useful only if both results occur. */
    ck_assert_uint_gt(ready, ROUNDS / 20);
    ck_assert_uint_gt(bad, ROUNDS / 20);
    buf_fini(&in);
    buf_fini(&whole);
    buf_fini(&parts);
}
END_TEST

/* Random words, 0..20 bytes of any value, weighted towards those that need care. */
static void
random_word(struct rng *rng, struct buf *out)
{
    static const char special[] = "\"'\\ \t\r\n\0x$*a";

    for (unsigned n = rng_below(rng, 20); n > 0; n--) {
        char c = rng_below(rng, 2) == 0 ? special[rng_below(rng, sizeof(special) - 1)] : (char)rng_next(rng);

        buf_add(out, &c, 1);
    }
}

static void
encode_line_word(struct rng *rng, struct slice word, struct buf *out)
{
    buf_adds(out, rng_below(rng, 2) == 0 ? " \"" : "\t\"");
    for (size_t i = 0; i < word.n; i++) {
        unsigned char c = (unsigned char)word.p[i];

        if (c == '\n' || c == '"' || c == '\\' || rng_below(rng, 3) == 0) {
            buf_printf(out, rng_below(rng, 2) == 0 ? "\\x%02x" : "\\x%02X", c);
        } else {
            buf_add(out, &c, 1);
        }
    }
    buf_adds(out, "\"");
}

/* Words that are written by the rules are read back unchanged: any bytes, in both forms, many on one connection. */
START_TEST(round_trip)
{
    struct rng rng = rng_of(_i);
    struct buf wire, want, got, word;

    buf_init(&wire, 0);
    buf_init(&want, 0);
    buf_init(&got, 0);
    buf_init(&word, 0);
    for (int request = 0; request < 200; request++) {
        bool line = rng_below(&rng, 2) == 0;
        unsigned n = 1 + rng_below(&rng, 10);

        buf_adds(&want, line ? "L[" : "R[");
        if (!line) {
            buf_printf(&wire, "*%u\r\n", n);
        }
        for (unsigned i = 0; i < n; i++) {
            buf_clear(&word, 1000);
            random_word(&rng, &word);
            if (line) {
                encode_line_word(&rng, buf_slice(&word), &wire);
            } else {
                buf_printf(&wire, "$%zu\r\n", word.n);
                buf_add_slice(&wire, buf_slice(&word));
                buf_adds(&wire, "\r\n");
            }
            buf_adds(&want, i > 0 ? "|" : "");
            buf_add_escaped(&want, buf_slice(&word));
        }
        buf_adds(&want, "]");
        if (line) {
            buf_adds(&wire, rng_below(&rng, 2) == 0 ? "\n" : "\r\n");
        }
    }
    buf_add(&want, "+0", 3);
    transcribe(&usual, wire.p, wire.n, 100, &rng, &got);
    ck_assert_str_eq(got.p, want.p);
    buf_fini(&wire);
    buf_fini(&want);
    buf_fini(&got);
    buf_fini(&word);
}
END_TEST

/* Good requests with a few bytes changed, dropped or doubled: no crash, and the chunking still does not matter. */
START_TEST(mutations)
{
    static const char good[] = "LOCK \"a b\" WAIT 5s\r\n*2\r\n$6\r\nUNLOCK\r\n$3\r\na b\r\nPING\n*1\r\n$4\r\nPING\r\n";
    struct rng rng = rng_of(_i);
    struct buf whole, parts;

    buf_init(&whole, 0);
    buf_init(&parts, 0);
    for (int round = 0; round < ROUNDS; round++) {
        char in[2 * sizeof(good)];
        size_t n = sizeof(good) - 1;

        memcpy(in, good, n);
        for (unsigned k = 1 + rng_below(&rng, 4); k > 0; k--) {
            size_t at = rng_below(&rng, (unsigned)n);

            switch (rng_below(&rng, 3)) {
            case 0:
                in[at] = (char)rng_next(&rng);
                break;
            case 1:
                memmove(in + at, in + at + 1, n - at - 1);
                n--;
                break;
            default:
                memmove(in + at + 1, in + at, n - at);
                n++;
            }
        }
        transcribe(&usual, in, n, 0, NULL, &whole);
        transcribe(&usual, in, n, 7, &rng, &parts);
        if (strcmp(whole.p, parts.p) != 0) {
            ck_abort_msg("seed %d round %d: %s / %s", _i, round, whole.p, parts.p);
        }
    }
    buf_fini(&whole);
    buf_fini(&parts);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("reader");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_set_timeout(tc, 20);
    tcase_add_loop_test(tc, table, 0, sizeof(examples) / sizeof(examples[0]));
    tcase_add_loop_test(tc, small_limits, 0, sizeof(limited) / sizeof(limited[0]));
    tcase_add_test(tc, bytes_on_the_wire);
    tcase_add_test(tc, bad_stays_bad);
    tcase_add_test(tc, lent_bytes_are_not_copied);
    tcase_add_test(tc, limits_are_exchanged);
    tcase_add_test(tc, most_words);
    tcase_add_loop_test(tc, linear_byte_by_byte, 0, 3);
    tcase_add_test(tc, linear_pipeline);
    tcase_add_loop_test(tc, any_chunking, 0, 20);
    tcase_add_loop_test(tc, round_trip, 0, 20);
    tcase_add_loop_test(tc, mutations, 0, 20);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
