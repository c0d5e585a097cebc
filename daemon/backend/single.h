/*
 * single.h -- the common part of topologies with one shard: every verb goes to the shard, and its events to the core.
 */
#ifndef RLOCKD_BACKEND_SINGLE_H
#define RLOCKD_BACKEND_SINGLE_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/shard.h"
#include "daemon/base/freelist.h"

/* The head of such a topology's own record. */
struct single {
    struct backend head;
    struct backend_conf conf; /* its texts are with the addresses: NULL here */
    struct backend_env env;
    struct freelist freelist;
    struct shard *shard; /* owned */
};

/*
 * Opens the shard; the address is taken over. `ops` are the topology's. Of `more` the callbacks that are not NULL
 * (life, greet) come instead of ours, with the topology's record as ctx; life then calls single_life().
 */
void single_open(struct single *s, const struct backend_ops *ops, const struct backend_conf *conf,
                 const struct backend_env *env, struct link_address *address, struct shard_events more);

/* Ends the shard; the record itself is the topology's to free. */
void single_close(struct single *s);

/* What a shard's life means to the core. */
void single_life(void *ctx, enum shard_life what, uint64_t n);

/* Reads the files of TLS for the address, and logs defects that are no reason to refuse. */
bool single_secure(struct link_address *a, const struct tls_files *files, const struct log *log, char error[160]);

void single_perform(struct backend *b, const struct core_op *op, enum core_action_type verb);
void single_look(struct backend *b, uint64_t id, struct slice key);
void single_broadcast(struct backend *b, struct slice what);
void single_waiter_poll(struct backend *b, const struct core_waiter_poll *p);
void single_configure(struct backend *b, int64_t grace_us);
void single_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch);
void single_leave(struct backend *b);
void single_flush(struct backend *b);
bool single_idle(const struct backend *b);
void single_status(const struct backend *b, struct backend_status *out);
size_t single_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX]);

/* The rows of backend_ops that are the same for all of them; `flush` is most of theirs. */
#define SINGLE_VERBS                                                                                                   \
    .perform = single_perform, .look = single_look, .broadcast = single_broadcast,                                     \
    .waiter_poll = single_waiter_poll,                                                                                 \
    .configure = single_configure, .reclaimed = single_reclaimed, .leave = single_leave, .idle = single_idle

#endif
