/*
 * test_generation_marks.c -- marks: a slot is open by the report of a node that does not own it.
 */
#include <string.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations.h"
#include "daemon/base/clock.h"
#include "suite.h"

#define SLOT 7
#define TICK_US (10 * US_PER_MS)
#define LEASE_US (30 * US_PER_S)

enum { OWNER, FORMER, NODES };

/* The answers of node.lua. */
static struct {
    uint64_t origin, epoch;
    bool owns;   /* slot SLOT; the first node owns all others */
    bool open;   /* ... and reports that it is open */
    bool silent, replica;
    unsigned asked_n;
} node[NODES];

static struct generations *g;
static int64_t now_us;
static struct generation_entry begun; /* the last generation of SLOT that this daemon has begun; number 0: none */
static unsigned begun_n, spoiled_n;
static unsigned allowed_n; /* how often calls for the slot were allowed */
static uint64_t version;
static struct generation_entry others; /* a generation that another daemon has begun; number 0: none */
static uint64_t named[ANCHORS];        /* the number of the last one that the anchor has named */

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    (void)news;
    (void)slot;
    (void)number;
}

static void
node_says(uint16_t i)
{
    static const char *const id[NODES] = {"owner", "former"};
    struct slot_range range[2] = {{0, SLOT - 1}, {SLOT + 1, 16383}}, one = {SLOT, SLOT};
    uint16_t open = SLOT;
    struct node_answer a = {.time_us = now_us - 1000 * US_PER_S, .master = !node[i].replica,
                            .origin = node[i].origin, .config_epoch = node[i].epoch, .open = &open,
                            .open_n = node[i].open};

    memcpy(a.id, id[i], strlen(id[i]));
    if (i == OWNER) {
        range[0].last = node[i].owns ? SLOT : SLOT - 1;
        a.range = range;
        a.ranges_n = 2;
    } else {
        a.range = &one;
        a.ranges_n = node[i].owns;
    }
    node[i].asked_n++;
    generations_node_answered(g, i, node[i].silent ? NULL : &a, now_us, now_us);
}

/* Each anchor takes the generations that this daemon begins, as reclaimed by all members, with all bits set before. */
static void
register_at(unsigned anchor)
{
    static struct slot_range range[ANCHORS][64];
    const struct anchor_message *m = generations_message(g, anchor, 0);
    struct generation_entry e[8];
    enum slot_bit set[64];
    struct anchor_answer a = {.time_us = now_us, .status = ANCHOR_VOTES, .birth = 5, .longest_us = LEASE_US,
                              .entry = e, .bit = set, .bits_n = m->slots_n};

    ck_assert_uint_le(m->slots_n, 64);
    ck_assert_uint_le(m->generations_n, 8);
    for (size_t i = 0; i < m->slots_n; i++) {
        set[i] = SLOT_BIT_WAS_SET;
    }
    for (size_t i = 0; i < m->generations_n; i++) {
        e[a.entries_n] = m->generation[i];
        ck_assert_uint_le(m->generation[i].ranges_n, 64);
        memcpy(range[anchor], m->generation[i].range, m->generation[i].ranges_n * sizeof(range[anchor][0]));
        e[a.entries_n].range = range[anchor];
        e[a.entries_n++].version = ++version;
        if (m->generation[i].number > begun.number) {
            begun = m->generation[i];
            begun_n++;
        }
    }
    if (others.number != named[anchor]) {
        named[anchor] = others.number;
        e[a.entries_n] = others;
        e[a.entries_n++].version = ++version;
    }
    a.version = a.done = version;
    generations_anchor_answered(g, anchor, &a, now_us, now_us);
}

/* The record has the number of the last generation, and grants, unless it is spoiled. */
static void
record_says(const struct generation_send *s)
{
    struct record_answer a = {.time_us = now_us, .number = s->number, .grants = true};

    spoiled_n += s->mode == RECORD_MODE_SPOIL;
    generations_record_answered(g, s, &a);
}

static enum slot_may
run_for(int64_t us)
{
    struct slot_state state = {.may = SLOT_WAITS};

    for (int64_t end_us = now_us + us; now_us < end_us; now_us += TICK_US) {
        uint16_t owner = node[OWNER].owns ? OWNER : FORMER;
        struct generation_send s;

        generations_slot_state(g, SLOT, owner, now_us, &state);
        if (state.may == SLOT_RECLAIMS) {
            generations_record_differs(g, SLOT); /* as a call would find it: the record grants */
        }
        for (generations_next(g, now_us, &s); s.type != SEND_NOTHING; generations_next(g, now_us, &s)) {
            if (s.type == SEND_REGISTER) {
                register_at(s.anchor);
            } else if (s.type == SEND_NODE) {
                node_says(s.node);
            } else {
                record_says(&s);
            }
        }
        generations_reclaimed(g, SLOT, generations_number(g, SLOT));
        generations_slot_state(g, SLOT, owner, now_us, &state);
        allowed_n += state.may != SLOT_WAITS;
    }
    return state.may;
}

/* The owner has had the slot for a second: a generation has begun and ended. */
static void
begin(void)
{
    static const char id[NODES][NODE_ID_ROOM] = {"owner", "former"};
    static const struct anchor_identity who = {.uuid = "u", .nonce = 1, .lease_us = LEASE_US};

    now_us = 2000 * US_PER_S;
    begun = (struct generation_entry){.number = 0};
    begun_n = spoiled_n = 0;
    version = others.number = 0;
    memset(named, 0, sizeof(named));
    memset(node, 0, sizeof(node));
    node[OWNER].origin = 77;
    node[OWNER].epoch = 2;
    node[OWNER].owns = true;
    node[FORMER].origin = 88;
    node[FORMER].epoch = 1;
    g = generations_new(&who, 1, on_news, NULL);
    for (uint16_t i = 0; i < NODES; i++) {
        ck_assert_uint_eq(generations_node_index(g, id[i]), i);
        generations_node_keep(g, i, true);
        node_says(i);
    }
    ck_assert_int_eq(run_for(US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 1);
}

static void
end(void)
{
    generations_free(&g);
}

/*
 * The owner, which reports no open slot, does not close it; and no generation begins meanwhile. The record is not
 * spoiled before all daemons can know the mark: else some of them would begin a generation, in which nothing is renewed
 * now.
 */
START_TEST(open_while_the_former_owner_reports_it)
{
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(4 * US_PER_S), SLOT_WAITS);
    ck_assert(generations_is_open(g, SLOT));
    ck_assert_uint_eq(spoiled_n, 0);
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    ck_assert_uint_eq(spoiled_n, 1);
    ck_assert_uint_eq(begun_n, 1);
    ck_assert_uint_ge(node[OWNER].asked_n, 2);
}
END_TEST

/*
 * The node with the mark is asked often, so that the daemon soon sees the slot close. Keys may have been replaced: one
 * new generation begins.
 */
START_TEST(a_generation_begins_when_it_closes)
{
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(8 * US_PER_S), SLOT_WAITS);
    node[FORMER].open = false;
    ck_assert_int_eq(run_for(1500 * US_PER_MS), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
    ck_assert_uint_eq(begun.range[0].first, SLOT);
    ck_assert_int_eq(run_for(20 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
    ck_assert_uint_eq(spoiled_n, 1);
}
END_TEST

/* The reports of both nodes are independent, in any order: the slot is open until neither has it open. */
START_TEST(two_reports_are_kept_apart)
{
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    node[OWNER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    ck_assert_uint_eq(spoiled_n, 1);
    ck_assert_uint_eq(begun_n, 1);
    node[_i == 0 ? OWNER : FORMER].open = false;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    node[_i == 0 ? FORMER : OWNER].open = false;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    /* Keys may have gone to the other node: see a_late_mark_counts_where_the_owner_has_opened_the_slot. */
    ck_assert_uint_eq(begun_n, _i == 0 ? 3 : 2);
}
END_TEST

/* Two longest leases after the owner got the slot, the mark is late; the generation that begins then keeps it late. */
START_TEST(a_mark_that_is_left_stops_nothing_for_ever)
{
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(2 * LEASE_US - 4 * US_PER_S), SLOT_WAITS);
    ck_assert_uint_eq(begun_n, 1);
    ck_assert_int_eq(run_for(8 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
    node[FORMER].asked_n = 0;
    ck_assert_int_eq(run_for(5 * LEASE_US), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
    ck_assert_uint_eq(spoiled_n, 1);
    ck_assert_uint_le(node[FORMER].asked_n, 80); /* as often as a node without a mark */
}
END_TEST

/* A daemon that does not reach the former owner begins generations; the mark gets late all the same. */
START_TEST(a_generation_of_another_daemon_does_not_prolong_it)
{
    struct slot_range one = {SLOT, SLOT};

    node[FORMER].open = true;
    for (unsigned i = 1; i <= 4; i++) {
        others = (struct generation_entry){.number = begun.number + i, .origin = 77, .range = &one, .ranges_n = 1,
                                           .since_us = (uint64_t)(now_us - 1000 * US_PER_S)};
        ck_assert_int_eq(run_for(LEASE_US / 2 - US_PER_S), SLOT_WAITS);
    }
    ck_assert_int_eq(run_for(8 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(spoiled_n, 1);
}
END_TEST

/* The locks that the former owner has are past their leases by now. */
START_TEST(a_late_mark_stops_nothing)
{
    ck_assert_int_eq(run_for(2 * LEASE_US), SLOT_GRANTS);
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 1);
    ck_assert_uint_eq(spoiled_n, 0);
}
END_TEST

/*
 * The mark stays late when the owner is replaced; but a new process of the former owner may have marks of another time.
 */
START_TEST(a_late_mark_stays_late)
{
    ck_assert_int_eq(run_for(2 * LEASE_US), SLOT_GRANTS);
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    node[OWNER].origin++;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
    ck_assert_uint_eq(spoiled_n, 0);
    node[FORMER].origin++;
    ck_assert_int_eq(run_for(8 * US_PER_S), SLOT_WAITS);
    ck_assert_uint_eq(spoiled_n, 1);
}
END_TEST

/* Keys may have gone to the other node then: its keys are not older than the owner's generation. */
START_TEST(a_late_mark_counts_where_the_owner_has_opened_the_slot)
{
    ck_assert_int_eq(run_for(3 * LEASE_US), SLOT_GRANTS);
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    node[OWNER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    node[OWNER].open = false;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    ck_assert(generations_is_open(g, SLOT));
    node[FORMER].open = false;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
}
END_TEST

/* The connection to the node is lost: it may still be moving keys, but not for ever. */
START_TEST(a_node_out_of_reach_keeps_its_marks)
{
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(3 * US_PER_S), SLOT_WAITS);
    node[FORMER].silent = true;
    generations_node_lost(g, FORMER, now_us);
    ck_assert_int_eq(run_for(2 * LEASE_US - 8 * US_PER_S), SLOT_WAITS);
    ck_assert_uint_eq(begun_n, 1);
    ck_assert_int_eq(run_for(12 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
}
END_TEST

/* As a replica the node gets the data of its master; a node that has left the cluster moves no keys. */
START_TEST(a_node_that_is_no_master_has_no_marks)
{
    node[FORMER].open = true;
    ck_assert_int_eq(run_for(3 * US_PER_S), SLOT_WAITS);
    node[FORMER].replica = _i == 0;
    node[FORMER].silent = _i == 1;
    if (_i == 1) {
        generations_node_lost(g, FORMER, now_us);
        generations_node_keep(g, FORMER, false);
    }
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 2);
}
END_TEST

/* redis-cli has made the former owner the owner again, and moves the keys of the other node there. */
START_TEST(the_former_owner_gets_the_slot)
{
    ck_assert_int_eq(run_for(3 * LEASE_US), SLOT_GRANTS);
    node[FORMER].owns = true;
    node[FORMER].epoch = 3;
    node[FORMER].origin = 99;
    node[OWNER].owns = false;
    node[OWNER].open = true;
    allowed_n = 0;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    ck_assert_uint_eq(allowed_n, 0);
    ck_assert(generations_is_open(g, SLOT));
    ck_assert_uint_eq(begun_n, 2); /* for its data; nothing is reclaimed in it */
    node[OWNER].open = false;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
    ck_assert_uint_eq(begun_n, 3);
    ck_assert_uint_eq(begun.origin, 99);
}
END_TEST

/* The generation may be known before the answer of the new owner, and before the last answer of the old one. */
START_TEST(the_generation_of_another_daemon_comes_first)
{
    struct slot_range one = {SLOT, SLOT};

    node[OWNER].open = _i == 1;
    ck_assert_int_eq(run_for(3 * US_PER_S), _i == 1 ? SLOT_WAITS : SLOT_GRANTS);
    others = (struct generation_entry){.number = begun.number + 1, .origin = 99, .range = &one, .ranges_n = 1,
                                       .since_us = (uint64_t)(now_us - 1000 * US_PER_S)};
    node[FORMER].silent = true;
    (void)run_for(3 * US_PER_S);
    node[FORMER].silent = false;
    node[FORMER].owns = true;
    node[FORMER].epoch = 3;
    node[FORMER].origin = 99;
    node[OWNER].owns = false;
    node[OWNER].open = true;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_WAITS);
    ck_assert(generations_is_open(g, SLOT));
    node[OWNER].open = false;
    ck_assert_int_eq(run_for(5 * US_PER_S), SLOT_GRANTS);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("generation marks");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, open_while_the_former_owner_reports_it);
    tcase_add_test(t, a_generation_begins_when_it_closes);
    tcase_add_loop_test(t, two_reports_are_kept_apart, 0, 2);
    tcase_add_test(t, a_mark_that_is_left_stops_nothing_for_ever);
    tcase_add_test(t, a_generation_of_another_daemon_does_not_prolong_it);
    tcase_add_test(t, a_late_mark_stops_nothing);
    tcase_add_test(t, a_late_mark_stays_late);
    tcase_add_test(t, a_late_mark_counts_where_the_owner_has_opened_the_slot);
    tcase_add_test(t, a_node_out_of_reach_keeps_its_marks);
    tcase_add_loop_test(t, a_node_that_is_no_master_has_no_marks, 0, 2);
    tcase_add_test(t, the_former_owner_gets_the_slot);
    tcase_add_loop_test(t, the_generation_of_another_daemon_comes_first, 0, 2);
    suite_add_tcase(s, t);
    return suite_run(s);
}
