/*
 * patterns.c -- events for sessions that subscribed by pattern. Owns the kept events and the lists of such sessions.
 *
 * Patterns have to be tried one by one, and clients decide how many there are and how slow, so one turn of the loop
 * spends TURN_COST on them at most. A session lags while some of its patterns have not been compared with an event: the
 * event is kept, and the session goes on in the next turns, VISIT_COST at a time, in turn with others, so that one
 * pattern is not late because of another session's thousand. EVENTS_BYTES bounds the kept events; a session that lags
 * further behind is closed, like one that does not read its output.
 * P1  A session with patterns is on pubsub.current (no event is left for it) or on pubsub.lagging, unless it was cut
 *     off. A lagging session is at subscriber.event, the next event that it compares; at_n counts the sessions there.
 * P2  Some session is at the first of the kept events.
 */
#include "daemon/serve/pubsub_private.h"

#include <stdlib.h>

#include "daemon/base/glob.h"
#include "daemon/serve/sessions.h"

enum {
    TURN_COST = 500 * 1000,        /* of all patterns in a turn; the unit is about a nanosecond, see cost_of() */
    VISIT_COST = 50 * 1000,        /* of one session, before it is another one's turn */
    PUSH_COST = 200,               /* of an event that matched */
    EVENTS_BYTES = 4 * 1024 * 1024 /* of kept events */
};

/* ---- kept events ---- */

/* Restores P2. */
static void
drop_events(struct pubsub *p)
{
    while (!list_empty(&p->events)) {
        struct event_record *ev = container_of(p->events.next, struct event_record, node);

        if (ev->at_n > 0) {
            return;
        }
        list_remove(&ev->node);
        p->events_bytes -= sizeof(*ev) + ev->channel_n + ev->payload_n;
        free(ev);
    }
}

/* The session's next event to compare is `ev`; NULL: there is none. */
static void
go_to(struct subscriber *subscriber, struct event_record *ev)
{
    if (subscriber->event != NULL) {
        subscriber->event->at_n--;
    }
    if (ev != NULL) {
        ev->at_n++;
    }
    subscriber->event = ev;
}

void
patterns_attach(struct pubsub *p, struct subscriber *subscriber)
{
    if (!subscriber->cut) {
        list_push_back(&p->current, &subscriber->node);
    }
}

void
patterns_detach(struct pubsub *p, struct subscriber *subscriber)
{
    go_to(subscriber, NULL);
    list_remove(&subscriber->node);
    drop_events(p);
}

/* A subscriber that lags too far behind is cut off. */
static void
cut_off(struct pubsub *p, struct subscriber *subscriber)
{
    subscriber->cut = true;
    patterns_detach(p, subscriber);
    subscriber->session->output_overflow = true;
    session_wake(subscriber->session);
}

/* Too many bytes are kept: cuts off the sessions that are at an event of the older half. */
static void
cut_off_older_half(struct pubsub *p)
{
    const struct event_record *first = container_of(p->events.next, struct event_record, node);
    uint64_t middle = first->serial + (p->serial - first->serial) / 2;
    struct list *node, *next;

    list_for_each_safe(node, next, &p->lagging) {
        struct subscriber *subscriber = container_of(node, struct subscriber, node);

        if (subscriber->event->serial <= middle) {
            cut_off(p, subscriber);
        }
    }
}

static struct event_record *
keep_event(struct pubsub *p, const struct pubsub_event *event)
{
    struct event_record *ev = pubsub_keep_event(event);

    list_push_back(&p->events, &ev->node);
    p->events_bytes += sizeof(*ev) + ev->channel_n + ev->payload_n;
    return ev;
}

/* ---- comparing ---- */

/* An upper bound in nanoseconds, about: see glob.h. */
static long
cost_of(const struct topic *t, struct slice channel)
{
    return (long)(30 + t->name.n * (2 + channel.n / 64) + t->sets * channel.n);
}

/*
 * Compares the session's remaining patterns with the event, and sends it. False: the budget ended before the last
 * pattern, and subscriber.at is where to go on.
 */
static bool
compare(struct pubsub *p, struct subscriber *subscriber, const struct pubsub_event *event, long *budget)
{
    while (subscriber->at != &subscriber->list) {
        struct sub *sub = container_of(subscriber->at, struct sub, in_session);
        struct topic *t = sub->topic;

        if (*budget <= 0) {
            return false;
        }
        subscriber->at = subscriber->at->next;
        if (!t->pattern || sub->since >= event->serial) {
            continue;
        }
        if (t->tried != event->serial) {
            *budget -= cost_of(t, event->channel);
            t->tried = event->serial;
            t->hit = glob_match(t->name, event->channel);
        }
        if (t->hit) {
            *budget -= PUSH_COST;
            pubsub_send(p, t, event, subscriber->session);
        }
    }
    return true;
}

/* Compares at once as far as this turn's budget goes; the sessions that are left lag. */
void
patterns_send(struct pubsub *p, const struct pubsub_event *event)
{
    struct event_record *ev = list_empty(&p->lagging) ? NULL : keep_event(p, event);
    struct list *node, *next;

    list_for_each_safe(node, next, &p->current) {
        struct subscriber *subscriber = container_of(node, struct subscriber, node);

        subscriber->at = subscriber->list.next;
        if (compare(p, subscriber, event, &p->left)) {
            continue;
        }
        ev = ev != NULL ? ev : keep_event(p, event);
        list_remove(node);
        list_push_back(&p->lagging, node);
        go_to(subscriber, ev);
    }
    if (p->events_bytes > EVENTS_BYTES) {
        cut_off_older_half(p);
    }
}

/* A lagging session compares some of its events; afterwards it may be current. */
static void
visit(struct pubsub *p, struct subscriber *subscriber)
{
    long budget = VISIT_COST < p->left ? VISIT_COST : p->left, had = budget;

    while (budget > 0 && subscriber->event != NULL) {
        struct event_record *ev = subscriber->event;
        struct pubsub_event event = pubsub_event_of(ev);

        if (compare(p, subscriber, &event, &budget)) {
            go_to(subscriber,
                  ev->node.next == &p->events ? NULL : container_of(ev->node.next, struct event_record, node));
            subscriber->at = subscriber->list.next;
        }
        budget--; /* even if the session had nothing to compare */
    }
    p->left -= had - budget;
    list_remove(&subscriber->node);
    list_push_back(subscriber->event != NULL ? &p->lagging : &p->current, &subscriber->node);
}

void
patterns_turn(struct pubsub *p)
{
    p->left = TURN_COST;
    while (p->left > 0 && !list_empty(&p->lagging)) {
        visit(p, container_of(p->lagging.next, struct subscriber, node));
    }
    drop_events(p);
}
