/*
 * engine.h -- the middle of the house: sessions on one side, core and backend on the other.
 *
 * A turn of the loop: libevent reports what is ready; sessions read and hand requests in, the backend posts outcomes;
 * each becomes one core_step() at once, whose actions are only *noted* (an operation in the backend's batch, a reply in
 * its slot, news in the outboxes). engine_turn_end() then lets sessions go on, flushes the backend, writes each
 * session's output once, and frees what died. So nothing re-enters: a sink never steps, a step never writes a socket.
 */

/*
 * The floors of this room. A file calls files of its floor and of those below, in no cycle: scripts/floors has the
 * files of each, and proves it. Upward goes what was registered once: the core's sink, the backend's callbacks, the
 * events of libevent, the work of a listing.
 *
 *   house     builds the engine, takes connections in, deals turns, and notes what the core and the backend tell
 *   input     a connection is read, and its requests run
 *   commands  what each verb does, and the table of them
 *   output    where an answer or an event waits, how it leaves, and how a session ends
 *   words     bytes without a session to hear them: replies, tables, trees, outboxes
 *   records   who is there, what each may do, what outlives the process, and one step of the core
 */
#ifndef RLOCKD_SERVE_ENGINE_H
#define RLOCKD_SERVE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "daemon/backend/backend.h"
#include "daemon/base/clock.h"
#include "daemon/base/hash.h"
#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "daemon/base/map.h"
#include "daemon/base/metrics.h"
#include "daemon/base/spin.h"
#include "daemon/core/core.h"
#include "daemon/core/view.h"
#include "daemon/serve/state_store.h"
#include "daemon/serve/pool.h"
#include "proto/reader.h"

#define ENGINE_SCRATCH_BYTES (64 * 1024)
#define ENGINE_INPUT_US (4 * US_PER_MS) /* the input of a turn may take so long */

struct event;
struct event_base;
struct session;
struct peer_process;
struct pubsub;
struct look;
struct auth_limits;

enum { ENGINE_FILES_BESIDE = 64 }; /* descriptors that are needed besides those of sessions */

struct engine {
    struct event_base *base;  /* borrowed */
    const struct conf *conf;  /* borrowed; exchanged by engine_reload */
    struct log *log;          /* borrowed */
    struct metrics metrics;
    struct core *core;        /* owned */
    struct backend *backend;  /* owned */
    struct pubsub *pubsub;    /* owned */
    char uuid[37];            /* of this daemon */
    struct state_store state_store;     /* owned; who this daemon is, and what outlives its process */
    struct hash_key hash;
    int64_t started_us;
    int64_t op_timeout_us;    /* as the backend was opened with: redis.timeout needs a restart */

    struct map by_id;         /* session.by_id, all open sessions; owned */
    uint32_t sessions_n;
    struct list sessions;     /* session.node, in order of arrival */
    struct list ready;        /* session.ready_node: to be heard */
    struct list rest;         /* session.ready_node: a turn has cut them short; they are heard behind engine.ready */
    bool rest_waits;          /* the last turn has not heard those, for answers were still to leave */
    struct list writing;      /* session.write_node: they have an answer to write, whenever they are heard ... */
    struct list owing;        /* ... and have not been reached by the turn in which they got it; in their order */
    struct list telling;      /* session.write_node: only told something, or held up by their sockets; in their order */
    struct list dying;        /* session.node: closed, freed at the end of the turn */
    struct list monitors;     /* session.monitor_node */
    uint64_t events_kept;     /* by channels.c, whoever has brought them */
    struct list recheck[2];    /* session.recheck_node: who may have ended unseen: to be looked at next; after that */
    int64_t look_us;          /* the next look */
    uint64_t asks;            /* the session whose input is taken now; 0 = no input is */
    unsigned share;           /* so many requests may a session hand in in this turn */
    int64_t input_us;         /* when its input began */
    int64_t seen_us;          /* when engine_input_late() looked last */

    struct map processes;     /* of peer.c: who is at the other end of Unix sockets */
    int64_t dead_peer_us;     /* what sockets were told, or are being told */
    struct list *peer_at;     /* session.node: the next one that a reload tells of another dead_peer; see peer.c */
    struct auth_limits *auth_limits; /* owned by auth_limit.c; NULL: nobody has sent a wrong password */
    struct heap due;          /* session.due: who must have gone on by then */
    struct reader_limits limits, limits_unauthed; /* session.reader.limits is one of them */
    char *scratch;            /* owned, ENGINE_SCRATCH_BYTES: what a session read in this turn, while it runs */
    struct pool pool;         /* owned: memory for what sessions are about to say */
    struct buf key;           /* scratch: the Redis key of the request at hand, or its keys one behind the other */
    struct list listings;     /* of listing.c: long answers that are being made, by turns */
    int64_t listings_left_us; /* that this turn has for them */
    struct list longs;        /* session.long_node: who has a long answer to read, the longest ago first */
    size_t longs_bytes;       /* of these, and of those in the making: see longs.c */
    struct map looks;         /* of look.c: what LOCKINFO asked Redis; look_forget() empties it */
    uint64_t looks_last;      /* id of the newest */

    struct event *timer;      /* owned */
    int64_t timer_at_us;      /* it is set to: the earliest of what is due, or before that */
    uint64_t steps_n, stirs_n; /* of the core; steps and requests when a turn ended last */
    struct spin spin;
    bool stepping;            /* inside core_step: nobody may step again */
    bool draining;
    bool redis_up;            /* what the backend said last */
};

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
 * The input of this turn had taken long enough when the clock was looked at last: no session hands in more than two
 * requests. Requests differ: of those that walk over something long a turn has fewer.
 */
static inline bool
engine_was_late(const struct engine *e)
{
    return e->seen_us - e->input_us > ENGINE_INPUT_US;
}

/* The same now. */
static inline bool
engine_input_late(struct engine *e)
{
    e->seen_us = clock_now_us();
    return engine_was_late(e);
}

/*
 * How to get in at Redis, by a configuration that is about to be taken. False with a message in `error`: its files will
 * not do, and nothing has changed.
 */
bool engine_login(struct engine *e, const struct conf *conf, char error[160]);

/* Takes a new configuration (owned by the caller, who keeps it until the next one). */
void engine_reload(struct engine *e, const struct conf *conf);

/* No new grants; idle tells when nothing is held and nothing is in flight any more. */
void engine_drain(struct engine *e);
bool engine_idle(const struct engine *e);

/* The drain has had its time: what it still waits for is logged. */
void engine_drain_over(struct engine *e);

/* Closes every session (what they hold is released). */
void engine_close_sessions(struct engine *e, const char *reason);

#endif
