/*
 * locks.h -- names: their turns and ends, breaks, attempts and outcomes; private to daemon/core.
 */
#ifndef RLOCKD_CORE_LOCKS_H
#define RLOCKD_CORE_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/core.h"

struct claim;
struct core;
struct lock;
struct queue;
struct request;

/* locks.c */
enum core_answer lock_get(struct core *c, const struct core_request *rq, bool any_kind, struct lock **out);
/*
 * Between two steps: the name is free. Its record stays only so that remote waiters have their turn, and refuses no
 * request.
 */
bool lock_is_vacant(const struct lock *l);
void lock_advance(struct core *c); /* advances the first dirty lock; may free it */
void lock_queue_timer(struct core *c, const struct queue *q);
void lock_hint(struct core *c, struct lock *l, bool confirmed); /* HINT; confirmed: SUBSCRIBED */
void lock_publish_wanted(struct core *c, const struct lock *l, bool shared); /* publishes WANTED to holders */
void lock_drain(struct core *c, struct lock *l);
void lock_free(struct core *c, struct lock *l);

/* breaks.c */
void break_begin(struct core *c, struct request *r);
void break_done(struct core *c, struct lock *l, const struct core_done *d);
void break_suspect(struct core *c, struct lock *l); /* the name was broken, or may have been, here or elsewhere */
bool break_next(struct core *c, struct lock *l); /* the name was broken: its next former holder loses the lock;
                                                    false: none is left */

/* attempts.c */
void attempts_advance(struct core *c, struct lock *l, struct claim *next);

/* outcomes.c */
void outcome_arrives(struct core *c, struct claim *cl, const struct core_done *d);

#endif
