/*
 * commands.c -- the command table, from commands.def, and the search in it.
 *
 * Owns the table. The handlers of the rows belong to daemon/serve: no code here uses them.
 */
#include "proto/commands.h"

const struct command_row command_rows[COMMANDS] = {
#define COMMAND(name, least, most, role, when, handler, group, usage, summary)                                         \
    [CMD_##name] = {#name, least, most, ROLE_##role, WHEN_##when, group, usage, summary},
#include "proto/commands.def"
#undef COMMAND
};

static const unsigned char name_bytes[COMMANDS] = {
#define COMMAND(name, least, most, role, when, handler, group, usage, summary) [CMD_##name] = sizeof(#name) - 1,
#include "proto/commands.def"
#undef COMMAND
};

/* The rows are searched in order: the hot commands come first, and lengths rule out nearly all others for one byte. */
int
command_find(struct slice verb)
{
    int id;

    for (id = 0; id < COMMANDS; id++) {
        if (name_bytes[id] == verb.n && strncasecmp(command_rows[id].name, verb.p, verb.n) == 0) {
            return id;
        }
    }
    return -1;
}
