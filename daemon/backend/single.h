/*
 * single.h -- the common part of topologies with one shard: passes verbs to the shard, and its events to the core.
 */
#ifndef RLOCKD_BACKEND_SINGLE_H
#define RLOCKD_BACKEND_SINGLE_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/shard.h"
#include "daemon/base/freelist.h"

/* The head of the record of a topology with one shard. */
struct single {
    struct backend head;
    struct backend_conf conf; /* without url, login and files of TLS: the address has these */
    struct backend_env env;
    struct freelist freelist;
    struct shard *shard; /* owned */
};

/*
 * Opens the shard, and takes the address over. `ops`: the topology's. `more`: the topology's functions `life` and
 * `greet`, which get its record as ctx; NULL: it has none. A `life` of the topology must call single_life().
 */
void single_open(struct single *s, const struct backend_ops *ops, const struct backend_conf *conf,
                 const struct backend_env *env, struct link_address *address, struct shard_events more);

/* Closes the shard. The topology frees the record. */
void single_close(struct single *s);

/* Reports an event in the shard's life to the core. */
void single_life(void *ctx, enum shard_life what, uint64_t n);

/* Reads the files of TLS for the address (address_secure()), and logs a warning about them. */
bool single_secure(struct link_address *a, const struct tls_files *files, const struct log *log, char error[160]);

void single_perform(struct backend *b, const struct core_op *op, enum core_action_type verb);
void single_inspect(struct backend *b, uint64_t id, struct slice key);
void single_broadcast(struct backend *b, struct slice what);
void single_waiter_poll(struct backend *b, const struct core_waiter_poll *p);
void single_configure(struct backend *b, int64_t longest_lease_us);
void single_reclaimed(struct backend *b, uint16_t domain, uint64_t epoch);
void single_leave(struct backend *b);
void single_flush(struct backend *b);
bool single_idle(const struct backend *b);
void single_status(const struct backend *b, struct backend_status *out);
size_t single_nodes(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX]);

/* The rows of backend_ops that all topologies with one shard share. */
#define SINGLE_VERBS                                                                                                   \
    .perform = single_perform, .inspect = single_inspect, .broadcast = single_broadcast,                               \
    .waiter_poll = single_waiter_poll,                                                                                 \
    .configure = single_configure, .reclaimed = single_reclaimed, .leave = single_leave, .idle = single_idle

#endif
