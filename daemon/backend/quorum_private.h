/*
 * quorum_private.h -- the quorum and its nodes, shared by quorum.c and quorum_*.c. The rules: quorum.c.
 */
#ifndef RLOCKD_BACKEND_QUORUM_PRIVATE_H
#define RLOCKD_BACKEND_QUORUM_PRIVATE_H

#include "daemon/backend/address.h"
#include "daemon/backend/backend_ops.h"
#include "daemon/backend/shard.h"
#include "daemon/backend/tally.h"
#include "daemon/base/freelist.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"

enum { NODE_EPOCH_ROOM = 72, RECENT_MAX = 256, QUORUM_LIST_ROOM = 8 + TALLY_NODES_MAX * 48 };

/* One master. */
struct quorum_node {
    struct quorum *of;
    unsigned index;
    struct shard *shard; /* owned */
    struct link_address *address; /* the shard's */
    bool up;            /* it counts: a link is up, and no earlier node is the same server */
    bool linked;        /* a link is up */
    const struct quorum_node *twin; /* an earlier node that is the same server, and counts for both; NULL = none */
    bool voting;        /* established in `epoch`: quorum_admit.c */
    bool shared;        /* other daemons may hold locks there */
    bool subscribed;    /* broadcasts arrive by this node */
    uint64_t epoch;     /* of the node's data; 0 = not known */
    int64_t epoch_us;   /* when this daemon learned of the epoch */
    int64_t jumped_us;  /* a clock was set then: the node may have dropped keys that it confirmed before; 0 = never */
    /* The last answer of scripts/quorum.lua (quorum_admit.c). */
    bool asked;         /* the script is in flight */
    bool answered;      /* the node has answered in this epoch ... */
    bool in_round;      /* ... and in this round */
    bool established;
    bool granting;      /* the node is in no grace period (membership.lua) */
    bool quarantine_was_over; /* its quarantine was over before this round began */
    bool admitting;     /* the script that admits the node was sent, and has neither succeeded nor failed */
    char script_error[320]; /* its last error; "" = none since the node was established or lost its data */
    uint64_t lost_epoch; /* the last epoch of the node for which a RECLAIM was posted */
    char epoch_value[NODE_EPOCH_ROOM]; /* of rlock:epoch, in the last answer of this epoch */
    uint64_t clock;     /* the highest token that rlock:clock and the token clocks have reached */
    int64_t remaining_us; /* of its quarantine */
    uint64_t votes, second_rounds; /* votes of the node, and write-backs to it */
};

/* Daemons with other nodes (quorum_servers.c). */
struct quorum_stray {
    char uuid[37];       /* of the sender of the last list; "" = none is known */
    bool warned;         /* confirmed, and logged */
    int64_t since_us, received_us; /* the first and the last broadcast that showed this */
};

struct quorum {
    struct backend head; /* first: self() of quorum.c relies on it */
    struct backend_conf conf;
    struct backend_env env;
    struct freelist freelist;
    unsigned nodes_n, majority; /* majority: q in the comments */
    struct quorum_node node[TALLY_NODES_MAX];
    struct map entries, errands, watches, inspections;
    struct heap timers;
    struct list new_ops; /* quorum_op.node: operations of verbs in this turn */
    struct list unsent;  /* errand.node: errands that are not sent, to be answered DOWN */
    struct event *due;   /* the first of the timers, or at once */
    uint64_t serial;     /* of the last errand */
    uint64_t ops_n;
    uint64_t epoch;      /* of the last RECLAIM; 0 = none was posted */
    bool up, enough_vote, shared; /* as last reported to the core */
    unsigned voting_n;   /* as last logged */
    int64_t startup_until_us; /* until then healthy nodes are being admitted; 0 = over, or a spare node has voted */
    unsigned asked_n;    /* nodes whose answer of this round is to come */
    int64_t round_us;    /* when the next round of quorum_admit.c begins; CORE_FOREVER = when an event asks for one */
    uint64_t recent[RECENT_MAX]; /* digests of the last broadcasts received */
    unsigned recent_at;
    uint64_t broadcast_serial; /* of the last broadcast sent */
    char servers[QUORUM_LIST_ROOM]; /* the last list of quorum_servers.c with a server that was new */
    unsigned servers_unsent; /* broadcasts of it that are to come */
    struct timer servers_timer; /* the next one */
    struct quorum_stray stray;
    struct core_waiters_polled polled;
    int64_t polled_max[CORE_WAITER_POLL_MAX];
    unsigned polled_n;   /* nodes that have answered */
    uint64_t random;
};

enum quorum_timer { TIMER_OP, TIMER_ENTRY, TIMER_WATCH, TIMER_SERVERS };

/* ---- quorum_core.c ---- */

/* Makes the loop run on_due() of quorum.c soon, which flushes the shards and serves the due timers. */
void quorum_wake(struct quorum *qu);

void quorum_post(const struct quorum *qu, const struct core_event *ev);

/* The answer to backend_inspect(). */
void quorum_post_inspected(const struct quorum *qu, uint64_t id, const struct inspected_key *found);

/* The number of nodes that vote, and that are up. */
unsigned quorum_voting(const struct quorum *qu);
unsigned quorum_up(const struct quorum *qu);

/* Finds nodes that are the same server: these count as one. Called when a node came up or went down, and each round. */
void quorum_find_twins(struct quorum *qu);

/* A node has come or gone; other daemons may hold locks there, or none does. */
void quorum_up_changed(struct quorum_node *node, bool up);
void quorum_shared_changed(struct quorum_node *node, bool is_shared);

/* Broadcasts arrive by a node. With a majority of such nodes, any two daemons hear each other by one node at least. */
void quorum_subscribed(struct quorum_node *node);

/* The set of nodes that vote may have changed, or startup_until_us is over: reports that to the core, and logs it. */
void quorum_voting_changed(struct quorum *qu);

/* A node's answer may show a loss of data: posts RECLAIM if so. */
void quorum_loss_changed(struct quorum *qu);

/* A number below n, for pauses. */
int64_t quorum_random(struct quorum *qu, int64_t n);

/* ---- quorum_broadcast.c ---- */

void quorum_broadcast(struct backend *b, struct slice what);

/* The text and the daemon of a new broadcast; n == 0: it was received before, or is not one of a quorum. */
struct slice quorum_broadcast_text(struct quorum *qu, struct slice received, struct slice *uuid);

/* ---- quorum_servers.c ---- */

#define QUORUM_STRAY "another daemon has other nodes"

/* The servers of the nodes may have changed: broadcasts them soon, if one is new. */
void quorum_servers_changed(struct quorum *qu);

/* A broadcast of a daemon, not an empty one. False: it is no list of servers. */
bool quorum_servers_received(struct quorum *qu, struct slice uuid, struct slice what);

/* The next broadcast of the list is due. */
void quorum_servers_due(struct quorum *qu);

/* ---- quorum_admit.c ---- */

/* Asks all nodes whether they are established. */
void quorum_begin_round(struct quorum *qu);

#endif
