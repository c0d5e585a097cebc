/*
 * proxy.h -- the fault proxy: routes, their connections, and the faults on the way.
 *
 * A route listens at one address and joins each connection to another one. Bytes go through two pipes, UP (to the
 * target) and DOWN (to the client), each with faults of its own, which may change at any time and apply at once to open
 * connections.
 */
#ifndef RLOCKD_CHAOS_PROXY_H
#define RLOCKD_CHAOS_PROXY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/base/list.h"

enum way { UP, DOWN, WAYS };

/* The faults of one direction; 0 = none. One row each, named as in the control protocol. */
#define FAULTS(X)                                                                                                      \
    X(delay)     /* ms that each byte takes */                                                                         \
    X(trip)      /* us that each byte takes in addition: for figures, where a ms is much */                            \
    X(jitter)    /* ... and up to this many ms more; order is kept */                                                  \
    X(slice)     /* the most bytes that are written in a turn of the loop */                                           \
    X(cut)       /* a connection is reset after this many bytes (from this order, or from its begin) */                \
    X(swallow)   /* the next bytes are dropped, and the connection is reset */                                         \
    X(hole)      /* no byte passes, without an error; bytes arrive when the hole is closed, as by TCP */               \
    X(bandwidth) /* bytes a second */

enum fault {
#define X(name) FAULT_##name,
    FAULTS(X)
#undef X
    FAULT_KINDS
};

struct chunk;

struct addr {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* One direction of one connection. Chunks are in the order of arrival; `rest` bytes of them are not written yet. */
struct pipe {
    struct conn *conn;
    enum way way;
    struct event *readable, *writable, *timer;
    struct chunk *first, **last;
    size_t queued;
    uint64_t passed;   /* since the beginning, or the last `cut` */
    int64_t filled_us; /* bandwidth: when the bucket was filled */
    double bucket;
    bool eof, shut;
};

struct conn {
    struct list in_route;
    struct route *route;
    int fd[WAYS]; /* fd[UP]: the target; fd[DOWN]: the client. -1: not connected yet */
    struct pipe pipe[WAYS];
};

struct route {
    struct list in_proxy;
    struct proxy *proxy;
    char name[32];
    struct addr target;
    int fd;
    struct event *ready;
    struct list conns;
    long fault[WAYS][FAULT_KINDS];
    long refuse;
    uint64_t accepted, refused, resets, bytes[WAYS], happened[FAULT_KINDS];
};

struct proxy {
    struct event_base *base;
    struct list routes;
    uint64_t random;
};

int64_t proxy_now_us(void);

/* unix:PATH or tcp:HOST:PORT (numbers). */
bool addr_parse(struct addr *out, const char *text);

/* A new connection on the route, or NULL (and the socket is closed). */
struct conn *conn_open(struct route *r, int client);
/* Reset: the peers see RST on TCP, and an end on other sockets. */
void conn_close(struct conn *c, bool reset);
/* Applies changed faults. */
void conn_changed(struct conn *c);

#endif
