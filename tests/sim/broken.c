/*
 * broken.c -- controls of the shapes sentinel and cluster: rules of daemon/backend that are left out on purpose.
 *
 * The linker gives rlsim these functions in place of the functions with these names (--wrap, see world.mk); without a
 * control they change nothing.
 */
#include "daemon/backend/cluster_slots.h"
#include "daemon/backend/generation_marks.h"
#include "daemon/backend/link_private.h"
#include "daemon/backend/shard_private.h"
#include "tests/sim/cluster.h"

void __real_generations_slot_state(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us,
                                   struct slot_state *out);
void __wrap_generations_slot_state(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us,
                                   struct slot_state *out);
bool __real_generations_node_answered(struct generations *g, uint16_t node, const struct node_answer *a,
                                      int64_t sent_us, int64_t now_us);
bool __wrap_generations_node_answered(struct generations *g, uint16_t node, const struct node_answer *a,
                                      int64_t sent_us, int64_t now_us);
void __real_generation_marks_take(struct generations *g, uint16_t node, const struct node_answer *a,
                                       bool same_origin);
void __wrap_generation_marks_take(struct generations *g, uint16_t node, const struct node_answer *a,
                                       bool same_origin);
void __real_generations_slot_opened(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us);
void __wrap_generations_slot_opened(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us);
bool __real_cluster_slots_fresh(const struct cluster_slots *s, int64_t now_us);
bool __wrap_cluster_slots_fresh(const struct cluster_slots *s, int64_t now_us);
void __real_shard_accepted(struct shard *sh, const struct call *c);
void __wrap_shard_accepted(struct shard *sh, const struct call *c);
void __real_link_retarget(struct redis_link *l);
void __wrap_link_retarget(struct redis_link *l);

static bool
is_control(enum control c)
{
    return loop_turn()->world->options->control == c;
}

static void
let_grant(struct slot_state *out)
{
    out->may = SLOT_GRANTS;
    out->until_us = INT64_MAX;
    record_value(out->number, true, out->value);
}

/* For the slot of a name: whether the last node that was good for it was another one than `node`. */
static bool
is_first(uint16_t slot, uint16_t node)
{
    struct daemon *d = loop_turn();
    int i = 0;

    while (i < NAMES && slot_of(slice_of(d->world->name[i].text)) != slot) {
        i++;
    }
    return i < NAMES && d->node_before[i] != node + 1 && (d->node_before[i] != 0);
}

static void
note_node(uint16_t slot, uint16_t node)
{
    struct daemon *d = loop_turn();

    for (int i = 0; i < NAMES; i++) {
        if (slot_of(slice_of(d->world->name[i].text)) == slot) {
            d->node_before[i] = node + 1;
        }
    }
}

void
__wrap_generations_slot_state(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us,
                              struct slot_state *out)
{
    __real_generations_slot_state(g, slot, node, now_us, out);
    if (is_control(CONTROL_NO_REGISTRATION) && out->may == SLOT_WAITS && out->number != 0 &&
        strcmp(out->why, "fewer than two anchors vote") == 0) {
        let_grant(out);
    }
    if (!is_control(CONTROL_REDIRECT_FIRST)) {
        return;
    }
    if (out->may == SLOT_WAITS && out->number != 0 && is_first(slot, node)) {
        let_grant(out);
    } else if (out->may != SLOT_WAITS) {
        note_node(slot, node);
    }
}

bool
__wrap_generations_node_answered(struct generations *g, uint16_t node, const struct node_answer *a, int64_t sent_us,
                                 int64_t now_us)
{
    struct node_answer closed;

    if (a != NULL && is_control(CONTROL_OPEN_UNSEEN)) {
        closed = *a;
        closed.open_n = 0;
        a = &closed;
    }
    return __real_generations_node_answered(g, node, a, sent_us, now_us);
}

void
__wrap_generation_marks_take(struct generations *g, uint16_t node, const struct node_answer *a, bool same_origin)
{
    if (!is_control(CONTROL_MARK_UNSEEN)) {
        __real_generation_marks_take(g, node, a, same_origin);
    }
}

void
__wrap_generations_slot_opened(struct generations *g, uint16_t slot, uint16_t node, int64_t now_us)
{
    if (!is_control(CONTROL_OPEN_UNSEEN)) {
        __real_generations_slot_opened(g, slot, node, now_us);
    }
}

bool
__wrap_cluster_slots_fresh(const struct cluster_slots *s, int64_t now_us)
{
    return is_control(CONTROL_NO_REGISTRATION) || __real_cluster_slots_fresh(s, now_us);
}

/*
 * Called just before the backend compares the call's generation with the present one. Its caller has the call as const.
 */
void
__wrap_shard_accepted(struct shard *sh, const struct call *c)
{
    struct call *mine;

    memcpy(&mine, &c, sizeof(mine));
    if (is_control(CONTROL_OLD_NODE)) {
        mine->epoch = continuity_epoch(sh->continuity, c->domain);
    }
    __real_shard_accepted(sh, c);
}

/* A link to the former master goes on; only the next link leads to the new master. */
void
__wrap_link_retarget(struct redis_link *l)
{
    if (!is_control(CONTROL_OLD_ANSWERS) || l->state == LINK_DOWN) {
        __real_link_retarget(l);
        return;
    }
    addresses_clear(&l->addresses);
    l->addresses.turn = 0;
}
