/*
 * test_quorum_entries.c -- errands that wait behind another one at their node, which may vote by the time they leave;
 * and what the answer to a repair proves.
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

#define shard_perform keep
#define quorum_wake no_wake
#include "daemon/backend/quorum_entries.c"
#include "daemon/backend/quorum_ops.h"
#undef shard_perform
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
    o.sort = SORT_REPAIR;
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
    o.sort = SORT_CONFIRM;
    o.op.reclaim = true;
    quorum_part_push(qu, &o, 1, CORE_RELEASE, 5);
    ck_assert(sent_n[1] == 1 && !sent[1].reclaim);
}
END_TEST

/* QA3: a node that votes may have had another owner, so a reclaim sets no key there. */
START_TEST(a_reclaim_sets_no_key_at_a_node_that_votes_by_now)
{
    o.sort = SORT_CONFIRM;
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

    o.sort = SORT_REPAIR;
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
    suite_add_tcase(s, t);
    return s;
}

int
main(void)
{
    return suite_run(suite());
}
