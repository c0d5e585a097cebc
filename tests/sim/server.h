/*
 * server.h -- the servers of a world, and the network between them and its daemons.
 */
#ifndef RLOCKD_TESTS_SIM_SERVER_H
#define RLOCKD_TESTS_SIM_SERVER_H

#include "daemon/base/slice.h"
#include "tests/sim/redis.h"
#include "tests/sim/tables.h"

struct bufferevent;
struct daemon;
struct name;

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
 * those that arrive.
 */
struct conn {
    struct list node;            /* server.conns */
    struct world *world;
    struct server *server;
    struct daemon *daemon;       /* its daemon; the slot lives longer than the daemon */
    struct bufferevent *bev;     /* NULL: the daemon has closed it */
    bool open;                   /* Redis has it */
    bool mute;                   /* no more bytes come back */
    uint64_t id;
    uint64_t life;               /* of the daemon, when it was made */
    int64_t closed_us;           /* by the daemon */
    int64_t ran_sent_us;         /* when the command that runs now was sent */
    int64_t held_until_us;       /* until then the network keeps the parcels under way */
    bool lost;                   /* parcels under way to Redis do not arrive */
    struct list there, back;     /* parcel.node */
    int64_t last_there_us, last_back_us;
    struct list channels;        /* channel.node */
    size_t channels_n;
    bool asking;                 /* its last command was ASKING */
    bool waits; /* the link of WAIT, which nothing else uses */
};

/* ---- Redis ---- */

/* A subscription of a connection. */
struct channel {
    struct list node; /* conn.channels */
    bool sharded;     /* by SSUBSCRIBE */
    size_t n;
    char name[];
};

enum server_type { SERVER_REDIS, SERVER_SENTINEL };

struct server {
    struct world *world;
    int index;
    enum server_type type;
    char host[24];               /* 10.0.0.(index + 1) */
    int port;
    bool apart;                  /* on the other side of a partition, as a daemon may be */
    int64_t alone_until_us;      /* until then no other server reaches it, though daemons do */
    int domain;                  /* of its data */
    char name[24];               /* its name in the trace */
    struct sim_redis *redis;
    struct sim_redis *old;       /* its data some writes ago; owned */
    struct sim_redis *former;    /* its data when another one was promoted in its stead; owned; NULL: none was */
    uint64_t former_life;
    bool promoted, former_promoted;
    unsigned old_in;             /* commands until `old` comes back */
    enum fault old_how;
    struct list conns;
    uint64_t life;
    bool loaded[SCRIPTS];        /* by the numbers of known.c */
    int64_t wall_us, ppm;        /* its clock at true time 0, and how much it gains in a second */
    int64_t down_until_us, paused_until_us, full_until_us;
    int64_t denied_until_us;     /* commands of this sort are refused: see denies() of calls.c */
    int denied;
    int64_t late_guards_us;      /* until then a guard may be too late: of G1 */
    int64_t set_back_us;         /* when its clock was set back the last time; of G2 */
    int64_t set_forward_us;      /* ... forward, of a node of a quorum */
    int64_t tokens[TOKEN_CLOCKS], lost_us; /* of Q1 and Q2 */
    int64_t back_under_us;       /* set the clock back by this when the next acquire is under way; 0 = no */
    struct server *follows;      /* its master; NULL: it is one */
    struct happening sync;       /* copies the data of its master */
    uint64_t writes;             /* the number of commands in its data; of a replica: at its last copy */
    int64_t acked_us;            /* of a replica: when its master last received its report */
    bool alone;                  /* too few replicas, by its own knowledge: it refuses writes */
    int64_t reform_us;           /* then it is made a replica of the new master; 0 = no need */
    struct server *named;        /* of a sentinel: the master that it knows; ... */
    int64_t unseen_us;           /* ... since when that does not answer; 0 = it does */
    int64_t receive_us;            /* ... then it learns of another one; 0 = no need */
};

/* ---- net.c ---- */

struct conn *conn_new(struct server *s, struct daemon *d, struct bufferevent *bev);
void conn_send(struct conn *c, const void *p, size_t n);       /* by the daemon */
void conn_reply(struct conn *c, const char *p, size_t n, bool pushed); /* by Redis */
void conn_close(struct conn *c);                               /* by the daemon */
void conn_late(struct conn *c, int64_t for_us);                /* delays answers of Redis that are under way */
void conn_cut(struct conn *c, bool noticed); /* by nature, or Redis; noticed: the daemon learns of it */
void net_there(struct happening *h);
void net_back(struct happening *h);
void net_free(struct world *w);
bool net_can_connect(struct server *s, struct daemon *d, bool *refused);
int64_t net_delay(struct world *w, struct daemon *d);

/* ---- server.c ---- */

void server_open(struct server *s, struct world *w, int index);
void servers_open(struct world *w);
const char *server_url(const struct world *w, char out[160]); /* for a daemon */
void servers_close(struct world *w);
int64_t server_clock(const struct server *s);
const struct reply *server_command(struct server *s, int words, const struct slice *word); /* without a connection */
struct server *server_of(const struct world *w, const struct name *n); /* where the name lives */
void server_subscribes(struct conn *c, struct slice channel, bool sharded, bool on);
void server_unsubscribes(struct server *s, bool (*is_gone)(const struct server *s, struct slice channel));
bool server_is_up(const struct server *s);
bool servers_reach(const struct server *a, const struct server *b);
void server_hangs_up(struct conn *c);
void server_id(const struct server *s, char out[41], uint64_t life, unsigned what); /* of a process, or its data */
void server_ends_conns(struct server *s);                       /* CLIENT KILL; all daemons learn of it */
void server_restart(struct server *s, struct sim_redis *data, bool promote);
void server_late(struct server *s, int64_t for_us);             /* delays answers on their way back */
bool server_has(struct server *s, const char *key);
void server_new_line(struct server *s);
void server_back(struct server *s);                             /* the former master of the last failover */

/* ---- watched.c ---- */

void watched_draw(struct world *w);                           /* a world of a master, replicas and sentinels */
void watched_open(struct world *w);
void watched_tick(struct world *w);
void watched_rest(struct world *w);
void watched_strike(struct world *w, struct daemon *d, enum fault f);
void watched_runs(struct conn *c, int words, const struct slice *word); /* a sentinel's command */
void replica_syncs(struct happening *h);
void replicas_receive(struct server *master);                      /* the master has run a command */
int replicas_ack(struct server *master);                        /* WAIT: the number of replicas with all its data */

/* ---- masters.c ---- */

void masters_draw(struct world *w);                           /* a world of a quorum */
void masters_open(struct world *w);
void masters_rest(struct world *w);
void masters_strike(struct server *s, enum fault f);
void masters_lost(struct world *w);                           /* a node will not vote for some time */
void masters_emptied(struct server *s);                        /* some or all of its data is lost */
void masters_check(struct world *w);
void masters_jumped(struct server *s);                         /* before its clock is set forward */
void masters_call(struct server *s, int verb, struct slice key, struct slice *floor); /* before a shipped script */
void masters_reported(struct world *w, const struct name *n, uint64_t token); /* a token of the name */
void masters_establish(struct server *s);                      /* ... it is established */
enum kind masters_kind(const struct world *w, enum kind kind, int name); /* the kind of the name in a quorum */
bool masters_have(struct world *w, const struct name *n);     /* no other owner can get a majority */
bool masters_first(struct world *w, const struct server *s, const struct name *n, struct slice holder);

/* ---- calls.c ---- */

bool server_is_acquire(const struct parcel *p);
void server_runs(struct conn *c, struct parcel *p);

/* ---- known.c ---- */

int scripts_find(struct slice text);                           /* -1: no shipped script */
int scripts_by_sha(struct slice sha);
const char *scripts_sha(int script);
bool scripts_is_beat(int script);                              /* of membership, of an anchor, of a node of a cluster */
/* asks a node of a cluster for the identity of its data */
bool scripts_is_node(int script);
bool scripts_is_record(int script);                            /* of a slot */
bool scripts_is_call(int script);                              /* of a verb and a kind */
int scripts_verb(int script);                                  /* enum call_verb */
enum kind scripts_kind(int script);

#endif
