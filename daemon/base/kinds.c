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

static const char *const value_names[VALUES] = {
#define VALUE(id, name, help) [VALUE_##id] = name,
#include "daemon/base/values.def"
#undef VALUE
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
    return value_names[f];
}

bool
value_format_parse(struct slice word, enum value_format *out)
{
    for (int v = 0; v < VALUES; v++) {
        if (slice_is(word, value_names[v])) {
            *out = (enum value_format)v;
            return true;
        }
    }
    return false;
}
