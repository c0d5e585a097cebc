/*
 * long_replies.h -- the memory of long replies of all sessions together: those being made, and those that wait to be
 * read.
 *
 * The bound is LONG_REPLIES_MAX replies of the greatest length. Beyond it, the session that has left a long reply
 * unread for longest is closed, like one that does not read its output; if that is not enough, replies being made are
 * refused.
 */
#ifndef RLOCKD_SERVE_LONG_REPLIES_H
#define RLOCKD_SERVE_LONG_REPLIES_H

#include "daemon/serve/session_record.h"

enum { LONG_REPLIES_MAX = 16 };

/* A reply in the making has changed from `was` to `now` bytes. */
void long_replies_recount(struct engine *e, size_t was, size_t now);

/* A long reply of the session waits to be read, behind earlier output. The session may be the one that is closed. */
void long_replies_wait(struct session *s, size_t bytes);

/* So many bytes of a long reply are about to leave. long_replies_over(): all have left, or the session has ended. */
void long_replies_leave(struct session *s, size_t bytes);
void long_replies_over(struct session *s);

/*
 * Closes sessions with an unread long reply, the oldest first, until the bound holds. True: it does not hold even
 * without any such session.
 */
bool long_replies_past_bound(struct engine *e);

#endif
