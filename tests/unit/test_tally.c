/*
 * test_tally.c -- tallies of N nodes: the counterexamples to plainer rules, and random orders of events, each checked
 * against the promises of the rule (tally.h; I1 .. I7 of tests/models/quorum.pml).
 */
#include <string.h>

#include "daemon/backend/tally.h"
#include "rng.h"
#include "suite.h"

#define LATER_US INT64_C(1000000) /* a deadline far away */

static struct tally
vote_of(unsigned n)
{
    struct tally v;

    tally_begin(&v, n, 0, 0);
    return v;
}

/* ---- one tally ---- */

START_TEST(a_majority_that_agrees_holds_it)
{
    struct tally v = vote_of(3);
    struct tally_result r;

    tally_ok(&v, 0, 5, 5, 700);
    ck_assert_int_eq(tally_result(&v, 0).step, TALLY_UNDECIDED);
    tally_ok(&v, 2, 5, 5, 900);
    r = tally_result(&v, 0);
    ck_assert_int_eq(r.step, TALLY_HELD);
    ck_assert_uint_eq(r.token, 5);
    ck_assert_int_eq(r.deadline_us, 700); /* the second largest of three */
    ck_assert_int_eq(tally_result(&v, 700).step, TALLY_REFUSED);
    v.validity_us = 100;
    ck_assert_int_eq(tally_result(&v, 599).step, TALLY_HELD);
    ck_assert_int_eq(tally_result(&v, 600).step, TALLY_REFUSED);
    tally_ok(&v, 1, 5, 5, 800);
    ck_assert_int_eq(tally_result(&v, 0).deadline_us, 800);
}
END_TEST

/* A clock was set behind the votes, or a node was admitted without the key. */
START_TEST(what_is_known_of_the_nodes_limits_a_grant)
{
    struct tally v = vote_of(3);
    struct tally_result r = {.step = TALLY_UNDECIDED};

    tally_limit(&v, &r, 0, 0);
    ck_assert_int_eq(r.step, TALLY_UNDECIDED);
    tally_ok(&v, 0, 5, 5, 700);
    tally_ok(&v, 1, 5, 5, 700);
    v.validity_us = 100;
    r = tally_result(&v, 500);
    tally_limit(&v, &r, 900, 500);
    ck_assert_int_eq(r.step, TALLY_HELD);
    ck_assert_int_eq(r.deadline_us, 700);
    tally_limit(&v, &r, 601, 500);
    ck_assert_int_eq(r.step, TALLY_HELD);
    ck_assert_int_eq(r.deadline_us, 601);
    tally_limit(&v, &r, 600, 500);
    ck_assert_int_eq(r.step, TALLY_REFUSED);
    ck_assert_int_eq(r.outcome, CORE_DOWN);
    r = (struct tally_result){.step = TALLY_REFUSED, .outcome = CORE_TAKEN, .pttl_us = 7};
    tally_limit(&v, &r, 0, 500);
    ck_assert_int_eq(r.outcome, CORE_TAKEN);
}
END_TEST

START_TEST(only_nodes_that_cover_the_token_count_for_the_deadline)
{
    struct tally v = vote_of(3);

    tally_ok(&v, 0, 5, 9, 700);
    tally_ok(&v, 1, 6, 9, 800);
    tally_ok(&v, 2, 12, 12, 900);
    ck_assert_uint_eq(tally_result(&v, 0).token, 6);
    ck_assert_int_eq(tally_result(&v, 0).deadline_us, 700);
    ck_assert_uint_eq(tally_result(&v, 0).ceiling, 9);
}
END_TEST

START_TEST(a_reserve_saves_the_write_back)
{
    struct tally v = vote_of(3);

    tally_ok(&v, 0, 5, 68, LATER_US);
    tally_ok(&v, 1, 41, 104, LATER_US);
    ck_assert_int_eq(tally_result(&v, 0).step, TALLY_HELD);
    ck_assert_uint_eq(tally_result(&v, 0).token, 41);
    ck_assert_uint_eq(tally_result(&v, 0).ceiling, 68);
}
END_TEST

START_TEST(voters_below_are_raised_and_no_other_node)
{
    struct tally v = vote_of(3);
    struct tally_result r;

    v.reserve = 4;
    tally_ok(&v, 0, 5, 5, LATER_US);
    tally_ok(&v, 1, 10, 10, LATER_US);
    r = tally_result(&v, 0);
    ck_assert_int_eq(r.step, TALLY_RAISE);
    ck_assert_uint_eq(r.raise, 1); /* the third node has not voted */
    ck_assert_uint_eq(r.ceiling, 14);
    tally_raising(&v, 0);
    ck_assert_int_eq(tally_result(&v, 0).step, TALLY_UNDECIDED);
    tally_raised(&v, 0, r.ceiling);
    ck_assert_uint_eq(tally_result(&v, 0).token, 10);
    ck_assert_uint_eq(tally_result(&v, 0).ceiling, 10);
}
END_TEST

START_TEST(a_raised_node_that_has_lost_our_key_covers_nothing)
{
    struct tally v = vote_of(3);

    tally_ok(&v, 0, 5, 5, LATER_US);
    tally_ok(&v, 1, 10, 10, LATER_US);
    tally_raising(&v, 0);
    tally_not_raised(&v, 0, CORE_GONE_IN_REDIS);
    ck_assert_int_eq(tally_result(&v, 0).step, TALLY_UNDECIDED);
    tally_failed(&v, 2, CORE_TAKEN, 50);
    ck_assert_int_eq(tally_result(&v, 0).step, TALLY_REFUSED);
}
END_TEST

START_TEST(refusals_carry_the_time_of_the_next_attempt)
{
    struct tally v = vote_of(5);
    struct tally_result r;

    tally_ok(&v, 0, 5, 5, LATER_US);
    tally_failed(&v, 1, CORE_TAKEN, 300);
    tally_failed(&v, 2, CORE_TAKEN, 100);
    ck_assert_int_eq(tally_result(&v, 0).step, TALLY_UNDECIDED);
    tally_failed(&v, 3, CORE_TAKEN, 200);
    r = tally_result(&v, 0);
    ck_assert_int_eq(r.step, TALLY_REFUSED);
    ck_assert_int_eq(r.outcome, CORE_TAKEN);
    ck_assert_int_eq(r.pttl_us, 200); /* when two of the others are free, a majority is */
}
END_TEST

START_TEST(a_node_without_a_vote_differs_from_a_node_that_is_away)
{
    struct tally v = vote_of(3);

    tally_failed(&v, 0, CORE_GRACE, 400);
    tally_ok(&v, 1, 5, 5, LATER_US);
    tally_failed(&v, 2, CORE_GRACE, 500);
    ck_assert_int_eq(tally_result(&v, 0).outcome, CORE_GRACE);
    ck_assert_int_eq(tally_result(&v, 0).pttl_us, 500);
    v = vote_of(3);
    tally_failed(&v, 0, CORE_UNKNOWN, -1);
    tally_ok(&v, 1, 5, 5, LATER_US);
    tally_failed(&v, 2, CORE_DOWN, -1);
    ck_assert_int_eq(tally_result(&v, 0).outcome, CORE_DOWN); /* the key is taken back, so the outcome is certain */
    v = vote_of(3);
    tally_failed(&v, 0, CORE_FOREIGN, -1);
    tally_failed(&v, 1, CORE_FOREIGN, 70);
    ck_assert_int_eq(tally_result(&v, 0).outcome, CORE_FOREIGN);
}
END_TEST

START_TEST(a_taken_name_differs_from_a_node_that_is_away)
{
    for (unsigned i = 0; i < 2; i++) {
        struct tally v = vote_of(3);

        tally_failed(&v, 2, i == 0 ? CORE_DOWN : CORE_GRACE, i == 0 ? -1 : 9000);
        tally_failed(&v, 0, CORE_TAKEN, 400);
        ck_assert_int_eq(tally_result(&v, 0).step, TALLY_UNDECIDED);
        tally_failed(&v, 1, CORE_TAKEN, 500);
        ck_assert_int_eq(tally_result(&v, 0).step, TALLY_REFUSED);
        ck_assert_int_eq(tally_result(&v, 0).outcome, CORE_TAKEN);
        ck_assert_int_eq(tally_result(&v, 0).pttl_us, 500); /* both are needed */
        v = vote_of(3);
        tally_failed(&v, 2, CORE_DOWN, -1);
        tally_failed(&v, 0, CORE_DOWN, -1);
        ck_assert_int_eq(tally_result(&v, 0).step, TALLY_REFUSED); /* whatever the answer of the third node */
    }
}
END_TEST

START_TEST(a_hold_needs_a_majority_each_time)
{
    struct tally v = vote_of(3);
    enum core_outcome outcome;

    tally_ok(&v, 0, 0, 0, 0);
    tally_failed(&v, 1, CORE_GONE_IN_REDIS, -1);
    ck_assert(!tally_confirmed(&v, false, &outcome));
    ck_assert(!tally_confirmed(&v, true, &outcome)); /* the third node may answer that it is lost */
    tally_failed(&v, 2, CORE_UNKNOWN, -1);
    ck_assert(tally_confirmed(&v, true, &outcome)); /* a majority no longer has the hold */
    ck_assert_int_eq(outcome, CORE_OK);
    ck_assert(tally_confirmed(&v, false, &outcome));
    ck_assert_int_eq(outcome, CORE_UNKNOWN);
    v = vote_of(3);
    tally_ok(&v, 0, 0, 0, 0);
    tally_failed(&v, 1, CORE_GONE_IN_REDIS, -1);
    tally_failed(&v, 2, CORE_FOREIGN, -1);
    ck_assert(tally_confirmed(&v, true, &outcome));
    ck_assert_int_eq(outcome, CORE_GONE_IN_REDIS);
    v = vote_of(3);
    tally_failed(&v, 0, CORE_GONE_IN_REDIS, -1);
    tally_failed(&v, 2, CORE_GONE_IN_REDIS, -1);
    ck_assert(tally_confirmed(&v, false, &outcome));
    ck_assert_int_eq(outcome, CORE_GONE_IN_REDIS);
    ck_assert(tally_confirmed(&v, true, &outcome));
    ck_assert_int_eq(outcome, CORE_GONE_IN_REDIS);
}
END_TEST

/* V5: LOST has to be reported when a majority answers so, whatever answers came first. */
START_TEST(a_lost_lock_differs_from_nodes_that_are_away)
{
    enum core_outcome away[] = {CORE_DOWN, CORE_UNKNOWN, CORE_GRACE}, outcome;

    for (size_t i = 0; i < sizeof(away) / sizeof(away[0]); i++) {
        struct tally v = vote_of(3);

        tally_failed(&v, 2, away[i], -1);
        tally_failed(&v, 0, CORE_GONE_IN_REDIS, -1);
        ck_assert(!tally_confirmed(&v, false, &outcome)); /* the third node may answer the same */
        tally_failed(&v, 1, CORE_TAKEN, -1);
        ck_assert(tally_confirmed(&v, false, &outcome));
        ck_assert_int_eq(outcome, CORE_GONE_IN_REDIS);
        tally_again(&v, 1);
        ck_assert(!tally_confirmed(&v, false, &outcome));
        tally_ok(&v, 1, 0, 0, 0);
        ck_assert(tally_confirmed(&v, false, &outcome));
        ck_assert_int_eq(outcome, away[i]);
        v = vote_of(3);
        tally_failed(&v, 2, away[i], -1);
        tally_failed(&v, 1, away[i], -1);
        ck_assert(tally_confirmed(&v, false, &outcome)); /* whatever the answer of the third node */
        ck_assert_int_eq(outcome, away[i]);
        v = vote_of(3);
        tally_failed(&v, 2, CORE_FOREIGN, -1);
        tally_failed(&v, 1, away[i], -1);
        ck_assert(!tally_confirmed(&v, false, &outcome));
        tally_failed(&v, 0, CORE_FOREIGN, -1);
        ck_assert(tally_confirmed(&v, false, &outcome));
        ck_assert_int_eq(outcome, CORE_FOREIGN);
    }
}
END_TEST

START_TEST(the_last_answer_of_a_node_counts)
{
    struct tally v = vote_of(3);
    enum core_outcome outcome;

    tally_ok(&v, 0, 0, 0, 0);
    tally_ok(&v, 1, 0, 0, 0);
    tally_again(&v, 1);
    ck_assert(!tally_confirmed(&v, false, &outcome));
    tally_failed(&v, 1, CORE_GONE_IN_REDIS, -1);
    ck_assert(!tally_confirmed(&v, false, &outcome));
    tally_failed(&v, 2, CORE_GONE_IN_REDIS, -1);
    ck_assert(tally_confirmed(&v, false, &outcome));
    ck_assert_int_eq(outcome, CORE_GONE_IN_REDIS);
}
END_TEST

START_TEST(a_proposal_is_the_time_or_one_more)
{
    uint32_t reserve = 64;

    ck_assert_uint_eq(tally_propose(10, 5000000, &reserve), 5000000);
    ck_assert_uint_eq(tally_propose(5000900, 5000000, &reserve), 5000901);
    ck_assert_uint_eq(reserve, 64);
    ck_assert_uint_eq(tally_propose(50000000, 5000000, &reserve), 50000001); /* time went back */
    ck_assert_uint_eq(reserve, 64);
    ck_assert_uint_eq(tally_propose(5002000, 5000000, &reserve), 5002001);
    ck_assert_uint_eq(reserve, 0);
}
END_TEST

START_TEST(of_guesses_the_middle_one_counts)
{
    ck_assert_int_eq(tally_median((int64_t[]){9, -5, 3}, 3), 3);
    ck_assert_int_eq(tally_median((int64_t[]){9, 3}, 2), 3);
    ck_assert_int_eq(tally_median((int64_t[]){4, 4, 9, 4}, 4), 4);
    ck_assert_int_eq(tally_deadline((int64_t[]){9, 0, 3, 7, 0}, 5), 3);
    ck_assert_int_eq(tally_deadline((int64_t[]){9, 0, 0}, 3), 0);
}
END_TEST

/* ---- a world of nodes and daemons: the messages of a link keep their order, and may be late ---- */

enum { NODES = 5, DAEMONS = 3, MESSAGES = 64, NO_ATTEMPT = 0 };

enum what { ASK, RAISE, RELEASE };

struct message {
    enum what what;
    unsigned attempt; /* whose message it is */
    uint64_t number;  /* token proposed, or counter to raise to */
    uint32_t room;
    bool unanswered;     /* the daemon no longer waits for its answer */
};

struct link {
    struct message to[MESSAGES];
    unsigned first, n;
};

struct node {
    uint64_t counter;
    unsigned key;      /* the attempt that has it */
    uint64_t covers_from, covers_to; /* while `key` has been there */
    bool votes;
    unsigned empty_from; /* attempts up to this one began before the loss of data */
};

struct asker {
    struct tally tally;
    unsigned attempt; /* 0 = none */
    bool holds, left; /* left: the release is on its way to all nodes */
};

struct world {
    struct rng rng;
    unsigned n, q, attempts, reported_n, refused_n, raised_n, emptied_n;
    uint64_t reported; /* the last token, and the largest one */
    struct node node[NODES];
    struct asker asker[DAEMONS];
    struct link link[DAEMONS][NODES];
    bool covered[NODES];          /* by the attempt in question */
};

static struct link *
link_to(struct world *w, unsigned d, unsigned i)
{
    return &w->link[d][i];
}

static void
send_to(struct world *w, unsigned d, unsigned i, struct message m)
{
    struct link *l = link_to(w, d, i);

    ck_assert_uint_lt(l->n, MESSAGES);
    l->to[(l->first + l->n++) % MESSAGES] = m;
}

/* I6: fewer than q established nodes have a counter below the last reported token. */
static void
check_counters(const struct world *w)
{
    unsigned low = 0;

    for (unsigned i = 0; i < w->n; i++) {
        low += w->node[i].votes && w->node[i].counter < w->reported;
    }
    ck_assert_uint_lt(low, w->q);
}

static void
begin(struct world *w, unsigned d)
{
    struct asker *a = &w->asker[d];
    /* estimates of the time are poor */
    uint64_t proposal = w->reported / 2 + rng_below(&w->rng, (unsigned)w->reported / 2 + 8);
    uint32_t room = rng_below(&w->rng, 3);

    a->attempt = ++w->attempts;
    a->holds = a->left = false;
    tally_begin(&a->tally, w->n, room, 0);
    for (unsigned i = 0; i < w->n; i++) {
        send_to(w, d, i, (struct message){ASK, a->attempt, proposal + 1, room, false});
    }
}

static void
leave(struct world *w, unsigned d)
{
    struct asker *a = &w->asker[d];

    for (unsigned i = 0; i < w->n; i++) {
        send_to(w, d, i, (struct message){RELEASE, a->attempt, 0, 0, false});
    }
    a->holds = false;
    a->left = true;
}

/* I1, I2, I3 of a reported grant. */
static void
tell(struct world *w, unsigned d, const struct tally_result *r)
{
    unsigned covered = 0;

    for (unsigned i = 0; i < w->n; i++) {
        const struct node *z = &w->node[i];

        covered += z->key == w->asker[d].attempt && z->covers_from <= r->token && r->ceiling <= z->covers_to;
    }
    for (unsigned other = 0; other < DAEMONS; other++) {
        ck_assert(!w->asker[other].holds);
    }
    if (w->emptied_n == 0) { /* else a node may have covered it before its loss */
        ck_assert_uint_ge(covered, w->q);
    }
    ck_assert_uint_gt(r->token, w->reported);
    w->reported = r->ceiling; /* hand-offs give all of them */
    w->asker[d].holds = true;
    w->reported_n++;
    check_counters(w);
}

static void
advance(struct world *w, unsigned d)
{
    struct asker *a = &w->asker[d];
    struct tally_result r;

    if (a->attempt == 0 || a->holds || a->left) {
        return;
    }
    r = tally_result(&a->tally, 0);
    if (r.step == TALLY_HELD) {
        tell(w, d, &r);
    } else if (r.step == TALLY_REFUSED) {
        w->refused_n++;
        leave(w, d);
    } else if (r.step == TALLY_RAISE) {
        w->raised_n++;
        for (unsigned i = 0; i < w->n; i++) {
            if (r.raise & (1u << i)) {
                tally_raising(&a->tally, i);
                send_to(w, d, i, (struct message){RAISE, a->attempt, r.ceiling, 0, false});
            }
        }
    }
}

static void
cover(struct node *z, uint64_t counter)
{
    z->counter = z->counter > counter ? z->counter : counter;
    z->covers_to = z->counter;
}

static void
ask(struct node *z, const struct message *m, struct tally *v, unsigned i)
{
    bool received = v != NULL && !m->unanswered;

    if (z->votes && z->key == NO_ATTEMPT) {
        uint64_t answer = z->counter + 1 > m->number ? z->counter + 1 : m->number;

        z->key = m->attempt;
        z->covers_from = answer;
        cover(z, answer + m->room);
        if (received) {
            tally_ok(v, i, answer, answer + m->room, LATER_US);
        }
    } else if (received) {
        tally_failed(v, i, z->votes ? CORE_TAKEN : CORE_GRACE, -1);
    }
}

/* The next message of a link runs; its answer arrives in the same step, as no other event comes in between. */
static void
run(struct world *w, unsigned d, unsigned i)
{
    struct link *l = link_to(w, d, i);
    struct asker *a = &w->asker[d];
    struct node *z = &w->node[i];
    struct message m;
    struct tally *v;

    if (l->n == 0) {
        return;
    }
    m = l->to[l->first];
    l->first = (l->first + 1) % MESSAGES;
    l->n--;
    v = a->attempt == m.attempt && !a->left ? &a->tally : NULL;
    switch (m.what) {
    case ASK:
        ask(z, &m, v, i);
        break;
    case RAISE:
        if (z->key == m.attempt) {
            cover(z, m.number);
        }
        if (v != NULL && !m.unanswered && z->key == m.attempt) {
            tally_raised(v, i, m.number);
        } else if (v != NULL && !m.unanswered) {
            tally_not_raised(v, i, CORE_GONE_IN_REDIS);
        }
        break;
    case RELEASE:
        z->key = z->key == m.attempt ? NO_ATTEMPT : z->key;
        break;
    }
}

/* The daemon no longer waits for the answer of this node; the message may run all the same. */
static void
give_up(struct world *w, unsigned d, unsigned i)
{
    struct link *l = link_to(w, d, i);
    struct asker *a = &w->asker[d];

    for (unsigned k = 0; k < l->n; k++) {
        struct message *m = &l->to[(l->first + k) % MESSAGES];

        if (m->attempt != a->attempt || a->left || m->unanswered || m->what == RELEASE) {
            continue;
        }
        m->unanswered = true;
        if (m->what == ASK) {
            tally_failed(&a->tally, i, CORE_UNKNOWN, -1);
        } else {
            tally_not_raised(&a->tally, i, CORE_UNKNOWN);
        }
    }
}

/* At most one node has no vote. It gets one when all requests from before its loss of data have ended. */
static void
lose_or_admit(struct world *w)
{
    static const unsigned z = 1;
    uint64_t most = 0;
    bool over = true;

    if (w->node[z].votes) {
        w->node[z] = (struct node){.empty_from = w->attempts};
        w->emptied_n++;
        check_counters(w);
        return;
    }
    for (unsigned d = 0; d < DAEMONS; d++) {
        over = over && (w->asker[d].attempt == 0 || w->asker[d].attempt > w->node[z].empty_from);
    }
    if (!over) {
        return;
    }
    for (unsigned i = 0, read = 0; i < w->n && read < w->q; i++) { /* of q others */
        if (i != z) {
            most = w->node[i].counter > most ? w->node[i].counter : most;
            read++;
        }
    }
    w->node[z].counter = most;
    w->node[z].votes = true;
    check_counters(w);
}

/* I7: after the release, when all messages have run, no node has the key of the attempt. */
static void
end(struct world *w, unsigned d)
{
    struct asker *a = &w->asker[d];

    if (!a->left) {
        return;
    }
    for (unsigned i = 0; i < w->n; i++) {
        if (link_to(w, d, i)->n > 0) {
            return;
        }
    }
    for (unsigned i = 0; i < w->n; i++) {
        ck_assert_uint_ne(w->node[i].key, a->attempt);
    }
    a->attempt = 0;
    a->left = false;
}

static void
step(struct world *w)
{
    unsigned d = rng_below(&w->rng, DAEMONS), i = rng_below(&w->rng, w->n), what = rng_below(&w->rng, 100);
    struct asker *a = &w->asker[d];

    if (what < 70) {
        run(w, d, i);
        advance(w, d);
    } else if (what < 85 && a->attempt == 0) {
        begin(w, d);
    } else if (what < 95 && a->holds) {
        leave(w, d);
    } else if (what < 97 && a->attempt != 0 && !a->left) {
        give_up(w, d, i);
        advance(w, d);
    } else if (what == 98) {
        w->node[i].counter += rng_below(&w->rng, 12); /* another name shares the counter */
    } else if (what == 99) {
        lose_or_admit(w);
    }
    end(w, d);
}

START_TEST(tokens_rise_in_every_order_of_events)
{
    struct world w = {.rng = rng_of(_i)};

    w.n = 3 + (unsigned)_i % 3;
    w.q = tally_majority(w.n);
    for (unsigned i = 0; i < w.n; i++) {
        w.node[i] = (struct node){.counter = rng_below(&w.rng, 10), .votes = true};
    }
    for (int k = 0; k < 12000; k++) {
        step(&w);
    }
    ck_assert_uint_gt(w.reported_n, 10);
    ck_assert_uint_gt(w.refused_n, 0);
    ck_assert_uint_gt(w.raised_n, 0);
}
END_TEST

/* ---- faults of plainer rules ---- */

/* Runs all messages of the link. */
static void
run_all(struct world *w, unsigned d, unsigned i)
{
    while (link_to(w, d, i)->n > 0) {
        run(w, d, i);
        advance(w, d);
    }
}

static void
begin_with(struct world *w, unsigned d, uint64_t proposal)
{
    struct asker *a = &w->asker[d];

    a->attempt = ++w->attempts;
    tally_begin(&a->tally, w->n, 0, 0);
    for (unsigned i = 0; i < w->n; i++) {
        send_to(w, d, i, (struct message){ASK, a->attempt, proposal, 0, false});
    }
}

/*
 * Counterexample 1: a write-back to a node that has not voted would let a smaller token be reported after a larger one.
 */
START_TEST(a_write_back_does_not_go_to_any_majority)
{
    struct world w = {.rng = rng_of(1), .n = 3, .q = 2};
    enum { H, G };

    for (unsigned i = 0; i < 3; i++) {
        w.node[i].votes = true;
    }
    w.node[1].counter = 9;
    begin_with(&w, H, 5);
    run_all(&w, H, 0); /* a takes 5 */
    run_all(&w, H, 1); /* b answers 10: a is raised to that, and c, which has not voted, is not */
    begin_with(&w, G, 8);
    run_all(&w, G, 2); /* c takes 8 */
    ck_assert_uint_eq(link_to(&w, H, 2)->n, 1);
    run_all(&w, H, 0); /* the write-back */
    ck_assert(w.asker[H].holds);
    ck_assert_uint_eq(w.reported, 10);
    leave(&w, H);
    for (unsigned i = 0; i < 3; i++) {
        run_all(&w, H, i);
    }
    run_all(&w, G, 0);
    ck_assert(!w.asker[G].holds); /* a answered 11 */
    run_all(&w, G, 2);
    ck_assert(w.asker[G].holds);
    ck_assert_uint_eq(w.reported, 11);
}
END_TEST

/* Counterexample 2: an emptied node that votes with its own counter would give a token twice. */
START_TEST(an_emptied_node_votes_with_the_tokens_of_others)
{
    struct world w = {.rng = rng_of(1), .n = 3, .q = 2};
    enum { G, H };

    for (unsigned i = 0; i < 3; i++) {
        w.node[i].votes = true;
    }
    w.node[2].counter = 5; /* node 1 loses its data */
    begin_with(&w, G, 100);
    run_all(&w, G, 0);
    run_all(&w, G, 1);
    ck_assert_uint_eq(w.reported, 100);
    leave(&w, G);
    lose_or_admit(&w);
    begin_with(&w, H, 50);
    run_all(&w, H, 1);
    run_all(&w, H, 2);
    ck_assert(!w.asker[H].holds); /* an emptied node does not vote */
    lose_or_admit(&w);
    ck_assert(!w.node[1].votes); /* the message of G may still run */
    for (unsigned i = 0; i < 3; i++) {
        run_all(&w, G, i);
        run_all(&w, H, i);
    }
    end(&w, G);
    leave(&w, H);
    for (unsigned i = 0; i < 3; i++) {
        run_all(&w, H, i);
    }
    end(&w, H);
    lose_or_admit(&w);
    ck_assert(w.node[1].votes);
    begin_with(&w, H, 50);
    run_all(&w, H, 1);
    run_all(&w, H, 2);
    ck_assert(w.asker[H].holds || w.raised_n > 0);
    run_all(&w, H, 2);
    ck_assert(w.asker[H].holds);
    ck_assert_uint_gt(w.reported, 100);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {a_majority_that_agrees_holds_it, what_is_known_of_the_nodes_limits_a_grant,
                                  only_nodes_that_cover_the_token_count_for_the_deadline,
                                  a_reserve_saves_the_write_back, voters_below_are_raised_and_no_other_node,
                                  a_raised_node_that_has_lost_our_key_covers_nothing,
                                  refusals_carry_the_time_of_the_next_attempt,
                                  a_node_without_a_vote_differs_from_a_node_that_is_away,
                                  a_hold_needs_a_majority_each_time, a_taken_name_differs_from_a_node_that_is_away,
                                  a_lost_lock_differs_from_nodes_that_are_away, the_last_answer_of_a_node_counts,
                                  a_proposal_is_the_time_or_one_more, of_guesses_the_middle_one_counts,
                                  a_write_back_does_not_go_to_any_majority,
                                  an_emptied_node_votes_with_the_tokens_of_others};
    Suite *s = suite_create("tally");
    TCase *t = tcase_create("all");

    tcase_set_timeout(t, 300);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(t, tests[i]);
    }
    tcase_add_loop_test(t, tokens_rise_in_every_order_of_events, 0, rng_seeds(600));
    suite_add_tcase(s, t);
    return suite_run(s);
}
