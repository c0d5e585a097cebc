/*
 * session_write.c -- the output of a session on its way to the socket.
 *
 * Owns session.out, session.later and session.write_ev while the session is open; closes the session where its output
 * cannot be sent whole. session.c decides when a turn writes, and whether the session then ends.
 *
 * SW1 Once session_write() has returned, session.later is empty if session.out is.
 */
#include "daemon/serve/session_out.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "daemon/base/clock.h"
#include "daemon/serve/long_replies.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    session_wake_to_write(arg);
}

/* Waits for the socket to become writable, or stops waiting. False: the kernel cannot report that. */
static bool
want_writable(struct session *s, bool want)
{
    if (want && s->write_ev == NULL) {
        s->write_ev = event_new(s->engine->base, s->fd, EV_WRITE | EV_ET | EV_PERSIST, on_writable, s);
        return event_add(s->write_ev, NULL) == 0;
    }
    if (!want && s->write_ev != NULL) {
        event_free(s->write_ev);
        s->write_ev = NULL;
    }
    return true;
}

/* Sends at most the first `most` bytes. Returns how many the socket took, -1: it is full; all if the peer is lost. */
static ssize_t
send_some(struct session *s, size_t most)
{
    ssize_t n;

    do { /* EINTR: retry at once, for the socket may be writable already, and no edge would come */
        n = send(s->fd, s->out.bytes.p, most, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        session_lose_peer(s);
        n = (ssize_t)s->out.bytes.n;
    } else if (n == (ssize_t)most && most < session_out_bytes(s)) {
        s->may_send_more = true; /* once the output behind it has been checked, too (SO1) */
    }
    return n;
}

/* Restores SW1, and gives memory back when there is nothing to send. */
static void
shift(struct session *s)
{
    if (s->out.bytes.p != NULL) {
        pool_take_back(&s->engine->pool, &s->out.bytes);
    }
    if (!list_empty(&s->later.list) && chunks_shift(&s->later, &s->out)) {
        s->out.pool = &s->engine->pool;
        s->may_send_more = true;
        long_replies_leave(s, s->out.bytes.n);
        if (list_empty(&s->later.list)) {
            long_replies_over(s);
        }
    }
}

bool
session_write(struct session *s)
{
    size_t most = s->out.bytes.n;
    ssize_t n;

    if (!s->unreachable && s->out.marks != NULL && !session_out_validate(s, &most)) {
        s->engine->metrics.late_closes++;
        session_close(s, CLOSE_LATE);
        return false;
    }
    if (s->out.bytes.n == 0) {
        shift(s);
        return false;
    }
    n = s->unreachable ? (ssize_t)s->out.bytes.n : send_some(s, most);
    if (n > 0) {
        outbox_sent(&s->out, (size_t)n);
        list_remove(&s->recheck_node); /* the socket took bytes: the peer has not hung up unnoticed */
    }
    if (s->out.bytes.n == 0) {
        shift(s);
    }
    if ((s->out.bytes.n > 0 || s->write_ev != NULL) && !want_writable(s, s->out.bytes.n > 0)) {
        session_close(s, CLOSE_SYSTEM);
        return false;
    }
    if (n > 0 && s->peeked > 0) {
        peek_take(s);
    }
    return n > 0;
}

void
session_write_set_deadline(struct session *s, bool ending, bool moved)
{
    struct engine *e = s->engine;

    if (!s->authed) {
        return; /* the deadline for AUTH stays */
    }
    if (s->out.bytes.n == 0 || !(ending || session_out_over_limit(s))) {
        heap_remove(&e->due, &s->due);
    } else if (moved || s->due.pos == 0) {
        heap_set(&e->due, &s->due, clock_now_us() + e->conf->dead_peer_us);
    }
}
