/*
 * peek.h -- requests that were read, and are still in the socket.
 */
#ifndef RLOCKD_SERVE_PEEK_H
#define RLOCKD_SERVE_PEEK_H

#include "daemon/serve/session_record.h"

/*
 * As recv() without waiting, of bytes that were not read yet; if possible without waking the process at the other end.
 * At most ENGINE_SCRATCH_BYTES; engine.scratch may be overwritten (p may point into it).
 */
ssize_t peek_read(struct session *s, char *p, size_t n);

/*
 * Removes the peeked bytes from the socket: the other end is awake, or is to be woken. Overwrites engine.scratch;
 * closes the session if the kernel does not have them any more, which never happens.
 */
void peek_take(struct session *s);

#endif
