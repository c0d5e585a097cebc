/*
 * resp_check.h -- checks RESP byte for byte. Stricter than tests/unit/resp.h, and it accepts half a value: the bytes of
 * a socket may end anywhere.
 */
#ifndef RLOCKD_TESTS_FUZZ_RESP_CHECK_H
#define RLOCKD_TESTS_FUZZ_RESP_CHECK_H

#include "tests/fuzz/fuzz.h"

/* The line of one value: its bytes with CR LF, 0 when it is not complete. Printable, whatever the request was. */
static inline size_t
resp_line(struct slice s)
{
    const char *cr = s.n > 0 ? memchr(s.p, '\r', s.n) : NULL;
    size_t n = cr != NULL ? (size_t)(cr - s.p) : s.n;

    CHECK(is_printable_line((struct slice){s.p, n}), "in a line: %.*s", (int)n, s.p);
    if (cr == NULL || n + 1 == s.n) {
        return 0;
    }
    CHECK(s.p[n + 1] == '\n');
    return n + 2;
}

/* A number after the type, as Redis writes it. */
static inline long long
resp_number(struct slice line, bool may_be_negative)
{
    char *end;
    long long v = strtoll(line.p + 1, &end, 10);

    CHECK(line.n >= 4 && end == line.p + line.n - 2, "%.*s", (int)line.n - 2, line.p);
    CHECK(line.p[1] != '+' && line.p[1] != ' ' && (line.p[1] != '0' || line.n == 4) && (v >= 0 || may_be_negative));
    return v;
}

/* The bytes of the value that s begins with; 0 when it is not complete; ends the run when it is no value. */
static inline size_t
resp_value(struct slice s, int proto, int depth)
{
    size_t at = resp_line(s), items;
    struct slice line = {s.p, at};
    long long n;

    CHECK(depth < 10); /* COMMAND DOCS: an option of an option of a command: 8 */
    if (at == 0) {
        return 0;
    }
    CHECK(proto == 3 || strchr("_=%~>", s.p[0]) == NULL, "of RESP3: %.*s", (int)at - 2, s.p);
    switch (s.p[0]) {
    case '+':
        return at;
    case '-': /* a prefix in capitals */
        CHECK(at > 4 && s.p[1] >= 'A' && s.p[1] <= 'Z');
        return at;
    case ':':
        (void)resp_number(line, true);
        return at;
    case '_':
        CHECK(at == 3);
        return at;
    case '=':
    case '$':
        n = resp_number(line, true); /* where both versions of RESP are allowed, so is the old null */
        CHECK(n >= -1);
        if (n < 0 || s.n < at + (size_t)n + 2) {
            return n < 0 ? at : 0;
        }
        CHECK(memcmp(s.p + at + n, "\r\n", 2) == 0);
        return at + (size_t)n + 2;
    case '%':
    case '~':
    case '>':
    case '*':
        items = (size_t)resp_number(line, false) * (s.p[0] == '%' ? 2 : 1);
        while (items-- > 0) {
            size_t more = resp_value((struct slice){s.p + at, s.n - at}, proto, depth + 1);

            if (more == 0) {
                return 0;
            }
            at += more;
        }
        return at;
    default:
        CHECK(!"a type of RESP", "%.*s", (int)at - 2, s.p);
    }
    return 0;
}

#endif
