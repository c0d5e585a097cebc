/*
 * drain.c -- the drain: nothing is granted any more; and which locks it waits for.
 *
 * Owns the texts about a drain in the log, INFO and systemd. They name at most NAMES_SHOWN of the first NAMES_MAX locks
 * of the core, and count the rest from the totals. A drain stops grants only: commands that only read go on as before.
 */
#include "daemon/serve/drain.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/core/view.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/step.h"

#define NAMES_SHOWN 8
#define NAMES_MAX 1024

struct naming {
    const struct engine *engine;
    struct buf *out;
    struct outbox *box;
    bool for_log; /* the log escapes names itself */
    uint64_t shown, counted; /* locks that were named; their holders, or 1 for each that is being released */
};

static void
add_name(const struct naming *n, struct slice name)
{
    bool cut = name.n > FIELD_NAME_SHOWN;

    if (!n->for_log) {
        fields_print_name(name, n->out);
        return;
    }
    buf_add(n->out, name.p, cut ? FIELD_NAME_SHOWN : name.n);
    buf_adds(n->out, cut ? "..." : "");
}

/* `orders:42 (session 7)`, `orders:42 (owner w7)`, `orders:42 (3 holders)`, `orders:42 (freeing)` */
static void
add_lock(void *ctx, const struct core_lock_view *v)
{
    struct naming *n = ctx;
    struct core_grant g = {.claim = v->claim, .token = v->token, .deadline_us = v->deadline_us};
    bool freeing = strcmp(v->state, "freeing") == 0;

    if ((v->holders == 0 && !freeing) || n->shown == NAMES_SHOWN) {
        return;
    }
    buf_adds(n->out, n->shown++ > 0 ? ", " : "");
    n->counted += v->holders > 1 ? v->holders : 1;
    add_name(n, v->name);
    if (freeing) {
        buf_adds(n->out, " (freeing)");
        return;
    }
    if (v->holders > 1) {
        buf_printf(n->out, " (%" PRIu32 " holders)", v->holders);
    } else if (v->owner.name.n > 0) {
        buf_adds(n->out, " (owner ");
        add_name(n, v->owner.name);
        buf_adds(n->out, ")");
    } else {
        buf_printf(n->out, " (session %" PRIu64 ")", v->owner.session);
    }
    if (n->box != NULL) {
        outbox_rely(n->box, &g, n->engine->metrics.lost);
    }
}

uint64_t
drain_held(const struct engine *e)
{
    return e->draining ? core_totals(e->core).held_claims : 0;
}

static void
print_locks(struct naming *n)
{
    struct core *core = n->engine->core;
    struct core_totals t = core_totals(core);
    uint64_t all = t.held_claims + t.releasing_claims;
    struct core_cursor cursor = {.position = 0};

    if (!n->engine->draining || all == 0) {
        return;
    }
    core_cursor_begin(core, &cursor);
    (void)core_cursor_locks(core, &cursor, clock_now_us(), (struct slice){NULL, 0}, NAMES_MAX, add_lock, n);
    core_cursor_end(core, &cursor);
    if (all > n->counted) {
        buf_printf(n->out, "%s%" PRIu64 " more", n->shown > 0 ? " and " : "", all - n->counted);
    }
}

void
drain_print(const struct engine *e, struct buf *out, struct outbox *box)
{
    print_locks(&(struct naming){.engine = e, .out = out, .box = box});
}

static void
log_drain(const struct engine *e, bool is_over, int64_t timeout_us)
{
    struct core_totals t = core_totals(e->core);
    struct buf names;

    buf_init(&names, 0);
    print_locks(&(struct naming){.engine = e, .out = &names, .for_log = true});
    log_event(e->log, is_over ? LOG_WARN : LOG_INFO, "engine", is_over ? "drain timeout" : "draining", "sessions",
              LOG_N(e->sessions_n), "held", LOG_N(t.held_claims), "releasing", LOG_N(t.releasing_claims), "locks",
              LOG_B(buf_slice(&names)), is_over || timeout_us > 0 ? "timeout_ms" : NULL,
              LOG_N(timeout_us / US_PER_MS), is_over ? "effect" : NULL,
              LOG_S("all sessions are closed, and lose their locks; named owners keep theirs, for the next process or "
                    "until the leases end"),
              "remedy", LOG_S("a longer drain_timeout, if holders need more time"), NULL);
    buf_fini(&names);
}

void
drain_start(struct engine *e, int64_t timeout_us)
{
    if (e->draining) {
        return;
    }
    e->draining = true;
    log_drain(e, false, timeout_us);
    engine_step(e, &(struct core_event){.type = CORE_DRAIN});
}

void
drain_log_timeout(struct engine *e)
{
    if (!drain_is_complete(e)) {
        log_drain(e, true, e->conf->drain_us);
    }
}

bool
drain_is_complete(const struct engine *e)
{
    struct core_totals t = core_totals(e->core);

    return t.held_claims == 0 && t.waiters == 0 && t.releasing_claims == 0 && backend_idle(e->backend);
}

void
drain_close_sessions(struct engine *e, const char *reason)
{
    if (e->sessions_n > 0) {
        log_event(e->log, LOG_INFO, "engine", "closing sessions", "sessions", LOG_N(e->sessions_n), "reason",
                  LOG_S(reason), NULL);
    }
    while (!list_empty(&e->sessions)) {
        session_close(container_of(e->sessions.next, struct session, node), CLOSE_SHUTDOWN);
    }
}
