/*
 * usage.h -- the usage line of a command, read back into arguments.
 *
 * The grammar of commands.def: lower case is an argument, anything else a word as it is; [..] may be left out; ...
 * behind an argument: any number of it; a|b: one of them. Inside brackets `|` divides all that they enclose, outside
 * only the two words beside it.
 */
#ifndef RLOCKD_SERVE_USAGE_H
#define RLOCKD_SERVE_USAGE_H

#include <stdbool.h>

#include "daemon/base/slice.h"

#define USAGE_ARGS_MAX 48

enum usage_type {
    USAGE_VALUE, /* name; behind `token` if there is one */
    USAGE_TOKEN, /* token alone */
    USAGE_ONEOF, /* any one of the children */
    USAGE_BLOCK, /* all children in order; behind `token` if there is one */
};

struct usage_arg {
    enum usage_type type;
    struct slice name, token; /* token n == 0: none */
    bool optional, multiple;
    int child, next; /* index of the first child, of the next sibling; -1 = none */
};

struct usage {
    struct usage_arg arg[USAGE_ARGS_MAX];
    int n;
    int first; /* -1 = the command takes no arguments */
};

/* `text` must outlive the result. False when it is not of the grammar. */
bool usage_parse(const char *text, struct usage *out);

/* Number of siblings from `first` on. */
unsigned usage_count(const struct usage *u, int first);

#endif
