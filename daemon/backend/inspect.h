/*
 * inspect.h -- asks Redis what it has under a key: scripts/look.lua.
 */
#ifndef RLOCKD_BACKEND_INSPECT_H
#define RLOCKD_BACKEND_INSPECT_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

/* Ends in one env->seen(id); false: could not be sent, and none will come. */
bool inspect_send(const struct backend_env *env, struct redis_link *l, uint64_t id, struct slice key);

/* Frees `arg` if the link was closed with such a question in flight. */
void inspect_forget(link_reply_fn *fn, void *arg);

#endif
