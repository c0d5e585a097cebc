/*
 * requests.h -- one session's requests: run when they may, in order. Private to session.c.
 */
#ifndef RLOCKD_SERVE_REQUESTS_H
#define RLOCKD_SERVE_REQUESTS_H

#include "daemon/serve/slots.h"

/* Takes one request that was read: runs it, or defers it. The session may be closed afterwards. */
void requests_take(struct session *s, const struct words *w);

/* Runs the deferred commands at the head, as long as all requests before them are answered. */
void requests_run_deferred(struct session *s);

/* May a deferred request run, if it is the oldest? */
bool requests_may_run(const struct session *s);

/* True when requests_run_deferred() would run something. */
static inline bool
requests_can_run_deferred(const struct session *s)
{
    return s->slots_n > 0 && slots_first(s)->state == SLOT_DEFERRED && requests_may_run(s);
}

#endif
