/*
 * test_quorum_entries.c -- errands that wait behind another one at their node, which may vote by the time they leave;
 * what the answer to a repair proves; and when a reclaim that failed is sent again.
 *
 * quorum_entries.c is compiled into this file: operations for the shards are kept here.
 */
#include <string.h>

#include "daemon/backend/quorum_entries.h"
#include "daemon/backend/quorum_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "suite.h"

enum { NODES = 3 };

static struct core_op sent[NODES]; /* the last operation for each node */
static unsigned sent_n[NODES];

/* Test nodes have no shards: `shard` points to the node. */
static void
keep(struct shard *sh, const struct core_op *op, enum core_action_type verb)
{
    const struct quorum_node *node = (const struct quorum_node *)(const void *)sh;

    (void)verb;
    sent[node->index] = *op;
    sent_n[node->index]++;
}

static void
no_wake(struct quorum *qu)
{
    (void)qu;
}

static int64_t
longest_us(const struct shard *sh)
{
    (void)sh;
    return US_PER_S;
}

#define shard_perform keep
#define shard_longest_us longest_us
#define quorum_wake no_wake
#include "daemon/backend/quorum_entries.c"
#include "daemon/backend/quorum_ops.h"
#undef shard_perform
#undef shard_longest_us
#undef quorum_wake

static struct quorum *qu;
static struct quorum_entry *entry;
static struct quorum_op o; /* the operation under test */

static void
begin(void)
{
    struct core_op op = {
        .key = SLICE_LIT("k"), .owner = 1, .claim = 1, .holds = 1, .lease_us = US_PER_S, .reentry = true};

    qu = mem_zalloc(sizeof(*qu));
    qu->nodes_n = NODES;
    list_init(&qu->unsent);
    heap_init(&qu->timers);
    for (unsigned i = 0; i < NODES; i++) {
        qu->node[i] = (struct quorum_node){.of = qu, .index = i, .shard = (struct shard *)(void *)&qu->node[i]};
    }
    memset(sent_n, 0, sizeof(sent_n));
    entry = quorum_entry_of(qu, &op);
    o = (struct quorum_op){.entry = entry, .op = entry->op, .refs_n = 1};
    entry->part[0].in_flight = true; /* an earlier errand */
}

static void
end(void)
{
    while (!list_empty(&qu->unsent)) {
        struct errand *e = container_of(qu->unsent.next, struct errand, node);

        list_remove(&e->node);
        freelist_give(&qu->freelist, e, sizeof(*e));
    }
    for (unsigned i = 0; i < NODES; i++) {
        while (!list_empty(&entry->part[i].queue)) {
            struct errand *e = container_of(entry->part[i].queue.next, struct errand, node);

            quorum_part_done(qu, e, &(struct core_done){.outcome = CORE_DOWN});
            freelist_give(&qu->freelist, e, sizeof(*e));
        }
    }
    quorum_entries_free(qu);
    heap_fini(&qu->timers);
    freelist_clear(&qu->freelist);
    free(qu);
}

/* The earlier errand at node 0 has ended. */
static void
go_on(void)
{
    entry->part[0].in_flight = false;
    quorum_part_launch(qu, &entry->part[0]);
}

/* A repair of a node that does not vote passes its grace period, whatever other nodes it goes to. */
START_TEST(a_repair_is_a_reclaim_where_the_node_does_not_vote)
{
    o.type = QUORUM_REPAIR;
    qu->node[1].voting = true;
    for (unsigned i = 0; i < 2; i++) {
        quorum_part_push(qu, &o, i, CORE_ACQUIRE, 5);
    }
    ck_assert(sent_n[0] == 0 && sent_n[1] == 1);
    ck_assert(!sent[1].reclaim);
    go_on();
    ck_assert(sent_n[0] == 1);
    ck_assert(sent[0].reclaim);
}
END_TEST

/* Only what acquires gathers with reclaims: the first item of a batch says the verb for all. */
START_TEST(an_errand_of_a_reclaim_that_acquires_nothing_is_no_reclaim)
{
    o.type = QUORUM_CONFIRM;
    o.op.reclaim = true;
    quorum_part_push(qu, &o, 1, CORE_RELEASE, 5);
    ck_assert(sent_n[1] == 1 && !sent[1].reclaim);
}
END_TEST

/* QA3: a node that votes may have had another owner, so a reclaim sets no key there. */
START_TEST(a_reclaim_sets_no_key_at_a_node_that_votes_by_now)
{
    o.type = QUORUM_CONFIRM;
    o.op.reclaim = true;
    quorum_part_push(qu, &o, 0, CORE_ACQUIRE, 5);
    quorum_part_push(qu, &o, 1, CORE_ACQUIRE, 5);
    qu->node[0].voting = qu->node[1].voting = true;
    go_on();
    ck_assert(sent_n[0] == 0 && !list_empty(&qu->unsent)); /* will be answered DOWN */
    ck_assert(sent_n[1] == 1 && sent[1].reclaim);
}
END_TEST

/*
 * O7: the node may have counted as freed when the errand left, whether it votes when the answer comes or not. A node
 * that votes has no deadline until a majority without it has confirmed the hold.
 */
START_TEST(a_repair_does_not_count_at_once)
{
    struct quorum_part *p = &entry->part[1];
    struct errand *e;

    o.type = QUORUM_REPAIR;
    entry->wanted = true;
    qu->node[1].voting = _i & 1;
    qu->node[1].epoch = 7;
    quorum_part_push(qu, &o, 1, CORE_ACQUIRE, 5);
    e = container_of(p->queue.next, struct errand, node);
    qu->node[1].voting = _i & 2;
    quorum_part_done(qu, e, &(struct core_done){.outcome = CORE_OK, .sent_us = clock_now_us()});
    freelist_give(&qu->freelist, e, sizeof(*e));
    ck_assert_int_ne(p->repaired_us, 0);
    qu->node[1].voting = true;
    ck_assert_int_eq(quorum_part_deadline_us(p, &qu->node[1]), 0);
    p->repaired_us = 0;
    ck_assert_int_gt(quorum_part_deadline_us(p, &qu->node[1]), clock_now_us());
}
END_TEST

/*
 * A RENEW to a short lease is unanswered at node 0, and may still run there: whatever a later command asks for before
 * its guard, node 0 has the key for the short lease only.
 */
START_TEST(an_unanswered_renew_may_shorten_what_comes_after_it)
{
    struct quorum_part *p = &entry->part[0];
    int64_t now_us = clock_now_us();

    qu->conf.timeout_us = US_PER_S;
    p->in_flight = false;
    entry->wanted = true;
    o.type = QUORUM_CONFIRM;
    o.op.exact = true;
    for (int i = 0; i < 2; i++) {
        struct errand *e;

        o.op.lease_us = i == 0 ? US_PER_S : 60 * US_PER_S;
        quorum_part_push(qu, &o, 0, CORE_EXTEND, 0);
        e = container_of(p->queue.next, struct errand, node);
        quorum_part_done(qu, e, &(struct core_done){.outcome = i == 0 ? CORE_UNKNOWN : CORE_OK,
                                                    .sent_us = now_us + i * 10 * US_PER_MS,
                                                    .guard_us = now_us + US_PER_S});
        freelist_give(&qu->freelist, e, sizeof(*e));
    }
    ck_assert_int_le(quorum_part_deadline_us(p, &qu->node[0]), now_us + US_PER_S + 10 * US_PER_MS);
}
END_TEST

/* H2, H3: what is UNKNOWN may run later when the clock of its node is set back, however much later that is noticed. */
START_TEST(guards_move_with_the_clock_of_their_node)
{
    const int64_t now_us = clock_now_us(), until_us = entry->until_us, back_us = 5 * US_PER_S;
    struct quorum_part *p = &entry->part[1];

    o.type = QUORUM_CONFIRM;
    quorum_part_push(qu, &o, 1, CORE_RELEASE, 5);
    p->acquire_until_us = now_us - 1; /* of an earlier attempt; by now it seems to be over */
    p->clean = false;
    quorum_entries_set_back(qu, 0, back_us);
    ck_assert_int_eq(p->acquire_until_us, now_us - 1);
    quorum_entries_set_back(qu, 1, back_us);
    ck_assert_int_eq(p->acquire_until_us, now_us - 1 + back_us);
    ck_assert_int_ge(entry->until_us, until_us + back_us);
    ck_assert(entry->part[1].release_until_us == 0 && entry->part[1].shrink_until_us == 0); /* there is none */
    p->release_until_us = p->shrink_until_us = now_us;
    p->clean = true;
    quorum_entries_set_back(qu, 1, INT64_MAX);
    ck_assert_int_eq(p->acquire_until_us, now_us - 1 + back_us); /* that attempt has ended */
    ck_assert_int_eq(p->release_until_us, p->shrink_until_us);
    ck_assert_int_gt(p->release_until_us, now_us + back_us);
    ck_assert_int_lt(p->release_until_us, now_us + 3600 * US_PER_S);
}
END_TEST

/* The answer to a release that left before the guard of an attempt, as that is now, shows nothing. */
START_TEST(a_release_before_a_guard_that_has_moved_leaves_the_part_unclean)
{
    struct quorum_part *p = &entry->part[1];

    qu->node[1].voting = true;
    for (int back = 1; back >= 0; back--) {
        struct errand *e;

        o.type = QUORUM_ATTEMPT;
        o.incarnation = entry->incarnation;
        p->acquire_until_us = clock_now_us();
        p->clean = false;
        quorum_part_push(qu, &o, 1, CORE_RELEASE, 5);
        quorum_entries_set_back(qu, 1, back * US_PER_S); /* learned from the answer */
        e = container_of(p->queue.next, struct errand, node);
        quorum_part_done(qu, e, &(struct core_done){.outcome = CORE_OK, .sent_us = clock_now_us()});
        freelist_give(&qu->freelist, e, sizeof(*e));
        ck_assert_int_eq(p->clean, !back);
    }
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/* O9. Node 0 does not vote; the reclaim has reached the other nodes, and `outcome` is that of node 0. */
static void
reclaimed_but_for_node_0(enum core_outcome outcome)
{
    clock_stop(true);
    qu->conf.timeout_us = US_PER_S;
    entry->part[0].in_flight = false;
    o.type = QUORUM_CONFIRM;
    o.op.reclaim = true;
    o.op.lease_us = 60 * US_PER_S;
    entry->op.lease_us = o.op.lease_us;
    entry->wanted = true;
    entry->until_us = clock_now_us() + 100 * US_PER_S;
    for (unsigned i = 0; i < NODES; i++) {
        struct errand *e;

        qu->node[i].voting = i > 0;
        qu->node[i].up = qu->node[i].answered = true;
        qu->node[i].epoch = 7 + i;
        quorum_part_push(qu, &o, i, i > 0 ? CORE_EXTEND : CORE_ACQUIRE, 5);
        e = container_of(entry->part[i].queue.next, struct errand, node);
        quorum_part_done(qu, e, &(struct core_done){.outcome = i > 0 ? CORE_OK : outcome, .sent_us = clock_now_us()});
        freelist_give(&qu->freelist, e, sizeof(*e));
    }
}

/* Moves the clock; the entry's timer fires if it is due. */
static void
pass(int64_t us)
{
    clock_advance_us(us);
    quorum_entry_settle(qu, entry);
    if (entry->fill_us != 0 && clock_now_us() >= entry->fill_us) {
        quorum_entry_due(qu, entry);
    }
}

/* Answers what was sent again to node 0. */
static void
answer(enum core_outcome outcome)
{
    struct errand *e = container_of(entry->part[0].queue.next, struct errand, node);

    quorum_answered(qu, e, &(struct core_done){.outcome = outcome, .sent_us = clock_now_us()});
}

START_TEST(a_reclaim_that_failed_is_sent_again_before_a_renewal)
{
    static const enum core_outcome failed[] = {CORE_UNKNOWN, CORE_DOWN, CORE_FULL, CORE_GRACE};

    reclaimed_but_for_node_0(failed[_i]);
    pass(US_PER_S - 1);
    ck_assert_uint_eq(sent_n[0], 1);
    pass(US_PER_S + 1);
    ck_assert_uint_eq(sent_n[0], 2);
    ck_assert(sent_n[1] == 1 && sent_n[2] == 1);
    ck_assert(sent[0].reclaim && !sent[0].reentry);
    ck_assert_int_le(sent[0].lease_us, 58 * US_PER_S); /* it renews nothing */
    answer(CORE_OK);
    ck_assert_int_ne(entry->part[0].repaired_us, 0); /* O7 */
    pass(20 * US_PER_S);
    ck_assert_uint_eq(sent_n[0], 2);
}
END_TEST

/* A node that fails again and again gets fewer resends than renewals. */
START_TEST(the_pauses_between_resends_double)
{
    reclaimed_but_for_node_0(CORE_UNKNOWN);
    for (int i = 0; i < 40; i++) {
        pass(US_PER_S);
        if (!list_empty(&entry->part[0].queue)) {
            answer(CORE_UNKNOWN);
        }
    }
    ck_assert(sent_n[0] >= 4 && sent_n[0] <= 6);
}
END_TEST

START_TEST(a_node_that_is_down_gets_it_when_it_is_up)
{
    reclaimed_but_for_node_0(CORE_UNKNOWN);
    qu->node[0].up = false;
    pass(2 * US_PER_S);
    ck_assert_uint_eq(sent_n[0], 1);
    qu->node[0].up = true;
    pass(4 * US_PER_S);
    ck_assert_uint_eq(sent_n[0], 2);
    answer(CORE_OK);
}
END_TEST

/* 0: the node refuses; 1: released meanwhile; 2: the node votes; 3: the lock is about to end. */
START_TEST(some_reclaims_are_not_sent_again)
{
    reclaimed_but_for_node_0(_i == 0 ? CORE_TAKEN : CORE_UNKNOWN);
    if (_i == 1) {
        entry->wanted = false;
        entry->incarnation++;
        for (unsigned i = 0; i < NODES; i++) {
            entry->part[i].clean = true;
        }
        entry->ops_n++; /* keeps the entry */
    }
    qu->node[0].voting = _i == 2;
    for (unsigned i = 1; i < NODES && _i == 3; i++) {
        entry->part[i].deadline_us = clock_now_us() + 2 * US_PER_S;
    }
    pass(2 * US_PER_S);
    ck_assert_uint_eq(sent_n[0], 1);
}
END_TEST

/* The resend waits behind another errand, and meanwhile 0: the lock is released; 1: the node begins to vote. */
START_TEST(a_resend_that_comes_too_late_is_not_sent)
{
    reclaimed_but_for_node_0(CORE_UNKNOWN);
    entry->part[0].in_flight = true;
    pass(2 * US_PER_S);
    ck_assert_uint_eq(entry->ops_n, 1);
    if (_i == 0) {
        entry->wanted = false;
        entry->incarnation++;
    } else {
        qu->node[0].voting = true;
    }
    go_on();
    ck_assert_uint_eq(sent_n[0], 1);
    entry->ops_n++; /* keeps the entry */
    quorum_answer_unsent(qu);
}
END_TEST
#endif

static Suite *
suite(void)
{
    Suite *s = suite_create("quorum entries");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, a_repair_is_a_reclaim_where_the_node_does_not_vote);
    tcase_add_test(t, an_errand_of_a_reclaim_that_acquires_nothing_is_no_reclaim);
    tcase_add_test(t, a_reclaim_sets_no_key_at_a_node_that_votes_by_now);
    tcase_add_loop_test(t, a_repair_does_not_count_at_once, 0, 4);
    tcase_add_test(t, an_unanswered_renew_may_shorten_what_comes_after_it);
    tcase_add_test(t, guards_move_with_the_clock_of_their_node);
    tcase_add_test(t, a_release_before_a_guard_that_has_moved_leaves_the_part_unclean);
#ifdef RLOCKD_TEST_CLOCK
    tcase_add_loop_test(t, a_reclaim_that_failed_is_sent_again_before_a_renewal, 0, 4);
    tcase_add_test(t, the_pauses_between_resends_double);
    tcase_add_test(t, a_node_that_is_down_gets_it_when_it_is_up);
    tcase_add_loop_test(t, some_reclaims_are_not_sent_again, 0, 4);
    tcase_add_loop_test(t, a_resend_that_comes_too_late_is_not_sent, 0, 2);
#endif
    suite_add_tcase(s, t);
    return s;
}

int
main(void)
{
    return suite_run(suite());
}
