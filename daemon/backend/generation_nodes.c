/*
 * generation_nodes.c -- the time of the next question to each node, and the slots of each node by its answer.
 */
#include "daemon/backend/generations.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generation_marks.h"
#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations_private.h"
#include "daemon/base/hash.h"
#include "daemon/base/memory.h"

enum { DOWN_BEATS = 5 }; /* between two questions to a node that is down; a new connection asks at once */

/* The index of a node that is down and owns no slot, and that the topology has no connection to. */
static unsigned
unused(const struct generations *g)
{
    bool owns[GENERATION_NODES_MAX] = {false};
    unsigned i = 0;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (g->slot[slot].node != NO_INDEX) {
            owns[g->slot[slot].node] = true;
        }
    }
    while (i < GENERATION_NODES_MAX &&
           (owns[i] || g->node[i].kept || g->node[i].answered_us != 0 || g->node[i].asked || g->proposal[i].live)) {
        i++;
    }
    return i;
}

uint16_t
generations_node_index(struct generations *g, const char id[NODE_ID_ROOM])
{
    unsigned i = 0;

    while (i < g->nodes_n && strcmp(g->node[i].id, id) != 0) {
        i++;
    }
    if (i < g->nodes_n) {
        return (uint16_t)i;
    }
    if (i < GENERATION_NODES_MAX) {
        g->node = mem_array(g->node, i + 1, sizeof(*g->node));
        g->proposal = mem_array(g->proposal, i + 1, sizeof(*g->proposal));
        g->nodes_n++;
    } else if ((i = unused(g)) == GENERATION_NODES_MAX) {
        return (uint16_t)i;
    }
    g->node[i] = (struct generation_node){.due_us = 0};
    g->proposal[i] = (struct generation_proposal){.live = false};
    memcpy(g->node[i].id, id, NODE_ID_ROOM - 1);
    return (uint16_t)i;
}

bool
generations_node_answers(const struct generations *g, uint16_t node, int64_t now_us)
{
    return g->node[node].answered_us != 0 && now_us - g->node[node].answered_us < 2 * GENERATION_BEAT_US;
}

void
generations_node_keep(struct generations *g, uint16_t node, bool keep)
{
    g->node[node].kept = keep;
    if (!keep) {
        generation_marks_drop(g, node);
    }
}

void
generations_node_lost(struct generations *g, uint16_t node, int64_t now_us)
{
    struct generation_node *n = &g->node[node];

    n->answered_us = 0;
    n->digest = 0;
    n->valid_from_us = now_us;
    n->due_us = 0;
}

static uint64_t
digest_of(const struct node_answer *a)
{
    static const struct hash_key key = {1, 2};

    return (hash_bytes(&key, a->range, a->ranges_n * sizeof(*a->range)) ^ hash_bytes(&key, a->open, a->open_n * 2) * 3 ^
            hash_bytes(&key, &a->origin, sizeof(a->origin)) * 5 ^
            hash_bytes(&key, &a->config_epoch, sizeof(a->config_epoch)) * 7) | 1;
}

/* The node claims the slot. It gets the slot unless the present node has the same or a higher config epoch (R10). */
static void
assign_slot(struct generations *g, uint16_t slot, uint16_t node)
{
    struct generation_slot *s = &g->slot[slot];

    if (s->node != NO_INDEX && s->node != node && g->node[s->node].config_epoch >= g->node[node].config_epoch) {
        return;
    }
    if (s->node != node) {
        g->moved = g->moved || s->used;
        if (s->node != NO_INDEX) {
            g->node[s->node].due_us = 0; /* it may still have keys of the slot: see generation_marks.c */
        }
        s->node = node;
        s->open_us = 0; /* a time of the former node's clock; the new node has another origin */
    }
}

static bool
is_open(const struct node_answer *a, uint16_t slot)
{
    size_t i = 0;

    while (i < a->open_n && a->open[i] != slot) {
        i++;
    }
    return i < a->open_n;
}

static void
take_slots(struct generations *g, uint16_t node, const struct node_answer *a)
{
    uint64_t time_us = (uint64_t)a->time_us;
    size_t at = 0;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct generation_slot *s = &g->slot[slot];

        while (at < a->ranges_n && a->range[at].last < slot) {
            at++;
        }
        if (at < a->ranges_n && a->range[at].first <= slot) {
            assign_slot(g, (uint16_t)slot, node);
        } else if (s->node == node) {
            g->moved = g->moved || s->used;
            s->node = NO_INDEX;
        }
        if (s->node == node) {
            s->open = s->open && is_open(a, (uint16_t)slot);
            s->spoiled = s->spoiled && generation_slot_is_open(s);
            s->open_us = s->open_us > time_us ? time_us : s->open_us; /* the node's clock was set back */
            generation_marks_check(g, (uint16_t)slot);
        }
    }
    for (size_t i = 0; i < a->open_n; i++) {
        struct generation_slot *s = &g->slot[a->open[i]];

        if (s->node == node) {
            generation_slot_opens(g, a->open[i], time_us);
        }
    }
}

static void
report_slots(struct generations *g, uint16_t node)
{
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct generation_slot *s = &g->slot[slot];

        if (s->used && (s->node == node || s->node == NO_INDEX)) {
            g->on_news(g->ctx, GENERATION_ASK_AGAIN, (uint16_t)slot,
                       s->generation != NO_INDEX ? g->known[s->generation].number : 0);
        }
    }
}

/* A slot is open by this node's report. The node is asked again soon: only its answer shows that the slot closes. */
static bool
keeps_open(const struct generations *g, uint16_t node, const struct node_answer *a)
{
    for (size_t i = 0; i < a->open_n; i++) {
        const struct generation_slot *s = &g->slot[a->open[i]];

        if (s->node == node ? s->open : s->marked) {
            return true;
        }
    }
    return false;
}

bool
generations_node_answered(struct generations *g, uint16_t node, const struct node_answer *a, int64_t sent_us,
                          int64_t now_us)
{
    struct generation_node *n = &g->node[node];
    uint64_t digest;
    bool same;

    n->asked = false;
    n->due_us = now_us + (a == NULL && n->answered_us == 0 ? DOWN_BEATS : 1) * GENERATION_BEAT_US;
    if (a == NULL) {
        return true;
    }
    if (!a->master || strcmp(a->id, n->id) != 0) {
        generations_node_lost(g, node, now_us);
        generation_marks_drop(g, node);
        n->due_us = now_us + GENERATION_BEAT_US;
        return false;
    }
    if (sent_us < n->valid_from_us) {
        n->due_us = 0;
        return true;
    }
    digest = digest_of(a);
    n->answered_us = sent_us;
    n->time_us = (uint64_t)a->time_us;
    if (digest != n->digest || a->open_n > 0 || g->marking_n > 0) {
        n->digest = digest;
        same = n->origin == a->origin;
        n->origin = a->origin;
        n->config_epoch = a->config_epoch;
        take_slots(g, node, a);
        generation_marks_take(g, node, a, same);
        report_slots(g, node);
    }
    n->due_us = now_us + (keeps_open(g, node, a) ? GENERATION_BEAT_US / 4 : GENERATION_BEAT_US);
    generation_begin_soon(g); /* the node's clock may have passed open_us of a slot */
    return true;
}

bool
generations_slots_moved(struct generations *g)
{
    bool moved = g->moved;

    g->moved = false;
    return moved;
}

/* Known nodes keep their indices: shards that are not closed yet use these. */
void
generations_other_cluster(struct generations *g, int64_t now_us)
{
    for (unsigned i = 0; i < g->nodes_n; i++) {
        generations_node_lost(g, (uint16_t)i, now_us);
        generation_marks_drop(g, (uint16_t)i);
        g->node[i].config_epoch = 0;
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        g->slot[slot].node = NO_INDEX;
        g->slot[slot].open = g->slot[slot].marked = false;
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        g->owner_epoch[i] = g->anchor[i].ok_epoch = 0;
        g->anchor[i].ok_us = 0;
    }
    ask_anchors(g);
}
