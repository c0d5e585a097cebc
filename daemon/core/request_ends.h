/*
 * request_ends.h -- how requests end, and the answers that they get; private to daemon/core.
 */
#ifndef RLOCKD_CORE_REQUEST_ENDS_H
#define RLOCKD_CORE_REQUEST_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/core/answers.h"
#include "daemon/core/events.h"

struct core;
struct request;

/* request_ends.c */
void request_grant(struct core *c, struct request *r);
void request_finish(struct core *c, struct request *r, enum core_answer answer, int64_t left);
void request_deadlock(struct core *c, struct request *r, const struct core_hop *hop, size_t hops);
struct core_reply request_refusal(const struct core *c, const struct core_request *rq, enum core_answer answer);
void request_refuse(struct core *c, const struct core_request *rq, enum core_answer answer); /* no record was made */

/* request_drop.c */
void request_reply(struct core *c, const struct core_reply *rp);
void request_stop_waiting(struct core *c, struct request *r); /* waits for nothing any more; the record stays */
void request_drop(struct core *c, struct request *r);

#endif
