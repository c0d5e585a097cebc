/*
 * rlock_client.h -- one connection to rlockd, as the command line uses it.
 *
 * Words out as RESP, replies in as RESP2. A reply is handed out whole; until
 * then it is bytes in a buffer.
 */
#ifndef RLOCKD_RLOCK_CLIENT_H
#define RLOCKD_RLOCK_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

enum value_type { VALUE_SIMPLE, VALUE_ERROR, VALUE_INT, VALUE_BULK, VALUE_NULL, VALUE_ARRAY };

/* Replies are written down in pre-order: the items of an array follow it, each with all of its own. */
struct value {
    enum value_type type;
    int64_t n;         /* INT: the number; ARRAY: how many items */
    struct slice text; /* SIMPLE ERROR BULK: into the client's buffer */
    size_t nodes;      /* this one and everything inside it */
};

struct client {
    int fd;             /* owned; -1 = none */
    struct buf in;
    size_t used;        /* of `in`, by the reply handed out last */
    struct value *node; /* owned: the reply handed out last */
    size_t nodes, room;
    char error[192];    /* why the last call failed */
};

enum client_result { CLIENT_MORE, CLIENT_READY, CLIENT_BAD };

/*
 * Connects to "unix:PATH", "tcp:HOST:PORT" or a path with a '/' in it, and sends AUTH when a password is given;
 * each of that may take patience_us. False: `error` says why.
 */
bool client_open(struct client *c, const char *addr, const char *password, int64_t patience_us);
void client_close(struct client *c);

/* "tcp:ADDRESS:PORT" of who is connected, by numbers; "" for a Unix socket. */
void client_peer(const struct client *c, char out[80]);

/* Sends one request; words end with NULL. */
bool client_send(struct client *c, const char *const *words);

/* Reads once, what there is or what comes next. False at the end of the connection or on an error. */
bool client_fill(struct client *c);

/* The next whole reply among the bytes that are here; *out lives until the next client_ call. */
enum client_result client_next(struct client *c, const struct value **out);

/* Waits at most timeout_us (< 0: for ever) for the next reply. NULL: `error` says why. */
const struct value *client_wait(struct client *c, int64_t timeout_us);

/* The value after v and all that is inside v. */
const struct value *value_after(const struct value *v);

/* In a flat map (an array of keys and values) the value of a key, or NULL. */
const struct value *value_field(const struct value *map, const char *key);

/* The number that v is or reads as; `none` when it is neither. */
int64_t value_number(const struct value *v, int64_t none);

#endif
