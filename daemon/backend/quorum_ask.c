/*
 * quorum_ask.c -- operations of the core as errands for the nodes; quorum_ops.c counts the answers.
 *
 * QA1 An attempt proposes a token: above all tokens that this daemon knows, and not below the median of the nodes'
 *     times.
 * QA2 A node that is not established (quorum_admit.c) gets no attempt: its answer would be no vote.
 * QA3 A reclaim only renews the owner's key at an established node: if the key is missing there, another owner may have
 *     had the name meanwhile. At a node that does not vote it sets the key: no other owner can have the name there. If
 *     the node begins to vote before the command leaves, the command is dropped.
 */
#include "daemon/backend/quorum_entries.h"
#include "daemon/backend/quorum_ops.h"
#include "daemon/backend/quorum_private.h"
#include "daemon/base/clock.h"

/*
 * The reserve of each vote: votes that differ by fewer tokens need no write-back. So names can share a token clock
 * (scripts/clocks.lua): of two attempts that reach the nodes in different orders, only the later one may need a
 * write-back.
 */
enum { RESERVE = 64 };

/* The median of the nodes' times; 0 = no offset is known. */
static int64_t
time_us(const struct quorum *qu)
{
    int64_t guess[TALLY_NODES_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        if (shard_clock_offset(qu->node[i].shard, &guess[n])) {
            n++;
        }
    }
    return n == 0 ? 0 : clock_now_us() + tally_median(guess, n);
}

/* KIND_F_ONE_KEY: see quorum_can_lock(). A quorum has no replicas to wait for. */
static bool
is_refused(const struct core_op *op)
{
    return (kind_rows[op->kind].flags & KIND_F_ONE_KEY) == 0 || op->replicas > 0;
}

static void
attempt(struct quorum *qu, struct quorum_op *o)
{
    int64_t lease_us = o->op.lease_us, now_us = clock_now_us();
    int64_t wait_us = lease_us / 10 < qu->conf.timeout_us ? lease_us / 10 : qu->conf.timeout_us;

    o->reserve = RESERVE;
    o->token = tally_propose(o->op.token_floor, time_us(qu), &o->reserve);
    o->reserve += o->reserve != 0 ? o->op.reserve : 0;
    o->tally.validity_us = lease_us / 20;
    timer_set(&qu->timers, &o->timer, now_us + wait_us);
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct quorum_node *node = &qu->node[i];

        if (is_refused(&o->op)) {
            tally_failed(&o->tally, i, CORE_DENIED, -1);
        } else if (!node->up) {
            tally_failed(&o->tally, i, CORE_DOWN, -1);
        } else if (!node->voting) { /* QA2 */
            tally_failed(&o->tally, i, CORE_GRACE,
                         node->remaining_us > 100 * US_PER_MS ? node->remaining_us : 100 * US_PER_MS);
        } else {
            quorum_part_push(qu, o, i, CORE_ACQUIRE, o->token);
        }
    }
}

/* RENEW to a shorter lease: it counts from now on, whatever the nodes answer. */
static void
shorten(struct quorum *qu, const struct quorum_op *o)
{
    int64_t until_us = core_deadline_us(clock_now_us(), o->op.lease_us);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_part *p = &o->entry->part[i];

        p->deadline_us = p->deadline_us < until_us ? p->deadline_us : until_us;
    }
}

static void
ask_all(struct quorum *qu, struct quorum_op *o)
{
    bool releases = o->type == QUORUM_RELEASE;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct quorum_node *node = &qu->node[i];
        enum core_action_type verb = o->verb;

        if (o->op.reclaim && node->voting) { /* QA3 */
            verb = CORE_EXTEND;
        }
        if (is_refused(&o->op)) {
            tally_failed(&o->tally, i, CORE_DENIED, -1);
        } else if (releases && o->entry->part[i].clean && list_empty(&o->entry->part[i].queue)) {
            tally_failed(&o->tally, i, CORE_GONE_IN_REDIS, -1);
        } else if (!node->up || (o->op.reclaim && !node->answered)) {
            tally_failed(&o->tally, i, CORE_DOWN, -1);
            if (o->op.reclaim && !node->voting) { /* O9 */
                quorum_note_hole(qu, o->entry, i);
            }
        } else {
            quorum_part_push(qu, o, i, verb, verb == CORE_EXTEND || verb == CORE_RELEASE ? 0 : o->token);
        }
    }
}

static enum quorum_op_type
type_of(const struct core_op *op, enum core_action_type verb)
{
    switch (verb) {
    case CORE_ACQUIRE:
        return op->reentry || op->reclaim ? QUORUM_CONFIRM : QUORUM_ATTEMPT;
    case CORE_RELEASE:
        return op->holds > 0 || op->other_sort > 0 ? QUORUM_CONFIRM : QUORUM_RELEASE;
    case CORE_BREAK_KEY:
        return QUORUM_BREAK;
    default:
        return QUORUM_CONFIRM;
    }
}

/* Updates the entry when an operation begins. */
static void
update_entry(const struct quorum *qu, struct quorum_entry *entry, const struct quorum_op *o)
{
    if (o->type == QUORUM_ATTEMPT || o->type == QUORUM_RELEASE) {
        entry->incarnation++;
        for (unsigned i = 0; i < qu->nodes_n; i++) {
            struct quorum_part *p = &entry->part[i];

            p->deadline_us = p->missing_since_us = p->shown_us = p->repaired_us = 0;
        }
    }
    entry->confirmed = entry->confirmed && o->type == QUORUM_CONFIRM;
    entry->wanted = o->type != QUORUM_RELEASE && o->type != QUORUM_BREAK;
}

void
quorum_perform_op(struct quorum *qu, const struct core_op *op, enum core_action_type verb)
{
    struct quorum_entry *entry = quorum_entry_of(qu, op);
    struct quorum_op *o = quorum_op_new(qu, entry, op, verb, type_of(op, verb));
    struct slice key = entry->op.key;

    entry->op = o->op;
    entry->op.key = key;
    update_entry(qu, entry, o);
    o->incarnation = entry->incarnation;
    o->refs_n++;
    if (o->op.exact) {
        shorten(qu, o);
    }
    if (o->type == QUORUM_ATTEMPT) {
        attempt(qu, o);
    } else {
        o->token = tally_propose(o->op.token_floor, time_us(qu), &o->reserve);
        ask_all(qu, o);
    }
    list_push_back(&qu->new_ops, &o->node);
    quorum_wake(qu);
}
