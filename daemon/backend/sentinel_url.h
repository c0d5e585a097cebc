/*
 * sentinel_url.h -- a URL of sentinels: the addresses of some of them, and the name of the master.
 */
#ifndef RLOCKD_BACKEND_SENTINEL_URL_H
#define RLOCKD_BACKEND_SENTINEL_URL_H

#include <stdbool.h>

#include "daemon/base/slice.h"

enum { SENTINELS_MAX = 16, HOST_ROOM = 256, SENTINEL_NAME_ROOM = 128 };

struct sentinel_url {
    struct {
        char host[HOST_ROOM];
        int port;
    } listed[SENTINELS_MAX];
    unsigned listed_n;
    char master[SENTINEL_NAME_ROOM]; /* its name among the sentinels */
    int db;
    bool secure; /* sentinel+tls: to the sentinels and to Redis */
};

/* "sentinel[+tls]:HOST:PORT[,HOST:PORT ...]/MASTER[?db=N]", an IPv6 address in brackets. False: with a message. */
bool sentinel_url_parse(const char *url, struct sentinel_url *out, char error[160]);

/*
 * Copies a host that a sentinel or a node of a cluster has named. False, and `out` is unchanged: the text is neither a
 * host name nor an address, and must not reach logs and INFO.
 */
bool host_copy(struct slice text, char out[HOST_ROOM]);

/* Parses "HOST:PORT", an IPv6 address in brackets. False: the text has another form. */
bool host_port_parse(struct slice text, char host[HOST_ROOM], int *port);

#endif
