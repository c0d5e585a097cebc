/*
 * slice.h -- a view of bytes that another record owns.
 *
 * A slice is valid during the call that it is passed to; a callee that needs the bytes longer copies them. The bytes
 * may contain NUL, and no NUL ends them.
 */
#ifndef RLOCKD_BASE_SLICE_H
#define RLOCKD_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
    const char *p; /* borrowed; may be NULL when n == 0 */
    size_t n;      /* bytes */
};

#define SLICE_LIT(s) ((struct slice){(s), sizeof(s) - 1})

static inline struct slice
slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static inline bool
slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Compares without regard to ASCII case, as verbs and options are. */
static inline bool
slice_is(struct slice a, const char *word)
{
    return a.n == strlen(word) && (a.n == 0 || strncasecmp(a.p, word, a.n) == 0);
}

static inline bool
slice_begins(struct slice a, const char *begin)
{
    size_t n = strlen(begin);

    return a.n >= n && (n == 0 || memcmp(a.p, begin, n) == 0);
}

#endif
