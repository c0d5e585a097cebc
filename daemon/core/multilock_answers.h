/*
 * multilock_answers.h -- the answers to the requests of one MLOCK, MUNLOCK or MRENEW become one; private to
 * daemon/core.
 */
#ifndef RLOCKD_CORE_MULTILOCK_ANSWERS_H
#define RLOCKD_CORE_MULTILOCK_ANSWERS_H

#include <stddef.h>

#include "daemon/core/answers.h"

struct core;
struct multilock;
struct request;

/* the answer to one of its requests */
void multilock_answer(struct core *c, struct request *r, const struct core_reply *rp);
void multilock_note_answer(struct core *c, struct multilock *m, size_t i, const struct core_reply *rp);
void multilock_send(struct core *c, const struct multilock *m, const struct core_reply *rp); /* the answer to all */
/* the request is no member any more; the last one frees m */
void multilock_remove(struct multilock *m, struct request *r);

#endif
