/*
 * daemon.h -- the daemons of a world, with their sessions and what their processes leave behind.
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
    uint64_t turn; /* among all that its daemon was asked */
    enum core_event_type type;
    size_t n; /* names of an MLOCK and the like; else 0 */
    int name[MANY];
    int64_t at_us, wait_us;
    bool once, shared;
    struct slice owner; /* n == 0: the session's own; lives for ever */
    bool first; /* nothing else of this session was under way when it was asked */
    bool sole;  /* and nothing since */
    bool answered, written; /* by the core; to its session's output */
    uint32_t given_back, renewed; /* names that its owner has since UNLOCKed, and RENEWed; a bit each */
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
    struct outbox out;         /* what the socket has not taken */
    uint64_t order[ASKED];     /* requests whose replies are in there, or in `heard` */
    int order_n;
    struct buf received;          /* the beginning of a reply */
    int held[NAMES];
    int64_t unavailable_us[NAMES]; /* the last time it was answered so, or that it was lost */
    int64_t cancelled_us[NAMES];   /* ... or a LOCK without OWNER was cancelled */
};

/*
 * What a state directory has (serve/identity.h, serve/state_file.h): the checkpoints that the core keeps, the ids and
 * the token on the first page, and who this daemon is.
 */
struct state {
    uint64_t self;               /* whom the uuid is made of; 0 = nobody yet */
    uint64_t nonce[BACKEND_FORMERS + 1]; /* of this process, then of those before it */
    struct core_checkpoint *checkpoint, *written; /* owned; now, and as a page was last written to the disk */
    size_t n, room, written_n, written_room;
    struct core_owner_checkpoint *owner;       /* owned; named owners that no session uses */
    size_t owners_n, owners_room;
    uint64_t serial, token, epoch;
    uint64_t epochs[NAMES];                /* of a cluster: of each name's slot */
    bool others;
    bool other_boot;             /* the machine has lost its power since */
};

struct daemon {
    struct world *world;
    int index;
    char name[24], clients[24];  /* as the trace has them */
    bool alive, draining, left;
    bool keeps;                  /* has a state directory */
    bool freeing;                /* not all is free yet that the process before this one has left: ... */
    uint64_t to_free[LEFT_MAX];  /* ... claims */
    size_t to_free_n;
    int64_t expires_us;          /* so long it may be, where only an expiry proves whose it is; see L4 */
    int64_t reached_us;          /* Redis, for the first time; 0 = not yet */
    uint64_t handed_seen;        /* of metrics.handoffs */
    uint64_t asked_n;            /* requests of its sessions */
    uint64_t cancelled_n;        /* LOCKs and MLOCKs answered so ... */
    int64_t cancel_sent;         /* ... and how many the last CANCEL says */
    bool dying;                  /* in this turn, when it has done `dies_in` things more, and before any reply leaves */
    bool stops_at_write, unwritten; /* it will stand still there; and did, and has not written since */
    unsigned dies_in, turns_left; /* until that turn; 0 = it lives on */
    uint64_t asked, freed;       /* names' records: the last attempt, and the last release, of this turn; 0 = none */
    uint64_t life;               /* of its processes */
    uint64_t tokens;             /* of a control, as: */
    uint16_t node_before[NAMES]; /* the last node that was good for the name's slot, and 1; 0: none was */
    bool answers_late;           /* one of its connections, see server_late() */
    struct state state;
    struct core *core;
    struct backend *backend;
    struct core_conf core_conf;
    struct metrics metrics;
    struct session session[SESSIONS];
    struct happening timer;      /* of the core */
    int64_t boot_us, ppm;        /* its clock at true time 0, and how much it goes ahead in a second */
    int64_t paused_until_us;
    int64_t back_us;             /* a crashed one starts again */
    int64_t drain_us;            /* a draining one ends its sessions, and a second later itself */
    int64_t no_there_us, no_back_us, slow_until_us, slow_us;
    bool apart;                  /* on the other side of a partition, see server.apart */
    int64_t no_links_us;         /* until then Redis takes no more connections of it (maxclients) */
    uint64_t renewed_on;         /* id of the connection on which it has renewed something last */
};

/* ---- state.c: what outlives a process ---- */

void state_begin(struct daemon *d);                            /* a new process: who it is */
void state_restore(struct daemon *d);                            /* its first step */
void state_keep(struct daemon *d, const struct core_checkpoint *k);
void state_keep_owner(struct daemon *d, const struct core_owner_checkpoint *k);
void state_forget_owner(struct daemon *d, uint64_t id);
void state_forget(struct daemon *d, uint64_t claim);
void state_turn(struct daemon *d);
void state_pages(struct daemon *d);                            /* now and then the kernel writes its pages */
void state_power_lost(struct daemon *d);
void state_free(struct daemon *d);

/* ---- daemon.c ---- */

void daemon_start(struct daemon *d);
void daemon_stop(struct daemon *d);                            /* at once, as by kill -9 */
void daemon_begins(struct daemon *d);                          /* its turn: what is due comes before any input */
void daemon_step(struct daemon *d, const struct core_event *ev);
void daemon_turn_end(struct daemon *d);
bool daemon_does(struct daemon *d);                            /* one thing more; false: it has died before it */

#endif
