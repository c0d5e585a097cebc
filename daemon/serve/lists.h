/*
 * lists.h -- how long the steps are in which listings are made.
 */
#ifndef RLOCKD_SERVE_LISTS_H
#define RLOCKD_SERVE_LISTS_H

#include "daemon/base/slice.h"

/* How many records one step of a listing compares with the glob. */
unsigned lists_records_at_once(struct slice glob);

#endif
