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
    struct slice text;   /* TEXT, STATUS, ERROR; a NUL follows it */
    size_t count;        /* ARRAY */
    size_t room;         /* ARRAY: allocated length of `item`; less than count until all items are read */
    struct reply **item; /* ARRAY: count replies, none NULL */
    struct cells *cells; /* ARRAY: the memory of the items INT and NULL; owned */
    bool in_cell;        /* lies in a cell of its array, and is freed with the array */
    struct freelist *freelist; /* borrowed: the freelist of this reply and its items; NULL in a cell */
};

/* The longest text (longer ones are cut), and the most items of an array. */
enum { REPLY_BULK_BYTES_MAX = 1024 * 1024, REPLY_ITEMS_MAX = 4096 };

struct redisReader;
struct freelist;

/*
 * A reader of hiredis that makes struct reply. The caller owns it. The freelist is borrowed for the life of the reader
 * and its replies.
 */
struct redisReader *reply_reader_new(struct freelist *s);

/* Feeds bytes from Redis to the reader. Must not be called after an error of the reader. */
void reply_reader_feed(struct redisReader *reader, const char *p, size_t n);

/* Reads the answer to TIME. False: the reply is none, or names a time beyond the whole numbers of Lua (2^53 us). */
bool reply_time(const struct reply *r, int64_t *time_us);

/* Frees a reply (struct reply, as hiredis hands it around). NULL is fine. */
void reply_free(void *reply);

#endif
