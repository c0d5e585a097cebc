/*
 * cluster.h -- a world's Redis Cluster: three masters with a replica each, who has which slot, and what each node knows
 * of it. nodes.c has what nodes know and answer, cluster.c what happens to them, moves.c what happens to slots.
 */
#ifndef RLOCKD_TESTS_SIM_CLUSTER_H
#define RLOCKD_TESTS_SIM_CLUSTER_H

#include "daemon/backend/slot.h"
#include "daemon/base/buf.h"
#include "tests/sim/sim.h"

enum { CLUSTER_MASTERS = 3, CLUSTER_SERVERS = 6 };

/* Who has what: as it is, or as a node knows it. */
struct slot_map {
    uint64_t version;                  /* how often it has changed */
    uint64_t epoch[CLUSTER_SERVERS];   /* config epochs */
    uint8_t master[CLUSTER_SERVERS];   /* whom it follows; itself: it is one */
    uint8_t owner[SLOTS];
};

/* A node of the cluster. */
struct node {
    struct slot_map map;
    struct sim_slots slots;
    struct buf nodes_text;     /* CLUSTER NODES, of: */
    uint64_t answer_of[2]; /* its map's version, and what is open */
    int64_t receive_us;    /* it takes in then how things are; 0 = it knows, or nobody tells */
    int64_t alone_us;    /* since when it reaches no majority of the masters; 0 = it does */
    int64_t settled_us;  /* not before that it serves again */
    int64_t down_after_us; /* so long alone, and it serves no more */
    int64_t unseen_us;   /* since when no other master reaches it; 0 = some do */
    int64_t elect_us;    /* so long unseen, and it is replaced */
    int64_t replaced_us; /* when another one got its slots, and it does not know yet; 0 = it does */
};

enum move_end {
    MOVE_DONE,
    MOVE_BACK,
    MOVE_DROPS,
    MOVE_AGAIN,  /* it is opened anew at who was promoted */
    MOVE_FORMER, /* as DONE; then `from` comes back with its old keys, and these are brought to the owner: */
    MOVE_FIXED,  /* ... it has moved, and `from` is not back yet, or is */
};

/* One slot at a time goes from one master to another, key by key. */
struct move {
    bool on;
    uint16_t slot;
    struct server *from, *to;
    enum move_end end;
    int64_t opened_us, next_us, close_us;
    int64_t informed_us;     /* a daemon was told that it is open; 0 = none was */
    unsigned moved, most; /* keys; most: so many are moved at most */
    struct sim_redis *before; /* the keys of `from` as they were then, with which it comes back; NULL: it does not */
    int64_t old_us;           /* when it does */
    int64_t fix_us;           /* FIXED: so long after a daemon was told that the slot is open there */
    bool is_back;             /* FIXED: `from` is back, and has the slot open */
};

struct cluster_world {
    struct slot_map map; /* as it is */
    struct node node[CLUSTER_SERVERS];
    struct server *server; /* of the world, the first of them */
    int64_t timeout_us;  /* cluster-node-timeout */
    int64_t old_us;      /* so long an old master may serve beside the new one */
    struct move move;
    char place[40];
};

/* ---- nodes.c ---- */

struct node *node_of(const struct server *s);
struct server *cluster_owner(const struct world *w, uint16_t slot); /* a master */
bool cluster_is_master(const struct server *s); /* as it is; an old one is none */
void nodes_open(struct world *w);
void nodes_tick(struct world *w);
void node_receives(struct server *s);              /* how things are */
bool cluster_answers(struct conn *c, int words, struct slice *word); /* true: the command is not for its data */
void cluster_informs(const struct conn *c, int words, const struct slice *word, const struct reply *r);
bool cluster_has_open(struct world *w, const struct name *n); /* a node that gets its slot has it */
int64_t cluster_delay(const struct server *s); /* of a control: what an old master answers comes late */

/* ---- cluster.c ---- */

void cluster_draw(struct world *w);
void cluster_open(struct world *w);
void cluster_close(struct world *w);
void cluster_tick(struct world *w);
void cluster_rest(struct world *w);
void cluster_strike(struct world *w, enum fault f);
void cluster_jumped(struct server *s);                         /* its clock is about to be set forward */
void cluster_restarts(struct server *s);                       /* all its connections have ended */

uint64_t cluster_next_epoch(const struct cluster_world *c); /* above those of all nodes */
void cluster_begins_anew(struct server *s, struct sim_redis *data, int64_t for_us); /* NULL: without any */

/* Something was lost, or may have been: for_us from now on, and as long as that may be felt. In a cluster only. */
void cluster_trouble(struct world *w, int64_t for_us);

/* ---- moves.c ---- */

void moves_tick(struct world *w);
void moves_strike(struct world *w, enum fault f);
void moves_break(struct world *w, const struct server *old); /* it is about to be replaced */
void moves_close(struct world *w);

#endif
