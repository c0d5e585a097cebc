/*
 * session_record.h -- the record of one connection, and its slots. What is done with it is in session.h and
 * sessions.h.
 *
 * Owns the socket, the reader, the output and the slots. A slot is one request whose reply is not out yet: WAITING for
 * the core or for Redis, READY with its bytes, or DEFERRED: a command that runs in its turn (see WHEN_TURN), its words
 * copied.
 */
#ifndef RLOCKD_SERVE_SESSION_RECORD_H
#define RLOCKD_SERVE_SESSION_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/serve/engine_record.h"
#include "daemon/serve/reply_form.h"
#include "daemon/serve/outbox.h"
#include "daemon/serve/chunks.h"
#include "proto/commands.h"
#include "proto/reader.h"
#include "proto/writer.h"

enum slot_state { SLOT_WAITING, SLOT_READY, SLOT_DEFERRED };

struct slot {
    enum slot_state state;
    enum command_id cmd;
    enum reply_form form; /* WAITING for the core: how its reply is to be written */
    unsigned words_n;     /* DEFERRED */
    size_t counted;       /* bytes of the box that session.slots_bytes counts */
    struct outbox box;    /* READY: the reply; DEFERRED: the words, packed */
};

struct peer_process;
struct auth_wait;

enum close_reason {
#define CLOSE_REASON(id, text, level, remedy) CLOSE_##id,
#include "daemon/serve/close_reasons.def"
#undef CLOSE_REASON
    CLOSE_REASONS
};

struct session {
    uint64_t id;
    struct engine *engine;     /* borrowed */
    struct map_node by_id;     /* engine.by_id */
    struct list node;          /* engine.sessions or engine.dying */
    struct list ready_node;    /* engine.ready, engine.unfinished */
    struct list write_node;    /* engine.writing, engine.writing_late, engine.writing_events */
    struct list recheck_node;   /* engine.recheck */
    struct list monitor_node;  /* engine.monitors */
    struct slot *slot;         /* a ring: request i is at i % slots_room; `first`, or owned */
    uint32_t slots_n, slots_room; /* in use; a power of two */
    size_t slots_bytes;        /* memory that the slots hold, without the ring itself */
    uint64_t next_slot;        /* number of the next request; core_request.id */
    struct slot first;         /* the only slot of a client that does not pipeline */

    int fd;
    struct event *read_ev, *write_ev; /* owned; edge-triggered; write_ev only while the socket is full */
    struct reader reader;
    size_t peeked;             /* bytes of the socket that were read, and are still in it; see peek.c */
    struct outbox out;         /* replies of this turn and what the socket did not take */
    struct chunks later;       /* the output behind out */
    struct list long_reply_node; /* engine.long_replies; `later` has long_reply_bytes of long replies */
    size_t long_reply_bytes;
    int proto;                 /* 2 or 3 */
    bool authed, admin;        /* roles; see roles.c */
    bool authed_as_admin;      /* by the admin's password */
    unsigned auth_failures;    /* wrong passwords since a right one; see commands_conn.c */
    struct auth_wait *auth_wait; /* owned; NULL = no AUTH of it waits; see auth_limit.c */

    /* of its input */
    bool readable;             /* the socket may have more of it */
    bool unchecked;            /* an event came since the last read or poll(): the connection may be broken */
    bool buffered;             /* the reader may hold a whole request */
    bool input_done;           /* its input has had a turn since the last turn of its output */
    bool input_skipped;        /* ... and was skipped in the next turn of input: it stays on engine.ready */
    bool cut_short;            /* the session has run its share of this turn, and may have more input */
    size_t unauthed_bytes;     /* consumed by the reader while it owes AUTH */

    /* of its output */
    bool may_send_more;        /* the socket may take more, and no edge will report that */
    bool only_events;          /* write_node is on engine.writing_events */

    /* of the end of its input */
    bool hung_up;              /* the peer has ended its side; what it sent before may still be unread */
    bool eof;                  /* nothing more is to be read from the socket */
    bool framing_lost;         /* no more requests can be found in the input */
    bool unreachable;          /* the peer cannot receive: replies are dropped; see changes_nothing() of session.c */
    bool peer_closed;          /* ... because it has closed the socket; else the connection is broken */
    bool unreachable_reported; /* the core has got UNREACHABLE */
    bool eof_put_off;          /* many of its requests have to end: EOF is reported in its next turn */
    uint64_t eof_reported_below; /* the core has got EOF for the requests below this number */

    /* of its end */
    bool lock_lost;            /* ends in this turn: a lock was lost, and its rule has `on_loss: close` */
    bool output_overflow;      /* ends in this turn: too much of its output is not read */
    bool quitting;             /* ends when its output is out, whatever input is left */
    bool orphan;               /* its process has ended; a child of that may still have the socket */
    bool closed;               /* has ended: on engine.dying */

    int64_t loss_quiet_us;     /* a loss before this time is logged as `lost also`, see engine.c */
    struct heap_node due;      /* engine.due: by then it must have sent AUTH, or its socket must take output */

    char peer[64];             /* "unix:pid=12,uid=0,gid=0" or "127.0.0.1:4711" */
    char addr[96];             /* the listener's address */
    uint64_t user;             /* user_key() of peer.h */
    bool is_unix;
    pid_t pid;                 /* Unix peers; 0 = unknown */
    uid_t uid;
    gid_t gid;
    struct peer_process *process; /* of peer.c; NULL = not watched, or ended */
    struct list process_node;
    bool process_ended;        /* its process was watched, and has ended */
    int64_t opened_us, active_us; /* active: last request */
    uint64_t requests_n;
    const char *last_command;
    char *name, *lib_name, *lib_ver; /* owned, CLIENT SETNAME / SETINFO; NULL = none */
    unsigned events_kept;      /* events that channels keep, and whose cause it is: see pubsub_event.cause */
    void *subscriptions;       /* owned by pubsub; NULL = none */
};

#endif
