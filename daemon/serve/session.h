/*
 * session.h -- one connection: bytes, requests in order, replies in order.
 *
 * Owns the socket, the reader, the output and the slots. A slot is one request
 * whose reply is not out yet: WAITING for the core or for Redis, READY with its
 * bytes, or DEFERRED: a command that runs in its turn (see WHEN_TURN), its words
 * copied. Replies leave in slot order, and not one byte leaves unasked: pushes go
 * only to sessions that subscribed or monitor, and they too wait behind a
 * half-written reply, never inside one.
 *
 * A session is found by id across every asynchronous gap; closing is final,
 * tells the core GONE, and the memory goes at the end of the turn.
 */
#ifndef RLOCKD_SERVE_SESSION_H
#define RLOCKD_SERVE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/serve/engine.h"
#include "daemon/serve/forms.h"
#include "daemon/serve/outbox.h"
#include "daemon/serve/pieces.h"
#include "proto/commands.h"
#include "proto/reader.h"
#include "proto/writer.h"

enum slot_state { SLOT_WAITING, SLOT_READY, SLOT_DEFERRED };

struct slot {
    enum slot_state state;
    enum command_id cmd;
    enum reply_form form; /* WAITING for the core: how its reply is to be written */
    unsigned words_n;     /* DEFERRED */
    size_t counted;       /* of the box, in session.slots_bytes */
    struct outbox box;    /* READY: the reply; DEFERRED: the words, packed */
};

struct peer_process;
struct auth_wait;

enum close_reason {
#define CLOSE_REASON(id, text) CLOSE_##id,
#include "daemon/serve/close_reasons.def"
#undef CLOSE_REASON
    CLOSE_REASONS
};

struct session {
    uint64_t id;
    struct engine *engine;     /* borrowed */
    struct map_node by_id;     /* engine.by_id */
    struct list node;          /* engine.sessions or engine.dying */
    struct list ready_node;    /* engine.ready, engine.rest */
    struct list write_node;    /* engine.writing, engine.owing, engine.telling */
    struct list recheck_node;   /* engine.unseen */
    struct list monitor_node;  /* engine.monitors */
    struct slot *slot;         /* a ring: request i is at i % slots_room; `first`, or owned */
    uint32_t slots_n, slots_room; /* in use; a power of two */
    size_t slots_bytes;        /* memory that the slots hold, themselves not counted */
    uint64_t next_slot;        /* number of the next request; core_request.id */
    struct slot first;         /* all the slots that a client needs who does not pipeline */

    int fd;
    struct event *read_ev, *write_ev; /* owned; edge-triggered; write_ev only while the socket is full */
    struct reader reader;
    size_t peeked;             /* bytes of the socket that were heard, and are still in it; see peek.c */
    struct outbox out;         /* replies of this turn and what the socket did not take */
    struct pieces later;       /* what comes behind out */
    struct list long_node;     /* engine.longs: so much of `later` is of long answers */
    size_t long_bytes;
    int proto;                 /* 2 or 3 */
    bool authed, admin;        /* roles; see roles.c */
    bool proved_admin;         /* by the admin's password */
    unsigned auth_failures;    /* wrong passwords since a right one; see commands_conn.c */
    struct auth_wait *auth_wait; /* owned; NULL = its AUTH waits for nothing; see auth_limit.c */
    bool eof;                  /* the peer sends nothing more */
    bool quit;                 /* close when the output is out */
    bool closed;               /* on engine.dying */
    bool heard;                /* it had its turn to hand something in, and not yet its turn to write */
    bool passed;               /* it was passed over since, for it had not written: it stays on engine.ready */
    bool only_told;            /* it is on engine.telling */
    bool cut_short;            /* it has handed in its share of this turn, and may have more */
    bool unsent;               /* the socket may take more of its output: no edge tells of it */
    bool readable;             /* the socket may have more for us */
    bool stirred;              /* the loop told of it since it was read last, or asked whether it is broken */
    bool buffered;             /* the reader may hold a whole request */
    bool hangup;               /* the peer has ended its side; what it sent before may still be unread */
    bool mute;                 /* the peer hears nothing any more: replies are dropped; what is still done: unheard.h */
    bool mute_told;            /* the core knows */
    bool shut;                 /* mute, for the peer has closed the socket */
    bool bad;                  /* framing is lost: nothing more is read */
    bool eof_waits;            /* many of its requests are to be ended, by its next turn */
    uint64_t eof_told;         /* requests below it are known by the core to be the last ones */
    size_t unauthed_bytes;     /* of requests before AUTH */
    bool orphan;               /* the process that connected has ended, a child of it may still have the socket */
    bool overflow, lost;       /* to be closed at the end of the turn: output not read, lock lost */
    int64_t loss_quiet_us;     /* a loss before then is not the first one of its window, see engine.c */
    struct heap_node due;      /* engine.due: AUTH, or output that must get moving, by then */

    char peer[64];             /* "unix:pid=12,uid=0,gid=0" or "127.0.0.1:4711" */
    char addr[96];             /* the listener's address */
    uint64_t user;             /* whose it is, see user.h */
    bool is_unix;
    pid_t pid;                 /* Unix peers; 0 = unknown */
    uid_t uid;
    gid_t gid;
    struct peer_process *process; /* of peer.c; NULL = not watched, or ended */
    struct list process_node;
    bool process_ended;        /* it was watched, and has ended */
    int64_t opened_us, active_us; /* active: last request */
    uint64_t requests_n;
    const char *last_command;
    char *name, *lib_name, *lib_ver; /* owned, CLIENT SETNAME / SETINFO; NULL = none */
    unsigned events_kept;      /* that its requests have brought, and that channels keep */
    void *subscriptions;       /* owned by pubsub; NULL = none */
};

/* ---- sessions.c ---- */

/* By id; NULL when it has gone. */
struct session *session_find(struct engine *e, uint64_t id);

/* The session that came next after this id, 0 = the first; NULL: none did. Ids rise. */
struct session *session_after(struct engine *e, uint64_t id);
uint64_t session_newest(const struct engine *e); /* the last id that came; 0 = nobody is there */

/* Gives the session its turns soon: to hand something in, and to write. */
void session_wake(struct session *s);

/* Gives the session a turn to write soon, behind those who have an answer. */
void session_wake_told(struct session *s);

/* The process of the session has ended: what was asked before is done, nobody hears the answers, and it ends. */
void session_orphan(struct session *s);

/* The peer can hear nothing any more. Some of what it has asked is still done: an UNLOCK may be among it. */
void session_lose_peer(struct session *s);

/* ---- session_end.c ---- */

/* Ends it now: the core is told, output not yet written is given one last try, memory goes at the end of the turn. */
void session_close(struct session *s, enum close_reason reason);

/* Stop reading, write what is there, then close. */
void session_quit(struct session *s);

/* ---- session.c and others ---- */

/* Takes the accepted fd (owned from now on). NULL when a limit or the kernel refuses it; the fd is closed then. */
struct session *session_open(struct engine *e, int fd, bool is_unix, const char *addr);

/* Where the reply of slot `id` is to be written, and how; session_replied() when all of it is. NULL: nobody waits. */
struct outbox *session_reply(struct session *s, uint64_t id, enum reply_form *form);
void session_replied(struct session *s, uint64_t id);

/* Behind what the oldest slot has said so far: taken, and no byte of it is copied. NULL: nothing. */
void session_append(struct session *s, struct pieces *more);

/*
 * The whole reply of slot `id`: it is taken. Unknown ids (a closed session's) are ignored. `more` is what the oldest
 * slot says besides, or NULL.
 */
void session_answer(struct engine *e, uint64_t session, uint64_t id, struct outbox *reply, struct pieces *more);

/*
 * A push for a subscriber or monitor: whole frames only. It relies on `g`; NULL: on nothing. losses: metrics.lost then.
 */
void session_push(struct session *s, struct slice bytes, const struct core_grant *g, uint64_t losses);

/*
 * From engine_turn_end: reads a bounded number of bytes if there are any, and runs a bounded number of requests. False:
 * there was nothing to do.
 */
bool session_input(struct session *s);

/* After all input of the turn: runs deferred commands whose turn has come, then writes once. True: more to do. */
bool session_turn(struct session *s);

/* Its deadline (engine.due) has passed: closes it. */
void session_overdue(struct session *s);

/* Frees a closed session; from the end of the turn. */
void session_free(struct session *s);

#endif
