/*
 * shard.h -- one data set in Redis: a pool of links, the calls gathered for them, its clock, its channels.
 *
 * A topology (standalone.c) finds the shard of a key; everything else happens here.
 */
#ifndef RLOCKD_BACKEND_SHARD_H
#define RLOCKD_BACKEND_SHARD_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

struct shard;

/* conf and env are borrowed for the shard's life, address is taken over (freed with it, also on failure). */
struct shard *shard_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env);
void shard_close(struct shard **sh);

void shard_perform(struct shard *sh, const struct core_op *op, enum core_action_type verb);
bool shard_look(struct shard *sh, uint64_t id, struct slice key);
void shard_say(struct shard *sh, struct slice what);
void shard_waiter_poll(struct shard *sh, const struct core_waiter_poll *p);
void shard_configure(struct shard *sh, int64_t grace_us);
void shard_reclaimed(struct shard *sh, uint64_t epoch);
void shard_leave(struct shard *sh);
void shard_flush(struct shard *sh);
bool shard_idle(const struct shard *sh);
void shard_status(const struct shard *sh, struct backend_status *out);

#endif
