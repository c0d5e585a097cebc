/*
 * multilock.c -- several requests with one answer: MLOCK, MUNLOCK, MRENEW.
 *
 * A multilock makes one LOCK (UNLOCK, RENEW) for each name, in its owner's order, and collects their answers instead of
 * sending them: waiting, limits, deadlocks and leases are those of single requests. MLOCK asks for its names in the
 * order of their keys, which is the same for everyone, so that two MLOCKs never wait for each other; the next name is
 * asked for when the one before is granted. A granted member stays, with its claim, until the last one is granted. When
 * one fails, those granted are given back by the records that asked for them, and those that have not begun are
 * dropped. A LEASE begins for all names with the last grant; until then the watchdog renews the others.
 *
 * A multilock lives as long as one of its members does; member[i] is NULL once its request has gone.
 */
#include "daemon/core/multilock.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/claim.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/leases.h"
#include "daemon/core/owners.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"

/* With room for the names. */
static struct multilock *
multilock_new(const struct core_event *ev)
{
    size_t bytes = 0;
    struct multilock *b;
    char *name;

    assert(ev->many.n >= 1 && ev->many.n <= CORE_MANY_MAX);
    for (size_t i = 0; i < ev->many.n; i++) {
        bytes += ev->many.request[i].name.n;
    }
    b = mem_zalloc(sizeof(*b) + bytes);
    b->verb = ev->type;
    b->session = ev->many.request[0].session;
    b->id = ev->many.request[0].id;
    b->full = ev->many.request[0].full;
    b->n = ev->many.n;
    list_init(&b->dirty_node);
    name = (char *)(b + 1);
    for (size_t i = 0; i < b->n; i++) {
        struct slice from = ev->many.request[i].name;

        memcpy(name, from.p, from.n);
        b->part[i].name = (struct slice){name, from.n};
        name += from.n;
    }
    return b;
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
put_in_order(const struct core_event *ev, size_t order[CORE_MANY_MAX])
{
    for (size_t i = 0; i < ev->many.n; i++) {
        size_t at = i;

        for (; at > 0 && by_key(&ev->many.request[i], &ev->many.request[order[at - 1]]) < 0; at--) {
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
    request_run(c, r);
}

static bool
has_hold(const struct request *r)
{
    return r->started && !r->waits && !r->uncounted;
}

/* One name was not granted: the others are given back, or not even begun. */
static void
undo(struct core *c, struct multilock *b)
{
    size_t i = b->n;
    bool last = false; /* b goes with it */

    while (!last) {
        struct request *r;

        assert(i > 0);
        r = b->member[--i];
        if (r == NULL) {
            continue;
        }
        last = b->members_n == 1;
        multilock_forget(b, r);
        if (has_hold(r)) {
            give_back(c, r);
        } else {
            request_drop(c, r);
        }
    }
}

/* The lease that the request asked for runs from now on; a part granted earlier has less of it left: it is renewed. */
static void
lease_begins(struct core *c, struct claim *cl)
{
    if (cl->since_us < c->now_us && cl->renewal != RENEWAL_SENT && !claim_busy(cl)) {
        claim_renew(c, cl);
    }
    cl->watchdog = false;
    claim_arm(c, cl);
}

/* All members are granted; if one was lost meanwhile the multilock fails. */
static void
complete(struct core *c, struct multilock *b)
{
    const struct core_reply *lost = NULL;
    struct claim *lost_claim = NULL;

    for (size_t i = 0; i < b->n; i++) {
        struct request *r = b->member[i];
        struct claim *cl = r->claim;

        if (!claim_is_held(cl, c->now_us)) {
            lost = &b->part[i];
            lost_claim = cl;
        } else {
            /* Its owner has asked for nothing since. */
            assert(cl->token == b->part[i].token);
            b->part[i].lease_us = cl->hold.deadline_us - c->now_us;
            b->part[i].relies.until_us = cl->hold.deadline_us;
        }
    }
    if (lost != NULL) {
        multilock_send(c, b, &(struct core_reply){.answer = CORE_WAS_LOST, .name = lost->name, .kind = lost->kind});
        claim_report_end(c, lost_claim); /* of any other name that was lost the owner is still to be told */
        undo(c, b);
        return;
    }
    multilock_send(c, b,
                   &(struct core_reply){.answer = CORE_GRANTED, .name = b->part[0].name, .token = b->part[0].token});
    for (size_t i = 0, n = b->n; i < n; i++) {
        struct request *r = b->member[i];

        if (r->renewed_until_complete) {
            lease_begins(c, r->claim);
        }
        multilock_forget(b, r);
        request_drop(c, r);
    }
}

void
multilocks_advance(struct core *c)
{
    while (!list_empty(&c->dirty_multilocks)) {
        struct multilock *b = container_of(c->dirty_multilocks.next, struct multilock, dirty_node);

        list_remove(&b->dirty_node);
        if (b->failed) {
            undo(c, b);
        } else {
            complete(c, b);
        }
    }
}

static void
mlock_arrives(struct core *c, struct core_session *p, const struct core_event *ev, struct multilock *b)
{
    size_t order[CORE_MANY_MAX];
    enum core_answer answer = CORE_GRANTED;
    struct core_reply refusal;
    size_t i;

    put_in_order(ev, order);
    for (i = 0; i < b->n && answer == CORE_GRANTED; i++) {
        struct request **r = &b->member[order[i]];

        answer = request_lock(c, p, &ev->many.request[order[i]], r);
        if (answer == CORE_GRANTED) {
            (*r)->multilock = b;
            (*r)->part = (uint32_t)order[i];
            b->members_n++;
        }
    }
    if (answer == CORE_GRANTED) {
        for (i = 0; i < b->n; i++) {
            request_begin(c, b->member[order[i]], true);
        }
        return;
    }
    refusal = request_refusal(c, &ev->many.request[order[i - 1]], answer);
    multilock_send(c, b, &refusal);
    if (b->members_n > 0) {
        undo(c, b);
    } else {
        free(b);
    }
}

/* ---- MUNLOCK, MRENEW: each by itself ---- */

static void
held_arrive(struct core *c, struct core_session *p, const struct core_event *ev, struct multilock *b)
{
    enum core_event_type verb = b->verb == CORE_MUNLOCK ? CORE_UNLOCK : CORE_RENEW;

    b->members_n = 1; /* ourselves, until all have begun */
    for (size_t i = 0; i < b->n; i++) {
        const struct core_request *rq = &ev->many.request[i];
        struct request *r;
        enum core_answer answer = request_held(c, p, rq, verb, &r);

        if (answer != CORE_GRANTED) {
            multilock_note_held(c, b, i, &(struct core_reply){.answer = answer});
            continue;
        }
        r->multilock = b;
        r->part = (uint32_t)i;
        b->member[i] = r;
        b->members_n++;
        request_begin(c, r, rq->token == 0 || rq->owner.n != 0);
    }
    if (--b->members_n == 0) {
        free(b);
    }
}

/* ---- for all of them ---- */

void
multilock_arrive(struct core *c, const struct core_event *ev)
{
    struct core_session *p = core_session_find(c, ev->many.request[0].session);
    struct multilock *b;

    if (p == NULL) {
        return;
    }
    b = multilock_new(ev);
    if (ev->type == CORE_MLOCK) {
        mlock_arrives(c, p, ev, b);
    } else {
        held_arrive(c, p, ev, b);
    }
}

void
multilock_cancelled(struct multilock *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->member[i] != NULL) {
            b->member[i]->cancelled = true;
        }
    }
}

bool
multilock_asks_for(const struct multilock *b, const struct lock *l)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->member[i] != NULL && b->member[i]->claim->lock == l) {
            return true;
        }
    }
    return false;
}

/* The session of the multilock has gone: it has no answer. */
void
multilock_leave(struct core *c, struct request *r)
{
    struct multilock *b = r->multilock;

    if (b->verb == CORE_MLOCK) {
        c->metrics->cancelled++;
        undo(c, b);
    } else {
        multilock_forget(b, r);
        request_drop(c, r);
    }
}
