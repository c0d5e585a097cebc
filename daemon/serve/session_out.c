/*
 * session_out.c -- the output of a session: which bytes may leave, and where new output goes. All output comes here.
 *
 * Touches no socket: session_write.c does, which is above.
 * SO1 No byte that relies on a grant leaves unless session_out_validate() has allowed it right before its send().
 */
#include "daemon/serve/session_out.h"

#include "daemon/base/clock.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"

enum { CHECKS_MAX = 3 }; /* checks of the output before one send */

/* ---- what may leave ---- */

static void
step(void *ctx, const struct core_event *ev)
{
    engine_step(ctx, ev);
}

static void
rewrite(void *ctx, const struct outbox_mark *m, struct buf *out)
{
    reply_form_rewrite(ctx, m, out);
}

/* Rewrites replies that rely on a grant that is over, and "ms left" that is too high. False: one is partly sent. */
static bool
validate(struct session *s, int64_t now_us)
{
    struct engine *e = s->engine;
    uint64_t late = e->metrics.late_replies;
    struct outbox_env env = {.core = e->core, .losses = &e->metrics.lost, .late = &e->metrics.late_replies,
                             .step = step, .rewrite = rewrite, .ctx = e};

    if (outbox_validate(&s->out, now_us, &env) == OUTBOX_TORN) {
        return false;
    }
    if (e->metrics.late_replies != late) {
        log_event(e->log, LOG_WARN, "session", "late", "session", LOG_N(s->id), "peer", LOG_S(s->peer), "replies",
                  LOG_N(e->metrics.late_replies - late), "reason",
                  LOG_S("a lease was over before a reply or an event could leave: it was replaced, or dropped"),
                  "remedy",
                  LOG_S("longer leases, or less load on this host"), NULL);
    }
    return true;
}

bool
session_out_validate(struct session *s, size_t *bytes)
{
    int64_t now_us = s->out.marks != NULL ? clock_now_us() : 0;

    if (outbox_is_valid(&s->out, now_us, s->engine->metrics.lost)) {
        *bytes = s->out.bytes.n;
        return true;
    }
    /* Rewriting and logging take time, or the machine stands still: the next deadline may have come meanwhile. */
    for (int checks = 0; checks < CHECKS_MAX; checks++) {
        if (!validate(s, now_us)) {
            return false;
        }
        now_us = clock_now_us();
        if (now_us < s->out.valid_until_us) {
            *bytes = s->out.valid_n;
            return true;
        }
    }
    *bytes = 0; /* the next turn checks again */
    return true;
}

/* ---- how much may wait ---- */

struct outbox *
session_out_last(struct session *s)
{
    struct outbox *last = chunks_last(&s->later);

    if (last != NULL) {
        return last;
    }
    pool_lend(&s->engine->pool, &s->out.bytes);
    return &s->out;
}

void
session_push(struct session *s, struct slice bytes, const struct core_grant *g, uint64_t losses)
{
    struct outbox *out;
    struct outbox_group group;

    if (s->closed || s->quitting) {
        return;
    }
    if (session_out_over_limit(s)) {
        s->output_overflow = true;
    } else {
        out = session_out_end(s);
        group = outbox_begin(out);
        buf_add_slice(&out->bytes, bytes);
        if (g != NULL) {
            outbox_rely(out, g, losses);
            outbox_end(out, group, OUTBOX_DROP, FORM_NATIVE, s->proto);
        }
    }
    session_wake_to_write(s);
}
