/*
 * pubsub.h -- subscriptions to channels `lock:<name>` and `session:<id>`, and to patterns of them (glob).
 */
#ifndef RLOCKD_SERVE_PUBSUB_H
#define RLOCKD_SERVE_PUBSUB_H

#include "daemon/serve/session_record.h"

struct pubsub;

struct pubsub *pubsub_new(struct engine *e);
void pubsub_free(struct pubsub **p);

/*
 * Returns the number of subscriptions the session has then. A second subscription to the same channel changes nothing.
 */
int pubsub_subscribe(struct pubsub *p, struct session *s, struct slice channel, bool pattern);
int pubsub_unsubscribe(struct pubsub *p, struct session *s, struct slice channel, bool pattern);
int pubsub_count(const struct session *s);
bool pubsub_has(const struct pubsub *p, const struct session *s, struct slice channel, bool pattern);

/* Calls fn for each subscription of the session (for UNSUBSCRIBE without arguments). */
void pubsub_each(const struct session *s, bool pattern, void (*fn)(void *ctx, struct slice channel), void *ctx);

/* The session ends. */
void pubsub_drop(struct pubsub *p, struct session *s);

/* To be called once in a turn: sends more events of channels and patterns that lag behind, for a bounded time. */
void pubsub_turn(struct pubsub *p);

/* Some channels or patterns lag: the loop must not sleep. */
bool pubsub_lags(const struct pubsub *p);

/*
 * True: channels still keep KEPT_MAX events whose cause is the session (pubsub_event.cause). Its next requests wait, or
 * publishers would fill memory faster than subscribers are served. Events of other sessions do not count; but while
 * channels keep KEPT_ALL events in all, the bound is KEPT_SHARE.
 */
static inline bool
pubsub_holds_up(const struct session *s)
{
    enum { KEPT_MAX = 1024, KEPT_SHARE = 16, KEPT_ALL = 16 * 1024 };

    return s->events_kept >= KEPT_MAX || (s->events_kept >= KEPT_SHARE && s->engine->events_kept >= KEPT_ALL);
}

/* An event of the core, to lock:<name> and session:<id>; returns quickly when there is no subscriber. */
void pubsub_news(struct pubsub *p, const struct core_publish *news);

#endif
