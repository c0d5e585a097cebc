/*
 * inspect.h -- the question of LOCKINFO and GET to Redis about a key: scripts/inspect.lua.
 */
#ifndef RLOCKD_BACKEND_INSPECT_H
#define RLOCKD_BACKEND_INSPECT_H

#include "daemon/backend/shard.h"
#include "daemon/base/list.h"

/* A question about a key; each ends in one events->inspected(id). */
struct inspect {
    struct list node; /* deferred.questions, if the question could not be sent */
    const struct backend_env *env;
    const struct shard_events *events;
    uint64_t id;
    uint64_t key_hash;
    unsigned *in_flight; /* the shard's count of questions in flight; borrowed */
};

struct inspect *inspect_new(const struct backend_env *env, const struct shard_events *events, uint64_t id);

/* False: the question could not be sent, and the caller still owns it. Else *in_flight counts it until its answer. */
bool inspect_send(struct inspect *q, struct redis_link *l, struct slice key, unsigned *in_flight);

/* Reports that Redis did not answer, and frees the question. */
void inspect_unanswered(struct inspect *q);

/* Frees `arg` if it is a question that was in flight on a closed link. */
void inspect_forget(link_reply_fn *fn, void *arg);

#endif
