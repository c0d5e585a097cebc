/*
 * redis.h -- a Redis in this process: it runs the shipped Lua scripts (liblua5.1) over a key space of its own.
 *
 * Its answers are those of redis-server 7.0, byte for byte where a script or a test can see them: tests/sim/differ
 * proves that against a real one. One thread, no clock: the time of every command is an argument.
 */
#ifndef RLOCKD_TESTS_SIM_REDIS_H
#define RLOCKD_TESTS_SIM_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/reply.h"
#include "daemon/base/slice.h"

struct sim_redis;

/* Empty, with these 40 hex digits as run_id and master_replid. Aborts when out of memory, as all of this does. */
struct sim_redis *sim_redis_new(const char *run_id, const char *replid);
void sim_redis_free(struct sim_redis **r);

/*
 * Runs one command. wall_us: this Redis's clock (TIME, expiry). The reply is valid until the next command. Commands:
 * commands.def; those that the scripts use, EVAL, EVALSHA, SCRIPT, INFO, and those that tests need to read data.
 */
const struct reply *sim_redis_command(struct sim_redis *r, int64_t wall_us, int words, const struct slice *word);

uint64_t sim_redis_calls(const struct sim_redis *r); /* how many commands scripts have run */

/*
 * Answers PUBLISH with the number of receivers. NULL: none. Without a message (p NULL) it only counts them, for NUMSUB.
 */
typedef int sim_publish_fn(void *ctx, struct slice channel, struct slice message, bool sharded);
void sim_redis_on_publish(struct sim_redis *r, sim_publish_fn *fn, void *ctx);

/*
 * A node of a cluster: the owner of each slot, as this node knows it, and the slot that it gives away or gets.
 * Borrowed: its owner may change it at any time. NULL: no cluster.
 */
enum { SIM_NO_OWNER = 255, SIM_NO_SLOT = 0xffff };

struct sim_slots {
    const uint8_t *owner;      /* of each slot: a node, or SIM_NO_OWNER */
    uint8_t self, other;       /* other: the node to which the open slot goes, or from which it comes */
    uint16_t gives, gets;      /* SIM_NO_SLOT: none */
    bool down;                 /* the node reaches no majority of the masters */
    const char *(*address)(void *ctx, uint8_t node);
    const char *(*nodes)(void *ctx); /* CLUSTER NODES */
    void *ctx;
};

void sim_redis_in_cluster(struct sim_redis *r, const struct sim_slots *slots);

/*
 * The error that a client gets in place of the command: MOVED, ASK, TRYAGAIN, CROSSSLOT, CLUSTERDOWN; NULL: the command
 * runs. Valid until the next call of this function. `asking`: after ASKING; counts for scripts of the next command,
 * too.
 */
const char *sim_redis_redirects(struct sim_redis *r, int64_t wall_us, bool asking, int words, const struct slice *word);

/*
 * MIGRATE ... REPLACE: the key leaves r, at time from_us of its clock, and is at the other node then. True: it has
 * replaced a newer one, which had a later end, or a higher number in a text without an end.
 */
bool sim_redis_migrate(struct sim_redis *r, int64_t from_us, struct sim_redis *to, int64_t to_us, struct slice key);
void sim_redis_delete(struct sim_redis *r, struct slice key);

/* The start of this process, for uptime_in_seconds; without this call, the time of its first command. */
void sim_redis_started(struct sim_redis *r, int64_t wall_us);

/*
 * Faults. A copy is a replica: its role is slave, it refuses writes, and hides expired keys but keeps them. Its run_id
 * is derived from r's, its master_replid is r's.
 */
struct sim_redis *sim_redis_copy(const struct sim_redis *r);     /* its data only: a snapshot, or a replica */
void sim_redis_restart(struct sim_redis *r, const struct sim_redis *data, const char *run_id,
                       const char *replid);                      /* data NULL: empty; scripts are forgotten */
void sim_redis_promote(struct sim_redis *r, const char *replid); /* a replica becomes master: data stays */
void sim_redis_flush(struct sim_redis *r);                       /* FLUSHALL */
void sim_redis_script_flush(struct sim_redis *r);
void sim_redis_alone(struct sim_redis *r, bool alone);           /* min-replicas-to-write not met: NOREPLICAS */
/* a replica with all data that the master has now */
void sim_redis_follow(struct sim_redis *r, const struct sim_redis *master);
void sim_redis_full(struct sim_redis *r, bool full);             /* maxmemory reached: OOM as 7.0.15 does it */
void sim_redis_refuse(struct sim_redis *r, const char *error);   /* "LOADING ...": to every command; NULL = no more */

/* The keys at wall_us, without expired ones, in an order that depends on the data alone. */
void sim_redis_keys(struct sim_redis *r, int64_t wall_us, void (*fn)(void *ctx, struct slice key), void *ctx);

/*
 * False: Redis returns this key in an order of its own (a set, a once large hash), the simulated one in order of
 * arrival.
 */
bool sim_redis_ordered(const struct sim_redis *r, struct slice key);

#endif
