/*
 * reply.h -- one reply of Redis as a tree. Owned by the link that read it; borrowed for the callback.
 */
#ifndef RLOCKD_BACKEND_REPLY_H
#define RLOCKD_BACKEND_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

enum reply_type { REPLY_NULL, REPLY_INT, REPLY_TEXT, REPLY_STATUS, REPLY_ERROR, REPLY_ARRAY };

struct reply {
    enum reply_type type;
    int64_t n;           /* INT */
    struct slice text;   /* TEXT, STATUS, ERROR; NUL-terminated behind */
    size_t count;        /* ARRAY */
    size_t room;         /* ARRAY: of item; while it is read, less than count */
    struct reply **item; /* ARRAY: count replies, none NULL */
    struct cells *cells; /* ARRAY: where those of its items lie that are no text; owned */
    bool in_cell;        /* it lies there, and goes with the array */
    struct freelist *freelist; /* borrowed: the freelist of this reply and its items; NULL in a cell */
};

/* The longest text, of which the rest is cut; the most items of an array. */
enum { REPLY_BULK_BYTES_MAX = 1024 * 1024, REPLY_ITEMS_MAX = 4096 };

struct redisReader;
struct freelist;

/*
 * A reader of hiredis that makes struct reply of those spares, borrowed for its life and that of the replies; owned by
 * the caller.
 */
struct redisReader *reply_reader_new(struct freelist *s);

/* Bytes from Redis. Not after an error. */
void reply_reader_feed(struct redisReader *reader, const char *p, size_t n);

/* Frees a reply (struct reply, as hiredis hands it around). NULL is fine. */
void reply_free(void *reply);

#endif
