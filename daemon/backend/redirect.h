/*
 * redirect.h -- MOVED and ASK, by which a node of a cluster redirects a call to another node.
 */
#ifndef RLOCKD_BACKEND_REDIRECT_H
#define RLOCKD_BACKEND_REDIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/sentinel_url.h"
#include "daemon/base/slice.h"

struct redirect {
    bool ask; /* ASK: only this call goes to the other node, behind ASKING; else MOVED: that node owns the slot */
    uint16_t slot;
    char host[HOST_ROOM];
    int port; /* 1.. */
};

/*
 * "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381". ":6381" and "?:6381" stand for asked_host: the node does not know
 * its own host. False: the error is no redirection, and `out` is undefined.
 */
bool redirect_parse(struct slice error, const char *asked_host, struct redirect *out);

#endif
