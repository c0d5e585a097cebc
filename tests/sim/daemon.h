/*
 * daemon.h -- the daemons of a world, with their sessions and the state that outlives their processes.
 */
#ifndef RLOCKD_TESTS_SIM_DAEMON_H
#define RLOCKD_TESTS_SIM_DAEMON_H

#include "daemon/backend/backend.h"
#include "daemon/core/view.h"
#include "daemon/serve/outbox.h"
#include "tests/sim/tables.h"

/* ---- daemons and their clients ---- */

struct asked {
    uint64_t id; /* 0 = free */
    uint64_t turn; /* its number among all requests to its daemon */
    enum core_event_type type;
    size_t n; /* names of an MLOCK and the like; else 0 */
    int name[MANY];
    int64_t at_us, wait_us;
    bool once, shared;
    struct slice owner; /* n == 0: the session's own; lives for ever */
    bool first; /* no other request of this session was under way when it was sent */
    bool sole;  /* and none has been sent since */
    bool answered, written; /* by the core; to its session's output */
    uint32_t given_back, renewed; /* names that its owner has UNLOCKed since, and RENEWed; a bit each */
    struct core_reply reply, part[MANY]; /* answered */
    struct outbox box;      /* answered, and not written yet */
    bool queued; /* it had a position at once; a request that waits for a release of its own owner has none */
};

struct session {
    bool open, eof;
    uint64_t id, next_request;
    int64_t paused_until_us;
    struct asked asked[ASKED];
    int asked_n;
    struct outbox out;         /* bytes that the socket has not taken */
    uint64_t order[ASKED];     /* requests whose replies are in `out`, or in `received` */
    int order_n;
    struct buf received;          /* the beginning of a reply */
    int held[NAMES];
    int64_t unavailable_us[NAMES]; /* the last time that the answer was UNAVAILABLE, or LOST */
    int64_t cancelled_us[NAMES];   /* ... or that a LOCK without OWNER was cancelled */
};

/*
 * The content of a state directory (serve/identity.h, serve/state_file.h): the checkpoints that the core keeps, the ids
 * and the token of the first page, and the identity of the daemon.
 */
struct state {
    uint64_t self;               /* from which the uuid is made; 0 = none yet */
    uint64_t nonce[BACKEND_FORMER_NONCES + 1]; /* of this process, then of the processes before it */
    struct core_checkpoint *checkpoint, *written; /* owned; the present ones, and those of the last write to the disk */
    size_t n, room, written_n, written_room;
    struct core_owner_checkpoint *owner;       /* owned; named owners that no session uses */
    size_t owners_n, owners_room;
    uint64_t serial, token, epoch;
    uint64_t epochs[NAMES];                /* in a cluster, of each name's slot */
    bool others;
    bool other_boot;             /* the machine has lost its power since */
};

struct daemon {
    struct world *world;
    int index;
    char name[24], clients[24];  /* names in the trace */
    bool alive, draining, left;
    bool keeps;                  /* has a state directory */
    bool releasing;              /* some locks of the process before this one are not released yet: ... */
    uint64_t to_free[LEFT_MAX];  /* ... claims */
    size_t to_free_n;
    int64_t expires_us;          /* how long that may take, where only an expiry proves the owner; see L4 */
    int64_t reached_us;          /* when Redis was reached first; 0 = not yet */
    uint64_t handed_seen;        /* of metrics.handoffs */
    uint64_t asked_n;            /* requests of its sessions */
    uint64_t cancelled_n;        /* LOCKs and MLOCKs with that answer ... */
    int64_t cancel_sent;         /* ... and the number that the last CANCEL reports */
    bool dying;                  /* in this turn, after `dies_in` more actions, and before any reply leaves */
    bool stops_at_write, unwritten; /* it will stand still there; it stood still there, and has not written since */
    unsigned dies_in, turns_left; /* until that turn; 0 = it lives on */
    uint64_t asked, released;    /* names' records: the last attempt, and the last release, of this turn; 0 = none */
    uint64_t life;               /* the number of its process */
    uint64_t tokens;             /* of a control, from its: */
    uint16_t node_before[NAMES]; /* 1 + the last node that was good for the name's slot; 0: none was */
    bool answers_late;           /* one of its connections, see server_late() */
    struct state state;
    struct core *core;
    struct backend *backend;
    struct core_conf core_conf;
    struct metrics metrics;
    struct session session[SESSIONS];
    struct happening timer;      /* of the core */
    int64_t boot_us, ppm;        /* its clock at true time 0, and how much it gains in a second */
    int64_t paused_until_us;
    int64_t back_us;             /* a crashed one starts again */
    int64_t drain_us;            /* a draining one ends its sessions, and itself a second later */
    int64_t no_there_us, no_back_us, slow_until_us, slow_us;
    bool apart;                  /* on the other side of a partition, see server.apart */
    int64_t no_links_us;         /* until then Redis takes no more connections of it (maxclients) */
    uint64_t renewed_on;         /* the id of the connection of its last renewal */
};

/* ---- state.c: the state that outlives a process ---- */

void state_begin(struct daemon *d);                            /* a new process: its identity */
void state_restore(struct daemon *d);                            /* its first step */
void state_put(struct daemon *d, const struct core_checkpoint *k);
void state_put_owner(struct daemon *d, const struct core_owner_checkpoint *k);
void state_drop_owner(struct daemon *d, uint64_t id);
void state_drop(struct daemon *d, uint64_t claim);
void state_turn(struct daemon *d);
void state_pages(struct daemon *d);                            /* now and then the kernel writes its pages */
void state_power_lost(struct daemon *d);
void state_free(struct daemon *d);

/* ---- daemon.c ---- */

void daemon_start(struct daemon *d);
void daemon_stop(struct daemon *d);                            /* at once, as by kill -9 */
void daemon_begins(struct daemon *d);                          /* its turn: events that are due come before any input */
void daemon_step(struct daemon *d, const struct core_event *ev);
void daemon_turn_end(struct daemon *d);
bool daemon_does(struct daemon *d);                            /* one more action; false: it died before that */

#endif
