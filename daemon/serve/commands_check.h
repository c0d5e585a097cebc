/*
 * commands_check.h -- what each command checks, and how it refuses.
 */
#ifndef RLOCKD_SERVE_COMMANDS_CHECK_H
#define RLOCKD_SERVE_COMMANDS_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/serve/cmd.h"

#define COMMAND_NAME_BYTES 32
#define COMMAND_USAGE_BYTES 256
#define COMMAND_SHOWN_BYTES 128 /* of an unknown command, shown in the error as by Redis */

/* Print "lock"; "LOCK name [WAIT ...". */
void command_lower_name(enum command_id id, char out[COMMAND_NAME_BYTES]);
void command_print_usage(enum command_id id, char out[COMMAND_USAGE_BYTES]);

struct subcommand {
    const char *name;
    unsigned words_min, words_max;           /* the command and its own name counted; max 0 = any */
    void (*run)(struct cmd *c);              /* answers at once */
    enum cmd_result (*begin)(struct cmd *c); /* ... or later */
};

/* Runs the one that word[1] names, of n rows; refuses other names, and another number of words. */
enum cmd_result command_run_subcommand(struct cmd *c, const struct subcommand *row, size_t n);

/* Refuses with `-ERR unknown subcommand 'X'. Try CLIENT HELP.`, and notes that by command_note_refusal(). */
void command_refuse_subcommand(struct cmd *c);

/*
 * Counts and logs the refusal of a command, or of an option or a script, that rlockd does not have: the client may have
 * been pointed here by mistake. `command`: its first word; `reason`: as in the reply, of any bytes and length.
 */
void command_note_refusal(struct session *s, struct slice command, const char *reason);

/* The greatest length of one reply of this command. */
size_t command_reply_bytes_max(const struct cmd *c);

/*
 * Whether word[1] is a name of 1..limit bytes. A longer name that is in use passes, too: a reload may have lowered the
 * limit. False: the error is written.
 */
bool command_check_name(struct cmd *c);

/* Each of the names is within the limit, or in use. */
bool command_names_allowed(const struct cmd *c, const struct slice *name, unsigned n);

/* CLIENT HELP and its like: usage and summary, as an array of lines. */
void command_subcommand_help(struct cmd *c);

#endif
