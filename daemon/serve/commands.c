/*
 * commands.c -- which handler a verb means, and who may run it.
 *
 * Owns the dispatch table, printed from commands.def. Refuses unknown verbs,
 * wrong arity and missing roles before any handler runs, with the very words
 * of Redis: client libraries match them. Invariant: a handler may rely on the
 * arity and the role of its row.
 */
#include "daemon/serve/commands.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/serve/commands_private.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/roles.h"

#define SHOWN_BYTES 128 /* of what an unknown command said, as in Redis */

static cmd_fn *const handlers[COMMANDS] = {
#define COMMAND(name, least, most, role, when, handler, group, usage, summary) [CMD_##name] = cmd_##handler,
#include "proto/commands.def"
#undef COMMAND
};

void
command_lower_name(enum command_id id, char out[COMMAND_NAME_BYTES])
{
    size_t i;

    for (i = 0; command_rows[id].name[i] != '\0'; i++) {
        assert(i + 1 < COMMAND_NAME_BYTES);
        out[i] = (char)tolower((unsigned char)command_rows[id].name[i]);
    }
    out[i] = '\0';
}

void
command_print_usage(enum command_id id, char out[COMMAND_USAGE_BYTES])
{
    const struct command_row *row = &command_rows[id];
    int n = snprintf(out, COMMAND_USAGE_BYTES, "%s%s%s", row->name, row->usage[0] != '\0' ? " " : "", row->usage);

    assert(n > 0 && n < COMMAND_USAGE_BYTES);
}

void
command_note_refusal(struct session *s, struct slice command, const char *reason)
{
    struct slice shown = {command.p, command.n < SHOWN_BYTES ? command.n : SHOWN_BYTES};

    s->engine->metrics.front_refused++;
    log_event(s->engine->log, LOG_INFO, "front", "refused", "command", LOG_B(shown), "session", LOG_N(s->id), "lib",
              LOG_S(s->lib_name != NULL ? s->lib_name : ""), "reason", LOG_S(reason), NULL);
}

void
command_refuse_subcommand(struct cmd *c)
{
    struct slice sub = c->words->word[1];
    char reason[64];

    snprintf(reason, sizeof(reason), "unknown subcommand '%.*s'", sub.n < 32 ? (int)sub.n : 32, sub.p);
    command_note_refusal(c->session, c->words->word[0], reason);
    writer_error(c->out, ERR_SYNTAX, "unknown subcommand '%.*s'. Try %s HELP.",
                 sub.n < SHOWN_BYTES ? (int)sub.n : SHOWN_BYTES, sub.p, command_rows[c->id].name);
}

size_t
command_answer_bytes_max(const struct cmd *c)
{
    return ANSWER_TIMES_OUTPUT * (size_t)c->session->engine->conf->limit_output_bytes;
}

bool
command_names_allowed(const struct cmd *c, const struct slice *name, unsigned n)
{
    const struct engine *e = c->session->engine;
    enum kind kind;

    for (unsigned i = 0; i < n; i++) {
        if (name[i].n > (size_t)e->conf->limit_name_bytes && !core_knows(e->core, name[i], &kind)) {
            return false;
        }
    }
    return true;
}

bool
command_check_name(struct cmd *c)
{
    int64_t bytes_max = c->session->engine->conf->limit_name_bytes;
    char usage[COMMAND_USAGE_BYTES];

    if (c->words->word[1].n >= 1 && command_names_allowed(c, &c->words->word[1], 1)) {
        return true;
    }
    command_print_usage(c->id, usage);
    writer_error(c->out, ERR_SYNTAX, "a name has 1 to %" PRId64 " bytes; usage: %s", bytes_max, usage);
    return false;
}

void
command_subcommand_help(struct cmd *c)
{
    char usage[COMMAND_USAGE_BYTES];

    command_print_usage(c->id, usage);
    writer_array(c->out, 2);
    writer_simple(c->out, usage);
    writer_simple(c->out, command_rows[c->id].summary);
}

/* What a browser, or somebody who talks through one, sends as its first word. */
static bool
is_cross_protocol(struct slice verb)
{
    return slice_is(verb, "post") || slice_is(verb, "host:");
}

static void
refuse_unknown(const struct words *w, struct writer *out)
{
    char args[SHOWN_BYTES + 4 * READER_WORDS_MAX] = "";
    size_t n = 0;
    unsigned i;

    for (i = 1; i < w->n && n < SHOWN_BYTES; i++) {
        size_t show = w->word[i].n < SHOWN_BYTES - n ? w->word[i].n : SHOWN_BYTES - n;
        size_t j;

        args[n++] = '\'';
        for (j = 0; j < show; j++) {
            /* A NUL would end the text here; Redis ends it too. */
            if (w->word[i].p[j] == '\0') {
                break;
            }
            args[n++] = w->word[i].p[j];
        }
        args[n++] = '\'';
        args[n++] = ' ';
    }
    args[n] = '\0';
    writer_error(out, ERR_UNKNOWN_COMMAND, "unknown command '%.*s', with args beginning with: %s",
                 w->word[0].n < SHOWN_BYTES ? (int)w->word[0].n : SHOWN_BYTES, w->word[0].p, args);
}

static bool
arity_fits(const struct command_row *row, unsigned n)
{
    return n >= row->words_min && (row->words_max == 0 || n <= row->words_max);
}

static void
refuse_arity(enum command_id id, struct writer *out)
{
    char lower[COMMAND_NAME_BYTES], usage[COMMAND_USAGE_BYTES];

    command_lower_name(id, lower);
    command_print_usage(id, usage);
    writer_error(out, ERR_SYNTAX, "wrong number of arguments for '%s' command; usage: %s", lower, usage);
}

/* In RESP2 a message and a reply look alike, so a connection that subscribed may only do these. */
static bool
fits_subscriber(enum command_id id)
{
    switch (id) {
    case CMD_SUBSCRIBE:
    case CMD_UNSUBSCRIBE:
    case CMD_PSUBSCRIBE:
    case CMD_PUNSUBSCRIBE:
    case CMD_PING:
    case CMD_QUIT:
    case CMD_RESET:
        return true;
    default:
        return false;
    }
}

static void
refuse_subscriber(enum command_id id, struct writer *out)
{
    char lower[COMMAND_NAME_BYTES];

    command_lower_name(id, lower);
    writer_error(out, ERR_SYNTAX,
                 "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                 "in this context",
                 lower);
}

/* False: the refusal is in `out`. */
static bool
may_run(const struct session *s, enum command_id id, struct writer *out)
{
    const struct command_row *row = &command_rows[id];

    if (row->role != ROLE_ANY && !s->authed) {
        writer_error_plain(out, ERR_NO_AUTH);
        return false;
    }
    if (row->role == ROLE_ADMIN && !s->admin) {
        roles_refuse_admin(s, row->name, out);
        return false;
    }
    if (s->proto == 2 && pubsub_count(s) > 0 && !fits_subscriber(id)) {
        refuse_subscriber(id, out);
        return false;
    }
    return true;
}

int
command_admit(struct session *s, const struct words *w, struct writer *out, bool *close)
{
    int id;

    assert(w->n >= 1);
    id = command_find(w->word[0]);
    if (id < 0) {
        *close = is_cross_protocol(w->word[0]);
        if (!*close) {
            refuse_unknown(w, out);
        }
        if (!*close && s->authed) { /* else it may be anybody who guesses */
            command_note_refusal(s, w->word[0], "unknown command");
        }
        return CMD_NONE;
    }
    if (!arity_fits(&command_rows[id], w->n)) {
        refuse_arity((enum command_id)id, out);
        return CMD_NONE;
    }
    return may_run(s, (enum command_id)id, out) ? id : CMD_NONE;
}

enum cmd_result
command_run(struct cmd *c)
{
    assert(c->id < COMMANDS);
    monitor_feed(c);
    return handlers[c->id](c);
}
