/*
 * tally.c -- which token a majority covers, until when a majority has the key, and the outcome of refusals.
 *
 * V1  A node counts once, by its own answer; commands in flight to it do not count.
 * V2  The token is the smallest vote that q nodes cover. If there is none, the q-th smallest vote is written back, only
 *     to nodes that voted, which accept it only if they have the owner's key.
 * V3  The deadline is the q-th largest of the nodes that cover the token, not of all that have the key.
 * V4  Whether a name is taken decides what the core does next. So a refusal waits while an answer to come may show that
 *     the name is taken.
 * V5  Likewise the outcome for a held name is not DOWN while answers to come may make it GONE.
 */
#include "daemon/backend/tally.h"

#include <assert.h>
#include <stddef.h>

#define AHEAD_MIN_US 1000     /* tokens further ahead of time than this are ahead because of reserves ... */
#define AHEAD_MAX_US 10000000 /* ... and beyond this because a clock was set back */

unsigned
tally_majority(unsigned n)
{
    return n / 2 + 1;
}

void
tally_begin(struct tally *t, unsigned n, uint32_t reserve, int64_t validity_us)
{
    assert(n >= 1 && n <= TALLY_NODES_MAX);
    *t = (struct tally){.nodes_n = n, .majority = tally_majority(n), .reserve = reserve, .validity_us = validity_us};
}

static struct tally_node *
awaited(struct tally *t, unsigned node)
{
    assert(node < t->nodes_n && t->node[node].state == TALLY_NODE_AWAITED);
    return &t->node[node];
}

void
tally_ok(struct tally *t, unsigned node, uint64_t vote, uint64_t token_clock, int64_t deadline_us)
{
    *awaited(t, node) = (struct tally_node){
        .state = TALLY_NODE_OK, .vote = vote, .token_clock = token_clock, .deadline_us = deadline_us, .pttl_us = -1};
}

void
tally_failed(struct tally *t, unsigned node, enum core_outcome outcome, int64_t pttl_us)
{
    *awaited(t, node) = (struct tally_node){.state = TALLY_NODE_FAILED, .outcome = outcome, .pttl_us = pttl_us};
}

void
tally_again(struct tally *t, unsigned node)
{
    assert(t->node[node].state != TALLY_NODE_AWAITED && !t->node[node].raising);
    t->node[node] = (struct tally_node){.state = TALLY_NODE_AWAITED};
}

void
tally_raising(struct tally *t, unsigned node)
{
    assert(t->node[node].state == TALLY_NODE_OK && !t->node[node].raising);
    t->node[node].raising = true;
}

void
tally_raised(struct tally *t, unsigned node, uint64_t token_clock)
{
    struct tally_node *b = &t->node[node];

    assert(b->raising);
    b->raising = false;
    b->token_clock = token_clock > b->token_clock ? token_clock : b->token_clock;
}

void
tally_not_raised(struct tally *t, unsigned node, enum core_outcome outcome)
{
    assert(t->node[node].raising);
    t->node[node] = (struct tally_node){.state = TALLY_NODE_FAILED, .outcome = outcome, .pttl_us = -1};
}

static bool
covers(const struct tally_node *b, uint64_t token)
{
    return b->state == TALLY_NODE_OK && b->vote <= token && token <= b->token_clock;
}

static unsigned
covering(const struct tally *t, uint64_t token)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        n += covers(&t->node[i], token);
    }
    return n;
}

static unsigned
count(const struct tally *t, enum tally_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        n += t->node[i].state == state;
    }
    return n;
}

static unsigned
count_failed(const struct tally *t, enum core_outcome outcome)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        n += t->node[i].state == TALLY_NODE_FAILED && t->node[i].outcome == outcome;
    }
    return n;
}

/* The q-th smallest. */
static uint64_t
nth_smallest(const uint64_t *number, unsigned n, unsigned q)
{
    assert(q >= 1 && q <= n);
    for (unsigned i = 0; i < n; i++) {
        unsigned below = 0, same = 0;

        for (unsigned k = 0; k < n; k++) {
            below += number[k] < number[i];
            same += number[k] == number[i];
        }
        if (below < q && q <= below + same) {
            return number[i];
        }
    }
    return 0; /* not reached: one of the numbers is the q-th */
}

int64_t
tally_deadline(const int64_t *deadline_us, unsigned n)
{
    unsigned q = tally_majority(n);

    for (unsigned i = 0; i < n; i++) {
        unsigned above = 0, same = 0;

        for (unsigned k = 0; k < n; k++) {
            above += deadline_us[k] > deadline_us[i];
            same += deadline_us[k] == deadline_us[i];
        }
        if (above < q && q <= above + same) {
            return deadline_us[i];
        }
    }
    return 0;
}

int64_t
tally_median(const int64_t *guess, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned below = 0, same = 0;

        for (unsigned k = 0; k < n; k++) {
            below += guess[k] < guess[i];
            same += guess[k] == guess[i];
        }
        if (below <= (n - 1) / 2 && (n - 1) / 2 < below + same) {
            return guess[i];
        }
    }
    return 0;
}

uint64_t
tally_propose(uint64_t highest, int64_t time_us, uint32_t *reserve)
{
    uint64_t time = time_us > 0 ? (uint64_t)time_us : 0;

    if (highest < time) {
        return time;
    }
    if (highest - time > AHEAD_MIN_US && highest - time < AHEAD_MAX_US) {
        *reserve = 0;
    }
    return highest + 1;
}

/* ---- an attempt ---- */

/* The smallest vote that q nodes cover; 0: q nodes cover no vote. */
static uint64_t
covered_token(const struct tally *t)
{
    uint64_t token = 0;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        const struct tally_node *b = &t->node[i];

        if (b->state == TALLY_NODE_OK && (token == 0 || b->vote < token) && covering(t, b->vote) >= t->majority) {
            token = b->vote;
        }
    }
    return token;
}

/* The grant of a covered token. */
static struct tally_result
held(const struct tally *t, uint64_t token)
{
    struct tally_result r = {.step = TALLY_HELD, .token = token};
    int64_t deadline_us[TALLY_NODES_MAX] = {0};
    uint64_t token_clock[TALLY_NODES_MAX] = {0};

    for (unsigned i = 0; i < t->nodes_n; i++) {
        if (covers(&t->node[i], token)) {
            deadline_us[i] = t->node[i].deadline_us;
            token_clock[i] = t->node[i].token_clock;
        }
    }
    r.deadline_us = tally_deadline(deadline_us, t->nodes_n);
    r.ceiling = nth_smallest(token_clock, t->nodes_n, t->nodes_n + 1 - t->majority); /* the q-th largest */
    return r;
}

/* A majority has voted and covers no token: raises the voters below the q-th smallest vote. */
static struct tally_result
raise(const struct tally *t)
{
    struct tally_result r = {.step = TALLY_UNDECIDED};
    uint64_t vote[TALLY_NODES_MAX] = {0}, token;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        vote[i] = t->node[i].state == TALLY_NODE_OK ? t->node[i].vote : UINT64_MAX;
    }
    token = nth_smallest(vote, t->nodes_n, t->majority);
    for (unsigned i = 0; i < t->nodes_n; i++) {
        const struct tally_node *b = &t->node[i];

        if (b->state == TALLY_NODE_OK && b->token_clock < token && !b->raising) {
            r.step = TALLY_RAISE;
            r.raise |= 1u << i;
        }
    }
    r.ceiling = token + t->reserve;
    return r;
}

/*
 * The time until another attempt may succeed: f nodes have voted for the owner; q nodes can when the keys of other
 * owners have expired on q - f nodes. -1: too few of these expiries are known.
 */
static int64_t
retry_us(const struct tally *t)
{
    uint64_t pttl[TALLY_NODES_MAX] = {0};
    unsigned free_n = 0;
    uint64_t at;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        const struct tally_node *b = &t->node[i];

        pttl[i] = UINT64_MAX;
        free_n += b->state == TALLY_NODE_OK;
        if (b->state == TALLY_NODE_FAILED && (b->outcome == CORE_TAKEN || b->outcome == CORE_FOREIGN) &&
            b->pttl_us >= 0) {
            pttl[i] = (uint64_t)b->pttl_us;
        }
    }
    if (free_n >= t->majority) {
        return 0;
    }
    at = nth_smallest(pttl, t->nodes_n, t->majority - free_n);
    return at == UINT64_MAX ? -1 : (int64_t)at;
}

static int64_t
longest_grace_us(const struct tally *t)
{
    int64_t us = 0;

    for (unsigned i = 0; i < t->nodes_n; i++) {
        const struct tally_node *b = &t->node[i];

        if (b->state == TALLY_NODE_FAILED && b->outcome == CORE_GRACE && b->pttl_us > us) {
            us = b->pttl_us;
        }
    }
    return us;
}

/*
 * The outcome of an attempt without a majority. If a majority answers OK, TAKEN or FOREIGN, the others are no reason
 * for DOWN. The outcome is never UNKNOWN, since the owner's key is released on all nodes before the next attempt.
 */
static struct tally_result
refused(const struct tally *t)
{
    struct tally_result r = {.step = TALLY_REFUSED, .outcome = CORE_DOWN, .pttl_us = -1};
    unsigned yes = count(t, TALLY_NODE_OK), taken = count_failed(t, CORE_TAKEN);
    unsigned foreign = count_failed(t, CORE_FOREIGN);
    unsigned grace = count_failed(t, CORE_GRACE), most = t->nodes_n - t->majority;

    if (foreign > most) {
        r.outcome = CORE_FOREIGN;
        r.pttl_us = retry_us(t);
    } else if (count_failed(t, CORE_DENIED) > most) {
        r.outcome = CORE_DENIED;
    } else if (count_failed(t, CORE_FULL) > most) {
        r.outcome = CORE_FULL;
    } else if (taken + foreign > 0 && yes + taken + foreign >= t->majority) {
        r.outcome = CORE_TAKEN;
        r.pttl_us = retry_us(t);
    } else if (grace > 0 && yes + taken + foreign + grace >= t->majority) {
        r.outcome = CORE_GRACE;
        r.pttl_us = longest_grace_us(t);
    }
    return r;
}

/* V4 */
static bool
may_be_taken(const struct tally *t)
{
    unsigned awaited = count(t, TALLY_NODE_AWAITED), yes = count(t, TALLY_NODE_OK);

    return awaited > 0 &&
           yes + count_failed(t, CORE_TAKEN) + count_failed(t, CORE_FOREIGN) + awaited >= t->majority;
}

struct tally_result
tally_result(const struct tally *t, int64_t now_us)
{
    unsigned yes = count(t, TALLY_NODE_OK);
    uint64_t token = covered_token(t);

    if (token != 0) {
        struct tally_result r = held(t, token);

        if (now_us + t->validity_us < r.deadline_us) {
            return r;
        }
    }
    if (count(t, TALLY_NODE_FAILED) > t->nodes_n - t->majority) {
        struct tally_result r = refused(t);

        r.step = (r.outcome == CORE_DOWN || r.outcome == CORE_GRACE) && may_be_taken(t) ? TALLY_UNDECIDED
                                                                                        : TALLY_REFUSED;
        return r;
    }
    if (token != 0) { /* too little of the lease is left to wait for an answer that may leave more */
        return (struct tally_result){.step = TALLY_REFUSED, .outcome = CORE_DOWN, .pttl_us = -1};
    }
    return yes >= t->majority ? raise(t) : (struct tally_result){.step = TALLY_UNDECIDED};
}

void
tally_limit(const struct tally *t, struct tally_result *r, int64_t known_us, int64_t now_us)
{
    if (r->step != TALLY_HELD) {
        return;
    }
    if (known_us <= now_us + t->validity_us) {
        *r = (struct tally_result){.step = TALLY_REFUSED, .outcome = CORE_DOWN, .pttl_us = -1};
    } else if (known_us < r->deadline_us) {
        r->deadline_us = known_us;
    }
}

/* ---- renewals and releases ---- */

/* The number of nodes on which the key is missing, or another owner's. */
static unsigned
count_gone(const struct tally *t)
{
    return count_failed(t, CORE_GONE_IN_REDIS) + count_failed(t, CORE_TAKEN) + count_failed(t, CORE_FOREIGN);
}

static enum core_outcome
why_not(const struct tally *t)
{
    static const enum core_outcome first[] = {CORE_UNKNOWN, CORE_GRACE, CORE_DOWN, CORE_FULL, CORE_DENIED};

    if (count_failed(t, CORE_FOREIGN) > t->nodes_n - t->majority) {
        return CORE_FOREIGN;
    }
    if (count_gone(t) > t->nodes_n - t->majority) {
        return CORE_GONE_IN_REDIS;
    }
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        if (count_failed(t, first[i]) > 0) {
            return first[i];
        }
    }
    return CORE_UNKNOWN;
}

/* V5 */
static bool
may_be_gone(const struct tally *t)
{
    unsigned gone = count_gone(t);

    return gone <= t->nodes_n - t->majority && gone + count(t, TALLY_NODE_AWAITED) > t->nodes_n - t->majority;
}

bool
tally_confirmed(const struct tally *t, bool releases, enum core_outcome *outcome)
{
    unsigned ok = count(t, TALLY_NODE_OK), gone = 0, graces = 0;

    if (releases) {
        gone = count_gone(t);
        graces = count_failed(t, CORE_GRACE);
    }
    if (count(t, TALLY_NODE_FAILED) - gone - graces > t->nodes_n - t->majority) {
        if (!releases && may_be_gone(t)) {
            return false;
        }
        *outcome = why_not(t);
    } else if (gone > t->nodes_n - t->majority) { /* the owner has no majority any more */
        *outcome = CORE_GONE_IN_REDIS;
    } else if (ok >= t->majority) {
        *outcome = CORE_OK;
    } else if (count(t, TALLY_NODE_AWAITED) > 0) {
        return false;
    } else {
        /* A release. Of anything else q nodes are OK or more than N - q have failed: that is decided above. */
        *outcome = ok > 0 ? CORE_OK : gone == 0 ? CORE_GRACE : CORE_GONE_IN_REDIS;
    }
    return true;
}
