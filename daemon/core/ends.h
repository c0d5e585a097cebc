/*
 * ends.h -- the floor "answers" of core.h: how holds and requests end, and the answers to them; private to daemon/core.
 */
#ifndef RLOCKD_CORE_ENDS_H
#define RLOCKD_CORE_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/answers.h"
#include "daemon/core/events.h"
#include "daemon/core/queue.h"

struct claim;
struct core;
struct lock;
struct multilock;
struct request;

/* ends.c */
void end_by_loss(struct core *c, struct claim *cl, const char *reason, bool gone_in_redis);
void end_lapsed(struct core *c, struct claim *cl); /* the lease has ended, or the name was broken: ends the hold */
void end_gone_in_redis(struct core *c, struct claim *cl, bool news); /* Redis has nothing of the claim any more */
void end_loss_unreported(struct core *c, struct claim *cl); /* LOST, until the loss is reported */
/* the loss expires: after its time, or because its owner, or all owners, have too many */
void end_loss_expired(struct core *c, struct claim *cl);
/* the loss of the claim has been reported to its owner: clears it; with permits, each loss of the owner at that lock */
void end_loss_reported(struct core *c, struct claim *cl);
/* the owner has received LOST for a grant: if the claim is still HELD, ends it first; then as end_loss_reported() */
void end_known_to_owner(struct core *c, struct claim *cl);
/* clears the loss of this claim: it was reported, or is not to be */
void end_clear_loss(struct core *c, struct claim *cl);

/* attempt_ends.c */
void attempt_succeeded(struct lock *l);
void attempt_failed(struct core *c, struct lock *l, const struct core_done *d);
void attempt_after_release(struct core *c, struct lock *l, const struct core_done *d);

/* grants.c */
/* HELD now: the first of its requests is answered; serve_claim() goes on with the others */
void grant_claim(struct core *c, struct claim *cl, int64_t tried_us, int64_t sent_us);
void grant_plan_renewal(const struct core *c, struct claim *cl, int64_t sent_us);

/* multilock_answers.c */
/* the answer to one of its requests */
void multilock_answer(struct core *c, struct request *r, const struct core_reply *rp);
void multilock_note_answer(struct core *c, struct multilock *m, size_t i, const struct core_reply *rp);
void multilock_send(struct core *c, const struct multilock *m, const struct core_reply *rp); /* the answer to all */
/* the request is no member any more; the last one frees m */
void multilock_remove(struct multilock *m, struct request *r);

/* refusals.c */
enum { REFUSED_MAX = 512 }; /* requests refused at a time; Redis is asked anew for those behind them */

/* answers the first `most` requests that wait for the lock; holders are not concerned */
void refusal_of_waiters(struct core *c, struct lock *l, enum core_answer answer, uint32_t most);
void refusal_by_drain(struct core *c, struct claim *cl); /* answers the first request that waits in the claim */

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

/* timing_out.c */
/* its time to wait is over: answers it now, or with the next outcome */
void timing_out_begin(struct core *c, struct request *r);
/* An outcome is known: it answers those on timing_out that `how` says. */
void timing_out_settle(struct core *c, struct lock *l, enum settle_how how, enum core_answer answer);
bool timing_out_settle_next(struct core *c, struct queue *q); /* settles one request; false: none was left */

#endif
