/*
 * queues.h -- how queues are made and freed, and what an outcome means for waiters; private to daemon/core.
 */
#ifndef RLOCKD_CORE_QUEUES_H
#define RLOCKD_CORE_QUEUES_H

#include "daemon/core/core.h"
#include "daemon/core/queue.h"

struct core;
struct lock;

/* queues.c */
struct queue *queue_find(const struct core *c, uint64_t id);
void queue_init(struct queue *q);
void queue_open(struct core *c, struct lock *l); /* so that lock.queue may be written */
void queue_close(struct core *c, struct lock *l); /* harmless if it has none */

/* attempt_ends.c */
void lock_attempt_succeeded(struct lock *l);
void lock_attempt_failed(struct core *c, struct lock *l, const struct core_done *d);
void lock_released(struct core *c, struct lock *l, const struct core_done *d);

#endif
