/*
 * requests.h -- one session's requests: run when they may, in order. Private to session.c.
 */
#ifndef RLOCKD_SERVE_REQUESTS_H
#define RLOCKD_SERVE_REQUESTS_H

#include "daemon/serve/slots.h"

/* Takes one request that was read: runs it, or notes it for its turn. The session may be closed afterwards. */
void requests_take(struct session *s, const struct words *w);

/* Runs the deferred commands at the head, as long as nothing before them is open. */
void requests_settle(struct session *s);

/* May the oldest run, when it is deferred? */
bool requests_may_run(const struct session *s);

/* True when requests_settle() would run something. */
static inline bool
requests_can_settle(const struct session *s)
{
    return s->slots_n > 0 && slots_first(s)->state == SLOT_DEFERRED && requests_may_run(s);
}

#endif
