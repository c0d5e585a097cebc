/*
 * commands.c -- the handler of each verb, and the role it needs.
 *
 * Owns the dispatch table, printed from commands.def. Refuses unknown verbs, wrong arity and missing roles before any
 * handler runs, in the words of Redis, which client libraries match. A handler may rely on the arity and the role of
 * its row.
 */
#include "daemon/serve/commands.h"

#include <assert.h>

#include "daemon/serve/cmd.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/roles.h"
#include "daemon/serve/session_record.h"

static cmd_fn *const handlers[COMMANDS] = {
#define COMMAND(name, least, most, role, when, handler, group, usage, summary) [CMD_##name] = cmd_##handler,
#include "proto/commands.def"
#undef COMMAND
};

/* The first words of a browser that a page, or its user, has pointed at rlockd. */
static bool
is_cross_protocol(struct slice verb)
{
    return slice_is(verb, "post") || slice_is(verb, "host:");
}

static void
refuse_unknown(const struct words *w, struct writer *out)
{
    char args[COMMAND_SHOWN_BYTES + 4 * READER_WORDS_MAX] = "";
    size_t n = 0;
    unsigned i;

    for (i = 1; i < w->n && n < COMMAND_SHOWN_BYTES; i++) {
        size_t show = w->word[i].n < COMMAND_SHOWN_BYTES - n ? w->word[i].n : COMMAND_SHOWN_BYTES - n;
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
                 w->word[0].n < COMMAND_SHOWN_BYTES ? (int)w->word[0].n : COMMAND_SHOWN_BYTES, w->word[0].p, args);
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

/* In RESP2 a message and a reply look alike, so a connection that subscribed may run only these. */
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
    if (s->proto == 2 && s->subscriptions != NULL && pubsub_count(s) > 0 && !fits_subscriber(id)) {
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
        if (!*close && s->authed) { /* before AUTH a stranger could fill the log */
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
