/*
 * commands_check.c -- what handlers check before they do anything: limits and usage; and how they refuse a request.
 *
 * Owns nothing. Below the handlers and the table of them (commands.c): it calls neither.
 */
#include "daemon/serve/commands_check.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/serve/cmd.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/session_record.h"

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
    struct slice shown = {command.p, command.n < COMMAND_SHOWN_BYTES ? command.n : COMMAND_SHOWN_BYTES};

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
                 sub.n < COMMAND_SHOWN_BYTES ? (int)sub.n : COMMAND_SHOWN_BYTES, sub.p, command_rows[c->id].name);
}

enum cmd_result
command_run_subcommand(struct cmd *c, const struct subcommand *row, size_t n)
{
    struct slice sub = c->words->word[1];
    char name[COMMAND_NAME_BYTES];

    for (; n > 0 && !slice_is(sub, row->name); n--) {
        row++;
    }
    if (n == 0) {
        command_refuse_subcommand(c);
    } else if (c->words->n < row->words_min || (row->words_max != 0 && c->words->n > row->words_max)) {
        command_lower_name(c->id, name);
        writer_error(c->out, ERR_SYNTAX, "wrong number of arguments for '%s|%.*s' command", name, (int)sub.n, sub.p);
    } else if (row->begin != NULL) {
        return row->begin(c);
    } else {
        row->run(c);
    }
    return CMD_DONE;
}

size_t
command_reply_bytes_max(const struct cmd *c)
{
    return REPLY_TIMES_OUTPUT * (size_t)c->session->engine->conf->limit_output_bytes;
}

bool
command_names_allowed(const struct cmd *c, const struct slice *name, unsigned n)
{
    const struct engine *e = c->session->engine;
    enum kind kind;

    for (unsigned i = 0; i < n; i++) {
        if (name[i].n > (size_t)e->conf->limit_name_bytes && !core_name_in_use(e->core, name[i], &kind)) {
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
