/*
 * commands_list.h -- how long the steps are in which listings are made.
 */
#ifndef RLOCKD_SERVE_COMMANDS_LIST_H
#define RLOCKD_SERVE_COMMANDS_LIST_H

#include "daemon/base/slice.h"

/* How many records one step of a listing compares with the glob. */
unsigned command_records_at_once(struct slice glob);

#endif
