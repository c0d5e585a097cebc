/*
 * engine_record.h -- the record of the engine: sessions, the core, the backend. What is done with it is in engine.h.
 */
#ifndef RLOCKD_SERVE_ENGINE_RECORD_H
#define RLOCKD_SERVE_ENGINE_RECORD_H

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
#include "daemon/base/pool.h"
#include "daemon/base/spin.h"
#include "daemon/core/core.h"
#include "daemon/core/view.h"
#include "daemon/serve/state_store.h"
#include "proto/reader.h"

#define ENGINE_SCRATCH_BYTES (64 * 1024)
#define ENGINE_INPUT_US (4 * US_PER_MS) /* the longest time for input in one turn */

enum { ENGINE_FILES_BESIDE = 64 }; /* descriptors that are needed besides those of sessions */

struct event;
struct event_base;
struct session;
struct peer_process;
struct pubsub;
struct question;
struct auth_limits;

struct engine {
    struct event_base *base;  /* borrowed */
    const struct conf *conf;  /* borrowed; exchanged by engine_reload */
    struct log *log;          /* borrowed */
    struct metrics metrics;
    struct core *core;        /* owned */
    struct backend *backend;  /* owned */
    struct pubsub *pubsub;    /* owned */
    char uuid[37];            /* of this daemon */
    struct state_store state_store;     /* owned; the daemon's uuid, and what outlives the process */
    struct hash_key hash;
    int64_t started_us;
    int64_t op_timeout_us;    /* as the backend was opened with: redis.timeout needs a restart */

    struct map by_id;         /* session.by_id, all open sessions; owned */
    uint32_t sessions_n;
    struct list sessions;     /* session.node, in order of arrival */
    struct list ready;        /* session.ready_node: to be read */
    struct list unfinished;   /* session.ready_node: cut short by a turn; read behind engine.ready */
    bool unfinished_waits;    /* the last turn did not read `unfinished`, because replies had to leave first */
    struct list writing;      /* session.write_node: sessions that may have a reply to write; each session that is read
                                 joins them ... */
    struct list writing_late; /* ... and those that former turns did not reach; the first one writes next */
    struct list writing_events; /* session.write_node: sessions that have only events, whose socket was full, or that
                                   have more of a long reply; in order */
    struct list dying;        /* session.node: closed, freed at the end of the turn */
    struct list monitors;     /* session.monitor_node */
    uint64_t events_kept;     /* the events that channels keep, of all sources */
    struct list recheck[2];   /* session.recheck_node: sessions that may have ended without an event; [0] is checked
                                 next, [1] after that */
    int64_t recheck_us;       /* when recheck[0] is checked; see recheck.c */
    uint64_t input_session;   /* the session whose input runs now; 0 = none */
    unsigned share;           /* the requests that one session may run in this turn */
    int64_t input_us;         /* when the input of this turn began; later if `unfinished` gets extra time */
    int64_t clock_read_us;          /* when the clock was read last for the time of input */

    struct map processes;     /* of peer.c: the processes at the other end of Unix sockets */
    int64_t dead_peer_us;     /* the keepalive that sockets have, or are being given */
    struct list *peer_at;     /* session.node: the next one to get the dead_peer of a reload; see peer.c */
    struct auth_limits *auth_limits; /* owned by auth_limit.c; NULL: no wrong password was sent */
    struct heap due;          /* session.due: when a session is closed, unless it has made progress */
    struct reader_limits limits, limits_unauthed; /* session.reader.limits is one of them */
    char *scratch;            /* owned, ENGINE_SCRATCH_BYTES: what a session read in this turn, while it runs */
    struct pool pool;         /* owned: memory of output that is about to leave */
    struct buf key;           /* scratch: the Redis key of the request at hand, or its keys one behind the other */
    struct list listings;     /* of listing.c: long replies that are being made, by turns */
    int64_t listings_left_us; /* time that this turn has left for them */
    struct list long_replies; /* session.long_reply_node: their clients have not read a long reply, oldest first */
    size_t long_replies_bytes; /* of all long replies, unread or in the making: see long_replies.c */
    struct map questions;     /* of lockinfo.c: of LOCKINFO and GET to Redis; lockinfo_drop_all() empties it */
    uint64_t questions_last;  /* id of the newest */

    struct event *timer;      /* owned */
    int64_t timer_at_us;      /* its time: the earliest deadline, or before that */
    uint64_t steps_n, progress_n; /* steps of the core; steps and requests at the end of the last turn */
    struct spin spin;
    bool stepping;            /* inside core_step: another step is a bug */
    bool draining;
    bool redis_up;            /* by the last report of the backend */
};

/*
 * True: when the clock was read last, the input of this turn had used up its time. From then on each session runs two
 * requests at most (LATE_SHARE).
 */
static inline bool
engine_was_late(const struct engine *e)
{
    return e->clock_read_us - e->input_us > ENGINE_INPUT_US;
}

/* The same, by a clock that is read now. */
static inline bool
engine_input_late(struct engine *e)
{
    e->clock_read_us = clock_now_us();
    return engine_was_late(e);
}

#endif
