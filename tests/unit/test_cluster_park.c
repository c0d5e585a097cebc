/*
 * test_cluster_park.c -- how long an item of a cluster may be sent from node to node, and be parked in between.
 *
 * cluster_park.c is compiled into this file: there is no shard, and the items sent to it stay here.
 */
#include <event2/event.h>
#include <stdlib.h>

#include "daemon/backend/cluster_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "suite.h"

#ifdef RLOCKD_TEST_CLOCK

static struct list sent; /* items at the master */

static void
keep_item(struct shard *sh, struct item *it)
{
    (void)sh;
    list_remove(&it->node);
    list_push_back(&sent, &it->node);
}

/* The slot grants, whatever a node has reported of it. */
static void
slot_grants(struct cluster_slots *s, uint16_t slot, uint16_t node, bool holds, struct slot_state *out)
{
    (void)s;
    (void)slot;
    (void)node;
    (void)holds;
    *out = (struct slot_state){.may = SLOT_GRANTS, .number = 1};
}

static bool slot_open;

static bool
slot_is_open(const struct cluster_slots *s, uint16_t slot)
{
    (void)s;
    (void)slot;
    return slot_open;
}

static void
nothing(struct cluster_slots *s, uint16_t slot, uint16_t node)
{
    (void)s;
    (void)slot;
    (void)node;
}

#define shard_take keep_item
#define cluster_slots_state slot_grants
#define cluster_slots_is_open slot_is_open
#define cluster_slots_opened nothing
#include "daemon/backend/cluster_park.c"
#undef shard_take
#undef cluster_slots_state
#undef cluster_slots_is_open
#undef cluster_slots_opened

#define TIMEOUT_US (2 * US_PER_S)
#define PLACE "127.0.0.1:7001"

static struct cluster *c;
static struct cluster_master master;
static struct metrics metrics;
static uint64_t down; /* the operation that was DOWN last */

static void
on_done(void *ctx, const struct core_done *done)
{
    (void)ctx;
    ck_assert_int_eq(done->outcome, CORE_DOWN);
    down = done->op;
}

static void
on_event(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    (void)ctx;
}

static void
begin(void)
{
    c = mem_zalloc(sizeof(*c));
    list_init(&sent);
    list_init(&c->parked);
    list_init(&c->masters);
    c->conf.timeout_us = TIMEOUT_US;
    c->env = (struct backend_env){.base = event_base_new(), .metrics = &metrics, .freelist = &c->freelist};
    c->events = (struct shard_events){.done = on_done};
    c->timer = event_new(c->env.base, -1, 0, on_event, NULL);
    deferred_init(&c->deferred, &c->env, &c->events);
    cluster_map_init(&c->map);
    script_variants_init(&c->variants, true, false);
    master = (struct cluster_master){.cluster = c};
    master.address = address_unknown("node", NULL, NULL, 0, false);
    list_push_back(&c->masters, &master.node);
    c->map.node = mem_zalloc(sizeof(c->map.node[0]));
    c->map.nodes_n = 1;
    c->map.node[0].port = 7001;
    snprintf(c->map.node[0].host, sizeof(c->map.node[0].host), "127.0.0.1");
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        c->master_of[slot] = &master;
    }
    down = 0;
    slot_open = false;
    clock_stop(true);
}

static void
over(void)
{
    clock_stop(false);
    while (!list_empty(&sent)) {
        item_free(&c->freelist, container_of(sent.next, struct item, node));
    }
    cluster_park_forget(c);
    deferred_fini(&c->deferred);
    script_variants_fini(&c->variants);
    cluster_map_fini(&c->map);
    address_free(master.address);
    event_free(c->timer);
    event_base_free(c->env.base);
    freelist_clear(&c->freelist);
    free(c);
}

static struct item *
item_of(uint64_t op, enum call_verb verb, bool reclaim)
{
    struct core_op o = {.op = op, .key = SLICE_LIT("a"), .kind = KIND_REENTRANT, .reclaim = reclaim};
    struct item *it = item_new(&c->freelist, &o);

    it->verb = verb;
    it->domain = slot_of(o.key);
    cluster_dispatch(c, it);
    ck_assert_ptr_eq(sent.next, &it->node);
    return it;
}

static void
refused(const char *error)
{
    ck_assert(!list_empty(&sent));
    cluster_redirected(&master, container_of(sent.next, struct item, node), slice_of(error));
}

static bool
is_down(uint64_t op)
{
    event_base_loop(c->env.base, EVLOOP_NONBLOCK);
    return down == op;
}

/* P1: sent again when there is another map, or when parked items are looked at next. */
START_TEST(a_moved_item_is_parked)
{
    (void)item_of(1, VERB_ACQUIRE, false);
    refused("MOVED 15495 " PLACE);
    ck_assert(list_empty(&sent));
    ck_assert(!list_empty(&c->parked));
    ck_assert(c->map_outdated);
    cluster_unpark(c);
    ck_assert(!list_empty(&sent));
    ck_assert(list_empty(&c->parked));
    ck_assert(!is_down(1));
}
END_TEST

/* Two nodes that each name the other one: the number of times that an item is sent is bounded. */
START_TEST(an_item_has_so_many_hops)
{
    static const char *error[] = {"MOVED 15495 " PLACE, "ASK 15495 " PLACE, "TRYAGAIN Multiple keys", "CLUSTERDOWN x"};

    (void)item_of(1, VERB_RENEW, false);
    for (unsigned i = 0; i < CLUSTER_HOPS_MAX; i++) {
        refused(error[_i]);
        ck_assert_msg(!is_down(1), "after %u hops", i + 1);
        cluster_unpark(c);
    }
    refused(error[_i]);
    ck_assert(list_empty(&sent));
    ck_assert(list_empty(&c->parked));
    ck_assert(is_down(1));
}
END_TEST

/* P4: an item that is sent between two waits has one timeout for both. */
START_TEST(an_item_is_parked_for_a_timeout_in_all)
{
    (void)item_of(1, VERB_ACQUIRE, false);
    refused("MOVED 15495 " PLACE);
    for (int i = 0; i < 3; i++) {
        clock_advance_us(TIMEOUT_US / 4);
        cluster_unpark(c);
        refused("MOVED 15495 " PLACE);
        ck_assert(!is_down(1));
    }
    clock_advance_us(TIMEOUT_US / 4);
    cluster_unpark(c);
    refused("MOVED 15495 " PLACE);
    ck_assert(list_empty(&c->parked));
    ck_assert(is_down(1));
}
END_TEST

/* The item is parked, and its timeout ends in 1 us. */
static void
its_timeout_ends(void)
{
    ck_assert(list_empty(&sent));
    ck_assert(!is_down(1));
    clock_advance_us(1);
    cluster_unpark(c);
    ck_assert(list_empty(&sent));
    ck_assert(is_down(1));
}

/* P4: no node is known for its slot. */
START_TEST(an_item_without_a_master_is_parked_for_a_timeout)
{
    (void)item_of(1, VERB_RENEW, false);
    c->master_of[slot_of((struct slice)SLICE_LIT("a"))] = NULL;
    refused("CLUSTERDOWN The cluster is down");
    clock_advance_us(TIMEOUT_US - 1);
    cluster_unpark(c);
    its_timeout_ends();
}
END_TEST

/* A call with several keys, and then the same call with one key: refused while some keys have moved. */
static void
refused_in_an_open_slot(enum call_verb verb)
{
    slot_open = true;
    (void)item_of(1, verb, false);
    refused("TRYAGAIN Multiple keys");
    if (!list_empty(&sent)) {
        refused("TRYAGAIN Multiple keys");
    }
    ck_assert(list_empty(&sent));
}

/* P5: the answers of nodes and anchors unpark items, too; the timer does so after half of PARK_US at the earliest. */
START_TEST(an_item_that_an_open_slot_refuses_stays_parked)
{
    refused_in_an_open_slot(_i == 0 ? VERB_RENEW : VERB_ACQUIRE);
    for (int i = 0; i < 100; i++) {
        cluster_unpark(c);
        ck_assert(list_empty(&sent));
    }
    clock_advance_us(PARK_US / 2 - 1);
    cluster_unpark(c);
    ck_assert(list_empty(&sent));
    clock_advance_us(1);
    cluster_unpark(c);
    ck_assert(!list_empty(&sent));
    ck_assert(!is_down(1));
}
END_TEST

/* P5: the slot closes when all its keys are at one master, the old one or the new one. */
START_TEST(a_slot_that_closes_gets_its_items_at_once)
{
    refused_in_an_open_slot(VERB_RENEW);
    slot_open = false;
    cluster_unpark(c);
    ck_assert(!list_empty(&sent));
}
END_TEST

/* P4: also while the slot stays open. */
START_TEST(an_item_waits_for_an_open_slot_for_a_timeout)
{
    refused_in_an_open_slot(VERB_RENEW);
    clock_advance_us(TIMEOUT_US - 1);
    cluster_unpark(c);
    refused("ASK 15495 127.0.0.1:7009"); /* an unknown node */
    its_timeout_ends();
}
END_TEST

/* CP6: it joined the cluster after the last request for the map. */
START_TEST(an_item_behind_ask_to_an_unknown_node_gets_a_new_map)
{
    slot_open = true;
    (void)item_of(1, VERB_RENEW, false);
    refused("ASK 15495 127.0.0.1:7009");
    ck_assert(list_empty(&sent));
    ck_assert(c->map_outdated);
    ck_assert(!is_down(1));
}
END_TEST

/* CP6: the node has died, so the next map does not help either. */
START_TEST(ask_to_a_node_that_stays_unknown_requests_few_maps)
{
    unsigned seconds = 50, maps = 0;
    uint64_t op = 0;

    slot_open = true;
    for (int64_t us = 0; us < seconds * US_PER_S; us += PARK_US) {
        if (list_empty(&sent) && list_empty(&c->parked)) {
            (void)item_of(++op, VERB_RENEW, false);
        }
        cluster_unpark(c);
        if (!list_empty(&sent)) {
            refused("ASK 15495 127.0.0.1:7009");
        }
        maps += c->map_outdated;
        c->map_outdated = false;
        (void)is_down(op);
        clock_advance_us(PARK_US);
    }
    ck_assert_uint_ge(maps, seconds / 2);
    ck_assert_uint_le(maps, MAPS_AT_ONCE + seconds);
    clock_advance_us(MAPS_FORGET_US); /* of another slot */
    for (unsigned i = 0; i < MAPS_AT_ONCE; i++) {
        ck_assert(may_request_map(c));
    }
    ck_assert(!may_request_map(c));
}
END_TEST

/* The present map has the node: no daemon requests another one for each key that has moved. */
START_TEST(an_item_behind_ask_to_a_known_node_needs_no_map)
{
    slot_open = true;
    (void)item_of(1, VERB_RENEW, false);
    refused("ASK 15495 " PLACE);
    ck_assert(!list_empty(&sent));
    ck_assert(!c->map_outdated);
}
END_TEST

/* P3 */
START_TEST(a_reclaim_is_never_sent_twice)
{
    (void)item_of(1, VERB_ACQUIRE, true);
    refused("MOVED 15495 " PLACE);
    ck_assert(list_empty(&c->parked));
    ck_assert(is_down(1));
}
END_TEST

/* Daemons that learn of one change at the same time do not all ask at the same time. */
START_TEST(wakes_are_jittered)
{
    enum { TIMES = 200 };
    int64_t least_us = INT64_MAX, most_us = 0, now_us = clock_now_us();

    for (int i = 0; i < TIMES; i++) {
        c->due_us = 0;
        cluster_wake(c, PARK_US);
        least_us = c->due_us - now_us < least_us ? c->due_us - now_us : least_us;
        most_us = c->due_us - now_us > most_us ? c->due_us - now_us : most_us;
    }
    ck_assert_int_ge(least_us, PARK_US / 2);
    ck_assert_int_le(most_us, PARK_US);
    ck_assert_int_gt(most_us - least_us, PARK_US / 4); /* fails by chance once in 10^50 runs */
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("cluster park");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, over);
    tcase_add_test(t, a_moved_item_is_parked);
    tcase_add_loop_test(t, an_item_has_so_many_hops, 0, 4);
    tcase_add_test(t, an_item_is_parked_for_a_timeout_in_all);
    tcase_add_test(t, an_item_without_a_master_is_parked_for_a_timeout);
    tcase_add_loop_test(t, an_item_that_an_open_slot_refuses_stays_parked, 0, 2);
    tcase_add_test(t, a_slot_that_closes_gets_its_items_at_once);
    tcase_add_test(t, an_item_waits_for_an_open_slot_for_a_timeout);
    tcase_add_test(t, an_item_behind_ask_to_an_unknown_node_gets_a_new_map);
    tcase_add_test(t, ask_to_a_node_that_stays_unknown_requests_few_maps);
    tcase_add_test(t, an_item_behind_ask_to_a_known_node_needs_no_map);
    tcase_add_test(t, a_reclaim_is_never_sent_twice);
    tcase_add_test(t, wakes_are_jittered);
    suite_add_tcase(s, t);
    return suite_run(s);
}

#else

int
main(void)
{
    return 0; /* this test needs a clock that can be moved */
}

#endif
