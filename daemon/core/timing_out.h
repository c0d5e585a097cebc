/*
 * timing_out.h -- requests that do not wait longer than for the next outcome, and those that are refused; private to
 * daemon/core.
 */
#ifndef RLOCKD_CORE_TIMING_OUT_H
#define RLOCKD_CORE_TIMING_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/answers.h"

struct claim;
struct core;
struct lock;
struct queue;
struct request;

bool queue_settle_next(struct core *c, struct queue *q); /* settles one request; false: none was left */
void request_time_out(struct core *c, struct request *r); /* its time to wait is over; may finish it */
void lock_settle_all(struct core *c, struct lock *l, enum core_answer answer); /* answers all requests on timing_out */
/* answers those for which the lock has no room with NOT_GRANTED */
void lock_settle_full(struct core *c, struct lock *l);
/* answers those that had wanted to wait with the last failure */
void lock_settle_waited(struct core *c, struct lock *l);
enum { REFUSED_MAX = 512 }; /* requests refused at a time; Redis is asked anew for those behind them */
/* answers the first `most` requests that wait for the lock */
void lock_refuse(struct core *c, struct lock *l, enum core_answer answer, uint32_t most);
void claim_drain(struct core *c, struct claim *cl); /* the first request that waits for it is sent away */

#endif
