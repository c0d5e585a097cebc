/*
 * engine.h -- the engine: it connects the sessions with the core, and the core with the backend.
 *
 * A turn of the loop: libevent reports what is ready; sessions are only marked, the backend reads and posts outcomes.
 * engine_turn() then reads the sessions and runs their requests, flushes the backend, lets sessions write (a second
 * time if the turn of another session to write has caused a reply to it), and frees the sessions that have ended. Each
 * request and each outcome becomes one core_step() at once, whose actions are only *noted* (an operation in the
 * backend's batch, a reply in its slot, news in the outboxes). So nothing re-enters: a sink never steps, a step never
 * writes a socket.
 */

/*
 * The floors of this room. A file calls files of its floor and of those below, in no cycle: scripts/floors has the
 * files of each, and proves it. Only callbacks go upward: the core's sink, the backend's callbacks, the events of
 * libevent, the work of a listing.
 *
 *   house     builds the engine, accepts connections, runs the turns; notes what the core and the backend report
 *   input     a connection is read, and its requests run
 *   commands  what each verb does, and the table of them
 *   output    where a reply or an event waits, how it leaves, and how a session ends
 *   words     bytes, before they are the output of a session: replies, tables, trees, outboxes
 *   records   sessions, users and roles, the files that outlive the process, and one step of the core
 *   layouts   headers without a source: the fields of records, and inlines that need nothing else
 */
#ifndef RLOCKD_SERVE_ENGINE_H
#define RLOCKD_SERVE_ENGINE_H

#include "daemon/serve/engine_record.h"

/* NULL with a message in `error`. */
struct engine *engine_new(struct event_base *base, const struct conf *conf, struct log *log, char error[160]);
void engine_free(struct engine **e);

/* Frees the sessions that have ended. */
void engine_reap(struct engine *e);

/* To be called after every event_base_loop(EVLOOP_ONCE). True: the next of these must not block: there may be work. */
bool engine_turn(struct engine *e);

/*
 * Takes the credentials for Redis from a configuration that is about to be taken. False with a message in `error`: its
 * files cannot be used, and nothing has changed.
 */
bool engine_login(struct engine *e, const struct conf *conf, char error[160]);

/* Takes a new configuration, which the caller owns and keeps until the next one. */
void engine_reload(struct engine *e, const struct conf *conf);

#endif
