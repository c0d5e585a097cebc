/*
 * peek.h -- what a session has heard already, and what is still in its socket. For session.c.
 */
#ifndef RLOCKD_SERVE_PEEK_H
#define RLOCKD_SERVE_PEEK_H

#include "daemon/serve/session.h"

/*
 * As recv() without waiting, of what was not heard yet; but who sleeps at the other end is not woken by it, if that
 * can be. At most ENGINE_SCRATCH_BYTES; engine.scratch may be overwritten (p may point into it).
 */
ssize_t peek_read(struct session *s, char *p, size_t n);

/*
 * Takes out of the socket what was heard: the other end is awake, or is to be. Overwrites engine.scratch; closes the
 * session if the bytes are not there, which the kernel does not do.
 */
void peek_take(struct session *s);

#endif
