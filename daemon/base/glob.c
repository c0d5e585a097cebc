/*
 * glob.c -- matches a name against a pattern without recursion and backtracking.
 *
 * Up to its first `*` a pattern is compared byte by byte. From there on a set of positions is kept: bit i says that the
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

enum { WORDS_MAX = GLOB_NAME_MAX / 64 + 1, CLASS_WORDS = 256 / 64 };

/* ---- the elements of a pattern ---- */

/* A set of byte values. */
struct class {
    uint64_t has[CLASS_WORDS];
};

static bool
class_has(const struct class *cs, unsigned char c)
{
    return (cs->has[c / 64] >> (c % 64) & 1) != 0;
}

static void
class_add(struct class *cs, unsigned low, unsigned high)
{
    for (unsigned c = low; c <= high; c++) {
        cs->has[c / 64] |= UINT64_C(1) << (c % 64);
    }
}

/* Reads a set, which begins at p[*at] (behind the `[`), and moves *at behind its `]`. */
static struct class
read_set(struct slice p, size_t *at)
{
    struct class cs = {{0}};
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
        class_add(&cs, low < high ? low : high, low < high ? high : low);
    }
    *at = i < p.n ? i + 1 : i;
    for (size_t w = 0; negated && w < CLASS_WORDS; w++) {
        cs.has[w] = ~cs.has[w];
    }
    return cs;
}

enum element { LITERAL, ANY, SET };

/* Reads the element at p[*at], which is no `*`, and moves *at behind it. */
static enum element
read_element(struct slice p, size_t *at, unsigned char *literal, struct class *set)
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

/* The places in the name of each byte value that occurs there, as rows of bits. */
struct places {
    size_t words;                      /* words of a row; bit i of a row stands for byte i of the name */
    struct class occurs;               /* the values that occur */
    uint8_t row[256];                  /* the number of the row of a value that occurs */
    uint64_t at[256 * WORDS_MAX];      /* the rows, one behind the other */
    uint64_t everywhere[WORDS_MAX], set[WORDS_MAX]; /* further rows: of all bytes, and of those in a set */
};

static void
find_places(struct places *pl, struct slice name)
{
    size_t n = 0;

    pl->words = name.n / 64 + 1;
    pl->occurs = (struct class){{0}};
    memset(pl->everywhere, 0xff, pl->words * sizeof(pl->everywhere[0]));
    pl->everywhere[name.n / 64] = (UINT64_C(1) << (name.n % 64)) - 1;
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];

        if (!class_has(&pl->occurs, c)) {
            class_add(&pl->occurs, c, c);
            pl->row[c] = (uint8_t)n;
            memset(&pl->at[n++ * pl->words], 0, pl->words * sizeof(pl->at[0]));
        }
        pl->at[pl->row[c] * pl->words + i / 64] |= UINT64_C(1) << (i % 64);
    }
}

static unsigned
count(const struct class *occurs, const struct class *set, uint64_t flip)
{
    unsigned n = 0;

    for (size_t w = 0; w < CLASS_WORDS; w++) {
        n += (unsigned)__builtin_popcountll(occurs->has[w] & (set->has[w] ^ flip));
    }
    return n;
}

/* Adds to pl->set the rows of the values that occur and are in the set, or, if flip is all ones, are not in it. */
static void
add_rows(struct places *pl, const struct class *set, uint64_t flip)
{
    for (size_t w = 0; w < CLASS_WORDS; w++) {
        uint64_t left = pl->occurs.has[w] & (set->has[w] ^ flip);

        for (; left != 0; left &= left - 1) {
            const uint64_t *row = &pl->at[pl->row[w * 64 + (unsigned)__builtin_ctzll(left)] * pl->words];

            for (size_t i = 0; i < pl->words; i++) {
                pl->set[i] |= row[i];
            }
        }
    }
}

/* The places of a set's bytes: from the rows of the values in it, or not in it, or, if both are many, byte by byte. */
static const uint64_t *
places_of(struct places *pl, const struct class *set, struct slice name)
{
    unsigned in = count(&pl->occurs, set, 0), out = count(&pl->occurs, set, UINT64_MAX);
    bool without = out < in;

    memset(pl->set, 0, pl->words * sizeof(pl->set[0]));
    if ((without ? out : in) * pl->words > name.n) {
        for (size_t i = 0; i < name.n; i++) {
            pl->set[i / 64] |= (uint64_t)class_has(set, (unsigned char)name.p[i]) << (i % 64);
        }
        return pl->set;
    }
    add_rows(pl, set, without ? UINT64_MAX : 0);
    for (size_t i = 0; without && i < pl->words; i++) {
        pl->set[i] = pl->everywhere[i] & ~pl->set[i];
    }
    return pl->set;
}

/* A set of positions in the name; words outside of low .. high are zero. */
struct positions {
    uint64_t bits[WORDS_MAX];
    size_t low, high;
};

/* Moves each position in front of a byte of this row behind that byte, and drops the others. False: none is left. */
static bool
step(struct positions *s, const uint64_t *row)
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
    struct places pl;

    find_places(&pl, name);
    while (i < p.n) {
        const uint64_t *row = pl.everywhere;
        unsigned char literal = 0;
        struct class set;

        if (p.p[i] == '*') {
            i++;
            fill(&s, name.n);
            continue;
        }
        switch (read_element(p, &i, &literal, &set)) {
        case LITERAL:
            if (!class_has(&pl.occurs, literal)) {
                return false;
            }
            row = &pl.at[pl.row[literal] * pl.words];
            break;
        case ANY:
            break;
        case SET:
            row = places_of(&pl, &set, name);
            break;
        }
        if (!step(&s, row)) {
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
        struct class set;
        enum element e = read_element(pattern, &p, &literal, &set);

        if (n == name.n || (e == LITERAL && (unsigned char)name.p[n] != literal) ||
            (e == SET && !class_has(&set, (unsigned char)name.p[n]))) {
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
