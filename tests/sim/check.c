/*
 * check.c -- what must be true (hazards.md 7.1), from what clients were told and from what the cores say of themselves.
 *
 *   S1  of a name at most one holder, or only readers, or as many as there are permits, whose told deadline has not
 *       passed in true time
 *   S2  tokens of a name rise
 *   S3  one answer per request, and none to a session that has gone (client.c)
 *   S4  holds are grants minus releases; who re-enters has the same token, also after a restart of his daemon
 *   S5  first come, first served among those who wait at one daemon
 *   S6  nothing is said to be held when its deadline has passed; who has not heard LOST has not lost it
 *   S7  what a stranger has in Redis nobody changes or takes away (ours.c)
 *   S8  a name whose key another name has in use at its daemon is refused (client.c)
 *   S9  a CANCEL leaves no LOCK of that owner for the name unanswered, and says how many it has ended (cancel.c)
 *   S10 requests of one owner are answered in the order in which they were asked, but for those that go side by side
 *       (pipeline.c)
 *   G1  nothing takes a lock past its guard
 *   G2  an attempt that runs past its guard, for Redis's clock was set back while it was under way, is one that its
 *       daemon still reckons with
 *   A1  a process adopts all that the one before it has left (state.c)
 *   L1  what is free is granted to who waits for it, once faults have stopped
 *   L2  nothing is left in Redis that its daemon does not know of (ours.c, left.c)
 *   L3  without a fault no lock is lost
 *   L4  what a process has left is free when the next one has reached Redis (left.c)
 *   L5  who waits at one daemon gets his turn while others hand the name round at another (turns.c)
 *   R1  a daemon has no more than it was asked for, and nothing is left in it when everybody has gone (left.c)
 *
 * S7 is asserted of strangers. Of two daemons S1 covers it: who takes another's key away lets a third have it while the
 * promise lasts; where nobody comes meanwhile, the next renewal finds it gone, which is L3.
 *
 * What is not asserted, and why:
 *   S1, S2 after Redis's clock has jumped ahead, or, of one name, has evicted its key (excused_us, counted): nothing
 *      tells before the next renewal, which is why neither is promised (S2: seed 17650).
 *   S1 of counters for a lease after the former master has come back (failback_us): they are known by their expiry
 *      alone, and one that is asserted anew may end in the same 2 ms as what was granted since with another lease (see
 *      scripts/counter.lua; seed 9617 of other dice). It goes for any loss of data; only this one has brought it about.
 *   S1 of what an owner with a name has given back over one session while the answer that granted it was on its way to
 *      another one. Where that was a part of it, the rest goes on, of a read-write lock at least as a reader's (seeds
 *      20182 and 21861); where it was a RENEW, the lease is the one that was told before.
 *   S1 for a lease after the former master has come back, where one holds it in a later epoch than the other one was
 *      granted it in: until somebody is stranded there (presence.lua) nothing says that data was lost (seed 21149;
 *      10381, where the first one's process had died).
 *   S1, S4, L1 and L3 of names on which BREAK is used (`broken`): that is what BREAK does. Their former holder hears of
 *      it with his next renewal. And S2: a grant may be broken before its answer arrives, and be told behind the next.
 *   L2 for a lease after Redis has gone back to older data (ghosts_us): what was given back since stands there again,
 *      and nobody asks for it.
 *   G1 after Redis's clock was set back (late_guards_us): a guard is by that clock. G2 where it was set back when the
 *      guard was over already: nothing that Redis says then speaks of later.
 *
 * A promise is what a client was told: until then it is yours. It ends when the client gives it up, or hears LOST; from
 * an UNLOCK or a RENEW to its answer there is none. What a daemon does unasked ends none: that it has released a lock
 * is no excuse for who has it next.
 */
#include <string.h>

#include "daemon/backend/call.h"
#include "tests/sim/sim.h"

enum { CORE_CHECK_EVERY = 64 };
enum { LOST_AFTER_US = 2 * 1000 * 1000, RENEWED_AFTER_US = 4 * 1000 * 1000, OPERATION_US = 1000 * 1000 };

static bool
name_has(const struct name *n, unsigned flag)
{
    return (kind_rows[n->kind].flags & flag) != 0;
}

/* One holder at a time, or only readers. */
static bool
excludes(const struct name *n)
{
    return !n->broken && !name_has(n, KIND_F_PERMITS);
}

static uint64_t
epoch_of(const struct daemon *d)
{
    struct backend_status st;

    if (!d->alive) {
        return d->state.epoch;
    }
    backend_status(d->backend, &st);
    return st.epoch;
}

static bool
is_excused(const struct world *w, const struct name *n)
{
    return w->now_us < w->excused_us || w->now_us < n->excused_us;
}

/* Daemon a has, or had told, it in that epoch; b has it, too. */
static void
double_grant(struct world *w, const char *how, struct name *n, int a, uint64_t epoch, int b)
{
    if (w->now_us < w->failback_us && epoch != epoch_of(&w->daemon[b])) {
        n->excused_us = n->excused_us > w->failback_us ? n->excused_us : w->failback_us; /* also when they have met */
    }
    if (is_excused(w, n) || (n->kind == KIND_COUNTER && w->now_us < w->failback_us)) {
        w->totals->excused++;
        return;
    }
    violated(w, "S1", "%s has two holders (%s): daemons %d and %d", n->text, how, a, b);
}

/* ---- promises ---- */

static bool
is_of(const struct promise *p, const struct daemon *d, uint64_t owner)
{
    return p->daemon == d->index && p->self == d->state.self && p->owner == owner;
}

static void
forget(struct name *n, int i)
{
    n->promise[i] = n->promise[--n->promises_n];
}

static struct promise *
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
            forget(n, i);
        }
    }
}

/* The epoch in which it is held; what a process that has died held was asserted in none behind its grant. */
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
            double_grant(w, "told", n, p->daemon, promised_in(w, p), d->index);
            return;
        }
    }
}

static int64_t
told_until(const struct daemon *d, int64_t lease_us)
{
    struct world *w = d->world;
    int64_t us = lease_us;

    if (w->options->control == CONTROL_DRIFT_0) { /* without the margin, for who measures it by true time */
        us += lease_us / 99 + 2 * US_PER_MS;
    }
    return daemon_true(d, daemon_clock(d, w->now_us) + us);
}

/* ---- grants ---- */

/* S4. Only where nothing else of this session is under way that could change it. */
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

/* S4, of who has a name and comes back to a new process within its grace: it never ceased to hold. */
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

/* When his LOCK was cancelled an attempt for it may have been in flight, and it may be still. */
static bool
has_attempt_of_cancelled(const struct session *s, const struct asked *a, int name)
{
    return s->cancelled_us[name] != 0 && a->at_us < s->cancelled_us[name] + OPERATION_US;
}

/*
 * S5. Readers go together, and a place in Redis counts more than one here: of those nothing is said. Nor of those whose
 * last hold, or attempt, is still being given back when they ask (as it is where who had it last asks while it lingers,
 * for more than is left of it): others may ask right behind that release, they themselves only when it is answered; or
 * whose attempt, which was answered for them too early, is still under way: they have its place; or who was told that
 * he lost it, which is made sure of first. Nor of who asks again within the time of an operation behind a CANCEL: the
 * attempt that was in flight then is his (seeds 645 and 2148).
 */
static void
check_turn(struct daemon *d, const struct session *s, const struct asked *a, int name, const struct core_reply *r)
{
    const struct name *n = &d->world->name[name];
    bool simple = a->type == CORE_LOCK && a->first && a->owner.n == 0 && !a->once && r->holds <= 1;

    if (!simple || name_has(n, KIND_F_SHARED | KIND_F_TICKETS) || was_refused(s, a, name) ||
        has_attempt_of_cancelled(s, a, name)) {
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

/* It is given up already, or a lease of another length is asked for, by a request that was sent behind this one. */
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

/* Its owner has given back a hold of this name behind this grant: what is left may be a reader's. */
static bool
was_given_back(const struct asked *a, const struct name *n, int name)
{
    return name_has(n, KIND_F_SHARED) && (a->given_back & (1u << name)) != 0;
}

/* Its owner has a name, and has given all of it back over another session before this answer was heard. */
static bool
ended_elsewhere(const struct daemon *d, const struct asked *a, const struct core_reply *r)
{
    int64_t until_us;

    return a->owner.n > 0 &&
           core_standing(d->core, &r->relies, daemon_clock(d, d->world->now_us), &until_us) == CORE_ENDED;
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
    int64_t until_us = (a->renewed & (1u << name)) == 0 ? told_until(d, r->lease_us) : had ? p->until_us : 0;

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
            forget(n, 0);
        }
        p = &n->promise[n->promises_n++];
    }
    *p = (struct promise){.daemon = d->index, .self = d->state.self, .life = d->life, .epoch = epoch_of(d),
                          .owner = r->owner, .token = r->token, .session = s->id, .owner_name = a->owner,
                          .holds = a->sole ? r->holds : 0, .shared = shared};
    p->until_us = until_us;
    n->granted = true;
    if (gives_up) {
        forget(n, (int)(p - n->promise));
    } else {
        check_promises(d, n, p);
    }
}

/* A promise goes on behind a RENEW, for as long as that says, and behind an UNLOCK that leaves holds. */
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
        forget(n, (int)(p - n->promise));
    } else if (!given_up(d, s, a, name) && !ended_elsewhere(d, a, r) && (a->renewed & (1u << name)) == 0) {
        p->until_us = renews ? told_until(d, r->left * US_PER_MS) : p->was_us;
        p->epoch = epoch_of(d);
        p->session = s->id;
        check_promises(d, n, p);
    }
}

/* Answers that their clients have not heard: what their owner gives up meanwhile is no promise of theirs. */
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
 * Who gives a hold up, or another lease to it, relies on nothing before that is answered; who asks with a name may be
 * any of its sessions. What is left of a read-write lock may be that of a reader.
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

/* A named owner keeps what it has for its grace, at the least. */
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
                forget(n, i);
            } else {
                p->until_us = p->until_us < grace_us ? p->until_us : grace_us;
                p->was_us = p->was_us < grace_us ? p->was_us : grace_us;
            }
        }
    }
}

/*
 * Its sessions have ended with the process before this one, and all they had is given back now; owners with a name have
 * their grace. A loss of power is the end of all that relied on the daemon.
 */
void
check_adopted(struct daemon *d, bool power_lost)
{
    int64_t grace_us = daemon_true(d, daemon_clock(d, d->world->now_us) + d->world->habit.owner_grace_us);

    for (int k = 0; k < NAMES; k++) {
        struct name *n = &d->world->name[k];

        for (int i = n->promises_n; i-- > 0;) {
            struct promise *p = &n->promise[i];

            if (p->daemon != d->index || p->self != d->state.self) {
                continue;
            } else if (power_lost || p->owner_name.n == 0) {
                forget(n, i);
            } else if (p->until_us > grace_us) {
                p->until_us = grace_us;
            }
        }
    }
}

/* ---- news ---- */

/*
 * S2. Of those who share a name, the replies may overtake each other; what is exclusive comes behind all before, and so
 * does a permit that was handed over: nobody else had one to be told of then.
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
        w->totals->excused++; /* who had it before may hand it over until he hears of it */
    } else if (token <= (alone ? n->last_token : n->last_exclusive) && !n->broken) {
        violated(w, "S2", "%s: token %llu after %llu", n->text, (unsigned long long)token,
                 (unsigned long long)n->last_token);
    }
    n->last_exclusive = alone ? token : n->last_exclusive;
    n->last_token = token > n->last_token ? token : n->last_token;
}

/*
 * What is not renewed in time cannot have been renewed at any moment of a third of its lease: a link that failed is up
 * again within two seconds, and a renewal that failed is tried again every second. What has gone from Redis is found
 * with the next renewal only; in a grace not even then, for that Redis does not have it proves nothing there.
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
        check_token(d, n, p->token, handed);
        if (handed && name_has(n, KIND_F_PERMITS)) {
            sight(w, SIGHT_PERMIT_HANDED);
        }
        if (stranger_has(w, n)) {
            violated(w, "S1", "%s was granted, and a stranger has it", n->text);
        }
    } else if (p->news == CORE_NEWS_LOST) {
        const struct promise *pr = promise_find(n, d, p->owner);

        if (pr != NULL) {
            forget(n, (int)(pr - n->promise));
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
        turns_taken(n); /* others may have had it since; and whose attempt is the first behind that is chance */
    }
    if (!n->broken && w->now_us > w->trouble_us + lost_after_us(d, p->reason) &&
        strcmp(p->reason, "lease over") != 0 && strcmp(p->reason, "granted too late to be told") != 0) {
        violated(w, "L3", "%s lost (%s), though nothing went wrong for %.3f s", n->text, p->reason,
                 (double)(w->now_us - w->trouble_us) / 1e6);
    }
}

/* ---- commands that were given up ---- */

/*
 * G1. Redis may run what was under way when its link was given up, but past its guard nothing that takes a lock. The
 * guard is a second behind the sending; that is by Redis's clock as the daemon knew it.
 */
void
check_zombie(const struct conn *c, int script, const struct reply *r)
{
    struct world *w = c->world;
    int64_t late_us = w->now_us - c->closed_us - US_PER_S;

    if (late_us > US_PER_S && scripts_verb(script) == VERB_ACQUIRE && r->type == REPLY_ARRAY && r->count > 1 &&
        r->item[1]->n == 1 && w->now_us > w->late_guards_us) {
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

/* G2. Each row of the answer is of some names in their order, and how many they are stands last. */
void
check_moved_guard(const struct conn *c, const struct slice *word, const struct reply *r)
{
    struct world *w = c->world;
    struct daemon *d = c->daemon;
    int64_t guard_us = c->ran_sent_us + US_PER_S;
    size_t key = 5;

    if (w->set_back_us < c->ran_sent_us || w->set_back_us > guard_us || w->now_us < guard_us + US_PER_S / 4 ||
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

struct look {
    int64_t now_us;
    int n, writers, daemon, last;
};

static void
look_at_holder(void *ctx, const struct core_holder_view *v)
{
    struct look *l = ctx;

    if (l->now_us < v->deadline_us) {
        l->n++;
        l->writers += !v->shared;
        l->last = l->daemon;
    }
}

/* S1, as the daemons see it: renewals are known here, too. */
static void
check_holders(struct world *w, struct name *n)
{
    struct look l = {.n = 0};
    int allowed = name_has(n, KIND_F_PERMITS) ? (int)n->limit : 1, first = -1;

    n->granted = false;
    for (int i = 0; i < w->habit.daemons; i++) {
        struct daemon *d = &w->daemon[i];
        int before = l.n;

        if (d->alive) {
            l.now_us = daemon_clock(d, w->now_us);
            l.daemon = i;
            core_each_holder(d->core, l.now_us, slice_of(n->text), look_at_holder, &l);
            first = first < 0 && l.n > before ? i : first;
        }
    }
    if (n->broken) {
        return;
    }
    if (l.n > 1 && l.writers == 0) {
        sight(w, SIGHT_READERS);
    }
    if (allowed > 1 && l.n == allowed) {
        sight(w, SIGHT_PERMITS_OUT);
    }
    if (l.writers > 0 && l.n > allowed) {
        double_grant(w, "held", n, first, epoch_of(&w->daemon[first]), l.last);
    }
}

/* A permit has no promise that others would meet, so its holders are looked at whenever one is granted. */
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

/*
 * L1. What nobody has is not waited for longer than it takes to ask again. A holder at another daemon hears of a BREAK
 * when it renews, and until then those behind it wait.
 */
void
check_calm(struct world *w)
{
    struct waits ws = {.world = w};
    char permits[64];

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

        snprintf(permits, sizeof(permits), "{%s}:timeout", n->text);
        if (!ws.waits[i] || n->broken || n->granted || server_has(w, n->text) || server_has(w, permits)) {
            n->free_since_us = 0;
        } else if (n->free_since_us == 0) {
            n->free_since_us = w->now_us;
        } else if (w->now_us - n->free_since_us > w->habit.poll_us + 1500 * US_PER_MS) {
            violated(w, "L1", "%s is free since %.6f, and is waited for", n->text, (double)n->free_since_us / 1e6);
        }
    }
}
