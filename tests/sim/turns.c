/*
 * turns.c -- L5: while a name goes round at one daemon, a waiter at another daemon has its turn.
 *
 *   L5  once a remote waiter is subscribed to the channel, a daemon grants the name to its own waiters for no longer
 *       than handoff.time; and when the name is free, the remote waiter has it at once: after a turn of others
 *       (YIELD_US of the core) and some round trips.
 */
#include <string.h>

#include "daemon/backend/call.h"
#include "tests/sim/sim.h"
#include "tests/unit/core_each.h"

/*
 * So the remote waiter waits at most for handoff.time, the present hold, and some round trips. Asserted while there are
 * no faults, and if the network answers within the turn that is left to others: a slower daemon asks when the turn is
 * over. Not asserted of kinds whose order is in Redis (tickets), or with several holders.
 *
 * A row of grants ends also when an attempt of its daemon finds the name taken: another owner held it then, and perhaps
 * released it without a broadcast; when another daemon gets the name, and perhaps gives it back because the waiter has
 * gone (seed 3432); or when its holder finds the key gone in Redis (seed 12237), or Redis is in a grace period,
 * whichever daemon knows of it: the first attempt after that is chance (seed 3868).
 */

enum { QUIET_US = 3000 * 1000, SLACK_US = 25 * 1000, FREE_US = 20 * 1000, DELAY_MAX_US = 500 };

static bool
has_turns(const struct world *w, const struct name *n)
{
    return w->shape != SHAPE_QUORUM && !n->broken &&
           (kind_rows[n->kind].flags & (KIND_F_SHARED | KIND_F_PERMITS | KIND_F_TICKETS)) == 0;
}

/* The effects of the last fault are over from then on. */
static int64_t
quiet_since(const struct world *w)
{
    int64_t us = w->harm_us > w->trouble_us ? w->harm_us : w->trouble_us;

    return us + QUIET_US;
}

/* ---- subscriptions ---- */

void
turns_op(struct daemon *d, const struct core_op *op, enum core_action_type verb)
{
    struct ear *e = &d->world->name[name_find(d->world, op->key)].ear[d->index];

    switch (verb) {
    case CORE_WATCH:
    case CORE_UNWATCH:
        e->lock = verb == CORE_WATCH ? op->queue : 0;
        e->received = false;
        e->since_us = 0;
        break;
    case CORE_ACQUIRE:
        e->acquire = op->op;
        break;
    case CORE_EXTEND:
        e->renew = op->exact || op->ticket ? e->renew : op->op;
        break;
    case CORE_RELEASE:
        e->release = op->holds == 0 && op->other_sort == 0 ? op->op : e->release;
        break;
    default:
        break;
    }
}

void
turns_watching(struct daemon *d, uint64_t lock)
{
    for (int i = 0; i < NAMES; i++) {
        struct ear *e = &d->world->name[i].ear[d->index];

        if (e->lock == lock) {
            e->received = true;
            e->since_us = 0; /* counted from now on */
        }
    }
}

static void
note_waiter(void *ctx, const struct core_waiter_view *v)
{
    *(bool *)ctx = *(bool *)ctx || !v->kept;
}

static bool
is_waited_for(const struct daemon *d, const struct name *n)
{
    bool waits = false;

    core_each_waiter(d->core, daemon_clock(d, d->world->now_us), slice_of(n->text), note_waiter, &waits);
    return waits;
}

void
turns_step(struct daemon *d)
{
    for (int i = 0; i < d->world->habit.names; i++) {
        struct ear *e = &d->world->name[i].ear[d->index];

        if (!e->received || !is_waited_for(d, &d->world->name[i])) {
            e->since_us = 0;
        } else if (e->since_us == 0) {
            e->since_us = d->world->now_us;
        }
    }
}

void
turns_stop(struct daemon *d)
{
    for (int i = 0; i < NAMES; i++) {
        memset(&d->world->name[i].ear[d->index], 0, sizeof(d->world->name[i].ear[d->index]));
    }
}

/* ---- turns ---- */

/* The name was handed over, without Redis, and another waiter wants it next. */
static bool
in_run(const struct daemon *d, const struct name *n)
{
    const struct row *r = &n->row;
    struct core_lock_view v;

    return d->alive && r->daemon == d && r->life == d->life && r->handed > 0 &&
           core_lock_info(d->core, daemon_clock(d, d->world->now_us), slice_of(n->text), &v) &&
           strcmp(v.state, "held") == 0 && v.waiters > 0;
}

void
turns_taken(struct name *n)
{
    n->row.daemon = NULL;
    n->row.freed_us = n->row.was_freed_us = 0;
}

/* Before the core takes the outcome. */
static void
acquire_done(const struct daemon *d, struct name *n, enum core_outcome outcome)
{
    bool had_it = n->row.daemon == d;

    if (outcome == CORE_GRACE || (outcome == CORE_TAKEN && had_it) || (outcome == CORE_OK && !had_it)) {
        n->row.daemon = NULL;
    }
    if (outcome != CORE_TAKEN) {
        n->row.was_freed_us = outcome == CORE_OK ? n->row.freed_us : 0;
        n->row.freed_us = 0;
    }
}

/* For the last grant; releases of other owners are of earlier holds. */
static void
release_done(const struct daemon *d, struct name *n, enum core_outcome outcome)
{
    if (n->row.daemon == d && n->row.life == d->life) {
        n->row.freed_us = outcome == CORE_OK ? d->world->now_us : 0;
    }
}

void
turns_done(struct daemon *d, const struct core_done *done)
{
    for (int i = 0; i < NAMES && done->op != 0; i++) {
        struct name *n = &d->world->name[i];
        struct ear *e = &n->ear[d->index];

        if (e->acquire == done->op) {
            acquire_done(d, n, done->outcome);
        } else if (e->release == done->op) {
            release_done(d, n, done->outcome);
        } else if (e->renew == done->op && done->outcome != CORE_OK && in_run(d, n)) {
            sight(d->world, SIGHT_RENEWAL_LOST_IN_RUN);
        }
    }
}

static bool
has_channel(const struct conn *c, struct slice channel)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->channels)
    {
        const struct channel *ch = container_of(pos, struct channel, node);

        if (slice_eq((struct slice){ch->name, ch->n}, channel)) {
            return true;
        }
    }
    return false;
}

/*
 * Redis knows that the daemon waits: the connection has the name's channel, which is more than an answer to SUBSCRIBE,
 * and commands of the daemon arrive. A daemon with a link that was cut silently does not know yet that its commands on
 * it are lost (seed 768).
 */
static bool
is_subscribed(const struct world *w, const struct daemon *d, const struct name *n)
{
    struct list *pos, *nxt;
    struct buf channel;
    bool found = false, whole = true;

    buf_init(&channel, 0);
    call_channel(n->kind, slice_of(n->text), &channel);

    list_for_each_safe(pos, nxt, &server_of(w, n)->conns)
    {
        const struct conn *c = container_of(pos, struct conn, node);

        if (c->daemon == d && c->bev != NULL) {
            whole = whole && c->open && !c->mute;
            found = found || has_channel(c, buf_slice(&channel));
        }
    }
    buf_fini(&channel);
    return found && whole;
}

/* L5, for waiters at other daemons while d grants the name once more. */
static void
check_elsewhere(struct daemon *d, const struct name *n)
{
    struct world *w = d->world;

    for (int i = 0; i < w->habit.daemons; i++) {
        int64_t from_us = n->ear[i].since_us > n->row.since_us ? n->ear[i].since_us : n->row.since_us;

        if (i == d->index || !w->daemon[i].alive || n->ear[i].since_us == 0 || !is_subscribed(w, &w->daemon[i], n)) {
            continue;
        }
        sight(w, SIGHT_TURNS);
        from_us = from_us > quiet_since(w) ? from_us : quiet_since(w);
        if (w->now_us - from_us > w->habit.handoff_us + SLACK_US && w->habit.delay_us <= DELAY_MAX_US) {
            violated(w, "L5", "%s goes round at daemon %d for %.3f s, and is waited for at daemon %d", n->text,
                     d->index, (double)(w->now_us - from_us) / 1e6, i);
        }
    }
}

/* L5, for d, which Redis has granted the name. */
static void
check_in_time(const struct daemon *d, struct name *n)
{
    struct world *w = d->world;
    int64_t freed_us = n->row.was_freed_us, since_us = n->ear[d->index].since_us;

    n->row.was_freed_us = 0;
    if (freed_us == 0 || since_us == 0 || freed_us < since_us || freed_us < quiet_since(w) || !is_subscribed(w, d, n)) {
        return;
    }
    sight(w, SIGHT_TURN_CAME);
    if (w->now_us - freed_us > FREE_US && w->habit.delay_us <= DELAY_MAX_US) {
        violated(w, "L5", "%s was free for %.3f s while daemon %d waited for it", n->text,
                 (double)(w->now_us - freed_us) / 1e6, d->index);
    }
}

bool
turns_granted(struct daemon *d, struct name *n)
{
    struct world *w = d->world;
    bool handed = d->metrics.handoffs != d->handed_seen;

    d->handed_seen = d->metrics.handoffs;
    n->row.handed = handed ? n->row.handed + 1 : 0;
    if (has_turns(w, n) && !handed) {
        check_in_time(d, n);
    }
    if (n->row.daemon != d || n->row.life != d->life) {
        n->row.daemon = d;
        n->row.life = d->life;
        n->row.since_us = w->now_us;
    } else if (has_turns(w, n)) {
        check_elsewhere(d, n);
    }
    return handed;
}

/* ---- runs that are harmed ---- */

void
turns_harm(struct world *w, const struct daemon *d, enum sight s)
{
    for (int i = 0; i < w->habit.daemons * w->habit.names; i++) {
        const struct daemon *other = &w->daemon[i / w->habit.names];

        if ((d == NULL || d == other) && in_run(other, &w->name[i % w->habit.names])) {
            sight(w, s);
            return;
        }
    }
}
