/*
 * info_tables.h -- INFO's tables and its tree.
 */
#ifndef RLOCKD_SERVE_INFO_TABLES_H
#define RLOCKD_SERVE_INFO_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/serve/cmd.h"

/* INFO locks, waiters, sessions, tree. */
bool info_is_table(struct slice section);

/* Makes it in slices, of at most rows_max rows that match. */
enum cmd_result info_table(struct cmd *c, struct slice section, struct slice glob, size_t rows_max);

#endif
