/*
 * multilock.h -- how MLOCK, MUNLOCK and MRENEW arrive, complete and are undone; private to daemon/core.
 */
#ifndef RLOCKD_CORE_MULTILOCK_H
#define RLOCKD_CORE_MULTILOCK_H

#include <stdbool.h>

#include "daemon/core/events.h"

struct core;
struct lock;
struct multilock;
struct request;

void multilock_arrive(struct core *c, const struct core_event *ev);
void multilock_leave(struct core *c, struct request *r);   /* its session has gone, or the core ends */
void multilock_cancelled(struct multilock *m);                /* one member is cancelled, and about to end all */
/* one of its requests asks for the lock, or was granted it */
bool multilock_asks_for(const struct multilock *m, const struct lock *l);
void multilocks_advance(struct core *c); /* those that are dirty: complete now, or undone */

#endif
