/*
 * daemon.c -- a daemon without its sockets: core and backend, connected as engine.c connects them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/slot.h"
#include "tests/sim/sim.h"

static void
trace_op(const struct daemon *d, const struct core_action *a)
{
    static const char *const verbs[] = {[CORE_ACQUIRE] = "acquire", [CORE_EXTEND] = "extend",
                                        [CORE_RELEASE] = "release", [CORE_BREAK_KEY] = "break",
                                        [CORE_WATCH] = "watch",     [CORE_UNWATCH] = "unwatch"};

    trace(d->world, d->name, "%s %.*s owner %" PRIu64 " holds %u rest %u lease %" PRId64 " op %" PRIu64 "%s%s%s%s",
          verbs[a->type], (int)a->op.key.n, a->op.key.p, a->op.owner, a->op.holds, a->op.other_sort,
          a->op.lease_us, a->op.op, a->op.reentry ? " reentry" : "", a->op.shared ? " shared" : "",
          a->op.ticket ? " place" : "", a->op.exact ? " exact" : "");
}

/* Notes whether operations on one name leave in the same turn, see core/attempts.c. */
static void
see_attempt(struct daemon *d, const struct core_action *a)
{
    if (a->type == CORE_RELEASE) {
        d->released = a->op.queue;
    } else if (a->type == CORE_ACQUIRE && !a->op.reentry && !a->op.reclaim) {
        if (d->asked == a->op.queue) {
            sight(d->world, SIGHT_TOGETHER);
        }
        if (d->released == a->op.queue) {
            sight(d->world, SIGHT_BEHIND);
        }
        d->asked = a->op.queue;
    }
}

/* The index of the name whose slot is that domain, in a cluster; NAMES: none. */
static int
name_in(const struct world *w, uint16_t domain)
{
    int i = 0;

    while (i < NAMES && slot_of(slice_of(w->name[i].text)) != domain) {
        i++;
    }
    return i;
}

static void
note_epoch(struct daemon *d, uint16_t domain, uint64_t epoch)
{
    if (d->world->shape != SHAPE_CLUSTER) {
        d->state.epoch = epoch;
    } else if (name_in(d->world, domain) < NAMES) {
        d->state.epochs[name_in(d->world, domain)] = epoch;
    }
}

static void
sink(void *ctx, const struct core_action *a)
{
    struct daemon *d = ctx;

    if (!daemon_does(d)) {
        return;
    }
    note(d->world, 1000 + (uint64_t)a->type, (uint64_t)d->index);
    switch (a->type) {
    case CORE_ACQUIRE:
    case CORE_EXTEND:
    case CORE_RELEASE:
    case CORE_BREAK_KEY:
    case CORE_WATCH:
    case CORE_UNWATCH:
        if (d->world->traced) {
            trace_op(d, a);
        }
        note(d->world, a->op.op, a->op.queue);
        see_attempt(d, a);
        check_op(d, &a->op, a->type);
        turns_op(d, &a->op, a->type);
        backend_perform(d->backend, &a->op, a->type);
        break;
    case CORE_WAITER_POLL:
        backend_waiter_poll(d->backend, &a->waiter_poll);
        break;
    case CORE_REPLY:
        if (d->dying) {
            break; /* sockets are written at the end of a turn */
        }
        note(d->world, a->reply.id, (uint64_t)a->reply.answer);
        replies_note(d, &a->reply);
        break;
    case CORE_PUBLISH:
        note(d->world, a->publish.token, (uint64_t)a->publish.news);
        check_news(d, &a->publish);
        break;
    case CORE_BROADCAST:
        backend_broadcast(d->backend, a->broadcast);
        break;
    case CORE_STORE:
        state_put(d, &a->store);
        break;
    case CORE_DROP:
        state_drop(d, a->drop);
        break;
    case CORE_STORE_OWNER:
        state_put_owner(d, &a->store_owner);
        break;
    case CORE_DROP_OWNER:
        state_drop_owner(d, a->drop);
        break;
    case CORE_RECLAIMED:
        trace(d->world, d->name, "reclaimed in epoch %" PRIu64, a->epoch);
        sight(d->world, SIGHT_RECLAIMED);
        note_epoch(d, a->domain, a->epoch);
        backend_reclaimed(d->backend, a->domain, a->epoch);
        break;
    }
}

/* A process that dies in this turn still does some actions; the actions after these never happen. */
bool
daemon_does(struct daemon *d)
{
    if (!d->dying) {
        return true;
    }
    if (d->dies_in == 0) {
        sight(d->world, SIGHT_UNDONE);
        return false;
    }
    d->dies_in--;
    return true;
}

/* One step of the core, by the daemon's clock; then the checks of each step. */
void
daemon_step(struct daemon *d, const struct core_event *ev)
{
    uint64_t handoffs = d->metrics.handoffs, lingers = d->metrics.lingers;
    uint64_t yields = d->metrics.linger_yields;
    uint64_t ended = d->metrics.handoff_yields;

    core_step(d->core, daemon_clock(d, d->world->now_us), ev);
    for (; handoffs < d->metrics.handoffs; handoffs++) {
        sight(d->world, SIGHT_HANDED);
    }
    for (; lingers < d->metrics.lingers; lingers++) {
        sight(d->world, SIGHT_LINGERED);
    }
    for (; ended < d->metrics.handoff_yields; ended++) {
        sight(d->world, SIGHT_RUN_ENDED);
    }
    for (; yields < d->metrics.linger_yields; yields++) {
        sight(d->world, SIGHT_YIELDED);
    }
    check_step(d);
    turns_step(d);
}

static void
on_post(void *ctx, const struct core_event *ev)
{
    struct daemon *d = ctx;

    if (ev->type == CORE_DONE) {
        struct core_event changed = *ev;

        trace(d->world, d->name, "done op %" PRIu64 " outcome %d", ev->done.op, ev->done.outcome);
        note(d->world, ev->done.op, (uint64_t)ev->done.outcome);
        if (ev->done.outcome == CORE_UNKNOWN || ev->done.outcome == CORE_GRACE) {
            sight(d->world, ev->done.outcome == CORE_GRACE ? SIGHT_GRACE : SIGHT_UNKNOWN);
        }
        if (d->world->options->control == CONTROL_LEASE_FROM_REPLY) {
            changed.done.sent_us = daemon_clock(d, d->world->now_us);
        }
        turns_done(d, &ev->done);
        daemon_step(d, &changed);
        return;
    }
    if (d->world->shape == SHAPE_CLUSTER && ev->type == CORE_REACHED && name_in(d->world, ev->domain) == NAMES) {
        return; /* a slot that has none of the names, among thousands of slots */
    }
    if (ev->type == CORE_RECLAIM) {
        trace(d->world, d->name, "epoch %" PRIu64, ev->epoch);
        sight(d->world, SIGHT_EPOCH);
    } else if (ev->type == CORE_GRACE_OVER) {
        trace(d->world, d->name, "grace over");
        sight(d->world, SIGHT_GRACE_OVER);
    } else if (ev->type == CORE_SUSPECT) {
        sight(d->world, SIGHT_SUSPECT);
    } else if (ev->type == CORE_SUBSCRIBED) {
        turns_watching(d, ev->queue);
    }
    daemon_step(d, ev);
}

static void
on_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    (void)ctx;
    (void)id;
    (void)found;
}

static uint64_t
epoch_before(void *ctx, uint16_t domain)
{
    const struct daemon *d = ctx;

    if (d->world->shape == SHAPE_CLUSTER) {
        return name_in(d->world, domain) < NAMES ? d->state.epochs[name_in(d->world, domain)] : 0;
    }
    return d->state.epoch;
}

static void
on_state(void *ctx, bool up)
{
    struct daemon *d = ctx;

    trace(d->world, d->name, "Redis is %s", up ? "up" : "away");
    if (up) {
        d->reached_us = d->reached_us != 0 ? d->reached_us : d->world->now_us;
        daemon_step(d, &(struct core_event){.type = CORE_REACHED});
    }
}

static void
on_others_changed(void *ctx, bool others)
{
    struct daemon *d = ctx;

    d->state.others = others;
}

static void
open_backend(struct daemon *d, const char uuid[37])
{
    static const struct log silent;
    char url[160];
    struct backend_conf bc = {.url = server_url(d->world, url),
                              .timeout_us = US_PER_S,
                              .connect_us = US_PER_S,
                              .backoff_min_us = 50 * US_PER_MS,
                              .backoff_max_us = US_PER_S,
                              .links = (unsigned)d->world->habit.links,
                              .batch_max = 64,
                              .longest_lease_us = d->world->habit.lease_us < LEASE_MAX_US ? LEASE_MAX_US
                                                                                  : d->world->habit.lease_us,
                              .strict = d->world->habit.strict};
    struct backend_env env = {.base = (struct event_base *)(void *)d,
                              .log = &silent,
                              .metrics = &d->metrics,
                              .post = on_post,
                              .inspected = on_inspected,
                              .others_changed = on_others_changed,
                              .state = on_state,
                              .nonce = d->state.nonce[0],
                              .secret = {d->state.self * 4 + (uint64_t)d->index, 77},
                              .ctx = d};
    char error[160];

    memcpy(env.uuid, uuid, sizeof(env.uuid));
    if (d->keeps) {
        env.epoch = epoch_before;
        env.others = d->state.others;
    }
    if (d->keeps && !d->state.other_boot) { /* that process is known to have ended */
        memcpy(env.former_nonce, &d->state.nonce[1], sizeof(env.former_nonce));
    }
    d->backend = backend_open(&bc, &env, error);
    if (d->backend == NULL) {
        abort();
    }
}

/* As engine_new(). */
void
daemon_start(struct daemon *d)
{
    struct hash_key key = {d->world->seed, (uint64_t)d->index};
    struct core_conf *cc = &d->core_conf;
    char uuid[37];

    d->life++;
    d->handed_seen = d->metrics.handoffs;
    d->keeps = d->world->habit.keeps;
    loop_enter(d);
    state_begin(d);
    snprintf(uuid, sizeof(uuid), "%08x-%04x-4000-8000-726c6f636b64", (unsigned)(uint32_t)d->state.self,
             (unsigned)d->index);
    *cc = (struct core_conf){.slice = (uint32_t)(d->world->seed % 3), /* 0: no bound */
                             .op_timeout_us = US_PER_S,
                             .max_poll_us = d->world->habit.poll_us,
                             .deadlock_us = 300 * US_PER_MS,
                             .handoff_time_us = d->world->habit.handoff_us,
                             .handoff_max = (uint32_t)d->world->habit.handoffs,
                             .waiters_max = 1000,
                             .locks_max = 100,
                             .domains = d->world->shape == SHAPE_CLUSTER ? SLOTS : 0, /* backend_domains() */
                             .one_link = d->world->habit.links == 1 && d->world->shape != SHAPE_CLUSTER,
                             .search_steps = (uint32_t)(d->world->seed % 5), /* 0: the daemon's own value */
                             .window = d->world->seed % 4 == 1 ? 2 + (uint32_t)(d->world->seed % 7) : 0,
                             .stores_checkpoints = d->keeps};
    if (d->world->options->control == CONTROL_NO_POLL) {
        cc->max_poll_us = 3600 * US_PER_S;
    }
    if (d->world->options->control == CONTROL_NO_TURNS) {
        cc->handoff_time_us = 3600 * US_PER_S;
        cc->handoff_max = 1000000;
    }
    snprintf(cc->daemon, sizeof(cc->daemon), "%s", uuid);
    d->core = core_new(cc, &key, &d->metrics, (struct core_sink){sink, d});
    if (d->core == NULL) {
        abort();
    }
    open_backend(d, uuid);
    d->alive = d->world->in_turn[d->index] = true;
    d->draining = d->left = d->dying = false;
    d->stops_at_write = d->unwritten = false;
    d->reached_us = 0;
    d->turns_left = 0;
    trace(d->world, d->name, "starts as %s", uuid);
    state_restore(d);
    nature_starts(d);
}

void
daemon_stop(struct daemon *d)
{
    trace(d->world, d->name, "stops");
    loop_enter(d);
    clients_lost(d);
    turns_stop(d);
    backend_close(&d->backend);
    core_free(&d->core);
    unschedule(d->world, &d->timer);
    d->alive = d->world->in_turn[d->index] = d->releasing = false;
    d->paused_until_us = 0;
}

static void
arm(struct daemon *d)
{
    struct world *w = d->world;
    int64_t at_us = core_next_us(d->core), true_us, armed_us;

    if (at_us == CORE_FOREVER) {
        unschedule(w, &d->timer);
        return;
    }
    true_us = daemon_true(d, at_us);
    true_us = true_us > w->now_us ? true_us : w->now_us; /* a slice is left: the loop does not sleep */
    armed_us = d->timer.node.pos != 0 ? heap_at(&w->heap, &d->timer.node) : 0;
    if (armed_us < true_us || armed_us > true_us + LATE_US) {
        schedule(w, &d->timer, true_us + below(w, LATE_US));
    }
}

void
daemon_begins(struct daemon *d)
{
    loop_enter(d);
    d->world->in_turn[d->index] = true;
    if (d->unwritten) { /* it goes on where it stopped */
        replies_write(d);
    }
    if (core_next_us(d->core) <= daemon_clock(d, d->world->now_us)) {
        daemon_step(d, &(struct core_event){.type = CORE_TIME});
    }
}

/* As engine_turn(). */
void
daemon_turn_end(struct daemon *d)
{
    daemon_begins(d);
    d->world->in_turn[d->index] = false;
    backend_flush(d->backend);
    core_end_turn(d->core);
    replies_write(d);
    backend_flush(d->backend); /* operations of sessions that were closed meanwhile, or whose replies came too late */
    core_end_turn(d->core);
    d->asked = d->released = 0;
    state_turn(d);
    arm(d);
    if (d->dying) {
        nature_crash(d);
    } else if (d->turns_left > 0 && --d->turns_left == 0) {
        d->dying = true;
        d->dies_in = (unsigned)below(d->world, 12);
    }
}
