/*
 * session_out.c -- the output of a session: what may leave, when it leaves, and how much may wait for the socket.
 *
 * Owns session.out, session.later and session.write_ev while the session is open; closes the session where its output
 * cannot be sent whole. When a turn writes, and whether the session ends behind it, is session.c's.
 *
 * I1  No byte leaves that was not compared with the core right before its send(): session_out_is_fit().
 * I2  session.later is empty while session.out is, once session_out_write() has returned.
 */
#include "daemon/serve/session_out.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "daemon/base/clock.h"
#include "daemon/serve/longs.h"
#include "daemon/serve/peek.h"

enum { LOOKS_MAX = 3 }; /* at one outbox before a send */

/* ---- what may leave ---- */

static void
step(void *ctx, const struct core_event *ev)
{
    engine_step(ctx, ev);
}

static void
rewrite(void *ctx, const struct outbox_mark *m, struct buf *out)
{
    form_rewrite(ctx, m, out);
}

/* Rewrites replies whose claim of a hold is over, or ends soon. False: one of them is partly sent. */
static bool
make_fit(struct session *s, int64_t now_us)
{
    struct engine *e = s->engine;
    uint64_t late = e->metrics.late_replies;
    struct outbox_env env = {.core = e->core, .losses = &e->metrics.lost, .late = &e->metrics.late_replies,
                             .step = step, .rewrite = rewrite, .ctx = e};

    if (outbox_fit(&s->out, now_us, &env) == OUTBOX_TORN) {
        return false;
    }
    if (e->metrics.late_replies != late) {
        log_event(e->log, LOG_WARN, "session", "late", "session", LOG_N(s->id), "peer", LOG_S(s->peer), "replies",
                  LOG_N(e->metrics.late_replies - late), "reason",
                  LOG_S("the lease was over, or lost, before the reply could leave; told so"), NULL);
    }
    return true;
}

bool
session_out_is_fit(struct session *s, size_t *bytes)
{
    int64_t now_us = s->out.marks != NULL ? clock_now_us() : 0;

    if (outbox_is_fit(&s->out, now_us, s->engine->metrics.lost)) {
        *bytes = s->out.bytes.n;
        return true;
    }
    /* Rewriting and logging take time, or the machine stands still: the next deadline may have come meanwhile. */
    for (int looks = 0; looks < LOOKS_MAX; looks++) {
        if (!make_fit(s, now_us)) {
            return false;
        }
        now_us = clock_now_us();
        if (now_us < s->out.fit_until_us) {
            *bytes = s->out.fit_n;
            return true;
        }
    }
    *bytes = 0; /* the next turn looks again */
    return true;
}

/* ---- the socket ---- */

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    session_wake(arg);
}

/* Waits for the socket to become writable, or stops waiting. False when out of memory. */
static bool
want_writable(struct session *s, bool want)
{
    if (want && s->write_ev == NULL) {
        s->write_ev = event_new(s->engine->base, s->fd, EV_WRITE | EV_ET | EV_PERSIST, on_writable, s);
        return s->write_ev != NULL && event_add(s->write_ev, NULL) == 0;
    }
    if (!want && s->write_ev != NULL) {
        event_free(s->write_ev);
        s->write_ev = NULL;
    }
    return true;
}

/* Sends at most the first `most` bytes; returns how many the socket took, -1 when it is full. */
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
        s->unsent = true; /* once what comes next is true as well */
    }
    return n;
}

/* Restores I2, and gives memory back when there is nothing to send. */
static void
shift(struct session *s)
{
    if (s->out.bytes.p != NULL) {
        pool_take_back(&s->engine->pool, &s->out.bytes);
    }
    if (!list_empty(&s->later.list) && pieces_shift(&s->later, &s->out)) {
        s->out.pool = &s->engine->pool;
        s->unsent = true;
        longs_leave(s, s->out.bytes.n);
        if (list_empty(&s->later.list)) {
            longs_over(s);
        }
    }
}

bool
session_out_write(struct session *s)
{
    size_t most = s->out.bytes.n;
    ssize_t n;

    if (!s->mute && s->out.marks != NULL && !session_out_is_fit(s, &most)) {
        s->engine->metrics.late_closes++;
        session_close(s, CLOSE_LATE);
        return false;
    }
    if (s->out.bytes.failed) {
        session_close(s, CLOSE_MEMORY);
        return false;
    }
    if (s->out.bytes.n == 0) {
        shift(s);
        return false;
    }
    n = s->mute ? (ssize_t)s->out.bytes.n : send_some(s, most);
    if (n > 0) {
        outbox_sent(&s->out, (size_t)n);
        list_remove(&s->recheck_node); /* the socket took bytes: the peer has not hung up unnoticed */
    }
    if (s->out.bytes.n == 0) {
        shift(s);
    }
    if ((s->out.bytes.n > 0 || s->write_ev != NULL) && !want_writable(s, s->out.bytes.n > 0)) {
        session_close(s, CLOSE_MEMORY);
        return false;
    }
    if (n > 0 && s->peeked > 0) {
        peek_take(s);
    }
    return n > 0;
}

void
session_out_set_deadline(struct session *s, bool ending, bool moved)
{
    struct engine *e = s->engine;

    if (!s->authed) {
        return; /* the deadline for AUTH stands */
    }
    if (s->out.bytes.n == 0 || !(ending || session_out_over_limit(s))) {
        heap_remove(&e->due, &s->due);
    } else if (moved || s->due.pos == 0) {
        heap_set(&e->due, &s->due, clock_now_us() + e->conf->dead_peer_us);
    }
}

/* ---- how much may wait ---- */

struct outbox *
session_out_last(struct session *s)
{
    struct outbox *last = pieces_last(&s->later);

    if (last != NULL) {
        return last;
    }
    pool_lend(&s->engine->pool, &s->out.bytes);
    return &s->out;
}

void
session_push(struct session *s, struct slice bytes, const struct core_grant *g, uint64_t losses)
{
    struct outbox *out;
    struct outbox_claim claim;

    if (s->closed || s->quit) {
        return;
    }
    if (session_out_over_limit(s)) {
        s->overflow = true;
    } else {
        out = session_out_end(s);
        claim = outbox_begin(out);
        buf_add_slice(&out->bytes, bytes);
        if (g != NULL) {
            outbox_rely(out, g, losses);
            outbox_end(out, claim, OUTBOX_DROP, FORM_NATIVE, s->proto);
        }
    }
    session_wake(s);
}
