/*
 * quorum_broadcast.c -- broadcasts to the daemons of a quorum: each leaves by all nodes, with its daemon and a serial
 * in front, and is taken once.
 */
#include <inttypes.h>
#include <string.h>

#include "daemon/backend/quorum_private.h"
#include "daemon/base/buf.h"

void
quorum_broadcast(struct backend *b, struct slice what)
{
    struct quorum *qu = (struct quorum *)(void *)b;
    struct buf text;

    buf_init(&text, 0);
    buf_printf(&text, "%s %" PRIu64 " ", qu->env.uuid, ++qu->broadcast_serial);
    buf_add_slice(&text, what);
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        shard_broadcast(qu->node[i].shard, 0, (struct slice){text.p, text.n});
    }
    buf_fini(&text);
}

struct slice
quorum_broadcast_text(struct quorum *qu, struct slice received, struct slice *uuid)
{
    const char *first = memchr(received.p, ' ', received.n), *second;
    uint64_t digest;

    second = first == NULL ? NULL : memchr(first + 1, ' ', received.n - (size_t)(first + 1 - received.p));
    if (second == NULL) {
        return (struct slice){NULL, 0};
    }
    digest = hash_bytes(&qu->env.secret, received.p, (size_t)(second - received.p));
    for (unsigned i = 0; i < RECENT_MAX; i++) {
        if (qu->recent[i] == digest) {
            return (struct slice){NULL, 0};
        }
    }
    qu->recent[qu->recent_at++ % RECENT_MAX] = digest;
    *uuid = (struct slice){received.p, (size_t)(first - received.p)};
    return (struct slice){second + 1, received.n - (size_t)(second + 1 - received.p)};
}
