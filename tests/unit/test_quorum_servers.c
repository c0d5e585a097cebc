/*
 * test_quorum_servers.c -- daemons of a quorum broadcast the servers of their nodes: which differences they find, and
 * how many broadcasts that costs a fleet.
 *
 * quorum_servers.c is compiled into this file: each other daemon that has a node in common receives a broadcast here,
 * after a time of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/quorum_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "rng.h"
#include "suite.h"

#ifdef RLOCKD_TEST_CLOCK

enum { DAEMONS_MAX = 1000, NODES = 3, SERVERS = 8, LATENCY_MAX_MS = 20 };

/* A broadcast that has not reached a daemon yet. */
struct message {
    struct message *next;
    unsigned from, to;
    char text[QUORUM_LIST_ROOM];
};

static struct quorum *daemons[DAEMONS_MAX];
static unsigned daemons_n;
static struct message *underway[LATENCY_MAX_MS + 1]; /* by the time of the arrival, in ms, modulo its length */
static unsigned now_ms, sent_n;
static struct rng rng;
static const char run_id[SERVERS][2] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* Test nodes have no shards: `shard` points to the run_id. */
static const char *
run_id_of(const struct shard *sh)
{
    return (const char *)(const void *)sh;
}

static bool
common_node(const struct quorum *one, const struct quorum *other)
{
    for (unsigned i = 0; i < NODES * NODES; i++) {
        const struct quorum_node *a = &one->node[i / NODES], *b = &other->node[i % NODES];

        if (a->up && b->up && strcmp(run_id_of(a->shard), run_id_of(b->shard)) == 0) {
            return true;
        }
    }
    return false;
}

static void
send_to_all(struct backend *b, struct slice what)
{
    struct quorum *qu = (struct quorum *)(void *)b;
    unsigned from = (unsigned)strtoul(qu->env.uuid, NULL, 10);

    sent_n++;
    for (unsigned to = 0; to < daemons_n; to++) {
        if (to != from && common_node(qu, daemons[to])) {
            unsigned at = (now_ms + 1 + rng_below(&rng, LATENCY_MAX_MS)) % (LATENCY_MAX_MS + 1);
            struct message *m = mem_zalloc(sizeof(*m));

            *m = (struct message){.next = underway[at], .from = from, .to = to};
            memcpy(m->text, what.p, what.n);
            underway[at] = m;
        }
    }
}

static void
no_wake(struct quorum *qu)
{
    (void)qu;
}

#define quorum_broadcast send_to_all
#define quorum_wake no_wake
#define shard_run_id run_id_of
#include "daemon/backend/quorum_servers.c"
#undef quorum_broadcast
#undef quorum_wake
#undef shard_run_id

static struct log quiet = {.level = LOG_ERROR};

static void
node_is(struct quorum *qu, unsigned node, unsigned server)
{
    qu->node[node].up = true;
    qu->node[node].shard = (struct shard *)(void *)(uintptr_t)run_id[server];
    quorum_servers_changed(qu);
}

/* A daemon whose nodes are these servers: their letters. */
static void
start(const char *servers)
{
    struct quorum *qu = daemons[daemons_n] = mem_zalloc(sizeof(*qu));

    snprintf(qu->env.uuid, sizeof(qu->env.uuid), "%u", daemons_n++);
    qu->random = rng_next(&rng);
    qu->env.log = &quiet;
    qu->nodes_n = NODES;
    heap_init(&qu->timers);
    timer_init(&qu->servers_timer, TIMER_SERVERS);
    for (unsigned i = 0; i < NODES; i++) {
        node_is(qu, i, (unsigned)(servers[i] - 'a'));
    }
}

static void
start_many(unsigned n, const char *servers)
{
    for (unsigned i = 0; i < n; i++) {
        start(servers);
    }
}

static void
arrive(void)
{
    struct message **all = &underway[now_ms % (LATENCY_MAX_MS + 1)], *m;

    while ((m = *all) != NULL) {
        *all = m->next;
        if (daemons[m->to] != NULL) {
            char from[16];

            snprintf(from, sizeof(from), "%u", m->from);
            ck_assert(quorum_servers_received(daemons[m->to], slice_of(from), slice_of(m->text)));
        }
        free(m);
    }
}

static void
pass_ms(unsigned ms)
{
    for (unsigned end_ms = now_ms + ms; now_ms < end_ms;) {
        now_ms++;
        clock_advance_us(US_PER_MS);
        arrive();
        for (unsigned i = 0; i < daemons_n; i++) {
            if (heap_min_at(&daemons[i]->timers) <= clock_now_us()) {
                quorum_servers_due(daemons[i]);
            }
        }
    }
}

static void
pass(unsigned seconds)
{
    pass_ms(seconds * 1000);
}

/* The number of broadcasts in so many seconds. */
static unsigned
sent_in(unsigned seconds)
{
    sent_n = 0;
    pass(seconds);
    return sent_n;
}

static unsigned
warned(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < daemons_n; i++) {
        n += daemons[i]->stray.warned;
    }
    return n;
}

static void
end_last(void)
{
    struct quorum *qu = daemons[--daemons_n];

    daemons[daemons_n] = NULL;
    heap_fini(&qu->timers);
    free(qu);
}

static void
begin(void)
{
    rng = rng_of(1);
    clock_stop(true);
}

static void
over(void)
{
    while (daemons_n > 0) {
        end_last();
    }
    pass(1); /* frees the messages that are under way */
    clock_stop(false);
}

static const unsigned fleets[] = {2, 10, 100, DAEMONS_MAX - 1};

/* All daemons warn; of 999, some 6 broadcast in 5 s (before one broadcast served for all, each of the 999 did). */
START_TEST(one_daemon_with_another_node)
{
    unsigned n = fleets[_i], broadcasts;

    start_many(n, "abc");
    pass(60);
    start("abd");
    broadcasts = sent_in(20);
    ck_assert_uint_eq(warned(), n + 1);
    ck_assert_uint_le(broadcasts, 60);
    broadcasts = sent_in(60);
    ck_assert_uint_eq(warned(), n + 1);
    ck_assert_uint_ge(broadcasts, 2 * 60 / 5);
    ck_assert_uint_le(broadcasts, 180);
    end_last();
    pass(25);
    ck_assert_uint_eq(warned(), 0);
    ck_assert_uint_eq(sent_in(60), 0);
}
END_TEST

START_TEST(two_halves_with_other_nodes)
{
    unsigned half = fleets[_i] / 2;

    start_many(half, "abc");
    start_many(half, "abd");
    pass(30);
    ck_assert_uint_eq(warned(), 2 * half);
    ck_assert_uint_le(sent_in(60), 240);
    ck_assert_uint_eq(warned(), 2 * half);
}
END_TEST

/* A server is restarted: it has another run_id, which each daemon learns within a second. */
START_TEST(a_restarted_server)
{
    unsigned n = fleets[_i];

    start_many(n, "abc");
    ck_assert_uint_le(sent_in(60), 30);
    for (unsigned i = 0; i < n; i++) {
        daemons[i]->node[2].up = false;
        quorum_servers_changed(daemons[i]);
    }
    ck_assert_uint_eq(sent_in(60), 0);
    for (unsigned i = 0; i < n; i++) {
        daemons[i]->node[2].up = true;
        quorum_servers_changed(daemons[i]);
    }
    ck_assert_uint_eq(sent_in(60), 0);
    sent_n = 0;
    for (unsigned i = 0; i < n; i++) {
        node_is(daemons[i], 2, 'e' - 'a');
        pass_ms(1000 / n);
    }
    pass(60);
    ck_assert_uint_ge(sent_n, 2);
    ck_assert_uint_le(sent_n, 60);
    ck_assert_uint_eq(warned(), 0);
}
END_TEST

/* A daemon whose list has changed receives the same list again and again in other words, until the end. */
START_TEST(a_list_that_another_daemon_logged)
{
    static const struct {
        const char *reported;
        unsigned sent;
    } cases[] = {{"S3 b c a", 0}, {"S3 a b", 2}, {"S3", 2}, {"S4 a b c", 2}};

    start("abc");
    sent_n = 0;
    for (int i = 0; i < 100; i++) {
        ck_assert(quorum_servers_received(daemons[0], slice_of("other"), slice_of(cases[_i].reported)));
        pass(1);
    }
    ck_assert_uint_ge(sent_n, cases[_i].sent);
    ck_assert(cases[_i].sent > 0 || sent_n == 0);
}
END_TEST

/* No common server shows one group of daemons to the other. */
START_TEST(lists_without_a_common_node_are_not_noticed)
{
    start_many(2, "abc");
    start_many(2, "def");
    pass(60);
    ck_assert_uint_eq(warned(), 0);
}
END_TEST

static Suite *
suite(void)
{
    Suite *s = suite_create("quorum servers");
    TCase *t = tcase_create("all");
    int n = rng_seeds(100) < 100 ? 3 : (int)(sizeof(fleets) / sizeof(fleets[0])); /* without the largest in valgrind */

    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, begin, over);
    tcase_add_loop_test(t, one_daemon_with_another_node, 0, n);
    tcase_add_loop_test(t, two_halves_with_other_nodes, 0, n);
    tcase_add_loop_test(t, a_restarted_server, 0, n);
    tcase_add_loop_test(t, a_list_that_another_daemon_logged, 0, 4);
    tcase_add_test(t, lists_without_a_common_node_are_not_noticed);
    suite_add_tcase(s, t);
    return s;
}

int
main(void)
{
    return suite_run(suite());
}

#else

int
main(void)
{
    return 0; /* the test needs RLOCKD_TEST_CLOCK */
}

#endif
