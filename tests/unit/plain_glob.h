/*
 * plain_glob.h -- a second implementation of globs, to compare daemon/base/glob.c with: two cursors, and a step back to
 * the last `*` on a mismatch. Its cost is length of the pattern x length of the name.
 */
#ifndef RLOCKD_TESTS_PLAIN_GLOB_H
#define RLOCKD_TESTS_PLAIN_GLOB_H

#include <stdbool.h>

#include "daemon/base/slice.h"

/* Matches c against the set whose bytes begin at p[*at] (behind the `[`); leaves *at behind its `]`. */
static bool
set_match(struct slice p, size_t *at, unsigned char c)
{
    size_t i = *at;
    bool negated = false, found = false;

    if (i < p.n && p.p[i] == '^') {
        negated = true;
        i++;
    }
    while (i < p.n && p.p[i] != ']') {
        unsigned char low, high;

        if (p.p[i] == '\\' && i + 1 < p.n) {
            i++;
        }
        low = high = (unsigned char)p.p[i++];
        if (i + 1 < p.n && p.p[i] == '-' && p.p[i + 1] != ']') {
            i++;
            if (p.p[i] == '\\' && i + 1 < p.n) {
                i++;
            }
            high = (unsigned char)p.p[i++];
        }
        if (low > high) {
            unsigned char swap = low;
            low = high;
            high = swap;
        }
        found = found || (c >= low && c <= high);
    }
    *at = i < p.n ? i + 1 : i;
    return found != negated;
}

/* Matches one byte against the pattern element at p[*at], which is no `*`; on a match *at is behind it. */
static bool
element_match(struct slice p, size_t *at, unsigned char c)
{
    size_t i = *at;
    bool hit;

    if (p.p[i] == '[') {
        i++;
        hit = set_match(p, &i, c);
    } else if (p.p[i] == '?') {
        i++;
        hit = true;
    } else {
        if (p.p[i] == '\\' && i + 1 < p.n) {
            i++;
        }
        hit = (unsigned char)p.p[i++] == c;
    }
    if (hit) {
        *at = i;
    }
    return hit;
}

static bool
plain_match(struct slice pattern, struct slice name)
{
    size_t p = 0, n = 0;
    size_t star_p = 0, star_n = 0; /* behind the last `*`, and where the bytes it did not take begin */
    bool starred = false;

    while (n < name.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            starred = true;
            star_p = ++p;
            star_n = n;
        } else if (p < pattern.n && element_match(pattern, &p, (unsigned char)name.p[n])) {
            n++;
        } else if (starred) {
            p = star_p;
            n = ++star_n;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*') {
        p++;
    }
    return p == pattern.n;
}

#endif
