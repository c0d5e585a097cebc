/*
 * lock_index.h -- the records of names, and how they are found; private to daemon/core.
 */
#ifndef RLOCKD_CORE_LOCK_INDEX_H
#define RLOCKD_CORE_LOCK_INDEX_H

#include <stdint.h>

#include "daemon/core/core.h"

struct core;
struct lock;

struct lock *lock_find(const struct core *c, struct slice name);
/* the same; *number: the hash of the name */
struct lock *lock_find_and_hash(const struct core *c, struct slice name, uint64_t *number);
struct lock *lock_find_by_key(const struct core *c, struct slice key); /* whatever its name is; NULL: no record */
/* another lock, whose auxiliary keys are those of the key; NULL: there is none */
struct lock *lock_sharing_aux_keys(const struct core *c, struct slice key);
/* the record that keeps the request from its key; NULL: none. The name of the request must have no record */
struct lock *lock_conflict(const struct core *c, const struct core_request *rq);
/* number: of lock_find_and_hash() */
struct lock *lock_new(struct core *c, struct slice name, uint64_t number, const struct core_spec *spec);
void lock_delete(struct core *c, struct lock *l); /* nothing of it is used any more */

#endif
