/*
 * test_quorum_admit.c -- which answers let a node of a quorum vote (A1 of quorum_admit.c).
 *
 * quorum_admit.c is compiled into this file: the questions to the nodes stay here until the test answers them.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/quorum_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "suite.h"

#ifdef RLOCKD_TEST_CLOCK

enum { NODES = 3 };

/* The last question to each node; its answer comes by any link, also after the answers to later questions. */
struct question {
    link_reply_fn *fn;
    void *arg;
    int64_t sent_us;
};

static struct question asked[NODES];
static struct log quiet = {.level = LOG_ERROR};

/* Test nodes have no shards: `shard` points to the question. */
static bool
keep_question(struct shard *sh, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    (void)words;
    (void)word;
    *(struct question *)(void *)sh = (struct question){fn, arg, clock_now_us()};
    return true;
}

static int64_t
a_minute(const struct shard *sh)
{
    (void)sh;
    return 60 * US_PER_S;
}

static void
of_shard(struct shard *sh)
{
    (void)sh;
}

static void
of_quorum(struct quorum *q)
{
    (void)q;
}

#define shard_ask keep_question
#define shard_longest_us a_minute
#define shard_fail_asked of_shard
#define quorum_find_twins of_quorum
#define quorum_voting_changed of_quorum
#define quorum_loss_changed of_quorum
#define quorum_servers_changed of_quorum
#define quorum_wake of_quorum
#include "daemon/backend/quorum_admit.c"
#undef shard_ask
#undef shard_longest_us
#undef shard_fail_asked
#undef quorum_find_twins
#undef quorum_voting_changed
#undef quorum_loss_changed
#undef quorum_servers_changed
#undef quorum_wake

static struct link_address address = {.shown = "node"};
static struct quorum *tested;

static void
begin(void)
{
    clock_stop(true);
    tested = mem_zalloc(sizeof(*tested));
    tested->env.log = &quiet;
    tested->conf.timeout_us = US_PER_S;
    tested->nodes_n = NODES;
    tested->majority = 2;
    for (unsigned i = 0; i < NODES; i++) {
        tested->node[i] = (struct quorum_node){
            .of = tested, .index = i, .up = true, .address = &address, .shard = (struct shard *)(void *)&asked[i]};
    }
}

static void
over(void)
{
    free(tested);
}

/* The node was registered, and is in this epoch: the notes of enter_epoch() in quorum.c. */
static void
enter(struct quorum_node *node, uint64_t epoch)
{
    node->epoch = epoch;
    node->epoch_us = clock_now_us();
}

/* The node answers that it is established in this epoch. */
static void
answer(struct question q, const char *epoch)
{
    struct reply item[FIELDS] = {{.type = REPLY_TEXT, .text = slice_of(epoch)},
                                 {.type = REPLY_INT, .n = 1},
                                 {.type = REPLY_INT, .n = 42}};
    struct reply *items[FIELDS] = {&item[0], &item[1], &item[2]};

    q.fn(q.arg, LINK_ANSWERED, &(struct reply){.type = REPLY_ARRAY, .count = FIELDS, .item = items}, q.sent_us);
}

/*
 * Only the question after the registration raises the node's token clocks. The one before may have left by another
 * link, and its answer comes later.
 */
START_TEST(a_question_before_the_registration_gives_no_vote)
{
    struct quorum_node *node = &tested->node[0];

    quorum_begin_round(tested);
    clock_advance_us(1);
    enter(node, 7);
    answer(asked[0], "7 ");
    ck_assert(!node->voting);
    ck_assert(!node->answered);

    answer(asked[1], "");
    answer(asked[2], "");
    quorum_begin_round(tested);
    answer(asked[0], "7 ");
    ck_assert(node->answered);
    ck_assert(node->voting);
}
END_TEST

/* The node has lost its data since the question, and was registered again. */
START_TEST(an_answer_of_another_epoch_gives_no_vote)
{
    struct quorum_node *node = &tested->node[0];

    enter(node, 7);
    quorum_begin_round(tested);
    answer(asked[0], "6 ");
    ck_assert(!node->voting);
    ck_assert(!node->answered);
    answer(asked[1], "");
    answer(asked[2], "");
    quorum_begin_round(tested);
    answer(asked[0], "7 ");
    ck_assert(node->voting);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {a_question_before_the_registration_gives_no_vote,
                                  an_answer_of_another_epoch_gives_no_vote};

    return suite_main_with("quorum admit", tests, sizeof(tests) / sizeof(tests[0]), begin, over);
}

#else

int
main(void)
{
    return 0; /* the test needs RLOCKD_TEST_CLOCK */
}

#endif
