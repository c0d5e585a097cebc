/*
 * fuzz.h -- shared by all targets: the entry point, a check that ends the run, and bytes used as choices.
 *
 * A target is a function of its bytes: no time, no random numbers, no file that another run could see, no traces.
 * libFuzzer (make fuzz) or replay.c (make fuzz-replay) calls it.
 */
#ifndef RLOCKD_TESTS_FUZZ_H
#define RLOCKD_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/slice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that does not hold ends the process, as a sanitizer does: both callers keep the bytes. */
#define CHECK(cond, ...)                                                                                               \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s:", __FILE__, __LINE__, #cond);                                                 \
            fprintf(stderr, " " __VA_ARGS__);                                                                          \
            fputc('\n', stderr);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The input as a row of choices; an empty input gives zeros. */
struct choices {
    const uint8_t *p;
    size_t n;
};

static inline unsigned
take_byte(struct choices *c)
{
    if (c->n == 0) {
        return 0;
    }
    c->n--;
    return *c->p++;
}

/* 0 .. n - 1 */
static inline unsigned
take_below(struct choices *c, unsigned n)
{
    return take_byte(c) % n;
}

/* A number of any size; small numbers and limits come often. */
static inline int64_t
take_number(struct choices *c)
{
    static const int64_t borders[] = {0, 1, -1, -2, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, INT64_C(1) << 53,
                                      1000000, UINT32_MAX, 4096, -(INT64_C(1) << 53), 1000, 3, 7};
    unsigned how = take_byte(c);
    uint64_t v = 0;

    if (how < 128) {
        return how;
    }
    if (how < 192) {
        return borders[how % (sizeof(borders) / sizeof(borders[0]))];
    }
    for (unsigned i = 0; i <= how % 8; i++) {
        v = v << 8 | take_byte(c);
    }
    return (int64_t)v;
}

/* At most max bytes, into the input. */
static inline struct slice
take_bytes(struct choices *c, size_t max)
{
    size_t n = max > 0 ? take_byte(c) % (max + 1) : 0;
    struct slice s = {(const char *)c->p, n < c->n ? n : c->n};

    c->p += s.n;
    c->n -= s.n;
    return s;
}

/* The rest of the input. */
static inline struct slice
take_rest(struct choices *c)
{
    struct slice s = {(const char *)c->p, c->n};

    c->p += c->n;
    c->n = 0;
    return s;
}

/*
 * A copy without room behind it, so that a read past its end is found. NUL-terminated when `text`. The caller frees it.
 */
static inline char *
exact_copy(struct slice s, bool text)
{
    char *copy = malloc(s.n + text + (s.n + text == 0));

    CHECK(copy != NULL);
    if (s.n > 0) {
        memcpy(copy, s.p, s.n);
    }
    if (text) {
        copy[s.n] = '\0';
    }
    return copy;
}

static inline bool
is_printable_line(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < 0x20 || s.p[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

#endif
