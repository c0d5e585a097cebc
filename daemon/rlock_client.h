/*
 * rlock_client.h -- one connection to rlockd, as the command line uses it.
 *
 * Words out as RESP, replies in as RESP2 by hiredis's reader. A reply is handed out whole.
 */
#ifndef RLOCKD_RLOCK_CLIENT_H
#define RLOCKD_RLOCK_CLIENT_H

#include <hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/slice.h"

#if HIREDIS_MAJOR >= 1
typedef size_t client_items; /* as hiredis counts the items of an array */
#else
typedef int client_items;
#endif

/* Stays where it is between client_init() and client_close(): its reader points to it. */
struct client {
    int fd;                              /* owned; -1 = none */
    struct redisReader *reader;          /* owned */
    redisReplyObjectFunctions functions; /* of `reader`, with a bound on arrays ... */
    void *(*create_array)(const redisReadTask *, client_items); /* ... and hiredis's own function for these */
    bool array_too_large;                /* an array passed the bound: hiredis reports that as a failed allocation */
    struct redisReply *reply;            /* owned: the one handed out last */
    size_t unread;                       /* bytes of a reply that is not whole yet */
    char error[192];                     /* why the last call failed */
};

enum client_result { CLIENT_MORE, CLIENT_READY, CLIENT_BAD };

/* No connection yet, and no bytes of one. */
void client_init(struct client *c);

/*
 * Connects to "unix:PATH", "tcp:HOST:PORT" or a path with a '/' in it, and sends AUTH when a password is given. Each
 * address of the host may take patience_us, and so may the reply to AUTH; the name of a host is resolved without a
 * bound. A connection by TCP ends by itself when its host has not answered for 11 s. False: `error` says why.
 */
bool client_open(struct client *c, const char *addr, const char *password, int64_t patience_us);
void client_close(struct client *c);

/* "tcp:ADDRESS:PORT" of the peer, by numbers; "" for a Unix socket. */
void client_peer(const struct client *c, char out[80]);

/* Sends one request; words end with NULL. */
bool client_send(struct client *c, const char *const *words);

/* Reads once. False at the end of the connection or on an error. */
bool client_fill(struct client *c);

/* The next whole reply among the bytes that are here; *out lives until the next client_ call. */
enum client_result client_next(struct client *c, const struct redisReply **out);

/* Waits at most timeout_us for the next reply. NULL: `error` says why. */
const struct redisReply *client_wait(struct client *c, int64_t timeout_us);

/* Of STRING, STATUS and ERROR; else empty. */
static inline struct slice
reply_text(const struct redisReply *v)
{
    return (struct slice){v->str, v->len};
}

/* In a flat map (an array of keys and values) the value of a key, or NULL. */
const struct redisReply *reply_field(const struct redisReply *map, const char *key);

/* The number that v (or NULL) is or reads as; 0 when it is neither. */
int64_t reply_number(const struct redisReply *v);

#endif
