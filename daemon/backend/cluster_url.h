/*
 * cluster_url.h -- a URL of a cluster: the addresses of some of its nodes.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_URL_H
#define RLOCKD_BACKEND_CLUSTER_URL_H

#include <stdbool.h>

#include "daemon/backend/sentinel_url.h"

enum { CLUSTER_LISTED_MAX = 64 };

struct cluster_url {
    struct {
        char host[HOST_ROOM];
        int port;
    } listed[CLUSTER_LISTED_MAX];
    unsigned listed_n;
    bool secure; /* cluster+tls: */
};

/* "cluster[+tls]:HOST:PORT[,HOST:PORT ...]", an IPv6 address in brackets. False: with a message. */
bool cluster_url_parse(const char *url, struct cluster_url *out, char error[160]);

#endif
