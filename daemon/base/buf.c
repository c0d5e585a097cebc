/*
 * buf.c -- a growing byte buffer with a sticky error.
 *
 * Owns the memory behind struct buf. Only buf_clear() and buf_fini() free memory. Invariants:
 *
 * B1  n <= room, and p has room + 1 bytes when room > 0: the last one is for vsnprintf's NUL.
 * B2  max == 0, or n <= max.
 * B3  n == 0 implies head == 0. So pool.c may pass the memory of an empty buffer on as p and room.
 * B4  failed: appends do nothing until buf_clear() or buf_cut().
 */
#include "daemon/base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/memory.h"

#define BUF_FIRST_BYTES 64
#define EIGHT_DIGITS 100000000U

void
buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void
buf_fini(struct buf *b)
{
    free(buf_block(b));
    *b = (struct buf){.max = b->max};
}

/* Makes room for n more bytes. False: they do not fit, and `failed` is set. */
static bool
grow(struct buf *b, size_t n)
{
    size_t size = b->room > 0 ? b->head + b->room + 1 : BUF_FIRST_BYTES;
    char *p;

    assert(b->n <= b->room);
    if (b->failed || n > SIZE_MAX / 4 - b->n || (b->max > 0 && n > b->max - b->n)) {
        b->failed = true;
        return false;
    }
    while (size <= b->head + b->n + n) {
        size *= 2;
    }
    p = mem_realloc(buf_block(b), size);
    b->p = p + b->head;
    b->room = size - 1 - b->head;
    return true;
}

/* As grow(), but inline for the usual case, in which there is room. */
static inline bool
reserve(struct buf *b, size_t n)
{
    bool fits = b->p != NULL && n <= b->room - b->n && !b->failed && (b->max == 0 || n <= b->max - b->n);

    return fits || grow(b, n);
}

char *
buf_space(struct buf *b, size_t n)
{
    return reserve(b, n) ? b->p + b->n : NULL;
}

void
buf_add(struct buf *b, const void *p, size_t n)
{
    if (n > 0 && reserve(b, n)) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    }
}

void
buf_adds(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void
buf_add_slice(struct buf *b, struct slice s)
{
    buf_add(b, s.p, s.n);
}

/* The number of digits. 1233 / 4096 is a little less than log10(2). */
static size_t
count_digits(uint64_t n)
{
    static const uint64_t tens[BUF_DIGITS] = {
        0, /* 0 has one digit */
        10U, 100U, 1000U, 10000U, 100000U, 1000000U, 10000000U, 100000000U, 1000000000U, 10000000000U,
        100000000000U, 1000000000000U, 10000000000000U, 100000000000000U, 1000000000000000U,
        10000000000000000U, 100000000000000000U, 1000000000000000000U, 10000000000000000000U,
    };
    unsigned bits = 64 - (unsigned)__builtin_clzll(n | 1), log = bits * 1233 >> 12;

    return log + (n >= tens[log]);
}

/* Each division yields two digits. */
size_t
buf_digits(char out[BUF_DIGITS], uint64_t n)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    size_t many, at;
    uint32_t left; /* the value of the first digits; divisions of 32 bits cost less */

    if (n < 10) {
        out[0] = (char)('0' + n);
        return 1;
    }
    many = count_digits(n);
    for (at = many; n >= EIGHT_DIGITS; n /= EIGHT_DIGITS) {
        for (uint32_t i = 0, eight = (uint32_t)(n % EIGHT_DIGITS); i < 4; i++, eight /= 100) {
            at -= 2;
            memcpy(out + at, &pairs[2 * (eight % 100)], 2);
        }
    }
    for (left = (uint32_t)n; at > 1; left /= 100) {
        at -= 2;
        memcpy(out + at, &pairs[2 * (left % 100)], 2);
    }
    if (at > 0) {
        out[0] = (char)('0' + left);
    }
    return many;
}

/* Without printf, which would cost more than all the rest of a request. */
void
buf_add_u64(struct buf *b, uint64_t n)
{
    char digits[BUF_DIGITS];

    buf_add(b, digits, buf_digits(digits, n));
}

void
buf_add_i64(struct buf *b, int64_t n)
{
    if (n < 0) {
        buf_add(b, "-", 1);
    }
    buf_add_u64(b, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

void
buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
    va_list again;
    int n;

    if (!reserve(b, 0)) {
        return;
    }
    va_copy(again, args);
    n = vsnprintf(b->p + b->n, b->room - b->n + 1, fmt, args);
    assert(n >= 0);
    if ((size_t)n > b->room - b->n && reserve(b, (size_t)n)) {
        n = vsnprintf(b->p + b->n, b->room - b->n + 1, fmt, again);
        assert(n >= 0);
    }
    va_end(again);
    if (reserve(b, (size_t)n)) {
        b->n += (size_t)n;
    }
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    buf_vprintf(b, fmt, args);
    va_end(args);
}

static bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\';
}

void
buf_add_escaped(struct buf *b, struct slice s)
{
    size_t i, run = 0;

    for (i = 0; i < s.n; i++) {
        if (!is_plain((unsigned char)s.p[i])) {
            buf_add(b, s.p + run, i - run);
            buf_printf(b, "\\x%02x", (unsigned char)s.p[i]);
            run = i + 1;
        }
    }
    if (run < s.n) {
        buf_add(b, s.p + run, s.n - run);
    }
}

/* Moves the used bytes, without the first n, to the start of the block. */
static void
move_back(struct buf *b, size_t n)
{
    char *to = buf_block(b);

    b->n -= n;
    memmove(to, b->p + n, b->n);
    b->p = to;
    b->room += b->head;
    b->head = 0;
}

void
buf_drop(struct buf *b, size_t n)
{
    assert(n <= b->n);
    if (n == 0) {
        return;
    }
    if (n == b->n && b->head == 0) {
        b->n = 0;
        return;
    }
    if (b->n - n <= b->head + n || n > UINT32_MAX - b->head) {
        move_back(b, n);
        return;
    }
    b->n -= n;
    b->p += n;
    b->room -= n;
    b->head += (uint32_t)n;
}

void
buf_cut(struct buf *b, size_t n)
{
    assert(n <= b->n);
    b->n = n;
    b->failed = false;
    if (n == 0 && b->head > 0) {
        move_back(b, 0);
    }
}

void
buf_clear(struct buf *b, size_t keep)
{
    buf_cut(b, 0);
    if (b->room > keep) {
        free(b->p);
        b->p = NULL;
        b->room = 0;
    }
}
