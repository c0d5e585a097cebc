/*
 * commands.h -- the command table without its handlers (commands.def).
 */
#ifndef RLOCKD_PROTO_COMMANDS_H
#define RLOCKD_PROTO_COMMANDS_H

#include "daemon/base/slice.h"

/* Sessions that may use the command. ANY: all, also before AUTH; CLIENT: after AUTH, if AUTH is required. */
enum command_role { ROLE_ANY, ROLE_CLIENT, ROLE_ADMIN };

/*
 * NOW: the command runs when it is read; TURN: when all earlier requests of its connection are answered; OWNER: through
 * the core, in the order of its owner's requests (DEL, and a script of the drop-in, wait for their turn before that).
 */
enum command_when { WHEN_NOW, WHEN_TURN, WHEN_OWNER };

enum command_id {
#define COMMAND(name, least, most, role, when, handler, group, usage, summary) CMD_##name,
#include "proto/commands.def"
#undef COMMAND
    COMMANDS
};

struct command_row {
    const char *name;
    unsigned words_min, words_max; /* the verb counted; max 0 = any number */
    enum command_role role;
    enum command_when when;
    const char *group, *usage, *summary;
};

extern const struct command_row command_rows[COMMANDS];

/* The command of that name in any case; -1 = none. */
int command_find(struct slice verb);

#endif
