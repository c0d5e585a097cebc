/*
 * reader.c -- bytes in, requests out. Owns the bytes that came and are not consumed.
 *
 * Refuses to read by itself, and to guess: once framing is lost it answers BAD for ever. READY without words stands,
 * inside this file, for what is skipped: blank lines and empty arrays. R1 to R4 below.
 */
#include "proto/reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/*
 *     in.p       at              scanned             in.n
 *      | consumed | this request    | not looked at   |
 *
 * R1  at <= scanned <= in.n. Text line: no LF in [at, scanned). RESP: the next header or, with bulk_left >= 0, the next
 *     word starts at scanned.
 * R2  Each call looks at new bytes only, and again at one header of at most HEADER_BYTES_MAX; the headers of a request
 *     that came in pieces are read once more when the request is whole. So any chunks take linear time.
 * R3  Whether a request is READY or BAD depends on its bytes, not on where chunks ended: a length that is too big is
 *     found by counting what is there, never by what is missing.
 * R4  After MORE with nothing pending no memory is held.
 */

/* "<type><up to 20 characters>\r\n" fits with room to spare. */
#define HEADER_BYTES_MAX 32

void
reader_init(struct reader *r, const struct reader_limits *limits)
{
    assert(limits->words >= 1 && limits->words <= READER_WORDS_MAX);
    *r = (struct reader){.limits = limits, .bulk_left = -1};
    buf_init(&r->in, 0);
}

/* Nothing is pending, and no memory is held. */
static void
let_go(struct reader *r)
{
    if (r->lent) {
        buf_init(&r->in, 0);
        r->lent = false;
    } else {
        buf_fini(&r->in);
    }
    r->at = r->scanned = 0;
}

void
reader_fini(struct reader *r)
{
    let_go(r);
}

size_t
reader_pending(const struct reader *r)
{
    return r->in.n - r->at;
}

/* Drops the consumed bytes. */
static void
compact(struct reader *r)
{
    buf_drop(&r->in, r->at);
    r->scanned -= r->at;
    r->at = 0;
}

void
reader_feed(struct reader *r, const void *p, size_t n)
{
    assert(!r->lent);
    if (r->error != NULL) {
        return;
    }
    /* Only when the consumed bytes pay for the move, so that it stays linear. */
    if (r->at >= r->in.n - r->at) {
        compact(r);
    }
    buf_add(&r->in, p, n);
}

void
reader_lend(struct reader *r, char *p, size_t n)
{
    assert(reader_pending(r) == 0 && !r->lent);
    let_go(r);
    if (r->error == NULL) {
        r->in.p = p;
        r->in.n = r->in.room = n;
        r->lent = true;
    }
}

void
reader_keep(struct reader *r)
{
    struct slice rest = {r->in.p + r->at, r->in.n - r->at};

    if (r->lent) {
        buf_init(&r->in, 0);
        r->lent = false;
        r->scanned -= r->at;
        r->at = 0;
        buf_add_slice(&r->in, rest);
    }
}

static enum reader_result
bad(struct reader *r, const char *error)
{
    r->error = error;
    let_go(r);
    return READER_BAD;
}

/* The request that starts at `at` ends before `end`. */
static void
consume(struct reader *r, size_t end, struct words *out)
{
    out->bytes = end - r->at;
    r->at = r->scanned = end;
    r->words_left = 0;
    r->bulk_left = -1;
}

/* --- text lines -------------------------------------------------------------------------------- */

static bool
is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes the escape at p (a backslash inside double quotes); returns the byte after it. */
static const char *
unescape(const char *p, const char *end, char *to)
{
    static const char pairs[] = "n\nr\rt\tb\ba\a";
    const char *pair;

    if (end - p >= 4 && p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
        *to = (char)(hex_digit(p[2]) << 4 | hex_digit(p[3]));
        return p + 4;
    }
    *to = p[1];
    for (pair = pairs; *pair != '\0'; pair += 2) {
        if (p[1] == pair[0]) {
            *to = pair[1];
        }
    }
    return p + 2;
}

/* Decodes the quoted text at p into *to; returns the byte after its closing quote, NULL if that is missing. */
static const char *
unquote(const char *p, const char *end, char **to)
{
    char quote = *p++;

    while (p < end && *p != quote) {
        if (*p == '\\' && end - p >= 2 && quote == '"') {
            p = unescape(p, end, (*to)++);
        } else if (*p == '\\' && end - p >= 2 && p[1] == quote) {
            *(*to)++ = quote;
            p += 2;
        } else {
            *(*to)++ = *p++;
        }
    }
    return p < end ? p + 1 : NULL;
}

/* Splits [p, end) in place, which is safe because decoding never makes a word longer. */
static enum reader_result
split(struct reader *r, char *to, const char *end, struct words *out)
{
    const char *p = to;

    for (;;) {
        while (p < end && is_blank(*p)) {
            p++;
        }
        if (p == end) {
            return READER_READY;
        }
        if (out->n == r->limits->words) {
            return bad(r, "too many words");
        }
        out->word[out->n].p = to;
        while (p < end && !is_blank(*p)) {
            if (*p != '"' && *p != '\'') {
                *to++ = *p++;
                continue;
            }
            p = unquote(p, end, &to);
            if (p == NULL || (p < end && !is_blank(*p))) {
                return bad(r, "unbalanced quotes in request");
            }
        }
        out->word[out->n].n = (size_t)(to - out->word[out->n].p);
        out->n++;
    }
}

static enum reader_result
next_line(struct reader *r, struct words *out)
{
    char *start = r->in.p + r->at;
    const char *lf = memchr(r->in.p + r->scanned, '\n', r->in.n - r->scanned);
    size_t n = lf != NULL ? (size_t)(lf - start) : reader_pending(r);
    size_t text = n > 0 && start[n - 1] == '\r' ? n - 1 : n;

    /* Before the LF is there, a last CR may yet be part of the line's end (R3). */
    if (text > r->limits->line_bytes) {
        return bad(r, "too big inline request");
    }
    if (lf == NULL) {
        r->scanned = r->in.n;
        return READER_MORE;
    }
    consume(r, r->at + n + 1, out);
    out->inline_form = true;
    return split(r, start, start + text, out);
}

/* --- RESP arrays of bulk strings --------------------------------------------------------------- */

/* A whole number as Redis writes it: no plus, no leading zero, no "-0". */
static bool
parse_number(const char *p, size_t n, int64_t *out)
{
    bool minus = n > 0 && *p == '-';
    size_t i = minus ? 1 : 0;
    int64_t v = 0;

    if (n == i || n - i > 18 || (p[i] == '0' && n > 1)) {
        return false;
    }
    for (; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
        v = v * 10 + (p[i] - '0');
    }
    *out = minus ? -v : v;
    return true;
}

/* The error of a kind of header. */
struct header_errors {
    const char *too_big, *invalid;
};

/* The usual header, of one digit or two. 0: it is another one, or not whole; else its bytes. */
static size_t
short_header(const char *p, size_t there, int64_t *value)
{
    size_t n = there > 4 && p[2] != '\r' ? 2 : 1;

    if (there < 4 || p[1] < '1' || p[1] > '9' || p[n + 1] != '\r' || p[n + 2] != '\n') {
        return 0;
    }
    *value = p[1] - '0';
    if (n == 2) {
        if (p[2] < '0' || p[2] > '9') {
            return 0;
        }
        *value = *value * 10 + (p[2] - '0');
    }
    return n + 3;
}

/* Reads the header line at `scanned` and steps behind it. */
static enum reader_result
header(struct reader *r, const struct header_errors *errors, int64_t *value)
{
    const char *p = r->in.p + r->scanned, *lf;
    size_t there = r->in.n - r->scanned, n = short_header(p, there, value);

    if (n > 0) {
        r->scanned += n;
        return READER_READY;
    }
    lf = memchr(p, '\n', there < HEADER_BYTES_MAX ? there : HEADER_BYTES_MAX);
    if (lf == NULL) {
        return there < HEADER_BYTES_MAX ? READER_MORE : bad(r, errors->too_big);
    }
    if (lf - p < 2 || lf[-1] != '\r' || !parse_number(p + 1, (size_t)(lf - p) - 2, value)) {
        return bad(r, errors->invalid);
    }
    r->scanned += (size_t)(lf - p) + 1;
    return READER_READY;
}

static enum reader_result
array_header(struct reader *r)
{
    static const struct header_errors errors = {"too big mbulk count string", "invalid multibulk length"};
    int64_t count;
    enum reader_result res = header(r, &errors, &count);

    if (res != READER_READY) {
        return res;
    }
    if (count > r->limits->words) {
        return bad(r, "too many words");
    }
    r->words_left = count > 0 ? (unsigned)count : 0;
    r->bytes_left = r->limits->line_bytes;
    return READER_READY;
}

static enum reader_result
bulk_header(struct reader *r)
{
    static const struct header_errors errors = {"too big bulk count string", "invalid bulk length"};
    int64_t n;
    enum reader_result res;

    if (r->scanned == r->in.n) {
        return READER_MORE;
    }
    if (r->in.p[r->scanned] != '$') {
        unsigned char c = (unsigned char)r->in.p[r->scanned];

        snprintf(r->got, sizeof(r->got),
                 c >= 0x20 && c <= 0x7e ? "expected '$', got '%c'" : "expected '$', got '\\x%02x'", c);
        return bad(r, r->got);
    }
    res = header(r, &errors, &n);
    if (res != READER_READY) {
        return res;
    }
    if (n < 0 || (uint64_t)n > r->limits->word_bytes) {
        return bad(r, "invalid bulk length");
    }
    if ((uint64_t)n > r->bytes_left) {
        return bad(r, "too big request");
    }
    r->bytes_left -= (size_t)n;
    r->bulk_left = n;
    return READER_READY;
}

/* Steps behind the word at `scanned`. */
static enum reader_result
bulk_body(struct reader *r)
{
    size_t n = (size_t)r->bulk_left;
    size_t there = r->in.n - r->scanned;
    const char *end = r->in.p + r->scanned + n;

    if ((there > n && end[0] != '\r') || (there > n + 1 && end[1] != '\n')) {
        return bad(r, "expected CRLF after a bulk string");
    }
    if (there < n + 2) {
        return READER_MORE;
    }
    r->scanned += n + 2;
    r->bulk_left = -1;
    r->words_left--;
    return READER_READY;
}

/* The number of a header line that has been checked; steps behind the line. */
static size_t
checked_number(const char **p)
{
    size_t v = 0;

    for ((*p)++; **p != '\r'; (*p)++) {
        v = v * 10 + (size_t)(**p - '0');
    }
    *p += 2;
    return v;
}

/* The words of a request that has been checked, and ends at `scanned`. */
static void
find_words(const struct reader *r, struct words *out)
{
    const char *p = r->in.p + r->at;
    size_t n = checked_number(&p);

    for (out->n = 0; out->n < n; out->n++) {
        out->word[out->n].n = checked_number(&p);
        out->word[out->n].p = p;
        p += out->word[out->n].n + 2;
    }
    assert(p == r->in.p + r->scanned);
}

/* Of a request that came in pieces the words are looked for anew: that costs less than to keep where they were. */
static enum reader_result
next_array(struct reader *r, struct words *out)
{
    bool begins = r->words_left == 0;
    enum reader_result res = begins ? array_header(r) : READER_READY;

    if (res == READER_READY && r->words_left == 0) {
        consume(r, r->scanned, out);
        return READER_READY;
    }
    while (res == READER_READY && r->words_left > 0) {
        if (r->bulk_left < 0) {
            res = bulk_header(r);
        } else {
            out->word[out->n++] = (struct slice){r->in.p + r->scanned, (size_t)r->bulk_left};
            res = bulk_body(r);
        }
    }
    if (res != READER_READY) {
        out->n = 0;
        return res;
    }
    if (!begins) {
        find_words(r, out);
    }
    consume(r, r->scanned, out);
    out->inline_form = false;
    return READER_READY;
}

/* --- both ---------------------------------------------------------------------------------------- */

enum reader_result
reader_next(struct reader *r, struct words *out)
{
    enum reader_result res = READER_READY;

    if (r->error != NULL) {
        return READER_BAD;
    }
    out->n = 0;
    while (res == READER_READY && out->n == 0 && r->at < r->in.n) {
        res = r->in.p[r->at] == '*' ? next_array(r, out) : next_line(r, out);
    }
    if (res == READER_BAD || out->n > 0) {
        return res;
    }
    if (reader_pending(r) == 0) {
        let_go(r);
    } else {
        compact(r);
    }
    return READER_MORE;
}
