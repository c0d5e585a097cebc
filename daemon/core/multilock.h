/*
 * multilock.h -- the requests of one MLOCK, MUNLOCK or MRENEW, which has one answer; private to daemon/core.
 */
#ifndef RLOCKD_CORE_MULTILOCK_H
#define RLOCKD_CORE_MULTILOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/core.h"

struct core;
struct lock;
struct request;

struct multilock {
    enum core_event_type verb;
    uint64_t session, id;
    struct request *member[CORE_MANY_MAX]; /* in the order they were asked for */
    struct core_reply part[CORE_MANY_MAX]; /* their answers; names are copied behind the struct */
    size_t n, members_n, answers_n;        /* names; requests alive; parts answered */
    bool full;
    bool failed;                           /* MLOCK: it has failed, and was answered */
    struct list dirty_node;                /* core.dirty_multilocks: all is granted, or what was granted goes back */
};

/* multilock.c */
void multilock_arrive(struct core *c, const struct core_event *ev);
void multilock_leave(struct core *c, struct request *r);   /* its session has gone, or the core ends */
void multilock_cancelled(struct multilock *b);                /* a CANCELLED of one member is about to end all */
/* one of its requests asks for the lock, or was granted it */
bool multilock_asks_for(const struct multilock *b, const struct lock *l);
void multilocks_advance(struct core *c); /* those that are dirty: complete now, or undone */

/* multilock_answers.c */
/* the answer to one of its requests */
void multilock_answer(struct core *c, struct request *r, const struct core_reply *rp);
void multilock_note_held(struct core *c, struct multilock *b, size_t i, const struct core_reply *rp);
void multilock_send(struct core *c, const struct multilock *b, const struct core_reply *rp); /* the answer to all */
/* the request is no member any more; the last one frees b */
void multilock_forget(struct multilock *b, struct request *r);

#endif
