/*
 * queues.h -- how queues are found, made and freed; private to daemon/core.
 */
#ifndef RLOCKD_CORE_QUEUES_H
#define RLOCKD_CORE_QUEUES_H

#include <stdint.h>

struct core;
struct lock;
struct queue;

struct queue *queue_find(const struct core *c, uint64_t id);
void queue_init(struct queue *q);
void queue_open(struct core *c, struct lock *l); /* so that lock.queue may be written */
void queue_close(struct core *c, struct lock *l); /* harmless if it has none */

#endif
