/*
 * session_end.h -- how a session ends.
 */
#ifndef RLOCKD_SERVE_SESSION_END_H
#define RLOCKD_SERVE_SESSION_END_H

#include "daemon/serve/session_record.h"

/*
 * Ends the session now: the core gets SESSION_GONE, unwritten output gets one last send(), memory goes at the end of
 * the turn.
 */
void session_close(struct session *s, enum close_reason reason);

/* Stops reading, writes what is left, then closes. */
void session_quit(struct session *s);

/* Ends it, as an admin wants; a session that kills itself (`by`) still gets its reply. */
void session_kill(struct session *victim, struct session *by);

#endif
