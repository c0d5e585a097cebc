/*
 * glob.c -- match a name against a pattern without recursion.
 *
 * Two cursors. At a `*` the place is remembered; on a mismatch the last `*` takes one byte more and the
 * rest of the pattern starts over. Only the *last* `*` need be remembered: whatever an earlier one could
 * take in addition, the later one can take as well. So the cost is at most pattern x name.
 *
 * A set without its `]` ends with the pattern; a `\` at the end stands for itself. As in Redis.
 */
#include "daemon/base/glob.h"

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

bool
glob_match(struct slice pattern, struct slice name)
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
