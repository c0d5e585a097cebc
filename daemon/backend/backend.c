/*
 * backend.c -- the table of topologies, and the verbs handed on to the one that was opened.
 */
#include "daemon/backend/backend.h"

#include <stdio.h>
#include <string.h>

#include "daemon/backend/standalone.h"

static const struct backend_ops *const topologies[] = {&standalone_ops};

/* Whether the URL begins with one of the blank-separated schemes. */
static bool
takes(const char *schemes, const char *url)
{
    size_t n;

    for (; *schemes != '\0'; schemes += n + (schemes[n] == ' ')) {
        n = strcspn(schemes, " ");
        if (strncmp(schemes, url, n) == 0) {
            return true;
        }
    }
    return false;
}

struct backend *
backend_open(const struct backend_conf *conf, const struct backend_env *env, char error[160])
{
    for (size_t i = 0; i < sizeof(topologies) / sizeof(topologies[0]); i++) {
        if (takes(topologies[i]->schemes, conf->url)) {
            return topologies[i]->open(conf, env, error);
        }
    }
    snprintf(error, 160, "no such kind of Redis URL");
    return NULL;
}

void
backend_perform(struct backend *b, const struct core_op *op, enum core_action_type verb)
{
    b->ops->perform(b, op, verb);
}

bool
backend_look(struct backend *b, uint64_t id, struct slice key)
{
    return b->ops->look(b, id, key);
}

void
backend_say(struct backend *b, struct slice what)
{
    b->ops->say(b, what);
}

void
backend_waiter_poll(struct backend *b, const struct core_waiter_poll *p)
{
    b->ops->waiter_poll(b, p);
}

void
backend_configure(struct backend *b, int64_t grace_us)
{
    b->ops->configure(b, grace_us);
}

void
backend_reclaimed(struct backend *b, uint64_t epoch)
{
    b->ops->reclaimed(b, epoch);
}

void
backend_leave(struct backend *b)
{
    b->ops->leave(b);
}

void
backend_flush(struct backend *b)
{
    b->ops->flush(b);
}

bool
backend_idle(const struct backend *b)
{
    return b->ops->idle(b);
}

void
backend_status(const struct backend *b, struct backend_status *out)
{
    b->ops->status(b, out);
}

void
backend_close(struct backend **b)
{
    if (*b != NULL) {
        (*b)->ops->close(*b);
        *b = NULL;
    }
}
