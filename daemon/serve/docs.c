/*
 * docs.c -- COMMAND and HELP: the command table, for client libraries and for people.
 *
 * Owns the reply types that redis-cli insists on (it aborts on a wrong one): names and texts are bulk strings, flags
 * are simple strings. The commands and their usage come from commands.def, which usage.c reads: there is no second
 * table of commands.
 */
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/session_record.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>

#include "daemon/serve/usage.h"

#define SINCE "0.1.0" /* of every command so far */

/* ---- COMMAND DOCS ---- */

/* What an argument of that name is, in Redis's words; any other is a string. */
static const struct {
    const char *name, *type;
} value_types[] = {
    {"n", "integer"},     {"permits", "integer"}, {"token", "integer"},   {"session", "integer"},
    {"index", "integer"}, {"glob", "pattern"},    {"pattern", "pattern"},
};

static const char *
type_name(const struct usage_arg *a, bool key)
{
    size_t i;

    switch (a->type) {
    case USAGE_TOKEN:
        return "pure-token";
    case USAGE_ONEOF:
        return "oneof";
    case USAGE_BLOCK:
        return "block";
    case USAGE_VALUE:
        break;
    }
    for (i = 0; i < sizeof(value_types) / sizeof(value_types[0]); i++) {
        if (slice_is(a->name, value_types[i].name)) {
            return value_types[i].type;
        }
    }
    return key ? "key" : "string";
}

static bool
is_name(const struct usage *u, int i)
{
    return i >= 0 && u->arg[i].type == USAGE_VALUE && slice_is(u->arg[i].name, "name");
}

/* In commands about one lock its name comes first: that is their key. */
static bool
is_key(const struct usage *u, int i)
{
    return i == u->first && is_name(u, i);
}

/* True: the argument is a list behind its number: the names of MLOCK or MUNLOCK, or the keys of EVAL or EVALSHA. */
static bool
is_keys(const struct usage *u, int i)
{
    const struct usage_arg *a = &u->arg[i];

    return a->type == USAGE_VALUE && a->multiple && i != u->first && (is_name(u, i) || slice_is(a->name, "key"));
}

static bool
has_keys(const struct usage *u)
{
    int i = u->first;

    while (i >= 0 && !is_keys(u, i)) {
        i = u->arg[i].next;
    }
    return i >= 0;
}

static void
write_lower(struct writer *w, struct slice text)
{
    char lower[COMMAND_NAME_BYTES];
    size_t i;

    assert(text.n < sizeof(lower));
    for (i = 0; i < text.n; i++) {
        lower[i] = (char)tolower((unsigned char)text.p[i]);
    }
    writer_bulk(w, (struct slice){lower, text.n});
}

static void write_arguments(const struct usage *u, int first, struct writer *w);

static void
write_argument(const struct usage *u, int i, struct writer *w)
{
    const struct usage_arg *a = &u->arg[i];
    bool flags = a->optional || a->multiple;

    writer_map(w, 2u + (a->token.n > 0) + flags + (a->child >= 0));
    writer_text(w, "name");
    write_lower(w, a->name);
    writer_text(w, "type");
    writer_text(w, type_name(a, is_key(u, i) || is_keys(u, i)));
    if (a->token.n > 0) {
        writer_text(w, "token");
        writer_bulk(w, a->token);
    }
    if (flags) {
        writer_text(w, "flags");
        writer_set(w, (size_t)a->optional + a->multiple);
        if (a->optional) {
            writer_simple(w, "optional");
        }
        if (a->multiple) {
            writer_simple(w, "multiple");
        }
    }
    if (a->child >= 0) {
        writer_text(w, "arguments");
        write_arguments(u, a->child, w);
    }
}

static void
write_arguments(const struct usage *u, int first, struct writer *w)
{
    writer_array(w, usage_count(u, first));
    for (; first >= 0; first = u->arg[first].next) {
        write_argument(u, first, w);
    }
}

static void
write_name(enum command_id id, struct writer *w)
{
    write_lower(w, slice_of(command_rows[id].name));
}

static void
read_usage(enum command_id id, struct usage *u)
{
    bool whole = usage_parse(command_rows[id].usage, u);

    assert(whole);
    (void)whole;
}

/* One pair of a map: the name of a command, and what COMMAND DOCS says of it. */
static void
write_doc(enum command_id id, struct writer *w)
{
    struct usage u;

    read_usage(id, &u);
    write_name(id, w);
    writer_map(w, u.first >= 0 ? 4 : 3);
    writer_text(w, "summary");
    writer_text(w, command_rows[id].summary);
    writer_text(w, "since");
    writer_text(w, SINCE);
    writer_text(w, "group");
    writer_text(w, command_rows[id].group);
    if (u.first >= 0) {
        writer_text(w, "arguments");
        write_arguments(&u, u.first, w);
    }
}

/* ---- COMMAND INFO ---- */

static void
write_flags(enum command_id id, bool key, bool keys, struct writer *w)
{
    const struct command_row *row = &command_rows[id];
    const struct {
        const char *flag;
        bool set;
    } flags[] = {
        {"write", row->when == WHEN_OWNER},
        {"readonly", key && row->when != WHEN_OWNER && row->role != ROLE_ADMIN},
        {"admin", row->role == ROLE_ADMIN},
        {"pubsub", strcmp(row->group, "events") == 0},
        {"no_auth", row->role == ROLE_ANY},
        {"blocking", id == CMD_LOCK || id == CMD_MLOCK},
        {"movablekeys", keys}, /* their number shows where they end */
    };
    size_t i, n = 0;

    for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        n += flags[i].set;
    }
    writer_set(w, n);
    for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (flags[i].set) {
            writer_simple(w, flags[i].flag);
        }
    }
}

static void
write_info(enum command_id id, struct writer *w)
{
    const struct command_row *row = &command_rows[id];
    char category[COMMAND_NAME_BYTES];
    struct usage u;
    bool key;

    read_usage(id, &u);
    key = is_key(&u, u.first);
    snprintf(category, sizeof(category), "@%s", row->group);
    writer_array(w, 10);
    write_name(id, w);
    writer_int(w, row->words_min == row->words_max ? (int64_t)row->words_min : -(int64_t)row->words_min);
    write_flags(id, key, has_keys(&u), w);
    writer_int(w, key); /* first key, last key (-1: the last word), step */
    writer_int(w, key && u.arg[u.first].multiple ? -1 : key);
    writer_int(w, key);
    writer_set(w, 1);
    writer_simple(w, category);
    writer_array(w, 0); /* tips */
    writer_array(w, 0); /* key specifications */
    writer_array(w, 0); /* subcommands */
}

/* ---- COMMAND ---- */

static void
command_all(struct cmd *c)
{
    int id;

    writer_array(c->out, COMMANDS);
    for (id = 0; id < COMMANDS; id++) {
        write_info((enum command_id)id, c->out);
    }
}

static void
command_info(struct cmd *c)
{
    unsigned i;

    if (c->words->n == 2) {
        command_all(c);
        return;
    }
    writer_array(c->out, c->words->n - 2);
    for (i = 2; i < c->words->n; i++) {
        int id = command_find(c->words->word[i]);

        if (id < 0) {
            writer_null(c->out);
        } else {
            write_info((enum command_id)id, c->out);
        }
    }
}

static void
command_docs(struct cmd *c)
{
    struct rows rows;
    unsigned i;

    fields_rows_init(&rows, c->out);
    if (c->words->n == 2) {
        for (rows.n = 0; rows.n < COMMANDS; rows.n++) {
            write_doc((enum command_id)rows.n, &rows.w);
        }
    }
    for (i = 2; i < c->words->n; i++) {
        int id = command_find(c->words->word[i]);

        if (id >= 0) {
            write_doc((enum command_id)id, &rows.w);
            rows.n++;
        }
    }
    fields_rows_send(&rows, c->out, true);
}

static void
command_count(struct cmd *c)
{
    writer_int(c->out, COMMANDS);
}

static void
command_list(struct cmd *c)
{
    int id;

    writer_array(c->out, COMMANDS);
    for (id = 0; id < COMMANDS; id++) {
        write_name((enum command_id)id, c->out);
    }
}

static enum cmd_result
command_now(struct cmd *c)
{
    static const struct subcommand subcommands[] = {
        {"DOCS", 2, 0, command_docs, NULL}, {"INFO", 2, 0, command_info, NULL}, {"COUNT", 2, 0, command_count, NULL},
        {"LIST", 2, 0, command_list, NULL}, {"HELP", 2, 0, command_subcommand_help, NULL},
    };

    if (c->words->n == 1) {
        command_all(c);
        return CMD_DONE;
    }
    return command_run_subcommand(c, subcommands, sizeof(subcommands) / sizeof(subcommands[0]));
}

enum cmd_result
cmd_command(struct cmd *c)
{
    return listing_once(c, command_now);
}

/* ---- HELP ---- */

static void __attribute__((format(printf, 2, 3)))
add_line(struct rows *rows, const char *fmt, ...)
{
    char line[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    writer_simple(&rows->w, line);
    rows->n++;
}

static void
add_summary(struct rows *rows, enum command_id id)
{
    char usage[COMMAND_USAGE_BYTES];

    command_print_usage(id, usage);
    add_line(rows, "%s", usage);
    add_line(rows, "    %s", command_rows[id].summary);
}

static void
add_error(struct rows *rows, enum error_code code)
{
    const struct error_row *row = &error_rows[code];

    add_line(rows, "    -%s %s: %s", row->prefix, row->text, row->meaning);
}

/*
 * The errors that PROTOCOL.md lists for each command (tests/redis/test_info.py compares), besides -ERR, and -NOAUTH
 * before AUTH.
 */
#define E(name) (1u << ERR_##name)
#define FRONT_ERRORS (E(WRONG_KIND) | E(LIMIT) | E(DRAINING) | E(UNAVAILABLE) | E(NO_REPLICAS) | E(NO_PERM))
#define LOCK_ERRORS (FRONT_ERRORS | E(LOST) | E(DEADLOCK))
#define UNLOCK_ERRORS (E(NOT_HELD) | E(STALE) | E(LOST) | E(UNAVAILABLE) | E(LIMIT))
static const unsigned errors_of[COMMANDS] = {
    [CMD_LOCK] = LOCK_ERRORS,
    [CMD_MLOCK] = LOCK_ERRORS,
    [CMD_UNLOCK] = UNLOCK_ERRORS,
    [CMD_RENEW] = UNLOCK_ERRORS,
    [CMD_MUNLOCK] = UNLOCK_ERRORS & ~E(STALE),
    [CMD_CANCEL] = E(LIMIT),
    [CMD_LOCKS] = E(LIMIT),
    [CMD_WAITERS] = E(LIMIT),
    [CMD_SESSIONS] = E(LIMIT),
    [CMD_SUBSCRIBE] = E(LIMIT),
    [CMD_PSUBSCRIBE] = E(LIMIT),
    [CMD_MONITOR] = E(NO_PERM),
    [CMD_KILL] = E(NO_PERM),
    [CMD_BREAK] = E(WRONG_KIND) | E(UNAVAILABLE) | E(NO_PERM),
    [CMD_DRAIN] = E(NO_PERM),
    [CMD_HELLO] = E(NO_AUTH) | E(WRONG_PASS) | E(NO_PROTO) | E(LIMIT),
    [CMD_AUTH] = E(WRONG_PASS) | E(LIMIT),
    [CMD_CLIENT] = E(NO_PERM) | E(LIMIT),
    [CMD_INFO] = E(LIMIT),
    [CMD_SET] = FRONT_ERRORS,
    [CMD_GET] = E(WRONG_KIND) | E(UNAVAILABLE),
    [CMD_DEL] = E(UNAVAILABLE),
    [CMD_EVAL] = FRONT_ERRORS,
    [CMD_EVALSHA] = FRONT_ERRORS | E(NO_SCRIPT),
};

static void
add_errors(struct rows *rows, enum command_id id)
{
    int code;

    for (code = 0; code < ERRORS; code++) {
        if ((errors_of[id] & 1u << code) != 0) {
            add_error(rows, (enum error_code)code);
        }
    }
}

static enum cmd_result
help_now(struct cmd *c)
{
    const char *group = "";
    struct rows rows;
    int id;

    fields_rows_init(&rows, c->out);
    if (c->words->n == 2) {
        id = command_find(c->words->word[1]);
        if (id < 0) {
            struct slice word = c->words->word[1];

            writer_error(c->out, ERR_SYNTAX, "no help for '%.*s'; HELP lists the commands",
                         word.n < 128 ? (int)word.n : 128, word.p);
            return CMD_DONE;
        }
        add_summary(&rows, (enum command_id)id);
        add_errors(&rows, (enum command_id)id);
    }
    for (id = 0; id < COMMANDS && c->words->n == 1; id++) {
        if (strcmp(group, command_rows[id].group) != 0) {
            group = command_rows[id].group;
            add_line(&rows, "# %s", group);
        }
        add_summary(&rows, (enum command_id)id);
    }
    fields_rows_send(&rows, c->out, false);
    return CMD_DONE;
}

enum cmd_result
cmd_help(struct cmd *c)
{
    return listing_once(c, help_now);
}
