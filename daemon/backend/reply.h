/*
 * reply.h -- one reply of Redis as a tree. Owned by the link that read it; borrowed for the callback.
 */
#ifndef RLOCKD_BACKEND_REPLY_H
#define RLOCKD_BACKEND_REPLY_H

#include <stdint.h>

#include "daemon/base/slice.h"

enum reply_type { REPLY_NULL, REPLY_INT, REPLY_TEXT, REPLY_STATUS, REPLY_ERROR, REPLY_ARRAY };

struct reply {
    enum reply_type type;
    int64_t n;           /* INT */
    struct slice text;   /* TEXT, STATUS, ERROR; NUL-terminated behind */
    size_t count;        /* ARRAY */
    struct reply **item; /* ARRAY: count replies, none NULL */
};

#endif
