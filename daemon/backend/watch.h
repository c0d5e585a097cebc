/*
 * watch.h -- which channels are heard, and for which locks.
 */
#ifndef RLOCKD_BACKEND_WATCH_H
#define RLOCKD_BACKEND_WATCH_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

struct watches;

/* env is borrowed. NULL: out of memory. */
struct watches *watches_new(const struct backend_env *env);
void watches_free(struct watches **w);

/* Subscribes when it is the first lock of the channel and the link is up; false: out of memory (a timer wakes then). */
bool watches_add(struct watches *w, struct redis_link *sub, uint64_t lock, enum kind kind, struct slice key);
void watches_remove(struct watches *w, struct redis_link *sub, uint64_t lock, enum kind kind, struct slice key);

/* The link is up (again): everything is subscribed anew. */
void watches_renew(struct watches *w, struct redis_link *sub);

/* Something came on the subscriber link: confirmations become WATCHING, messages become HINTs. */
void watches_push(struct watches *w, const struct reply *r);

size_t watches_count(const struct watches *w);

#endif
