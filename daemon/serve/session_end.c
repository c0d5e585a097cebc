/*
 * session_end.c -- the end of a session, for any reason.
 *
 * Called where a session is read, written to, killed or refused; calls none of these. Memory goes at the end of the
 * turn: session_free() of session.c. Keeps S1 and S2 of session.c.
 */
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/serve/auth_limit.h"
#include "daemon/serve/long_replies.h"
#include "daemon/serve/peer.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"

#define DISCARD_BYTES (16 * 1024) /* the bytes of one read ... */
#define DISCARD_READS 64          /* ... and the most reads, before a socket with unread input is closed */

static const struct {
    const char *text;
    enum log_level level;
    const char *remedy;
} reasons[CLOSE_REASONS] = {
#define CLOSE_REASON(id, text, level, remedy) [CLOSE_##id] = {text, level, remedy},
#include "daemon/serve/close_reasons.def"
#undef CLOSE_REASON
};

/* close() with unread input would reset a TCP connection, and the reset could overtake the last replies. */
static void
discard_input(struct session *s)
{
    char bin[DISCARD_BYTES]; /* not engine.scratch: requests of the session that sent KILL may still lie there */
    int i;

    for (i = 0; i < DISCARD_READS; i++) {
        if (recv(s->fd, bin, sizeof(bin), MSG_DONTWAIT) <= 0) {
            return;
        }
    }
}

void
session_close(struct session *s, enum close_reason reason)
{
    struct engine *e = s->engine;
    struct core_event gone = {.type = CORE_SESSION_GONE, .session = s->id};

    if (s->closed) {
        return;
    }
    s->closed = true;
    log_event(e->log, reasons[reason].level, "session", "closed", "session", LOG_N(s->id), "peer", LOG_S(s->peer),
              "reason", LOG_S(reasons[reason].text), "requests", LOG_N(s->requests_n),
              reasons[reason].remedy[0] != '\0' ? "remedy" : NULL, LOG_S(reasons[reason].remedy), NULL);
    event_free(s->read_ev);
    if (s->write_ev != NULL) {
        event_free(s->write_ev);
    }
    if (!s->unreachable) {
        size_t n;

        if (s->out.bytes.n > 0 && session_out_validate(s, &n)) {
            (void)send(s->fd, s->out.bytes.p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        discard_input(s);
    }
    close(s->fd);
    s->fd = -1;
    heap_remove(&e->due, &s->due);
    list_remove(&s->monitor_node);
    list_remove(&s->recheck_node);
    long_replies_over(s);
    peer_leave(s);
    auth_limit_leave(s);
    pubsub_drop(e->pubsub, s);
    map_remove(&e->by_id, &s->by_id);
    list_remove(&s->node);
    list_push_back(&e->dying, &s->node);
    e->sessions_n--;
    engine_step(e, &gone);
}

void
session_quit(struct session *s)
{
    s->quitting = true;
    session_wake(s);
}

void
session_kill(struct session *victim, struct session *by)
{
    if (victim == by) {
        session_quit(victim);
    } else {
        session_close(victim, CLOSE_KILLED);
    }
}
