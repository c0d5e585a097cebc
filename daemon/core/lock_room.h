/*
 * lock_room.h -- the holders of a lock here, the room beside them, and the next claim in its queue; private to
 * daemon/core.
 */
#ifndef RLOCKD_CORE_LOCK_ROOM_H
#define RLOCKD_CORE_LOCK_ROOM_H

#include <stdbool.h>

struct claim;
struct core;
struct lock;

/* lock_room.c */
struct claim *lock_next_claim(const struct lock *l); /* the first in the queue that has requests; NULL: none has */
bool lock_is_full(const struct lock *l, bool shared); /* the holders here leave no room for one more */
/*
 * Holders and releases here (with permits, attempts as well) leave room for one more. behind: a release is in the way
 * only until it is sent.
 */
bool lock_has_room(const struct lock *l, bool shared, bool behind);
/* held by one grant, so any other token is stale */
bool lock_has_one_token(const struct core *c, const struct lock *l);
struct claim *lock_newest_holder(const struct lock *l); /* the holder with the highest token; NULL: there is none */
struct claim *lock_cached_claim(const struct lock *l); /* lock.has_cached */
void lock_end_reserve(struct lock *l); /* others may have later tokens: no hand-off before the next grant */

#endif
