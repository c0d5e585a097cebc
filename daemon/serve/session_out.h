/*
 * session_out.h -- the output of a session.
 */
#ifndef RLOCKD_SERVE_SESSION_OUT_H
#define RLOCKD_SERVE_SESSION_OUT_H

#include "daemon/serve/session_record.h"

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

#endif
