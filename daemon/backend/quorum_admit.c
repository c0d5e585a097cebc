/*
 * quorum_admit.c -- which nodes vote: a node that has lost its data is in quarantine, then raised, then admitted.
 *
 * A key in a node's own data makes the node established (rlock:quorum, scripts/quorum.lua): all daemons read the same
 * key, and a loss of data loses it, too. Rounds ask all nodes until all that are up vote, and begin anew when one comes
 * up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/quorum_private.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"

/*
 * A1  A node votes when it reports, in the epoch that this daemon knows, that it is established. The question leaves,
 *     by any link, after the registration in that epoch was answered. So scripts/quorum.lua raises the clocks to the
 *     highest token that this daemon knew when it registered.
 * A2  A node is admitted when its quarantine is over: the longest lease that a daemon renews, and a timeout for
 *     commands in flight. It begins when this daemon learns of the epoch, and is counted by the daemon's clock, since
 *     the node's may be set. Clients of other libraries are assumed to have no longer leases. Reclaims end no
 *     quarantine: these clients make none, and not all daemons may be known (membership.lua).
 * A3  Before a node is admitted, all its token clocks are raised to the highest one of q other established nodes, each
 *     read in a round that began after the quarantine. So the node votes above every token that it covered before the
 *     loss (counterexample 2 of tests/unit/test_tally.c).
 * A4  If there are not q such others, because too many have lost their data, all nodes must answer, and the node must
 *     be past its quarantine; then the highest clock of all nodes counts. Tokens rise as with one Redis that was
 *     emptied: by the time, and by the highest tokens that daemons know.
 * A5  If all nodes answer, none is established and none is in a grace period (membership.lua), the quorum is new: its
 *     nodes are admitted without a quarantine, except in strict mode.
 * A6  If a clock in a node's answer is no token, the answer is ignored, the link by which questions leave is dropped,
 *     and the node does not vote before it answers a token: other links to it may stay up, so it does not go down.
 */

enum { EPOCH, ESTABLISHED, CLOCK, FIELDS, ROUND_PAUSE_US = 250 * 1000 };

#define TOKENS_END (INT64_C(1) << 53)

/* The length of a quarantine, with a margin for clocks of other rates. */
static int64_t
quarantine_us(const struct quorum *qu)
{
    int64_t longest_us = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        int64_t us = shard_longest_us(qu->node[i].shard);

        longest_us = us > longest_us ? us : longest_us;
    }
    return longest_us + longest_us / 50 + qu->conf.timeout_us;
}

static bool
is_answer(const struct reply *r)
{
    return r->type == REPLY_ARRAY && r->count == FIELDS && r->item[EPOCH]->type == REPLY_TEXT &&
           r->item[EPOCH]->text.n < NODE_EPOCH_ROOM && r->item[ESTABLISHED]->type == REPLY_INT &&
           r->item[CLOCK]->type == REPLY_INT && r->item[CLOCK]->n >= 0 && r->item[CLOCK]->n < TOKENS_END;
}

/* In a grace period the value of rlock:epoch has the end of that period behind a second blank (membership.lua). */
static bool
is_value_of_grant(const char *epoch_value)
{
    const char *first = strchr(epoch_value, ' ');

    return first != NULL && strchr(first + 1, ' ') == NULL;
}

/* Takes the answer of a node. Ignores it in an unknown epoch, which the next registration will show. A1. */
static void
take(struct quorum_node *node, const struct reply *r, int64_t sent_us)
{
    struct quorum *qu = node->of;
    int64_t since_us = clock_now_us() - node->epoch_us, lasts_us = quarantine_us(qu);
    struct slice text = r->item[EPOCH]->text;

    if (node->epoch == 0 || strtoull(text.p, NULL, 10) != node->epoch || sent_us < node->epoch_us) {
        return;
    }
    snprintf(node->epoch_value, sizeof(node->epoch_value), "%.*s", (int)text.n, text.p);
    node->answered = node->in_round = true;
    node->established = r->item[ESTABLISHED]->n == 1;
    node->granting = is_value_of_grant(node->epoch_value);
    node->clock = (uint64_t)r->item[CLOCK]->n;
    node->remaining_us = since_us < lasts_us ? lasts_us - since_us : 0;
    if (node->established && node->admitting) {
        log_event(qu->env.log, LOG_INFO, "redis", "node admitted", "address", LOG_S(node->address->shown), "epoch",
                  LOG_N(node->epoch), "clock", LOG_N(node->clock), NULL);
    }
    if (node->established) {
        node->admitting = false;
        node->script_error[0] = '\0';
    }
    if (node->voting != node->established) {
        log_event(qu->env.log, LOG_INFO, "redis", node->established ? "node votes" : "node does not vote", "address",
                  LOG_S(node->address->shown), "epoch", LOG_N(node->epoch), NULL);
    }
    node->voting = node->established;
}

/* The node has answered an error: for example, it is full and cannot be admitted. Logs the first of such answers. */
static void
note_error(struct quorum_node *node, struct slice error)
{
    bool known = node->script_error[0] != '\0';
    char text[TEXT_ERROR_ROOM];

    text_print(node->script_error, sizeof(node->script_error), slice_of(text_error(text, error, node->address)));
    if (!known) {
        log_event(node->of->env.log, LOG_WARN, "redis",
                  node->admitting ? "node cannot be admitted" : "node has not answered whether it votes", "address",
                  LOG_S(node->address->shown), "reason", LOG_S(node->script_error), NULL);
    }
    node->admitting = false;
}

static void on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us);

static bool
ask(struct quorum_node *node, const char *epoch, uint64_t clock)
{
    struct slice word[8] = {SLICE_LIT("EVAL"),         slice_of(call_other_text(OTHER_QUORUM)),
                            SLICE_LIT("3"),            SLICE_LIT(CALL_CLOCK_KEY),
                            SLICE_LIT(CALL_EPOCH_KEY), SLICE_LIT("rlock:quorum"),
                            slice_of(epoch),           {NULL, 0}};
    char number[24];

    snprintf(number, sizeof(number), "%" PRIu64, clock);
    word[7] = slice_of(number);
    return shard_ask(node->shard, 8, word, on_answer, node);
}

/* A3, A4, A5: the token that the node's clock has to reach. False: the node cannot be admitted now. */
static bool
may_admit(const struct quorum *qu, const struct quorum_node *node, uint64_t *clock)
{
    unsigned established = 0, answered = 0, granting = 0;
    uint64_t of_established = 0, of_all = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct quorum_node *other = &qu->node[i];

        answered += other->in_round;
        granting += other->in_round && other->granting;
        of_all = other->in_round && other->clock > of_all ? other->clock : of_all;
        if (other != node && other->in_round && other->established) {
            established++;
            of_established = other->clock > of_established ? other->clock : of_established;
        }
    }
    *clock = established >= qu->majority ? of_established : of_all;
    if (established >= qu->majority) {
        return node->quarantine_was_over;
    }
    return answered == qu->nodes_n &&
           (node->quarantine_was_over || (established == 0 && granting == qu->nodes_n && !qu->conf.strict));
}

/* No script of the round is in flight any more: admits nodes, and sets the time of the next round. */
static void
round_over(struct quorum *qu)
{
    bool all = true;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_node *node = &qu->node[i];
        uint64_t clock;

        if (node->in_round && !node->established && node->granting && may_admit(qu, node, &clock)) {
            node->admitting = ask(node, node->epoch_value, clock);
        }
        all = all && (!node->up || node->voting);
    }
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        qu->node[i].quarantine_was_over = qu->node[i].in_round && qu->node[i].remaining_us == 0;
    }
    qu->round_us = all ? CORE_FOREVER : clock_now_us() + ROUND_PAUSE_US;
    quorum_servers_changed(qu);
    quorum_wake(qu);
}

static void
on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct quorum_node *node = arg;
    struct quorum *qu = node->of;

    if (result == LINK_ANSWERED && is_answer(r)) {
        take(node, r, sent_us);
        quorum_voting_changed(qu);
        quorum_loss_changed(qu);
    } else if (result == LINK_ANSWERED && r->type == REPLY_ERROR) {
        note_error(node, r->text);
    } else if (result == LINK_ANSWERED) { /* A6 */
        node->voting = false;
        quorum_voting_changed(qu);
        shard_fail_asked(node->shard);
    }
    if (node->asked) {
        node->asked = false;
        if (--qu->asked_n == 0) {
            round_over(qu);
        }
    }
}

void
quorum_begin_round(struct quorum *qu)
{
    qu->round_us = clock_now_us() + 2 * qu->conf.timeout_us;
    if (qu->asked_n > 0) {
        return;
    }
    quorum_find_twins(qu);
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_node *node = &qu->node[i];

        node->in_round = false;
        node->asked = node->up && ask(node, "", 0);
        qu->asked_n += node->asked;
    }
}
