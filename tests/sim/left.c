/*
 * left.c -- the state that may be left when all sessions have gone: L2 in Redis, R1 in the daemons; and after the end
 * of a process: L4.
 */
#include <string.h>

#include "daemon/backend/slot.h"
#include "tests/sim/cluster.h"
#include "tests/sim/sim.h"
#include "tests/unit/core_check.h"

/* An operation without an answer, a new link, and the operation on it. */
enum { RELEASED_US = 3500 * 1000 };

struct left_over {
    struct server *server;
    bool all;
};

/* The sorted set with the expiries of this key's entries: permits, or tickets. False: the key is neither. */
static bool
set_of(struct slice key, char out[96], size_t *n)
{
    static const char queue[] = "redisson_lock_queue:", tickets[] = "redisson_lock_timeout:";
    size_t queue_n = sizeof(queue) - 1, tickets_n = sizeof(tickets) - 1;
    int made = -1;

    if (key.n > queue_n && memcmp(key.p, queue, queue_n) == 0) {
        made = snprintf(out, 96, "%s%.*s", tickets, (int)(key.n - queue_n), key.p + queue_n);
    } else if ((key.n > tickets_n && memcmp(key.p, tickets, tickets_n) == 0) ||
               (key.n > 10 && key.p[0] == '{' && memcmp(key.p + key.n - 8, ":timeout", 8) == 0)) {
        made = snprintf(out, 96, "%.*s", (int)key.n, key.p);
    }
    *n = (size_t)made;
    return made > 0 && made < 96;
}

/* All its entries have expired. The next client deletes the key; without a client, the key itself expires. */
static bool
is_dead(struct server *s, struct slice key)
{
    char now[32], set[96];
    struct slice word[4] = {SLICE_LIT("ZRANGEBYSCORE"), {set, 0}, {now, 0}, SLICE_LIT("+inf")};
    const struct reply *r;

    if (!set_of(key, set, &word[1].n)) {
        return false;
    }
    word[2].n = (size_t)snprintf(now, sizeof(now), "%lld", (long long)(server_clock(s) / US_PER_MS));
    r = server_command(s, 4, word);
    return r->type == REPLY_ARRAY && r->count == 0;
}

/* The mark that rlockd has left this number of permits. */
static bool
is_mark_of(const struct name *n, struct slice key)
{
    char mark[96];

    return n->kind == KIND_SEMAPHORE &&
           slice_eq(key, (struct slice){mark, (size_t)snprintf(mark, sizeof(mark), "{%s}:rlockd", n->text)});
}

/*
 * L2. Fences and clocks stay. A counter whose acquire got no answer expires by itself, and so does the number of a
 * semaphore that had a subscriber when its last permit was given back, with its mark (scripts/semaphore.lua).
 */
static void
see_key(void *ctx, struct slice key)
{
    struct left_over *lo = ctx;
    struct world *w = lo->server->world;
    /* no daemon asks there */
    bool stays = (w->shape == SHAPE_CLUSTER && cluster_owner(w, slot_of(key)) != lo->server) ||
                 (key.n > 6 && memcmp(key.p, "rlock:", 6) == 0) ||
                 (key.n > 19 && memcmp(key.p, "redisson_lock_token", 19) == 0);

    for (int i = 0; i < NAMES && !lo->all && !stays; i++) {
        const struct name *n = &w->name[i];

        stays = (slice_eq(key, slice_of(n->text)) && (n->kind == KIND_COUNTER || n->kind == KIND_SEMAPHORE)) ||
                is_mark_of(n, key);
    }
    if (!stays && !is_dead(lo->server, key)) {
        violated(w, "L2", "%.*s is left in Redis", (int)key.n, key.p);
    }
}

static void
see_keys(struct world *w, bool all)
{
    for (int i = 0; i < w->servers_n && !w->failed; i++) {
        struct left_over lo = {&w->server[i], all};

        if ((w->shape == SHAPE_SENTINEL && lo.server != w->master) || lo.server->follows != NULL) {
            continue; /* it has the data of the master, or had it */
        }
        sim_redis_keys(lo.server->redis, server_clock(lo.server), see_key, &lo);
    }
}

void
check_left_behind(struct world *w)
{
    see_keys(w, false);
}

/*
 * L4. A process releases the locks and tickets that the sessions of the former process left as soon as it reaches
 * Redis, and not when a lease is over; except counters that may have been given back: these are left to their expiry.
 */
void
check_released(struct world *w)
{
    for (int i = 0; i < w->habit.daemons; i++) {
        const struct daemon *d = &w->daemon[i];
        int64_t from_us = d->reached_us > w->trouble_us ? d->reached_us : w->trouble_us;

        from_us = d->expires_us > from_us ? d->expires_us : from_us;
        if (d->alive && d->releasing && d->reached_us != 0 && w->now_us > from_us + RELEASED_US) {
            violated(w, "L4", "daemon %d has not released in %.3f s what the process before it has left", i,
                     (double)(w->now_us - from_us) / 1e6);
        }
    }
}

/* The number of names in the session's requests. */
static size_t
count_asked(const struct session *s)
{
    size_t asked = 0;

    for (int k = 0; k < ASKED && s->open && s->asked_n > 0; k++) {
        asked += s->asked[k].id == 0 ? 0 : s->asked[k].n > 0 ? s->asked[k].n : 1;
    }
    return asked;
}

/* R1, after each step: a core has no more waiters than requests without an answer. */
void
check_caps(struct daemon *d)
{
    struct core_totals t = core_totals(d->core);
    size_t sessions = 0, asked = 0;

    for (int i = 0; i < SESSIONS; i++) {
        sessions += d->session[i].open;
        asked += t.waiters > asked ? count_asked(&d->session[i]) : 0;
    }
    if (t.sessions != sessions || t.waiters > asked || t.locks > NAMES) {
        violated(d->world, "R1", "daemon %d has %d sessions of %d, %d waiters of %d, %d names", d->index,
                 (int)t.sessions, (int)sessions, (int)t.waiters, (int)asked, (int)t.locks);
    }
}

/* R1. All sessions have gone: nothing is left in a core, and nothing on its way to Redis. */
void
check_end(struct world *w)
{
    see_keys(w, true);
    for (int i = 0; i < w->habit.daemons; i++) {
        struct daemon *d = &w->daemon[i];
        struct core_totals t;

        if (!d->alive) {
            violated(w, "R1", "daemon %d did not come back", i);
            return;
        }
        core_check(d->core, daemon_clock(d, w->now_us));
        t = core_totals(d->core);
        if (t.locks + t.owners + t.sessions + t.waiters + t.held_claims + t.releasing_claims > 0) {
            violated(w, "R1", "daemon %d is left with %d locks, %d owners, %d sessions, %d waiters, %d releasing", i,
                     (int)t.locks, (int)t.owners, (int)t.sessions, (int)t.waiters, (int)t.releasing_claims);
        }
        if (d->state.n > 0) {
            violated(w, "R1", "the state directory of daemon %d is left with %d records", i, (int)d->state.n);
        }
        loop_enter(d);
        if (!backend_idle(d->backend)) {
            violated(w, "R1", "the backend of daemon %d is not idle", i);
        }
    }
}
