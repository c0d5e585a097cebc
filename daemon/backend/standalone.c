/*
 * standalone.c -- the topology of one Redis: one shard, at the address of the URL.
 */
#include "daemon/backend/backend_ops.h"

#include <stdlib.h>

#include "daemon/backend/address.h"
#include "daemon/backend/single.h"
#include "daemon/base/memory.h"

struct standalone {
    struct single one; /* first: self() relies on it */
    struct link_address *address; /* the shard's */
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
    if (!single_secure(a, &conf->tls, env->log, error)) {
        address_free(a);
        return NULL;
    }
    s = mem_zalloc(sizeof(*s));
    s->address = a;
    single_open(&s->one, &standalone_ops, conf, env, a, (struct shard_events){0});
    return &s->one.head;
}

static bool
standalone_login(struct backend *b, const struct backend_conf *conf, char error[160])
{
    struct standalone *s = self(b);

    if (!single_secure(s->address, &conf->tls, s->one.env.log, error)) {
        return false;
    }
    address_login(s->address, conf->user, conf->password);
    return true;
}

static void
standalone_close(struct backend *b)
{
    struct standalone *s = self(b);

    single_close(&s->one);
    free(s);
}

const struct backend_ops standalone_ops = {
    .schemes = "unix: redis: rediss:",
    .open = standalone_open,
    SINGLE_VERBS,
    .login = standalone_login,
    .flush = single_flush,
    .status = single_status,
    .nodes = single_nodes,
    .close = standalone_close,
};
