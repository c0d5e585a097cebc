/*
 * session_write.h -- the output of a session on its way to the socket. Private to session.c.
 */
#ifndef RLOCKD_SERVE_SESSION_WRITE_H
#define RLOCKD_SERVE_SESSION_WRITE_H

#include "daemon/serve/session_record.h"

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

#endif
