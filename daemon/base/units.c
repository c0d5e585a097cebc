/*
 * units.c -- durations, sizes and whole numbers: one reader of digits, one table of units for each.
 *
 * Refuses signs, blanks, fractions, and numbers that do not fit. Suffixes are compared exactly: `m` is minutes.
 */
#include "daemon/base/units.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/clock.h"

#define DURATION_MAX_US (365 * 24 * 3600 * US_PER_S)

struct unit {
    const char *suffix;
    int64_t factor;
};

/* From the largest to the smallest: printing uses the first unit that divides the value. */
static const struct unit duration_units[] = {
    {"h", 3600 * US_PER_S},
    {"m", 60 * US_PER_S},
    {"s", US_PER_S},
    {"ms", US_PER_MS},
    {"us", 1},
};

static const struct unit size_units[] = {
    {"GiB", INT64_C(1) << 30},
    {"MiB", INT64_C(1) << 20},
    {"KiB", INT64_C(1) << 10},
    {"", 1},
};

#define UNITS_N(table) (sizeof(table) / sizeof((table)[0]))

/* Takes the leading digits off s. False: there are none, or the number does not fit. */
static bool
take_digits(struct slice *s, int64_t *n)
{
    size_t at = 0;
    int64_t v = 0;

    while (at < s->n && s->p[at] >= '0' && s->p[at] <= '9') {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s->p[at] - '0', &v)) {
            return false;
        }
        at++;
    }
    if (at == 0) {
        return false;
    }
    s->p += at;
    s->n -= at;
    *n = v;
    return true;
}

/* Parses digits and a suffix of the table. Without a suffix, `plain` is the factor. */
static bool
parse(struct slice s, const struct unit *units, size_t units_n, int64_t plain, int64_t *out)
{
    int64_t n;

    if (!take_digits(&s, &n)) {
        return false;
    }
    if (s.n == 0) {
        return !__builtin_mul_overflow(n, plain, out);
    }
    for (size_t i = 0; i < units_n; i++) {
        if (slice_eq(s, slice_of(units[i].suffix))) {
            return !__builtin_mul_overflow(n, units[i].factor, out);
        }
    }
    return false;
}

/* Prints v in the largest unit that divides it. The unit of 0 is `zero`; that of a v which no unit divides, `rest`. */
static void
print(int64_t v, const struct unit *units, size_t units_n, const char *zero, const char *rest, char out[24])
{
    if (v == 0) {
        snprintf(out, 24, "0%s", zero);
        return;
    }
    for (size_t i = 0; i < units_n; i++) {
        if (v % units[i].factor == 0) {
            snprintf(out, 24, "%" PRId64 "%s", v / units[i].factor, units[i].suffix);
            return;
        }
    }
    snprintf(out, 24, "%" PRId64 "%s", v, rest);
}

bool
duration_parse(struct slice s, int64_t *us)
{
    int64_t v;

    if (!parse(s, duration_units, UNITS_N(duration_units), US_PER_MS, &v) || v > DURATION_MAX_US) {
        return false;
    }
    *us = v;
    return true;
}

void
duration_print(int64_t us, char out[24])
{
    if (us == DURATION_FOREVER) {
        snprintf(out, 24, "forever");
        return;
    }
    print(us, duration_units, UNITS_N(duration_units), "ms", "us", out);
}

bool
size_parse(struct slice s, int64_t *bytes)
{
    int64_t v;

    if (!parse(s, size_units, UNITS_N(size_units), 1, &v)) {
        return false;
    }
    *bytes = v;
    return true;
}

void
size_print(int64_t bytes, char out[24])
{
    print(bytes, size_units, UNITS_N(size_units), "", "", out);
}

bool
number_parse(struct slice s, int64_t *n)
{
    int64_t v;

    if (!take_digits(&s, &v) || s.n != 0) {
        return false;
    }
    *n = v;
    return true;
}
