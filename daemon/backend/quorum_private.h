/*
 * quorum_private.h -- the quorum and its nodes, as quorum.c and quorum_*.c share them. The rules: quorum.c.
 */
#ifndef RLOCKD_BACKEND_QUORUM_PRIVATE_H
#define RLOCKD_BACKEND_QUORUM_PRIVATE_H

#include "daemon/backend/address.h"
#include "daemon/backend/backend_ops.h"
#include "daemon/backend/shard.h"
#include "daemon/backend/votes.h"
#include "daemon/base/freelist.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"

enum { NODE_EPOCH_ROOM = 72, RECENT_MAX = 256 };

/* One master. */
struct quorum_node {
    struct quorum *of;
    unsigned index;
    struct shard *shard; /* owned */
    struct link_address *address; /* the shard's */
    bool up;            /* it counts: a link is up, and no other node is the same server */
    bool linked;        /* a link is up */
    const struct quorum_node *twin; /* the same server, named before it: that one counts; NULL = none */
    bool voting;        /* established in `epoch`: quorum_admit.c */
    bool shared;        /* other daemons may hold locks there */
    uint64_t epoch;     /* of its data; 0 = not known */
    int64_t epoch_us;   /* since when it is known, by our clock */
    int64_t jumped_us;  /* what was sent before, by our clock, says nothing of expiries: a clock was set; 0 = none */
    /* The answer to the last look at it (quorum_admit.c). */
    bool asked;         /* the question is on its way */
    bool answered;      /* it has answered in this epoch */
    bool in_round;      /* ... in this round */
    bool established, granting;
    bool quarantine_was_over; /* its quarantine was over before this round began */
    bool admitting;     /* it was asked to be established last */
    char refusal[128];  /* the error by which it answered last; "" = none */
    uint64_t lost_epoch; /* the last one that a RECLAIM was for */
    char text[NODE_EPOCH_ROOM]; /* rlock:epoch */
    uint64_t clock;     /* rlock:clock */
    int64_t left_us;    /* of its quarantine */
    uint64_t votes, second_rounds; /* that it gave; write-backs to it */
};

struct quorum {
    struct backend head; /* first: a backend is a quorum */
    struct backend_conf conf;
    struct backend_env env;
    struct freelist freelist;
    unsigned n, q;
    struct quorum_node node[VOTES_NODES_MAX];
    struct map entries, errands, watches, looks;
    struct heap timers;
    struct list begun;   /* of quorum_op.node: asked for since the loop was here last */
    struct list unsent;  /* of errand.node: not sent, and nobody knows yet */
    struct event *due;   /* the first of the timers, or at once */
    uint64_t serial;     /* of errands */
    uint64_t ops_n;
    uint64_t epoch;      /* told to the core with RECLAIM; 0 = none */
    bool up, granting, shared; /* as was told to the core */
    unsigned voting_n;   /* as the log knows */
    int64_t startup_until_us; /* until then healthy nodes are still being admitted; 0 = a spare node has voted */
    unsigned asked_n;  /* answers of this round to come */
    int64_t look_us;     /* when the nodes are looked at again; CORE_FOREVER = when something happens */
    uint64_t recent[RECENT_MAX]; /* digests of broadcasts that were heard lately */
    unsigned recent_at;
    uint64_t broadcast_serial; /* serial of our own */
    struct core_waiters_polled polled;
    int64_t polled_max[CORE_WAITER_POLL_MAX];
    unsigned polled_n;   /* nodes that have answered */
    uint64_t random;
};

enum quorum_timer { TIMER_OP, TIMER_ENTRY, TIMER_WATCH };

/* ---- quorum_core.c ---- */

/* The loop calls back soon: operations of shards leave, timers are looked at. */
void quorum_wake(struct quorum *qu);

void quorum_post(const struct quorum *qu, const struct core_event *ev);

/* The answer to a LOCKINFO. */
void quorum_post_seen(const struct quorum *qu, uint64_t id, const struct backend_seen *seen);

/* How many nodes vote; are up. */
unsigned quorum_voting(const struct quorum *qu);
unsigned quorum_up(const struct quorum *qu);

/* Nodes of the same server count as one. Called when that may have changed. */
void quorum_find_twins(struct quorum *qu);

/* A node has come or gone; other daemons may hold locks there, or none does. */
void quorum_up_changed(struct quorum_node *node, bool up);
void quorum_shared_changed(struct quorum_node *node, bool is_shared);

/* Something has changed about which nodes vote, or startup_until_us is over: tells the core, and the log. */
void quorum_voting_changed(struct quorum *qu);

/* What is known of their data has changed. */
void quorum_loss_changed(struct quorum *qu);

/* A number below n, for pauses. */
int64_t quorum_random(struct quorum *qu, int64_t n);

/* ---- quorum_admit.c ---- */

/* Asks all nodes whether they are established. */
void quorum_look_at_nodes(struct quorum *qu);

#endif
