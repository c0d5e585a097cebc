/*
 * kinds.c -- the tables of kinds.def and values.def, and the search for a name in them.
 */
#include "daemon/base/kinds.h"

#include <assert.h>

const struct kind_row kind_rows[KINDS] = {
#define KIND(id, name, flags, help) [KIND_##id] = {name, flags, help},
#include "daemon/base/kinds.def"
#undef KIND
};

static const struct {
    const char *name, *pattern;
} values[VALUES] = {
#define FOUR(class) class class class class
#define VALUE(id, name, pattern, help) [VALUE_##id] = {name, "^" pattern "$"},
#include "daemon/base/values.def"
#undef VALUE
#undef FOUR
};

bool
kind_parse(struct slice word, enum kind *out)
{
    for (int k = 0; k < KINDS; k++) {
        if (slice_is(word, kind_rows[k].name)) {
            *out = (enum kind)k;
            return true;
        }
    }
    return false;
}

const char *
value_format_name(enum value_format f)
{
    assert((unsigned)f < VALUES);
    return values[f].name;
}

const char *
value_format_pattern(enum value_format f)
{
    assert((unsigned)f < VALUES);
    return values[f].pattern;
}

