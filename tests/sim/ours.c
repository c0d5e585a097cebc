/*
 * ours.c -- the data of Redis, compared with the state of the daemons and of other clients.
 *
 *   S7  no daemon changes or takes away the lock of another client, and none grants the name meanwhile
 *   L2  without recent faults, each holder of a name in Redis also holds it in its daemon,
 *   S4  and as often, unless it has requested the name more than once
 *
 * Another client is one of Redisson, or of SET NX PX, that uses the same Redis without rlockd. It ignores epochs and
 * grace periods, and takes any free name. Its commands run at once, since faults of its network are not tested here.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/core_each.h"

enum { QUIET_US = 2500 * 1000, ODD_US = 1500 * 1000, CHECK_US = 500 * 1000, LATE_GRANT_US = 1500 * 1000 };

#define OTHER_CLIENT "5ca1ab1e-0000-4000-8000-00000000beef:1"

static bool
suits(const struct world *w, const struct name *n)
{
    return n - w->name < w->habit.names && !n->broken &&
           (n->kind == KIND_REENTRANT || n->kind == KIND_FENCED || n->kind == KIND_SIMPLE);
}

/* As the other client has left it: returns the rest of its lease in ms; -1: it does not hold the lock. */
static int64_t
foreign_left_ms(struct world *w, const struct name *n)
{
    struct server *s = server_of(w, n);
    struct slice key = slice_of(n->text);
    const struct reply *r;

    if (n->kind == KIND_SIMPLE) {
        r = server_command(s, 2, (struct slice[]){SLICE_LIT("GET"), key});
        if (r->type != REPLY_TEXT || !slice_is(r->text, OTHER_CLIENT)) {
            return -1;
        }
    } else {
        r = server_command(s, 2, (struct slice[]){SLICE_LIT("HGETALL"), key});
        if (r->type != REPLY_ARRAY || r->count != 2 || !slice_is(r->item[0]->text, OTHER_CLIENT) ||
            !slice_is(r->item[1]->text, "1")) {
            return -1;
        }
    }
    return server_command(s, 2, (struct slice[]){SLICE_LIT("PTTL"), key})->n;
}

bool
foreign_has(const struct world *w, const struct name *n)
{
    return n->foreign.has && server_clock(server_of(w, n)) < n->foreign.until_us &&
           w->now_us > n->foreign.since_us + LATE_GRANT_US && w->now_us > w->trouble_us + LATE_GRANT_US;
}

static void
foreign_takes(struct world *w, struct name *n)
{
    struct server *s = server_of(w, n);
    int64_t lease_ms = between(w, 500, 5000);
    struct slice key = slice_of(n->text), lease;
    const struct reply *r;
    char text[32];

    lease = (struct slice){text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)lease_ms)};
    if (n->foreign.has || server_command(s, 2, (struct slice[]){SLICE_LIT("EXISTS"), key})->n != 0) {
        return;
    }
    if (n->kind == KIND_SIMPLE) {
        r = server_command(s, 6, (struct slice[]){SLICE_LIT("SET"), key, SLICE_LIT(OTHER_CLIENT), SLICE_LIT("NX"),
                                                  SLICE_LIT("PX"), lease});
    } else {
        r = server_command(s, 4, (struct slice[]){SLICE_LIT("HSET"), key, SLICE_LIT(OTHER_CLIENT), SLICE_LIT("1")});
    }
    if (r->type == REPLY_ERROR) { /* full */
        return;
    }
    (void)server_command(s, 3, (struct slice[]){SLICE_LIT("PEXPIRE"), key, lease});
    n->foreign = (struct foreign){.has = true, .since_us = w->now_us,
                                    .until_us = server_clock(s) / US_PER_MS * US_PER_MS + lease_ms * US_PER_MS};
    turns_taken(n);
    sight(w, SIGHT_OTHER_CLIENT);
    trace(w, "other client", "takes %s for %lld ms", n->text, (long long)lease_ms);
}

static void
foreign_acts(struct world *w, struct name *n)
{
    struct server *s = server_of(w, n);
    struct slice key = slice_of(n->text);
    char channel[96];

    if (n->foreign.has && server_clock(s) >= n->foreign.until_us - 2 * US_PER_MS) {
        n->foreign.has = false;
    } else if (n->foreign.has && foreign_left_ms(w, n) < 0) {
        violated(w, "S7", "%s was taken from another client, or changed", n->text);
    } else if (n->foreign.has && chance(w, 5000)) {
        trace(w, "other client", "gives %s back", n->text);
        n->foreign.has = false;
        (void)server_command(s, 2, (struct slice[]){SLICE_LIT("DEL"), key});
        snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", n->text);
        (void)server_command(s, 3, (struct slice[]){SLICE_LIT("PUBLISH"), slice_of(channel), SLICE_LIT("0")});
    } else if (!n->foreign.has && !w->leaving && w->now_us >= s->down_until_us &&
               chance(w, (uint32_t)w->habit.foreign)) {
        foreign_takes(w, n);
    }
}

void
foreign_tick(struct world *w)
{
    for (int i = 0; i < w->habit.names && w->habit.foreign > 0; i++) {
        if (suits(w, &w->name[i])) {
            foreign_acts(w, &w->name[i]);
        }
    }
}

/*
 * The other client holds a key that is left, and has lost a missing one.
 * `take`: it may take free names before the daemons do.
 */
void
foreign_lost(struct server *s, bool take)
{
    struct world *w = s->world;

    for (int i = 0; i < w->habit.names && w->habit.foreign > 0; i++) {
        struct name *n = &w->name[i];
        int64_t left_ms;

        if (n->domain != s->domain) {
            continue;
        }
        left_ms = n->foreign.has ? foreign_left_ms(w, n) : -1;
        n->foreign.has = left_ms >= 0;
        n->foreign.until_us = server_clock(server_of(w, n)) / US_PER_MS * US_PER_MS + left_ms * US_PER_MS;
        if (take && suits(w, n) && chance(w, 50000)) {
            foreign_takes(w, n);
        }
    }
}

/* ---- owners of the daemons ---- */

/*
 * The number of holds in Redis does not count once it has changed: if a LOCK or UNLOCK got no answer, or the session
 * ended before the answer, the owner has as many holds as before, and Redis may have another number. The next command
 * sets it, and the last release takes all.
 */
void
check_op(struct daemon *d, const struct core_op *op, enum core_action_type verb)
{
    if ((verb == CORE_ACQUIRE && op->reentry) || (verb == CORE_RELEASE && op->holds > 0)) {
        d->world->name[name_find(d->world, op->key)].odd[d->index].counted = op->owner;
    }
}

struct holder {
    uint64_t number;
    int64_t holds; /* out: 0 = not held */
};

static void
count_holds(void *ctx, const struct core_holder_view *v)
{
    struct holder *h = ctx;

    if (v->owner.redis_owner == h->number) {
        h->holds = v->holds;
    }
}

bool
lingers(const struct daemon *d, const struct name *n)
{
    struct core_lock_view v;

    return core_lock_info(d->core, daemon_clock(d, d->world->now_us), slice_of(n->text), &v) &&
           strcmp(v.state, "lingering") == 0;
}

struct waiter {
    uint64_t session;
    bool found; /* out */
};

static void
find_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct waiter *one = ctx;

    one->found = one->found || (!v->kept && v->owner.session == one->session);
}

bool
has_ticket(const struct daemon *d, const struct name *n, uint64_t session)
{
    struct waiter one = {.session = session};

    core_each_waiter(d->core, daemon_clock(d, d->world->now_us), slice_of(n->text), find_waiter, &one);
    return one.found;
}

/* Redis may differ for a moment, while operations of the daemon are on their way. */
static void
compare(struct world *w, struct name *n, const struct reply *r, size_t i, bool *odd)
{
    unsigned self, index;
    unsigned long long number;
    struct holder h = {.number = 0};
    struct daemon *d;
    int64_t count = atoll(r->item[i + 1]->text.p);

    if (sscanf(r->item[i]->text.p, "%8x-%4x-4000-8000-726c6f636b64:%llu", &self, &index, &number) != 3 ||
        index >= (unsigned)w->daemons_n) {
        return;
    }
    d = &w->daemon[index];
    if (!d->alive || d->state.self != self) {
        return; /* of a process without a successor: the lock stays until its lease is over */
    }
    h.number = number;
    core_each_holder(d->core, daemon_clock(d, w->now_us), slice_of(n->text), count_holds, &h);
    if (h.holds == count || (h.holds != 0 && n->odd[index].counted == number) || (h.holds == 0 && lingers(d, n))) {
        return;
    }
    odd[index] = true;
    if (n->odd[index].since_us == 0 || n->odd[index].owner != number) {
        n->odd[index].owner = number;
        n->odd[index].since_us = w->now_us;
    } else if (w->now_us - n->odd[index].since_us >= ODD_US) {
        violated(w, h.holds == 0 ? "L2" : "S4", "%s: in Redis owner %llu of daemon %u has it %d times, there %d times",
                 n->text, number, index, (int)count, (int)h.holds);
    }
}

/* In a quorum only an owner with a majority counts, and once. */
static void
compare_all(struct world *w, struct name *n, bool *odd)
{
    for (int i = 0; i < (w->shape == SHAPE_QUORUM ? w->servers_n : 1); i++) {
        struct server *s = w->shape == SHAPE_QUORUM ? &w->server[i] : server_of(w, n);
        const struct reply *r = server_command(s, 2, (struct slice[]){SLICE_LIT("HGETALL"), slice_of(n->text)});

        for (size_t k = 0; r->type == REPLY_ARRAY && k + 1 < r->count; k += 2) {
            if (w->shape != SHAPE_QUORUM || masters_first(w, s, n, r->item[k]->text)) {
                sight(w, SIGHT_OURS);
                compare(w, n, r, k, odd);
            }
        }
    }
}

void
check_ours(struct world *w)
{

    if (w->ours_us > w->now_us) {
        return;
    }
    w->ours_us = w->now_us + CHECK_US;
    for (int i = 0; i < w->habit.names; i++) {
        struct name *n = &w->name[i];
        bool odd[DAEMONS_MAX] = {false};
        bool quiet = w->now_us > w->trouble_us + QUIET_US && w->now_us > w->domain[n->domain].ghosts_us;

        if (quiet && !n->broken && (n->kind == KIND_REENTRANT || n->kind == KIND_FENCED || n->kind == KIND_FAIR)) {
            compare_all(w, n, odd);
        }
        for (int d = 0; d < w->daemons_n; d++) {
            n->odd[d].since_us = odd[d] ? n->odd[d].since_us : 0;
        }
    }
}
