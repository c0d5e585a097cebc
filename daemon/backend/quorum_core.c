/*
 * quorum_core.c -- the events that a quorum posts to the core: that a majority is up, or votes, or that a node may have
 * lost held locks.
 *
 * QC1 A server counts once, even if several addresses name it.
 */
#include <event2/event.h>
#include <string.h>

#include "daemon/backend/quorum_private.h"
#include "daemon/base/clock.h"

void
quorum_post(const struct quorum *qu, const struct core_event *ev)
{
    qu->env.post(qu->env.ctx, ev);
}

void
quorum_post_inspected(const struct quorum *qu, uint64_t id, const struct inspected_key *found)
{
    qu->env.inspected(qu->env.ctx, id, found);
}

int64_t
quorum_random(struct quorum *qu, int64_t n)
{
    qu->random = qu->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((qu->random >> 33) % (uint64_t)n);
}

void
quorum_wake(struct quorum *qu)
{
    event_active(qu->due, EV_TIMEOUT, 0);
}

/* ---- majorities ---- */

unsigned
quorum_voting(const struct quorum *qu)
{
    unsigned n = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        n += qu->node[i].up && qu->node[i].voting;
    }
    return n;
}

unsigned
quorum_up(const struct quorum *qu)
{
    unsigned n = 0;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        n += qu->node[i].up;
    }
    return n;
}

/* After a start nodes are admitted one by one, which is no reason to warn. */
static void
log_voting(struct quorum *qu, unsigned voting)
{
    bool first = qu->startup_until_us != 0;

    if (first && voting <= qu->majority && clock_now_us() < qu->startup_until_us) {
        return;
    }
    if (first || (voting != qu->voting_n && (voting <= qu->majority || qu->voting_n <= qu->majority))) {
        log_event(qu->env.log, voting > qu->majority ? LOG_INFO : LOG_WARN, "redis",
                  voting > qu->majority    ? "spare nodes vote"
                  : voting == qu->majority ? "no spare node votes"
                                    : "no majority votes",
                  "voting", LOG_N(voting), "of", LOG_N(qu->nodes_n), NULL);
    }
    qu->voting_n = voting;
    qu->startup_until_us = 0;
}

void
quorum_voting_changed(struct quorum *qu)
{
    unsigned voting = quorum_voting(qu);
    bool enough = voting >= qu->majority;

    log_voting(qu, voting);
    if (enough && !qu->enough_vote) {
        quorum_post(qu, &(struct core_event){.type = CORE_GRACE_OVER});
    }
    qu->enough_vote = enough;
}

/*
 * Q4. Posts RECLAIM when a majority has answered for the first time, for locks of a former process, and then whenever
 * another node is found not to vote. The reclaim sets the keys of held locks on that node during its quarantine, since
 * another node may fail before a renewal would repair the node; and a lease without renewals may even be longer than
 * the quarantine.
 */
void
quorum_loss_changed(struct quorum *qu)
{
    unsigned known = 0;
    bool more = false;

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const struct quorum_node *node = &qu->node[i];
        bool is_lost = node->answered && !node->voting;

        known += node->answered;
        more = more || (is_lost && node->lost_epoch != node->epoch);
    }
    if (qu->epoch == 0 ? known < qu->majority : !more) {
        return;
    }
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_node *node = &qu->node[i];

        qu->epoch = node->epoch > qu->epoch ? node->epoch : qu->epoch;
        node->lost_epoch = node->answered && !node->voting ? node->epoch : node->lost_epoch;
    }
    qu->epoch++;
    quorum_post(qu, &(struct core_event){.type = CORE_RECLAIM, .epoch = qu->epoch});
}

/* An earlier node that is the same server. NULL: none is known; both need a link that is up, and a known run_id. */
static const struct quorum_node *
twin_of(const struct quorum *qu, const struct quorum_node *node)
{
    const char *server = shard_run_id(node->shard);

    for (unsigned i = 0; i < node->index && node->linked && server[0] != '\0'; i++) {
        if (qu->node[i].linked && strcmp(shard_run_id(qu->node[i].shard), server) == 0) {
            return &qu->node[i];
        }
    }
    return NULL;
}

/*
 * QC1: otherwise one server that fails could be a majority of the nodes, while the log reports that spare nodes vote.
 */
void
quorum_find_twins(struct quorum *qu)
{
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        struct quorum_node *node = &qu->node[i];
        const struct quorum_node *twin = twin_of(qu, node);

        if (twin != NULL && node->twin == NULL) {
            log_event(qu->env.log, LOG_ERROR, "redis", "two nodes of the quorum are the same server", "address",
                      LOG_S(node->address->shown), "counts", LOG_S(twin->address->shown), NULL);
        }
        node->twin = twin;
        node->up = node->linked && twin == NULL;
    }
}

void
quorum_up_changed(struct quorum_node *node, bool up)
{
    struct quorum *qu = node->of;
    bool majority;

    node->linked = up;
    node->subscribed = node->subscribed && up;
    quorum_find_twins(qu);
    majority = quorum_up(qu) >= qu->majority;
    if (majority != qu->up) {
        qu->up = majority;
        qu->env.state(qu->env.ctx, majority);
    }
    quorum_voting_changed(qu);
    qu->round_us = 0;
    quorum_wake(qu);
}

void
quorum_subscribed(struct quorum_node *node)
{
    const struct quorum *qu = node->of;
    uint32_t n = 0;

    if (node->subscribed) {
        return;
    }
    node->subscribed = true;
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        n += qu->node[i].subscribed;
    }
    if (n == qu->majority && qu->env.subscribed != NULL) {
        qu->env.subscribed(qu->env.ctx);
    }
}

void
quorum_shared_changed(struct quorum_node *node, bool is_shared)
{
    struct quorum *qu = node->of;
    bool any = false;

    node->shared = is_shared;
    for (unsigned i = 0; i < qu->nodes_n; i++) {
        any = any || qu->node[i].shared;
    }
    if (any != qu->shared && qu->env.others_changed != NULL) {
        qu->env.others_changed(qu->env.ctx, any);
    }
    qu->shared = any;
}
