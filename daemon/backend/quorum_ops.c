/*
 * quorum_ops.c -- one operation of the core on all nodes: asks them, counts their answers (tally.h), posts one outcome.
 */
#include "daemon/backend/quorum_ops.h"

#include <stdlib.h>

#include "daemon/backend/quorum_entries.h"
#include "daemon/backend/quorum_private.h"
#include "daemon/backend/quorum_watch.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

/*
 * O1  The core gets the outcome of an operation when the answers of a majority decide it. Later answers only update the
 *     parts of the entry.
 * O2  Before the core gets a refusal of an attempt, a release is queued behind the attempt for every node that may run
 *     it (H1 of quorum_entries.c); a node that is down gets the release when it is up again. So to the core the attempt
 *     has not run, and is never UNKNOWN.
 * O3  Each renewal, re-entry, reclaim, and RELEASE of some holds, is OK only if a majority confirms it.
 * O4  A node may lack the owner's key while a majority has it: it was down, or has lost its data. A repair, behind a
 *     renewal, sets the key there, 2 timeouts at least after that was noticed: so a BREAK in progress is not undone.
 * O5  An answer that shows that a clock was set confirms nothing, nor do earlier answers: keys may have expired early.
 *     Each node is asked once more, at once; an operation on a held lock that then finds no majority is UNKNOWN.
 * O6  A vote whose node has lost its data since, or whose clock was set once more, does not count: without a majority
 *     of the others the attempt is refused.
 * O7  A node that was repaired counts as a node without the key, until so many others have shown the key that the rest
 *     are no majority, each by a command that left 2 timeouts at least after the repair. A BREAK that counts the node
 *     as freed reached it before the repair, so by then that BREAK has reached each node that it will ever reach; the
 *     nodes that still show the key prove that it did not free a majority. The nodes are asked 2 timeouts after the
 *     repair (quorum_check()): until they have answered, the loss of one other node of three may cost the lock.
 * O8  A BREAK counts no node as freed that does not vote: a reclaim may set the key there, and counts at once; and a
 *     renewal that finds no key there does not end the hold.
 * O9  A reclaim or a repair that fails at a node that does not vote is sent again, a timeout later or more, whether a
 *     renewal is due or not: by O8 it undoes no BREAK. Like a repair it counts later (O7). It renews nothing: the key
 *     ends there when the lock would end. The pauses double, so a lock sends fewer resends than renewals in the end.
 */

enum { PAUSE_US = 5 * 1000 }; /* the longest pause after a split vote */

/* ---- the records ---- */

struct quorum_op *
quorum_op_new(struct quorum *qu, struct quorum_entry *entry, const struct core_op *op, enum core_action_type verb,
              enum quorum_op_type type)
{
    struct quorum_op *o = freelist_take_zeroed(&qu->freelist, sizeof(*o));

    o->entry = entry;
    o->op = *op;
    o->op.key = entry->op.key;
    o->verb = verb;
    o->type = type;
    o->incarnation = entry->incarnation;
    o->asked_us = clock_now_us();
    list_init(&o->node);
    timer_init(&o->timer, TIMER_OP);
    tally_begin(&o->tally, qu->nodes_n, op->reserve, 0);
    entry->ops_n++;
    qu->ops_n++;
    return o;
}

static void
op_free(struct quorum *qu, struct quorum_op *o)
{
    timer_fini(&qu->timers, &o->timer);
    o->entry->ops_n--;
    qu->ops_n--;
    freelist_give(&qu->freelist, o, sizeof(*o));
}

/* An errand, or the verb, has ended: each of them keeps the operation until then. */
static void
op_drop(struct quorum *qu, struct quorum_op *o)
{
    if (--o->refs_n == 0) {
        op_free(qu, o);
    }
}

static void
report(struct quorum *qu, struct quorum_op *o, struct core_done *done)
{
    struct core_event ev;

    o->reported = true;
    timer_set(&qu->timers, &o->timer, INT64_MAX);
    if (o->type == QUORUM_SWEEP) {
        return;
    }
    done->claim = o->op.claim;
    done->op = o->op.op;
    ev.type = CORE_DONE;
    ev.done = *done;
    quorum_post(qu, &ev);
}

/* The inverse of core_deadline_us(): the core computes the deadline from `sent_us` of the outcome. */
static int64_t
sent_us_for(int64_t deadline_us, int64_t lease_us)
{
    return deadline_us - core_deadline_us(0, lease_us);
}

/* ---- an attempt ---- */

/* which: a bit for each node. */
static void
sweep(struct quorum *qu, struct quorum_entry *entry, uint32_t which)
{
    struct quorum_op *o = quorum_op_new(qu, entry, &entry->op, CORE_RELEASE, QUORUM_SWEEP);

    o->op.holds = o->op.other_sort = 0;
    o->op.shared = false;
    o->refs_n++; /* keeps the operation while nodes are asked */
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        /* A node that is down is swept when it is up again. */
        if ((which & (1u << i)) && !entry->part[i].clean && qu->node[i].up) {
            quorum_part_push(qu, o, i, CORE_RELEASE, 0);
        }
    }
    o->reported = true;
    op_drop(qu, o);
    quorum_entry_settle(qu, entry);
}

void
quorum_sweep(struct quorum *qu, struct quorum_entry *entry)
{
    sweep(qu, entry, UINT32_MAX);
}

void
quorum_sweep_node(struct quorum *qu, struct quorum_entry *entry, unsigned node)
{
    sweep(qu, entry, 1u << node);
}

/* No majority has the owner's key, or can get it: releases the key on all nodes. */
static void
give_up(struct quorum *qu, struct quorum_op *o)
{
    o->entry->incarnation++;
    o->entry->wanted = o->entry->confirmed = false;
    quorum_sweep(qu, o->entry);
}

/* O5. Asks nodes by a renewal whether they still have the owner's key. True: answers are awaited. */
static bool
ask_again(struct quorum *qu, struct quorum_op *o)
{
    int64_t now_us = clock_now_us();
    bool open = false;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct tally_node *b = &o->tally.node[i];

        open = open || b->raising;
        if (b->state != TALLY_NODE_OK || b->raising || (o->asked_again & (1u << i)) ||
            !quorum_part_suspect(&o->entry->part[i], &qu->node[i], now_us)) {
            continue;
        }
        o->asked_again |= 1u << i;
        open = true;
        if (o->type == QUORUM_ATTEMPT) { /* a write-back of the same token: the vote counts while the key is there */
            tally_raising(&o->tally, i);
            quorum_part_push(qu, o, i, CORE_EXTEND, b->token_clock);
        } else {
            tally_again(&o->tally, i);
            quorum_part_push(qu, o, i, CORE_EXTEND, 0);
        }
    }
    return open;
}

static void
report_held(struct quorum *qu, struct quorum_op *o, const struct tally_result *r)
{
    struct core_done done = {.outcome = CORE_OK,
                             .sent_us = sent_us_for(r->deadline_us, o->op.lease_us),
                             .deadline_max_us = r->deadline_us,
                             .pttl_us = -1,
                             .token = r->token,
                             .expiry_ms = o->expiry_ms,
                             .reserve_denied = r->ceiling < r->token + o->op.reserve};

    o->entry->confirmed = true;
    report(qu, o, &done);
    quorum_watch_granted(qu, o);
}

static void
report_refused(struct quorum *qu, struct quorum_op *o, const struct tally_result *r)
{
    struct core_done done = {.outcome = r->outcome, .sent_us = clock_now_us(), .pttl_us = r->pttl_us};

    if (done.outcome == CORE_TAKEN && done.pttl_us == 0) { /* a split vote, or it expires now: not all retry at once */
        done.pttl_us = quorum_random(qu, PAUSE_US);
    }
    if (o->incarnation == o->entry->incarnation) {
        give_up(qu, o);
    }
    report(qu, o, &done);
    quorum_watch_refused(qu, o);
}

static void
write_back(struct quorum *qu, struct quorum_op *o, const struct tally_result *r)
{
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        if (r->raise & (1u << i)) {
            tally_raising(&o->tally, i);
            qu->node[i].second_rounds++;
            quorum_part_push(qu, o, i, CORE_EXTEND, r->ceiling);
        }
    }
}

static void
count_votes(struct quorum *qu, struct quorum_op *o)
{
    int64_t now_us = clock_now_us();
    struct tally_result r = tally_result(&o->tally, now_us);

    if (r.step == TALLY_HELD && quorum_entry_suspect(qu, o->entry, now_us) && ask_again(qu, o)) {
        return;
    }
    tally_limit(&o->tally, &r, quorum_entry_deadline_us(qu, o->entry), now_us); /* O6 */
    switch (r.step) {
    case TALLY_UNDECIDED:
        break;
    case TALLY_RAISE:
        write_back(qu, o, &r);
        break;
    case TALLY_HELD:
        report_held(qu, o, &r);
        break;
    case TALLY_REFUSED:
        report_refused(qu, o, &r);
        break;
    }
}

/* ---- renewals, releases, breaks ---- */

/* The deadline of the lock for the core; 0 = it has not changed. */
static int64_t
new_deadline_us(const struct quorum *qu, const struct quorum_op *o, enum core_outcome outcome)
{
    int64_t us = quorum_entry_deadline_us(qu, o->entry);

    if (o->type != QUORUM_CONFIRM || (outcome != CORE_OK && !o->entry->confirmed) ||
        quorum_entry_suspect(qu, o->entry, clock_now_us())) {
        return 0;
    }
    return us > 0 ? us : 1;
}

/* O4. No request waits for a repair; the node's answer updates its part like any other. */
static void
repair(struct quorum *qu, const struct quorum_op *renewal)
{
    struct quorum_entry *entry = renewal->entry;
    int64_t now_us = clock_now_us();
    struct quorum_op *o = quorum_op_new(qu, entry, &renewal->op, CORE_ACQUIRE, QUORUM_REPAIR);

    o->refs_n++;
    o->reported = true;
    o->op.reentry = o->op.exact = false;
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_part *p = &entry->part[i];

        if (p->repaired_us != 0 && qu->node[i].voting) {
            continue;
        } else if (p->epoch == qu->node[i].epoch && quorum_part_deadline_us(p, &qu->node[i]) > now_us) {
            p->missing_since_us = 0;
        } else if (p->missing_since_us == 0) {
            p->missing_since_us = now_us;
        } else if (now_us - p->missing_since_us >= 2 * qu->conf.timeout_us && qu->node[i].answered && qu->node[i].up) {
            quorum_part_push(qu, o, i, CORE_ACQUIRE, renewal->token);
        }
    }
    op_drop(qu, o);
}

static void
count_confirmations(struct quorum *qu, struct quorum_op *o)
{
    bool releases = o->type == QUORUM_RELEASE || o->type == QUORUM_SWEEP;
    struct core_done done = {.guard_us = o->guard_us, .pttl_us = -1, .expiry_ms = o->expiry_ms};

    if (o->type == QUORUM_CONFIRM && o->incarnation == o->entry->incarnation) {
        (void)ask_again(qu, o);
    }
    if (!tally_confirmed(&o->tally, releases, &done.outcome)) {
        return;
    }
    if (o->type == QUORUM_CONFIRM && done.outcome == CORE_OK && quorum_entry_suspect(qu, o->entry, clock_now_us())) {
        done.outcome = CORE_UNKNOWN;
    }
    done.remote_subscribers = o->remote_subscribers;
    done.token = o->type == QUORUM_BREAK ? o->least_token : 0;
    done.remains = o->type == QUORUM_BREAK;
    done.deadline_max_us = new_deadline_us(qu, o, done.outcome);
    done.sent_us = done.deadline_max_us != 0 ? sent_us_for(done.deadline_max_us, o->op.lease_us) : clock_now_us();
    if (o->type == QUORUM_CONFIRM && o->incarnation == o->entry->incarnation) {
        o->entry->confirmed = o->entry->confirmed || done.outcome == CORE_OK;
        if (done.outcome == CORE_GONE_IN_REDIS || done.outcome == CORE_FOREIGN) {
            give_up(qu, o);
        } else if (done.outcome == CORE_OK && o->verb == CORE_EXTEND && !o->op.exact && o->op.holds > 0) {
            repair(qu, o);
        }
    }
    report(qu, o, &done);
}

static void
count(struct quorum *qu, struct quorum_op *o)
{
    if (o->reported || !o->asked) {
        return;
    }
    if (o->type == QUORUM_ATTEMPT) {
        count_votes(qu, o);
    } else {
        count_confirmations(qu, o);
    }
}

/* ---- answers ---- */

static void
take_vote(struct quorum_op *o, const struct errand *e, const struct core_done *done)
{
    struct tally_node *b = &o->tally.node[e->to->index];

    if (e->is_write_back) {
        if (!b->raising) {
            return;
        }
        if (done->outcome == CORE_OK) {
            tally_raised(&o->tally, e->to->index, e->token);
        } else {
            tally_not_raised(&o->tally, e->to->index, done->outcome);
        }
    } else if (b->state == TALLY_NODE_AWAITED) {
        if (done->outcome == CORE_OK) {
            tally_ok(&o->tally, e->to->index, done->token, done->token + (done->reserve_denied ? 0 : o->reserve),
                     core_deadline_us(done->sent_us, o->op.lease_us));
        } else {
            tally_failed(&o->tally, e->to->index, done->outcome, done->pttl_us);
        }
    }
}

static void
take_confirmation(struct quorum_op *o, const struct errand *e, const struct core_done *done)
{
    enum core_outcome outcome = done->outcome;

    if (o->tally.node[e->to->index].state != TALLY_NODE_AWAITED) {
        return;
    }
    if (outcome == CORE_OK && o->type == QUORUM_CONFIRM && o->entry->part[e->to->index].repaired_us != 0) { /* O7 */
        outcome = CORE_GONE_IN_REDIS;
    }
    if (!e->to->voting && outcome == CORE_GONE_IN_REDIS && o->type == QUORUM_CONFIRM) {
        outcome = CORE_GRACE; /* the node may have lost the key with its data, and does not vote for another owner */
    }
    if (!e->to->voting && o->type == QUORUM_BREAK && outcome == CORE_OK) { /* O8 */
        outcome = CORE_GRACE;
    }
    if (e->of_other && outcome == CORE_OK) { /* the released key was not this claim's */
        outcome = CORE_GONE_IN_REDIS;
    }
    if (outcome == CORE_OK) {
        tally_ok(&o->tally, e->to->index, done->token, done->token, 0);
    } else {
        tally_failed(&o->tally, e->to->index, outcome, done->pttl_us);
    }
}

static void
errand_done(struct quorum *qu, struct errand *e, const struct core_done *done)
{
    struct quorum_op *o = e->op;

    if (done->outcome == CORE_OK) {
        o->expiry_ms = done->expiry_ms > o->expiry_ms ? done->expiry_ms : o->expiry_ms; /* BREAK: a node had the key */
        o->remote_subscribers =
            done->remote_subscribers > o->remote_subscribers ? done->remote_subscribers : o->remote_subscribers;
        o->least_token = o->least_token == 0 || done->token < o->least_token ? done->token : o->least_token;
    }
    o->guard_us = done->guard_us > o->guard_us ? done->guard_us : o->guard_us;
    if (o->type == QUORUM_ATTEMPT) {
        e->to->votes += done->outcome == CORE_OK && !e->is_write_back;
        take_vote(o, e, done);
    } else {
        take_confirmation(o, e, done);
    }
    freelist_give(&qu->freelist, e, sizeof(*e));
    count(qu, o);
    op_drop(qu, o);
}

void
quorum_answered(struct quorum *qu, struct errand *e, const struct core_done *done)
{
    struct quorum_entry *entry = e->op->entry;
    struct quorum_part *p = &entry->part[e->to->index];

    entry->ops_n++; /* keeps the entry, whatever ends with this errand */
    quorum_part_done(qu, e, done);
    errand_done(qu, e, done);
    quorum_part_launch(qu, p);
    entry->ops_n--;
    quorum_entry_settle(qu, entry);
}

void
quorum_answer_unsent(struct quorum *qu)
{
    while (!list_empty(&qu->unsent)) {
        struct errand *e = container_of(qu->unsent.next, struct errand, node);
        struct quorum_entry *entry = e->op->entry;

        entry->ops_n++;
        list_remove(&e->node);
        errand_done(qu, e, &(struct core_done){.outcome = CORE_DOWN, .pttl_us = -1, .sent_us = clock_now_us()});
        entry->ops_n--;
        quorum_entry_settle(qu, entry);
    }
}

/* The time of an attempt is over: a node that has not answered has not voted. */
void
quorum_op_due(struct quorum *qu, struct quorum_op *o)
{
    struct quorum_entry *entry = o->entry;

    o->refs_n++;
    entry->ops_n++;
    timer_set(&qu->timers, &o->timer, INT64_MAX);
    for (unsigned i = 0; i < qu->nodes_n && !o->reported; i++) {
        if (o->tally.node[i].raising) {
            tally_not_raised(&o->tally, i, CORE_UNKNOWN);
        } else if (o->tally.node[i].state == TALLY_NODE_AWAITED) {
            tally_failed(&o->tally, i, CORE_UNKNOWN, -1);
        }
    }
    count(qu, o);
    op_drop(qu, o);
    entry->ops_n--;
    quorum_entry_settle(qu, entry);
}

/* No event is posted from inside a verb: an outcome that was known at once, as with all nodes down, is posted now. */
void
quorum_op_asked(struct quorum *qu, struct quorum_op *o)
{
    struct quorum_entry *entry = o->entry;

    entry->ops_n++;
    list_remove(&o->node);
    o->asked = true;
    count(qu, o);
    op_drop(qu, o);
    entry->ops_n--;
    quorum_entry_settle(qu, entry);
}

/* O7. The lease is the shortest one: it moves no expiry. No deadline counts from the answers. */
static void
quorum_check(struct quorum *qu, struct quorum_entry *entry)
{
    struct quorum_op *o = quorum_op_new(qu, entry, &entry->op, CORE_EXTEND, QUORUM_CHECK);
    bool counts = true;

    entry->check_us = 0;
    o->refs_n++;
    o->reported = true;
    o->op.lease_us = US_PER_MS;
    o->op.reentry = o->op.reclaim = o->op.exact = false;
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        counts = counts && entry->part[i].repaired_us == 0;
    }
    for (unsigned i = 0; i < qu->nodes_n && !counts; i++) {
        if (qu->node[i].up && entry->part[i].repaired_us == 0) {
            quorum_part_push(qu, o, i, CORE_EXTEND, 0);
        }
    }
    op_drop(qu, o);
    quorum_entry_settle(qu, entry);
}

/* O9. A node that votes by the time at which the command leaves does not get it (QA3). */
static void
quorum_fill(struct quorum *qu, struct quorum_entry *entry)
{
    int64_t left_us = quorum_entry_deadline_us(qu, entry) - clock_now_us();
    struct quorum_op *o = quorum_op_new(qu, entry, &entry->op, CORE_ACQUIRE, QUORUM_REPAIR);

    entry->fill_us = 0;
    o->refs_n++;
    o->reported = true;
    o->op.lease_us = left_us;
    o->op.reclaim = true;
    o->op.reentry = o->op.exact = false;
    for (unsigned i = 0; i < qu->nodes_n && left_us > qu->conf.timeout_us; i++) {
        const struct quorum_node *node = &qu->node[i];

        if (entry->part[i].missing_since_us == 0 || node->voting) {
            continue;
        } else if (node->up && node->answered) {
            quorum_part_push(qu, o, i, CORE_ACQUIRE, entry->op.token_floor + 1);
        } else {
            quorum_note_hole(qu, entry, i);
        }
    }
    op_drop(qu, o);
    quorum_entry_settle(qu, entry);
}

void
quorum_entry_due(struct quorum *qu, struct quorum_entry *entry)
{
    if (entry->wanted && entry->check_us != 0 && entry->ops_n == 0 && clock_now_us() >= entry->check_us) {
        quorum_check(qu, entry);
    } else if (entry->wanted && entry->fill_us != 0 && entry->ops_n == 0 && clock_now_us() >= entry->fill_us) {
        quorum_fill(qu, entry);
    } else if (!entry->wanted && entry->ops_n == 0 && clock_now_us() < entry->until_us) {
        quorum_sweep(qu, entry);
    } else {
        quorum_entry_settle(qu, entry);
    }
}

/* ---- the end ---- */

static void
drop_errands(struct quorum *qu, struct list *errands)
{
    while (!list_empty(errands)) {
        struct errand *e = container_of(errands->next, struct errand, node);

        list_remove(&e->node);
        op_drop(qu, e->op);
        freelist_give(&qu->freelist, e, sizeof(*e));
    }
}

/* The shards are closed: nothing is answered any more. */
void
quorum_ops_free(struct quorum *qu)
{
    struct map_node *n;

    for (n = map_first(&qu->entries); n != NULL; n = map_after(&qu->entries, n)) {
        struct quorum_entry *entry = container_of(n, struct quorum_entry, by_hash);

        for (unsigned i = 0; i < qu->nodes_n; i++) {
            drop_errands(qu, &entry->part[i].queue);
        }
    }
    drop_errands(qu, &qu->unsent);
    while (!list_empty(&qu->new_ops)) {
        struct quorum_op *o = container_of(qu->new_ops.next, struct quorum_op, node);

        list_remove(&o->node);
        op_drop(qu, o);
    }
}
