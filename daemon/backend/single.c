/*
 * single.c -- the common part of topologies with one shard.
 */
#include "daemon/backend/single.h"

#include <string.h>

#include "daemon/backend/address.h"

static struct single *
self(struct backend *b)
{
    return (struct single *)(void *)b;
}

static const struct single *
const_self(const struct backend *b)
{
    return (const struct single *)(const void *)b;
}

/* ---- events of the shard ---- */

static void
on_done(void *ctx, const struct core_done *done)
{
    const struct single *s = ctx;
    struct core_event ev; /* only the member of its union that the type names is set */

    ev.type = CORE_DONE;
    ev.done = *done;
    s->env.post(s->env.ctx, &ev);
}

void
single_life(void *ctx, enum shard_life what, uint64_t n)
{
    const struct single *s = ctx;
    struct core_event ev = {.epoch = n};

    switch (what) {
    case SHARD_UP:
    case SHARD_DOWN:
        s->env.state(s->env.ctx, what == SHARD_UP);
        return;
    case SHARD_SHARED:
    case SHARD_ALONE:
        if (s->env.others_changed != NULL) {
            s->env.others_changed(s->env.ctx, what == SHARD_SHARED);
        }
        return;
    case SHARD_SUBSCRIBED:
        if (s->env.subscribed != NULL) {
            s->env.subscribed(s->env.ctx);
        }
        return;
    case SHARD_SLOT_LEFT:
        return;
    case SHARD_NEW_EPOCH:
        ev.type = CORE_RECLAIM;
        break;
    case SHARD_GRANTING:
        ev.type = CORE_GRACE_OVER;
        break;
    case SHARD_CLOCK_JUMP:
        ev.type = CORE_SUSPECT;
        break;
    case SHARD_CLOCK_BACK:
        ev.type = CORE_CLOCK_BACK;
        ev.back_us = (int64_t)n;
        break;
    }
    s->env.post(s->env.ctx, &ev);
}

static void
on_core_event(void *ctx, const struct core_event *ev)
{
    const struct single *s = ctx;

    s->env.post(s->env.ctx, ev);
}

static void
on_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    const struct single *s = ctx;

    s->env.inspected(s->env.ctx, id, found);
}

/* ---- begin and end ---- */

bool
single_secure(struct link_address *a, const struct tls_files *files, const struct log *log, char error[160])
{
    char warning[TLS_ERROR_ROOM];
    bool ok = address_secure(a, files, error, warning);

    if (warning[0] != '\0') {
        log_event(log, LOG_WARN, "redis", "certificates", "reason", LOG_S(warning), NULL);
    }
    return ok;
}

void
single_open(struct single *s, const struct backend_ops *ops, const struct backend_conf *conf,
            const struct backend_env *env, struct link_address *address, struct shard_events more)
{
    s->head.ops = ops;
    s->conf = *conf;
    s->conf.url = s->conf.user = s->conf.password = NULL; /* the address has them */
    s->conf.tls = (struct tls_files){0};
    s->env = *env;
    s->env.freelist = &s->freelist;
    s->shard = shard_open(address, &s->conf, &s->env,
                          (struct shard_events){.done = on_done,
                                                .life = more.life != NULL ? more.life : single_life,
                                                .event = on_core_event,
                                                .inspected = on_inspected,
                                                .ctx = s,
                                                .greet = more.greet});
}

void
single_close(struct single *s)
{
    shard_close(&s->shard);
    freelist_clear(&s->freelist);
    explicit_bzero(&s->env.secret, sizeof(s->env.secret));
}

/* ---- the verbs ---- */

void
single_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    shard_perform(self(b)->shard, op, verb);
}

void
single_inspect(struct backend *b, uint64_t id, struct slice key)
{
    shard_inspect(self(b)->shard, id, key);
}

void
single_broadcast(struct backend *b, struct slice what)
{
    shard_broadcast(self(b)->shard, 0, what);
}

void
single_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    shard_waiter_poll(self(b)->shard, p);
}

void
single_configure(struct backend *b, int64_t longest_lease_us)
{
    shard_configure(self(b)->shard, longest_lease_us);
}

void
single_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch)
{
    (void)domain;
    shard_reclaimed(self(b)->shard, epoch);
}

void
single_leave(struct backend *b)
{
    shard_leave(self(b)->shard);
}

void
single_flush(struct backend *b)
{
    shard_flush(self(b)->shard);
}

bool
single_idle(const struct backend *b)
{
    return shard_idle(const_self(b)->shard);
}

void
single_status(const struct backend *b, struct backend_status *out)
{
    shard_status(const_self(b)->shard, out);
    out->locks_away = shard_locks_away(const_self(b)->shard);
}

size_t
single_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX])
{
    shard_node(const_self(b)->shard, out);
    return 1;
}
