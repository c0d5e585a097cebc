/*
 * masters.c -- the shape of a quorum: three masters, sometimes five, that know nothing of each other.
 *
 * A name is held where a majority has its key: a key at one node alone, or a key that one node has lost, changes
 * nothing. Faults concern single nodes, several of them at a time; nothing is excused for that, except a clock that is
 * set forward under a key that, without that node, has no majority for as long (masters_jumped). Q1, Q2 and Q3:
 * check.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/backend/sha1.h"
#include "tests/sim/check.h"

/* A node that has lost its data does not vote for the longest lease; then it is examined, and admitted. */
enum { ADMITTED_US = 4 * 1000 * 1000 };

static int
majority(const struct world *w)
{
    return w->servers_n / 2 + 1;
}

/* ---- the beginning of a world ---- */

/* A control: clocks that should be raised are not. */
static bool
of_tokens(const struct world *w)
{
    return w->options->control == CONTROL_WRITE_BACK || w->options->control == CONTROL_UNCOVERED;
}

/* Draws half of the rows of this shape, and none of the faults that only single servers have. */
static void
draw_rates(struct world *w)
{
    static const enum fault none[] = {FAULT_FAILOVER_CLEAN, FAULT_FAILOVER_LOSSY, FAULT_FAILBACK,
                                      FAULT_NEWCOMER,       FAULT_NO_LINKS,       FAULT_SHORTFALL,
                                      FAULT_EVICTION,       FAULT_LOST_TO_OTHER};

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
    if (!loses) { /* then a new quorum need not be waited for */
        w->habit.strict = false;
        w->rate[FAULT_NODE_EMPTIED] = 0;
        for (int f = 0; f < FAULTS; f++) {
            w->rate[f] = fault_rows[f].loss ? 0 : w->rate[f];
        }
    }
    if (of_tokens(w)) { /* faults that make the control visible */
        w->rate[FAULT_NODE_AHEAD] = fault_rows[FAULT_NODE_AHEAD].rate;
    }
    if (w->options->control == CONTROL_VOTES_AT_ONCE) {
        w->rate[FAULT_NODE_EMPTIED] = fault_rows[FAULT_NODE_EMPTIED].rate;
    }
    w->masters = chance(w, 20000) ? 5 : 3;
    w->habit.replicas = w->habit.foreign = 0;
}

void
masters_open(struct world *w)
{
    for (int i = 1; i < w->servers_n; i++) {
        w->server[i].wall_us += between(w, -US_PER_S, US_PER_S);
    }
}

/* A quorum lacks the kinds that count, or that keep more than one key. */
enum kind
masters_kind(const struct world *w, enum kind kind, int name)
{
    if (w->shape != SHAPE_QUORUM || kind == KIND_REENTRANT || kind == KIND_SIMPLE) {
        return kind;
    }
    return name % 3 == 0 ? KIND_SIMPLE : KIND_REENTRANT;
}

/* ---- holders of a name ---- */

/* The holder of the name on this node; n == 0: none. Valid until the next command on the node. */
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

/* The number of nodes, without `but`, on which `holder` has the key. */
static int
others_with(struct world *w, const struct server *but, const struct name *n, struct slice holder)
{
    int nodes = 0;

    for (int i = 0; i < w->servers_n; i++) {
        nodes += &w->server[i] != but && slice_eq(holder_at(&w->server[i], n), holder);
    }
    return nodes;
}

/* The name has a holder on so many nodes that no other owner can get a majority. */
bool
masters_have(struct world *w, const struct name *n)
{
    int taken = 0;

    for (int i = 0; i < w->servers_n; i++) {
        taken += holder_at(&w->server[i], n).n > 0;
    }
    return w->servers_n - taken < majority(w);
}

/* s is the first node on which this holder has the key, and the holder has a majority. */
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

/* The clock of s was set forward within a lease: its keys may end sooner than their owners expect. */
static bool
is_early(const struct server *s)
{
    return s->set_forward_us != 0 && s->world->now_us < s->set_forward_us + longest_lease_us(s->world);
}

static int64_t
pttl_at(struct server *s, const struct name *n)
{
    return server_command(s, 2, (struct slice[]){SLICE_LIT("PTTL"), slice_of(n->text)})->n;
}

/*
 * For how long the owner of this key of s may rely on s, at most. After the clock of s was set back, its key lives
 * longer than the owner knows: then for no longer than any other node has the key.
 */
static int64_t
relied_on_ms(struct server *s, const struct name *n)
{
    struct world *w = s->world;
    bool set_back = s->set_back_us != 0 && w->now_us < s->set_back_us + longest_lease_us(w);
    int64_t here_ms = pttl_at(s, n), elsewhere_ms = 0;

    for (int k = 0; k < w->servers_n; k++) {
        int64_t ms = &w->server[k] != s ? pttl_at(&w->server[k], n) : 0;

        elsewhere_ms = ms > elsewhere_ms ? ms : elsewhere_ms;
    }
    here_ms = set_back && elsewhere_ms < here_ms ? elsewhere_ms : here_ms;
    return here_ms - here_ms / 100 - 1; /* less the margin of a deadline, 1 % and 2 ms, and the rounding of PTTL */
}

/*
 * The clock of s is about to be set forward: the keys of s end sooner than their owners know. A name loses nothing by
 * that if a majority without s has the key for as long as the owner may rely on s. A node whose last renewal failed has
 * the key for a shorter time, and does not count.
 */
void
masters_jumped(struct server *s)
{
    struct world *w = s->world;

    s->set_forward_us = w->now_us;
    for (int i = 0; i < w->habit.names; i++) {
        struct name *n = &w->name[i];
        int64_t needed_ms = relied_on_ms(s, n);
        struct slice holder = holder_at(s, n);
        int others = 0;

        for (int k = 0; k < w->servers_n && holder.n > 0; k++) {
            struct server *other = &w->server[k];

            others += other != s && slice_eq(holder_at(other, n), holder) && pttl_at(other, n) >= needed_ms;
        }
        if (holder.n > 0 && others < majority(w)) {
            n->excused_us = w->now_us + longest_lease_us(w);
        }
    }
    last_failure(w, 0);
}

/* ---- invariants ---- */

/* MGET with all token clocks. */
static const struct slice *
read_of_clocks(void)
{
    static struct slice word[1 + TOKEN_CLOCKS];
    static char name[TOKEN_CLOCKS][24];

    if (word[0].n == 0) {
        word[0] = SLICE_LIT("MGET");
        for (int i = 0; i < TOKEN_CLOCKS; i++) {
            word[1 + i] = (struct slice){name[i], (size_t)snprintf(name[i], sizeof(name[i]), "rlock:clock:%d", i)};
        }
    }
    return word;
}

/* The clock of a name with that key, as scripts/clocks.lua computes it. */
static struct slice
clock_of(struct slice key)
{
    char digest[SHA1_HEX_BYTES + 1];

    sha1_hex(key, digest);
    digest[2] = '\0';
    return read_of_clocks()[1 + strtoul(digest, NULL, 16) % TOKEN_CLOCKS];
}

/* Q2. Called before each shipped script, and so after the one before it. */
static void
check_tokens(struct server *s)
{
    const struct reply *r = server_command(s, 1 + TOKEN_CLOCKS, read_of_clocks());

    for (int i = 0; i < TOKEN_CLOCKS; i++) {
        int64_t now = r->item[i]->type == REPLY_TEXT ? atoll(r->item[i]->text.p) : 0;

        if (now < s->tokens[i]) {
            violated(s->world, "Q2", "%s: its token clock %d is %" PRId64 ", and was %" PRId64, s->name, i, now,
                     s->tokens[i]);
        }
        s->tokens[i] = now;
    }
}

/* The node has lost data, and does not vote yet. */
static bool
is_in_quarantine(const struct server *s)
{
    int64_t quarantine_us = longest_lease_us(s->world) + longest_lease_us(s->world) / 50 + ADMITTED_US;

    return s->lost_us != 0 && s->world->now_us < s->lost_us + quarantine_us;
}

/* Older data may say that it is established, too, until a daemon has registered. */
static bool
is_established(struct server *s)
{
    const struct slice read[] = {SLICE_LIT("MGET"), SLICE_LIT("rlock:epoch"), SLICE_LIT("rlock:quorum")};
    const struct reply *r = server_command(s, 3, read);

    return !is_in_quarantine(s) && r->item[0]->type == REPLY_TEXT && r->item[1]->type == REPLY_TEXT &&
           slice_eq(r->item[0]->text, r->item[1]->text);
}

/* Q3 */
void
masters_reported(struct world *w, const struct name *n, uint64_t token)
{
    struct slice read[2] = {SLICE_LIT("GET"), clock_of(slice_of(n->text))};
    int behind = 0;

    for (int i = 0; i < w->servers_n && w->shape == SHAPE_QUORUM; i++) {
        if (is_established(&w->server[i])) {
            const struct reply *r = server_command(&w->server[i], 2, read);

            behind += r->type != REPLY_TEXT || strtoull(r->text.p, NULL, 10) < token;
        }
    }
    if (behind >= majority(w)) {
        violated(w, "Q3", "%s: %d nodes vote for it, and may give tokens below %llu", n->text, behind,
                 (unsigned long long)token);
    }
}

/* A node that has lost its data, or whose keys may have ended before their time. */
static bool
may_lack(const struct server *s)
{
    return is_early(s) || is_in_quarantine(s);
}

static void
check_has(struct world *w, const struct name *n, const struct promise *p)
{
    char owner[64];
    int has = 0, lack = 0;

    snprintf(owner, sizeof(owner), "%08x-%04x-4000-8000-726c6f636b64:", (unsigned)(uint32_t)p->self,
             (unsigned)p->daemon);
    for (int i = 0; i < w->servers_n; i++) {
        struct slice holder = holder_at(&w->server[i], n);
        bool ours = n->kind == KIND_SIMPLE ? holder.n > 0 /* a value does not name its owner */
                                           : holder.n > strlen(owner) && memcmp(holder.p, owner, strlen(owner)) == 0;

        has += ours;
        lack += !ours && may_lack(&w->server[i]);
    }
    if (has + lack < majority(w)) {
        violated(w, "Q1", "%s is promised by daemon %d for %.6f s: %d nodes have its key", n->text, p->daemon,
                 (double)(p->until_us - w->now_us) / 1e6, has);
    }
}

void
masters_check(struct world *w)
{
    for (int i = 0; i < w->habit.names && w->shape == SHAPE_QUORUM; i++) {
        const struct name *n = &w->name[i];

        for (int k = 0; k < n->promises_n && !n->broken && !is_excused(w, n); k++) {
            if (w->now_us < n->promise[k].until_us) {
                check_has(w, n, &n->promise[k]);
            }
        }
    }
}

/* ---- faults ---- */

/* A node begins anew, or has lost its data: it does not vote for some time, so no other node may fail. */
void
masters_lost(struct world *w)
{
    if (w->shape == SHAPE_QUORUM) {
        last_failure(w, longest_lease_us(w) + longest_lease_us(w) / 50 + ADMITTED_US);
    }
}

void
masters_emptied(struct server *s)
{
    memset(s->tokens, 0, sizeof(s->tokens));
    s->lost_us = s->world->now_us;
    masters_lost(s->world);
}

/* Cuts the node off, together with some of the daemons; these reach no other node. */
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

/* Raises the token clock of the key at a node, as other names with that clock would. */
static void
raise_clock(struct server *s, struct slice key, int64_t to)
{
    struct slice get[2] = {SLICE_LIT("GET"), clock_of(key)}, set[3] = {SLICE_LIT("SET"), get[1]};
    const struct reply *r = server_command(s, 2, get);
    char text[24];

    if (r->type == REPLY_TEXT && atoll(r->text.p) >= to) {
        return;
    }
    set[2] = (struct slice){text, (size_t)snprintf(text, sizeof(text), "%" PRId64, to)};
    (void)server_command(s, 3, set);
}

/* Moves the token clocks of nodes apart, so that write-backs are needed; by a control no clock is raised. */
void
masters_call(struct server *s, int verb, struct slice key, struct slice *floor)
{
    struct world *w = s->world;

    check_tokens(s);
    if (verb == VERB_ACQUIRE && fault(w, FAULT_NODE_AHEAD)) {
        raise_clock(s, key, server_clock(s) + below(w, 5 * US_PER_S));
    }
    if (verb == VERB_RENEW && floor->p[0] != '0' && of_tokens(w)) {
        if (w->options->control == CONTROL_WRITE_BACK) {
            raise_clock(&w->server[(s->index + 1) % w->servers_n], key, atoll(floor->p));
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
