/*
 * requests.h -- requests: how they arrive, run and are cancelled; private to daemon/core.
 */
#ifndef RLOCKD_CORE_REQUESTS_H
#define RLOCKD_CORE_REQUESTS_H

#include <stdbool.h>

#include "daemon/core/core.h"

struct claim;
struct core;
struct core_session;
struct request;

/* requests.c */
void request_arrive(struct core *c, const struct core_event *ev);
void request_run(struct core *c, struct request *r);
void request_timer(struct core *c, struct request *r);
/* makes the record of a LOCK. An answer other than GRANTED: the request is refused, and there is no record */
enum core_answer request_lock(struct core *c, struct core_session *s, const struct core_request *rq,
                              struct request **out);
/* the same of an UNLOCK or RENEW */
enum core_answer request_of_holder(struct core *c, struct core_session *s, const struct core_request *rq,
                                   enum core_event_type verb, struct request **out);
void request_begin(struct core *c, struct request *r, bool in_order);
/* Gives one hold back, by an UNLOCK without an answer. */
void request_give_back(struct core *c, struct claim *cl, bool shared);
void requests_rerun(struct core *c); /* runs those of core.to_rerun in the new state of their claims */

/* cancel.c */
void cancel_arrives(struct core *c, const struct core_request *rq);

#endif
