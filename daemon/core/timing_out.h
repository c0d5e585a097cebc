/*
 * timing_out.h -- requests that do not wait longer than for the next outcome; private to daemon/core.
 */
#ifndef RLOCKD_CORE_TIMING_OUT_H
#define RLOCKD_CORE_TIMING_OUT_H

#include <stdbool.h>

#include "daemon/core/answers.h"

struct core;
struct lock;
struct queue;
struct request;

/* its time to wait is over: answers it now, or with the next outcome */
void timing_out_begin(struct core *c, struct request *r);
/*
 * An outcome is known: it answers all requests on timing_out; or those for which the lock has no room, with
 * NOT_GRANTED; or those that had wanted to wait, with the last failure.
 */
void timing_out_settle_all(struct core *c, struct lock *l, enum core_answer answer);
void timing_out_settle_full(struct core *c, struct lock *l);
void timing_out_settle_waited(struct core *c, struct lock *l);
bool timing_out_settle_next(struct core *c, struct queue *q); /* settles one request; false: none was left */

#endif
