/*
 * multilock.c -- several requests with one answer: MLOCK, MUNLOCK, MRENEW.
 *
 * A multilock makes one LOCK (UNLOCK, RENEW) for each name, in its owner's order, and collects their answers instead of
 * sending them: waiting, limits, deadlocks and leases are those of single requests. MLOCK asks for its names in the
 * order of their keys, the same for every MLOCK: so two MLOCKs wait for each other only if their owners hold other
 * names. The next name is asked for when the one before is granted. A granted member stays until the last one is. When
 * one fails, each granted member becomes a silent UNLOCK of its claim, and members that have not begun are dropped. A
 * LEASE begins for all names with the last grant; until then the watchdog renews the others.
 *
 * A multilock lives as long as one of its members does; member[i] is NULL once its request has gone.
 */
#include "daemon/core/requests.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/leases.h"
#include "daemon/core/multilock_record.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/* With room for the names. */
static struct multilock *
multilock_new(const struct core_event *ev)
{
    size_t bytes = 0;
    struct multilock *m;
    char *name;

    assert(ev->multilock.n >= 1 && ev->multilock.n <= CORE_MULTILOCK_MAX);
    for (size_t i = 0; i < ev->multilock.n; i++) {
        bytes += ev->multilock.request[i].name.n;
    }
    m = mem_zalloc(sizeof(*m) + bytes);
    m->verb = ev->type;
    m->session = ev->multilock.request[0].session;
    m->id = ev->multilock.request[0].id;
    m->full = ev->multilock.request[0].full;
    m->names_n = ev->multilock.n;
    list_init(&m->dirty_node);
    name = (char *)(m + 1);
    for (size_t i = 0; i < m->names_n; i++) {
        struct slice from = ev->multilock.request[i].name;

        memcpy(name, from.p, from.n);
        m->part[i].name = (struct slice){name, from.n};
        name += from.n;
    }
    return m;
}

/* ---- MLOCK ---- */

static int
by_key(const struct core_request *a, const struct core_request *b)
{
    struct slice x = a->spec.key, y = b->spec.key;
    int cmp = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

    return cmp != 0 ? cmp : (x.n > y.n) - (x.n < y.n);
}

/* Indices of the requests in the order of their keys, which is the same for all multilocks. */
static void
put_in_order(const struct core_event *ev, size_t order[CORE_MULTILOCK_MAX])
{
    for (size_t i = 0; i < ev->multilock.n; i++) {
        size_t at = i;

        for (; at > 0 && by_key(&ev->multilock.request[i], &ev->multilock.request[order[at - 1]]) < 0; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
}

/* A member that holds what it was granted gives it back: its record becomes a silent UNLOCK. */
static void
give_back(struct core *c, struct request *r)
{
    list_remove(&r->session_node);
    r->session = NULL;
    r->verb = CORE_UNLOCK;
    r->fresh = false;
    r->token = r->claim->token; /* of several permits, this one */
    r->silent = true;
    if (r->lease_before_us != 0 && r->claim->state == CLAIM_HELD) { /* the owner's other holds have a LEASE */
        r->claim->watchdog = false;
        r->claim->lease_us = r->lease_before_us;
    }
    request_run(c, r);
}

static bool
has_hold(const struct request *r)
{
    return r->started && !r->waiting && !r->uncounted;
}

/* Gives back what the members were granted, and drops the members that are not granted. */
static void
undo(struct core *c, struct multilock *m)
{
    size_t i = m->names_n;
    bool last = false; /* the last member frees m */

    while (!last) {
        struct request *r;

        assert(i > 0);
        r = m->member[--i];
        if (r == NULL) {
            continue;
        }
        last = m->alive_n == 1;
        multilock_remove(m, r);
        if (has_hold(r)) {
            give_back(c, r);
        } else {
            request_drop(c, r);
        }
    }
}

/* The lease that the request asked for runs from now on: a claim granted earlier has less left, and is renewed. */
static void
lease_begins(struct core *c, struct claim *cl)
{
    if (cl->since_us < c->now_us && !cl->renewal_sent && !claim_busy(cl)) {
        op_renew(c, cl);
    }
    cl->watchdog = false;
    claim_arm(c, cl);
}

/* All members are granted; if one was lost meanwhile the multilock fails. */
static void
complete(struct core *c, struct multilock *m)
{
    const struct core_reply *lost = NULL;
    struct claim *lost_claim = NULL;

    for (size_t i = 0; i < m->names_n; i++) {
        struct request *r = m->member[i];
        struct claim *cl = r->claim;

        if (!claim_is_held(cl, c->now_us)) {
            lost = &m->part[i];
            lost_claim = cl;
        } else {
            /* the owner has asked for nothing since, so the grant is still the same */
            assert(cl->token == m->part[i].token);
            m->part[i].lease_us = cl->hold.deadline_us - c->now_us;
            m->part[i].grant.deadline_us = cl->hold.deadline_us;
        }
    }
    if (lost != NULL) {
        multilock_send(c, m, &(struct core_reply){.answer = CORE_WAS_LOST, .name = lost->name, .kind = lost->kind});
        end_known_to_owner(c, lost_claim); /* the loss of any other name is still to be reported */
        undo(c, m);
        return;
    }
    multilock_send(c, m,
                   &(struct core_reply){.answer = CORE_GRANTED, .name = m->part[0].name, .token = m->part[0].token});
    for (size_t i = 0, n = m->names_n; i < n; i++) {
        struct request *r = m->member[i];

        if (r->renewed_until_complete) {
            lease_begins(c, r->claim);
        }
        multilock_remove(m, r);
        request_drop(c, r);
    }
}

void
multilocks_advance(struct core *c)
{
    while (!list_empty(&c->dirty_multilocks)) {
        struct multilock *m = container_of(c->dirty_multilocks.next, struct multilock, dirty_node);

        list_remove(&m->dirty_node);
        if (m->failed) {
            undo(c, m);
        } else {
            complete(c, m);
        }
    }
}

static void
mlock_arrives(struct core *c, struct core_session *s, const struct core_event *ev, struct multilock *m)
{
    size_t order[CORE_MULTILOCK_MAX];
    enum core_answer answer = CORE_GRANTED;
    struct core_reply refusal;
    size_t i;

    put_in_order(ev, order);
    for (i = 0; i < m->names_n && answer == CORE_GRANTED; i++) {
        struct request **r = &m->member[order[i]];

        answer = request_lock(c, s, &ev->multilock.request[order[i]], r);
        if (answer == CORE_GRANTED) {
            (*r)->multilock = m;
            (*r)->part = (uint32_t)order[i];
            m->alive_n++;
        }
    }
    if (answer == CORE_GRANTED) {
        for (i = 0; i < m->names_n; i++) {
            request_begin(c, m->member[order[i]], true);
        }
        return;
    }
    refusal = request_refusal(c, &ev->multilock.request[order[i - 1]], answer);
    multilock_send(c, m, &refusal);
    if (m->alive_n > 0) {
        undo(c, m);
    } else {
        free(m);
    }
}

/* ---- MUNLOCK, MRENEW: each by itself ---- */

static void
each_arrives(struct core *c, struct core_session *s, const struct core_event *ev, struct multilock *m)
{
    enum core_event_type verb = m->verb == CORE_MUNLOCK ? CORE_UNLOCK : CORE_RENEW;

    m->alive_n = 1; /* until all have begun: m must outlive members that end at once */
    for (size_t i = 0; i < m->names_n; i++) {
        const struct core_request *rq = &ev->multilock.request[i];
        struct request *r;
        enum core_answer answer = request_of_holder(c, s, rq, verb, &r);

        if (answer != CORE_GRANTED) {
            multilock_note_answer(c, m, i, &(struct core_reply){.answer = answer});
            continue;
        }
        r->multilock = m;
        r->part = (uint32_t)i;
        m->member[i] = r;
        m->alive_n++;
        request_begin(c, r, rq->token == 0 || rq->owner.n != 0);
    }
    if (--m->alive_n == 0) {
        free(m);
    }
}

/* ---- for all of them ---- */

void
multilock_arrive(struct core *c, const struct core_event *ev)
{
    struct core_session *s = core_session_find(c, ev->multilock.request[0].session);
    struct multilock *m;

    if (s == NULL) {
        return;
    }
    m = multilock_new(ev);
    if (ev->type == CORE_MLOCK) {
        mlock_arrives(c, s, ev, m);
    } else {
        each_arrives(c, s, ev, m);
    }
}

void
multilock_cancelled(struct multilock *m)
{
    for (size_t i = 0; i < m->names_n; i++) {
        if (m->member[i] != NULL) {
            m->member[i]->cancelled = true;
        }
    }
}

bool
multilock_asks_for(const struct multilock *m, const struct lock *l)
{
    for (size_t i = 0; i < m->names_n; i++) {
        if (m->member[i] != NULL && m->member[i]->claim->lock == l) {
            return true;
        }
    }
    return false;
}

/* The session of the multilock has gone: it has no answer. */
void
multilock_leave(struct core *c, struct request *r)
{
    struct multilock *m = r->multilock;

    if (m->verb == CORE_MLOCK) {
        c->metrics->cancelled++;
        undo(c, m);
    } else {
        multilock_remove(m, r);
        request_drop(c, r);
    }
}
