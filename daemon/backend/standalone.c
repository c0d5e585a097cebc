/*
 * standalone.c -- the topology of one Redis: one shard, where every name lives.
 */
#include "daemon/backend/standalone.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/address.h"
#include "daemon/backend/shard.h"
#include "daemon/base/freelist.h"

struct standalone {
    struct backend head;
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

static struct backend *
standalone_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    struct link_address *a = address_parse(conf->url, conf->user, conf->password, error);
    struct standalone *s;

    if (a == NULL) {
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        address_free(a);
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    s->head.ops = &standalone_ops;
    s->conf = *conf;
    s->conf.url = s->conf.user = s->conf.password = NULL; /* they are in the address now */
    s->env = *env;
    s->env.freelist = &s->freelist;
    s->shard = shard_open(a, &s->conf, &s->env);
    if (s->shard == NULL) {
        freelist_clear(&s->freelist);
        free(s);
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    return &s->head;
}

static void
standalone_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    shard_perform(self(b)->shard, op, verb);
}

static bool
standalone_look(struct backend *b, uint64_t id, struct slice key)
{
    return shard_look(self(b)->shard, id, key);
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
    .schemes = "unix: redis:",
    .open = standalone_open,
    .perform = standalone_perform,
    .look = standalone_look,
    .say = standalone_say,
    .waiter_poll = standalone_waiter_poll,
    .configure = standalone_configure,
    .reclaimed = standalone_reclaimed,
    .leave = standalone_leave,
    .flush = standalone_flush,
    .idle = standalone_idle,
    .status = standalone_status,
    .close = standalone_close,
};
