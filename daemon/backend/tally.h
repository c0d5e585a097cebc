/*
 * tally.h -- the outcome of one operation on N independent nodes, from their answers. Pure: no link, no clock.
 *
 * A node *covers* a token when its vote is at most the token, and its token clock of the name reached the token while
 * the owner's key was there. A token is given only when a majority q = N/2 + 1 covers it: two owners of a name then
 * share a covering node, so the later owner's token is larger, whatever the clocks do. The rule, and counterexamples to
 * plainer ones: tests/models/quorum.pml, tests/unit/test_tally.c.
 */
#ifndef RLOCKD_BACKEND_TALLY_H
#define RLOCKD_BACKEND_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/events.h"

enum { TALLY_NODES_MAX = 9 };

enum tally_state {
    TALLY_NODE_AWAITED, /* asked, or about to be */
    TALLY_NODE_OK,   /* the owner's key is there */
    TALLY_NODE_FAILED, /* `outcome` says why */
};

/* The answer of one node. Times are by the daemon's clock, in us. */
struct tally_node {
    enum tally_state state;
    enum core_outcome outcome; /* FAILED */
    bool raising;              /* a write-back to the node is in flight */
    uint64_t vote;             /* OK: its token, larger than all earlier ones of the node */
    uint64_t token_clock;      /* OK: a lower bound of the node's token clock while the owner's key was there */
    int64_t deadline_us;       /* OK: the node has the owner's key until then at least */
    int64_t pttl_us;           /* FAILED: TAKEN, FOREIGN, GRACE; -1 = not known */
};

/* The answers of all nodes to one operation. */
struct tally {
    unsigned nodes_n, majority; /* majority: q in the comments */
    uint32_t reserve;         /* tokens to be covered beyond the given one */
    int64_t validity_us;      /* the time that must be left of the lease when the token is given */
    struct tally_node node[TALLY_NODES_MAX];
};

enum tally_step {
    TALLY_UNDECIDED, /* more answers have to come */
    TALLY_RAISE,    /* write-backs are due: to the nodes `raise`, up to the token `ceiling` */
    TALLY_HELD,     /* token, ceiling, deadline_us */
    TALLY_REFUSED,  /* outcome, pttl_us: the owner's key has to be released on all nodes */
};

struct tally_result {
    enum tally_step step;
    uint64_t token;
    uint64_t ceiling;      /* HELD: tokens up to it are covered as well */
    int64_t deadline_us;   /* HELD: until then no other owner can have a majority */
    uint32_t raise;        /* a bit for each node */
    enum core_outcome outcome;
    int64_t pttl_us;       /* REFUSED: the time until another attempt may succeed; -1 = not known, 0 = at any time */
};

unsigned tally_majority(unsigned n);

void tally_begin(struct tally *t, unsigned n, uint32_t reserve, int64_t validity_us);

/* Each node answers once. token_clock: the last token that the node has reserved by this answer. */
void tally_ok(struct tally *t, unsigned node, uint64_t vote, uint64_t token_clock, int64_t deadline_us);
void tally_failed(struct tally *t, unsigned node, enum core_outcome outcome, int64_t pttl_us);

/* Drops the node's answer: the node is asked once more. */
void tally_again(struct tally *t, unsigned node);

/* A write-back to the node was sent ... */
void tally_raising(struct tally *t, unsigned node);

/* ... and has succeeded: the node's token clock is at least `token_clock`, and the owner's key is there ... */
void tally_raised(struct tally *t, unsigned node, uint64_t token_clock);

/* ... or has failed, and the node's vote with it. */
void tally_not_raised(struct tally *t, unsigned node, enum core_outcome outcome);

/* The state of an attempt by the answers so far. */
struct tally_result tally_result(const struct tally *t, int64_t now_us);

/*
 * Bounds the deadline of a grant by known_us: what was learned of the nodes after their answers shows that a majority
 * keeps the key until then. HELD becomes REFUSED if that leaves too little.
 */
void tally_limit(const struct tally *t, struct tally_result *r, int64_t known_us, int64_t now_us);

/*
 * The outcome of an operation on a name that is held, released or broken: OK when q nodes have done it. False: it is
 * still open. releases: a node without the owner's key counts as done, and the outcome is GONE if so many nodes lacked
 * the key that no majority had it.
 */
bool tally_confirmed(const struct tally *t, bool releases, enum core_outcome *outcome);

/* The q-th largest of the n times: a majority has the key until then. */
int64_t tally_deadline(const int64_t *deadline_us, unsigned n);

/* The median of the n guesses; of an even number the lower of the two. */
int64_t tally_median(const int64_t *guess, unsigned n);

/*
 * The token to propose: above the highest known one, and not below the estimated time in us. Sets `reserve` to 0 while
 * tokens are 1 ms to 10 s ahead of time: reserves would keep them ahead for ever.
 */
uint64_t tally_propose(uint64_t highest, int64_t time_us, uint32_t *reserve);

#endif
