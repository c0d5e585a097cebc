/*
 * backend.c -- the table of topologies.
 */
#include "daemon/backend/backend.h"

#include <stdio.h>
#include <string.h>

static const struct backend_ops *const topologies[] = {&standalone_ops, &sentinel_ops, &quorum_ops, &cluster_ops};

/* Whether the URL begins with one of the blank-separated schemes. */
static bool
has_scheme(const char *schemes, const char *url)
{
    size_t n;

    for (; *schemes != '\0'; schemes += n + (schemes[n] == ' ')) {
        n = strcspn(schemes, " ");
        if (strncmp(schemes, url, n) == 0) {
            return true;
        }
    }
    return false;
}

struct backend *
backend_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    for (size_t i = 0; i < sizeof(topologies) / sizeof(topologies[0]); i++) {
        if (has_scheme(topologies[i]->schemes, conf->url)) {
            return topologies[i]->open(conf, env, error);
        }
    }
    snprintf(error, 160, "no such kind of Redis URL");
    return NULL;
}
