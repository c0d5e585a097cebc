/*
 * longs.c -- the sum of long answers, and the order in which they became long.
 *
 * L1  engine.longs_bytes is the sum of those being made, and of session.long_bytes of all sessions on engine.longs.
 */
#include "daemon/serve/longs.h"

#include <assert.h>

#include "daemon/serve/fields.h"
#include "daemon/serve/sessions.h"

void
longs_recount(struct engine *e, size_t was, size_t now)
{
    assert(e->longs_bytes >= was);
    e->longs_bytes += now - was;
}

void
longs_wait(struct session *s, size_t bytes)
{
    if (bytes > 0) {
        s->long_bytes += bytes;
        s->engine->longs_bytes += bytes;
        if (!list_linked(&s->long_node)) {
            list_push_back(&s->engine->longs, &s->long_node);
        }
        (void)longs_crowded(s->engine); /* for an answer that is made at once only this keeps the bound */
    }
}

void
longs_leave(struct session *s, size_t bytes)
{
    size_t n = bytes < s->long_bytes ? bytes : s->long_bytes;

    s->long_bytes -= n;
    s->engine->longs_bytes -= n;
}

void
longs_over(struct session *s)
{
    assert(s->engine->longs_bytes >= s->long_bytes);
    s->engine->longs_bytes -= s->long_bytes;
    s->long_bytes = 0;
    list_remove(&s->long_node);
}

bool
longs_crowded(struct engine *e)
{
    size_t most = LONGS_TIMES * ANSWER_TIMES_OUTPUT * (size_t)e->conf->limit_output_bytes;

    while (e->longs_bytes > most && !list_empty(&e->longs)) {
        struct session *s = container_of(e->longs.next, struct session, long_node);

        s->output_overflow = true; /* it ends in its turn to write */
        longs_over(s);
        session_wake(s);
    }
    return e->longs_bytes > most;
}
