/*
 * votes.h -- one operation on N independent nodes: what their answers come to. Pure: no link, no clock.
 *
 * A node *covers* a token when it has answered at most the token, and its counter reached the token while our key was
 * there. A token is told only when a majority q = N/2 + 1 covers it: two owners of a name then share a covering node,
 * and the later one's token is larger. No clock is part of that. The rule, and what goes wrong with plainer ones:
 * tests/models/quorum.pml, tests/unit/test_votes.c.
 */
#ifndef RLOCKD_BACKEND_VOTES_H
#define RLOCKD_BACKEND_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/events.h"

enum { VOTES_NODES_MAX = 9 };

enum ballot_state {
    BALLOT_AWAITED,  /* asked, or about to be */
    BALLOT_OK,       /* our key is there */
    BALLOT_FAILED,   /* `outcome` says why */
};

/* What one node has said. Times by our clock, in us. */
struct ballot {
    enum ballot_state state;
    enum core_outcome outcome; /* FAILED */
    bool raising;              /* a write-back is on its way to it */
    uint64_t answer;           /* OK: the token that it gave, which is larger than all before it there */
    uint64_t counter;          /* OK: what its counter reached while our key was there, at least */
    int64_t deadline_us;       /* OK: our key is there until then at least */
    int64_t pttl_us;           /* FAILED: TAKEN, FOREIGN, GRACE; -1 = not known */
};

struct vote {
    unsigned n, q;            /* nodes, and a majority of them */
    uint32_t reserve;            /* tokens that are wanted behind the one that is told */
    int64_t validity_us;      /* so much must be left when it is told */
    struct ballot node[VOTES_NODES_MAX];
};

enum vote_step {
    VOTE_OPEN,    /* more answers have to come */
    VOTE_RAISE,   /* the counters of the nodes `raise` have to be raised to `ceiling`, if our key is there */
    VOTE_HELD,    /* token, ceiling, deadline_us */
    VOTE_REFUSED, /* outcome, pttl_us: our key has to be taken back from all nodes */
};

struct vote_result {
    enum vote_step step;
    uint64_t token;
    uint64_t ceiling;      /* HELD: tokens up to it are covered as well */
    int64_t deadline_us;   /* HELD: until then no other owner can have a majority */
    uint32_t raise;        /* a bit for each node */
    enum core_outcome outcome;
    int64_t pttl_us;       /* REFUSED: when asking again may help; -1 = not known, 0 = at any time */
};

unsigned votes_majority(unsigned n);

void vote_begin(struct vote *v, unsigned n, uint32_t reserve, int64_t validity_us);

/* Each node answers once. counter: `answer` and the tokens that were set aside behind it. */
void vote_ok(struct vote *v, unsigned node, uint64_t answer, uint64_t counter, int64_t deadline_us);
void vote_failed(struct vote *v, unsigned node, enum core_outcome outcome, int64_t pttl_us);

/* Its answer does not count any more: the node is asked once more. */
void vote_again(struct vote *v, unsigned node);

/* The write-back was sent; and has ended: the counter of the node is at `counter` at least, and our key is there. */
void vote_raising(struct vote *v, unsigned node);
void vote_raised(struct vote *v, unsigned node, uint64_t counter);

/* ... or it has failed: GONE: our key is not there; else the node covers what it covered before. */
void vote_not_raised(struct vote *v, unsigned node, enum core_outcome outcome);

/* What an attempt comes to so far. */
struct vote_result vote_result(const struct vote *v, int64_t now_us);

enum vote_aim {
    VOTE_KEEPS,      /* our key is to be there */
    VOTE_GIVES_BACK, /* our key is not to be there any more */
    VOTE_BREAKS,     /* nobody's key is */
};

/*
 * The outcome of an operation on a name that is held, given back or broken: OK when q nodes did it. False: it is still
 * open. Where our key is not wanted any more, a node that does not have it counts as done; where a majority did not
 * have it, it is GONE.
 */
bool vote_confirmed(const struct vote *v, enum vote_aim aim, enum core_outcome *outcome);

/* The q-th largest of the n times: so long a majority has it. */
int64_t votes_deadline(const int64_t *deadline_us, unsigned n);

/* In the middle of the n guesses; of an even number of them the lower one. */
int64_t votes_median(const int64_t *guess, unsigned n);

/*
 * The token to propose: above all that this daemon has seen, and not below what it takes the time to be, in us.
 * `reserve` is set to 0 while that runs ahead of time (1 ms to 10 s): tokens set aside would carry it on for ever.
 */
uint64_t votes_proposal(uint64_t highest, int64_t time_us, uint32_t *reserve);

#endif
