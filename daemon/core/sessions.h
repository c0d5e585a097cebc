/*
 * sessions.h -- how sessions begin and end, and owners with them; private to daemon/core.
 */
#ifndef RLOCKD_CORE_SESSIONS_H
#define RLOCKD_CORE_SESSIONS_H

#include "daemon/core/core.h"

struct core;
struct core_session;
struct owner;

/* sessions.c */
bool owner_release_next(struct core *c, struct owner *o); /* gives one of its claims back; false: there is none left */
void owner_timer(struct core *c, struct owner *o);
void owner_advance(struct core *c, struct owner *o);
void core_session_eof(struct core *c, struct core_session *s);
/* refuses its oldest request, if that waits */
void core_session_crowded(struct core *c, const struct core_session *s, uint64_t id);
void core_session_unreachable(struct core *c, struct core_session *s);
void core_session_gone(struct core *c, struct core_session *s);
/* leaves one of its owners; false: none is left, and the session is freed */
bool core_session_leave_next(struct core *c, struct core_session *s);

#endif
