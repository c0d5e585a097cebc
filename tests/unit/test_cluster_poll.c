/*
 * test_cluster_poll.c -- the number of subscribers of channels: two masters are asked, while slots move between them.
 *
 * cluster_poll.c and cluster_masters.c are compiled into this file: there are no shards, and questions stay here.
 */
#include <stdlib.h>

#include "daemon/backend/cluster_private.h"
#include "daemon/base/memory.h"
#include "suite.h"

enum { QUESTIONS = 8, SLOT_OF_A = 15495, SLOT_OF_B = 3300 };

/* A question to a master. */
static struct {
    link_reply_fn *fn;
    struct cluster_poll_part *part;
} questions[QUESTIONS];

static unsigned questions_n;

static bool
keep_question(struct shard *sh, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    (void)sh;
    ck_assert_int_ge(words, 3);
    ck_assert_uint_gt(word[2].n, 0);
    ck_assert_uint_lt(questions_n, QUESTIONS);
    questions[questions_n].fn = fn;
    questions[questions_n++].part = arg;
    return true;
}

#define shard_ask keep_question
#define shard_want_broadcasts(shard, channel, want) ((void)(want))
#define shard_expect_error(shard, reason) ((void)(reason))
#include "daemon/backend/cluster_masters.c"
#include "daemon/backend/cluster_masters.h"
#include "daemon/backend/cluster_poll.c"
#undef shard_ask
#undef shard_want_broadcasts
#undef shard_expect_error

static struct cluster *c;
static struct cluster_master master[2];
static struct metrics metrics;
static struct core_event polled;
static int64_t subscribers[CORE_WAITER_POLL_MAX];
static unsigned events;

static void
on_post(void *ctx, const struct core_event *ev)
{
    (void)ctx;
    ck_assert_int_eq(ev->type, CORE_WAITERS_POLLED);
    polled = *ev;
    memcpy(subscribers, ev->polled.subscribers, ev->polled.n * sizeof(subscribers[0]));
    events++;
}

/* Gives the two slots to these masters in the map. No shard is opened, since no client can reach the masters. */
static void
map_answers(unsigned of_a, unsigned of_b)
{
    c->map.owner[SLOT_OF_A] = (uint16_t)of_a;
    c->map.owner[SLOT_OF_B] = (uint16_t)of_b;
    cluster_masters_follow(c);
    ck_assert_ptr_eq(c->master_of[SLOT_OF_A], &master[of_a]);
    ck_assert_ptr_eq(c->master_of[SLOT_OF_B], &master[of_b]);
}

static void
begin(void)
{
    c = mem_zalloc(sizeof(*c));
    memset(master, 0, sizeof(master));
    list_init(&c->masters);
    c->env = (struct backend_env){.metrics = &metrics, .post = on_post};
    c->variants.sharded = true;
    cluster_map_init(&c->map);
    c->map.node = mem_zalloc(2 * sizeof(c->map.node[0]));
    c->map.nodes_n = 2;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(c->map.node[i].id, sizeof(c->map.node[i].id), "%040u", i);
        c->map.node[i].slots_n = 1;
        memcpy(master[i].id, c->map.node[i].id, sizeof(master[i].id));
        master[i].cluster = master[i].poll.cluster = c;
        list_push_back(&c->masters, &master[i].node);
    }
    questions_n = events = 0;
    map_answers(0, 1);
}

static void
end(void)
{
    cluster_map_fini(&c->map);
    free(c);
}

static void
poll(uint64_t op)
{
    static const struct core_waiter_poll_name name[] = {{SLICE_LIT("a"), KIND_REENTRANT},
                                                        {SLICE_LIT("b"), KIND_REENTRANT}};

    questions_n = 0;
    cluster_poll(c, &(struct core_waiter_poll){.op = op, .name = name, .n = 2});
}

/* The master answers the question: its one channel has so many subscribers. */
static void
answer(unsigned question, int64_t n)
{
    struct reply channel = {.type = REPLY_TEXT, .text = SLICE_LIT("channel")}, number = {.type = REPLY_INT, .n = n};
    struct reply *item[] = {&channel, &number};
    struct reply whole = {.type = REPLY_ARRAY, .count = 2, .room = 2, .item = item};

    ck_assert_uint_lt(question, questions_n);
    questions[question].fn(questions[question].part, LINK_ANSWERED, &whole, 1);
}

START_TEST(each_master_is_asked_for_its_slots)
{
    ck_assert_uint_eq(slot_of((struct slice)SLICE_LIT("a")), SLOT_OF_A);
    ck_assert_uint_eq(slot_of((struct slice)SLICE_LIT("b")), SLOT_OF_B);
    poll(1);
    ck_assert_uint_eq(questions_n, 2);
    answer(0, 5);
    ck_assert_uint_eq(events, 0);
    answer(1, 7);
    ck_assert_uint_eq(events, 1);
    ck_assert_uint_eq(polled.polled.op, 1);
    ck_assert_uint_eq(polled.polled.n, 2);
    ck_assert_int_eq(subscribers[0], 5);
    ck_assert_int_eq(subscribers[1], 7);
}
END_TEST

/*
 * W5: a master reports 0 for a channel of a slot that it does not own, so 0 proves nothing if the slot has moved
 * meanwhile.
 */
START_TEST(a_slot_moves_meanwhile)
{
    poll(1);
    map_answers(1, 1);
    answer(0, 0);
    answer(1, 7);
    ck_assert_uint_eq(events, 0);
    poll(2); /* the next poll goes to the new master */
    ck_assert_uint_eq(questions_n, 1);
    ck_assert_ptr_eq(questions[0].part, &master[1].poll);
}
END_TEST

/* W5: nor does 0 prove anything if the slot has come back since, or has moved between the answers. */
START_TEST(a_slot_moves_and_comes_back)
{
    poll(1);
    answer(1, 7);
    map_answers(1, 1);
    map_answers(0, 1);
    answer(0, 0);
    ck_assert_uint_eq(events, 0);
}
END_TEST

/* A map without changes does not spoil the answers. */
START_TEST(the_same_map_comes_again)
{
    poll(1);
    map_answers(0, 1);
    answer(0, 0);
    answer(1, 0);
    ck_assert_uint_eq(events, 1);
}
END_TEST

START_TEST(a_master_does_not_answer)
{
    poll(1);
    answer(0, 5);
    questions[1].fn(questions[1].part, LINK_UNKNOWN, NULL, 1);
    ck_assert_uint_eq(events, 0);
    poll(2);
    ck_assert_uint_eq(questions_n, 2);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("cluster poll");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, each_master_is_asked_for_its_slots);
    tcase_add_test(t, a_slot_moves_meanwhile);
    tcase_add_test(t, a_slot_moves_and_comes_back);
    tcase_add_test(t, the_same_map_comes_again);
    tcase_add_test(t, a_master_does_not_answer);
    suite_add_tcase(s, t);
    return suite_run(s);
}
