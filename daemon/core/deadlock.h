/*
 * deadlock.h -- owners that wait for each other, here and over several daemons; private to daemon/core.
 */
#ifndef RLOCKD_CORE_DEADLOCK_H
#define RLOCKD_CORE_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/broadcast.h"
#include "daemon/core/core.h"

struct request;
struct search;

/* deadlock.c */
void deadlock_init(struct search *s);
bool deadlock_begins(struct core *c, struct request *r); /* r begins to wait. True: answered DEADLOCK, r has gone */
void deadlock_ask(struct core *c, struct request *r);    /* the wait has become old: other daemons are asked, too */
void deadlock_advance(struct core *c);                   /* does a slice of the searches that were put off */

/* trail.c */
void trail_begin(struct core *c, struct request *r); /* asks the other daemons */
void trail_received(struct core *c, enum broadcast_type what, struct slice text);

#endif
