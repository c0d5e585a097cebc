/*
 * backend_ops.h -- what a topology offers to the engine; backend.h says what each function does.
 */
#ifndef RLOCKD_BACKEND_BACKEND_OPS_H
#define RLOCKD_BACKEND_BACKEND_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/backend_env.h"
#include "daemon/backend/backend_status.h"

/*
 * The functions of a topology, in groups; backend.h explains each of them under the same name. Each has a type of its
 * own, so that the compiler checks what a topology implements: one function for a group would take untyped arguments.
 */
struct backend_ops {
    const char *schemes; /* the URLs of the topology: their beginnings, separated by blanks */
    uint32_t domains;    /* the number of domains (core_conf); 0 = one */
    bool several_shards; /* each with links of its own */
    /* its life */
    struct backend *(*open)(const struct backend_conf *conf, const struct backend_env *env, char error[160]);
    void (*leave)(struct backend *b);
    void (*close)(struct backend *b);
    /* where a key belongs, and whether it can be locked there; NULL: `domain` is 0, `can_lock` true, `refusal` "" */
    uint16_t (*domain)(const struct backend *b, struct slice key);
    bool (*can_lock)(const struct backend *b, enum kind kind, struct slice key, char why[160]);
    void (*refusal)(const struct backend *b, struct slice key, char why[160]);
    /* what is asked of Redis; each answer comes by backend_env */
    void (*perform)(struct backend *b, const struct core_op *op, enum core_action_type verb);
    void (*inspect)(struct backend *b, uint64_t id, struct slice key);
    void (*broadcast)(struct backend *b, struct slice what);
    void (*waiter_poll)(struct backend *b, const struct core_waiter_poll *p);
    /* the end of a turn */
    void (*flush)(struct backend *b);
    bool (*idle)(const struct backend *b);
    /* what has changed in the daemon: rules, passwords, what it reclaimed */
    void (*configure)(struct backend *b, int64_t longest_lease_us);
    bool (*login)(struct backend *b, const struct backend_conf *conf, char error[160]);
    void (*reclaimed)(struct backend *b, uint16_t domain, uint64_t epoch);
    /* what is shown */
    void (*status)(const struct backend *b, struct backend_status *out);
    size_t (*nodes)(const struct backend *b, struct backend_node out[BACKEND_NODES_MAX]);
};

/* The head of every topology's own record. */
struct backend {
    const struct backend_ops *ops;
};

/* One Redis; a master that sentinels name; independent masters, of which a majority has to agree; a Redis Cluster. */
extern const struct backend_ops standalone_ops, sentinel_ops, quorum_ops, cluster_ops;

#endif
