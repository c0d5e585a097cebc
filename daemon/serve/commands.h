/*
 * commands.h -- what each command does.
 *
 * A handler gets the words of one request and a writer for its reply. It either writes its one whole reply and returns
 * CMD_DONE, or returns CMD_LATER after it has arranged that the reply will be written to `slot`: by a step of the core
 * (slots_begin_reply()), or by slots_put_reply().
 */
#ifndef RLOCKD_SERVE_COMMANDS_H
#define RLOCKD_SERVE_COMMANDS_H

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

#endif
