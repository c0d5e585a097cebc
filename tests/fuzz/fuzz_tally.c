/*
 * fuzz_tally.c -- answers of the nodes of a quorum in any order: a token is reported only when a majority covers it, a
 * tally never stays open when no more answers can come, and refusals state the true reason.
 *
 * Input: number of nodes, a reserve, the validity; then events: a node and its answer.
 */
#include "daemon/backend/tally.h"
#include "tests/fuzz/fuzz.h"

enum { EVENTS_MAX = 64 };
#define TOKEN_MAX (INT64_C(1) << 53) /* a larger number is no token: call_answer_ok() */

static int64_t
take_time(struct choices *c)
{
    return take_number(c) & ((INT64_C(1) << 50) - 1);
}

static uint64_t
take_token(struct choices *c)
{
    return 1 + (uint64_t)take_number(c) % TOKEN_MAX;
}

/* True: an answer can still come. */
static bool
has_more(const struct tally *v)
{
    for (unsigned i = 0; i < v->nodes_n; i++) {
        if (v->node[i].state == TALLY_NODE_AWAITED || v->node[i].raising) {
            return true;
        }
    }
    return false;
}

static unsigned
with(const struct tally *v, enum tally_state state, enum core_outcome outcome)
{
    unsigned n = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        n += v->node[i].state == state && (state != TALLY_NODE_FAILED || v->node[i].outcome == outcome);
    }
    return n;
}

static void
check_held(const struct tally *v, const struct tally_result *r, int64_t now_us)
{
    unsigned covered = 0, ceiling = 0, until = 0;

    for (unsigned i = 0; i < v->nodes_n; i++) {
        const struct tally_node *b = &v->node[i];
        bool ours = b->state == TALLY_NODE_OK && b->vote <= r->token && r->token <= b->token_clock;

        covered += ours;
        ceiling += ours && r->ceiling <= b->token_clock;
        until += ours && r->deadline_us <= b->deadline_us;
    }
    CHECK(covered >= v->majority, "%u cover it", covered);
    CHECK(r->ceiling >= r->token && ceiling >= v->majority && until >= v->majority);
    CHECK(now_us + v->validity_us < r->deadline_us);
}

static void
check_raise(const struct tally *v, const struct tally_result *r)
{
    CHECK(r->raise != 0 && r->raise < 1u << v->nodes_n);
    for (unsigned i = 0; i < v->nodes_n; i++) {
        if (r->raise >> i & 1) {
            CHECK(v->node[i].state == TALLY_NODE_OK && !v->node[i].raising, "only to who has voted");
            CHECK(v->node[i].token_clock < r->ceiling);
        }
    }
}

static void
check_refused(const struct tally *v, const struct tally_result *r)
{
    unsigned most = v->nodes_n - v->majority;

    CHECK(r->pttl_us >= -1);
    switch (r->outcome) {
    case CORE_TAKEN:
        CHECK(with(v, TALLY_NODE_FAILED, CORE_TAKEN) + with(v, TALLY_NODE_FAILED, CORE_FOREIGN) > 0);
        break;
    case CORE_GRACE:
        CHECK(with(v, TALLY_NODE_FAILED, CORE_GRACE) > 0);
        break;
    case CORE_FOREIGN:
    case CORE_DENIED:
    case CORE_FULL:
        CHECK(with(v, TALLY_NODE_FAILED, r->outcome) > most);
        break;
    default:
        CHECK(r->outcome == CORE_DOWN, "outcome %d", r->outcome);
    }
}

static void
check(const struct tally *v, int64_t now_us)
{
    struct tally_result r = tally_result(v, now_us);
    enum core_outcome outcome = CORE_SHORTFALL;

    switch (r.step) {
    case TALLY_UNDECIDED:
        CHECK(has_more(v), "open for ever");
        break;
    case TALLY_RAISE:
        check_raise(v, &r);
        break;
    case TALLY_HELD:
        check_held(v, &r, now_us);
        break;
    case TALLY_REFUSED:
        check_refused(v, &r);
        break;
    default:
        CHECK(!"a step of tally.h");
    }
    for (int releases = 0; releases < 2; releases++) {
        bool granted = tally_confirmed(v, releases, &outcome);

        CHECK(granted || with(v, TALLY_NODE_AWAITED, CORE_OK) > 0, "open for ever");
        CHECK(!granted || outcome != CORE_OK || releases || with(v, TALLY_NODE_OK, CORE_OK) >= v->majority,
              "confirmed by few");
        CHECK(!granted || outcome <= CORE_GRACE);
    }
}

static void
step(struct tally *v, struct choices *c)
{
    static const enum core_outcome why[] = {CORE_TAKEN, CORE_GONE_IN_REDIS, CORE_UNKNOWN, CORE_DOWN, CORE_FOREIGN,
                                            CORE_DENIED, CORE_FULL, CORE_GRACE};
    unsigned node = take_below(c, v->nodes_n), what = take_byte(c);
    struct tally_node *b = &v->node[node];

    if (b->state == TALLY_NODE_AWAITED) {
        if (what & 1) {
            uint64_t answer = take_token(c);

            tally_ok(v, node, answer, answer + (what & 2 ? v->reserve : 0), take_time(c));
        } else {
            tally_failed(v, node, why[what / 2 % 8], what & 16 ? -1 : take_time(c));
        }
    } else if (b->raising) {
        if (what & 1) {
            tally_raised(v, node, take_token(c));
        } else {
            tally_not_raised(v, node, why[what / 2 % 8]);
        }
    } else if (what & 1 && b->state == TALLY_NODE_OK) {
        tally_raising(v, node);
    } else if (what & 2) {
        tally_again(v, node);
    }
}

static void
check_numbers(struct choices *c, unsigned n)
{
    int64_t time[TALLY_NODES_MAX], at = take_time(c);
    unsigned later = 0, below = 0, above = 0;
    uint32_t reserve = 64;
    uint64_t highest = take_token(c), token = tally_propose(highest, at, &reserve);

    CHECK(token > highest || token == (uint64_t)at);
    CHECK(token >= (uint64_t)at && (reserve == 0 || reserve == 64));
    for (unsigned i = 0; i < n; i++) {
        time[i] = take_number(c);
    }
    for (unsigned i = 0; i < n; i++) {
        later += time[i] >= tally_deadline(time, n);
        below += time[i] < tally_median(time, n);
        above += time[i] > tally_median(time, n);
    }
    CHECK(later >= tally_majority(n) && below <= n / 2 && above <= n / 2);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    struct tally v;
    unsigned n = 1 + take_below(&c, TALLY_NODES_MAX);
    uint32_t reserve = take_byte(&c);
    int64_t now_us = 0;

    tally_begin(&v, n, reserve, take_time(&c));
    for (int i = 0; i < EVENTS_MAX && c.n > 0; i++) {
        now_us += take_byte(&c);
        step(&v, &c);
        check(&v, now_us);
    }
    check_numbers(&c, n);
    return 0;
}
