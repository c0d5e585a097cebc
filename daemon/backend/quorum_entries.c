/*
 * quorum_entries.c -- the state of an owner's entry on each node, and the order of the errands about it.
 *
 * H1  For one owner and name a node has one operation in flight; the next one leaves when that has ended. So a release
 *     never overtakes its attempt, whatever the shard gathers.
 * H2  A part is clean when the node cannot have the owner's key: no attempt was sent there, or a release was answered
 *     that left after the guards of all UNKNOWN attempts. An entry that is not wanted stays until all parts are clean,
 *     or until all leases have ended. Guards move when the node's clock is set back.
 * H3  An UNKNOWN release may run until its guard: before that it would end a new hold, so no attempt is sent.
 * H4  A node has the key of one claim of an owner for a name at most. A key that an earlier claim may have left is
 *     released by its own value first, and no attempt is sent before the node is clean.
 */
#include "daemon/backend/quorum_entries.h"

#include <stdlib.h>

#include "daemon/backend/quorum_ops.h"
#include "daemon/backend/quorum_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

enum { QUEUE_MAX = 6, SWEEP_US = 500 * 1000 };

/* The most by which one change of a node's clock delays a command: no network keeps one for longer. */
#define BACK_MAX_US (120 * US_PER_S)

/* ---- the records ---- */

static uint64_t
entry_hash(const struct quorum *qu, const struct core_op *op)
{
    return hash_bytes(&qu->env.secret, op->key.p, op->key.n) ^ (op->owner * UINT64_C(0x9e3779b97f4a7c15));
}

static struct quorum_entry *
find(const struct quorum *qu, const struct core_op *op)
{
    struct map_node *n = map_find(&qu->entries, entry_hash(qu, op));

    while (n != NULL) {
        struct quorum_entry *entry = container_of(n, struct quorum_entry, by_hash);

        if (entry->op.owner == op->owner && slice_eq(entry->op.key, op->key)) {
            return entry;
        }
        n = map_next(n);
    }
    return NULL;
}

static struct written
written_by(const struct core_op *op)
{
    return (struct written){.claim = op->kind == KIND_SIMPLE ? op->claim : 0,
                            .kind = op->kind,
                            .value = op->value,
                            .wakes = op->wakes};
}

/* The latest end of a lease that the operation sets, with a margin for clocks of other rates. */
static int64_t
lease_end_us(const struct quorum *qu, const struct core_op *op, int64_t now_us)
{
    return now_us + 2 * qu->conf.timeout_us + op->lease_us + op->lease_us / 50 + 10 * US_PER_MS;
}

struct quorum_entry *
quorum_entry_of(struct quorum *qu, const struct core_op *op)
{
    struct quorum_entry *entry = find(qu, op);
    bool is_attempt = !op->reentry && !op->reclaim && op->holds > 0;
    char *key;

    if (entry != NULL) {
        return entry;
    }
    entry = mem_zalloc(sizeof(*entry) + qu->nodes_n * sizeof(entry->part[0]) + op->key.n);
    key = (char *)(entry->part + qu->nodes_n);
    memcpy(key, op->key.p, op->key.n);
    entry->op = *op;
    entry->op.key.p = key;
    entry->until_us = lease_end_us(qu, op, clock_now_us());
    timer_init(&entry->timer, TIMER_ENTRY);
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        list_init(&entry->part[i].queue);
        entry->part[i].clean = is_attempt || op->owner == 0; /* else an earlier process may have left a key */
        entry->part[i].written = written_by(op);
    }
    map_add(&qu->entries, &entry->by_hash, entry_hash(qu, op));
    return entry;
}

static void
quorum_entry_free(struct quorum *qu, struct quorum_entry *entry)
{
    timer_fini(&qu->timers, &entry->timer);
    map_remove(&qu->entries, &entry->by_hash);
    free(entry);
}

static bool
is_clean(const struct quorum *qu, const struct quorum_entry *entry)
{
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        if (!entry->part[i].clean || entry->part[i].shrink_until_us > clock_now_us()) {
            return false;
        }
    }
    return true;
}

/* When the next sweep of the part is due. */
static int64_t
sweep_us(const struct quorum_part *p, int64_t now_us)
{
    int64_t us = now_us + SWEEP_US;

    return p->acquire_until_us > us ? p->acquire_until_us : us;
}

void
quorum_entry_settle(struct quorum *qu, struct quorum_entry *entry)
{
    int64_t now_us = clock_now_us(), at_us = entry->until_us;

    if (entry->ops_n > 0) {
        timer_set(&qu->timers, &entry->timer, INT64_MAX);
        return;
    }
    if ((!entry->wanted && is_clean(qu, entry)) || now_us >= entry->until_us) {
        quorum_entry_free(qu, entry);
        return;
    }
    for (unsigned i = 0; i < qu->nodes_n && !entry->wanted; i++) {
        const struct quorum_part *p = &entry->part[i];

        if ((!p->clean || p->shrink_until_us > now_us) && sweep_us(p, now_us) < at_us) {
            at_us = sweep_us(p, now_us);
        }
    }
    if (entry->wanted && entry->check_us != 0 && entry->check_us < at_us) {
        at_us = entry->check_us;
    }
    if (entry->wanted && entry->fill_us != 0 && entry->fill_us < at_us) {
        at_us = entry->fill_us;
    }
    timer_set(&qu->timers, &entry->timer, at_us);
}

void
quorum_entries_free(struct quorum *qu)
{
    struct map_node *n, *nxt;

    map_for_each_safe(n, nxt, &qu->entries)
    {
        quorum_entry_free(qu, container_of(n, struct quorum_entry, by_hash));
    }
    map_fini(&qu->entries);
    map_fini(&qu->errands);
}

/* ---- deadlines ---- */

static int64_t
deadline_without_jumps_us(const struct quorum_part *p, const struct quorum_node *node)
{
    int64_t admitted_us;

    if (p->repaired_us != 0 && node->voting) { /* O7 */
        return 0;
    }
    if (p->epoch == node->epoch) {
        return p->deadline_us;
    }
    if (node->voting) { /* the node votes again, but the key was not reclaimed there */
        return 0;
    }
    /* The node is not admitted before: its quarantine began after sent_us, and lasts at least that long. */
    admitted_us = p->sent_us + shard_longest_us(node->shard);
    return p->deadline_us < admitted_us ? p->deadline_us : admitted_us;
}

int64_t
quorum_part_deadline_us(const struct quorum_part *p, const struct quorum_node *node)
{
    return p->sent_us <= node->jumped_us ? 0 : deadline_without_jumps_us(p, node);
}

bool
quorum_part_suspect(const struct quorum_part *p, const struct quorum_node *node, int64_t now_us)
{
    return quorum_part_deadline_us(p, node) <= now_us && deadline_without_jumps_us(p, node) > now_us;
}

int64_t
quorum_entry_deadline_us(const struct quorum *qu, const struct quorum_entry *entry)
{
    int64_t deadline_us[TALLY_NODES_MAX] = {0};

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        deadline_us[i] = quorum_part_deadline_us(&entry->part[i], &qu->node[i]);
    }
    return tally_deadline(deadline_us, qu->nodes_n);
}

bool
quorum_entry_suspect(const struct quorum *qu, const struct quorum_entry *entry, int64_t now_us)
{
    int64_t deadline_us[TALLY_NODES_MAX] = {0};

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        deadline_us[i] = deadline_without_jumps_us(&entry->part[i], &qu->node[i]);
    }
    return quorum_entry_deadline_us(qu, entry) <= now_us && tally_deadline(deadline_us, qu->nodes_n) > now_us;
}

/* If a majority may have lost a held lock, SUSPECT makes the core confirm its locks before it calls one held. */
void
quorum_entries_jumped(struct quorum *qu)
{
    struct map_node *n;
    int64_t now_us = clock_now_us();

    for (n = map_first(&qu->entries); n != NULL; n = map_after(&qu->entries, n)) {
        const struct quorum_entry *entry = container_of(n, struct quorum_entry, by_hash);

        if (entry->wanted && quorum_entry_deadline_us(qu, entry) <= now_us) {
            quorum_post(qu, &(struct core_event){.type = CORE_SUSPECT});
            return;
        }
    }
}

static int64_t
later_guard(int64_t until_us, int64_t by_us)
{
    return until_us != 0 ? until_us + by_us : 0;
}

/* A guard that is over moves, too: the clock may have been set back before it was. */
void
quorum_entries_set_back(struct quorum *qu, unsigned node, int64_t back_us)
{
    struct map_node *n;
    int64_t us = back_us < BACK_MAX_US ? back_us : BACK_MAX_US;

    for (n = map_first(&qu->entries); n != NULL; n = map_after(&qu->entries, n)) {
        struct quorum_entry *entry = container_of(n, struct quorum_entry, by_hash);
        struct quorum_part *p = &entry->part[node];

        p->release_until_us = later_guard(p->release_until_us, us);
        p->shrink_until_us = later_guard(p->shrink_until_us, us);
        if (!p->clean) {
            p->acquire_until_us = later_guard(p->acquire_until_us, us);
        }
        entry->until_us += us;
    }
}

/* ---- errands ---- */

static size_t
length(const struct list *queue)
{
    size_t n = 0;

    for (const struct list *pos = queue->next; pos != queue; pos = pos->next) {
        n++;
    }
    return n;
}

/* H4: the node may have a key of another claim. */
static bool
has_other(const struct quorum_part *p, const struct core_op *op)
{
    const struct written *there = &p->written;
    struct written w = written_by(op);

    return !p->clean && (there->kind != w.kind || there->claim != w.claim || there->value != w.value);
}

/* The errand releases all holds of the owner's key on the node, whichever claim has set the key. */
static bool
releases_all(const struct errand *e)
{
    return e->verb == CORE_RELEASE && e->op->type != QUORUM_CONFIRM;
}

static bool
ends_in_release(const struct list *queue)
{
    return !list_empty(queue) && releases_all(container_of(queue->prev, struct errand, node));
}

/* The errand is of no use any more, or may not be sent now. */
static bool
is_void(const struct quorum_part *p, const struct errand *e, int64_t now_us)
{
    const struct quorum_op *o = e->op;

    if (e->verb == CORE_ACQUIRE && has_other(p, &o->op)) { /* H4 */
        return true;
    }
    if (e->verb == CORE_ACQUIRE && o->op.reclaim && e->to->voting) { /* QA3 */
        return true;
    }
    if (o->type != QUORUM_ATTEMPT && o->type != QUORUM_REPAIR) {
        return false;
    }
    return o->incarnation != o->entry->incarnation || (!e->is_write_back && p->release_until_us > now_us) ||
           (!e->is_write_back && !e->to->voting && o->type == QUORUM_ATTEMPT);
}

/* The operation for the shard. */
static struct core_op
op_of(const struct quorum_part *p, const struct errand *e)
{
    struct core_op op = e->op->op;

    if (e->of_other) {
        op.claim = p->written.claim;
        op.kind = p->written.kind;
        op.value = p->written.value;
        op.wakes = p->written.wakes;
    }
    op.op = e->by_serial.number;
    op.reclaim = e->op->type == QUORUM_REPAIR ? !e->to->voting : op.reclaim;
    op.reclaim = op.reclaim && e->verb == CORE_ACQUIRE; /* other verbs have no grace period to pass */
    op.token_floor = e->token;
    op.reserve = e->op->type == QUORUM_ATTEMPT ? e->op->reserve : 0;
    return op;
}

static void
put_unsent(struct quorum *qu, struct errand *e)
{
    list_remove(&e->node);
    list_push_back(&qu->unsent, &e->node);
    quorum_wake(qu);
}

/* Sends the first errand of the queue, if none is in flight. Void errands are answered DOWN in a later turn. */
void
quorum_part_launch(struct quorum *qu, struct quorum_part *p)
{
    while (!p->in_flight && !list_empty(&p->queue)) {
        struct errand *e = container_of(p->queue.next, struct errand, node);
        int64_t now_us = clock_now_us();
        struct core_op op;

        if (is_void(p, e, now_us)) {
            put_unsent(qu, e);
            continue;
        }
        p->in_flight = true;
        e->was_clean = p->clean;
        e->of_other = releases_all(e) && has_other(p, &e->op->op);
        if (e->verb == CORE_ACQUIRE || e->verb == CORE_EXTEND) {
            int64_t until_us = lease_end_us(qu, &e->op->op, now_us);

            if (e->verb == CORE_ACQUIRE) {
                p->clean = false;
                p->written = written_by(&e->op->op);
            }
            e->op->entry->until_us = until_us > e->op->entry->until_us ? until_us : e->op->entry->until_us;
        }
        map_add(&qu->errands, &e->by_serial, ++qu->serial);
        op = op_of(p, e);
        shard_perform(e->to->shard, &op, e->verb);
        quorum_wake(qu);
    }
}

void
quorum_part_push(struct quorum *qu, struct quorum_op *o, unsigned node, enum core_action_type verb, uint64_t token)
{
    struct quorum_part *p = &o->entry->part[node];
    struct errand *e;

    if (verb == CORE_ACQUIRE && has_other(p, &o->op) && !ends_in_release(&p->queue)) { /* H4 */
        quorum_sweep_node(qu, o->entry, node);
    }
    e = freelist_take_zeroed(&qu->freelist, sizeof(*e));
    e->op = o;
    e->to = &qu->node[node];
    e->verb = verb;
    e->is_write_back = o->type == QUORUM_ATTEMPT && verb == CORE_EXTEND;
    e->token = token;
    o->refs_n++;
    list_init(&e->node);
    if (length(&p->queue) >= QUEUE_MAX) {
        put_unsent(qu, e);
        return;
    }
    list_push_back(&p->queue, &e->node);
    quorum_part_launch(qu, p);
}

/* O7. A BREAK that has freed a majority left the key on N - q nodes at most. If more have shown it, repairs count. */
static void
count_repaired(const struct quorum *qu, struct quorum_entry *entry)
{
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_part *p = &entry->part[i];
        int64_t since_us = p->repaired_us + 2 * qu->conf.timeout_us;
        unsigned shown_n = 0;

        for (unsigned k = 0; k < qu->nodes_n && p->repaired_us != 0; k++) {
            shown_n += entry->part[k].repaired_us == 0 && entry->part[k].shown_us >= since_us;
        }
        if (shown_n > qu->nodes_n - qu->majority) {
            p->repaired_us = 0;
        }
    }
}

/* The pause doubles each time. A part of it is random, so that the holes of many locks are not filled in one turn. */
void
quorum_note_hole(struct quorum *qu, struct quorum_entry *entry, unsigned node)
{
    struct quorum_part *p = &entry->part[node];
    int64_t now_us = clock_now_us(), timeout_us = qu->conf.timeout_us, at_us;

    p->missing_since_us = p->missing_since_us != 0 ? p->missing_since_us : now_us;
    at_us = now_us + timeout_us + (now_us - p->missing_since_us) + quorum_random(qu, timeout_us);
    entry->fill_us = entry->fill_us != 0 && entry->fill_us < at_us ? entry->fill_us : at_us;
}

/* O9. A reclaim or a repair has failed at a node that does not vote, which has not refused it. */
static bool
leaves_hole(const struct errand *e, enum core_outcome outcome)
{
    bool fills = e->verb == CORE_ACQUIRE && (e->op->op.reclaim || e->op->type == QUORUM_REPAIR);

    return fills && !e->to->voting && outcome != CORE_OK && outcome != CORE_TAKEN && outcome != CORE_FOREIGN;
}

/* O7. The node has set the owner's key by a repair. */
static void
note_repair(struct quorum_part *p, const struct errand *e)
{
    p->repaired_us = clock_now_us();
    e->op->entry->check_us = p->repaired_us + 2 * e->to->of->conf.timeout_us;
}

/*
 * The node has not answered a RENEW, which may run until its guard, and shorten what a later command has set: until
 * then the node has the owner's key for the shorter lease only, also after a release and another attempt.
 */
static void
note_shrink(struct quorum_part *p, const struct quorum_op *o, int64_t guard_us)
{
    bool shorter = p->shrink_until_us > clock_now_us() && p->shrink_lease_us < o->op.lease_us;

    p->shrink_lease_us = shorter ? p->shrink_lease_us : o->op.lease_us;
    p->shrink_until_us = guard_us > p->shrink_until_us ? guard_us : p->shrink_until_us;
}

/* The lease that the node keeps to, when a command of sent_us has asked for lease_us. */
static int64_t
capped_lease_us(const struct quorum_part *p, int64_t sent_us, int64_t lease_us)
{
    return sent_us < p->shrink_until_us && p->shrink_lease_us < lease_us ? p->shrink_lease_us : lease_us;
}

/* Updates the part by the answer. */
static void
learn(struct quorum_part *p, const struct errand *e, const struct core_done *done)
{
    const struct quorum_op *o = e->op;
    bool current = o->incarnation == o->entry->incarnation && o->entry->wanted;

    switch (done->outcome) {
    case CORE_OK:
        if (e->verb == CORE_RELEASE && o->type != QUORUM_CONFIRM) {
            p->clean = done->sent_us >= p->acquire_until_us;
        } else if (o->type == QUORUM_CHECK && current) {
            p->shown_us = done->sent_us;
        } else if (e->verb != CORE_BREAK_KEY && current) {
            int64_t lease_us = capped_lease_us(p, done->sent_us, o->op.lease_us);
            int64_t deadline_us = core_deadline_us(done->sent_us, lease_us);

            p->deadline_us = deadline_us > p->deadline_us || o->op.exact ? deadline_us : p->deadline_us;
            p->sent_us = p->shown_us = done->sent_us;
            if (o->type == QUORUM_REPAIR) { /* O7, voting or not: a BREAK may have reached the node before the repair */
                note_repair(p, e);
            } else if (p->epoch != e->to->epoch) {
                p->repaired_us = 0;
            }
            p->epoch = e->to->epoch;
            p->missing_since_us = 0;
        }
        break;
    case CORE_GONE_IN_REDIS:
    case CORE_TAKEN:
    case CORE_FOREIGN:
        if (e->verb == CORE_ACQUIRE) {
            p->clean = e->was_clean;
        } else if (e->verb == CORE_RELEASE) {
            p->clean = done->sent_us >= p->acquire_until_us;
        }
        if (current && e->to->voting) {
            p->deadline_us = p->shown_us = p->repaired_us = 0;
            p->missing_since_us = p->missing_since_us != 0 ? p->missing_since_us : clock_now_us();
        }
        break;
    case CORE_UNKNOWN:
        if (e->verb == CORE_ACQUIRE && done->guard_us > p->acquire_until_us) {
            p->acquire_until_us = done->guard_us;
        } else if (e->verb == CORE_RELEASE && done->guard_us > p->release_until_us) {
            p->release_until_us = done->guard_us;
        } else if (e->verb == CORE_EXTEND && o->op.exact) {
            note_shrink(p, o, done->guard_us);
        }
        break;
    case CORE_GRACE: /* the deadline stays: the node gives no vote */
        p->clean = e->verb == CORE_ACQUIRE   ? e->was_clean
                   : e->verb == CORE_RELEASE ? done->sent_us >= p->acquire_until_us
                                             : p->clean;
        break;
    default: /* the errand has not run */
        p->clean = e->verb == CORE_ACQUIRE ? e->was_clean : p->clean;
        break;
    }
    if (current && leaves_hole(e, done->outcome)) {
        quorum_note_hole(e->to->of, o->entry, e->to->index);
    }
}

void
quorum_part_done(struct quorum *qu, struct errand *e, const struct core_done *done)
{
    struct quorum_part *p = &e->op->entry->part[e->to->index];

    map_remove(&qu->errands, &e->by_serial);
    list_remove(&e->node);
    p->in_flight = false;
    learn(p, e, done);
    count_repaired(qu, e->op->entry);
}
