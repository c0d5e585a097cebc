/*
 * cluster_private.h -- what the files of the topology of a cluster share; only cluster.c and cluster_*.c see it.
 */
#ifndef RLOCKD_BACKEND_CLUSTER_PRIVATE_H
#define RLOCKD_BACKEND_CLUSTER_PRIVATE_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/call.h"
#include "daemon/backend/cluster_map.h"
#include "daemon/backend/cluster_slots.h"
#include "daemon/backend/cluster_url.h"
#include "daemon/backend/continuity.h"
#include "daemon/backend/deferred.h"
#include "daemon/backend/node_timeout.h"
#include "daemon/backend/script_variants.h"
#include "daemon/backend/shard.h"
#include "daemon/base/freelist.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"

enum {
    CLUSTER_MASTERS_MAX = 128, /* each has a pool of connections */
    CLUSTER_HOPS_MAX = 16, /* refusals of an item by MOVED, ASK, TRYAGAIN or CLUSTERDOWN; then it is DOWN */
};

struct cluster;

/* The part of a waiter poll that a master answers. */
struct cluster_poll_part {
    struct cluster *cluster;
    uint64_t op; /* of the poll; 0: no question is in flight */
    uint16_t at[CORE_WAITER_POLL_MAX]; /* for each name of this part its index in the poll */
    size_t n;
    unsigned asked_n; /* questions in flight */
};

/* A master in the map, or one that was in it when a call that is still in flight was sent. */
struct cluster_master {
    struct continuity head; /* first */
    struct list node;       /* cluster.masters */
    struct cluster *cluster;
    char id[CLUSTER_ID_ROOM];
    uint16_t node_index;          /* in the generations: generations_node_index() */
    struct link_address *address; /* owned by the shard */
    struct shard *shard;          /* owned */
    bool up, in_map;              /* in_map: the map has this master, perhaps without a slot yet */
    int64_t down_us;              /* !up: since when; 0: it has not been up yet */
    bool map_asked;               /* CLUSTER NODES is in flight */
    bool refuses;                 /* strict, and its node timeout is no bound: nothing is granted in its slots */
    struct node_timeout timeout;
    char key[2][RECORD_KEY_ROOM]; /* scratch of keys_of() and epoch_value_of() */
    char value[32];
    struct cluster_poll_part poll;
};

struct cluster {
    struct backend head;      /* first */
    struct backend_conf conf; /* without the login, which the addresses have */
    char *unmapped_key, *patterns; /* of conf, owned; NULL: the rights are not tested */
    struct backend_env env;
    struct freelist freelist;
    struct cluster_url url;
    struct link_address *template; /* login and TLS, copied to the address of each node */
    struct cluster_map map;
    struct script_variants variants;
    struct slot_tags tags;
    struct cluster_slots slots;
    struct cluster_seeds *seeds; /* owned: the link that asks nodes for the map */
    struct list masters;         /* cluster_master.node; owned */
    unsigned masters_n;
    struct cluster_master *master_of[SLOTS]; /* NULL: the slot's master is unknown, or has no shard yet */
    uint64_t moves;              /* rises whenever an entry of master_of changes */
    struct list parked;          /* item.node: cluster_park.c */
    struct deferred deferred;
    struct shard_events events;  /* of `deferred` */
    struct map watches;          /* cluster_watch.c */
    struct {
        uint64_t op; /* 0: none is in flight */
        uint64_t moves; /* cluster.moves when it was sent */
        size_t n, left; /* names; questions that have no answer yet */
        bool failed;
        int64_t subscribers[CORE_WAITER_POLL_MAX];
    } poll;
    char channel[ANCHORS][32];   /* of broadcasts, in the slots of the anchors */
    unsigned unserved_n;         /* masters with slots beyond CLUSTER_MASTERS_MAX: nothing is sent to these */
    bool shared_master_logged;   /* the log has that two anchors are at one master */
    bool low_logged;             /* the log has the reason of cluster_epochs_any_is_low() */
    bool few_votes_logged;       /* the log has the reason of cluster_anchors_too_few_vote() ... */
    int64_t few_votes_us;        /* ... and when the timer first found that reason; 0: there is none */
    bool known;                  /* a map, and which scripts the nodes run, are known */
    bool up, map_outdated;       /* map_outdated: the map is to be requested soon */
    struct slot_set resubscribe; /* slots whose watches are to be subscribed anew */
    bool resubscribes;           /* resubscribe has slots */
    bool subscribed;             /* broadcasts arrive by one more anchor, which the engine does not know yet */
    int64_t resubscribed_us;     /* when watches were subscribed anew last */
    int64_t asked_us;            /* when the map was requested last */
    unsigned unknown_n;          /* requests for the map because ASK named an unknown node (cluster_park.c) ... */
    int64_t unknown_us;          /* ... the last of them; see may_request_map() */
    int64_t lost_us;             /* !up: when the last master was lost, or when the map became known */
    struct event *timer;
    int64_t due_us;              /* when the timer fires */
};

/* ---- cluster_post.c: events for the core, broadcasts, and the timer of the topology ---- */

void cluster_post(const struct cluster *c, const struct core_event *ev);
void cluster_post_done(const struct cluster *c, const struct core_done *done);
void cluster_post_inspected(const struct cluster *c, uint64_t id, const struct inspected_key *found);
void cluster_post_state(const struct cluster *c, bool up);

/* Posts the event for each slot that the master owns; `used`: only for slots that were used since the start. */
void cluster_post_slots(const struct cluster *c, const struct cluster_master *m, enum core_event_type type, bool used);

void cluster_send_broadcast(const struct cluster *c, struct slice what);

/* Reports cluster.subscribed once broadcasts can leave as well. */
void cluster_post_subscribed(struct cluster *c);

/* Broadcasts the number of a generation that this daemon has begun: cluster_slots_announced() for the others. */
void cluster_send_begun(const struct cluster *c, uint64_t number);

/* The timer fires after in_us at the latest, and after half of that at the earliest: the rest is random. */
void cluster_wake(struct cluster *c, int64_t in_us);

/* ---- cluster_watch.c: waiters are subscribed at the master of their slot ---- */

void cluster_watch(struct cluster *c, const struct core_op *op, enum core_action_type verb);

/* Moves watches to the present master of their slot, and subscribes those of cluster.resubscribe anew. */
void cluster_watches_follow(struct cluster *c);
void cluster_watches_forget(struct cluster *c);

/* ---- cluster_park.c: items go to the master of their slot, or are parked until that may be asked ---- */

/* Sends the item to the master of its slot, or parks it until that master may be asked. */
void cluster_dispatch(struct cluster *c, struct item *it);

/* A node has refused to run the item with MOVED, ASK, TRYAGAIN or CLUSTERDOWN. */
void cluster_redirected(struct cluster_master *m, struct item *it, struct slice error);

/* Dispatches the parked items again; those that have waited too long are DOWN. */
void cluster_unpark(struct cluster *c);
void cluster_park_forget(struct cluster *c);

/* ---- cluster_poll.c ---- */

void cluster_poll(struct cluster *c, const struct core_waiter_poll *p);

#endif
