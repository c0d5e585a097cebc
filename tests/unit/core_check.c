/*
 * core_check.c -- the invariants of daemon/core/core.c as asserts, where the records show them.
 */
#include <assert.h>

#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/claim_index.h"
#include "daemon/core/claims.h"
#include "daemon/core/core.h"
#include "daemon/core/jobs.h"
#include "daemon/core/kind_policy.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/owner.h"
#include "daemon/core/owners.h"
#include "daemon/core/queue.h"
#include "daemon/core/request.h"
#include "daemon/core/rounds.h"
#include "daemon/core/state.h"
#include "daemon/core/uncertain_notes.h"
#include "daemon/core/window.h"
#include "tests/unit/core_check.h"

static void
check_list(const struct list *list, unsigned states)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, list)
    {
        assert(states & (1u << container_of(pos, struct claim, node)->state));
    }
}

/* The counters of struct core, counted anew. */
struct tally {
    uint64_t locks, keyed, queues, claims, prefixed, held, unverified, session_owners, lost, awaiting_window;
    uint32_t waiting, blocking, kept, in_flight[WINDOWS];
};

static void
check_claim(const struct core *c, const struct claim *cl, int64_t now_us, struct tally *t)
{
    bool armed = cl->timer.node.pos != 0, wanted = !list_empty(&cl->requests);
    bool sliced = c->conf.slice != 0, ends = cl->owner->ending && job_is_pending(&cl->owner->job);

    assert(uncertain_to_verify(cl) == 0 || cl->state == CLAIM_HELD); /* I12 */
    assert(!uncertain_release_may_have_run(cl) || uncertain_release_unresolved(cl));
    if (!ends) {
        checkpoint_check(c, cl); /* I13 */
    }
    assert(!cl->awaits_window || cl->state == CLAIM_HELD || cl->state == CLAIM_QUEUED ||
           (cl->state == CLAIM_RELEASING && cl->op == 0)); /* I14 */
    switch (cl->state) {
    case CLAIM_IDLE:
        assert(cl->refs > 0 && cl->op == 0 && cl->token == 0); /* else it would be free */
        break;
    case CLAIM_QUEUED:
        assert(cl->op == 0 && (wanted || armed)); /* I3 */
        break;
    case CLAIM_TRYING:
        assert(cl->op != 0); /* I3 */
        break;
    case CLAIM_HELD:
        assert(armed && heap_at(&c->timers, &cl->timer.node) <= cl->hold.deadline_us); /* I3 */
        assert(now_us < cl->hold.deadline_us || sliced); /* I2 */
        assert(!cl->owner->ending || ends); /* I17 */
        assert(cl->review_n == cl->lock->reviews_n || round_is_pending(c, cl->lock, ROUND_REVIEW)); /* R2 of rounds.c */
        assert(cl->token != 0 && claim_holds(cl) > 0);
        break;
    case CLAIM_CACHED:
        assert(armed && cl->op == 0 && !wanted && cl->lock->has_cached); /* I3 */
        assert(list_linked(&cl->lock->queue->waiter_poll_node) && !cl->lock->remote_waiters); /* P1 of waiter_polls.c */
        break;
    case CLAIM_RELEASING:
        assert(cl->op != 0 || armed || claim_renewal_pending(cl)); /* I3 */
        assert(claim_kept_until_us(cl) == 0 || lock_has_queue(cl->lock)); /* the claim may go back to the queue */
        break;
    case CLAIM_STRAGGLING:
        assert(armed && cl->op == 0); /* I3 */
        break;
    case CLAIM_LOST:
        assert(cl->op == 0 && (!cl->owner->ending || ends) && !wanted);
        break;
    case CLAIM_STATES:
        assert(false);
    }
    t->claims++;
    if (policy(cl->lock)->claim_each) { /* X2 of claim_index.c */
        const struct permit *p = (const struct permit *)(const void *)cl - 1;

        assert(p->set == permit_set_find(c, cl->lock, cl->owner) && (cl->state == CLAIM_HELD) == (p->end.pos != 0));
        assert(cl->state != CLAIM_HELD || heap_at(&p->set->ends, &p->end) == cl->hold.deadline_us);
        assert(p->set->held_n == p->set->ends.count && p->set->held_n <= p->set->claims_n);
    }
    if (claim_prefix_bytes(cl->lock) > 0) {
        t->prefixed++;
        assert(((const struct map_node *)(const void *)cl)[-1].number == (cl->token != 0 ? cl->token : claim_id(cl)));
    }
    t->lost += cl->state == CLAIM_LOST && !cl->watchdog;
    t->kept += cl->counted_kept;
    t->held += cl->state == CLAIM_HELD;
    t->unverified += (uncertain_to_verify(cl) & VERIFY_LOST) != 0;
    t->awaiting_window += cl->awaits_window;
    t->in_flight[WINDOW_RENEW] += cl->renewal_sent;
    t->in_flight[WINDOW_RECLAIM] += cl->state == CLAIM_HELD && cl->op != 0 && cl->op_reclaim;
    t->in_flight[WINDOW_UNLOCK] += cl->state == CLAIM_RELEASING && cl->op != 0 && !cl->op_background;
    t->in_flight[WINDOW_BACKGROUND] += cl->state == CLAIM_RELEASING && cl->op != 0 && cl->op_background;
}

/* I1; a limit that was lowered since does not concern the holders. */
static void
check_holders(const struct lock *l)
{
    uint32_t exclusive = 0, n = 0;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->holders)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        assert(cl->shared == 0 || policy(l)->holders == HOLDERS_SHARED);
        exclusive += cl->holds > 0;
        n++;
    }
    assert(n <= 1 || lock_has_limit(l) || exclusive == 0);
}

/* Claims, and their order in the queue. */
static void
check_claims(const struct core *c, const struct lock *l, int64_t now_us, struct tally *t)
{
    const struct list *lists[] = {&l->queue->claims, &l->holders, &l->rest};
    uint64_t held = t->held, n = t->claims;
    struct list *pos, *nxt;
    uint64_t position = 0;
    bool has_ticket = true;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_for_each_safe(pos, nxt, lists[i])
        {
            const struct claim *cl = container_of(pos, struct claim, node);

            assert(cl->lock == l);
            check_claim(c, cl, now_us, t);
        }
    }
    assert(t->claims - n == l->claims_n && l->claims_n > 0 && t->held - held == l->held_n);
    check_holders(l);
    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        assert(cl->queued.position > position);
        assert(has_ticket || !cl->has_ticket); /* I11 */
        position = cl->queued.position;
        has_ticket = cl->has_ticket;
    }
}

/* S1 of timing_out.c */
static void
check_timing_out(const struct queue *q)
{
    struct list *pos, *nxt;
    bool behind = true;

    list_for_each_safe(pos, nxt, &q->timing_out)
    {
        const struct request *r = container_of(pos, struct request, timing_out_node);

        assert(behind || r->outcome_n == q->settle.outcome_n);
        behind = r->outcome_n != q->settle.outcome_n;
        assert(!behind || job_is_pending(&q->settle.job));
    }
}

/* I15. A lock without a queue of its own has core.empty_queue, see check_empty_queue(). */
static void
check_queue(const struct lock *l)
{
    bool at_rest = l->queue->waiting_n == 0 && l->claims_n == l->held_n && !list_linked(&l->queue->waiter_poll_node) &&
                   !job_is_pending(&l->queue->break_job);

    assert(l->queue->blocking_n <= l->queue->waiting_n);
    if (lock_has_queue(l)) {
        check_timing_out(l->queue);
        assert(l->queue->lock == l && (!at_rest || l->queue->break_op != 0 ||
                                       (l->claims_n == 0 && l->queue->yield_until_us != 0)));
    }
}

/* I15: very many locks share this record; see queue_init(). */
static void
check_empty_queue(const struct queue *q)
{
    assert(list_empty(&q->claims) && list_empty(&q->timing_out) && list_empty(&q->breaks) && q->break_op == 0);
    assert(!job_is_pending(&q->break_job) && !job_is_pending(&q->settle.job));
    assert(!list_linked(&q->waiter_poll_node));
    assert(q->waiting_n == 0 && q->blocking_n == 0 && q->trying_n == 0 && q->kept_n == 0 && q->redis_holders_n == 0);
    assert(q->failed_n == 0 && q->sent_turn == 0);
    assert(!q->lone_attempt && !q->failed && !q->hinted && !q->ticketless);
    assert(q->watch == WATCH_OFF && q->watch_owner == 0 && q->last_failure == CORE_NOT_GRANTED);
    assert(q->retry_us == 0 && q->taken_until_us == 0 && q->yield_until_us == 0);
}

/* I5 */
static void
check_attempts(const struct lock *l)
{
    struct list *pos, *nxt;
    uint32_t trying = 0;

    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        if (cl->state == CLAIM_TRYING) {
            trying++;
            assert(l->queue->trying_n == 1 || (!l->queue->lone_attempt && lock_has_room_beside(l, cl->op_shared)));
            assert(list_empty(&l->holders) || lock_allows_several(l) || (policy(l)->tickets && !cl->has_ticket));
        }
    }
    assert(trying == l->queue->trying_n && trying <= ATTEMPTS_MAX);
}

static void
check_lock(const struct core *c, const struct lock *l)
{
    struct list *pos, *nxt;
    bool wanted = false, drains;
    uint32_t releasing = 0, sent = 0, kept = 0, shortfalls = 0;

    check_list(&l->queue->claims, CLAIM_IN(QUEUED) | CLAIM_IN(TRYING));
    check_list(&l->holders, CLAIM_IN(HELD));
    check_list(&l->rest, CLAIM_IN(IDLE) | CLAIM_LEAVING | CLAIM_IN(LOST));
    list_for_each_safe(pos, nxt, &l->queue->claims)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        wanted = wanted || !list_empty(&cl->requests);
        kept += list_empty(&cl->requests) && cl->queued.kept_until_us != 0;
    }
    assert(kept == l->queue->kept_n);
    list_for_each_safe(pos, nxt, &l->rest)
    {
        const struct claim *cl = container_of(pos, struct claim, node);

        releasing += cl->state == CLAIM_RELEASING;
        sent += cl->state == CLAIM_RELEASING && cl->op != 0;
        shortfalls += cl->state == CLAIM_RELEASING && cl->shortfall;
    }
    assert(releasing == l->releasing_n && sent == l->releases_sent_n && shortfalls == l->queue->shortfalls_n);
    check_attempts(l);
    drains = job_is_pending(&lock_domain(c, l)->walk[WALK_DRAIN].job) || round_is_pending(c, l, ROUND_DRAIN);
    assert(!wanted || !c->draining || drains);
    if (wanted && !c->draining) { /* I4 */
        assert(l->queue->trying_n > 0 || l->queue->timer.node.pos != 0 || releasing > 0 || !list_empty(&l->holders));
    }
}

/* The session has one record for each owner that it uses. Returns their number. */
static size_t
check_session_owners(const struct core *c, const struct core_session *s)
{
    struct list *pos, *nxt;
    size_t n = 0;

    list_for_each_safe(pos, nxt, &s->session_owners)
    {
        const struct session_owner *so = container_of(pos, struct session_owner, session_node);
        struct map_node *same = map_find(&c->session_owners, so->by_pair.number);

        for (; same != NULL; same = map_next(same)) {
            const struct session_owner *other = container_of(same, struct session_owner, by_pair);

            assert(other == so || other->session != so->session || other->owner != so->owner);
        }
        n++;
    }
    assert(n == s->session_owners_n);
    return n;
}

/* D2 of deadlock.c */
static void
check_search(const struct list *waits)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, waits)
    {
        assert(container_of(pos, struct request, search_node)->waiting);
    }
}

/* The counters of a user are the sums of those of its sessions; a session that has gone has left its user. */
static void
check_users(const struct core *c)
{
    struct map_node *n, *next, *m, *next_m;

    map_for_each_safe(n, next, &c->users)
    {
        const struct user *u = container_of(n, struct user, by_key);
        uint64_t sessions = 0, blocking = 0, session_owners = 0;

        map_for_each_safe(m, next_m, &c->sessions)
        {
            const struct core_session *s = container_of(m, struct core_session, by_id);

            sessions += s->user == u;
            blocking += s->user == u ? s->blocking_n : 0;
            session_owners += s->user == u ? s->session_owners_n : 0;
        }
        assert(u->refs > 0 && u->sessions_n == sessions && u->blocking_n == blocking);
        assert(u->session_owners_n == session_owners);
        assert(u->claims_n <= c->claims.count);
    }
}

static void
check_domain(const struct core *c, const struct domain *d, int64_t now_us, struct tally *t)
{
    uint64_t unverified = t->unverified;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &d->locks)
    {
        const struct lock *l = container_of(pos, struct lock, all);

        assert(lock_domain(c, l) == d);
        check_queue(l);
        t->queues += lock_has_queue(l);
        if (l->claims_n > 0) {
            check_claims(c, l, now_us, t);
            check_lock(c, l);
        } else {
            assert(l->queue->break_op != 0 || l->queue->yield_until_us != 0);
        }
        t->keyed += l->has_key;
        assert(lock_find_by_key(c, lock_key(l)) == l); /* I18 */
        assert(!policy(l)->aux_keys || lock_sharing_aux_keys(c, lock_key(l)) == NULL);
        t->locks++;
    }
    unverified = t->unverified - unverified;
    assert(unverified == d->unverified_n); /* I12 */
    assert(d->epoch == 0 || unverified > 0 || job_is_pending(&d->walk[WALK_REVIEW].job) || rounds_review_pending(c, d));
}

void
core_check(const struct core *c, int64_t now_us)
{
    struct list *pos, *nxt;
    struct map_node *n, *next;
    struct tally t = {0};

    assert(c->dirty_locks.first == NULL && list_empty(&c->dirty_owners)); /* I10 */
    assert(list_empty(&c->to_rerun) && list_empty(&c->dirty_multilocks) && list_empty(&c->dirty_domains));
    assert(c->conf.slice != 0 || list_empty(&c->jobs)); /* I17 */
    check_empty_queue(&c->empty_queue);
    assert(heap_min_at(&c->timers) > now_us || now_us < c->now_us || c->conf.slice != 0);
    for (uint32_t i = 0; i < c->domains_n; i++) {
        check_domain(c, &c->domain[i], now_us, &t);
    }
    assert(t.held == c->held_n && t.locks == c->locks_n && t.claims == c->claims.count);
    assert(t.prefixed == c->tokens.count);
    assert(c->by_name.count == c->locks_n && c->by_key.count == t.keyed && t.queues == c->queues.count);
    map_for_each_safe(n, next, &c->sessions)
    {
        const struct core_session *s = container_of(n, struct core_session, by_id);

        order_check(c, s->owner); /* I9 */
        t.session_owners += check_session_owners(c, s);
        list_for_each_safe(pos, nxt, &s->requests)
        {
            const struct request *r = container_of(pos, struct request, session_node);

            t.waiting += r->waiting;
            t.blocking += r->waiting && r->blocking;
        }
    }
    map_for_each_safe(n, next, &c->owners)
    {
        order_check(c, container_of(n, struct owner, by_name));
    }
    assert(t.waiting == c->waiting_n && t.blocking == c->blocking_n && t.kept == c->kept_n);
    check_users(c);
    assert(t.session_owners == c->session_owners.count || c->conf.slice != 0); /* also of sessions that have gone */
    check_search(&c->search.waits);
    check_search(&c->search.roots);
    assert(t.lost == c->lost_n && c->lost_n <= UNREPORTED_MAX);
    assert(c->conf.slice != 0 || list_empty(&c->rounds));
    for (int i = 0; i < WINDOWS; i++) {
        assert(t.in_flight[i] == c->window[i].n);
    }
    assert(t.awaiting_window == c->awaiting_window_n);
    assert(!windows_may_send(c) || c->conf.slice != 0); /* I14, I17 */
    /* P1 of waiter_polls.c */
    assert(c->waiter_poll.timer.node.pos != 0 ||
           (list_empty(&c->waiter_poll.todo) && list_empty(&c->waiter_poll.seen)));
}
