/*
 * requests.h -- the floor "requests" of core.h: what sessions ask for; private to daemon/core.
 */
#ifndef RLOCKD_CORE_REQUESTS_H
#define RLOCKD_CORE_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/broadcast.h"
#include "daemon/core/core.h"

struct claim;
struct core;
struct core_session;
struct lock;
struct multilock;
struct owner;
struct request;
struct search;

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

/* delivery.c: the grants that answers rely on */
void delivery_loss_reported(struct core *c, const struct core_grant *g); /* LOSS_REPORTED */
void delivery_failed(struct core *c, const struct core_grant *g);        /* UNDELIVERED */

/* multilock.c: MLOCK, MUNLOCK and MRENEW */
void multilock_arrive(struct core *c, const struct core_event *ev);
void multilock_leave(struct core *c, struct request *r);   /* its session has gone, or the core ends */
void multilock_cancelled(struct multilock *m);                /* one member is cancelled, and about to end all */
/* one of its requests asks for the lock, or was granted it */
bool multilock_asks_for(const struct multilock *m, const struct lock *l);
void multilocks_advance(struct core *c); /* those that are dirty: complete now, or undone */

/* sessions.c */
bool owner_release_next(struct core *c, struct owner *o); /* gives one of its claims back; false: there is none left */
void owner_timer(struct core *c, struct owner *o);
void owner_advance(struct core *c, struct owner *o);
void core_session_eof(struct core *c, struct core_session *s);
/* refuses its oldest request, if that waits, or has not begun, and the session acts for named owners, too */
void core_session_crowded(struct core *c, const struct core_session *s, uint64_t id);
void core_session_unreachable(struct core *c, struct core_session *s);
void core_session_gone(struct core *c, struct core_session *s);
/* leaves one of its owners; false: none is left, and the session is freed */
bool core_session_leave_owner(struct core *c, struct core_session *s);

/* deadlock.c: owners that wait for each other here */
void deadlock_init(struct search *s);
bool deadlock_ends_wait(struct core *c, struct request *r); /* r begins to wait. True: answered DEADLOCK, r has gone */
void deadlock_old_wait(struct core *c, struct request *r);  /* the wait has become old: other daemons are asked, too */
void deadlock_advance(struct core *c);                   /* does a slice of the searches that were put off */

/* trail.c: the same over several daemons */
void trail_begin(struct core *c, struct request *r); /* asks the other daemons */
void trail_received(struct core *c, enum broadcast_type what, struct slice text);

#endif
