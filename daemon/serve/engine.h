/*
 * engine.h -- the middle of the house: sessions on one side, core and backend on the other.
 *
 * A turn of the loop: libevent reports what is ready; sessions read and hand requests in, the backend posts outcomes;
 * each becomes one core_step() at once, whose actions are only *noted* (an operation in the backend's batch, a reply in
 * its slot, news in the outboxes). engine_turn_end() then lets sessions go on, flushes the backend, writes each
 * session's output once, and frees the sessions that have ended. So nothing re-enters: a sink never steps, a step never
 * writes a socket.
 */

/*
 * The floors of this room. A file calls files of its floor and of those below, in no cycle: scripts/floors has the
 * files of each, and proves it. Upward goes what was registered once: the core's sink, the backend's callbacks, the
 * events of libevent, the work of a listing.
 *
 *   house     builds the engine, accepts connections, runs the turns, and notes actions of the core and of the backend
 *   input     a connection is read, and its requests run
 *   commands  what each verb does, and the table of them
 *   output    where an answer or an event waits, how it leaves, and how a session ends
 *   words     bytes that no session has to send yet: replies, tables, trees, outboxes
 *   records   sessions, users and roles, the files that outlive the process, and one step of the core
 */
#ifndef RLOCKD_SERVE_ENGINE_H
#define RLOCKD_SERVE_ENGINE_H

#include "daemon/serve/engine_record.h"

#define ENGINE_SCRATCH_BYTES (64 * 1024)
#define ENGINE_INPUT_US (4 * US_PER_MS) /* the longest time for input in one turn */

enum { ENGINE_FILES_BESIDE = 64 }; /* descriptors that are needed besides those of sessions */

/* NULL with a message in `error`. */
struct engine *engine_new(struct event_base *base, const struct conf *conf, struct log *log, char error[160]);
void engine_free(struct engine **e);

/* step.c: one event into the core, at the time it is now. */
void engine_step(struct engine *e, const struct core_event *ev);

/*
 * Fills the spec of a name from the rules; its key is in engine.key until the next of these calls.
 */
void engine_spec(struct engine *e, struct slice name, struct core_spec *spec);

/* The same for the names of all these requests at once. */
void engine_specs(struct engine *e, struct core_request *rq, size_t n);

/* Frees the sessions that have ended. */
void engine_reap(struct engine *e);

/* After every event_base_loop(EVLOOP_ONCE). True: call the loop without blocking, there is or may be more to do. */
bool engine_turn_end(struct engine *e);

/*
 * True: by the last look at the clock, the input of this turn has used up its time. From then on each session runs two
 * requests at most (LATE_SHARE). A turn runs fewer requests if each of them takes longer.
 */
static inline bool
engine_was_late(const struct engine *e)
{
    return e->seen_us - e->input_us > ENGINE_INPUT_US;
}

/* The same, by a look at the clock. */
static inline bool
engine_input_late(struct engine *e)
{
    e->seen_us = clock_now_us();
    return engine_was_late(e);
}

/*
 * Takes the credentials for Redis from a configuration that is about to be taken. False with a message in `error`: its
 * files cannot be used, and nothing has changed.
 */
bool engine_login(struct engine *e, const struct conf *conf, char error[160]);

/* Takes a new configuration, which the caller owns and keeps until the next one. */
void engine_reload(struct engine *e, const struct conf *conf);

/* Stops grants. engine_idle(): nothing is held and nothing is in flight any more. */
void engine_drain(struct engine *e);
bool engine_idle(const struct engine *e);

/* drain_timeout is over: logs what the drain still waits for. */
void engine_drain_over(struct engine *e);

/* Closes every session; the core releases what they hold. */
void engine_close_sessions(struct engine *e, const char *reason);

#endif
