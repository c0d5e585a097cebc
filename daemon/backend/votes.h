/*
 * votes.h -- the outcome of one operation on N independent nodes, from their answers. Pure: no link, no clock.
 *
 * A node *covers* a token when its answer is at most the token, and its token clock of the name reached the token while
 * the owner's key was there. A token is given only when a majority q = N/2 + 1 covers it: two owners of a name then
 * share a covering node, so the later owner's token is larger, whatever the clocks do. The rule, and counterexamples to
 * plainer ones: tests/models/quorum.pml, tests/unit/test_votes.c.
 */
#ifndef RLOCKD_BACKEND_VOTES_H
#define RLOCKD_BACKEND_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/events.h"

enum { VOTES_NODES_MAX = 9 };

enum ballot_state {
    BALLOT_AWAITED,  /* asked, or about to be */
    BALLOT_OK,       /* the owner's key is there */
    BALLOT_FAILED,   /* `outcome` says why */
};

/* The answer of one node. Times are by the daemon's clock, in us. */
struct ballot {
    enum ballot_state state;
    enum core_outcome outcome; /* FAILED */
    bool raising;              /* a write-back to the node is in flight */
    uint64_t answer;           /* OK: the token of the vote, larger than all earlier ones of the node */
    uint64_t token_clock;      /* OK: a lower bound of the node's token clock while the owner's key was there */
    int64_t deadline_us;       /* OK: the node has the owner's key until then at least */
    int64_t pttl_us;           /* FAILED: TAKEN, FOREIGN, GRACE; -1 = not known */
};

/* The answers of all nodes to one operation; in the glossary a vote is the answer of one node to an attempt. */
struct vote {
    unsigned nodes_n, majority; /* majority: q in the comments */
    uint32_t reserve;         /* tokens to be covered beyond the given one */
    int64_t validity_us;      /* the time that must be left of the lease when the token is given */
    struct ballot node[VOTES_NODES_MAX];
};

enum vote_step {
    VOTE_UNDECIDED, /* more answers have to come */
    VOTE_RAISE,     /* write-backs are due: to the nodes `raise`, up to the token `ceiling` */
    VOTE_HELD,      /* token, ceiling, deadline_us */
    VOTE_REFUSED,   /* outcome, pttl_us: the owner's key has to be released on all nodes */
};

struct vote_result {
    enum vote_step step;
    uint64_t token;
    uint64_t ceiling;      /* HELD: tokens up to it are covered as well */
    int64_t deadline_us;   /* HELD: until then no other owner can have a majority */
    uint32_t raise;        /* a bit for each node */
    enum core_outcome outcome;
    int64_t pttl_us;       /* REFUSED: the time until another attempt may succeed; -1 = not known, 0 = at any time */
};

unsigned votes_majority(unsigned n);

void vote_begin(struct vote *v, unsigned n, uint32_t reserve, int64_t validity_us);

/* Each node answers once. token_clock: the last token that the node has reserved by this answer. */
void vote_ok(struct vote *v, unsigned node, uint64_t answer, uint64_t token_clock, int64_t deadline_us);
void vote_failed(struct vote *v, unsigned node, enum core_outcome outcome, int64_t pttl_us);

/* Drops the node's answer: the node is asked once more. */
void vote_again(struct vote *v, unsigned node);

/* A write-back to the node was sent ... */
void vote_raising(struct vote *v, unsigned node);

/* ... and has succeeded: the node's token clock is at least `token_clock`, and the owner's key is there ... */
void vote_raised(struct vote *v, unsigned node, uint64_t token_clock);

/* ... or has failed, and the vote with it. */
void vote_not_raised(struct vote *v, unsigned node, enum core_outcome outcome);

/* The state of an attempt by the answers so far. */
struct vote_result vote_result(const struct vote *v, int64_t now_us);

/*
 * Bounds the deadline of a grant by known_us: what was learned of the nodes after their answers shows that a majority
 * keeps the key until then. HELD becomes REFUSED if that leaves too little.
 */
void vote_limit(const struct vote *v, struct vote_result *r, int64_t known_us, int64_t now_us);

/*
 * The outcome of an operation on a name that is held, released or broken: OK when q nodes have done it. False: it is
 * still open. releases: a node without the owner's key counts as done, and the outcome is GONE if so many nodes lacked
 * the key that no majority had it.
 */
bool vote_confirmed(const struct vote *v, bool releases, enum core_outcome *outcome);

/* The q-th largest of the n times: a majority has the key until then. */
int64_t votes_deadline(const int64_t *deadline_us, unsigned n);

/* The median of the n guesses; of an even number the lower of the two. */
int64_t votes_median(const int64_t *guess, unsigned n);

/*
 * The token to propose: above the highest known one, and not below the estimated time in us. Sets `reserve` to 0 while
 * tokens are 1 ms to 10 s ahead of time: reserves would keep them ahead for ever.
 */
uint64_t votes_proposal(uint64_t highest, int64_t time_us, uint32_t *reserve);

#endif
