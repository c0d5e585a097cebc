/*
 * lock.h -- the record of a name, with what is known of it in Redis, and its queue while it has waiters; private to
 * daemon/core.
 */
#ifndef RLOCKD_CORE_LOCK_H
#define RLOCKD_CORE_LOCK_H

#include <stddef.h>

#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/core/bounds.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/domain.h"
#include "daemon/core/queue.h"
#include "daemon/core/state.h"

struct lock {
    struct map_node by_name; /* core.by_name; its number is the name's keyed hash */
    struct list all;        /* domain.locks */
    struct lock *dirty_next; /* behind it in core.dirty_locks; NULL: it is the last one, or not there */
    struct list holders, rest; /* claim.node; in `rest` those that are to be freed come first */
    struct queue *queue;    /* owned, or core.empty_queue; never NULL */
    enum kind kind : 3;
    enum value_format value : 3;
    enum kind rule_kind : 3; /* the kind by the rules when the record was made; KINDS: not known */
    bool foreign_wait : 1, tracking : 1; /* by the rule at the last LOCK, like limit and linger_us */
    enum wakes wakes : 2;
    bool declared : 1;      /* by the last LOCK or BREAK the key is a lock of this kind, see core_spec */
    bool has_key : 1;       /* it has a key that differs from its name */
    bool dirty : 1;         /* is in core.dirty_locks */
    bool has_cached : 1;    /* one claim is CACHED */
    bool contended : 1;     /* since the record was made, a LOCK here has found it held, being released or waited for */
    bool subscribed_at_poll : 1; /* this daemon was subscribed to its channel when Redis was last asked for the number
                                    of subscribers */
    bool wanted_since_poll : 1; /* ... and since then another daemon has broadcast that it waits */
    bool has_reserve : 1;   /* a claim that is held or TRYING may have a reserve: claim.reserve */
    bool remote_waiters : 1; /* remote waiters are known, and the lock was not released in Redis since */
    unsigned domain_review : DOMAIN_REVIEW_BITS; /* the domain.review.number for which the lock was reviewed last */
    unsigned reviews_n : CLAIM_REVIEW_BITS; /* number of the last review of its claims; each claim that was reviewed has
                                               it in claim.review_n */
    unsigned review_why : 2; /* ROUND_REVIEW: REVIEW_* */
    bool has_round : 1;     /* a round over its claims is pending */
    uint32_t limit;         /* HOLDERS_LIMIT: so many may hold it */
    uint32_t linger_us;     /* LINGER_MAX_US at most */
    uint32_t owner_grace_us, queue_grace_us; /* the longest since it had no claim; GRACE_MAX_US at most */
    uint32_t claims_n;      /* claims on it */
    uint32_t held_n, releasing_n; /* claims HELD, RELEASING, and ... */
    uint32_t releases_sent_n; /* ... RELEASING whose release is under way */
    uint32_t cohort_passes; /* grants here in a row */
    int64_t cohort_since_us; /* start of the cohort; or when Redis last reported no remote waiters */
    uint16_t name_n, key_n; /* bytes */
    uint16_t domain;        /* number of the domain that its key is in */
    uint8_t replicas;       /* so many must acknowledge a grant, by the rule at the last LOCK */
    bool has_cursor;        /* it has a bookmark: K1 of cursors.c */
    char text[];            /* the name, and behind it the key, unless they are equal */
};

/*
 * A held lock costs one claim and one lock record, with a name of 32 bytes, and 40 bytes in tables; there may be a
 * million of them. The allocator adds 8 bytes to each record and rounds up to 16: 272 and 176 bytes. So fields lie in
 * pairs without gaps, fields of different states share memory, and these assertions notice growth.
 */
_Static_assert(sizeof(struct claim) <= 264, "a claim has grown");
_Static_assert(offsetof(struct lock, text) <= 136, "a lock has grown");
_Static_assert(offsetof(struct claim, cached.deadline_us) == offsetof(struct claim, hold.deadline_us) &&
               offsetof(struct claim, cached.session) == offsetof(struct claim, hold.session),
               "what is CACHED begins as the hold that it was");
_Static_assert(KINDS < 1 << 3 && VALUES <= 1 << 3 && WAKES <= 1 << 2, "a lock has room for each");
_Static_assert(RESERVE_MAX < 1u << RESERVE_BITS && BACKOFF_TIMES < 1u << FAILED_BITS, "no count is cut off");

/* Only where has_key: the node lies in front of the record. */
static inline struct map_node *
lock_key_node(struct lock *l)
{
    return (struct map_node *)(void *)l - 1;
}

static inline size_t
lock_prefix_bytes(bool has_key)
{
    return has_key ? sizeof(struct map_node) : 0;
}

static inline bool
lock_has_queue(const struct lock *l)
{
    return l->queue->lock != NULL;
}

static inline struct domain *
lock_domain(const struct core *c, const struct lock *l)
{
    return &c->domain[l->domain];
}

static inline struct slice
lock_name(const struct lock *l)
{
    return (struct slice){l->text, l->name_n};
}

static inline struct slice
lock_key(const struct lock *l)
{
    return (struct slice){l->text + (l->has_key ? l->name_n : 0), l->key_n};
}

/* 0: no queue, so no event will name it. */
static inline uint64_t
lock_queue_id(const struct lock *l)
{
    return l->queue->by_id.number;
}

/* True when other daemons have their turn: the grants here in a row, or their time, have reached the bound. */
static inline bool
lock_cohort_is_over(const struct core *c, const struct lock *l)
{
    return l->cohort_passes >= c->conf.handoff_max || c->now_us - l->cohort_since_us >= c->conf.handoff_time_us;
}

/* Of a claim that is HELD: the name was broken since its grant, and the job of that BREAK has not reached it yet. */
static inline bool
claim_is_broken(const struct claim *cl)
{
    const struct queue *q = cl->lock->queue;

    return job_is_pending(&q->break_job) && cl->token < q->broken_token;
}

/*
 * The state HELD alone is no proof: the lease may have ended, or the name be broken, while the timer or the job is
 * still due.
 */
static inline bool
claim_is_held(const struct claim *cl, int64_t now_us)
{
    return cl->state == CLAIM_HELD && now_us < cl->hold.deadline_us && !claim_is_broken(cl);
}

#endif
