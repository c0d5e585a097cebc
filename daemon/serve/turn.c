/*
 * turn.c -- a turn of the loop: deadlines, input, output, and their order.
 *
 * Owns the lists of sessions to be read and to be written, and the time of the timer: libevent's clock is coarser than
 * base/clock.h, and only wakes the loop. Input and output have a bounded time each. Replies leave before events: the
 * time for input bounds how many sessions ask in a turn; nothing bounds how many receive an event.
 * TU1 Deadlines of a turn are served before its input.
 * TU2 A closed session is freed at the end of the turn, never inside it.
 */
#include "daemon/serve/engine.h"

#include <event2/event.h>

#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "daemon/serve/auth_limit.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/peer.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/session.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"

/* The requests that the sessions with input share in one turn; each gets between SHARE_MIN and SHARE_MAX. */
#define REQUESTS_PER_TURN 1024
#define SHARE_MIN 16
#define SHARE_MAX 256
#define UNFINISHED_US (1 * US_PER_MS) /* extra time for the input of sessions that a former turn cut short */
#define WRITE_US (4 * US_PER_MS) /* the longest time for replies in a turn; events have the rest of it ... */
#define EVENTS_US (1 * US_PER_MS) /* ... and so much at least, if need be beyond it */
#define CLOCK_EVERY 8            /* sessions that write before the clock is read, and between two such reads */

/* ---- deadlines ---- */

static void
send_all(struct engine *e)
{
    backend_flush(e->backend);
    core_end_turn(e->core);
}

/* Keeps TU1: after the process has stood still, leases end before any reply reports a lock as held. */
static void
do_due(struct engine *e)
{
    int64_t now_us = clock_now_us();

    if (core_next_us(e->core) <= now_us) {
        engine_step(e, &(struct core_event){.type = CORE_TIME});
    }
    while (heap_min_at(&e->due) <= now_us) {
        session_overdue(container_of(heap_min(&e->due), struct session, due));
    }
    if (e->auth_limits != NULL) {
        auth_limit_due(e, now_us);
    }
    if (e->recheck_us <= now_us) {
        recheck_run(e, now_us);
    }
}

static int64_t
next_us(const struct engine *e)
{
    int64_t at_us = core_next_us(e->core), due_us = heap_min_at(&e->due);

    at_us = e->recheck_us < at_us ? e->recheck_us : at_us;
    at_us = auth_limit_next_us(e) < at_us ? auth_limit_next_us(e) : at_us;
    return due_us < at_us ? due_us : at_us;
}

/* A deadline may move away in every turn: the timer then fires too early once, and is set anew. Returns its time. */
static int64_t
arm_timer(struct engine *e)
{
    int64_t at_us = next_us(e), in_us;
    struct timeval tv;

#ifdef RLOCKD_TEST_CLOCK
    e->timer_at_us = CORE_FOREVER; /* the clock may have been moved since: arm anew */
#endif
    if (at_us >= e->timer_at_us) {
        return at_us;
    }
    e->timer_at_us = at_us;
    in_us = at_us - clock_now_us();
    in_us = in_us > 0 ? in_us : 0;
    tv.tv_sec = (time_t)(in_us / US_PER_S);
    tv.tv_usec = (suseconds_t)(in_us % US_PER_S);
    event_add(e->timer, &tv);
    return at_us;
}

/* ---- whose turn it is ---- */

static struct session *
ready_session(struct list *node)
{
    return container_of(node, struct session, ready_node);
}

/* True: the loop polls again instead of sleeping, because spin_should_poll() expects more work soon. */
static bool
stays_awake(struct engine *e)
{
    uint64_t progress_n = e->metrics.requests + e->steps_n;
    bool busy = progress_n != e->progress_n;

    e->progress_n = progress_n;
    return e->conf->spin_us != 0 && spin_should_poll(&e->spin, e->conf->spin_us, busy, clock_now_us());
}

/* Counts sessions up to the number at which the share is SHARE_MIN. */
static unsigned
count_sharers(const struct list *list, unsigned n)
{
    const struct list *node;

    for (node = list->next; node != list && n < REQUESTS_PER_TURN / SHARE_MIN; node = node->next) {
        n++;
    }
    return n;
}

/* The more sessions have input, the smaller is the share of each, so that none waits long for all others. */
static void
set_share(struct engine *e)
{
    unsigned n = count_sharers(&e->unfinished, count_sharers(&e->ready, 0));

    e->share = n > 0 ? REQUESTS_PER_TURN / n : SHARE_MAX;
    e->share = e->share < SHARE_MIN ? SHARE_MIN : e->share > SHARE_MAX ? SHARE_MAX : e->share;
}

/* True: the next turn must come at once, also for listings and events that this turn has begun and not served yet. */
static bool
has_more(const struct engine *e)
{
    return !list_empty(&e->ready) || !list_empty(&e->unfinished) || !list_empty(&e->writing) ||
           !list_empty(&e->writing_late) || !list_empty(&e->writing_events) || !list_empty(&e->listings) ||
           pubsub_lags(e->pubsub);
}

/*
 * Runs the input of the sessions on the list, one after the other, until the time is over; of one session at least, so
 * that each has its turn in the end. They join engine.ready, which no session leaves meanwhile (closed ones stay on it
 * until they are freed); sessions that are woken join at its end, and have their turn, too. A session that was read in
 * a former turn and has not written since is skipped, or its output would grow: it stays on engine.ready, and is read
 * when it has written.
 */
static void
run_input(struct engine *e, struct list *from)
{
    struct list *node = e->ready.prev; /* of the last session that has had its turn; or the head of the list */

    while (!list_empty(from)) {
        struct list *first = from->next;

        list_remove(first);
        list_push_back(&e->ready, first);
        while (node->next != &e->ready) {
            struct session *s = ready_session(node->next);

            node = node->next;
            if (s->input_done) {
                s->input_skipped = true;
                continue;
            }
            s->input_done = true;
            session_wake(s);
            e->input_session = s->id;
            if (session_input(s)) {
                (void)engine_input_late(e);
            }
            e->input_session = 0;
        }
        if (engine_was_late(e)) {
            return;
        }
    }
}

/* Lets the session write. It stays on its list meanwhile: a session that wakes itself here is not listed again. */
static bool
write_one(struct session *s)
{
    bool more;

    s->may_send_more = s->only_events = false;
    more = session_turn(s);
    list_remove(&s->write_node);
    return more;
}

/* The output of one turn. */
struct output {
    struct list again;  /* ready_node: sessions that have written, and have more input */
    struct list unsent; /* write_node: sessions whose sockets took all, and which have more to send in the next turn */
    unsigned n;         /* sessions that have written */
    int64_t began_us, spent_us;
    int64_t events_end_us; /* spent_us at which no more events leave; 0: none has left yet */
};

/*
 * The next session to write. Sessions with a reply come first: for half of the time those that former turns have not
 * reached, the oldest turn first; then those of this turn, newest first, because a grant matters more than the reply to
 * the UNLOCK that caused it. So no request waits for all sessions to which one step has replied. Then come sessions
 * that have only events, whose socket was full, or that have more of a long reply. NULL: none, or no time is left.
 */
static struct session *
next_to_write(struct engine *e, struct output *o)
{
    bool late_first = !list_empty(&e->writing_late) && (o->spent_us <= WRITE_US / 2 || list_empty(&e->writing));
    struct list *node = NULL;

    if (o->spent_us <= WRITE_US) {
        node = late_first ? e->writing_late.next : !list_empty(&e->writing) ? e->writing.prev : NULL;
    }
    if (node == NULL && !list_empty(&e->writing_events)) {
        if (o->events_end_us == 0) {
            o->events_end_us = o->spent_us + EVENTS_US > WRITE_US ? o->spent_us + EVENTS_US : WRITE_US;
        }
        node = o->spent_us <= o->events_end_us ? e->writing_events.next : NULL;
    }
    return node != NULL ? container_of(node, struct session, write_node) : NULL;
}

/*
 * A session that has written, and has more input, goes to engine.unfinished, which is read after engine.ready. It stays
 * on engine.ready if it was skipped meanwhile and was not cut short before.
 */
static void
wrote(struct output *o, struct session *s, bool more)
{
    bool stays_ready = s->input_skipped && !s->cut_short;

    if (s->input_done && !stays_ready) {
        list_remove(&s->ready_node);
    }
    if ((more || s->input_skipped) && !list_linked(&s->ready_node)) {
        list_push_front(&o->again, &s->ready_node);
    }
    s->input_done = s->input_skipped = false;
    if (s->may_send_more && !s->closed) {
        list_push_back(&o->unsent, &s->write_node);
        s->only_events = true;
    }
    if (++o->n % CLOCK_EVERY == 0) {
        int64_t now_us = clock_now_us();

        o->began_us = o->n == CLOCK_EVERY ? now_us : o->began_us; /* with fewer writers the clock is not read */
        o->spent_us = now_us - o->began_us;
    }
}

/* Sessions with output send once, also those whose input is put off, within the time of a turn for output. */
static void
write_all(struct engine *e)
{
    struct output o = {.n = 0};
    struct session *s;

    list_init(&o.again);
    list_init(&o.unsent);
    while ((s = next_to_write(e, &o)) != NULL) {
        wrote(&o, s, write_one(s));
    }
    while (!list_empty(&e->writing)) {
        struct list *last = e->writing.prev;

        list_remove(last);
        list_push_back(&e->writing_late, last);
    }
    list_move_all(&e->unfinished, &o.again);
    list_move_all(&e->writing_events, &o.unsent);
}

void
engine_reap(struct engine *e)
{
    while (!list_empty(&e->dying)) {
        session_free(container_of(e->dying.next, struct session, node));
    }
}

/*
 * Sessions with more input than their share of a turn wait for each other, and no other session waits for them. While
 * replies of the last turn have still to leave, they are read in every second turn only.
 */
static void
run_unfinished(struct engine *e)
{
    e->unfinished_waits = !list_empty(&e->writing_late) && !e->unfinished_waits;
    if (!e->unfinished_waits) {
        run_input(e, &e->unfinished);
    }
}

/*
 * First come deadlines, events that lag, and listings. Then input is read: of sessions with new input, then of those
 * that were cut short. Then the calls leave for Redis, and while Redis runs them, the replies are written.
 */
bool
engine_turn(struct engine *e)
{
    struct list waiting;
    uint64_t steps_n;
    int64_t at_us;
    bool more_files, more_sockets;

    do_due(e);
    if (pubsub_lags(e->pubsub)) {
        pubsub_turn(e->pubsub);
    }
    listings_turn(e);
    set_share(e);
    list_init(&waiting);
    list_move_all(&waiting, &e->ready);
    e->input_us = e->clock_read_us = clock_now_us();
    run_input(e, &waiting);
    if (engine_was_late(e)) {
        e->input_us = e->clock_read_us - (ENGINE_INPUT_US - UNFINISHED_US);
    }
    run_unfinished(e);
    send_all(e);
    steps_n = e->steps_n;
    write_all(e);
    list_move_all(&waiting, &e->ready); /* those that had no turn yet stay in front */
    list_move_all(&e->ready, &waiting);
    if (e->steps_n != steps_n) { /* sessions have run deferred requests, or have ended */
        send_all(e);
    }
    engine_reap(e);
    more_files = state_store_turn(e);
    more_sockets = peer_turn(e);
    at_us = arm_timer(e);
    return more_files || more_sockets || has_more(e) || at_us <= clock_now_us() || stays_awake(e);
}
