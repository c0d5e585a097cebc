/*
 * standalone.c -- the topology of one Redis: one shard, where every name lives, and whose events are the core's.
 */
#include "daemon/backend/standalone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/shard.h"
#include "daemon/base/freelist.h"
#include "daemon/base/memory.h"

struct standalone {
    struct backend head;
    struct link_address *address; /* the shard's */
    struct backend_conf conf;
    struct backend_env env;
    struct freelist freelist;
    struct shard *shard;
};

static struct standalone *
self(struct backend *b)
{
    return (struct standalone *)(void *)b;
}

/* ---- what the shard tells ---- */

static void
on_done(void *ctx, const struct core_done *done)
{
    const struct standalone *s = ctx;
    struct core_event ev; /* of its union there is what the type says */

    ev.type = CORE_DONE;
    ev.done = *done;
    s->env.post(s->env.ctx, &ev);
}

static void
on_life(void *ctx, enum shard_life what, uint64_t n)
{
    const struct standalone *s = ctx;
    struct core_event ev = {.epoch = n};

    switch (what) {
    case SHARD_UP:
    case SHARD_DOWN:
        s->env.state(s->env.ctx, what == SHARD_UP);
        return;
    case SHARD_SHARED:
    case SHARD_ALONE:
        if (s->env.met != NULL) {
            s->env.met(s->env.ctx, what == SHARD_SHARED);
        }
        return;
    case SHARD_NEW:
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
on_heard(void *ctx, const struct core_event *ev)
{
    const struct standalone *s = ctx;

    s->env.post(s->env.ctx, ev);
}

static void
on_seen(void *ctx, uint64_t id, const struct backend_seen *seen)
{
    const struct standalone *s = ctx;

    s->env.seen(s->env.ctx, id, seen);
}

/* ---- what is asked of it ---- */

static bool
secure(struct link_address *a, const struct tls_files *files, const struct log *log, char error[160])
{
    char warning[TLS_ERROR_ROOM];
    bool ok = address_secure(a, files, error, warning);

    if (warning[0] != '\0') {
        log_event(log, LOG_WARN, "redis", "certificates", "reason", LOG_S(warning), NULL);
    }
    return ok;
}

static struct backend *
standalone_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    struct link_address *a = address_parse(conf->url, conf->user, conf->password, error);
    struct standalone *s;

    if (a == NULL) {
        return NULL;
    }
    if (!secure(a, &conf->tls, env->log, error)) {
        address_free(a);
        return NULL;
    }
    s = mem_zalloc(sizeof(*s));
    s->head.ops = &standalone_ops;
    s->conf = *conf;
    s->conf.url = s->conf.user = s->conf.password = NULL; /* they are in the address now */
    s->conf.tls = (struct tls_files){0};
    s->address = a;
    s->env = *env;
    s->env.freelist = &s->freelist;
    s->shard = shard_open(a, &s->conf, &s->env, (struct shard_events){on_done, on_life, on_heard, on_seen, s});
    return &s->head;
}

static void
standalone_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    shard_perform(self(b)->shard, op, verb);
}

static void
standalone_look(struct backend *b, uint64_t id, struct slice key)
{
    shard_look(self(b)->shard, id, key);
}

static void
standalone_say(struct backend *b, struct slice what)
{
    shard_say(self(b)->shard, what);
}

static void
standalone_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    shard_waiter_poll(self(b)->shard, p);
}

static void
standalone_configure(struct backend *b, int64_t grace_us)
{
    shard_configure(self(b)->shard, grace_us);
}

static bool
standalone_login(struct backend *b, const struct backend_conf *conf, char error[160])
{
    struct standalone *s = self(b);
    struct link_address *now = address_parse(conf->url, NULL, NULL, error);
    bool same = now != NULL && address_is_same(now, s->address);

    address_free(now);
    if (!same) { /* these are for another URL, of another topology perhaps, and that takes a restart */
        return true;
    }
    if (!secure(s->address, &conf->tls, s->env.log, error)) {
        return false;
    }
    address_login(s->address, conf->user, conf->password);
    return true;
}

static void
standalone_reclaimed(struct backend *b, uint64_t epoch)
{
    shard_reclaimed(self(b)->shard, epoch);
}

static void
standalone_leave(struct backend *b)
{
    shard_leave(self(b)->shard);
}

static void
standalone_flush(struct backend *b)
{
    shard_flush(self(b)->shard);
}

static bool
standalone_idle(const struct backend *b)
{
    return shard_idle(((const struct standalone *)(const void *)b)->shard);
}

static void
standalone_status(const struct backend *b, struct backend_status *out)
{
    shard_status(((const struct standalone *)(const void *)b)->shard, out);
}

static void
standalone_close(struct backend *b)
{
    struct standalone *s = self(b);

    shard_close(&s->shard);
    freelist_clear(&s->freelist);
    explicit_bzero(&s->env.secret, sizeof(s->env.secret));
    free(s);
}

const struct backend_ops standalone_ops = {
    .schemes = "unix: redis: rediss:",
    .open = standalone_open,
    .perform = standalone_perform,
    .look = standalone_look,
    .say = standalone_say,
    .waiter_poll = standalone_waiter_poll,
    .configure = standalone_configure,
    .login = standalone_login,
    .reclaimed = standalone_reclaimed,
    .leave = standalone_leave,
    .flush = standalone_flush,
    .idle = standalone_idle,
    .status = standalone_status,
    .close = standalone_close,
};
