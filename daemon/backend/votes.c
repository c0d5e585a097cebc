/*
 * votes.c -- which token a majority covers, until when a majority has the key, and the outcome of refusals.
 *
 * V1  A node counts once, by its own answer; commands in flight to it do not count.
 * V2  The token is the smallest answer that q nodes cover. If there is none, the q-th smallest answer is written back,
 *     only to nodes that voted, which accept it only if they have the owner's key.
 * V3  The deadline is the q-th largest of the nodes that cover the token, not of all that have the key.
 * V4  Whether a name is taken decides what the core does next. So a refusal waits while an answer to come may show that
 *     the name is taken.
 * V5  Likewise the outcome for a held name is not DOWN while answers to come may make it GONE.
 */
#include "daemon/backend/votes.h"

#include <assert.h>
#include <stddef.h>

#define AHEAD_MIN_US 1000     /* tokens further ahead of time than this are ahead because of reserves ... */
#define AHEAD_MAX_US 10000000 /* ... and beyond this because a clock was set back */

unsigned
votes_majority(unsigned n)
{
    return n / 2 + 1;
}

void
vote_begin(struct vote *v, unsigned n, uint32_t reserve, int64_t validity_us)
{
    assert(n >= 1 && n <= VOTES_NODES_MAX);
    *v = (struct vote){.nodes_n = n, .majority = votes_majority(n), .reserve = reserve, .validity_us = validity_us};
}

static struct ballot *
awaited(struct vote *v, unsigned node)
{
    assert(node < v->nodes_n && v->node[node].state == BALLOT_AWAITED);
    return &v->node[node];
}

void
vote_ok(struct vote *v, unsigned node, uint64_t answer, uint64_t token_clock, int64_t deadline_us)
{
    *awaited(v, node) = (struct ballot){
        .state = BALLOT_OK, .answer = answer, .token_clock = token_clock, .deadline_us = deadline_us, .pttl_us = -1};
}

void
vote_failed(struct vote *v, unsigned node, enum core_outcome outcome, int64_t pttl_us)
{
    *awaited(v, node) = (struct ballot){.state = BALLOT_FAILED, .outcome = outcome, .pttl_us = pttl_us};
}

void
vote_again(struct vote *v, unsigned node)
{
    assert(v->node[node].state != BALLOT_AWAITED && !v->node[node].raising);
    v->node[node] = (struct ballot){.state = BALLOT_AWAITED};
}

void
vote_raising(struct vote *v, unsigned node)
{
    assert(v->node[node].state == BALLOT_OK && !v->node[node].raising);
    v->node[node].raising = true;
}

void
vote_raised(struct vote *v, unsigned node, uint64_t token_clock)
{
    struct ballot *b = &v->node[node];

    assert(b->raising);
    b->raising = false;
    b->token_clock = token_clock > b->token_clock ? token_clock : b->token_clock;
}

void
vote_not_raised(struct vote *v, unsigned node, enum core_outcome outcome)
{
    assert(v->node[node].raising);
    v->node[node] = (struct ballot){.state = BALLOT_FAILED, .outcome = outcome, .pttl_us = -1};
}

static bool
covers(const struct ballot *b, uint64_t token)
{
    return b->state == BALLOT_OK && b->answer <= token && token <= b->token_clock;
}

static unsigned
covering(const struct vote *v, uint64_t token)
{
    unsigned n = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        n += covers(&v->node[i], token);
    }
    return n;
}

static unsigned
count(const struct vote *v, enum ballot_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        n += v->node[i].state == state;
    }
    return n;
}

static unsigned
count_failed(const struct vote *v, enum core_outcome outcome)
{
    unsigned n = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        n += v->node[i].state == BALLOT_FAILED && v->node[i].outcome == outcome;
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
votes_deadline(const int64_t *deadline_us, unsigned n)
{
    unsigned q = votes_majority(n);

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
votes_median(const int64_t *guess, unsigned n)
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
votes_proposal(uint64_t highest, int64_t time_us, uint32_t *reserve)
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

/* The smallest answer that q nodes cover; 0: q nodes cover no answer. */
static uint64_t
covered_token(const struct vote *v)
{
    uint64_t token = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        const struct ballot *b = &v->node[i];

        if (b->state == BALLOT_OK && (token == 0 || b->answer < token) && covering(v, b->answer) >= v->majority) {
            token = b->answer;
        }
    }
    return token;
}

/* The grant of a covered token. */
static struct vote_result
held(const struct vote *v, uint64_t token)
{
    struct vote_result r = {.step = VOTE_HELD, .token = token};
    int64_t deadline_us[VOTES_NODES_MAX] = {0};
    uint64_t token_clock[VOTES_NODES_MAX] = {0};

    for (unsigned i = 0; i < v->nodes_n; i++) {
        if (covers(&v->node[i], token)) {
            deadline_us[i] = v->node[i].deadline_us;
            token_clock[i] = v->node[i].token_clock;
        }
    }
    r.deadline_us = votes_deadline(deadline_us, v->nodes_n);
    r.ceiling = nth_smallest(token_clock, v->nodes_n, v->nodes_n + 1 - v->majority); /* the q-th largest */
    return r;
}

/* A majority has voted and covers no token: raises the voters below the q-th smallest answer. */
static struct vote_result
raise(const struct vote *v)
{
    struct vote_result r = {.step = VOTE_UNDECIDED};
    uint64_t answer[VOTES_NODES_MAX] = {0}, token;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        answer[i] = v->node[i].state == BALLOT_OK ? v->node[i].answer : UINT64_MAX;
    }
    token = nth_smallest(answer, v->nodes_n, v->majority);
    for (unsigned i = 0; i < v->nodes_n; i++) {
        const struct ballot *b = &v->node[i];

        if (b->state == BALLOT_OK && b->token_clock < token && !b->raising) {
            r.step = VOTE_RAISE;
            r.raise |= 1u << i;
        }
    }
    r.ceiling = token + v->reserve;
    return r;
}

/*
 * The time until another attempt may succeed: f nodes have voted for the owner; q nodes can when the keys of other
 * owners have expired on q - f nodes. -1: too few of these expiries are known.
 */
static int64_t
retry_us(const struct vote *v)
{
    uint64_t pttl[VOTES_NODES_MAX] = {0};
    unsigned free_n = 0;
    uint64_t at;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        const struct ballot *b = &v->node[i];

        pttl[i] = UINT64_MAX;
        free_n += b->state == BALLOT_OK;
        if (b->state == BALLOT_FAILED && (b->outcome == CORE_TAKEN || b->outcome == CORE_FOREIGN) && b->pttl_us >= 0) {
            pttl[i] = (uint64_t)b->pttl_us;
        }
    }
    if (free_n >= v->majority) {
        return 0;
    }
    at = nth_smallest(pttl, v->nodes_n, v->majority - free_n);
    return at == UINT64_MAX ? -1 : (int64_t)at;
}

static int64_t
longest_grace_us(const struct vote *v)
{
    int64_t us = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        const struct ballot *b = &v->node[i];

        if (b->state == BALLOT_FAILED && b->outcome == CORE_GRACE && b->pttl_us > us) {
            us = b->pttl_us;
        }
    }
    return us;
}

/*
 * The outcome of an attempt without a majority. If a majority answers OK, TAKEN or FOREIGN, the others are no reason
 * for DOWN. The outcome is never UNKNOWN, since the owner's key is released on all nodes before the next attempt.
 */
static struct vote_result
refused(const struct vote *v)
{
    struct vote_result r = {.step = VOTE_REFUSED, .outcome = CORE_DOWN, .pttl_us = -1};
    unsigned yes = count(v, BALLOT_OK), taken = count_failed(v, CORE_TAKEN), foreign = count_failed(v, CORE_FOREIGN);
    unsigned grace = count_failed(v, CORE_GRACE), most = v->nodes_n - v->majority;

    if (foreign > most) {
        r.outcome = CORE_FOREIGN;
        r.pttl_us = retry_us(v);
    } else if (count_failed(v, CORE_DENIED) > most) {
        r.outcome = CORE_DENIED;
    } else if (count_failed(v, CORE_FULL) > most) {
        r.outcome = CORE_FULL;
    } else if (taken + foreign > 0 && yes + taken + foreign >= v->majority) {
        r.outcome = CORE_TAKEN;
        r.pttl_us = retry_us(v);
    } else if (grace > 0 && yes + taken + foreign + grace >= v->majority) {
        r.outcome = CORE_GRACE;
        r.pttl_us = longest_grace_us(v);
    }
    return r;
}

/* V4 */
static bool
may_be_taken(const struct vote *v)
{
    unsigned awaited = count(v, BALLOT_AWAITED), yes = count(v, BALLOT_OK);

    return awaited > 0 &&
           yes + count_failed(v, CORE_TAKEN) + count_failed(v, CORE_FOREIGN) + awaited >= v->majority;
}

struct vote_result
vote_result(const struct vote *v, int64_t now_us)
{
    unsigned yes = count(v, BALLOT_OK);
    uint64_t token = covered_token(v);

    if (token != 0) {
        struct vote_result r = held(v, token);

        if (now_us + v->validity_us < r.deadline_us) {
            return r;
        }
    }
    if (count(v, BALLOT_FAILED) > v->nodes_n - v->majority) {
        struct vote_result r = refused(v);

        r.step = (r.outcome == CORE_DOWN || r.outcome == CORE_GRACE) && may_be_taken(v) ? VOTE_UNDECIDED : VOTE_REFUSED;
        return r;
    }
    if (token != 0) { /* too little of the lease is left, and later answers leave less */
        return (struct vote_result){.step = VOTE_REFUSED, .outcome = CORE_DOWN, .pttl_us = -1};
    }
    return yes >= v->majority ? raise(v) : (struct vote_result){.step = VOTE_UNDECIDED};
}

void
vote_limit(const struct vote *v, struct vote_result *r, int64_t known_us, int64_t now_us)
{
    if (r->step != VOTE_HELD) {
        return;
    }
    if (known_us <= now_us + v->validity_us) {
        *r = (struct vote_result){.step = VOTE_REFUSED, .outcome = CORE_DOWN, .pttl_us = -1};
    } else if (known_us < r->deadline_us) {
        r->deadline_us = known_us;
    }
}

/* ---- renewals and releases ---- */

/* The number of nodes on which the key is missing, or another owner's. */
static unsigned
count_gone(const struct vote *v)
{
    return count_failed(v, CORE_GONE_IN_REDIS) + count_failed(v, CORE_TAKEN) + count_failed(v, CORE_FOREIGN);
}

static enum core_outcome
why_not(const struct vote *v)
{
    static const enum core_outcome first[] = {CORE_UNKNOWN, CORE_GRACE, CORE_DOWN, CORE_FULL, CORE_DENIED};

    if (count_failed(v, CORE_FOREIGN) > v->nodes_n - v->majority) {
        return CORE_FOREIGN;
    }
    if (count_gone(v) > v->nodes_n - v->majority) {
        return CORE_GONE_IN_REDIS;
    }
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        if (count_failed(v, first[i]) > 0) {
            return first[i];
        }
    }
    return CORE_UNKNOWN;
}

/* V5 */
static bool
may_be_gone(const struct vote *v)
{
    unsigned gone = count_gone(v);

    return gone <= v->nodes_n - v->majority && gone + count(v, BALLOT_AWAITED) > v->nodes_n - v->majority;
}

bool
vote_confirmed(const struct vote *v, bool releases, enum core_outcome *outcome)
{
    unsigned ok = count(v, BALLOT_OK), gone = 0, graces = 0;

    if (releases) {
        gone = count_gone(v);
        graces = count_failed(v, CORE_GRACE);
    }
    if (count(v, BALLOT_FAILED) - gone - graces > v->nodes_n - v->majority) {
        if (!releases && may_be_gone(v)) {
            return false;
        }
        *outcome = why_not(v);
    } else if (gone > v->nodes_n - v->majority) { /* the owner has no majority any more */
        *outcome = CORE_GONE_IN_REDIS;
    } else if (ok >= v->majority) {
        *outcome = CORE_OK;
    } else if (count(v, BALLOT_AWAITED) > 0) {
        return false;
    } else {
        /* A release. Of anything else q nodes are OK or more than N - q have failed: that is decided above. */
        *outcome = ok > 0 ? CORE_OK : gone == 0 ? CORE_GRACE : CORE_GONE_IN_REDIS;
    }
    return true;
}
