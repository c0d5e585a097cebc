/*
 * single.c -- the topology of one Redis node: every name lives there.
 */
#include "daemon/backend/single.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/address.h"
#include "daemon/backend/node.h"
#include "daemon/base/freelist.h"

struct single {
    struct backend head;
    struct backend_conf conf;
    struct backend_env env;
    struct freelist freelist;
    struct node *node;
};

static struct single *
self(struct backend *b)
{
    return (struct single *)(void *)b;
}

static struct backend *
single_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    struct link_address *a = address_parse(conf->url, conf->user, conf->password, error);
    struct single *s;

    if (a == NULL) {
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        address_free(a);
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    s->head.ops = &single_ops;
    s->conf = *conf;
    s->conf.url = s->conf.user = s->conf.password = NULL; /* they are in the address now */
    s->env = *env;
    s->env.freelist = &s->freelist;
    s->node = node_open(a, &s->conf, &s->env);
    if (s->node == NULL) {
        freelist_clear(&s->freelist);
        free(s);
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    return &s->head;
}

static void
single_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    node_perform(self(b)->node, op, verb);
}

static bool
single_look(struct backend *b, uint64_t id, struct slice key)
{
    return node_look(self(b)->node, id, key);
}

static void
single_say(struct backend *b, struct slice what)
{
    node_say(self(b)->node, what);
}

static void
single_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    node_waiter_poll(self(b)->node, p);
}

static void
single_configure(struct backend *b, int64_t grace_us)
{
    node_configure(self(b)->node, grace_us);
}

static void
single_reclaimed(struct backend *b, uint64_t epoch)
{
    node_reclaimed(self(b)->node, epoch);
}

static void
single_leave(struct backend *b)
{
    node_leave(self(b)->node);
}

static void
single_flush(struct backend *b)
{
    node_flush(self(b)->node);
}

static bool
single_idle(const struct backend *b)
{
    return node_idle(((const struct single *)(const void *)b)->node);
}

static void
single_status(const struct backend *b, struct backend_status *out)
{
    node_status(((const struct single *)(const void *)b)->node, out);
}

static void
single_close(struct backend *b)
{
    struct single *s = self(b);

    node_close(&s->node);
    freelist_clear(&s->freelist);
    explicit_bzero(&s->env.secret, sizeof(s->env.secret));
    free(s);
}

const struct backend_ops single_ops = {
    .schemes = "unix: redis:",
    .open = single_open,
    .perform = single_perform,
    .look = single_look,
    .say = single_say,
    .waiter_poll = single_waiter_poll,
    .configure = single_configure,
    .reclaimed = single_reclaimed,
    .leave = single_leave,
    .flush = single_flush,
    .idle = single_idle,
    .status = single_status,
    .close = single_close,
};
