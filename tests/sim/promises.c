/*
 * promises.c -- promises to clients: S1 as they see it, S4, S5 and S6 (check.c).
 *
 * A promise is a grant that a client has received: the lock is its own until the promise ends. The promise ends when
 * the client gives it up, or receives LOST; from an UNLOCK or a RENEW to its answer there is no promise. An action of
 * the daemon ends none: if it releases a lock by itself, another holder is still a violation.
 */
#include "tests/sim/check.h"

enum { OPERATION_US = 1000 * 1000 };

/* One holder at a time, or only readers. */
static bool
excludes(const struct name *n)
{
    return !n->broken && !name_has(n, KIND_F_PERMITS);
}

static bool
is_of(const struct promise *p, const struct daemon *d, uint64_t owner)
{
    return p->daemon == d->index && p->self == d->state.self && p->owner == owner;
}

void
promise_forget(struct name *n, int i)
{
    n->promise[i] = n->promise[--n->promises_n];
}

struct promise *
promise_find(struct name *n, const struct daemon *d, uint64_t owner)
{
    for (int i = 0; i < n->promises_n; i++) {
        if (is_of(&n->promise[i], d, owner)) {
            return &n->promise[i];
        }
    }
    return NULL;
}

static void
forget_old(struct name *n, int64_t now_us)
{
    for (int i = n->promises_n; i-- > 0;) {
        if (n->promise[i].until_us < now_us - 30 * US_PER_S) {
            promise_forget(n, i);
        }
    }
}

/* The epoch in which the lock is held; a process that has died asserted its locks in no epoch after the grant. */
static uint64_t
promised_in(const struct world *w, const struct promise *p)
{
    const struct daemon *d = &w->daemon[p->daemon];

    return p->life == d->life ? epoch_of(d) : p->epoch;
}

/* S1, as the clients see it. */
static void
check_promises(struct daemon *d, struct name *n, const struct promise *mine)
{
    struct world *w = d->world;

    for (int i = 0; i < n->promises_n && excludes(n); i++) {
        const struct promise *p = &n->promise[i];

        if (p == mine || w->now_us >= p->until_us || is_of(p, d, mine->owner)) {
            continue;
        }
        if (!p->shared || !mine->shared) {
            trace(w, "check", "promise of daemon %d owner %d token %d until %.6f", p->daemon, (int)p->owner,
                  (int)p->token, (double)p->until_us / 1e6);
            double_grant(w, "reported", n, p->daemon, promised_in(w, p), d->index);
            return;
        }
    }
}

static int64_t
reported_until(const struct daemon *d, int64_t lease_us)
{
    struct world *w = d->world;
    int64_t us = lease_us;

    if (w->options->control == CONTROL_DRIFT_0) { /* without the margin, for a client that counts in true time */
        us += lease_us / 99 + 2 * US_PER_MS;
    }
    return daemon_true(d, daemon_clock(d, w->now_us) + us);
}

/* ---- grants ---- */

/* S4. Only where no other request of this session is under way that could change it. */
static void
check_holds(struct daemon *d, const struct name *n, const struct promise *p, const struct asked *a,
            const struct core_reply *r)
{
    struct world *w = d->world;
    bool reentrant = name_has(n, KIND_F_REENTRANT) && n->kind != KIND_RW && !n->broken;
    uint32_t holds = a->once ? p->holds : p->holds + 1;

    if (!reentrant || !a->sole || a->owner.n > 0 || p->holds == 0 || w->now_us >= p->until_us) {
        return;
    }
    sight(w, SIGHT_REENTERED);
    if (r->holds != holds || r->token != p->token) {
        violated(w, "S4", "%s re-entered: %u holds, expected %u; token %llu, expected %llu", n->text, r->holds, holds,
                 (unsigned long long)r->token, (unsigned long long)p->token);
    }
}

/* S4: a named owner that comes back to a new process within its grace has held the lock all the time. */
static void
check_returned(struct daemon *d, const struct name *n, const struct promise *p, const struct core_reply *r)
{
    struct world *w = d->world;

    if (p->life == d->life || w->now_us >= p->until_us || name_has(n, KIND_F_PERMITS)) {
        return;
    }
    sight(w, SIGHT_RETURNED);
    if (r->token != p->token && !n->broken) {
        violated(w, "S4", "%s: who came back after a restart has token %llu, and had %llu", n->text,
                 (unsigned long long)r->token, (unsigned long long)p->token);
    }
}

static bool
still_waits(const struct world *w, const struct asked *a, int name)
{
    bool in_time = a->wait_us == CORE_FOREVER || a->at_us + a->wait_us > w->now_us + 50 * US_PER_MS;

    return a->id != 0 && a->type == CORE_LOCK && a->name[0] == name && a->wait_us != 0 && in_time && !a->once &&
           a->first && a->owner.n == 0 && a->queued;
}

static bool
was_refused(const struct session *s, const struct asked *a, int name)
{
    return s->unavailable_us[name] != 0 && a->at_us < s->unavailable_us[name] + 15 * US_PER_S;
}

/* When the client's LOCK was cancelled an attempt for it may have been in flight, and it may still be. */
static bool
has_attempt_of_cancelled(const struct session *s, const struct asked *a, int name)
{
    return s->cancelled_us[name] != 0 && a->at_us < s->cancelled_us[name] + OPERATION_US;
}

/*
 * S5. Not asserted where the order is not the order of requests at one daemon:
 * - readers go together, and a ticket counts more than a position at the daemon;
 * - an owner whose last hold, or attempt, is still being given back when it asks (also the last holder that asks while
 *   the lock lingers, for more than the rest of its lease): others may ask right behind that release, the owner only
 *   after the answer; or an owner whose attempt was answered too early and is still under way: the owner has the
 *   ticket of that attempt; or an owner that received LOST, whose loss is confirmed first;
 * - a request within the time of an operation after a CANCEL: the attempt in flight is for that owner (seeds 645 and
 *   2148);
 * - input that a process reads after it stood still: two waiters may have been granted permits meanwhile, and the lease
 *   of the first one may be over.
 */
static void
check_turn(struct daemon *d, const struct session *s, const struct asked *a, int name, const struct core_reply *r)
{
    const struct name *n = &d->world->name[name];
    bool simple = a->type == CORE_LOCK && a->first && a->owner.n == 0 && !a->once && r->holds <= 1;

    if (!simple || name_has(n, KIND_F_SHARED | KIND_F_TICKETS) || was_refused(s, a, name) ||
        has_attempt_of_cancelled(s, a, name) || d->world->now_us < d->paused_until_us + US_PER_MS) {
        return;
    }
    for (int i = 0; i < SESSIONS; i++) {
        const struct session *other = &d->session[i];

        for (int k = 0; k < ASKED && other != s && other->open && !other->eof; k++) {
            const struct asked *b = &other->asked[k];

            if (b->at_us < a->at_us && !b->answered && still_waits(d->world, b, name) && !was_refused(other, b, name)) {
                violated(d->world, "S5", "%s: session %d waits since %.6f, granted to session %d that came %.6f",
                         n->text, (int)other->id, (double)b->at_us / 1e6, (int)s->id, (double)a->at_us / 1e6);
            }
        }
    }
}

/* A later request gives the lock up already, or asks for a lease of another length. */
static bool
given_up(const struct daemon *d, const struct session *s, const struct asked *a, int name)
{
    for (int i = 0; i < SESSIONS; i++) {
        const struct session *other = &d->session[i];

        for (int k = 0; k < ASKED && other->open; k++) {
            const struct asked *b = &other->asked[k];
            bool locks = b->type == CORE_LOCK || b->type == CORE_MLOCK || b->type == CORE_BREAK;

            for (size_t j = 0; j < (b->n > 0 ? b->n : 1) && b->id != 0 && !locks; j++) {
                if (b->name[j] == name && slice_eq(a->owner, b->owner) &&
                    ((other == s && b->id > a->id) || (other != s && a->owner.n > 0))) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Its owner has given back a hold of this name after this grant: the rest may be a reader's. */
static bool
was_given_back(const struct asked *a, const struct name *n, int name)
{
    return name_has(n, KIND_F_SHARED) && (a->given_back & (1u << name)) != 0;
}

/* A named owner has given back all holds over another session before this answer arrived. */
static bool
ended_elsewhere(const struct daemon *d, const struct asked *a, const struct core_reply *r)
{
    int64_t until_us;

    return a->owner.n > 0 &&
           core_grant_state(d->core, &r->grant, daemon_clock(d, d->world->now_us), &until_us) == CORE_GRANT_ENDED;
}

void
check_granted(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r)
{
    struct world *w = d->world;
    int name = name_find(w, r->name);
    struct name *n = &w->name[name];
    struct promise *p = promise_find(n, d, r->owner);
    bool gives_up = given_up(d, s, a, name) || ended_elsewhere(d, a, r), had = p != NULL && p->until_us != 0;
    bool shared = (a->shared && (!had || p->shared)) || was_given_back(a, n, name);
    int64_t until_us = (a->renewed & (1u << name)) == 0 ? reported_until(d, r->lease_us) : had ? p->until_us : 0;

    sight(w, SIGHT_GRANTED);
    if (r->lease_us < 0 || r->token == 0) {
        violated(w, "S6", "%s granted for %lld us, token %llu", n->text, (long long)r->lease_us,
                 (unsigned long long)r->token);
    }
    if (!had) {
        check_turn(d, s, a, name, r);
    }
    if (n->promises_n > 0 && n->promise[n->promises_n - 1].daemon != d->index) {
        sight(w, SIGHT_CROSS);
    }
    if (p != NULL) {
        check_holds(d, n, p, a, r);
        check_returned(d, n, p, r);
    } else {
        if (n->promises_n == PROMISES) {
            forget_old(n, w->now_us + 30 * US_PER_S);
        }
        if (n->promises_n == PROMISES) {
            promise_forget(n, 0);
        }
        p = &n->promise[n->promises_n++];
    }
    *p = (struct promise){.daemon = d->index, .self = d->state.self, .life = d->life, .epoch = epoch_of(d),
                          .owner = r->owner, .token = r->token, .session = s->id, .owner_name = a->owner,
                          .holds = a->sole ? r->holds : 0, .shared = shared};
    p->until_us = until_us;
    n->granted = true;
    if (gives_up) {
        promise_forget(n, (int)(p - n->promise));
    } else {
        check_promises(d, n, p);
    }
}

/* A promise goes on after a RENEW, for the reported time, and after an UNLOCK that leaves holds. */
void
check_left(struct daemon *d, struct session *s, const struct asked *a, const struct core_reply *r)
{
    struct world *w = d->world;
    int name = name_find(w, r->name);
    struct name *n = &w->name[name];
    struct promise *p = promise_find(n, d, r->owner);
    bool renews = a->type == CORE_RENEW || a->type == CORE_MRENEW;
    bool unlocks = a->type == CORE_UNLOCK || a->type == CORE_MUNLOCK;

    if (renews && r->left < 0) {
        violated(w, "S6", "%s renewed for %lld ms", n->text, (long long)r->left);
    }
    if (renews || unlocks) {
        sight(w, renews ? SIGHT_RENEWED : SIGHT_RELEASED);
    }
    if (p == NULL || !(renews || unlocks)) {
        return;
    }
    if (unlocks && r->left == 0) {
        promise_forget(n, (int)(p - n->promise));
    } else if (!given_up(d, s, a, name) && !ended_elsewhere(d, a, r) && (a->renewed & (1u << name)) == 0) {
        p->until_us = renews ? reported_until(d, r->left * US_PER_MS) : p->was_us;
        p->epoch = epoch_of(d);
        p->session = s->id;
        check_promises(d, n, p);
    }
}

/* Notes in answers that have not arrived that their owner has given a hold back, or renewed it, since. */
static void
note_given_back(struct daemon *d, struct slice owner, int name, bool renews)
{
    for (int i = 0; i < SESSIONS * ASKED && owner.n > 0; i++) {
        struct asked *a = &d->session[i / ASKED].asked[i % ASKED];

        if (a->id != 0 && a->answered && slice_eq(a->owner, owner)) {
            *(renews ? &a->renewed : &a->given_back) |= 1u << name;
        }
    }
}

/*
 * A client that gives a hold up, or asks for another lease of it, relies on nothing before the answer; for a named
 * owner that is any of its sessions. The rest of a read-write lock may be that of a reader.
 */
void
check_asks(struct daemon *d, struct session *s, const struct core_request *r, enum core_event_type type)
{
    struct name *n = &d->world->name[name_find(d->world, r->name)];
    bool renews = type == CORE_RENEW || type == CORE_MRENEW;

    if (type == CORE_LOCK || type == CORE_MLOCK || type == CORE_BREAK) {
        return;
    }
    note_given_back(d, r->owner, (int)(n - d->world->name), renews);
    for (int i = 0; i < n->promises_n; i++) {
        struct promise *p = &n->promise[i];
        bool same = r->owner.n > 0 ? slice_eq(p->owner_name, r->owner) : p->owner_name.n == 0 && p->session == s->id;

        if (same && p->daemon == d->index && p->self == d->state.self) {
            p->was_us = p->until_us != 0 ? p->until_us : p->was_us;
            p->until_us = 0;
            p->holds = 0;
            p->shared = p->shared || (!renews && name_has(n, KIND_F_SHARED));
        }
    }
}

/* A named owner keeps its locks for its grace, at least. */
void
check_session_ends(struct daemon *d, struct session *s)
{
    int64_t grace_us = daemon_true(d, daemon_clock(d, d->world->now_us) + d->world->habit.owner_grace_us);

    for (int k = 0; k < NAMES; k++) {
        struct name *n = &d->world->name[k];

        for (int i = n->promises_n; i-- > 0;) {
            struct promise *p = &n->promise[i];

            if (p->daemon != d->index || p->self != d->state.self || p->session != s->id) {
                continue;
            } else if (p->owner_name.n == 0) {
                promise_forget(n, i);
            } else {
                p->until_us = p->until_us < grace_us ? p->until_us : grace_us;
                p->was_us = p->was_us < grace_us ? p->was_us : grace_us;
            }
        }
    }
}

/*
 * The sessions of the former process have ended, and all their locks are given back now; named owners have their grace.
 * After a loss of power no promise of the daemon is left.
 */
void
check_restored(struct daemon *d, bool power_lost)
{
    int64_t grace_us = daemon_true(d, daemon_clock(d, d->world->now_us) + d->world->habit.owner_grace_us);

    for (int k = 0; k < NAMES; k++) {
        struct name *n = &d->world->name[k];

        for (int i = n->promises_n; i-- > 0;) {
            struct promise *p = &n->promise[i];

            if (p->daemon != d->index || p->self != d->state.self) {
                continue;
            } else if (power_lost || p->owner_name.n == 0) {
                promise_forget(n, i);
            } else if (p->until_us > grace_us) {
                p->until_us = grace_us;
            }
        }
    }
}
