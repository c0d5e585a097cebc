/*
 * commands.h -- what each command does; and what the files of commands do for each other.
 *
 * A handler gets the words of one request and a writer for its reply. It either writes its one whole reply and returns
 * CMD_DONE, or returns CMD_LATER after it has arranged that the reply will be written to `slot`: by a step of the core
 * (slots_begin_reply()), or by slots_put_reply().
 */
#ifndef RLOCKD_SERVE_COMMANDS_H
#define RLOCKD_SERVE_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/core/core.h"
#include "daemon/serve/cmd.h"

/*
 * Looks the verb up and checks arity, authentication and role. CMD_NONE: the error is in `out` (or, for a
 * cross-protocol verb, *close is set and nothing must be written).
 */
#define CMD_NONE (-1)
int command_admit(struct session *s, const struct words *w, struct writer *out, bool *close);

/* Runs it. */
enum cmd_result command_run(struct cmd *c);

/* One handler per row of commands.def. */
#define COMMAND(name, least, most, role, when, handler, group, usage, summary) cmd_fn cmd_##handler;
#include "proto/commands.def"
#undef COMMAND

/* commands_list.c */
/* How many records one call of listing_work.advance compares with the glob. */
unsigned command_records_at_once(struct slice glob);

/* commands_lock.c */
/* The fields that all requests of this command to the core have in common. */
struct core_request command_request(const struct cmd *c, struct slice name);

/*
 * May the key that the rules give the name be a lock? A name that is in use keeps its key, and is always allowed.
 * False: the error is written.
 */
bool command_check_key(struct cmd *c, const struct core_request *rq);

/* info_tables.c */
/* INFO locks, waiters, sessions, tree. */
bool info_is_table(struct slice section);

/* Makes it in slices, of at most rows_max rows that match. */
enum cmd_result info_table(struct cmd *c, struct slice section, struct slice glob, size_t rows_max);

/* monitor.c */
/* Sends the command to every MONITOR session, before it runs. */
void monitor_feed(const struct cmd *c);

#endif
