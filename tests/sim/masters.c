/*
 * masters.c -- the shape of a quorum: three masters, sometimes five, that know nothing of each other.
 *
 * A name is held where a majority has it: what one node alone has, or has lost, is no news of the name. What goes wrong
 * goes wrong with single nodes, and several of them may be in trouble at a time; nothing is excused for that, but for a
 * clock that is set forward under a key that only just had a majority (masters_jumped).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "tests/sim/sim.h"

/* A node that has lost its data has no vote for the longest lease; then it is looked at, and admitted. */
enum { ADMITTED_US = 4 * 1000 * 1000 };

static int
majority(const struct world *w)
{
    return w->servers_n / 2 + 1;
}

/* ---- the world at its beginning ---- */

/* A control: what is to be raised is not. */
static bool
of_tokens(const struct world *w)
{
    return w->options->control == CONTROL_WRITE_BACK || w->options->control == CONTROL_UNCOVERED;
}

/* Half of the rows of this shape are left out; what single servers have to themselves is not there. */
static void
draw_rates(struct world *w)
{
    static const enum fault none[] = {FAULT_FAILOVER_CLEAN, FAULT_FAILOVER_LOSSY, FAULT_FAILBACK,
                                      FAULT_UNHEARD,        FAULT_NO_LINKS,       FAULT_FEW_REPLICAS,
                                      FAULT_EVICTION,       FAULT_LOST_TO_STRANGER};

    for (int f = 0; f < FAULTS; f++) {
        const struct fault_row *row = &fault_rows[f];

        if (row->shape == SHAPE_QUORUM && row->rate > 0) {
            w->rate[f] = chance(w, 50000) ? (uint32_t)between(w, 1, row->rate) : 0;
        }
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        w->rate[none[i]] = 0;
    }
}

void
masters_draw(struct world *w)
{
    bool loses = w->options->losses && (chance(w, 70000) || w->options->control == CONTROL_VOTES_AT_ONCE);

    draw_rates(w);
    if (!loses) { /* and then a quorum that is new need not be waited for */
        w->habit.strict = false;
        w->rate[FAULT_NODE_EMPTIED] = 0;
        for (int f = 0; f < FAULTS; f++) {
            w->rate[f] = fault_rows[f].loss ? 0 : w->rate[f];
        }
    }
    if (of_tokens(w)) { /* what makes a difference */
        w->rate[FAULT_NODE_AHEAD] = fault_rows[FAULT_NODE_AHEAD].rate;
    }
    if (w->options->control == CONTROL_VOTES_AT_ONCE) {
        w->rate[FAULT_NODE_EMPTIED] = fault_rows[FAULT_NODE_EMPTIED].rate;
    }
    w->masters = chance(w, 20000) ? 5 : 3;
    w->habit.replicas = w->habit.strangers = 0;
}

void
masters_open(struct world *w)
{
    for (int i = 1; i < w->servers_n; i++) {
        w->server[i].wall_us += between(w, -US_PER_S, US_PER_S);
    }
}

/* A majority of nodes says nothing of kinds that count, or that keep more than one key. */
enum kind
masters_kind(const struct world *w, enum kind kind, int name)
{
    if (w->shape != SHAPE_QUORUM || kind == KIND_REENTRANT || kind == KIND_SIMPLE) {
        return kind;
    }
    return name % 3 == 0 ? KIND_SIMPLE : KIND_REENTRANT;
}

/* ---- who has a name ---- */

/* Who has it on this node; n == 0: nobody. Lives until the next command on the node. */
static struct slice
holder_at(struct server *s, const struct name *n)
{
    struct slice key = slice_of(n->text);
    const struct reply *r;

    if (n->kind == KIND_SIMPLE) {
        r = server_command(s, 2, (struct slice[]){SLICE_LIT("GET"), key});
        return r->type == REPLY_TEXT ? r->text : (struct slice){NULL, 0};
    }
    r = server_command(s, 2, (struct slice[]){SLICE_LIT("HGETALL"), key});
    return r->type == REPLY_ARRAY && r->count > 0 ? r->item[0]->text : (struct slice){NULL, 0};
}

/* Those of the nodes that have the key as `holder` has it, without this one. */
static int
others_with(struct world *w, const struct server *but, const struct name *n, struct slice holder)
{
    int nodes = 0;

    for (int i = 0; i < w->servers_n; i++) {
        nodes += &w->server[i] != but && slice_eq(holder_at(&w->server[i], n), holder);
    }
    return nodes;
}

/* So many nodes have it that nobody else gets a majority. */
bool
masters_have(struct world *w, const struct name *n)
{
    int taken = 0;

    for (int i = 0; i < w->servers_n; i++) {
        taken += holder_at(&w->server[i], n).n > 0;
    }
    return w->servers_n - taken < majority(w);
}

/* The first node on which this holder is one of a majority. */
bool
masters_first(struct world *w, const struct server *s, const struct name *n, struct slice holder)
{
    for (int i = 0; i < s->index; i++) {
        if (slice_eq(holder_at(&w->server[i], n), holder)) {
            return false;
        }
    }
    return 1 + others_with(w, s, n, holder) >= majority(w);
}

/* Its clock was set forward within a lease: what it has may end sooner than its owner reckons with. */
static bool
is_early(const struct server *s)
{
    return s->set_forward_us != 0 && s->world->now_us < s->set_forward_us + longest_lease_us(s->world);
}

/*
 * The clock of s is about to be set forward: what it has ends sooner than its owner knows. That costs the name only
 * where a majority does not have it without this node, and without others whose clocks were set.
 */
void
masters_jumped(struct server *s)
{
    struct world *w = s->world;

    s->set_forward_us = w->now_us;
    for (int i = 0; i < w->habit.names; i++) {
        struct name *n = &w->name[i];
        struct slice holder = holder_at(s, n);
        int others = 0;

        for (int k = 0; k < w->servers_n && holder.n > 0; k++) {
            others += !is_early(&w->server[k]) && slice_eq(holder_at(&w->server[k], n), holder);
        }
        if (holder.n > 0 && others < majority(w)) {
            n->excused_us = w->now_us + longest_lease_us(w);
        }
    }
    last_failure(w, 0);
}

/* ---- what goes wrong ---- */

/* A node begins anew, or has lost its data: it gives no vote for some time, and the others must all be there. */
void
masters_lost(struct world *w)
{
    if (w->shape == SHAPE_QUORUM) {
        last_failure(w, longest_lease_us(w) + longest_lease_us(w) / 50 + ADMITTED_US);
    }
}

/* Nothing reaches it, but of the daemons that are cut off with it; these reach no other node. */
static bool
part(struct world *w, struct server *s, int64_t for_us)
{
    if (w->now_us < w->parted_until_us) {
        return false; /* one at a time */
    }
    for (int i = 0; i < w->servers_n; i++) {
        w->server[i].apart = &w->server[i] == s;
    }
    for (int d = 0; d < w->daemons_n; d++) {
        w->daemon[d].apart = chance(w, 20000);
    }
    w->parted_until_us = w->now_us + for_us;
    return true;
}

static void
begins_anew(struct server *s, bool empty, int64_t for_us)
{
    struct world *w = s->world;
    struct sim_redis *data = empty ? NULL : sim_redis_copy(s->redis);

    server_restart(s, data, false);
    if (empty) {
        nature_lost(s);
    } else {
        sim_redis_free(&data);
    }
    s->down_until_us = w->now_us + for_us;
    last_failure(w, for_us);
    masters_lost(w);
}

void
masters_strike(struct server *s, enum fault f)
{
    struct world *w = s->world;
    int64_t us = between(w, 10, chance(w, 60000) ? 2000 : 15000) * US_PER_MS;

    switch (f) {
    case FAULT_NODE_DIES:
    case FAULT_NODE_EMPTIED:
        begins_anew(s, f == FAULT_NODE_EMPTIED, us);
        break;
    case FAULT_NODE_STOPS:
        s->paused_until_us = w->now_us + us;
        break;
    case FAULT_NODE_CUT:
        w->totals->faults[f] -= !part(w, s, us);
        break;
    case FAULT_NODE_CLOCK_FORWARD:
        nature_jumps(s, 1, us);
        break;
    default:
        nature_jumps(s, -1, us);
        break;
    }
    last_failure(w, us + 3 * US_PER_S);
}

/* ---- tokens, and controls ---- */

/* The tokens of a node are at least there from now on, as those of other names may bring it. */
static void
raise_clock(struct server *s, int64_t to)
{
    struct slice get[2] = {SLICE_LIT("GET"), SLICE_LIT("rlock:clock")}, set[3] = {SLICE_LIT("SET"), get[1]};
    const struct reply *r = server_command(s, 2, get);
    char text[24];

    if (r->type == REPLY_TEXT && atoll(r->text.p) >= to) {
        return;
    }
    set[2] = (struct slice){text, (size_t)snprintf(text, sizeof(text), "%" PRId64, to)};
    (void)server_command(s, 3, set);
}

/* The tokens of nodes come apart, so that there is something to write back; by a control nothing is raised. */
void
masters_call(struct server *s, int verb, struct slice *floor)
{
    struct world *w = s->world;

    if (verb == VERB_ACQUIRE && fault(w, FAULT_NODE_AHEAD)) {
        raise_clock(s, server_clock(s) + below(w, 5 * US_PER_S));
    }
    if (verb == VERB_RENEW && floor->p[0] == '=' && of_tokens(w)) {
        if (w->options->control == CONTROL_WRITE_BACK) {
            raise_clock(&w->server[(s->index + 1) % w->servers_n], atoll(floor->p + 1));
        }
        *floor = SLICE_LIT("0");
    }
}

void
masters_establish(struct server *s)
{
    struct slice get[2] = {SLICE_LIT("GET"), SLICE_LIT("rlock:epoch")}, set[3] = {SLICE_LIT("SET")};
    const struct reply *r = server_command(s, 2, get);
    char epoch[64];

    if (s->world->options->control != CONTROL_VOTES_AT_ONCE || r->type != REPLY_TEXT || r->text.n > sizeof(epoch)) {
        return;
    }
    memcpy(epoch, r->text.p, r->text.n);
    set[1] = SLICE_LIT("rlock:quorum");
    set[2] = (struct slice){epoch, r->text.n};
    (void)server_command(s, 3, set);
}

void
masters_rest(struct world *w)
{
    w->parted_until_us = w->now_us;
    masters_lost(w);
}
