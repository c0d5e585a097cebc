/*
 * pubsub_private.h -- the records of pubsub.c, patterns.c, channels.c and pubsub_frame.c.
 */
#ifndef RLOCKD_SERVE_PUBSUB_PRIVATE_H
#define RLOCKD_SERVE_PUBSUB_PRIVATE_H

#include "daemon/serve/pubsub.h"

#define PUBSUB_KEEP_BYTES 4096 /* of scratch, from one event to the next */

struct topic {
    struct map_node by_name; /* pubsub.topics; a keyed hash */
    bool pattern;
    struct list subs; /* sub.in_topic */
    struct list kept; /* of a channel: event_record.node, oldest first; owned by channels.c ... */
    struct list node; /* ... pubsub.channels while there are some ... */
    struct list *at;  /* ... and the subscription (sub.in_topic) that gets the oldest of them next */
    unsigned sets;    /* of a pattern: the number of its `[` */
    uint64_t tried;   /* the event it was compared with last ... */
    bool hit;         /* ... and whether it matched, for all sessions with this pattern */
    struct slice name; /* points behind this struct */
};

struct sub {
    struct map_node by_pair; /* pubsub.subs; a keyed hash of topic and session */
    struct list in_topic, in_session;
    struct topic *topic;     /* borrowed */
    struct session *session; /* borrowed */
    uint64_t since;          /* later events only */
};

/* One event, while patterns are still to be compared with it, or a channel has not sent it to all. */
struct event_record {
    struct core_grant grant;
    uint64_t losses;
    uint64_t cause;
    struct list node; /* pubsub.events or topic.kept, oldest first */
    uint64_t serial;
    unsigned at_n;    /* sessions whose next event it is */
    size_t channel_n, payload_n;
    char text[];      /* the channel, then the payload */
};

/* A session with subscriptions: session.subscriptions. */
struct subscriber {
    struct session *session; /* borrowed */
    struct list list; /* sub.in_session, oldest first */
    int n, patterns_n;
    struct list node;         /* pubsub.current or pubsub.lagging */
    struct event_record *event; /* lagging: the event that its patterns are compared with next ... */
    struct list *at;          /* ... from this subscription on */
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
    struct list current, lagging; /* subscriber.node; lagging by turns */
    struct list events;      /* event_record.node; owned */
    size_t events_bytes;     /* of those that wait for patterns */
    long left;               /* what this turn may still spend on patterns; see cost_of() */
    struct list channels;    /* topic.node: those that lag, by turns */
    unsigned subs_left;      /* sends that this turn has left for channels */
};

/* An event as it is sent: new, or kept. */
struct pubsub_event {
    uint64_t serial;
    struct slice channel, payload;
    struct core_grant grant; /* the grant that it relies on; claim 0: none */
    uint64_t losses;          /* metrics.lost then */
    uint64_t cause;           /* the session whose request caused it, or whose lock it is about */
};

/* patterns.c: one event, for all sessions that have patterns. */
void patterns_send(struct pubsub *p, const struct pubsub_event *event);
void patterns_turn(struct pubsub *p);

/* The session has its first pattern; has none any more. */
void patterns_attach(struct pubsub *p, struct subscriber *subscriber);
void patterns_detach(struct pubsub *p, struct subscriber *subscriber);

/* channels.c: one event, for all subscribers of this channel. */
void channels_send(struct pubsub *p, struct topic *t, const struct pubsub_event *event);
void channels_turn(struct pubsub *p);

/* A subscription (sub.in_topic) ends: its events are not sent. A channel ends. */
void channels_skip(struct topic *t, const struct list *sub);
void channels_drop(struct pubsub *p, struct topic *t);

/* pubsub_frame.c: a copy, on no list, to be freed by free(); and its contents. */
struct event_record *pubsub_keep_event(const struct pubsub_event *event);
struct pubsub_event pubsub_event_of(const struct event_record *ev);

/* pubsub_frame.c: one event as a frame of this topic, to one session. */
void pubsub_send(struct pubsub *p, struct topic *t, const struct pubsub_event *event, struct session *s);

#endif
