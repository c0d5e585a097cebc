/*
 * channels.c -- events for sessions that subscribed to a channel.
 *
 * Clients decide how many sessions hear a channel, so one turn of the loop writes to TURN_SUBS of them at most. A
 * channel with sessions that have not been sent an event yet lags: it keeps that event and the later ones, and goes on
 * in the next turns, VISIT_SUBS at a time, in turn with other lagging channels. AT_ONCE sessions are served in any
 * case, so a channel with few does not wait for one with many. Kept events close no session: their source waits, see
 * pubsub_holds_up().
 *
 * Owns the events that channels keep.
 * C1  A channel is on pubsub.channels iff it keeps events; topic.at is the session that is sent the first of them next.
 */
#include "daemon/serve/pubsub_private.h"

#include <stdlib.h>

enum {
    TURN_SUBS = 4096, /* of all channels in a turn; half a microsecond each, one with cold memory */
    VISIT_SUBS = 64,  /* of one channel, before it is another one's turn */
    AT_ONCE = 16
};

/* Sends the event to some sessions of the channel, from topic.at on. */
static void
tell_some(struct pubsub *p, struct topic *t, const struct told *told, unsigned most)
{
    for (; most > 0 && t->at != &t->subs; most--) {
        const struct sub *sub = container_of(t->at, struct sub, in_topic);

        t->at = t->at->next;
        p->subs_left -= p->subs_left > 0;
        if (sub->since < told->serial) {
            pubsub_tell(p, t, told, sub->session);
        }
    }
}

/* Frees the oldest event: all sessions have it, or none is left. */
static void
drop_event(struct pubsub *p, struct topic *t)
{
    struct event_record *ev = container_of(t->kept.next, struct event_record, node);
    struct session *s = session_find(p->engine, ev->bringer);

    if (s != NULL) {
        s->events_kept--;
    }
    p->engine->events_kept--;
    list_remove(&ev->node);
    free(ev);
    if (list_empty(&t->kept)) {
        list_remove(&t->node);
    }
}

void
channels_tell(struct pubsub *p, struct topic *t, const struct told *told)
{
    struct session *s;

    if (list_empty(&t->kept)) {
        t->at = t->subs.next;
        tell_some(p, t, told, p->subs_left > AT_ONCE ? p->subs_left : AT_ONCE);
        if (t->at == &t->subs) {
            return;
        }
        list_push_back(&p->channels, &t->node);
    }
    s = session_find(p->engine, told->bringer);
    if (s != NULL) {
        s->events_kept++;
    }
    p->engine->events_kept++;
    list_push_back(&t->kept, &event_keep(told)->node);
}

/* One channel that lags goes on for a while. */
static void
visit(struct pubsub *p, struct topic *t)
{
    struct told told = event_told(container_of(t->kept.next, struct event_record, node));

    list_remove(&t->node);
    list_push_back(&p->channels, &t->node);
    tell_some(p, t, &told, VISIT_SUBS);
    if (t->at == &t->subs) {
        t->at = t->subs.next;
        drop_event(p, t);
    }
}

void
channels_turn(struct pubsub *p)
{
    p->subs_left = TURN_SUBS;
    while (p->subs_left > 0 && !list_empty(&p->channels)) {
        visit(p, container_of(p->channels.next, struct topic, node));
    }
}

void
channels_pass(struct topic *t, const struct list *sub)
{
    if (t->at == sub) {
        t->at = sub->next;
    }
}

void
channels_drop(struct pubsub *p, struct topic *t)
{
    while (!list_empty(&t->kept)) {
        drop_event(p, t);
    }
}
