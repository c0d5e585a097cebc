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

#include "tests/sim/daemon.h"
#include "tests/sim/server.h"

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

/* A holder of a name in Redis that does not hold it in the core of its daemon. */
struct odd {
    uint64_t owner;
    int64_t since_us; /* 0 = nobody */
    uint64_t counted; /* owner who has had it more than once */
};

/* One daemon and one name, see turns.c. */
struct ear {
    uint64_t lock;    /* whose channel it has asked to hear; 0 = none */
    bool received;       /* it hears it */
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
    int domain;
    int64_t excused_us;      /* as that of its domain, of this name alone */
    int64_t free_since_us;   /* somebody waits, and nobody has it; 0 = no */
    struct stranger stranger;
    struct odd *odd;         /* owned, as `ear`: of each daemon */
    struct ear *ear;
    struct row row;
};

/* One data set, on one server or several: what is not promised of the names in it just now. */
struct domain {
    int64_t failback_us; /* until then the data may be older than what somebody was granted: of S1 */
    int64_t excused_us;  /* until then somebody may rely on what Redis has dropped too early: of S1 */
    int64_t ghosts_us;   /* until then Redis may have what was given back: its data went back to before that; of L2 */
};

/* A master, its replicas, and who watches them. */
struct sentinels_world {
    int replicas;
    int64_t lag_us;        /* until a replica has what was written, mostly */
    int64_t down_after_us;
    int64_t max_lag_us;    /* min-replicas-max-lag; 0: min-replicas-to-write is 0 */
    bool bounded;          /* an old master takes nothing any more when a new one is made */
    int64_t elect_us;      /* a failover is under way, and ends then; 0 = none is */
};

/* Messages of heartbeats (scripts_is_beat()): how many, the commands that they ran, and their bytes there and back. */
struct beats {
    uint64_t n, calls, bytes;
};

/* How busy a seed is. */
struct habit {
    int daemons, busy /* daemons with clients: the first so many */, sessions, names, links;
    int64_t think_us, delay_us, lease_us, poll_us, owner_grace_us, queue_grace_us, handoff_us, linger_us;
    int handoffs, rush;
    int replicas; /* that must acknowledge what is granted, of every other name */
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
    enum shape shape;
    struct server server[SERVERS_MAX]; /* those with data, and behind them the sentinels */
    int servers_n, nodes_n;
    int64_t parted_until_us; /* until then the two sides hear nothing of each other */
    struct sentinels_world sentinels;
    struct beats beats;
    int masters; /* nodes of a quorum; 0: there is none */
    struct cluster_world *cluster; /* owned; NULL: there is none */
    struct server *master; /* where the data is that counts */
    struct domain domain[SERVERS_MAX];
    uint64_t conns_made;
    struct daemon *daemon; /* owned: habit.daemons, and as many more as any seed has */
    int daemons_n;
    bool *in_turn;         /* owned, of each daemon: something has happened to it, and its turn is not over */
    struct name name[NAMES];
    struct habit habit;
    uint32_t rate[FAULTS];
    struct happening act, tick;
    struct rush rush;
    struct happening loss, doom;
    struct server *loser;            /* that will lose its data, and: */
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
void world_begin(struct world *w, uint64_t seed, const struct options *o, struct totals *t);
void world_goes(struct world *w, int64_t until_us); /* or until something is violated */
void world_end(struct world *w);

void schedule(struct world *w, struct happening *h, int64_t at_us);
void unschedule(struct world *w, struct happening *h);
void note(struct world *w, uint64_t a, uint64_t b);           /* into the hash */
void trace(const struct world *w, const char *subject, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void violated(struct world *w, const char *invariant, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- loop.c: clocks and libevent ---- */

int64_t daemon_clock(const struct daemon *d, int64_t true_us);
int64_t daemon_true(const struct daemon *d, int64_t clock_us); /* when its clock will say so, or later */
void loop_enter(struct daemon *d);                             /* whose clock it is from now on */
struct daemon *loop_turn(void);
void loop_event(struct happening *h);
void loop_connected(struct happening *h);
void loop_bytes(struct conn *c, const char *p, size_t n);
void loop_ended(struct conn *c);

/* ---- fleet.c ---- */

void fleet_draw(struct world *w);              /* a world in which nothing goes wrong by itself */
int fleet_table(const struct options *o);      /* 1: something takes longer than it may */

/* ---- client.c ---- */

void clients_act(struct world *w);
void cancels_act(struct daemon *d, const struct session *s); /* ends a wait, if there is one it may end */
bool cancels_receive(struct daemon *d, const struct core_reply *r); /* true: it is the answer of a CANCEL */
void clients_return(struct daemon *d);                         /* some that it has adopted, and soon */
void clients_receive(struct daemon *d, const struct core_reply *r);
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
void nature_loses_behind(struct server *s);                    /* what it has just answered */
void nature_loses(struct world *w);                            /* Redis loses data now, as was drawn */
void nature_lost(struct server *s);                            /* it has */
void nature_starts(struct daemon *d);                          /* a daemon has started */
void nature_jumps(struct server *s, int64_t sign, int64_t us); /* its clock is set */
int64_t longest_lease_us(const struct world *w);
void nature_strikes(struct daemon *d, enum fault f);           /* it happens now, to this daemon if to one */

/* ---- check.c ---- */

void check_news(struct daemon *d, const struct core_publish *p);
void check_granted(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r);
void check_left(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r);
void check_asks(struct daemon *d, struct session *s, const struct core_request *r, enum core_event_type type);
void check_session_ends(struct daemon *d, struct session *s);
void check_restored(struct daemon *d, bool power_lost);         /* by a new process */
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
void strangers_lost(struct server *s, bool take);              /* is it still theirs? `take`: and what is free */
bool stranger_has(const struct world *w, const struct name *n);
bool lingers(const struct daemon *d, const struct name *n);    /* free, and kept for whoever asks its daemon next */
bool has_ticket(const struct daemon *d, const struct name *n, uint64_t session); /* it waits in the queue there */
void check_freed(struct world *w);                              /* what a process has left, by the one after it */
void check_left_behind(struct world *w);                        /* some seconds after everybody has left */
void check_caps(struct daemon *d);
void check_end(struct world *w);
int name_find(const struct world *w, struct slice text);

#endif
