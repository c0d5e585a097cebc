/*
 * writer.c -- values out, as RESP2 or RESP3.
 *
 * Owns nothing: it appends to a buf. Past the buf's `max` nothing is appended, and the buf is `failed`, which its owner
 * checks once, at the end. Invariant: text that a client chose is escaped in every line, so no name breaks the framing.
 */
#include "proto/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { HEAD_BYTES = 2 + BUF_DIGITS + 2 };

/* Writes "<type><n>\r\n", the head of most forms, and returns its end. On the hot path, hence not by printf. */
static char *
put_head(char *at, char type, int64_t n)
{
    *at++ = type;
    if (n < 0) {
        *at++ = '-';
    }
    at += buf_digits(at, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    memcpy(at, "\r\n", 2);
    return at + 2;
}

static void
head(struct writer *w, char type, int64_t n)
{
    char text[HEAD_BYTES];

    buf_add(w->out, text, (size_t)(put_head(text, type, n) - text));
}

/* A head whose type RESP2 lacks. */
static void
head_of(struct writer *w, char type2, char type3, size_t n)
{
    head(w, w->proto == 3 ? type3 : type2, (int64_t)n);
}

void
writer_simple(struct writer *w, const char *text)
{
    assert(strpbrk(text, "\r\n") == NULL);
    buf_add(w->out, "+", 1);
    buf_adds(w->out, text);
    buf_add(w->out, "\r\n", 2);
}

void
writer_int(struct writer *w, int64_t n)
{
    head(w, ':', n);
}

void
writer_bulk(struct writer *w, struct slice s)
{
    head(w, '$', (int64_t)s.n);
    buf_add_slice(w->out, s);
    buf_add(w->out, "\r\n", 2);
}

void
writer_text(struct writer *w, const char *text)
{
    writer_bulk(w, slice_of(text));
}

bool
writer_request(struct buf *out, size_t words, const struct slice *word)
{
    size_t most = HEAD_BYTES;
    char *at;

    for (size_t i = 0; i < words; i++) {
        most += HEAD_BYTES + word[i].n + 2;
    }
    at = buf_space(out, most);
    if (at == NULL) {
        return false;
    }
    at = put_head(at, '*', (int64_t)words);
    for (size_t i = 0; i < words; i++) {
        at = put_head(at, '$', (int64_t)word[i].n);
        if (word[i].n > 0) {
            memcpy(at, word[i].p, word[i].n);
        }
        at += word[i].n;
        memcpy(at, "\r\n", 2);
        at += 2;
    }
    out->n = (size_t)(at - out->p);
    return true;
}

void
writer_null(struct writer *w)
{
    buf_adds(w->out, w->proto == 3 ? "_\r\n" : "$-1\r\n");
}

void
writer_array(struct writer *w, size_t n)
{
    head(w, '*', (int64_t)n);
}

void
writer_map(struct writer *w, size_t pairs)
{
    head_of(w, '*', '%', w->proto == 3 ? pairs : 2 * pairs);
}

void
writer_set(struct writer *w, size_t n)
{
    head_of(w, '*', '~', n);
}

void
writer_push(struct writer *w, size_t n)
{
    head_of(w, '*', '>', n);
}

void
writer_verbatim(struct writer *w, struct slice s)
{
    if (w->proto != 3) {
        writer_bulk(w, s);
        return;
    }
    head(w, '=', (int64_t)s.n + 4);
    buf_adds(w->out, "txt:");
    buf_add_slice(w->out, s);
    buf_add(w->out, "\r\n", 2);
}

static bool
is_printable(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

/* Writes every unprintable byte of out[from..] as \xHH, from the end backwards. */
static void
escape_tail(struct buf *out, size_t from)
{
    static const char hex[] = "0123456789abcdef";
    size_t i, extra = 0;
    char *to;

    for (i = from; i < out->n; i++) {
        extra += is_printable(out->p[i]) ? 0 : 3;
    }
    if (extra == 0 || buf_space(out, extra) == NULL) {
        return;
    }
    i = out->n;
    out->n += extra;
    to = out->p + out->n;
    while (i > from) {
        char c = out->p[--i];

        if (is_printable(c)) {
            *--to = c;
            continue;
        }
        *--to = hex[c & 0xf];
        *--to = hex[(unsigned char)c >> 4];
        *--to = 'x';
        *--to = '\\';
    }
    assert(to == out->p + from);
}

void
writer_error(struct writer *w, enum error_code code, const char *fmt, ...)
{
    va_list args;
    size_t from;

    assert(code < ERRORS);
    buf_add(w->out, "-", 1);
    buf_adds(w->out, error_rows[code].prefix);
    buf_add(w->out, " ", 1);
    from = w->out->n;
    va_start(args, fmt);
    buf_vprintf(w->out, fmt, args);
    va_end(args);
    escape_tail(w->out, from);
    buf_add(w->out, "\r\n", 2);
}

void
writer_error_plain(struct writer *w, enum error_code code)
{
    writer_error(w, code, "%s", error_rows[code].text);
}
