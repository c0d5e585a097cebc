/*
 * pubsub_private.h -- the records of pubsub.c, patterns.c and pubsub_frame.c.
 */
#ifndef RLOCKD_SERVE_PUBSUB_PRIVATE_H
#define RLOCKD_SERVE_PUBSUB_PRIVATE_H

#include "daemon/serve/pubsub.h"

#define PUBSUB_KEEP_BYTES 4096 /* of scratch, from one event to the next */

struct topic {
    struct map_node by_name; /* pubsub.topics; a keyed hash */
    bool pattern;
    struct list subs; /* sub.in_topic */
    unsigned sets;    /* of a pattern: so many `[` */
    uint64_t tried;   /* the event it was compared with last ... */
    bool hit;         /* ... and whether it matched: others may have the same pattern */
    struct slice name; /* points behind this struct */
};

struct sub {
    struct map_node by_pair; /* pubsub.subs; a keyed hash of topic and session */
    struct list in_topic, in_session;
    struct topic *topic;     /* borrowed */
    struct session *session; /* borrowed */
    uint64_t since;          /* of a pattern: later events only */
};

/* One event, while somebody's patterns are still to be compared with it. */
struct event_record {
    struct core_grant relies;
    uint64_t losses;
    struct list node; /* pubsub.events, oldest first */
    uint64_t serial;
    unsigned at_n;    /* sessions that are at it */
    size_t channel_n, payload_n;
    char text[];      /* the channel, then the payload */
};

/* What session.subscriptions points at. */
struct subs {
    struct session *session; /* borrowed */
    struct list list; /* sub.in_session, oldest first */
    int n, patterns_n;
    struct list node;         /* pubsub.current or pubsub.lagging */
    struct event_record *event; /* lagging: the one that it is at ... */
    struct list *at;          /* ... and its next subscription to be looked at */
    bool cut;                 /* it was too far behind: the session ends with this turn */
};

struct pubsub {
    struct engine *engine;   /* borrowed */
    struct map topics[2];    /* [0] channels, [1] patterns; owned */
    struct map subs;         /* owned */
    struct buf channel, payload, frame[2]; /* scratch; frame per RESP version ... */
    const struct topic *framed;            /* ... of this topic, and of the event ... */
    uint64_t framed_serial;                /* ... with this number */
    uint64_t serial;         /* of the last event */
    struct list current, lagging; /* subs.node; lagging by turns */
    struct list events;      /* event_record.node; owned */
    size_t events_bytes;
    long left;               /* of what this turn may spend on patterns */
};

/* An event as it is told: of now, or kept. */
struct told {
    uint64_t serial;
    struct slice channel, payload;
    struct core_grant relies; /* what it says relies on it; claim 0: on nothing */
    uint64_t losses;          /* metrics.lost then */
};

/* patterns.c: one event, for all sessions that have patterns. */
void patterns_tell(struct pubsub *p, const struct told *told);

/* The session has its first pattern; has none any more. */
void patterns_follow(struct pubsub *p, struct subs *subs);
void patterns_leave(struct pubsub *p, struct subs *subs);

/* pubsub_frame.c: one event as a frame of this topic, to one session. */
void pubsub_tell(struct pubsub *p, struct topic *t, const struct told *told, struct session *s);

#endif
