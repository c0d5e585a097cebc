/*
 * channels.c -- events for sessions that subscribed to a channel.
 *
 * Clients decide how many sessions subscribe to a channel, so one turn of the loop sends to about TURN_SUBS of them.
 * A channel lags while some sessions have not got an event yet: it keeps that event and the later ones, and sends them
 * in the next turns, to VISIT_SUBS sessions at a time, in turn with other lagging channels. A new event of a channel
 * that does not lag goes to AT_ONCE sessions in any case, so a channel with few subscribers does not wait for one with
 * many. No session is closed because of kept events: the session that causes them waits, see pubsub_holds_up().
 */
#include "daemon/serve/pubsub_private.h"

#include <stdlib.h>

#include "daemon/serve/sessions.h"

/*
 * Owns the events that channels keep.
 * C1  A channel is on pubsub.channels iff it keeps events; topic.at is the subscription that gets the oldest one next.
 */

enum {
    TURN_SUBS = 4096, /* sends in a turn, of all channels: 0.5 us each, 1 us if the memory of the session is cold */
    VISIT_SUBS = 64,  /* sends of one channel before the next one has its turn */
    AT_ONCE = 16      /* sends of a new event, even if the turn has no sends left */
};

/* Sends the event to some sessions of the channel, from topic.at on. */
static void
send_to_some(struct pubsub *p, struct topic *t, const struct pubsub_event *event, unsigned most)
{
    for (; most > 0 && t->at != &t->subs; most--) {
        const struct sub *sub = container_of(t->at, struct sub, in_topic);

        t->at = t->at->next;
        p->subs_left -= p->subs_left > 0;
        if (sub->since < event->serial) {
            pubsub_send(p, t, event, sub->session);
        }
    }
}

/* Frees the oldest event: all sessions have it, or none is left. */
static void
drop_event(struct pubsub *p, struct topic *t)
{
    struct event_record *ev = container_of(t->kept.next, struct event_record, node);
    struct session *s = session_find(p->engine, ev->cause);

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
channels_send(struct pubsub *p, struct topic *t, const struct pubsub_event *event)
{
    struct session *s;

    if (list_empty(&t->kept)) {
        t->at = t->subs.next;
        send_to_some(p, t, event, p->subs_left > AT_ONCE ? p->subs_left : AT_ONCE);
        if (t->at == &t->subs) {
            return;
        }
        list_push_back(&p->channels, &t->node);
    }
    s = session_find(p->engine, event->cause);
    if (s != NULL) {
        s->events_kept++;
    }
    p->engine->events_kept++;
    list_push_back(&t->kept, &pubsub_keep_event(event)->node);
}

/* Sends the oldest event of a lagging channel to some more sessions. */
static void
visit(struct pubsub *p, struct topic *t)
{
    struct pubsub_event event = pubsub_event_of(container_of(t->kept.next, struct event_record, node));

    list_remove(&t->node);
    list_push_back(&p->channels, &t->node);
    send_to_some(p, t, &event, VISIT_SUBS);
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
channels_skip(struct topic *t, const struct list *sub)
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
