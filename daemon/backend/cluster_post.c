/*
 * cluster_post.c -- the events of a cluster's topology for the core, its broadcasts to the other daemons, and its
 * timer.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
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
cluster_post_inspected(const struct cluster *c, uint64_t id, const struct inspected_key *found)
{
    c->env.inspected(c->env.ctx, id, found);
}

void
cluster_post_state(const struct cluster *c, bool up)
{
    c->env.state(c->env.ctx, up);
    if (c->env.others_changed != NULL) {
        c->env.others_changed(c->env.ctx, true); /* always: no list of members shows that this daemon is alone */
    }
}

void
cluster_post_slots(const struct cluster *c, const struct cluster_master *m, enum core_event_type type, bool used)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (c->master_of[slot] == m && (!used || cluster_slots_used(&c->slots, (uint16_t)slot))) {
            cluster_post(c, &(struct core_event){.type = type, .domain = (uint16_t)slot});
        }
    }
}

/* ---- broadcasts ---- */

static bool
answers(const struct cluster *c, const struct cluster_master *m)
{
    return m != NULL && generations_node_answers(generations_of(&c->slots), m->node_index, clock_now_us()) &&
           shard_answers(m->shard);
}

/*
 * All daemons are subscribed to the channels of all anchors, and a broadcast leaves by one of them: the first one whose
 * master answers. So a master that is down delays nothing once that is noticed.
 */
static unsigned
leaves_by(const struct cluster *c)
{
    unsigned i = 0;

    while (i < ANCHORS && !answers(c, c->master_of[anchor_slot(i)])) {
        i++;
    }
    return i; /* ANCHORS = by none */
}

void
cluster_send_broadcast(const struct cluster *c, struct slice what)
{
    unsigned i = leaves_by(c);

    if (i < ANCHORS) {
        shard_broadcast(c->master_of[anchor_slot(i)]->shard, i, what);
    }
}

void
cluster_post_subscribed(struct cluster *c)
{
    if (c->subscribed && leaves_by(c) < ANCHORS) {
        c->subscribed = false;
        if (c->env.subscribed != NULL) {
            c->env.subscribed(c->env.ctx);
        }
    }
}

void
cluster_send_begun(const struct cluster *c, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "+%" PRIu64, number);
    cluster_send_broadcast(c, slice_of(text));
}

/* ---- the timer ---- */

void
cluster_wake(struct cluster *c, int64_t in_us)
{
    int64_t now_us = clock_now_us(), us = in_us / 2 + (int64_t)arc4random_uniform((uint32_t)in_us / 2 + 1);

    if (c->due_us <= now_us || c->due_us > now_us + us) {
        c->due_us = now_us + us;
        event_add(c->timer, &(struct timeval){us / US_PER_S, us % US_PER_S});
    }
}
