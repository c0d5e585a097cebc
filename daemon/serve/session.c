/*
 * session.c -- one connection: its socket and its life. Its end is session_end.c, its requests are requests.c.
 *
 * Callbacks of the loop only mark a session (session_wake); the turn does the work: session_input() reads a bounded
 * number of bytes and runs a bounded number of requests, session_turn() writes once and decides whether the session
 * ends. Events are edge-triggered: none is deleted while a session is held up, so the hang-up of its peer is seen even
 * then.
 * S1  A session is on engine.sessions and in engine.by_id until it is closed, then on engine.dying, then freed.
 * S2  The core gets SESSION_GONE exactly once, from session_close(), and no event of the session after it.
 * S3  A session has buffers only while something is half read, half written or unanswered.
 * S4  A session that owes AUTH, or whose client must read before it may end or go on, has a deadline in engine.due.
 */
#include "daemon/serve/session.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/slice.h"
#include "daemon/serve/auth_limit.h"
#include "daemon/serve/peer.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/requests.h"
#include "daemon/serve/roles.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"
#include "proto/commands.h"

/*
 * A read that returns less than was asked for has emptied the socket, and another edge reports later bytes. Only one
 * end can be missed: that of a broken connection whose last bytes came with the same edge (libevent reports an error
 * as plain readiness). After such a read the session is on engine.recheck until a send() shows that the peer is still
 * there, or until it is read once more, some milliseconds later (recheck.c).
 */

#define LATE_EVERY 8            /* after so many requests a session checks whether the turn has taken long ... */
#define LATE_SHARE 2            /* ... if it has, it stops, and sessions read later in the turn run so many */
#define END_LONG 64             /* unanswered requests: a session with more of them ends its waits a turn later */

/* ---- open ---- */

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct session *s = arg;

    (void)fd;
    s->hung_up = s->hung_up || (what & EV_CLOSED) != 0;
    s->readable = s->unchecked = true;
    session_wake(s);
}

void
session_refuse(int fd, enum error_code code)
{
    struct buf line;

    buf_init(&line, 0);
    writer_error_plain(&(struct writer){.out = &line, .proto = 2}, code);
    (void)send(fd, line.p, line.n, MSG_DONTWAIT | MSG_NOSIGNAL);
    buf_fini(&line);
}

static void
refuse(struct engine *e, int fd, enum error_code code)
{
    e->metrics.connections_refused++;
    session_refuse(fd, code);
    close(fd);
}

/* True: the session's user leaves others their share of limits.sessions. */
static bool
may_enter(const struct session *s)
{
    struct engine *e = s->engine;

    if (core_share_has_room((uint64_t)e->conf->limit_sessions, (unsigned)e->conf->limit_user_share, e->sessions_n,
                            core_user_sessions(e->core, s->user))) {
        return true;
    }
    e->metrics.user_shares++;
    return false;
}

/* False: libevent cannot watch the socket; then session_open() frees the rest. */
static bool
enrol(struct session *s)
{
    struct engine *e = s->engine;

    s->read_ev = event_new(e->base, s->fd, EV_READ | EV_CLOSED | EV_ET | EV_PERSIST, on_readable, s);
    if (event_add(s->read_ev, NULL) != 0) {
        return false;
    }
    s->id = core_session_open(e->core, s->user);
    map_add(&e->by_id, &s->by_id, s->id);
    return true;
}

struct session *
session_open(struct engine *e, int fd, bool is_unix, const char *addr)
{
    struct session *s;
    bool may;

    if (e->sessions_n >= (uint64_t)e->conf->limit_sessions) {
        refuse(e, fd, ERR_MAX_CLIENTS);
        return NULL;
    }
    s = mem_zalloc(sizeof(*s));
    s->engine = e;
    s->fd = fd;
    s->is_unix = is_unix;
    s->proto = 2;
    s->opened_us = s->active_us = clock_now_us();
    list_init(&s->node);
    list_init(&s->ready_node);
    list_init(&s->write_node);
    list_init(&s->long_reply_node);
    list_init(&s->recheck_node);
    list_init(&s->monitor_node);
    list_init(&s->process_node);
    slots_init(s);
    outbox_init(&s->out);
    s->out.pool = &e->pool;
    chunks_init(&s->later, 0);
    roles_reset(s);
    reader_init(&s->reader, s->authed ? &e->limits : &e->limits_unauthed);
    snprintf(s->addr, sizeof(s->addr), "%s", addr);
    peer_identify(s);
    s->user = user_key(s);
    may = may_enter(s);
    if (!may || !enrol(s)) {
        if (s->read_ev != NULL) {
            event_free(s->read_ev);
        }
        reader_fini(&s->reader);
        free(s);
        refuse(e, fd, may ? ERR_NO_WATCH : ERR_MAX_CLIENTS);
        return NULL;
    }
    list_push_back(&e->sessions, &s->node);
    e->sessions_n++;
    e->metrics.connections++;
    peer_watch(s);
    if (!s->authed) {
        heap_set(&e->due, &s->due, s->opened_us + e->conf->auth_timeout_us);
    }
    log_event(e->log, LOG_DEBUG, "session", "open", "session", LOG_N(s->id), "peer", LOG_S(s->peer), "on",
              LOG_S(s->addr), NULL);
    return s;
}

void
session_free(struct session *s)
{
    assert(s->closed);
    list_remove(&s->node);
    list_remove(&s->ready_node);
    list_remove(&s->write_node);
    slots_fini(s);
    reader_fini(&s->reader);
    outbox_fini(&s->out);
    chunks_fini(&s->later);
    free(s->name);
    free(s->lib_name);
    free(s->lib_ver);
    free(s);
}

/* ---- in ---- */

/* Nothing more is read before earlier requests are answered, which may take as long as they wait. */
static bool
held_up(const struct session *s)
{
    return slots_full(s) || slots_hold_up(s) || s->auth_wait != NULL;
}

/* The session may run another request, if there is a slot for it. */
static bool
accepts_requests(const struct session *s)
{
    bool ends = s->closed || s->quitting || s->framing_lost;

    return !ends && !session_out_over_limit(s) && !slots_hold_up(s) && s->auth_wait == NULL;
}

static bool
may_run(const struct session *s)
{
    return accepts_requests(s) && !slots_full(s);
}

/*
 * Makes room for another request when more input has come. That input may contain the UNLOCK that earlier requests wait
 * for, so the oldest wait of a full session is refused. False: there is no room. After a hang-up all waits end, see
 * report_end().
 */
static bool
make_room(struct session *s)
{
    if (!accepts_requests(s)) {
        return false;
    }
    if (slots_full(s) && !s->hung_up) {
        slots_refuse_oldest(s);
        return may_run(s);
    }
    return !slots_full(s);
}

static void
lose_framing(struct session *s, const char *why)
{
    s->buffered = false;
    s->framing_lost = true;
    s->engine->metrics.protocol_errors++;
    slots_protocol_error(s, why);
}

/* True also if such a word is the name of a lock: then the request runs without effect. */
static bool
acts_for_others(const struct words *w)
{
    for (unsigned i = 2; i < w->n; i++) {
        if (slice_is(w->word[i], "OWNER") || slice_is(w->word[i], "TOKEN")) {
            return true;
        }
    }
    return false;
}

/*
 * True: the request would change nothing now that its session receives no replies.
 *
 * The session's own locks are released in any case: requests for its own owner, or that only read, change nothing.
 * Requests for a named owner or by TOKEN run, all of them: an UNLOCK without the LOCK before it would release another
 * hold of that owner.
 */
static bool
changes_nothing(const struct words *w)
{
    int id = command_find(w->word[0]);

    switch (id) {
    case CMD_LOCK:
    case CMD_UNLOCK:
    case CMD_RENEW:
    case CMD_CANCEL:
    case CMD_MLOCK:
    case CMD_MUNLOCK:
        return !acts_for_others(w);
    case CMD_HELLO: /* these change what the requests behind them may do */
    case CMD_AUTH:
    case CMD_RESET:
    case CMD_QUIT:
    case CMD_CLIENT: /* KILL */
        return false;
    default:
        return id >= 0 && command_rows[id].when == WHEN_TURN;
    }
}

/* Counts n bytes that the reader has consumed. */
static void
count_unauthed(struct session *s, size_t n)
{
    if (s->closed || s->authed) {
        return;
    }
    s->unauthed_bytes += n;
    if (s->unauthed_bytes > (size_t)s->engine->conf->auth_bytes) {
        lose_framing(s, "too much before AUTH");
    }
}

/* The part of the budget that a request takes: a request about many names, or with many patterns, counts as many. */
static unsigned
weight_of(const struct words *w)
{
    enum { FEW_WORDS = 8 };

    return w->n <= FEW_WORDS ? 1 : w->n / 2;
}

/* Runs the whole requests in the reader; returns the budget that is left. */
static unsigned
run_requests(struct session *s, unsigned budget)
{
    struct words w;
    unsigned weight;

    while (budget > 0 && s->buffered && (reader_pending(&s->reader) == 0 || make_room(s))) {
        size_t pending = reader_pending(&s->reader);
        enum reader_result result = reader_next(&s->reader, &w);
        size_t consumed = pending - reader_pending(&s->reader); /* blank lines and empty arrays included */

        switch (result) {
        case READER_READY:
            weight = weight_of(&w);
            if (!s->unreachable || !changes_nothing(&w)) {
                requests_take(s, &w);
                count_unauthed(s, consumed);
            }
            budget -= weight < budget ? weight : budget;
            if (pubsub_holds_up(s) ||
                ((weight > 1 || budget % LATE_EVERY == 0) && engine_input_late(s->engine))) {
                budget = 0;
            }
            break;
        case READER_MORE:
            s->buffered = false;
            count_unauthed(s, consumed);
            break;
        case READER_BAD:
            lose_framing(s, s->reader.error);
            break;
        }
    }
    return budget;
}

/* Hands the new bytes to the reader; they stay in engine.scratch until reader_keep(). */
static void
feed(struct session *s, char *p, size_t n)
{
    if (n == 0) {
        return;
    }
    s->buffered = true;
    if (reader_pending(&s->reader) == 0) {
        reader_lend(&s->reader, p, n);
    } else {
        reader_feed(&s->reader, p, n);
    }
}

/* One read (or peek, see peek.c), as much as scratch takes; after a known hang-up the session is read to the end. */
static void
receive(struct session *s)
{
    char *scratch = s->engine->scratch;
    size_t got = 0;
    ssize_t n;

    list_remove(&s->recheck_node);
    s->unchecked = false;
    do {
        n = peek_read(s, scratch + got, ENGINE_SCRATCH_BYTES - got);
        got += n > 0 ? (size_t)n : 0;
    } while (n > 0 && got < ENGINE_SCRATCH_BYTES && s->hung_up);
    if (n > 0 && got < ENGINE_SCRATCH_BYTES) {
        s->readable = false;
        recheck_add(s->engine, s);
    } else if (n == 0) {
        s->readable = false;
        s->eof = true;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        s->readable = false;
        s->eof = s->unreachable;
    } else if (n < 0 && errno != EINTR) {
        s->readable = false;
        s->eof = s->unreachable = true;
    }
    feed(s, scratch, got);
}

/* No more requests will come, and all that came were run. */
static bool
input_ended(const struct session *s)
{
    return s->framing_lost || (s->eof && !s->buffered);
}

/*
 * Checks whether the peer has closed both directions, or the connection is broken: unread input keeps recv() from
 * reporting it. The end of input alone is neither: a peer that has shut down one direction reads the replies.
 */
static void
check_peer(struct session *s)
{
    struct pollfd p = {.fd = s->fd};

    s->unchecked = false;
    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0) {
        s->peer_closed = (p.revents & POLLERR) == 0;
        session_lose_peer(s);
    }
}

/*
 * Makes the core end the waits of the session at the end of its input, and also when the peer has hung up while these
 * waits hold it up. When replies are dropped, the core also releases the locks of the session's own owner, because the
 * rest of the input may be read much later. Ending a wait takes about a microsecond, and all connections of a process
 * end together: a session with many waits is put off until other sessions have been read.
 */
static void
report_end(struct session *s)
{
    struct core_event eof = {.type = CORE_EOF, .session = s->id};
    struct core_event unreachable = {.type = CORE_UNREACHABLE, .session = s->id};
    bool is_news = s->unreachable && !s->unreachable_reported;
    bool ends = is_news || input_ended(s) || (s->hung_up && held_up(s));
    bool due = s->eof_reported_below != s->next_slot && s->slots_n > 0 && ends;

    s->eof_put_off = due && s->slots_n > END_LONG && !s->eof_put_off;
    if (s->eof_put_off) {
        return;
    }
    if (due) {
        s->eof_reported_below = s->next_slot;
        engine_step(s->engine, &eof);
    }
    if (is_news && !s->closed) {
        s->unreachable_reported = true;
        engine_step(s->engine, &unreachable);
    }
}

/* True: the session was woken only to write. */
static bool
has_no_input(const struct session *s)
{
    bool ended = s->hung_up || s->eof || s->framing_lost;

    return s->closed || !(s->buffered || s->readable || s->unchecked || ended || requests_can_run_deferred(s));
}

bool
session_input(struct session *s)
{
    unsigned budget = engine_was_late(s->engine) ? LATE_SHARE : s->engine->share;
    bool must_check = s->unchecked, held;

    s->cut_short = false;
    if (has_no_input(s)) {
        return false;
    }
    if (must_check && !s->unreachable && (s->hung_up || s->buffered)) {
        check_peer(s);
        must_check = false;
    }
    if (requests_can_run_deferred(s)) {
        requests_run_deferred(s);
    }
    held = pubsub_holds_up(s);
    budget = held ? 0 : run_requests(s, budget);
    if ((budget > 0 || held) && s->readable && !s->buffered && !s->eof && make_room(s)) {
        receive(s); /* also of a session that is held up: it may have ended */
        budget = held ? 0 : run_requests(s, budget);
        reader_keep(&s->reader);
        if (s->slots_n > 1 || s->buffered || reader_pending(&s->reader) > 0) {
            peek_take(s); /* the client waits for more than one reply */
        }
    }
    s->cut_short = budget == 0;
    if (!s->closed && !s->unreachable && ((s->unchecked && held_up(s)) || (must_check && s->cut_short))) {
        check_peer(s);
    }
    if (!s->closed) {
        report_end(s);
    }
    return true;
}

/* ---- after the write ---- */

static enum close_reason
ending_reason(const struct session *s)
{
    return s->orphan ? CLOSE_PROCESS
           : s->unreachable && !s->peer_closed ? CLOSE_ERROR
           : s->framing_lost ? CLOSE_PROTOCOL
           : s->quitting ? CLOSE_QUIT
           : CLOSE_EOF;
}

/* After the write: closes the session if it has to end, else sets its deadline. */
static void
maybe_close(struct session *s, bool moved)
{
    bool ending = s->quitting || (input_ended(s) && s->slots_n == 0);

    if (s->lock_lost) {
        session_close(s, CLOSE_LOST);
    } else if (s->output_overflow) {
        s->engine->metrics.output_overflows++;
        session_close(s, CLOSE_OUTPUT);
    } else if (ending && s->out.bytes.n == 0) {
        session_close(s, ending_reason(s));
    } else if (s->out.bytes.n > 0 || s->due.pos != 0) {
        session_write_set_deadline(s, ending, moved);
    }
}

/* Input can be run now, or after make_room(). */
static bool
has_more(const struct session *s)
{
    bool more = s->buffered || (s->readable && !s->eof);

    return (s->eof_put_off && !s->closed) || (more && (may_run(s) || (s->cut_short && accepts_requests(s))));
}

bool
session_turn(struct session *s)
{
    bool moved;

    if (s->closed) {
        return false;
    }
    if (requests_can_run_deferred(s)) {
        requests_run_deferred(s);
        if (s->closed) {
            return false;
        }
    }
    moved = session_write_waits(s) && session_write(s);
    if (!s->closed) {
        maybe_close(s, moved);
    }
    return requests_can_run_deferred(s) || has_more(s);
}

void
session_overdue(struct session *s)
{
    if (s->authed) {
        s->engine->metrics.output_overflows++;
    }
    session_close(s, s->authed ? CLOSE_OUTPUT : CLOSE_AUTH);
}
