/*
 * broadcast_record.h -- a message to all daemons, which broadcast.c makes; private to daemon/core.
 */
#ifndef RLOCKD_CORE_BROADCAST_RECORD_H
#define RLOCKD_CORE_BROADCAST_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/core/bounds.h"

struct broadcast {
    size_t n;
    bool fits;
    char text[BROADCAST_BYTES];
};

#endif
