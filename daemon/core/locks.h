/*
 * locks.h -- names: their records and queues, attempts and breaks; private to daemon/core.
 */
#ifndef RLOCKD_CORE_LOCKS_H
#define RLOCKD_CORE_LOCKS_H

#include "daemon/core/core.h"
#include "daemon/core/leases.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

struct claim;
struct request;

/* names.c */
struct lock *lock_find(const struct core *c, struct slice name);
/* the same; *number: the hash of the name */
struct lock *lock_find_number(const struct core *c, struct slice name, uint64_t *number);
struct lock *lock_of_key(const struct core *c, struct slice key); /* whatever its name is; NULL: no record */
/* A lock with the same auxiliary keys; NULL: there is none. */
struct lock *lock_with_aux_keys(const struct core *c, struct slice key);
/* the record that keeps rq from its key; the name of rq has no record */
struct lock *lock_in_the_way(const struct core *c, const struct core_request *rq);
/* number: of lock_find_number() */
struct lock *lock_new(struct core *c, struct slice name, uint64_t number, const struct core_spec *spec);
void lock_delete(struct core *c, struct lock *l); /* nothing of it is used any more */

/* locks.c */
enum core_answer lock_get(struct core *c, const struct core_request *rq, bool any_kind, struct lock **out);
/*
 * Between two steps: the name is free. Its record stays only for remote waiters to have their turn, and refuses
 * nothing.
 */
bool lock_is_vacant(const struct lock *l);
void lock_advance(struct core *c); /* advances the first dirty lock; may free it */
void queue_timer(struct core *c, const struct queue *q);
void lock_hint(struct core *c, struct lock *l, bool confirmed);
void lock_wanted(struct core *c, const struct lock *l, bool shared); /* tells holders that a waiter begins */
void lock_drain(struct core *c, struct lock *l);
void lock_free(struct core *c, struct lock *l);

/* breaks.c */
void lock_break(struct core *c, struct request *r);
void lock_break_done(struct core *c, struct lock *l, const struct core_done *d);
void lock_broken(struct core *c, struct lock *l); /* the name was broken, or may have been, here or elsewhere */
bool lock_lose_next(struct core *c, struct lock *l); /* the name was broken: its next former holder loses the lock;
                                                        false: none is left */

/* attempts.c */
void lock_try(struct core *c, struct lock *l, struct claim *next);

/* True when other daemons have their turn: the grants here in a row, or their time, have reached the bound. */
static inline bool
lock_cohort_is_over(const struct core *c, const struct lock *l)
{
    return l->cohort_passes >= c->conf.handoff_max || c->now_us - l->cohort_since_us >= c->conf.handoff_time_us;
}

#endif
