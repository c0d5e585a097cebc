/*
 * quorum_private.h -- what the files of the quorum share; only quorum.c and quorum_*.c see it. The rules: quorum.c.
 */
#ifndef RLOCKD_BACKEND_QUORUM_PRIVATE_H
#define RLOCKD_BACKEND_QUORUM_PRIVATE_H

#include "daemon/backend/address.h"
#include "daemon/backend/backend.h"
#include "daemon/backend/shard.h"
#include "daemon/backend/votes.h"
#include "daemon/base/freelist.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"

enum { NODE_EPOCH_ROOM = 72, HEARD_MAX = 256 };

/* One master. */
struct quorum_node {
    struct quorum *of;
    unsigned index;
    struct shard *shard;          /* owned */
    struct link_address *address; /* the shard's */
    bool up;
    bool voting;        /* established in `epoch`: quorum_admit.c */
    bool shared;        /* other daemons may hold locks there */
    uint64_t epoch;     /* of its data; 0 = not known */
    int64_t epoch_us;   /* since when it is known, by our clock */
    int64_t jumped_us;  /* what was sent before, by our clock, says nothing of expiries: a clock was set; 0 = none */
    /* The answer to the last look at it (quorum_admit.c). */
    bool looking;       /* the question is on its way */
    bool looked;        /* it has answered in this epoch */
    bool heard;         /* ... in this round */
    bool established, granting;
    bool over;          /* its quarantine was over before this round began */
    uint64_t lost_epoch; /* the last one that a RECLAIM was for */
    char text[NODE_EPOCH_ROOM]; /* rlock:epoch */
    uint64_t clock;     /* rlock:clock */
    int64_t left_us;    /* of its quarantine */
    uint64_t votes, second_rounds; /* that it gave; write-backs to it */
};

/* What one node has of a name's owner. Times by our clock. */
struct part {
    struct list queue;   /* of errands, in their order: the first one is on its way if `flying` */
    bool flying;
    bool clean;          /* nothing of ours is there, nor can come there */
    int64_t sent_us;     /* of what set the expiry last */
    int64_t deadline_us; /* our key is there until then at least; 0 = perhaps it is not there */
    uint64_t epoch;      /* of the node then */
    int64_t hole_us;     /* since when it is known that our key is not there; 0 = it is, or nobody has looked */
    int64_t acquire_until_us; /* an attempt that was given up may run until then */
    int64_t release_until_us; /* ... a release */
};

/* One owner's entry for a name, on all nodes; the key stands behind the parts. */
struct hold {
    struct map_node by_name; /* hash of key and owner */
    struct timer timer;
    struct core_op op;       /* the last one of the core: its key is ours */
    uint64_t generation;     /* one more with each attempt, and when it is given back */
    bool wanted;             /* it is asked for, or held: a key of ours may stay */
    bool known;              /* it was granted or confirmed by this process: deadlines count */
    unsigned ops_n;          /* under way */
    int64_t until_us;        /* no key of ours can be there any more */
    struct part part[];      /* one for each node */
};

enum quorum_sort {
    SORT_ATTEMPT, /* a vote */
    SORT_CONFIRM, /* EXTEND, re-entry, reclaim, RELEASE of some holds */
    SORT_RELEASE,
    SORT_SWEEP,   /* a RELEASE that nobody waits for */
    SORT_REPAIR,  /* one that has our key not: another attempt, that nobody waits for */
    SORT_BREAK,
};

/* One operation on all nodes. */
struct quorum_op {
    struct list node;    /* in quorum.begun, until the verb is over */
    struct hold *hold;
    struct timer timer;
    struct core_op op; /* what the core wants; its key is the hold's */
    enum core_action_type verb;
    enum quorum_sort sort;
    uint64_t generation; /* the hold's */
    uint64_t token;      /* proposed */
    uint64_t least;      /* BREAK: the smallest token of those that nodes have answered; 0 = none has */
    uint32_t reserve;
    bool told;           /* the core knows its outcome */
    bool begun;          /* all nodes are asked */
    uint32_t again;      /* a bit for each node: it was asked once more, because a clock was set */
    unsigned errands_n;
    int64_t guard_us;    /* the latest */
    int64_t expiry_ms, remote_subscribers;
    struct vote vote;
};

/* One operation on one node. */
struct errand {
    struct list node;
    struct map_node by_serial; /* core_op.op of the shard's operation */
    struct quorum_op *op;
    struct quorum_node *to;
    enum core_action_type verb;
    bool raises;               /* a write-back */
    uint64_t number;           /* the token proposed, the ceiling; 0 = none */
    bool was_clean;
};

struct quorum_watch {
    struct map_node by_lock;
    struct timer timer;
    uint64_t lock;
    uint32_t subscribed, hinted; /* a bit for each node */
    bool told;                   /* the core knows that a majority is subscribed */
};

struct quorum_look; /* quorum_watch.c */

struct quorum {
    struct backend head; /* first: a backend is a quorum */
    struct backend_conf conf;
    struct backend_env env;
    struct freelist freelist;
    unsigned n, q;
    struct quorum_node node[VOTES_NODES_MAX];
    struct map holds, errands, watches, looks;
    struct heap timers;
    struct list begun;   /* of quorum_op.node: asked for since the loop was here last */
    struct list over;    /* of errand.node: not sent, and nobody knows yet */
    struct event *due;   /* the first of the timers, or at once */
    uint64_t serial;     /* of errands */
    uint64_t ops_n;
    uint64_t epoch;      /* told to the core with RECLAIM; 0 = none */
    bool up, granting, shared; /* as was told to the core */
    unsigned voting_n;   /* as the log knows */
    int64_t settled_us;  /* until then a healthy node may still be on its way to its vote; 0 = a spare one has voted */
    unsigned looking_n;  /* answers of this round to come */
    int64_t look_us;     /* when the nodes are looked at again; CORE_FOREVER = when something happens */
    uint64_t heard[HEARD_MAX]; /* digests of broadcasts that were heard lately */
    unsigned heard_at;
    uint64_t said;       /* serial of our own */
    struct core_waiters_polled polled;
    int64_t polled_max[CORE_WAITER_POLL_MAX];
    unsigned polled_n;   /* nodes that have answered */
    uint64_t random;
};

enum quorum_timer { TIMER_OP, TIMER_HOLD, TIMER_WATCH };

/* ---- quorum_core.c ---- */

/* The loop comes back soon: what was asked of shards leaves, timers are looked at. */
void quorum_wake(struct quorum *qu);

void quorum_post(const struct quorum *qu, const struct core_event *ev);

/* The answer to a LOCKINFO. */
void quorum_tell_seen(const struct quorum *qu, uint64_t id, const struct backend_seen *seen);

/* How many nodes vote; are up. */
unsigned quorum_voting(const struct quorum *qu);
unsigned quorum_up(const struct quorum *qu);

/* A node has come or gone; other daemons may hold locks there, or none does. */
void quorum_up_changed(struct quorum_node *node, bool up);
void quorum_shared_changed(struct quorum_node *node, bool is_shared);

/* Something has changed about which nodes vote, or settled_us is over: tells the core, and the log. */
void quorum_voting_changed(struct quorum *qu);

/* What is known of their data has changed. */
void quorum_loss_changed(struct quorum *qu);

/* A number below n, for pauses. */
int64_t quorum_random(struct quorum *qu, int64_t n);

/* ---- quorum_ask.c ---- */

void quorum_perform_op(struct quorum *qu, const struct core_op *op, enum core_action_type verb);

/* ---- quorum_ops.c ---- */

struct quorum_op *quorum_op_new(struct quorum *qu, struct hold *h, const struct core_op *op, enum core_action_type verb,
                                enum quorum_sort sort);
void quorum_sweep(struct quorum *qu, struct hold *h); /* takes our key back from the nodes that may have it */

void quorum_answered(struct quorum *qu, struct errand *e, const struct core_done *done);
void quorum_errands_over(struct quorum *qu); /* what was not asked is told */
void quorum_hold_due(struct quorum *qu, struct hold *h); /* its timer */
void quorum_op_due(struct quorum *qu, struct quorum_op *o); /* its timer */
void quorum_op_begun(struct quorum *qu, struct quorum_op *o); /* the verb is over */
void quorum_ops_free(struct quorum *qu);

/* ---- quorum_holds.c ---- */

struct hold *hold_of(struct quorum *qu, const struct core_op *op);
void hold_settle(struct quorum *qu, struct hold *h); /* an operation has ended: arms, or frees it */
int64_t hold_deadline_us(const struct quorum *qu, const struct hold *h);

/*
 * Nodes may have dropped it, since their clocks were set: what has been answered until now neither confirms it nor ends
 * it. The core has been told (SUSPECT), and asks again.
 */
bool hold_suspect(const struct quorum *qu, const struct hold *h, int64_t now_us);

/* Until then our key is on the node, or the node gives no vote. */
int64_t part_deadline_us(const struct part *p, const struct quorum_node *node);

/* The node has said that it is there; then a clock was set. */
bool part_suspect(const struct part *p, const struct quorum_node *node, int64_t now_us);

void holds_jumped(struct quorum *qu); /* a clock was set: tells the core if that matters */
void holds_free(struct quorum *qu);

/* Sends the errand to its node behind those before it, or ends it in quorum.over; number: see struct errand. */
void part_push(struct quorum *qu, struct quorum_op *o, unsigned node, enum core_action_type verb, uint64_t number);

/* It is answered, and taken off its queue; then the next one leaves. */
void part_done(struct quorum *qu, struct errand *e, const struct core_done *done);
void part_launch(struct quorum *qu, struct part *p);

/* ---- quorum_watch.c ---- */

void quorum_watch_op(struct quorum *qu, const struct core_op *op, bool on);
void quorum_heard(void *ctx, const struct core_event *ev);
void quorum_watch_due(struct quorum *qu, struct quorum_watch *w);
void quorum_say(struct backend *b, struct slice what);
void quorum_poll(struct backend *b, const struct core_waiter_poll *p);
void quorum_look(struct backend *b, uint64_t id, struct slice key);
void quorum_seen(void *ctx, uint64_t id, const struct backend_seen *seen);
void quorum_watches_free(struct quorum *qu);

/* ---- quorum_admit.c ---- */

/* Asks all nodes whether they are established. */
void quorum_look_at_nodes(struct quorum *qu);

#endif
