/*
 * drain.h -- the locks that a drain waits for. The drain itself: engine_drain() and others, see engine.h.
 */
#ifndef RLOCKD_SERVE_DRAIN_H
#define RLOCKD_SERVE_DRAIN_H

#include <stdint.h>

#include "daemon/base/buf.h"

struct engine;
struct outbox;

/* During a drain, the number of locks still held; else 0. */
uint64_t drain_held(const struct engine *e);

/*
 * Appends the first of these locks with their holders, and of those that are being released, printable and in a bounded
 * time: `a (session 7), b (owner w), c (freeing) and 9 more`. `box` notes the grants that the text relies on; NULL
 * outside of a reply.
 */
void drain_print(const struct engine *e, struct buf *out, struct outbox *box);

#endif
