/*
 * usage.c -- the usage line of a command, read back into arguments.
 *
 * Owns the grammar; a unit test reads every row of commands.def through it.
 * Reads nothing but the text of that table, so it is small rather than forgiving.
 */
#include "daemon/serve/usage.h"

struct parser {
    struct usage *u;
    const char *at;
    bool bad;
};

static int
new_arg(struct parser *p, enum usage_type type)
{
    int i = p->u->n;

    if (i == USAGE_ARGS_MAX) {
        p->bad = true;
        return i - 1;
    }
    p->u->arg[i] = (struct usage_arg){.type = type, .child = -1, .next = -1};
    p->u->n++;
    return i;
}

static void
skip_blanks(struct parser *p)
{
    while (*p->at == ' ') {
        p->at++;
    }
}

static bool
take(struct parser *p, const char *text)
{
    size_t n = strlen(text);

    if (strncmp(p->at, text, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

/* A word up to a blank, a bracket or a bar. */
static int
read_word(struct parser *p)
{
    size_t n = strcspn(p->at, " []|");
    struct slice word = {p->at, n};
    bool value = n > 0 && word.p[0] >= 'a' && word.p[0] <= 'z';
    int i = new_arg(p, value ? USAGE_VALUE : USAGE_TOKEN);

    p->bad = p->bad || n == 0 || word.p[0] == '.'; /* "..." must follow an argument */
    p->at += n;
    p->u->arg[i].name = word;
    if (!value) {
        p->u->arg[i].token = word;
    }
    return i;
}

/* Puts a container around the siblings from `first` on; its name is that of its first child. */
static int
wrap(struct parser *p, enum usage_type type, int first)
{
    int i = new_arg(p, type);

    if (!p->bad) {
        p->u->arg[i].child = first;
        p->u->arg[i].name = p->u->arg[first].name;
    }
    return i;
}

static int read_brackets(struct parser *p);

/* a|b|c without blanks, outside of brackets. */
static int
read_joined(struct parser *p)
{
    int first = read_word(p), last = first;

    if (*p->at != '|') {
        return first;
    }
    while (!p->bad && take(p, "|")) {
        int i = read_word(p);

        p->u->arg[last].next = i;
        last = i;
    }
    return wrap(p, USAGE_ONEOF, first);
}

/* TOKEN value -> one argument; TOKEN and more -> a block behind that token. */
static int
fold_sequence(struct parser *p, int first)
{
    struct usage_arg *a = p->u->arg;
    int second = a[first].next;

    if (second < 0 || p->bad) {
        return first;
    }
    if (a[first].type != USAGE_TOKEN) {
        return wrap(p, USAGE_BLOCK, first);
    }
    if (a[second].next < 0 && a[second].type == USAGE_VALUE && !a[second].optional) {
        a[second].token = a[first].token;
        return second;
    }
    a[first].type = USAGE_BLOCK;
    a[first].child = second;
    a[first].next = -1;
    return first;
}

/* Arguments up to the end of the text, or inside brackets up to `|` or `]`; the first, -1 = none. */
static int
read_sequence(struct parser *p, bool inside)
{
    int first = -1, last = -1;

    for (skip_blanks(p); !p->bad && *p->at != '\0' && *p->at != ']' && *p->at != '|'; skip_blanks(p)) {
        int i = *p->at == '[' ? read_brackets(p) : inside ? read_word(p) : read_joined(p);

        skip_blanks(p);
        p->u->arg[i].multiple = take(p, "...") || p->u->arg[i].multiple;
        if (first < 0) {
            first = i;
        } else {
            p->u->arg[last].next = i;
        }
        last = i;
    }
    return first;
}

/* [a], [a|b c|d] */
static int
read_brackets(struct parser *p)
{
    int first = -1, last = -1, n = 0;

    p->bad = p->bad || !take(p, "[");
    do {
        int i = read_sequence(p, true);

        if (i < 0 || p->bad) {
            p->bad = true;
            return 0;
        }
        i = fold_sequence(p, i);
        if (first < 0) {
            first = i;
        } else {
            p->u->arg[last].next = i;
        }
        last = i;
        n++;
    } while (take(p, "|"));
    p->bad = p->bad || !take(p, "]");
    if (n > 1) {
        first = wrap(p, USAGE_ONEOF, first);
    }
    p->u->arg[first].optional = true;
    return first;
}

/* Outside of brackets: TOKEN value is one argument at any place. */
static void
fold_pairs(struct usage *u)
{
    int *from = &u->first;

    while (*from >= 0) {
        struct usage_arg *a = &u->arg[*from];

        if (a->type == USAGE_TOKEN && a->next >= 0 && u->arg[a->next].type == USAGE_VALUE &&
            !u->arg[a->next].optional && u->arg[a->next].token.n == 0) {
            u->arg[a->next].token = a->token;
            *from = a->next;
        }
        from = &u->arg[*from].next;
    }
}

bool
usage_parse(const char *text, struct usage *out)
{
    struct parser p = {.u = out, .at = text};

    memset(out, 0, sizeof(*out)); /* a broken line may end at an argument that was never made */
    out->first = read_sequence(&p, false);
    if (p.bad || *p.at != '\0') {
        return false;
    }
    fold_pairs(out);
    return true;
}

unsigned
usage_count(const struct usage *u, int first)
{
    unsigned n = 0;

    for (; first >= 0; first = u->arg[first].next) {
        n++;
    }
    return n;
}
