/*
 * glob.c -- matches a name against a pattern without recursion and backtracking.
 *
 * Up to its first `*` a pattern is compared byte by byte. From there on a set of positions is kept: bit i is set if the
 * pattern so far matches the first i bytes of the name. Each element of the pattern moves the whole set, 64 positions
 * at a time; a `*` adds every position behind the lowest one. (A search with two cursors that steps back to the last
 * `*` costs pattern x name steps.)
 *
 * As in Redis, a set without its `]` ends with the pattern, and a `\` at the end stands for itself.
 */
#include "daemon/base/glob.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { WORDS_MAX = GLOB_NAME_MAX / 64 + 1, SET_WORDS = 256 / 64 };

/* ---- the elements of a pattern ---- */

/* A set of byte values. */
struct byte_set {
    uint64_t has[SET_WORDS];
};

static bool
byte_set_has(const struct byte_set *set, unsigned char c)
{
    return (set->has[c / 64] >> (c % 64) & 1) != 0;
}

static void
byte_set_add(struct byte_set *set, unsigned low, unsigned high)
{
    for (unsigned c = low; c <= high; c++) {
        set->has[c / 64] |= UINT64_C(1) << (c % 64);
    }
}

/* Reads a set, which begins at p[*at] (behind the `[`), and moves *at behind its `]`. */
static struct byte_set
read_set(struct slice p, size_t *at)
{
    struct byte_set set = {{0}};
    size_t i = *at;
    bool negated = i < p.n && p.p[i] == '^';

    i += negated;
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
        byte_set_add(&set, low < high ? low : high, low < high ? high : low);
    }
    *at = i < p.n ? i + 1 : i;
    for (size_t w = 0; negated && w < SET_WORDS; w++) {
        set.has[w] = ~set.has[w];
    }
    return set;
}

enum element { LITERAL, ANY, SET };

/* Reads the element at p[*at], which is no `*`, and moves *at behind it. */
static enum element
read_element(struct slice p, size_t *at, unsigned char *literal, struct byte_set *set)
{
    char c = p.p[(*at)++];

    if (c == '[') {
        *set = read_set(p, at);
        return SET;
    }
    if (c == '?') {
        return ANY;
    }
    if (c == '\\' && *at < p.n) {
        c = p.p[(*at)++];
    }
    *literal = (unsigned char)c;
    return LITERAL;
}

/* ---- behind the first star ---- */

/* Where in the name each byte value occurs, as rows of bits. */
struct occurrences {
    size_t words;                      /* words of a row; bit i of a row stands for byte i of the name */
    struct byte_set occurs;            /* the values that occur */
    uint8_t row_of[256];               /* the number of the row of a value that occurs */
    uint64_t rows[256 * WORDS_MAX];    /* the rows, one behind the other */
    uint64_t everywhere[WORDS_MAX], set[WORDS_MAX]; /* further rows: of all bytes, and of those in a set */
};

static void
find_occurrences(struct occurrences *oc, struct slice name)
{
    size_t n = 0;

    oc->words = name.n / 64 + 1;
    oc->occurs = (struct byte_set){{0}};
    memset(oc->everywhere, 0xff, oc->words * sizeof(oc->everywhere[0]));
    oc->everywhere[name.n / 64] = (UINT64_C(1) << (name.n % 64)) - 1;
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];

        if (!byte_set_has(&oc->occurs, c)) {
            byte_set_add(&oc->occurs, c, c);
            oc->row_of[c] = (uint8_t)n;
            memset(&oc->rows[n++ * oc->words], 0, oc->words * sizeof(oc->rows[0]));
        }
        oc->rows[oc->row_of[c] * oc->words + i / 64] |= UINT64_C(1) << (i % 64);
    }
}

static unsigned
count(const struct byte_set *occurs, const struct byte_set *set, uint64_t flip)
{
    unsigned n = 0;

    for (size_t w = 0; w < SET_WORDS; w++) {
        n += (unsigned)__builtin_popcountll(occurs->has[w] & (set->has[w] ^ flip));
    }
    return n;
}

/* Adds to oc->set the rows of the values that occur and are in the set, or, if flip is all ones, are not in it. */
static void
add_rows(struct occurrences *oc, const struct byte_set *set, uint64_t flip)
{
    for (size_t w = 0; w < SET_WORDS; w++) {
        uint64_t left = oc->occurs.has[w] & (set->has[w] ^ flip);

        for (; left != 0; left &= left - 1) {
            const uint64_t *row = &oc->rows[oc->row_of[w * 64 + (unsigned)__builtin_ctzll(left)] * oc->words];

            for (size_t i = 0; i < oc->words; i++) {
                oc->set[i] |= row[i];
            }
        }
    }
}

/* Where bytes of a set occur: from the rows of the values in it, or not in it, or, if both are many, byte by byte. */
static const uint64_t *
occurrences_of(struct occurrences *oc, const struct byte_set *set, struct slice name)
{
    unsigned in = count(&oc->occurs, set, 0), out = count(&oc->occurs, set, UINT64_MAX);
    bool without = out < in;

    memset(oc->set, 0, oc->words * sizeof(oc->set[0]));
    if ((without ? out : in) * oc->words > name.n) {
        for (size_t i = 0; i < name.n; i++) {
            oc->set[i / 64] |= (uint64_t)byte_set_has(set, (unsigned char)name.p[i]) << (i % 64);
        }
        return oc->set;
    }
    add_rows(oc, set, without ? UINT64_MAX : 0);
    for (size_t i = 0; without && i < oc->words; i++) {
        oc->set[i] = oc->everywhere[i] & ~oc->set[i];
    }
    return oc->set;
}

/* A set of positions in the name; words outside of low .. high are zero. */
struct positions {
    uint64_t bits[WORDS_MAX];
    size_t low, high;
};

/* A position before a byte of this row moves to behind that byte; the others are dropped. False: none is left. */
static bool
advance(struct positions *s, const uint64_t *row)
{
    uint64_t carry = 0, any = 0;

    for (size_t w = s->low; w <= s->high; w++) {
        uint64_t stay = s->bits[w] & row[w];

        s->bits[w] = stay << 1 | carry;
        any |= s->bits[w];
        carry = stay >> 63;
    }
    if (carry != 0) { /* at most position name.n: WORDS_MAX has a word for it */
        s->bits[++s->high] = carry;
        any = carry;
    }
    while (s->low < s->high && s->bits[s->low] == 0) {
        s->low++;
    }
    while (s->high > s->low && s->bits[s->high] == 0) {
        s->high--;
    }
    return any != 0;
}

/* Adds every position behind the lowest one, up to n. */
static void
fill(struct positions *s, size_t n)
{
    uint64_t lowest = s->bits[s->low] & -s->bits[s->low];

    s->high = n / 64;
    for (size_t w = s->low; w <= s->high; w++) {
        s->bits[w] = w == s->low ? -lowest : UINT64_MAX;
    }
    if (n % 64 != 63) {
        s->bits[s->high] &= (UINT64_C(1) << (n % 64 + 1)) - 1;
    }
}

/* Matches the name against the pattern from p[i] on, which is a `*`. */
static bool
match_rest(struct slice p, size_t i, struct slice name)
{
    struct positions s = {.bits = {1}};
    struct occurrences oc;

    find_occurrences(&oc, name);
    while (i < p.n) {
        const uint64_t *row = oc.everywhere;
        unsigned char literal = 0;
        struct byte_set set;

        if (p.p[i] == '*') {
            i++;
            fill(&s, name.n);
            continue;
        }
        switch (read_element(p, &i, &literal, &set)) {
        case LITERAL:
            if (!byte_set_has(&oc.occurs, literal)) {
                return false;
            }
            row = &oc.rows[oc.row_of[literal] * oc.words];
            break;
        case ANY:
            break;
        case SET:
            row = occurrences_of(&oc, &set, name);
            break;
        }
        if (!advance(&s, row)) {
            return false;
        }
    }
    return (s.bits[name.n / 64] >> (name.n % 64) & 1) != 0;
}

bool
glob_match(struct slice pattern, struct slice name)
{
    size_t p = 0, n = 0;

    assert(name.n <= GLOB_NAME_MAX);
    while (p < pattern.n && pattern.p[p] != '*') {
        unsigned char literal = 0;
        struct byte_set set;
        enum element e = read_element(pattern, &p, &literal, &set);

        if (n == name.n || (e == LITERAL && (unsigned char)name.p[n] != literal) ||
            (e == SET && !byte_set_has(&set, (unsigned char)name.p[n]))) {
            return false;
        }
        n++;
    }
    if (p == pattern.n) {
        return n == name.n;
    }
    if (p + 1 == pattern.n) {
        return true;
    }
    return match_rest(pattern, p, (struct slice){n > 0 ? name.p + n : name.p, name.n - n});
}
