/*
 * dirty.h -- the records that have changed in this step: the end of the step looks at each once; private to
 * daemon/core.
 */
#ifndef RLOCKD_CORE_DIRTY_H
#define RLOCKD_CORE_DIRTY_H

struct core;
struct domain;
struct lock;
struct owner;

/* dirty.c */
void dirty_mark_lock(struct core *c, struct lock *l);
void dirty_mark_domain(struct core *c, struct domain *d);
void dirty_mark_owner(struct core *c, struct owner *o);

#endif
