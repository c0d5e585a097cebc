/*
 * slots.h -- one session's slots: each keeps the reply of one request until it may leave. Private to session.c and
 * requests.c; what answers a request by its number is in replies.h.
 */
#ifndef RLOCKD_SERVE_SLOTS_H
#define RLOCKD_SERVE_SLOTS_H

#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"

void slots_init(struct session *s);

/* Frees them all, unanswered. */
void slots_fini(struct session *s);

static inline struct slot *
slot_at(const struct session *s, uint64_t id)
{
    return &s->slot[id & (s->slots_room - 1)];
}

/* The number of the oldest. */
static inline uint64_t
slots_first_id(const struct session *s)
{
    return s->next_slot - s->slots_n;
}

/* The oldest. NULL: there is none. */
static inline struct slot *
slots_first(const struct session *s)
{
    return s->slots_n == 0 ? NULL : slot_at(s, slots_first_id(s));
}

/* Opens one more slot, WAITING. */
struct slot *slots_open(struct session *s);

/* The outbox for a reply that begins now. */
static inline struct outbox *
slots_box(struct session *s, struct slot *sl)
{
    return sl != slots_first(s) ? &sl->box : session_out_end(s);
}

/* Brings session.slots_bytes up to date with what the slot holds. */
void slots_count(struct session *s, struct slot *sl);

/* The reply is written, into the outbox that slots_box() gave when it began. The slot may be gone afterwards. */
void slots_done(struct session *s, struct slot *sl);

/* Answers a request that could not be framed: behind all replies before it. */
void slots_protocol_error(struct session *s, const char *why);

/* Does the connection have as many unanswered requests, or as much memory for them, as it may? */
bool slots_at_limit(const struct session *s);

static inline bool
slots_full(const struct session *s)
{
    return s->slots_n > 0 && slots_at_limit(s);
}

/*
 * Has the core refuse the oldest request, if that waits for something that the unread input may bring. Afterwards the
 * session may be closed, or the slots as full as before.
 */
void slots_refuse_oldest(struct session *s);

/*
 * True: the last request read decides whether later ones run, and with which version of RESP and which role; it has not
 * had its turn yet, and none is read before that.
 */
bool slots_last_holds_up(const struct session *s);

static inline bool
slots_hold_up(const struct session *s)
{
    return s->slots_n > 0 && slots_last_holds_up(s);
}

#endif
