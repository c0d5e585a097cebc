/*
 * sentinel_url.h -- a URL of sentinels: where some of them are, and which master is meant.
 */
#ifndef RLOCKD_BACKEND_SENTINEL_URL_H
#define RLOCKD_BACKEND_SENTINEL_URL_H

#include <stdbool.h>

#include "daemon/base/slice.h"

enum { SENTINELS_MAX = 16, SENTINEL_HOST_ROOM = 256, SENTINEL_NAME_ROOM = 128 };

struct sentinel_url {
    struct {
        char host[SENTINEL_HOST_ROOM];
        int port;
    } listed[SENTINELS_MAX];
    unsigned listed_n;
    char master[SENTINEL_NAME_ROOM]; /* as the sentinels call it */
    int db;
    bool secure; /* sentinel+tls: to the sentinels and to Redis */
};

/* "sentinel[+tls]:HOST:PORT[,HOST:PORT ...]/MASTER[?db=N]", an IPv6 address in brackets. False: with a message. */
bool sentinel_url_parse(const char *url, struct sentinel_url *out, char error[160]);

/*
 * A host as a sentinel names it: what cannot be a name or an address is refused, since the text goes to logs and to
 * INFO. False: `out` is left alone.
 */
bool sentinel_host(struct slice text, char out[SENTINEL_HOST_ROOM]);

/* "HOST:PORT", an IPv6 address in brackets. False: it is none. */
bool sentinel_host_port(struct slice text, char host[SENTINEL_HOST_ROOM], int *port);

#endif
