/*
 * sim.h -- the world of the simulator: daemons, their clients, a Redis, the network between them; one thread, one seed.
 *
 * Real code: daemon/core and the whole of daemon/backend (librlockd.a) down to the calls of libevent, which loop.c
 * replaces; and the Lua scripts, which redis.c runs. Each event is a node of one heap, in true time; every daemon and
 * Redis has a clock of its own, which it uses instead.
 *
 * Same seed, same trace, on every run and compiler: no address, no hash of an address and no real clock may decide
 * anything, and two draws never stand in one expression.
 */
#ifndef RLOCKD_TESTS_SIM_SIM_H
#define RLOCKD_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/sim/daemon.h"
#include "tests/sim/server.h"

/* ---- promises ---- */

struct promise {
    int daemon;
    uint64_t self, life, owner, token, session; /* life: of the process that made the promise ... */
    uint64_t epoch;   /* ... in that epoch of Redis */
    int64_t until_us; /* true time; 0 = an UNLOCK or a RENEW of it has no answer, and ... */
    int64_t was_us;   /* ... this was the time before */
    uint32_t holds;   /* 0 = not known any more */
    bool shared;
    struct slice owner_name; /* n == 0: the session's own */
};

/* A client without a daemon on the same Redis, which ignores epochs: a lock of Redisson, or a plain SET NX PX. */
struct foreign {
    bool has;
    int64_t since_us, until_us; /* true; Redis's clock */
};

/* A holder of a name in Redis that does not hold it in the core of its daemon. */
struct odd {
    uint64_t owner;
    int64_t since_us; /* 0 = none */
    uint64_t counted; /* an owner with more than one hold at some time */
};

/* One daemon and one name, see turns.c. */
struct ear {
    uint64_t lock;    /* of the channel that it has subscribed to; 0 = none */
    bool received;       /* the subscription is confirmed */
    int64_t since_us; /* since then there was a waiter all the time; 0 = there is none */
    uint64_t acquire, renew, release; /* operations under way: the last of each */
};

/* Grants in a row at one daemon. */
struct row {
    const struct daemon *daemon; /* NULL: other owners had it since, or may have had it */
    uint64_t life;
    int64_t since_us;
    uint32_t handed;  /* hand-offs since the grant by Redis */
    int64_t freed_us; /* since then Redis reports it as free, and it had no owner; 0 = not so */
    int64_t was_freed_us; /* the same until the last grant by Redis */
};

enum { PROMISES = 64 };

struct name {
    const char *text;
    enum kind kind;
    bool broken;             /* BREAK is used on it: it may have more holders than allowed */
    uint32_t limit;
    uint64_t last_token, last_exclusive;
    struct promise promise[PROMISES];
    int promises_n;
    bool granted;            /* in this step */
    int domain;
    int64_t excused_us;      /* as that of its domain, for this name alone */
    int64_t free_since_us;   /* it has waiters and no owner; 0 = no */
    struct foreign foreign;
    struct odd *odd;         /* owned, as `ear`: one for each daemon */
    struct ear *ear;
    struct row row;
};

/* One data set, on one server or several: the promises that are suspended for its names. */
struct domain {
    int64_t failback_us; /* until then the data may be older than the last grants: of S1 */
    int64_t excused_us;  /* until then owners may rely on keys that Redis has dropped too early: of S1 */
    int64_t ghosts_us;   /* until then Redis may have released keys, since its data went back: of L2 */
};

/* A master, its replicas, and the sentinels that watch them. */
struct sentinels_world {
    int replicas;
    int64_t lag_us;        /* the usual delay until a replica has a write */
    int64_t down_after_us;
    int64_t max_lag_us;    /* min-replicas-max-lag; 0: min-replicas-to-write is 0 */
    bool bounded;          /* an old master refuses writes before a new one is made */
    int64_t elect_us;      /* the end of a failover that is under way; 0 = none is */
};

/* Messages of heartbeats (scripts_is_beat()): their number, the commands that they ran, and their bytes in and out. */
struct beats {
    uint64_t n, calls, bytes;
};

/* How busy a seed is. */
struct habit {
    int daemons, busy /* daemons with clients: the first ones */, sessions, names, links;
    int64_t think_us, delay_us, lease_us, poll_us, owner_grace_us, queue_grace_us, handoff_us, linger_us;
    int handoffs, rush;
    int replicas; /* that must acknowledge the grants of every other name */
    int monitors; /* clients that subscribe to every channel, by a pattern, and do not wait */
    int lock, unlock, renew, many, gone, eof, shared, named, leased, nowait, forever, burst, foreign;
    bool rates, strict, keeps;
};

/* Many sessions want one name as often as they can get it; in the middle of it a fault may strike. */
struct rush {
    struct happening h;
    struct daemon *daemon;      /* the daemon with most of the sessions */
    int name, here, elsewhere;  /* sessions there, and at each other daemon */
    bool plain;                 /* they do nothing but lock and unlock */
    int64_t until_us, pace_us, strike_us;
    enum fault strike;          /* FAULTS: none */
};

struct world {
    const struct options *options;
    struct totals *totals;
    uint64_t seed, rng, hash;
    int64_t now_us, end_us, calm_us; /* calm: faults have stopped */
    struct heap heap;
    size_t heap_n;
    enum shape shape;
    struct server server[SERVERS_MAX]; /* those with data, then the sentinels */
    int servers_n, nodes_n;
    int64_t parted_until_us; /* until then the two sides cannot reach each other */
    struct sentinels_world sentinels;
    struct beats beats;
    int masters; /* nodes of a quorum; 0: there is none */
    struct cluster_world *cluster; /* owned; NULL: there is none */
    struct server *master; /* the server with the data that counts */
    struct domain domain[SERVERS_MAX];
    uint64_t conns_made;
    struct daemon *daemon; /* owned: habit.daemons, and as many more as any seed has */
    int daemons_n;
    bool *in_turn;         /* owned, of each daemon: it has had an event, and its turn is not over */
    struct name name[NAMES];
    struct habit habit;
    uint32_t rate[FAULTS];
    struct happening act, tick;
    struct rush rush;
    struct happening loss, doom;
    struct server *loser;            /* the server that will lose its data, ... */
    struct sim_redis *loss_old;      /* ... and its data after the loss; owned; NULL: none */
    enum fault loss_as, loss_why;
    bool loss_behind;                /* after the next acquire that takes a lock */
    struct daemon *newcomer;         /* starts late, once; NULL: none does */
    struct daemon *returning;        /* its clients come back after a restart */
    struct daemon *doomed;           /* its session, in an MLOCK, or the daemon itself will end */
    uint64_t doomed_session, doomed_request;
    bool doom_daemon;
    bool faults_on, leaving, failed, traced;
    uint64_t check_in;
    int64_t ours_us;     /* the next comparison of Redis with the daemons */
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

/* Runs one seed from beginning to end, and adds its counts to t. Returns its hash. */
uint64_t world_run(uint64_t seed, const struct options *o, struct totals *t, bool *failed);
void world_begin(struct world *w, uint64_t seed, const struct options *o, struct totals *t);
void world_goes(struct world *w, int64_t until_us); /* or until a violation */
void world_end(struct world *w);

void schedule(struct world *w, struct happening *h, int64_t at_us);
void unschedule(struct world *w, struct happening *h);
void note(struct world *w, uint64_t a, uint64_t b);           /* into the hash */
void trace(const struct world *w, const char *subject, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void violated(struct world *w, const char *invariant, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- loop.c: clocks and libevent ---- */

int64_t daemon_clock(const struct daemon *d, int64_t true_us);
/* the true time at which its clock reaches that, or later */
int64_t daemon_true(const struct daemon *d, int64_t clock_us);
void loop_enter(struct daemon *d);                             /* its clock is used from now on */
struct daemon *loop_turn(void);
void loop_event(struct happening *h);
void loop_connected(struct happening *h);
void loop_bytes(struct conn *c, const char *p, size_t n);
void loop_ended(struct conn *c);

/* ---- fleet.c ---- */

void fleet_draw(struct world *w);              /* a world without faults that come by themselves */
int fleet_table(const struct options *o);      /* 1: a time is above its bound */

/* ---- client.c ---- */

void clients_act(struct world *w);
void cancels_act(struct daemon *d, const struct session *s); /* ends a wait, if there is one that the session may end */
bool cancels_receive(struct daemon *d, const struct core_reply *r); /* true: it is the answer to a CANCEL */
void clients_return(struct daemon *d);                         /* some of the restored owners, soon */
void clients_receive(struct daemon *d, const struct core_reply *r);
void clients_doom(struct world *w);                            /* ends the session in the middle of an MLOCK */
void clients_leave(struct daemon *d);                          /* all its sessions end */
struct slice clients_owner(struct slice name);                 /* the same text, valid for ever */
void clients_lost(struct daemon *d);                           /* their daemon has gone */
void clients_ask(struct daemon *d, struct session *s, enum core_event_type type, int name, struct slice owner);
void clients_ask_at_once(struct daemon *d, struct session *s, enum core_event_type type, int name, struct slice owner);
void clients_open(struct daemon *d, struct session *s);

/* The core has answered, perhaps by a refusal. */
void clients_refused(struct daemon *d, struct session *s, const struct asked *a);
void clients_cut(struct daemon *d, struct session *s);         /* its connection is closed by the daemon */

/* ---- pipeline.c ---- */

void pipelines_act(struct daemon *d, struct session *s);       /* several requests of one owner that do not wait */
void pipelines_answered(struct daemon *d, const struct session *s, const struct asked *a); /* just now, by the core */

/* ---- replies.c ---- */

void replies_open(struct session *s);
void replies_drop(struct session *s);
void replies_note(struct daemon *d, const struct core_reply *r);
void replies_write(struct daemon *d);                          /* the end of a turn; the process may stop there */

/* ---- rush.c ---- */

void rush_ticks(struct world *w);                              /* one may begin */
void rush_goes_on(struct world *w);

/* ---- nature.c ---- */

void nature_begin(struct world *w);
void nature_ticks(struct world *w);
void nature_rests(struct world *w);                            /* faults stop, and their effects are mended */
void last_failure(struct world *w, int64_t for_us);
void nature_crash(struct daemon *d);
void nature_loses_behind(struct server *s);                    /* after its last answer */
void nature_loses(struct world *w);                            /* Redis loses the drawn data now */
void nature_lost(struct server *s);                            /* its data is lost */
void nature_starts(struct daemon *d);                          /* a daemon has started */
void nature_jumps(struct server *s, int64_t sign, int64_t us); /* its clock is set */
int64_t longest_lease_us(const struct world *w);
void nature_strikes(struct daemon *d, enum fault f);           /* the fault strikes now, this daemon if one */

/* ---- check.c ---- */

void check_news(struct daemon *d, const struct core_publish *p);
void check_granted(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r);
void check_left(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r);
void check_asks(struct daemon *d, struct session *s, const struct core_request *r, enum core_event_type type);
void check_session_ends(struct daemon *d, struct session *s);
void check_restored(struct daemon *d, bool power_lost);         /* by a new process */
void check_zombie(const struct conn *c, int script, const struct reply *r); /* a command that was given up has run */
void check_moved_guard(const struct conn *c, const struct slice *word, const struct reply *r); /* an acquire ran */
void nature_set_back(struct conn *c); /* an acquire has just been sent on it */
void check_step(struct daemon *d);                             /* after each step */
void check_calm(struct world *w);                              /* now and then, when no faults happen */

/* ---- turns.c ---- */

void turns_op(struct daemon *d, const struct core_op *op, enum core_action_type verb);
void turns_done(struct daemon *d, const struct core_done *done);
void turns_watching(struct daemon *d, uint64_t lock);
bool turns_granted(struct daemon *d, struct name *n); /* true: by hand-off */
void turns_step(struct daemon *d);                             /* after each step */
void turns_taken(struct name *n);                              /* by an owner of no daemon */
void turns_stop(struct daemon *d);                             /* its process ends */
/* NULL: all of them; counts s if a run was harmed */
void turns_harm(struct world *w, const struct daemon *d, enum sight s);

/* ---- left.c, ours.c ---- */

void check_op(struct daemon *d, const struct core_op *op, enum core_action_type verb);
void check_ours(struct world *w);                               /* now and then, when all is quiet */
void foreign_tick(struct world *w);
void foreign_lost(struct server *s, bool take);              /* notes their losses; `take`: they take free names */
bool foreign_has(const struct world *w, const struct name *n);
bool lingers(const struct daemon *d, const struct name *n);    /* free, and kept for the next owner at its daemon */
bool has_ticket(const struct daemon *d, const struct name *n, uint64_t session); /* it waits in the daemon's queue */
/* the locks that a process left, released by the next one */
void check_released(struct world *w);
void check_left_behind(struct world *w);                        /* some seconds after all sessions have gone */
void check_caps(struct daemon *d);
void check_end(struct world *w);
int name_find(const struct world *w, struct slice text);

#endif
