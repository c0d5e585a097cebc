/*
 * drain.h -- a drain: nothing is granted any more, and after a TERM the daemon ends when nothing is held; also which
 * locks a drain waits for.
 */
#ifndef RLOCKD_SERVE_DRAIN_H
#define RLOCKD_SERVE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/buf.h"

struct engine;
struct outbox;

/*
 * Stops grants. drain_is_complete(): nothing is held and nothing is in flight any more. timeout_us: for the log, when
 * the caller ends the drain in any case; 0: it waits for as long as it takes.
 */
void drain_start(struct engine *e, int64_t timeout_us);
bool drain_is_complete(const struct engine *e);

/* The drain ends: logs what it still waits for, if anything. */
void drain_log_timeout(struct engine *e);

/* Closes every session; the core releases what they hold. */
void drain_close_sessions(struct engine *e, const char *reason);

/* During a drain, the number of owners and permits that still hold locks, each counted per lock; else 0. */
uint64_t drain_held(const struct engine *e);

/*
 * Appends some of the locks that a drain waits for, with their holders: `a (session 7), b (owner w), c (freeing) and 9
 * more`. The text is printable; making it takes a bounded time. `box` notes the grants that the text relies on; NULL:
 * it is no part of a reply.
 */
void drain_print(const struct engine *e, struct buf *out, struct outbox *box);

#endif
