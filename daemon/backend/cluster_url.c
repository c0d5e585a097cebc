/*
 * cluster_url.c -- URLs of clusters.
 */
#include "daemon/backend/cluster_url.h"

#include <stdio.h>
#include <string.h>

bool
cluster_url_parse(const char *url, struct cluster_url *u, char error[160])
{
    const char *at = url, *comma;
    bool ok = true;

    memset(u, 0, sizeof(*u));
    u->secure = strncmp(url, "cluster+tls:", 12) == 0;
    at += u->secure ? 12 : strncmp(url, "cluster:", 8) == 0 ? 8 : 0;
    for (ok = at > url; ok; at = comma + 1) {
        size_t n = strcspn(at, ",");

        comma = at + n;
        ok = u->listed_n < CLUSTER_LISTED_MAX &&
             host_port_parse((struct slice){at, n}, u->listed[u->listed_n].host, &u->listed[u->listed_n].port);
        u->listed_n += ok;
        if (ok && *comma == '\0') {
            return true;
        }
    }
    snprintf(error, 160, "not a URL of a cluster: expected cluster[+tls]:HOST:PORT,HOST:PORT");
    return false;
}
