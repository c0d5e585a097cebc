/*
 * check.c -- the promises of rlockd, checked against the replies of clients and the states of the cores.
 *
 * The list of promises (S safety, G guards, A and R state, L liveness, Q quorum) stands below the includes, with the
 * exceptions and their causes. Some promises are checked in other files, which the list names.
 */
#include <string.h>

#include "daemon/backend/call.h"
#include "tests/sim/check.h"
#include "tests/sim/cluster.h"
#include "tests/unit/core_check.h"
#include "tests/unit/core_each.h"

/*
 * The promises:
 *
 *   S1  a name has at most one holder, or only readers, or as many holders as there are permits, whose reported
 *       deadline has not passed in true time
 *   S2  tokens of a name rise
 *   S3  one answer per request, and none to a session that has gone (client.c)
 *   S4  holds are grants minus releases; a re-entry has the same token, also after a restart of the daemon
 *   S5  first come, first served among the waiters at one daemon
 *   S6  no reply says "held" past the deadline; a lock is lost only if its owner received LOST
 *   S7  no daemon changes or takes away the lock of another client in Redis (ours.c)
 *   S8  a name whose key is in use by another name at its daemon is refused (client.c)
 *   S9  a CANCEL leaves no LOCK of that owner for the name unanswered, and reports how many it has ended (cancel.c)
 *   S10 requests of one owner are answered in the order in which they were sent, except those that go side by side
 *       (pipeline.c)
 *   G1  no command takes a lock past its guard
 *   G2  an attempt that runs past its guard, because Redis's clock was set back while it was under way, is one that its
 *       daemon still expects
 *   A1  a process restores all checkpoints that the process before it left (state.c)
 *   L1  a free lock is granted to a waiter, once faults have stopped
 *   L2  Redis keeps no key that its daemon does not know of (ours.c, left.c)
 *   L3  without a fault no lock is lost
 *   L4  the locks of a process that ended are free when the next process has reached Redis (left.c)
 *   L5  a waiter at one daemon has its turn while the owners at another daemon hand the name round (turns.c)
 *   Q1  a lock that is held has its key at a majority of a quorum's nodes; a node that lost the key and does not vote
 *       yet is excepted
 *   Q2  a token clock of a node never goes back, unless the node has lost data (masters.c)
 *   Q3  the established nodes whose clock of the name is behind a reported token are too few for a majority
 *   R1  a daemon has no more records than requests, and none when all clients have gone (left.c)
 *
 * S7 is asserted of other clients. Between daemons S1 covers it: if a daemon takes away the key of another daemon, a
 * third can get the lock while the promise lasts; if none does, the next renewal finds the key gone, which is L3.
 *
 * These are not asserted, for the reasons given:
 *   S1, S2 after Redis's clock has jumped ahead, or for one name whose key Redis has evicted (excused_us, counted): no
 *      answer shows that before the next renewal, so neither is promised (S2: seed 17650).
 *   S1 of counters for a lease after the former master has come back (failback_us): only their expiry identifies them,
 *      and a reclaimed counter may expire in the same 2 ms as a counter that was granted since with another lease (see
 *      scripts/counter.lua; seed 9617 of other dice). Any loss of data could cause that; only this one has caused it.
 *   S1 of a name that a named owner has given back over one session while the answer with the grant was on its way to
 *      another session. If it has given back a part, the rest stays, of a read-write lock at least as a reader's (seeds
 *      20182 and 21861); if the answer is that of a RENEW, the lease is the one that was reported before.
 *   S1 for a lease after the former master has come back, between a holder in a later epoch and a grant of an earlier
 *      one: until a daemon reports a rollback (membership.lua) Redis does not show that data was lost (seed 21149;
 *      10381, where the process of the first holder had died).
 *   S1, S4, L1 and L3 of names on which BREAK is used (`broken`): BREAK causes that. The former holder receives LOST
 *      with its next renewal. And S2: a BREAK may come before the answer of a grant, which then arrives after the next
 *      grant.
 *   L2 for a lease after Redis has gone back to older data (ghosts_us): keys that were released since are back, and no
 *      daemon asks for them.
 *   S1, S2, Q1 of a name of a quorum whose key ends early on a node, because the node's clock is set forward, if no
 *      majority of other nodes has the key for as long (masters_jumped; seed 5435: a node had refused the last
 *      renewal): for a lease. Nothing else is excused there: nodes die, are emptied, stand still, and are cut off,
 *      several at once.
 *   L5 and G2 of a quorum: after a hint all daemons ask all nodes, and chance decides which of them is first at most
 *      nodes; an attempt that was given up is kept in the backend (quorum_entries.c), and its traces are L2.
 *   G1 after Redis's clock was set back (late_guards_us): a guard is by that clock. G2 if it was set back when the
 *      guard was over already: no later answer of Redis shows that.
 */

enum { CORE_CHECK_EVERY = 64 };
enum { LOST_AFTER_US = 2 * 1000 * 1000, RENEWED_AFTER_US = 4 * 1000 * 1000 };

bool
name_has(const struct name *n, unsigned flag)
{
    return (kind_rows[n->kind].flags & flag) != 0;
}

uint64_t
epoch_of(const struct daemon *d)
{
    struct backend_status st;

    if (!d->alive) {
        return d->state.epoch;
    }
    backend_status(d->backend, &st);
    return st.epoch;
}

bool
is_excused(const struct world *w, const struct name *n)
{
    return w->now_us < w->domain[n->domain].excused_us || w->now_us < n->excused_us;
}

/* Daemon a has it, or its client does, by a grant in that epoch; b has it, too. */
void
double_grant(struct world *w, const char *how, struct name *n, int a, uint64_t epoch, int b)
{
    int64_t failback_us = w->domain[n->domain].failback_us;

    if (w->now_us < failback_us && epoch != epoch_of(&w->daemon[b])) {
        /* also after both clients have received their answers */
        n->excused_us = n->excused_us > failback_us ? n->excused_us : failback_us;
    }
    if (is_excused(w, n) || (n->kind == KIND_COUNTER && w->now_us < failback_us)) {
        w->totals->excused++;
        if (w->shape == SHAPE_SENTINEL && !w->sentinels.bounded) {
            sight(w, SIGHT_UNBOUNDED);
        }
        return;
    }
    violated(w, "S1", "%s has two holders (%s): daemons %d and %d", n->text, how, a, b);
}

/* ---- news ---- */

/*
 * S2. Replies to owners that share a name may overtake each other; an exclusive grant has a token above all before it,
 * and so does a permit that was handed over: at that moment no other grant of a permit was under way.
 */
static void
check_token(struct daemon *d, struct name *n, uint64_t token, bool handed)
{
    struct world *w = d->world;
    struct core_lock_view v = {.shared = false};
    bool alone = handed || !name_has(n, KIND_F_SHARED | KIND_F_PERMITS);

    if (name_has(n, KIND_F_SHARED)) {
        alone = core_lock_info(d->core, daemon_clock(d, w->now_us), slice_of(n->text), &v) && !v.shared;
    }
    if (token <= (alone ? n->last_token : n->last_exclusive) && is_excused(w, n)) {
        w->totals->excused++; /* a former holder may hand it over until its daemon learns of the loss */
    } else if (token <= (alone ? n->last_token : n->last_exclusive) && !n->broken) {
        violated(w, "S2", "%s: token %llu after %llu", n->text, (unsigned long long)token,
                 (unsigned long long)n->last_token);
    }
    masters_reported(w, n, token);
    n->last_exclusive = alone ? token : n->last_exclusive;
    n->last_token = token > n->last_token ? token : n->last_token;
}

/*
 * A lock that was "not renewed in time" cannot have been renewed at any moment of a third of its lease: a link that
 * failed is up again within two seconds, and a renewal that failed is tried again every second. A key that Redis has
 * lost is missed at the next renewal; in a grace period not even then, since a missing key proves nothing there.
 */
static int64_t
lost_after_us(const struct daemon *d, const char *reason)
{
    struct backend_status now;

    backend_status(d->backend, &now);
    return strcmp(reason, "not renewed in time") == 0 && !now.grace ? RENEWED_AFTER_US
                                                                    : d->world->habit.lease_us + LOST_AFTER_US;
}

void
check_news(struct daemon *d, const struct core_publish *p)
{
    struct world *w = d->world;
    struct name *n = &w->name[name_find(w, p->name)];
    static const char *const what[] = {"granted", "released", "lost", "wanted", "jeopardy"};

    trace(w, "news", "daemon-%d: %s %s owner %llu token %llu %s", d->index, n->text, what[p->news],
          (unsigned long long)p->owner, (unsigned long long)p->token, p->reason != NULL ? p->reason : "");
    if (p->news == CORE_NEWS_GRANTED) {
        bool handed = turns_granted(d, n);

        n->granted = true;
        if (w->master != &w->server[0]) {
            sight(w, SIGHT_RETARGETED);
        }
        check_token(d, n, p->token, handed);
        if (handed && name_has(n, KIND_F_PERMITS)) {
            sight(w, SIGHT_PERMIT_HANDED);
        }
        if (foreign_has(w, n)) {
            violated(w, "S1", "%s was granted, and another client has it", n->text);
        }
    } else if (p->news == CORE_NEWS_LOST) {
        const struct promise *pr = promise_find(n, d, p->owner);

        if (pr != NULL) {
            promise_forget(n, (int)(pr - n->promise));
        }
    }
    if (p->news == CORE_NEWS_JEOPARDY) {
        sight(w, SIGHT_JEOPARDY);
    }
    if (p->news != CORE_NEWS_LOST) {
        return;
    }
    sight(w, SIGHT_LOST);
    if (strcmp(p->reason, "gone in Redis") == 0 && n->row.daemon == d) {
        turns_taken(n); /* other owners may have had it since; and chance decides which attempt is the next */
    }
    if (!n->broken && w->now_us > w->trouble_us + lost_after_us(d, p->reason) &&
        strcmp(p->reason, "lease over") != 0 && strcmp(p->reason, "granted too late to be reported") != 0) {
        violated(w, "L3", "%s lost (%s), though nothing went wrong for %.3f s", n->text, p->reason,
                 (double)(w->now_us - w->trouble_us) / 1e6);
    }
}

/* ---- commands that were given up ---- */

/*
 * G1. Redis may run commands that were under way when their link was given up, but none of them takes a lock past its
 * guard. The guard is a second after the sending, by Redis's clock as the daemon knew it.
 */
void
check_zombie(const struct conn *c, int script, const struct reply *r)
{
    struct world *w = c->world;
    int64_t late_us = w->now_us - c->closed_us - US_PER_S;

    if (late_us > US_PER_S && scripts_verb(script) == VERB_ACQUIRE && r->type == REPLY_ARRAY && r->count > 1 &&
        r->item[1]->n == 1 && w->now_us > c->server->late_guards_us) {
        violated(w, "G1", "a lock of kind %s was taken %.3f s past its guard", kind_rows[scripts_kind(script)].name,
                 (double)late_us / 1e6);
    }
}

static bool
is_known(const struct daemon *d, const struct name *n)
{
    struct core_lock_view v;

    return core_lock_info(d->core, daemon_clock(d, d->world->now_us), slice_of(n->text), &v);
}

/* G2. Each row of the answer has some names in their order; the last number of a row is their number. */
void
check_moved_guard(const struct conn *c, const struct slice *word, const struct reply *r)
{
    struct world *w = c->world;
    struct daemon *d = c->daemon;
    int64_t guard_us = c->ran_sent_us + US_PER_S, back_us = c->server->set_back_us;
    size_t key = 5;

    if (w->shape == SHAPE_QUORUM || back_us < c->ran_sent_us || back_us > guard_us ||
        w->now_us < guard_us + US_PER_S / 4 ||
        r->type != REPLY_ARRAY || !d->alive || d->life != c->life) {
        return;
    }
    for (size_t i = 1; i + 3 < r->count; i += 4) {
        for (int64_t k = 0; k < r->item[i + 3]->n; k++, key++) {
            const struct name *n = &w->name[name_find(w, word[key])];

            if (r->item[i]->n != 1) {
                continue;
            }
            w->totals->faults[FAULT_MOVED_GUARD]++;
            if (!n->broken && !is_known(d, n)) {
                violated(w, "G2", "%s was taken %.3f s past the guard by an attempt that daemon %d has forgotten",
                         n->text, (double)(w->now_us - guard_us) / 1e6, d->index);
            }
        }
    }
}

/* ---- after each step ---- */

struct holders_seen {
    int64_t now_us;
    int n, writers, daemon, last;
};

static void
count_holder(void *ctx, const struct core_holder_view *v)
{
    struct holders_seen *l = ctx;

    if (l->now_us < v->deadline_us) {
        l->n++;
        l->writers += !v->shared;
        l->last = l->daemon;
    }
}

/* S1, as the daemons see it: it includes renewals. */
static void
check_holders(struct world *w, struct name *n)
{
    struct holders_seen seen = {.n = 0};
    int allowed = name_has(n, KIND_F_PERMITS) ? (int)n->limit : 1, first = -1;

    n->granted = false;
    for (int i = 0; i < w->habit.daemons; i++) {
        struct daemon *d = &w->daemon[i];
        int before = seen.n;

        if (d->alive) {
            seen.now_us = daemon_clock(d, w->now_us);
            seen.daemon = i;
            core_each_holder(d->core, seen.now_us, slice_of(n->text), count_holder, &seen);
            first = first < 0 && seen.n > before ? i : first;
        }
    }
    if (n->broken) {
        return;
    }
    if (seen.n > 1 && seen.writers == 0) {
        sight(w, SIGHT_READERS);
    }
    if (allowed > 1 && seen.n == allowed) {
        sight(w, SIGHT_PERMITS_OUT);
    }
    if (seen.writers > 0 && seen.n > allowed) {
        double_grant(w, "held", n, first, epoch_of(&w->daemon[first]), seen.last);
    }
}

/* A permit has no promise that excludes others, so a name's holders are counted whenever one is granted. */
void
check_step(struct daemon *d)
{
    struct world *w = d->world;

    for (int i = 0; i < w->habit.names; i++) {
        if (w->name[i].granted) {
            check_holders(w, &w->name[i]);
        }
    }
    check_caps(d);
    if (w->check_in-- == 0) {
        w->check_in = CORE_CHECK_EVERY;
        core_check(d->core, daemon_clock(d, w->now_us));
    }
}

/* ---- when faults have stopped ---- */

struct waits {
    struct world *world;
    bool waits[NAMES];
};

static void
note_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct waits *ws = ctx;

    if (!v->kept) {
        ws->waits[name_find(ws->world, v->name)] = true;
    }
}

/* Redis has the name for some owner, so a waiter may go on waiting. */
static bool
is_taken(struct world *w, const struct name *n)
{
    struct server *s = server_of(w, n);
    char permits[64];

    if (w->shape == SHAPE_QUORUM) {
        return masters_have(w, n);
    }
    if (w->shape == SHAPE_CLUSTER && cluster_has_open(w, n)) {
        return true;
    }
    snprintf(permits, sizeof(permits), "{%s}:timeout", n->text);
    return server_has(s, n->text) || server_has(s, permits);
}

/*
 * L1. No waiter waits for a free name for longer than a daemon needs to ask again. A holder at another daemon learns of
 * a BREAK at its renewal, and until then the waiters behind it wait.
 */
void
check_calm(struct world *w)
{
    struct waits ws = {.world = w};

    if (w->now_us < w->trouble_us) {
        return;
    }
    for (int i = 0; i < w->habit.daemons; i++) {
        struct daemon *d = &w->daemon[i];

        if (d->alive) {
            core_each_waiter(d->core, daemon_clock(d, w->now_us), (struct slice){NULL, 0}, note_waiter, &ws);
        }
    }
    for (int i = 0; i < w->habit.names; i++) {
        struct name *n = &w->name[i];

        if (!ws.waits[i] || n->broken || n->granted || is_taken(w, n)) {
            n->free_since_us = 0;
        } else if (n->free_since_us == 0) {
            n->free_since_us = w->now_us;
        } else if (w->now_us - n->free_since_us > w->habit.poll_us + 1500 * US_PER_MS) {
            violated(w, "L1", "%s is free since %.6f, and is waited for", n->text, (double)n->free_since_us / 1e6);
        }
    }
}
