/*
 * cluster.h -- a world's Redis Cluster: three masters with a replica each, the owners of slots, and each node's
 * knowledge of them. nodes.c has the knowledge and the answers of nodes, cluster.c their faults, moves.c the moves of
 * slots.
 */
#ifndef RLOCKD_TESTS_SIM_CLUSTER_H
#define RLOCKD_TESTS_SIM_CLUSTER_H

#include "daemon/backend/slot.h"
#include "daemon/base/buf.h"
#include "tests/sim/sim.h"

enum { CLUSTER_MASTERS = 3, CLUSTER_SERVERS = 6 };

/* The owners of slots: in truth, or as a node knows them. */
struct slot_map {
    uint64_t version;                  /* how often it has changed */
    uint64_t epoch[CLUSTER_SERVERS];   /* config epochs */
    uint8_t master[CLUSTER_SERVERS];   /* the master that it follows; itself: it is a master */
    uint8_t owner[SLOTS];
};

/* A node of the cluster. */
struct node {
    struct slot_map map;
    struct sim_slots slots;
    struct buf nodes_text;     /* CLUSTER NODES, made from: */
    uint64_t answer_of[2]; /* the version of its map, and its open slots */
    int64_t receive_us;    /* then it learns the present map; 0 = it has it, or no node informs it */
    int64_t alone_us;    /* since when it reaches no majority of the masters; 0 = it does */
    int64_t settled_us;  /* it serves again from then on */
    int64_t down_after_us; /* after this time alone it stops serving */
    int64_t unseen_us;   /* since when no other master reaches it; 0 = some do */
    int64_t elect_us;    /* after this time unseen it is replaced */
    int64_t replaced_us; /* when another one got its slots, and it does not know that yet; 0 = it does */
};

enum move_end {
    MOVE_DONE,
    MOVE_BACK,
    MOVE_DROPS,
    MOVE_AGAIN,  /* it is opened again at the promoted node */
    MOVE_FORMER, /* as DONE; then `from` comes back with its old keys, and these are moved to the owner: ... */
    MOVE_FIXED,  /* ... the slot has moved, and `from` is not back yet, or is */
};

/* One slot at a time moves from one master to another, key by key. */
struct move {
    bool on;
    uint16_t slot;
    struct server *from, *to;
    enum move_end end;
    int64_t opened_us, next_us, close_us;
    int64_t informed_us;     /* a daemon has learned that it is open; 0 = none has */
    unsigned moved, most; /* keys; most: at most this many are moved */
    struct sim_redis *before; /* the former keys of `from`, with which it comes back; NULL: it does not */
    int64_t old_us;           /* the time of that */
    int64_t fix_us;           /* FIXED: this time after a daemon has learned that the slot is open there */
    bool is_back;             /* FIXED: `from` is back, and has the slot open */
};

struct cluster_world {
    struct slot_map map; /* the truth */
    struct node node[CLUSTER_SERVERS];
    struct server *server; /* the first of them in the world's list */
    int64_t timeout_us;  /* cluster-node-timeout */
    int64_t old_us;      /* the longest time that an old master may serve beside the new one */
    struct move move;
    char place[40];
};

/* ---- nodes.c ---- */

struct node *node_of(const struct server *s);
struct server *cluster_owner(const struct world *w, uint16_t slot); /* a master */
bool cluster_is_master(const struct server *s); /* in truth; an old master is none */
void nodes_open(struct world *w);
void nodes_tick(struct world *w);
void node_receives(struct server *s);              /* the present map */
/* true: the command is not about the node's data */
bool cluster_answers(struct conn *c, int words, struct slice *word);
void cluster_informs(const struct conn *c, int words, const struct slice *word, const struct reply *r);
bool cluster_has_open(struct world *w, const struct name *n); /* the node that gets its slot has its key */
int64_t cluster_delay(const struct server *s); /* of a control: late answers of an old master */

/* ---- cluster.c ---- */

void cluster_draw(struct world *w);
void cluster_open(struct world *w);
void cluster_close(struct world *w);
void cluster_tick(struct world *w);
void cluster_rest(struct world *w);
void cluster_strike(struct world *w, enum fault f);
void cluster_jumped(struct server *s);                         /* its clock is about to be set forward */
void cluster_restarts(struct server *s);                       /* all its connections have ended */

uint64_t cluster_next_epoch(const struct cluster_world *c); /* above the epochs of all nodes */
void cluster_begins_anew(struct server *s, struct sim_redis *data, int64_t for_us); /* NULL: without data */

/* Data was lost, or may have been: for_us from now on, and as long as that may have effects. In a cluster only. */
void cluster_trouble(struct world *w, int64_t for_us);

/* ---- moves.c ---- */

void moves_tick(struct world *w);
void moves_strike(struct world *w, enum fault f);
void moves_break(struct world *w, const struct server *old); /* it is about to be replaced */
void moves_close(struct world *w);

#endif
