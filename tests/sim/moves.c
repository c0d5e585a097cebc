/*
 * moves.c -- slots of a simulated cluster that are opened, moved key by key, and closed at the other node or where they
 * were; and losses of nodes meanwhile. One slot at a time.
 */
#include <limits.h>
#include <string.h>

#include "daemon/backend/anchor_words.h"
#include "tests/sim/cluster.h"

enum { REPORTED_US = 3 * 1000 * 1000, OPEN_US = 2500 * 1000 };

/* ---- key by key ---- */

struct chosen_key {
    struct world *world;
    uint16_t slot;
    unsigned seen_n;
    size_t n;
    char text[96];
};

/* Chooses one of the keys by chance, since a node lists them in no order. */
static void
see_one(void *ctx, struct slice key)
{
    struct chosen_key *one = ctx;

    if (slot_of(key) == one->slot && key.n < sizeof(one->text) && below(one->world, ++one->seen_n) == 0) {
        one->n = key.n;
        memcpy(one->text, key.p, key.n);
    }
}

/* False: the source has no key in that slot. */
static bool
migrate_one(struct server *from, struct server *to, uint16_t slot)
{
    struct chosen_key one = {.world = from->world, .slot = slot};

    sim_redis_keys(from->redis, server_clock(from), see_one, &one);
    if (one.seen_n > 0) {
        trace(from->world, from->name, "%.*s goes to %s", (int)one.n, one.text, to->name);
        from->world->totals->faults[FAULT_CLUSTER_OLDER] += sim_redis_migrate(
            from->redis, server_clock(from), to->redis, server_clock(to), (struct slice){one.text, one.n});
        replicas_receive(from);
        replicas_receive(to);
    }
    return one.seen_n > 0;
}

static void
close_slot(struct server *s, uint16_t slot)
{
    struct sim_slots *open = &node_of(s)->slots;

    open->gives = open->gives == slot ? SIM_NO_SLOT : open->gives;
    open->gets = open->gets == slot ? SIM_NO_SLOT : open->gets;
}

/* SETSLOT NODE at the target; the source learns of it a little later. */
static void
move_done(struct world *w)
{
    struct cluster_world *c = w->cluster;
    struct move *m = &c->move;

    c->map.version++;
    c->map.owner[m->slot] = (uint8_t)m->to->index;
    c->map.epoch[m->to->index] = cluster_next_epoch(c);
    node_receives(m->to);
    node_of(m->from)->receive_us = w->now_us + below(w, US_PER_S / 2);
    trace(w, m->to->name, "has slot %u", m->slot);
    w->totals->faults[FAULT_CLUSTER_MOVED_SLOT]++;
    m->on = m->end == MOVE_FORMER;
    if (m->on) {
        m->end = MOVE_FIXED;
        node_receives(m->from);
        m->old_us = w->now_us + between(w, 10, 1000) * US_PER_MS;
    }
    cluster_trouble(w, US_PER_S);
}

/* SETSLOT STABLE at both nodes. */
static void
move_undone(struct world *w)
{
    struct move *m = &w->cluster->move;

    close_slot(m->from, m->slot);
    close_slot(m->to, m->slot);
    trace(w, m->from->name, "slot %u is closed where it was, %u keys are gone", m->slot, m->moved);
    w->totals->faults[FAULT_CLUSTER_LEFT_KEYS] += m->moved > 0;
    m->on = false;
    cluster_trouble(w, US_PER_S);
}

static void
open_both(struct move *m)
{
    struct sim_slots *a = &node_of(m->from)->slots, *b = &node_of(m->to)->slots;

    b->gets = a->gives = m->slot;
    b->other = (uint8_t)m->from->index;
    a->other = (uint8_t)m->to->index;
    trace(m->from->world, m->from->name, "opens slot %u towards %s", m->slot, m->to->name);
}

static void
forget_before(struct move *m)
{
    if (m->before != NULL) {
        sim_redis_free(&m->before);
    }
}

static void
move_begins(struct world *w, uint16_t slot, enum move_end end)
{
    struct cluster_world *c = w->cluster;
    struct move *m = &c->move;
    struct server *from = cluster_owner(w, slot), *to = &w->server[c->map.master[below(w, CLUSTER_SERVERS)]];
    struct node *a = node_of(from), *b = node_of(to);

    if (m->on || from == to || !servers_reach(from, to) || a->map.version != c->map.version ||
        b->map.version != c->map.version || a->slots.down || b->slots.down) {
        return;
    }
    forget_before(m);
    *m = (struct move){.on = true, .slot = slot, .from = from, .to = to, .end = end, .opened_us = w->now_us};
    m->close_us = w->now_us + between(w, 10, chance(w, 50000) ? 1000 : 8000) * US_PER_MS;
    m->most = end == MOVE_DROPS && chance(w, 70000) ? 1 + (unsigned)below(w, 3) : UINT_MAX;
    open_both(m);
    cluster_trouble(w, m->close_us - w->now_us);
}

/* ---- the former owner ---- */

/* redis-cli --cluster fix: the slot is open at the former owner alone, and its keys go to the owner, one by one. */
static void
fix_ticks(struct world *w)
{
    struct cluster_world *c = w->cluster;
    struct move *m = &c->move;
    struct server *owner = cluster_owner(w, m->slot);
    uint64_t *older = &w->totals->faults[FAULT_CLUSTER_OLDER], was = *older;

    if (!cluster_is_master(m->from) || owner == m->from) { /* its data is that of a master now */
        close_slot(m->from, m->slot);
        m->on = false;
        return;
    }
    cluster_trouble(w, US_PER_S);
    if (!server_is_up(m->from) || (!m->is_back && w->now_us < m->old_us)) {
        return;
    }
    if (!m->is_back) {
        trace(w, m->from->name, "comes back with its old keys of slot %u, which %s has", m->slot, owner->name);
        cluster_begins_anew(m->from, m->before, between(w, 10, 500) * US_PER_MS);
        nature_lost(m->from);
        forget_before(m);
        node_of(m->from)->slots.gets = m->slot;
        node_of(m->from)->slots.other = (uint8_t)owner->index;
        m->is_back = true;
        m->informed_us = 0;
        m->next_us = w->now_us;
        return;
    }
    if (m->informed_us == 0 || w->now_us < m->informed_us + m->fix_us || !servers_reach(m->from, owner)) {
        return;
    }
    if (!migrate_one(m->from, owner, m->slot)) {
        close_slot(m->from, m->slot);
        trace(w, m->from->name, "slot %u is fixed", m->slot);
        m->on = false;
    }
    w->totals->faults[FAULT_CLUSTER_FORMER_OLDER] += *older - was;
}

/*
 * One of the two nodes was replaced: the promoted node has no open slot, and the other one learns of it later. Or the
 * slot moves on from the promoted node, which may again have keys that went to the other one.
 */
void
moves_break(struct world *w, const struct server *old)
{
    struct move *m = &w->cluster->move;

    if (m->on && m->end != MOVE_FIXED && (m->from == old || m->to == old)) {
        w->totals->faults[FAULT_CLUSTER_MOVE_BROKEN]++;
        m->end = m->from == old && chance(w, 80000) ? MOVE_AGAIN : MOVE_DROPS;
        m->informed_us = m->from == old ? m->opened_us : m->informed_us; /* the change of its origin informs daemons */
        m->close_us = m->end == MOVE_AGAIN ? w->now_us + between(w, 10, 4000) * US_PER_MS : m->close_us;
        forget_before(m);
    }
}

static void
back_with_old_keys(struct move *m)
{
    struct world *w = m->from->world;

    if (!server_is_up(m->from)) {
        return;
    }
    trace(w, m->from->name, "comes back with the keys that it had when slot %u was opened", m->slot);
    w->totals->faults[FAULT_CLUSTER_OLD_KEYS] += m->moved > 0;
    cluster_begins_anew(m->from, m->before, between(w, 10, 500) * US_PER_MS);
    nature_lost(m->from);
    forget_before(m);
}

static void
move_again(struct world *w)
{
    struct move *m = &w->cluster->move;
    struct server *from = cluster_owner(w, m->slot);

    m->to = &w->server[w->cluster->map.master[m->to->index]]; /* it may have been replaced, too */
    if (!servers_reach(from, m->to)) {
        return;
    }
    m->from = from;
    m->end = MOVE_DONE;
    m->informed_us = 0;
    m->opened_us = w->now_us;
    m->close_us = w->now_us + between(w, 10, 4000) * US_PER_MS;
    w->totals->faults[FAULT_CLUSTER_MOVE_AGAIN]++;
    open_both(m);
    cluster_trouble(w, m->close_us - w->now_us);
}

void
moves_close(struct world *w)
{
    forget_before(&w->cluster->move);
}

/* Whether the slot may close where it was, although some of its keys are at the other node. */
static bool
may_drop(const struct world *w, const struct move *m)
{
    return m->moved == 0 ||
           (m->informed_us != 0 && w->now_us > m->informed_us + REPORTED_US && w->now_us > m->opened_us + OPEN_US);
}

void
moves_tick(struct world *w)
{
    struct move *m = &w->cluster->move;
    bool ends = w->now_us >= m->close_us;

    if (!m->on || w->now_us < m->next_us) {
        return;
    }
    m->next_us = w->now_us + between(w, 10, m->end == MOVE_FIXED ? 1500 : 500) * US_PER_MS;
    if (m->end == MOVE_FIXED) {
        fix_ticks(w);
        return;
    }
    if (m->end == MOVE_AGAIN) {
        if (ends) {
            move_again(w);
        }
        return;
    }
    if (ends && m->end == MOVE_DROPS) {
        if (may_drop(w, m)) {
            move_undone(w);
        }
        return;
    }
    if (m->before != NULL && m->end != MOVE_FORMER && w->now_us >= m->old_us) {
        back_with_old_keys(m);
    }
    if (!servers_reach(m->from, m->to)) {
        return;
    }
    if (ends && m->end == MOVE_BACK) {
        if (!migrate_one(m->to, m->from, m->slot)) {
            m->moved = 0;
            move_undone(w);
        }
    } else if (m->moved < m->most && migrate_one(m->from, m->to, m->slot)) {
        m->moved++;
    } else if (ends && (m->end == MOVE_DONE || m->end == MOVE_FORMER)) {
        move_done(w);
    }
    cluster_trouble(w, US_PER_S);
}

/* ---- faults ---- */

/* A slot of a name, or of an anchor. */
static uint16_t
some_slot(struct world *w, bool anchor)
{
    if (anchor) {
        return anchor_slot((unsigned)below(w, ANCHORS));
    }
    return slot_of(slice_of(w->name[below(w, w->habit.names)].text));
}

/* The flaws (a) and (b) of a copy that moves with its slot: one of the two nodes loses its data meanwhile. */
static void
lose_open(struct world *w)
{
    struct move *m = &w->cluster->move;
    struct server *s = chance(w, 50000) ? m->from : m->to;

    if (!m->on || !server_is_up(s) || !cluster_is_master(s)) {
        w->totals->faults[FAULT_CLUSTER_OPEN_LOSES]--;
        return;
    }
    if (chance(w, 50000)) {
        sim_redis_flush(s->redis);
    } else {
        cluster_begins_anew(s, NULL, between(w, 10, 500) * US_PER_MS);
    }
    nature_lost(s);
}

/* A slot of a name that is held, if there is one. */
static uint16_t
held_slot(struct world *w, bool *held)
{
    int first = (int)below(w, w->habit.names), i = 0;
    const char *name = w->name[first].text;

    while (i < w->habit.names && !server_has(cluster_owner(w, slot_of(slice_of(name))), name)) {
        i++;
        name = w->name[(first + i) % w->habit.names].text;
    }
    *held = server_has(cluster_owner(w, slot_of(slice_of(name))), name);
    return slot_of(slice_of(name));
}

/* Flaw (d): keys that have moved appear again at the source with their old values, and move once more. */
static void
move_with_old_keys(struct world *w)
{
    struct move *m = &w->cluster->move;
    bool was = m->on, held;

    move_begins(w, held_slot(w, &held), MOVE_DONE);
    if (!was && m->on) {
        m->before = sim_redis_copy(m->from->redis);
        m->old_us = w->now_us + between(w, 1000, 6000) * US_PER_MS;
        m->close_us = m->old_us + between(w, 1000, 4000) * US_PER_MS;
        cluster_trouble(w, m->close_us - w->now_us);
    }
}

/* The move is quick, so that some old keys still live when the former owner is back. */
static void
move_from_former(struct world *w)
{
    struct move *m = &w->cluster->move;
    bool was = m->on, held;
    uint16_t slot = held_slot(w, &held);

    if (held) {
        move_begins(w, slot, MOVE_FORMER);
    }
    w->totals->faults[FAULT_CLUSTER_FORMER] -= was || !m->on;
    if (!was && m->on) {
        m->before = sim_redis_copy(m->from->redis);
        m->close_us = w->now_us + between(w, 10, 500) * US_PER_MS;
        m->fix_us = between(w, 5000, 8000) * US_PER_MS; /* the record is spoiled by then: GM4 in generation_marks.c */
    }
}

void
moves_strike(struct world *w, enum fault f)
{
    bool was = w->cluster->move.on;

    if (f == FAULT_CLUSTER_OPEN_LOSES) {
        lose_open(w);
        return;
    } else if (f == FAULT_CLUSTER_OLD_KEYS) {
        w->totals->faults[f]--; /* counted when the old keys are back */
        move_with_old_keys(w);
        return;
    } else if (f == FAULT_CLUSTER_FORMER) {
        move_from_former(w);
        return;
    }
    if (f == FAULT_CLUSTER_MOVE || f == FAULT_CLUSTER_ANCHOR_MOVE) {
        move_begins(w, some_slot(w, f == FAULT_CLUSTER_ANCHOR_MOVE), MOVE_DONE);
    } else {
        move_begins(w, some_slot(w, chance(w, 30000)),
                    f == FAULT_CLUSTER_BACK || !w->habit.strict ? MOVE_BACK : MOVE_DROPS);
    }
    w->totals->faults[f] -= was || !w->cluster->move.on;
}
