/*
 * pubsub_frame.c -- one event as a frame, to one session. Below pubsub.c and patterns.c, which say to whom.
 *
 * Owns pubsub.frame. Talks to no socket: frames go to session_push().
 */
#include "daemon/serve/pubsub_private.h"

#include "proto/writer.h"

/* The frame in one RESP version; made once however many hear it. */
static struct slice
frame(struct pubsub *p, const struct topic *t, const struct told *told, int proto)
{
    struct buf *b = &p->frame[proto == 3];
    struct writer w = {.out = b, .proto = proto};

    if (p->framed != t || p->framed_serial != told->serial) {
        buf_clear(&p->frame[0], PUBSUB_KEEP_BYTES);
        buf_clear(&p->frame[1], PUBSUB_KEEP_BYTES);
        p->framed = t;
        p->framed_serial = told->serial;
    }
    if (b->n > 0) {
        return buf_slice(b);
    }
    writer_push(&w, t->pattern ? 4 : 3);
    writer_text(&w, t->pattern ? "pmessage" : "message");
    if (t->pattern) {
        writer_bulk(&w, t->name);
    }
    writer_bulk(&w, told->channel);
    writer_bulk(&w, told->payload);
    return buf_slice(b);
}

void
pubsub_tell(struct pubsub *p, struct topic *t, const struct told *told, struct session *s)
{
    struct slice bytes = frame(p, t, told, s->proto);

    /* A frame that could not be made whole is not sent: half of one would break the connection. */
    if (!p->frame[s->proto == 3].failed) {
        session_push(s, bytes, &told->relies, told->losses);
    }
}
