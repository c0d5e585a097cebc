/*
 * dirty.h -- what something happened to in this step: its end goes on with each of these; private to daemon/core.
 */
#ifndef RLOCKD_CORE_DIRTY_H
#define RLOCKD_CORE_DIRTY_H

struct core;
struct lock;
struct owner;

/* dirty.c */
void lock_wake(struct core *c, struct lock *l);
void owner_wake(struct core *c, struct owner *o);

#endif
