/*
 * cluster_post.c -- the events that the topology of a cluster posts to the core.
 */
#include <event2/event.h>
#include <stdlib.h>

#include "daemon/backend/cluster_private.h"
#include "daemon/base/clock.h"

void
cluster_post(const struct cluster *c, const struct core_event *ev)
{
    c->env.post(c->env.ctx, ev);
}

void
cluster_post_done(const struct cluster *c, const struct core_done *done)
{
    struct core_event ev; /* only the member of its union that the type names is set */

    ev.type = CORE_DONE;
    ev.done = *done;
    c->env.post(c->env.ctx, &ev);
}

void
cluster_seen(const struct cluster *c, uint64_t id, const struct backend_seen *seen)
{
    c->env.seen(c->env.ctx, id, seen);
}

void
cluster_state(const struct cluster *c, bool up)
{
    c->env.state(c->env.ctx, up);
    if (c->env.others_changed != NULL) {
        c->env.others_changed(c->env.ctx, true);
    }
}

void
cluster_post_slots(const struct cluster *c, const struct cluster_master *m, enum core_event_type type, bool used)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (c->master_of[slot] == m && (!used || cluster_rules_used(&c->rules, (uint16_t)slot))) {
            cluster_post(c, &(struct core_event){.type = type, .domain = (uint16_t)slot});
        }
    }
}

void
cluster_wake(struct cluster *c, int64_t in_us)
{
    int64_t now_us = clock_now_us(), us = in_us / 2 + (int64_t)arc4random_uniform((uint32_t)in_us / 2 + 1);

    if (c->due_us <= now_us || c->due_us > now_us + us) {
        c->due_us = now_us + us;
        event_add(c->timer, &(struct timeval){us / US_PER_S, us % US_PER_S});
    }
}
