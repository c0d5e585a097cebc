/*
 * buf.h -- a growing byte buffer with a sticky error.
 *
 * Writers append without checking. An append that would exceed `max` sets `failed`; later appends do nothing, and the
 * owner checks `failed` once at the end. An evbuffer does not serve: it is a chain, and parsers want their bytes in one
 * piece.
 */
#ifndef RLOCKD_BASE_BUF_H
#define RLOCKD_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/slice.h"

struct buf {
    char *p;     /* owned, `head` bytes into its block */
    size_t n;    /* bytes used */
    size_t room; /* bytes allocated from p on */
    size_t max;  /* cap in bytes; 0 = none */
    uint32_t head; /* dropped bytes between the start of the block and p */
    bool failed; /* sticky: an append would pass max, or SIZE_MAX / 4 */
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);

/* Appends n bytes. */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_adds(struct buf *b, const char *text);
void buf_add_slice(struct buf *b, struct slice s);
enum { BUF_DIGITS = 20 };
size_t buf_digits(char out[BUF_DIGITS], uint64_t n); /* n in decimal, without a NUL; returns the number of digits */
void buf_add_u64(struct buf *b, uint64_t n); /* in decimal */
void buf_add_i64(struct buf *b, int64_t n);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

/* Appends s with every byte outside 0x20..0x7e, and `"` and `\`, as \xHH: for logs and MONITOR. */
void buf_add_escaped(struct buf *b, struct slice s);

/* Makes room for n more bytes, and returns the address for them; the caller adds to b->n. NULL: past max. */
char *buf_space(struct buf *b, size_t n);

/*
 * Drops the first n bytes. Moves the rest to the start of the block only if the rest is not longer than all bytes
 * dropped since the last move, or these would be more than 4 GiB.
 */
void buf_drop(struct buf *b, size_t n);

/* Cuts to the first n bytes, and clears `failed`. */
void buf_cut(struct buf *b, size_t n);

/* Empties the buffer, and clears `failed`. Frees the memory if it is larger than `keep`. */
void buf_clear(struct buf *b, size_t keep);

/* The block, as malloc() knows it. */
static inline void *
buf_block(const struct buf *b)
{
    return b->head == 0 ? b->p : b->p - b->head;
}

static inline struct slice
buf_slice(const struct buf *b)
{
    return (struct slice){b->p, b->n};
}

#endif
