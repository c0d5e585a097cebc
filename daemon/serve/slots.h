/*
 * slots.h -- one session's requests: run when they may, answered in order. Private to session.c.
 */
#ifndef RLOCKD_SERVE_SLOTS_H
#define RLOCKD_SERVE_SLOTS_H

#include "daemon/serve/session.h"

void slots_init(struct session *s);

/* Takes one request that was read: runs it, or notes it for its turn. The session may be closed afterwards. */
void slots_take(struct session *s, const struct words *w);

/* Runs the deferred commands at the head, as long as nothing before them is open. */
void slots_settle(struct session *s);

/* Answers a request that could not be framed: behind all replies before it. */
void slots_protocol_error(struct session *s, const char *why);

/* Are as many requests unanswered, or do they hold as much memory, as one connection may have? */
bool slots_at_limit(const struct session *s);

static inline bool
slots_full(const struct session *s)
{
    return s->slots_n > 0 && slots_at_limit(s);
}

/*
 * Has the oldest request refused, if it waits for what may have to be read first. The session may be closed afterwards,
 * and the slots as full as before.
 */
void slots_refuse_oldest(struct session *s);

/* True when the last request read ends the session: what comes behind it is not run. */
bool slots_last_is_quit(const struct session *s);

static inline bool
slots_ending(const struct session *s)
{
    return s->slots_n > 0 && slots_last_is_quit(s);
}

/* The oldest; there is one. */
static inline struct slot *
slots_head(const struct session *s)
{
    return &s->slot[(s->next_slot - s->slots_n) & (s->slots_room - 1)];
}

/* True when slots_settle() would run something. */
bool slots_head_may_run(const struct session *s);

static inline bool
slots_can_settle(const struct session *s)
{
    return s->slots_n > 0 && slots_head(s)->state == SLOT_DEFERRED && slots_head_may_run(s);
}

/* Frees them all, unanswered. */
void slots_fini(struct session *s);

#endif
