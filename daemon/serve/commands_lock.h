/*
 * commands_lock.h -- the requests to the core that commands about locks make.
 */
#ifndef RLOCKD_SERVE_COMMANDS_LOCK_H
#define RLOCKD_SERVE_COMMANDS_LOCK_H

#include <stdbool.h>

#include "daemon/core/core.h"
#include "daemon/serve/cmd.h"

/* The fields that all requests of this command to the core have in common. */
struct core_request command_request(const struct cmd *c, struct slice name);

/*
 * May the key that the rules give the name be a lock? A name that is in use keeps its key, and is always allowed.
 * False: the error is written.
 */
bool command_check_key(struct cmd *c, const struct core_request *rq);

#endif
