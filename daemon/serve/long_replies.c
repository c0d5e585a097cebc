/*
 * long_replies.c -- the sum of long replies, and the order in which they became long.
 *
 * L1  engine.long_replies_bytes: the sum of those being made, and of session.long_reply_bytes of engine.long_replies.
 */
#include "daemon/serve/long_replies.h"

#include <assert.h>

#include "daemon/serve/fields.h"
#include "daemon/serve/sessions.h"

void
long_replies_recount(struct engine *e, size_t was, size_t now)
{
    assert(e->long_replies_bytes >= was);
    e->long_replies_bytes += now - was;
}

void
long_replies_wait(struct session *s, size_t bytes)
{
    if (bytes > 0) {
        s->long_reply_bytes += bytes;
        s->engine->long_replies_bytes += bytes;
        if (!list_linked(&s->long_reply_node)) {
            list_push_back(&s->engine->long_replies, &s->long_reply_node);
        }
        (void)long_replies_past_bound(s->engine); /* for a reply that is made at once only this keeps the bound */
    }
}

void
long_replies_leave(struct session *s, size_t bytes)
{
    size_t n = bytes < s->long_reply_bytes ? bytes : s->long_reply_bytes;

    s->long_reply_bytes -= n;
    s->engine->long_replies_bytes -= n;
}

void
long_replies_over(struct session *s)
{
    assert(s->engine->long_replies_bytes >= s->long_reply_bytes);
    s->engine->long_replies_bytes -= s->long_reply_bytes;
    s->long_reply_bytes = 0;
    list_remove(&s->long_reply_node);
}

bool
long_replies_past_bound(struct engine *e)
{
    size_t most = LONG_REPLIES_MAX * REPLY_TIMES_OUTPUT * (size_t)e->conf->limit_output_bytes;

    while (e->long_replies_bytes > most && !list_empty(&e->long_replies)) {
        struct session *s = container_of(e->long_replies.next, struct session, long_reply_node);

        s->output_overflow = true; /* it ends in its turn to write */
        long_replies_over(s);
        session_wake(s);
    }
    return e->long_replies_bytes > most;
}
