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
 * what arrives.
 */
struct conn {
    struct list node;            /* server.conns */
    struct world *world;
    struct server *server;
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
    bool asking;                 /* it has just said ASKING */
    bool waits; /* the link on which replicas are asked, which nothing else goes by */
};

/* ---- Redis ---- */

/* That a connection has subscribed to. */
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
    int64_t alone_until_us;      /* until then no other server reaches it, whereas daemons do */
    int domain;                  /* whose data it has */
    char name[24];               /* as the trace has it */
    struct sim_redis *redis;
    struct sim_redis *old;       /* its data some writes ago; owned */
    struct sim_redis *former;    /* as it was when another one was promoted in its stead; owned; NULL: none was */
    uint64_t former_life;
    bool promoted, former_promoted;
    unsigned old_in;             /* commands until `old` comes back */
    enum fault old_how;
    struct list conns;
    uint64_t life;
    bool loaded[SCRIPTS];        /* known.c knows them by these numbers */
    int64_t wall_us, ppm;        /* its clock at true time 0, and how much it goes ahead in a second */
    int64_t down_until_us, paused_until_us, full_until_us;
    int64_t denied_until_us;     /* commands of this sort: see denies() of calls.c */
    int denied;
    int64_t late_guards_us;      /* until then a guard may be too late: of G1 */
    int64_t set_back_us;         /* its clock was set back then, the last time; of G2 */
    int64_t set_forward_us;      /* ... forward, of a node of a quorum */
    int64_t tokens[TOKEN_CLOCKS], lost_us; /* of Q1 and Q2 */
    int64_t back_under_us;       /* it is to be, by so much, as soon as an acquire is under way; 0 = no */
    struct server *follows;      /* its master; NULL: it is one */
    struct happening sync;       /* what its master has is copied to it */
    uint64_t writes;             /* how many commands its data has seen; of a replica: when it was copied */
    int64_t acked_us;            /* when its master heard of it the last time */
    bool alone;                  /* too few replicas, as it knows: it takes no writes */
    int64_t reform_us;           /* it is told whom to follow; 0 = no need */
    struct server *named;        /* of a sentinel: the master, as it knows it; */
    int64_t unseen_us;           /* since when it does not answer it; 0 = it does */
    int64_t receive_us;            /* then it hears of another one; 0 = no need */
};

/* ---- net.c ---- */

struct conn *conn_new(struct server *s, struct daemon *d, struct bufferevent *bev);
void conn_send(struct conn *c, const void *p, size_t n);       /* by the daemon */
void conn_reply(struct conn *c, const char *p, size_t n, bool pushed); /* by Redis */
void conn_close(struct conn *c);                               /* by the daemon */
void conn_late(struct conn *c, int64_t for_us);                /* what Redis has answered and is under way */
void conn_cut(struct conn *c, bool told);                      /* by nature, or Redis; told: the daemon hears of it */
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
const struct reply *server_command(struct server *s, int words, const struct slice *word); /* by nobody's connection */
struct server *server_of(const struct world *w, const struct name *n); /* where it lives */
void server_subscribes(struct conn *c, struct slice channel, bool sharded, bool on);
void server_unsubscribes(struct server *s, bool (*is_gone)(const struct server *s, struct slice channel));
bool server_is_up(const struct server *s);
bool servers_reach(const struct server *a, const struct server *b);
void server_hangs_up(struct conn *c);
void server_id(const struct server *s, char out[41], uint64_t life, unsigned what); /* of a process, or its data */
void server_ends_conns(struct server *s);                       /* CLIENT KILL; all hear of it */
void server_restart(struct server *s, struct sim_redis *data, bool promote);
void server_late(struct server *s, int64_t for_us);             /* what is on its way back comes so much later */
bool server_has(struct server *s, const char *key);
void server_new_line(struct server *s);
void server_back(struct server *s);                             /* the one before the last failover */

/* ---- watched.c ---- */

void watched_draw(struct world *w);                           /* a world of a master, replicas and sentinels */
void watched_open(struct world *w);
void watched_tick(struct world *w);
void watched_rest(struct world *w);
void watched_strike(struct world *w, struct daemon *d, enum fault f);
void watched_runs(struct conn *c, int words, const struct slice *word); /* it is asked */
void replica_syncs(struct happening *h);
void replicas_receive(struct server *master);                      /* it has run something */
int replicas_ack(struct server *master);                        /* WAIT: how many have all of it now */

/* ---- masters.c ---- */

void masters_draw(struct world *w);                           /* a world of a quorum */
void masters_open(struct world *w);
void masters_rest(struct world *w);
void masters_strike(struct server *s, enum fault f);
void masters_lost(struct world *w);                           /* a node will not vote for some time */
void masters_emptied(struct server *s);                        /* some of what it had, or all, is lost */
void masters_check(struct world *w);
void masters_jumped(struct server *s);                         /* before its clock is set forward */
void masters_call(struct server *s, int verb, struct slice key, struct slice *floor); /* before a script of ours */
void masters_reported(struct world *w, const struct name *n, uint64_t token); /* a token of the name */
void masters_establish(struct server *s);                      /* ... it says that it is established */
enum kind masters_kind(const struct world *w, enum kind kind, int name); /* that it has there */
bool masters_have(struct world *w, const struct name *n);     /* nobody else gets a majority */
bool masters_first(struct world *w, const struct server *s, const struct name *n, struct slice holder);

/* ---- calls.c ---- */

bool server_is_acquire(const struct parcel *p);
void server_runs(struct conn *c, struct parcel *p);

/* ---- known.c ---- */

int scripts_find(struct slice text);                           /* -1: not one of ours */
int scripts_by_sha(struct slice sha);
const char *scripts_sha(int script);
bool scripts_is_beat(int script);                              /* of membership; an anchor's, a node's of a cluster */
bool scripts_is_node(int script);                              /* what data a node of a cluster has */
bool scripts_is_record(int script);                            /* of a slot */
bool scripts_is_call(int script);                              /* of a verb and a kind */
int scripts_verb(int script);                                  /* enum call_verb */
enum kind scripts_kind(int script);

#endif
