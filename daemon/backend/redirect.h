/*
 * redirect.h -- what a node of a cluster answers to a call that is not its to run: MOVED and ASK.
 */
#ifndef RLOCKD_BACKEND_REDIRECT_H
#define RLOCKD_BACKEND_REDIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/sentinel_url.h"
#include "daemon/base/slice.h"

struct redirect {
    bool ask; /* ASK: this call alone, behind ASKING; else MOVED: the slot is the other node's */
    uint16_t slot;
    char host[SENTINEL_HOST_ROOM];
    int port; /* 1.. */
};

/*
 * "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381". A node that does not know its own host says ":6381" or "?:6381":
 * that is the host that was asked. False: it is none, `out` is undefined.
 */
bool redirect_parse(struct slice error, const char *asked_host, struct redirect *out);

#endif
