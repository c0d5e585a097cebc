/*
 * pubsub_frame.c -- keeps an event, and sends it as a frame to one session. pubsub.c, patterns.c and channels.c, which
 * call this file, decide to which sessions, and when.
 *
 * Owns pubsub.frame. Uses no socket: frames go to session_push().
 */
#include "daemon/serve/pubsub_private.h"

#include <string.h>

#include "daemon/base/memory.h"
#include "daemon/serve/session_out.h"
#include "proto/writer.h"

struct event_record *
pubsub_keep_event(const struct pubsub_event *event)
{
    struct event_record *ev = mem_alloc(sizeof(*ev) + event->channel.n + event->payload.n);

    *ev = (struct event_record){.serial = event->serial, .channel_n = event->channel.n, .payload_n = event->payload.n,
                                .grant = event->grant, .losses = event->losses, .cause = event->cause};
    list_init(&ev->node);
    memcpy(ev->text, event->channel.p, event->channel.n);
    memcpy(ev->text + event->channel.n, event->payload.p, event->payload.n);
    return ev;
}

struct pubsub_event
pubsub_event_of(const struct event_record *ev)
{
    return (struct pubsub_event){.serial = ev->serial,
                                 .channel = {ev->text, ev->channel_n},
                                 .payload = {ev->text + ev->channel_n, ev->payload_n},
                                 .grant = ev->grant, .losses = ev->losses, .cause = ev->cause};
}

/* The frame in one RESP version; made once for all sessions. */
static struct slice
frame(struct pubsub *p, const struct topic *t, const struct pubsub_event *event, int proto)
{
    struct buf *b = &p->frame[proto == 3];
    struct writer w = {.out = b, .proto = proto};

    if (p->framed != t || p->framed_serial != event->serial) {
        buf_clear(&p->frame[0], PUBSUB_KEEP_BYTES);
        buf_clear(&p->frame[1], PUBSUB_KEEP_BYTES);
        p->framed = t;
        p->framed_serial = event->serial;
    }
    if (b->n > 0) {
        return buf_slice(b);
    }
    writer_push(&w, t->pattern ? 4 : 3);
    writer_text(&w, t->pattern ? "pmessage" : "message");
    if (t->pattern) {
        writer_bulk(&w, t->name);
    }
    writer_bulk(&w, event->channel);
    writer_bulk(&w, event->payload);
    return buf_slice(b);
}

void
pubsub_send(struct pubsub *p, struct topic *t, const struct pubsub_event *event, struct session *s)
{
    session_push(s, frame(p, t, event, s->proto), &event->grant, event->losses);
}
