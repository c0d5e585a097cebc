/*
 * session_out.h -- the output of a session on its way to the socket, what the socket tells of its peer, and its end.
 */
#ifndef RLOCKD_SERVE_SESSION_OUT_H
#define RLOCKD_SERVE_SESSION_OUT_H

#include "daemon/serve/session_record.h"

/* session_out.c */
/*
 * To be called right before a send(). Makes the output valid, by a clock that is read now, and sets *bytes to the
 * number that may leave. False: impossible, because bytes that are not valid have left in part.
 */
bool session_out_validate(struct session *s, size_t *bytes);

/* Where the next output goes: behind all that waits for the socket. */
struct outbox *session_out_last(struct session *s);

static inline struct outbox *
session_out_end(struct session *s)
{
    return s->out.bytes.p != NULL && list_empty(&s->later.list) ? &s->out : session_out_last(s);
}

/* The bytes that wait for the socket. */
static inline size_t
session_out_bytes(const struct session *s)
{
    return s->out.bytes.n + (list_empty(&s->later.list) ? 0 : chunks_bytes(&s->later));
}

static inline bool
session_out_over_limit(const struct session *s)
{
    return session_out_bytes(s) > (size_t)s->engine->conf->limit_output_bytes;
}

/*
 * A push for a subscriber or monitor: whole frames only. It relies on `g`; NULL: on nothing. losses: metrics.lost then.
 */
void session_push(struct session *s, struct slice bytes, const struct core_grant *g, uint64_t losses);

/* session_write.c */
/* There is, or was, something to send. */
static inline bool
session_write_waits(const struct session *s)
{
    return s->out.bytes.p != NULL || s->write_ev != NULL || !list_empty(&s->later.list);
}

/* Calls send() once. True when the socket took something. May close the session. */
bool session_write(struct session *s);

/* Keeps S4 of session.c: if the session is to end, or its output is past the limit, its socket must take bytes. */
void session_write_set_deadline(struct session *s, bool ending, bool moved);

/* session_end.c */
/*
 * Ends the session now: the core gets SESSION_GONE, unwritten output gets one last send(), memory goes at the end of
 * the turn.
 */
void session_close(struct session *s, enum close_reason reason);

/* Stops reading, writes what is left, then closes. */
void session_quit(struct session *s);

/* Ends it, as an admin wants; a session that kills itself (`by`) still gets its reply. */
void session_kill(struct session *victim, struct session *by);

/* peek.c: requests that were read, and are still in the socket */
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

/* recheck.c: checks sessions that may have ended unseen (see session.c), some milliseconds later */
/* A session that has left engine.recheck by then is not checked. */
void recheck_add(struct engine *e, struct session *s);

/* At engine.recheck_us. */
void recheck_run(struct engine *e, int64_t now_us);

#endif
