/*
 * sim.h -- the world of the simulator: daemons, their clients, a Redis, the network between them; one thread, one seed.
 *
 * What is real: daemon/core and the whole of daemon/backend (librlockd.a) down to the calls of libevent, which loop.c
 * has in its stead; and the Lua scripts, which redis.c runs. Everything that happens is a node of one heap, in true
 * time; every daemon and Redis have clocks of their own that they are given instead.
 *
 * Same seed, same trace, on every run and compiler: no address, no hash of one, no real clock may decide anything, and
 * two draws never stand in one expression.
 */
#ifndef RLOCKD_TESTS_SIM_SIM_H
#define RLOCKD_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/backend/backend.h"
#include "daemon/base/clock.h"
#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/core/view.h"
#include "daemon/serve/outbox.h"
#include "tests/sim/redis.h"

enum { DAEMONS = 4, SESSIONS = 16, NAMES = 12, ASKED = 12, MANY = 4, SCRIPTS = 128, LEFT_MAX = SESSIONS * NAMES };
enum { LATE_US = 2000, LEASE_MAX_US = 6 * 1000 * 1000 /* that a client asks for */ };

enum fault {
#define FAULT(id, name, when, rate) FAULT_##id,
#define LOSS(id, name, when, rate) FAULT_##id,
#include "tests/sim/faults.def"
#undef FAULT
#undef LOSS
    FAULTS
};

/* Situations that a long run must have seen, and what was measured. */
enum sight {
#define SIGHT(id, name) SIGHT_##id,
#include "tests/sim/sights.def"
#undef SIGHT
    SIGHTS
};

enum drawn { DRAWN_MESSAGE, DRAWN_HEARD, DRAWN_TICK, DRAWN_START, DRAWN_LOSS, DRAWN_SEED, DRAWN_NEVER };

struct fault_row {
    const char *name;
    enum drawn drawn;
    uint32_t rate;
    bool loss;
};

extern const struct fault_row fault_rows[FAULTS];
extern const char *const sight_names[SIGHTS];

/* Breakages of our own that the invariants must notice. */
enum control {
    CONTROL_NONE,
#define CONTROL(id, name, help) CONTROL_##id,
#include "tests/sim/controls.def"
#undef CONTROL
    CONTROLS
};

struct control_row {
    const char *name, *help;
};

extern const struct control_row control_rows[CONTROLS];

/* What one process has counted; added up over all of them. */
struct totals {
    uint64_t seeds, failed, events, commands, scripts, virtual_us, excused;
    uint64_t faults[FAULTS], sights[SIGHTS];
};

struct options {
    uint64_t seed, seeds;
    int jobs;
    int64_t virtual_us;
    enum control control;
    bool losses, trace, quiet, self_check;
    bool one_kind; /* all names are of this one */
    enum kind kind;
};

/* ---- what happens ---- */

enum happening_type { HAPPENS_EVENT, HAPPENS_CONNECT, HAPPENS_THERE, HAPPENS_BACK, HAPPENS_CORE, HAPPENS_ACT,
                      HAPPENS_TICK, HAPPENS_LOSS, HAPPENS_DOOM, HAPPENS_RUSH };

/* In the heap of the world. A daemon that is paused sees it when it goes on. */
struct happening {
    struct heap_node node;
    enum happening_type type;
    struct daemon *daemon; /* whose turn it is; NULL: the world's or Redis's */
};

/* ---- the network ---- */

enum parcel_type { PARCEL_BYTES, PARCEL_END };

/* One command, one reply, or the end of the connection. */
struct parcel {
    struct happening h;
    struct list node; /* conn.there or conn.back */
    struct conn *conn;
    enum parcel_type type;
    int64_t sent_us;
    size_t n;
    char bytes[];
};

/*
 * A connection. Commands on it live on when the daemon has closed it: they are in the sockets' buffers, and Redis runs
 * what arrives.
 */
struct conn {
    struct list node;            /* server.conns */
    struct world *world;
    struct daemon *daemon;       /* which it was; the slot lives longer than the daemon */
    struct bufferevent *bev;     /* NULL: the daemon has closed it */
    bool open;                   /* Redis has it */
    bool mute;                   /* nothing comes back any more */
    uint64_t id;
    uint64_t life;               /* of the daemon, when it was made */
    int64_t closed_us;           /* by the daemon */
    int64_t ran_sent_us;         /* when what runs just now was sent */
    int64_t held_until_us;       /* the network keeps what is under way so long */
    bool lost;                   /* what is under way to Redis does not arrive */
    struct list there, back;     /* parcel.node */
    int64_t last_there_us, last_back_us;
    struct list channels;        /* channel.node */
    size_t channels_n;
};

/* ---- Redis ---- */

/* That a connection has subscribed to. */
struct channel {
    struct list node; /* conn.channels */
    size_t n;
    char name[];
};

struct server {
    struct sim_redis *redis;
    struct sim_redis *old;       /* its data some writes ago; owned */
    struct sim_redis *former;    /* as it was when another one was promoted in its stead; owned; NULL: none was */
    uint64_t former_life;
    bool promoted, former_promoted;
    unsigned old_in;             /* commands until `old` comes back */
    enum fault old_how;
    struct list conns;
    uint64_t conns_made, life;
    bool loaded[SCRIPTS];        /* known.c knows them by these numbers */
    int64_t wall_us, ppm;        /* its clock at true time 0, and how much it goes ahead in a second */
    int64_t down_until_us, paused_until_us, full_until_us;
    int64_t denied_until_us;     /* commands of this sort: see nature_denies() */
    int denied;
};

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
    bool queued; /* it had a place as soon as it was asked; none has who waits for what of his own is given back */
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
    struct buf heard;          /* the beginning of a reply */
    int held[NAMES];
    int64_t unavailable_us[NAMES]; /* the last time it was answered so, or that it was lost */
    int64_t cancelled_us[NAMES];   /* ... or a LOCK without OWNER was cancelled */
};

/*
 * What a state directory has (serve/identity.h, serve/state_file.h): the records that the core wants kept, the ids and
 * the token on the first page, and who this daemon is.
 */
struct state {
    uint64_t self;               /* whom the uuid is made of; 0 = nobody yet */
    uint64_t nonce[BACKEND_FORMERS + 1]; /* of this process, then of those before it */
    struct core_record *record, *written;  /* owned; now, and as a page was last written to the disk */
    size_t n, room, written_n, written_room;
    struct core_owner_record *owner;       /* owned; named owners that no session uses */
    size_t owners_n, owners_room;
    uint64_t serial, token, epoch;
    bool others;
    bool other_boot;             /* the machine has lost its power since */
};

struct daemon {
    struct world *world;
    int index;
    bool alive, dirty, draining, left;
    bool keeps;                  /* has a state directory */
    bool freeing;                /* not all is free yet that the process before this one has left: ... */
    uint64_t to_free[LEFT_MAX];  /* ... claims */
    size_t to_free_n;
    int64_t expires_us;          /* so long it may be, where only an expiry proves whose it is; see L4 */
    int64_t reached_us;          /* Redis, for the first time; 0 = not yet */
    uint64_t handed_seen;        /* of metrics.handoffs */
    uint64_t asked_n;            /* requests of its sessions */
    uint64_t cancelled_n;        /* LOCKs and MLOCKs answered so ... */
    int64_t cancel_said;         /* ... and how many the last CANCEL says */
    bool dying;                  /* in this turn, when it has done `dies_in` things more, and before any reply leaves */
    bool stops_at_write, unwritten; /* it will stand still there; and did, and has not written since */
    unsigned dies_in, turns_left; /* until that turn; 0 = it lives on */
    uint64_t asked, freed;       /* names' records: the last attempt, and the last release, of this turn; 0 = none */
    uint64_t life;               /* of its processes */
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
    int64_t no_links_us;         /* until then Redis takes no more connections of it (maxclients) */
    uint64_t renewed_on;         /* id of the connection on which it has renewed something last */
};

/* ---- what was promised ---- */

struct promise {
    int daemon;
    uint64_t self, life, owner, token, session; /* life: of the process that said so ... */
    uint64_t epoch;   /* ... in that epoch of Redis */
    int64_t until_us; /* true time; 0 = an UNLOCK or a RENEW of it is not answered, and ... */
    int64_t was_us;   /* ... it was so before */
    uint32_t holds;   /* 0 = not known any more */
    bool shared;
    struct slice owner_name; /* n == 0: of the session's own */
};

/* Somebody else on the same Redis, who knows nothing of epochs: a lock of Redisson's, or a plain SET NX PX. */
struct stranger {
    bool has;
    int64_t since_us, until_us; /* true; Redis's clock */
};

/* Who has a name in Redis, but not so in the core of his daemon. */
struct odd {
    uint64_t owner;
    int64_t since_us; /* 0 = nobody */
    uint64_t counted; /* owner who has had it more than once */
};

/* One daemon and one name, see turns.c. */
struct ear {
    uint64_t lock;    /* whose channel it has asked to hear; 0 = none */
    bool heard;       /* it hears it */
    int64_t since_us; /* and somebody has waited there all the time; 0 = nobody */
    uint64_t acquire, renew, release; /* operations under way: the last of each */
};

/* Grants in a row at one daemon. */
struct row {
    const struct daemon *daemon; /* NULL: others had it since, or may have had it */
    uint64_t life;
    int64_t since_us;
    uint32_t handed;  /* since Redis has granted it */
    int64_t freed_us; /* Redis has said that it is free, and it was nobody's since; 0 = not so */
    int64_t was_freed_us; /* until Redis has just granted it */
};

enum { PROMISES = 64 };

struct name {
    const char *text;
    enum kind kind;
    bool broken;             /* BREAK is used on it: more may believe they hold it than can */
    uint32_t limit;
    uint64_t last_token, last_exclusive;
    struct promise promise[PROMISES];
    int promises_n;
    bool granted;            /* in this step */
    int64_t excused_us;      /* as that of the world, of this name alone */
    int64_t free_since_us;   /* somebody waits, and nobody has it; 0 = no */
    struct stranger stranger;
    struct odd odd[DAEMONS];
    struct ear ear[DAEMONS];
    struct row row;
};

/* How busy a seed is. */
struct habit {
    int daemons, sessions, names, links;
    int64_t think_us, delay_us, lease_us, poll_us, owner_grace_us, queue_grace_us, handoff_us, linger_us;
    int handoffs, rush;
    int monitors; /* who hear every channel, by a pattern, and want nothing */
    int lock, unlock, renew, many, gone, eof, shared, named, leased, nowait, forever, burst, strangers;
    bool rates, strict, keeps;
};

/* Many want one name as often as they can get it; in the middle of it something may happen. */
struct rush {
    struct happening h;
    struct daemon *daemon;      /* where most of them are */
    int name, here, elsewhere;  /* sessions there, and at each other daemon */
    bool plain;                 /* they want nothing but the lock */
    int64_t until_us, pace_us, strike_us;
    enum fault strike;          /* FAULTS: nothing */
};

struct world {
    const struct options *options;
    struct totals *totals;
    uint64_t seed, rng, hash;
    int64_t now_us, end_us, calm_us; /* calm: faults have stopped */
    struct heap heap;
    size_t heap_n;
    struct server server;
    struct daemon daemon[DAEMONS];
    struct name name[NAMES];
    struct habit habit;
    uint32_t rate[FAULTS];
    struct happening act, tick;
    struct rush rush;
    struct happening loss, doom;
    struct sim_redis *loss_old;      /* what will be there after the loss; owned; NULL: nothing */
    enum fault loss_as, loss_why;
    bool loss_behind;                /* the next acquire that takes something */
    struct daemon *newcomer;         /* starts late, once; NULL: none does */
    struct daemon *returning;        /* whose clients come back after a restart */
    struct daemon *doomed;           /* its session, in an MLOCK, or itself */
    uint64_t doomed_session, doomed_request;
    bool doom_daemon;
    bool faults_on, leaving, failed, traced;
    uint64_t check_in;
    int64_t ours_us;     /* when Redis is compared with the daemons next */
    int64_t trouble_us;  /* the last effect of a fault that may cost a lock */
    int64_t harm_us;     /* the last fault of any sort */
    int64_t failback_us; /* until then the data may be older than what somebody was granted: of S1 */
    int64_t excused_us;  /* until then somebody may rely on what Redis has dropped too early: of S1 */
    int64_t ghosts_us;   /* until then Redis may have what was given back: its data went back to before that; of L2 */
    int64_t late_guards_us; /* until then a guard may be too late: of G1 */
    int64_t set_back_us;    /* Redis's clock was set back then, the last time; of G2 */
    int64_t back_under_us;  /* it is to be, by so much, as soon as an acquire is under way; 0 = no */
    uint64_t daemon_tokens[DAEMONS]; /* of a control */
};

/* ---- rng.c ---- */

uint64_t draw(struct world *w);
int64_t below(struct world *w, int64_t n);                    /* 0 .. n - 1 */
int64_t between(struct world *w, int64_t low, int64_t high);  /* both included */
bool chance(struct world *w, uint32_t per_100k);
bool fault(struct world *w, enum fault f);                    /* whether it happens now; counted */
void sight(struct world *w, enum sight s);
void draw_habits(struct world *w);

/* ---- world.c ---- */

/* One seed from beginning to end; what it saw is added to t. Returns its hash. */
uint64_t world_run(uint64_t seed, const struct options *o, struct totals *t, bool *failed);

void schedule(struct world *w, struct happening *h, int64_t at_us);
void unschedule(struct world *w, struct happening *h);
void note(struct world *w, uint64_t a, uint64_t b);           /* into the hash */
void trace(const struct world *w, const char *who, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void violated(struct world *w, const char *invariant, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- loop.c: clocks and libevent ---- */

int64_t daemon_clock(const struct daemon *d, int64_t true_us);
int64_t daemon_true(const struct daemon *d, int64_t clock_us); /* when its clock will say so, or later */
void loop_enter(struct daemon *d);                             /* whose clock it is from now on */
void loop_event(struct happening *h);
void loop_connected(struct happening *h);
void loop_bytes(struct conn *c, const char *p, size_t n);
void loop_ended(struct conn *c);

/* ---- net.c ---- */

struct conn *conn_new(struct world *w, struct daemon *d, struct bufferevent *bev);
void conn_send(struct conn *c, const void *p, size_t n);       /* by the daemon */
void conn_reply(struct conn *c, const char *p, size_t n, bool pushed); /* by Redis */
void conn_close(struct conn *c);                               /* by the daemon */
void conn_late(struct conn *c, int64_t for_us);                /* what Redis has answered and is under way */
void conn_cut(struct conn *c, bool told);                      /* by nature, or Redis; told: the daemon hears of it */
void net_there(struct happening *h);
void net_back(struct happening *h);
void net_free(struct world *w);
bool net_can_connect(struct world *w, struct daemon *d, bool *refused);
int64_t net_delay(struct world *w, struct daemon *d);

/* ---- server.c ---- */

void server_open(struct world *w);
void server_close(struct world *w);
int64_t server_clock(const struct world *w);
bool server_is_acquire(const struct parcel *p);
void server_runs(struct conn *c, struct parcel *p);
void server_hangs_up(struct conn *c);
void server_restart(struct world *w, struct sim_redis *data, bool promote);
void server_late(struct world *w, int64_t for_us);              /* what is on its way back comes so much later */
bool server_has(struct world *w, const char *key);
void server_back(struct world *w);                              /* the one before the last failover */

/* ---- known.c ---- */

int scripts_find(struct slice text);                           /* -1: not one of ours */
int scripts_by_sha(struct slice sha);
const char *scripts_sha(int script);
bool scripts_is_call(int script);                              /* of a verb and a kind */
int scripts_verb(int script);                                  /* enum call_verb */
enum kind scripts_kind(int script);

/* ---- state.c: what outlives a process ---- */

void state_begin(struct daemon *d);                            /* a new process: who it is */
void state_adopt(struct daemon *d);                            /* its first step */
void state_keep(struct daemon *d, const struct core_record *k);
void state_keep_owner(struct daemon *d, const struct core_owner_record *k);
void state_forget_owner(struct daemon *d, uint64_t id);
void state_forget(struct daemon *d, uint64_t claim);
void state_turn(struct daemon *d);
void state_write(struct daemon *d);                            /* the kernel writes its pages */
void state_power_lost(struct daemon *d);
void state_free(struct daemon *d);

/* ---- daemon.c ---- */

void daemon_start(struct daemon *d);
void daemon_stop(struct daemon *d);                            /* at once, as by kill -9 */
void daemon_begins(struct daemon *d);                          /* its turn: what is due comes before any input */
void daemon_step(struct daemon *d, const struct core_event *ev);
void daemon_turn_end(struct daemon *d);
bool daemon_does(struct daemon *d);                            /* one thing more; false: it has died before it */

/* ---- client.c ---- */

void clients_act(struct world *w);
void cancels_act(struct daemon *d, const struct session *s); /* ends a wait, if there is one it may end */
bool cancels_hear(struct daemon *d, const struct core_reply *r); /* true: it is the answer of a CANCEL */
void clients_return(struct daemon *d);                         /* some that it has adopted, and soon */
void clients_hear(struct daemon *d, const struct core_reply *r);
void clients_doom(struct world *w);                            /* who is in the middle of an MLOCK ends now */
void clients_leave(struct daemon *d);                          /* all its sessions end */
struct slice clients_owner(struct slice name);                 /* the same, for ever */
void clients_lost(struct daemon *d);                           /* their daemon has gone */
void clients_ask(struct daemon *d, struct session *s, enum core_event_type type, int name, struct slice owner);
void clients_ask_at_once(struct daemon *d, struct session *s, enum core_event_type type, int name, struct slice owner);
void clients_open(struct daemon *d, struct session *s);

/* The core has answered: perhaps no. */
void clients_refused(struct daemon *d, struct session *s, const struct asked *a);
void clients_cut(struct daemon *d, struct session *s);         /* its connection is closed by the daemon */

/* ---- pipeline.c ---- */

void pipelines_act(struct daemon *d, struct session *s);       /* several requests of one owner, that cannot wait */
void pipelines_answered(struct daemon *d, const struct session *s, const struct asked *a); /* by the core, just now */

/* ---- replies.c ---- */

void replies_open(struct session *s);
void replies_drop(struct session *s);
void replies_note(struct daemon *d, const struct core_reply *r);
void replies_write(struct daemon *d);                          /* the end of a turn; it may stop there */

/* ---- rush.c ---- */

void rush_ticks(struct world *w);                              /* one may begin */
void rush_goes_on(struct world *w);

/* ---- nature.c ---- */

void nature_begin(struct world *w);
void nature_ticks(struct world *w);
void nature_rests(struct world *w);                            /* faults stop, and what is broken is mended */
void last_failure(struct world *w, int64_t for_us);
void nature_crash(struct daemon *d);
void nature_loses_behind(struct world *w);                     /* what Redis has just answered */
void nature_loses(struct world *w);                            /* Redis loses data now, as was drawn */
void nature_lost(struct world *w);                             /* it has */
void nature_starts(struct daemon *d);                          /* a daemon has started */
bool nature_denies(const struct world *w, struct slice verb);  /* our user may not do it just now */
void nature_strikes(struct daemon *d, enum fault f);           /* it happens now, to this daemon if to one */

/* ---- check.c ---- */

void check_news(struct daemon *d, const struct core_publish *p);
void check_granted(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r);
void check_left(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r);
void check_asks(struct daemon *d, struct session *s, const struct core_request *r, enum core_event_type type);
void check_session_ends(struct daemon *d, struct session *s);
void check_adopted(struct daemon *d, bool power_lost);         /* by a new process */
void check_zombie(const struct conn *c, int script, const struct reply *r); /* a command ran that was given up */
void check_moved_guard(const struct conn *c, const struct slice *word, const struct reply *r); /* an acquire ran */
void nature_set_back(struct conn *c); /* an acquire has just been sent on it */
void check_step(struct daemon *d);                             /* after each step */
void check_calm(struct world *w);                              /* now and then, when no faults happen */

/* ---- turns.c ---- */

void turns_op(struct daemon *d, const struct core_op *op, enum core_action_type verb);
void turns_done(struct daemon *d, const struct core_done *done);
void turns_watching(struct daemon *d, uint64_t lock);
bool turns_granted(struct daemon *d, struct name *n); /* true: it was handed over */
void turns_step(struct daemon *d);                             /* after each step */
void turns_taken(struct name *n);                              /* by somebody who is no daemon */
void turns_stop(struct daemon *d);                             /* its process ends */
void turns_harm(struct world *w, const struct daemon *d, enum sight s); /* NULL: all of them; s, if one was in a run */

/* ---- left.c, ours.c ---- */

void check_op(struct daemon *d, const struct core_op *op, enum core_action_type verb);
void check_ours(struct world *w);                               /* now and then, when all is quiet */
void strangers_act(struct world *w);
void strangers_lost(struct world *w, bool take);               /* is it still theirs? `take`: and what is free */
bool stranger_has(const struct world *w, const struct name *n);
bool lingers(const struct daemon *d, const struct name *n);    /* free, and kept for whoever asks its daemon next */
bool has_ticket(const struct daemon *d, const struct name *n, uint64_t session); /* it waits in the queue there */
void check_freed(struct world *w);                              /* what a process has left, by the one after it */
void check_left_behind(struct world *w);                        /* some seconds after everybody has left */
void check_caps(struct daemon *d);
void check_end(struct world *w);
int name_find(const struct world *w, struct slice text);

#endif
