/*
 * requests.h -- requests: how they arrive, run and end; private to daemon/core.
 */
#ifndef RLOCKD_CORE_REQUESTS_H
#define RLOCKD_CORE_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/core.h"
#include "daemon/core/request.h"

struct core;
struct queue;

/* requests.c */
void request_arrive(struct core *c, const struct core_event *ev);
void request_run(struct core *c, struct request *r);
void request_timer(struct core *c, struct request *r);
enum core_answer request_lock(struct core *c, struct core_session *p, const struct core_request *rq,
                              struct request **out);
enum core_answer request_held(struct core *c, struct core_session *p, const struct core_request *rq,
                              enum core_event_type verb, struct request **out);
void request_begin(struct core *c, struct request *r, bool in_order);
/* Gives one hold back, by an UNLOCK without an answer. */
void request_give_back(struct core *c, struct claim *cl, bool shared);
void requests_freed(struct core *c); /* runs those of core.freed in the new state of their claims */

/* request_ends.c */
void request_grant(struct core *c, struct request *r);
void request_finish(struct core *c, struct request *r, enum core_answer answer, int64_t left);
void request_deadlock(struct core *c, struct request *r, const struct core_hop *hop, size_t hops);
struct core_reply request_refusal(const struct core *c, const struct core_request *rq, enum core_answer answer);
void request_refuse(struct core *c, const struct core_request *rq, enum core_answer answer); /* no record was made */

/* timing_out.c */
bool queue_settle_next(struct core *c, struct queue *q); /* settles one request; false: none was left */
void request_time_out(struct core *c, struct request *r); /* its time to wait is over; may finish it */
void lock_settle_all(struct core *c, struct lock *l, enum core_answer answer); /* answers all requests on timing_out */
void lock_settle_full(struct core *c, struct lock *l);      /* ... those without room for them, NOT_GRANTED */
void lock_settle_waited(struct core *c, struct lock *l); /* ... those that had wanted to wait, the last failure */
enum { REFUSED_MAX = 512 }; /* requests refused at a time; Redis is asked anew for those behind them */
void lock_refuse(struct core *c, struct lock *l, enum core_answer answer, uint32_t most);
void claim_drain(struct core *c, struct claim *cl); /* the first request that waits for it is sent away */

/* cancel.c */
void cancel_arrives(struct core *c, const struct core_request *rq);

/* request_drop.c */
void request_reply(struct core *c, const struct core_reply *rp);
void request_stop_waiting(struct core *c, struct request *r); /* waits for nothing any more; the record stays */
void request_drop(struct core *c, struct request *r);

#endif
