/*
 * step.c -- one event into the core, and the rules of a name.
 *
 * On the lowest floor of the room: files of every floor may call it, and it calls none of them. Actions of the core go
 * to the sink of engine.c, which notes them.
 * ST1 The core is stepped only here, and never from inside a step.
 */
#include <assert.h>

#include "daemon/base/clock.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/step.h"

void
engine_step(struct engine *e, const struct core_event *ev)
{
    assert(!e->stepping);
    e->stepping = true;
    e->steps_n++;
    core_step(e->core, clock_now_us(), ev);
    e->stepping = false;
}

/* Fills the spec of a name; its key is appended to `keys`, whose memory may move while it grows. */
static void
add_spec(const struct engine *e, struct slice name, struct core_spec *spec, struct buf *keys)
{
    const struct conf_locks *cl = conf_locks_for(e->conf, name);
    size_t from = keys->n;

    conf_key_of(cl, name, keys);
    *spec = (struct core_spec){
        .kind = cl->kind,
        .rule_kind = cl->kind,
        .value = cl->value,
        .limit = (uint32_t)cl->limit,
        .replicas = (uint32_t)cl->replicas,
        .linger_us = cl->linger_us,
        .foreign_wait = cl->foreign == CONF_FOREIGN_WAIT,
        .tracking = cl->tracking,
        .wakes = cl->wakes,
        .declared = true,
        .waiters_max = (uint32_t)cl->waiters,
        .lease_us = cl->lease_us,
        .owner_grace_us = cl->owner_grace_us,
        .queue_grace_us = cl->queue_grace_us,
        .key = {keys->p + from, keys->n - from},
    };
    spec->domain = backend_domain(e->backend, spec->key);
}

void
engine_spec(struct engine *e, struct slice name, struct core_spec *spec)
{
    buf_clear(&e->key, e->key.room);
    add_spec(e, name, spec, &e->key);
}

void
engine_specs(struct engine *e, struct core_request *rq, size_t n)
{
    const char *key;
    size_t i;

    buf_clear(&e->key, e->key.room);
    for (i = 0; i < n; i++) {
        add_spec(e, rq[i].name, &rq[i].spec, &e->key);
    }
    for (i = 0, key = e->key.p; i < n; i++) {
        rq[i].spec.key.p = key; /* the buffer moves no more: all keys are in it */
        key += rq[i].spec.key.n;
    }
}
